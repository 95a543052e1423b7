"""Filters of sessions as SQL, for every part of a store that chooses sessions."""

from __future__ import annotations

from typing import Any

from ...model import format_time
from ...text.clean import encoded
from ..filters import Filter
from .database import Database


def session_filter(db: Database, chosen: Filter) -> tuple[str, list[Any]]:
    """The filter as SQL."""
    parts: list[str] = []
    bindings: list[Any] = []

    def add(sql: str, *values: Any) -> None:
        parts.append(sql)
        bindings.extend(values)

    def like(column: str, pattern: str | None) -> None:
        if pattern is not None:
            add(*db.glob(f"lower({column})", pattern.lower(), is_part=True))

    equal = {
        "flavor": chosen.agent,
        "domain": chosen.domain,
        "machine": chosen.machine,
        "parent_uid": chosen.parent_uid,
        "outcome": chosen.outcome,
        "quality": chosen.quality,
    }
    for column, value in equal.items():
        if value is not None:
            add(f"{column} = ?", value)
    if chosen.name is not None:
        add(
            "(uid >= ? and uid < ? or native_session_id >= ? and native_session_id < ?)",
            *[chosen.name, chosen.name + "\U0010ffff"] * 2,
        )
    # The whole name, or what follows its last slash: `api` is also `acme/api`, and never
    # `api-docs`.
    if chosen.repo is not None:
        own = "substr(repo, length(rtrim(repo, replace(repo, '/', ''))) + 1)"
        (whole, pattern), (last, _) = (
            db.glob(f"lower({name})", chosen.repo.lower()) for name in ("repo", own)
        )
        add(f"({whole} or {last})", pattern, pattern)
    if chosen.cwd is not None and _is_whole(chosen.cwd):
        folder = chosen.cwd.rstrip("/\\")
        add(
            "(cwd = ? or substr(cwd, 1, cast(? as int)) in (?, ?))",
            folder,
            len(folder) + 1,
            folder + "/",
            folder + "\\",
        )
    else:
        like("cwd", chosen.cwd)
    like("git_branch", chosen.branch)
    like("model", chosen.model)
    if chosen.since is not None:
        add("ended_at >= ?", format_time(chosen.since))
    if chosen.until is not None:
        add("started_at < ?", format_time(chosen.until))
    if chosen.text is not None:
        has = (
            f"{db.instr}(lower(coalesce({column}, '')), ?) > 0"
            for column in ("title", "name", "cwd")
        )
        add(f"({' or '.join(has)})", *[chosen.text.lower()] * 3)
    if chosen.pinned:
        add("pinned = 1")
    if chosen.tag is not None:
        add(f"{db.instr}(tags, ?) > 0", encoded(chosen.tag).decode())
    if chosen.errors:
        add("errors > 0")
    if chosen.min_usd is not None:
        add("usd >= ?", chosen.min_usd)
    if chosen.parents_only and chosen.parent_uid is None:
        add("coalesce(relation, '') != 'subagent'")
    return ("where " + " and ".join(parts)) if parts else "", bindings


def high(last: int | None) -> int:
    """Return the last number of a range, where None means no end."""
    return (1 << 62) if last is None else last


def _is_whole(path: str) -> bool:
    """Whether it begins at the root, and has no signs of a pattern."""
    is_from_root = path.startswith("/") or (
        path[:1].isascii() and path[:1].isalpha() and path[1:3] in (":\\", ":/")
    )
    return is_from_root and not any(sign in path for sign in "*?[")
