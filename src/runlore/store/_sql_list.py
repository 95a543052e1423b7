"""What a store answers about its sessions in lists, in words that both databases understand: all
that `ls` and reports ask of it.

Nothing here writes, or knows how events and bodies are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import format_time
from ..text.clean import encoded
from ._sql import Speaker
from .asked import Filter
from .line import SessionLine

LINE = (
    "uid, flavor, coalesce(name, title), repo, domain, cwd, git_branch, model, started_at,"
    " ended_at, outcome, task_ref, machine, parent_uid, relation, events, errors, turns, retries,"
    " wall_clock_s, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, usd,"
    " source_path, source_bytes, source_missing_at, ingested_at, quality, evicted_at"
)
SORTS = {
    "ended": "ended_at",
    "started": "started_at",
    "events": "events",
    "errors": "errors",
    "tokens": "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens",
    "duration": "wall_clock_s",
    "cost": "usd",
}
_FEW = 500
"""Sessions that are asked for one by one; for more of them, all are read."""

UNCOVERED = (
    "(analyzed_hash is distinct from content_hash or analyzed_seq is distinct from last_seq)"
)
"""Of a session without a digest of all that is stored, as the index over them has it."""


class Lister(Speaker):
    """The part of a store that lists."""

    def _number(self, uid: str) -> int | None:
        row = self._one("select number from sessions where uid = ?", (uid,))
        return None if row is None else int(row[0])

    def find(self, name: str, limit: int = 10) -> list[str]:
        exact = self._all(
            "select uid from sessions where uid = ? or native_session_id = ?", (name, name)
        )
        if exact:
            return [uid for (uid,) in exact]
        # Prefixes as ranges, because `like` folds case and takes _ and % for wildcards.
        high = name + "\U0010ffff"
        sql = (
            "select uid from sessions where (uid >= ?1 and uid < ?2) or (native_session_id >= ?1"
            " and native_session_id < ?2) order by coalesce(relation, '') = 'subagent', ended_at"
            " desc nulls last, uid limit ?3"
        )
        return [uid for (uid,) in self._all(sql, (name, high, limit))]

    def sessions(
        self, chosen: Filter, *, sort: str = "ended", limit: int | None = None, offset: int = 0
    ) -> list[SessionLine]:
        where, bindings = self._where(chosen)
        sql = (
            f"select {LINE} from sessions {where} order by {SORTS[sort]} desc nulls last, uid limit"
            " ? offset ?"
        )
        return [SessionLine(*row) for row in self._all(sql, (*bindings, _high(limit), offset))]

    def uids(self, chosen: Filter, *, limit: int | None = None) -> list[str]:
        where, bindings = self._where(chosen)
        newest = (
            ""
            if limit is None
            else f" order by {SORTS['ended']} desc nulls last, uid limit {int(limit)}"
        )
        return [uid for (uid,) in self._all(f"select uid from sessions {where}{newest}", bindings)]

    def labels(self, uids: Sequence[str]) -> dict[str, tuple[str, str | None, str | None]]:
        sql = "select uid, flavor, coalesce(name, title), repo from sessions"
        if len(uids) > _FEW:
            wanted = set(uids)
            return {
                uid: (agent, title, repo)
                for uid, agent, title, repo in self._all(sql)
                if uid in wanted
            }
        rows = (
            self._all(f"{sql} where uid in (?{', ?' * (len(uids) - 1)})", tuple(uids))
            if uids
            else []
        )
        return {uid: (agent, title, repo) for uid, agent, title, repo in rows}

    def count(self, chosen: Filter) -> int:
        where, bindings = self._where(chosen)
        (count,) = self._one(f"select count(*) from sessions {where}", bindings)
        return int(count)

    def numbers(self, chosen: Filter) -> set[int]:
        where, bindings = self._where(chosen)
        return {number for (number,) in self._all(f"select number from sessions {where}", bindings)}

    def lines(self, numbers: Sequence[int]) -> dict[int, SessionLine]:
        sql = f"select number, {LINE} from carray(?) c join sessions on number = c.value"
        rows = self._all(sql, (self.ids(numbers),)) if numbers else []
        return {number: SessionLine(*line) for number, *line in rows}

    def newest(self, numbers: Sequence[int], *, by: str = "ended") -> list[int]:
        sql = (
            f"select number from carray(?) c join sessions on number = c.value order by {SORTS[by]}"
            " desc nulls last, uid"
        )
        return [number for (number,) in self._all(sql, (self.ids(numbers),))] if numbers else []

    def _where(self, chosen: Filter) -> tuple[str, list[Any]]:
        """The filter as SQL."""
        parts: list[str] = []
        bindings: list[Any] = []

        def add(sql: str, *values: Any) -> None:
            parts.append(sql)
            bindings.extend(values)

        def like(column: str, pattern: str | None) -> None:
            if pattern is not None:
                add(*self.glob(f"lower({column})", pattern.lower(), is_part=True))

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
                self.glob(f"lower({name})", chosen.repo.lower()) for name in ("repo", own)
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
                f"{self.instr}(lower(coalesce({column}, '')), ?) > 0"
                for column in ("title", "name", "cwd")
            )
            add(f"({' or '.join(has)})", *[chosen.text.lower()] * 3)
        if chosen.pinned:
            add("pinned = 1")
        if chosen.tag is not None:
            add(f"{self.instr}(tags, ?) > 0", encoded(chosen.tag).decode())
        if chosen.errors:
            add("errors > 0")
        if chosen.min_usd is not None:
            add("usd >= ?", chosen.min_usd)
        if chosen.parents_only and chosen.parent_uid is None:
            add("coalesce(relation, '') != 'subagent'")
        return ("where " + " and ".join(parts)) if parts else "", bindings


def _is_whole(path: str) -> bool:
    """Whether it begins at the root, and has no signs of a pattern."""
    is_from_root = path.startswith("/") or (
        path[:1].isascii() and path[:1].isalpha() and path[1:3] in (":\\", ":/")
    )
    return is_from_root and not any(sign in path for sign in "*?[")


def _high(last: int | None) -> int:
    return (1 << 62) if last is None else last
