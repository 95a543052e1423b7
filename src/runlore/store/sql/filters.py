"""Filters of sessions as SQL, for all parts of a store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from ...model import format_time
from ...text.clean import encoded
from ..filters import Filter
from ..outcomes import OUTCOME
from .database import Database, Test

MAX_AHEAD = timedelta(days=1)
"""How far a clock or a time zone may be wrong. A later time is not that of the session."""

SORT_TIME = "case when {0} > ? then coalesce(discovered_at, ingested_at) else {0} end"
"""The time by which sessions are sorted and selected, given the column and `latest_time()`: a time
in the future counts as that of the first reading."""

_FAMILY = (
    "(with recursive family (uid, number) as (select sessions.uid, sessions.number union select"
    " s.uid, s.number from family f join sessions s on s.parent_uid = f.uid and s.relation ="
    " 'subagent') select {0})"
)
FAMILY_TOTAL = _FAMILY.format("sum({0}) from family f join sessions s on s.number = f.number")
"""The total of an expression over a session and all subagents below it; their alias is `s`."""
FAMILY_CALLS = _FAMILY.format("sum({0}) from sums where session in (select number from family)")
"""The total of an expression over the rollups of a session and all subagents below it."""

IS_LISTED = (
    "(coalesce(relation, '') != 'subagent' or not exists (select 1 from sessions p where p.uid ="
    " sessions.parent_uid))"
)
"""The test for sessions that a list shows without their subagents. A subagent whose parent is not
stored is a session like any other."""


def latest_time() -> str:
    """Return the latest time that a session can have."""
    return format_time(datetime.now(UTC) + MAX_AHEAD)


def session_filter(db: Database, chosen: Filter) -> tuple[str, list[Any]]:
    """Return a filter as a `where` clause and its values; the clause is empty if it takes all."""
    tests = [
        *_name_tests(db, chosen),
        *_pattern_tests(db, chosen),
        *_time_and_text_tests(db, chosen),
        *_mark_tests(db, chosen),
    ]
    bindings = [value for _, values in tests for value in values]
    return ("where " + " and ".join(sql for sql, _ in tests)) if tests else "", bindings


def _name_tests(db: Database, chosen: Filter) -> Iterator[Test]:
    """Yield the tests of columns that are compared as a whole, and of the repository."""
    equal = {
        "flavor": chosen.agent,
        "domain": chosen.domain,
        "author": chosen.author,
        "parent_uid": chosen.parent_uid,
        OUTCOME: chosen.outcome,
        "quality": chosen.quality,
    }
    for column, value in equal.items():
        if value is not None:
            yield f"{column} = ?", (value,)
    if chosen.machine is not None:
        # Without a name it is this machine.
        own = " or machine is null" if chosen.machine == db.own_machine else ""
        yield f"(machine = ?{own})", (chosen.machine,)
    if chosen.name is not None:
        yield (
            "(uid >= ? and uid < ? or native_session_id >= ? and native_session_id < ?)",
            (chosen.name, chosen.name + "\U0010ffff") * 2,
        )
    if chosen.beginnings:
        tests = ["native_session_id >= ? and native_session_id < ?"] * len(chosen.beginnings)
        ends = (end for begin in chosen.beginnings for end in (begin, begin + "\U0010ffff"))
        yield f"({' or '.join(tests)})", tuple(ends)
    # The whole name, or the part after its last slash: `api` is also `acme/api`, and never
    # `api-docs`.
    if chosen.repo is not None:
        last_part = "substr(repo, length(rtrim(repo, replace(repo, '/', ''))) + 1)"
        (whole, values), (last, more) = (
            pattern_test(db, name, chosen.repo) for name in ("repo", last_part)
        )
        yield f"({whole} or {last})", (*values, *more)


def _pattern_tests(db: Database, chosen: Filter) -> Iterator[Test]:
    """Yield the tests of the folder, the branch and the model."""
    patterns = {"cwd": chosen.cwd, "git_branch": chosen.branch, "model": chosen.model}
    if chosen.cwd is not None and _is_whole_path(chosen.cwd):
        del patterns["cwd"]
        folder = chosen.cwd.rstrip("/\\")
        yield (
            "(cwd = ? or substr(cwd, 1, cast(? as int)) in (?, ?))",
            (folder, len(folder) + 1, folder + "/", folder + "\\"),
        )
    for column, pattern in patterns.items():
        if pattern is not None:
            yield pattern_test(db, column, pattern, is_part=True)


def pattern_test(db: Database, column: str, pattern: str, *, is_part: bool = False) -> Test:
    """Return the test of a column by a glob, or by exactly this name.

    A name may have signs of a glob in it: `claude-opus-4-6[1m]`.
    """
    test, value = db.glob(f"lower({column})", pattern.lower(), is_part=is_part)
    if not any(sign in pattern for sign in "*?["):
        return test, (value,)
    return f"({test} or lower({column}) = ?)", (value, pattern.lower())


def _time_and_text_tests(db: Database, chosen: Filter) -> Iterator[Test]:
    """Yield the tests of times and of a text in the title, the name or the folder."""
    horizon = latest_time()
    if chosen.since is not None:
        since = format_time(chosen.since)
        # The first test finds them by an index.
        yield f"(ended_at >= ? and {SORT_TIME.format('ended_at')} >= ?)", (since, horizon, since)
    if chosen.until is not None:
        # Without times of its own, a session has only that of its file, as its end.
        start = SORT_TIME.format("coalesce(started_at, ended_at)")
        yield f"{start} < ?", (horizon, format_time(chosen.until))
    if chosen.text is not None:
        contains = (
            f"{db.instr}(lower(coalesce({column}, '')), ?) > 0"
            for column in ("title", "name", "cwd")
        )
        yield f"({' or '.join(contains)})", (chosen.text.lower(),) * 3


def _mark_tests(db: Database, chosen: Filter) -> Iterator[Test]:
    """Yield the tests of marks, totals and the kind of session."""
    if chosen.pinned:
        yield "pinned = 1", ()
    if chosen.tag is not None:
        yield f"{db.instr}(tags, ?) > 0", (encoded(chosen.tag).decode(),)
    if chosen.errors:
        yield f"(errors > 0 or {FAMILY_TOTAL.format('s.errors')} > 0)", ()
    if chosen.min_usd is not None:
        yield f"{FAMILY_TOTAL.format('s.usd')} >= ?", (chosen.min_usd,)
    if chosen.parents_only and chosen.parent_uid is None:
        yield IS_LISTED, ()


def high(last: int | None) -> int:
    """Return the last number of a range, where None means no end."""
    return (1 << 62) if last is None else last


def _is_whole_path(path: str) -> bool:
    """Return True if a path begins at the root and has no wildcards."""
    is_from_root = path.startswith("/") or (
        path[:1].isascii() and path[:1].isalpha() and path[1:3] in (":\\", ":/")
    )
    return is_from_root and not any(sign in path for sign in "*?[")
