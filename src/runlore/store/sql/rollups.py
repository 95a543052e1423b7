"""Rollups: precomputed totals of API calls by session, model, flags and quarter of an hour.

Reports are computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from ...model import format_time
from ..filters import MARKED_FROM, MARKS, SIDECHAIN, SLOT, WASTED, CallFilter, CallSum, Filter
from .database import Database
from .filters import IS_LISTED, pattern_test, session_filter
from .sessions import UNCOVERED

_WHOLE_UNITS = 1_000_000
"""Money is added up in two parts, the whole multiples of this and the rest. Otherwise 92 calls of
the maximum price would overflow 64 bits."""

_START = datetime(1970, 1, 1, tzinfo=UTC)

_TOKENS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "reasoning_tokens",
    "web_searches",
)  # fmt: skip

_TOTALS = {
    "calls": "count(*)",
    **{name: f"cast(sum(c.{name}) as bigint)" for name in _TOKENS},
    "whole": f"cast(coalesce(sum(c.usd / {_WHOLE_UNITS}), 0) as bigint)",
    "rest": f"cast(coalesce(sum(c.usd % {_WHOLE_UNITS}), 0) as bigint)",
    "unpriced": (
        "count(*) filter (where (c.usd is null or c.basis = 'none') and (c.model is null or c.model"
        " not like '<%'))"
    ),
    "fuzzy": "count(*) filter (where c.price_match = 'fuzzy')",
}

_PRICED_SUM = "count(*) filter (where c.usd is not null and c.basis != 'none')"

_RECORDED_SUM = "count(*) filter (where c.usd is not null and c.basis = 'recorded')"

_USD = (
    "case when sum(priced) > 0 then (cast(sum(whole) as double precision) * 1000000.0 +"
    " cast(sum(rest) as double precision)) / 1e12 end"
)
"""The cost of a session in USD. Both databases compute it in the same steps, so that the same calls
give the same number."""

_OUTER = ", ".join(f"cast(sum(g.{name}) as bigint)" for name in (*_TOTALS, "recorded"))

_UNMARKED = (
    f"(select number from sessions where {UNCOVERED} union all select session from digests where"
    f" version < {MARKED_FROM})"
)
"""The sessions without a digest that says of all of their calls whether they led nowhere."""

_KEYS = {
    "agent": "s.flavor",
    "author": "s.author",
    "branch": "u.git_branch",
    "hour": f"g.slot / {3600 // SLOT}",
    "machine": "s.machine",
    "model": "g.model",
    "price_match": "g.price_match",
    "price_name": "g.price_name",
    "price_notes": "g.price_notes",
    "repo": "coalesce(u.repo, u.cwd)",
    "session": "u.uid",
    "subagent": (
        f"case when s.relation = 'subagent' then s.uid when g.flags & {SIDECHAIN} != 0 then"
        " 'sidechain' else 'main' end"
    ),
    "task": "coalesce(s.task_ref, u.task_ref)",
    "waste": f"case when g.session not in {_UNMARKED} then g.flags & {MARKS} end",
}
"""The keys of calls. Where a session was run is that of the session that started a subagent, `u`:
what a subagent costs belongs to it, whatever folder or branch the subagent worked in."""

_IF_ANY = "having count(*) > 0"

_EPOCH = 719_163
"""The ordinal of 1970-01-01. Seconds are counted from day 1 on, so that none are negative: both
databases then round a division in the same way."""

_TOPS = (
    "with recursive tops (number, uid, top) as (select s.number, s.uid, p.number from sessions s"
    " join sessions p on p.uid = s.parent_uid where s.relation = 'subagent' and"
    " (coalesce(p.relation, '') != 'subagent' or not exists (select 1 from sessions a where a.uid ="
    " p.parent_uid)) union all select s.number, s.uid, tops.top from tops join sessions s on"
    " s.parent_uid = tops.uid and s.relation = 'subagent') "
)

_TO_TOPS = (
    " left join tops t on t.number = g.session join sessions u on u.number = coalesce(t.top,"
    " g.session)"
)
"""Joins the session that a subagent works for. Sessions are joined and grouped by number, which is
faster than by uid."""

_EVENT_TOKENS = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens"

_CALL_TOKENS = (
    "input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens +"
    " cache_write_1h_tokens"
)

_BELOW = (
    "(with recursive below (uid) as (select uid from sessions where uid = ? union select s.uid from"
    " below join sessions s on s.parent_uid = below.uid and s.relation = 'subagent') select number"
    " from sessions where uid in (select uid from below))"
)


_CHOSEN = (
    "(with recursive chosen (number, uid) as (select number, uid from sessions {0} and"
    f" {IS_LISTED} union select s.number, s.uid from chosen join sessions s on"
    " s.parent_uid = chosen.uid and s.relation = 'subagent') select number from chosen)"
)
"""The sessions that a filter chooses, with their subagents, as a list counts them."""


class Rollups:
    """Reads and writes the rollups."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.changed: set[int] = set()
        """Sessions whose calls changed in the open transaction."""

    def sum(
        self, by: Sequence[str], chosen: CallFilter, offsets: Sequence[tuple[int, int]] = ()
    ) -> list[CallSum]:
        keys = [_day(offsets) if name == "day" else _KEYS[name] for name in by]
        prices = [name for name in by if name.startswith("price_")]
        assert prices or not chosen.is_doubtful
        table, bindings = self._calls_in(chosen, prices) if prices else self._rollups_in(chosen)
        where, more = self._where(chosen)
        tops, to_tops = (_TOPS, _TO_TOPS) if any("u." in key for key in keys) else ("", "")
        uses_sessions = any("s." in key for key in keys)
        sessions = " join sessions s on s.number = g.session" if uses_sessions else ""
        sql = (
            f"{tops}select {''.join(f'{key}, ' for key in keys)}{_OUTER} from {table} g"
            f"{sessions}{to_tops} {where} {_group_by(keys)}"
        )
        return [_sum(row, len(keys)) for row in self.db.all(sql, [*bindings, *more])]

    def wasteful(self, chosen: CallFilter) -> tuple[int, list[str]]:
        table, bindings = self._rollups_in(chosen)
        where, more = self._where(chosen)
        sessions = f"from {table} g {where} {'and' if where else 'where'} g.session"
        marked = (
            f"select count(distinct g.session) {sessions} not in {_UNMARKED} and g.flags & {WASTED}"
            " != 0"
        )
        unmarked = (
            f"select uid from sessions where number in (select g.session {sessions} in {_UNMARKED})"
            " order by uid"
        )
        (count,) = self.db.one(marked, [*bindings, *more])
        return count, [uid for (uid,) in self.db.all(unmarked, [*bindings, *more])]

    def gaps(self, agent: str | None) -> tuple[int, list[tuple[str, int, int]]]:
        where, bindings = session_filter(self.db, Filter(parents_only=False, agent=agent))
        events = f"(select number as session, {_EVENT_TOKENS} as tokens from sessions {where}) g"
        calls = f"(select session, {_CALL_TOKENS} as tokens from sums) g"
        by_top = (
            "select coalesce(t.top, g.session) as top, sum(g.tokens) as tokens from {} left join"
            " tops t on t.number = g.session group by 1"
        )
        both = f"({by_top.format(events)}) e join ({by_top.format(calls)}) c on c.top = e.top"
        rows = self.db.all(f"{_TOPS}select e.top, e.tokens, c.tokens from {both}", bindings)
        # Events of an agent that records no usage with them say nothing about the calls.
        wrong = {
            int(top): (int(of_events), int(of_calls))
            for top, of_events, of_calls in rows
            if of_events and of_events != of_calls
        }
        sql = "select number, uid from carray(?) w join sessions on number = w.value"
        uids = self.db.all(sql, (self.db.ids(wrong),)) if wrong else []
        return len(rows), [(uid, *wrong[number]) for number, uid in uids]

    def times(self) -> tuple[str, str] | None:
        in_slot = "session in (select session from sums where slot = (select {0}(slot) from sums))"
        ends = [
            f"(select {end}(ts) from calls where {in_slot.format(end)})" for end in ("min", "max")
        ]
        first, last = self.db.one(f"select {', '.join(ends)}")
        return None if first is None else (first, last)

    def wrong_rollups(self) -> list[int]:
        right = f"select {self._columns} from ledger c group by 1, 2, 3, 4"
        sql = (
            f"select session from (select * from (select * from ({right}) m except select * from"
            f" sums) a union all select * from (select * from sums except select * from ({right})"
            " m) b) c union select number from sessions s where usd is distinct from"
            f" (select {_USD} from sums where session = s.number)"
        )
        return [session for (session,) in self.db.all(sql)]

    def write_rollups(self) -> None:
        """Write the rollups of the sessions whose calls changed.

        This is done before a commit or a step, because a long session comes in many parts.
        """
        if not self.changed:
            return
        these = "(select c.value from carray(?) c)"
        sessions = self.db.ids(sorted(self.changed))
        self.db.execute(f"delete from sums where session in {these}", (sessions,))
        self.db.execute(
            f"insert into sums select {self._columns} from ledger c where c.session in {these}"
            " group by 1, 2, 3, 4",
            (sessions,),
        )
        self.db.execute(
            f"update sessions set usd = (select {_USD} from sums where session = number) where"
            f" number in {these}",
            (sessions,),
        )
        self.changed.clear()

    def _where(self, chosen: CallFilter) -> tuple[str, list[Any]]:
        parts: list[str] = []
        bindings: list[Any] = []
        if chosen.model is not None:
            test, values = pattern_test(self.db, "g.model", chosen.model, is_part=True)
            parts.append(test)
            bindings += values
        if chosen.session is not None:
            parts.append(f"g.session in {_BELOW}")
            bindings.append(chosen.session)
        if chosen.is_subagent is not None:
            sub = (
                f"(g.flags & {SIDECHAIN} != 0 or g.session in (select number from sessions where"
                " relation = 'subagent'))"
            )
            parts.append(sub if chosen.is_subagent else f"not {sub}")
        names = ("agent", "repo", "cwd", "branch", "machine", "author")
        sessions = Filter(parents_only=False, **{name: getattr(chosen, name) for name in names})
        where, more = session_filter(self.db, sessions)
        if where:
            parts.append(f"g.session in {_CHOSEN.format(where)}")
            bindings += more
        return f"where {' and '.join(parts)}" if parts else "", bindings

    @property
    def _columns(self) -> str:
        """The columns of the table `sums`, computed from calls."""
        return ", ".join([*self._levels.values(), *_TOTALS.values(), _PRICED_SUM, _RECORDED_SUM])

    @property
    def _levels(self) -> dict[str, str]:
        return {
            "session": "c.session",
            "model": "c.model",
            "flags": "c.flags",
            "slot": f"{self.db.epoch_of.format('c.ts')} / {SLOT}",
        }

    def _rollups_in(self, chosen: CallFilter) -> tuple[str, list[Any]]:
        """Return the rollups of a period as an SQL table, and the values of its placeholders.

        A period that begins or ends inside a slot gets the rollups of that part from the calls.
        """
        since, until = _slot(chosen.since, up=True), _slot(chosen.until, up=False)
        if since is None and until is None:
            return "sums", []
        tests = [
            "slot is not null",
            *([] if since is None else [f"slot >= {since}"]),
            *([] if until is None else [f"slot < {until}"]),
        ]
        table, bindings = f"select * from sums where {' and '.join(tests)}", []
        for edge in _edges(chosen, since, until):
            calls, times = self._calls_in(edge)
            table += f" union all select * from {calls} e"
            bindings += times
        return f"({table})", bindings

    def _calls_in(self, chosen: CallFilter, more: Sequence[str] = ()) -> tuple[str, list[Any]]:
        """Return rollups of a period, computed from its calls, as a table, and its values.

        They are also divided by the columns in `more`.
        """
        times = [
            (f"c.ts {sign} ?", format_time(time))
            for sign, time in ((">=", chosen.since), ("<", chosen.until))
            if time is not None
        ]
        tests = [test for test, _ in times]
        # There is no index of calls by time, because of its size. The rollups have the sessions.
        slots = [
            f"slot {sign} {_slot(time, up=False)}"
            for sign, time in ((">=", chosen.since), ("<=", chosen.until))
            if time is not None
        ]
        if slots:
            tests.append(f"c.session in (select session from sums where {' and '.join(slots)})")
        if chosen.is_doubtful:
            tests.append(
                "(c.usd is null or c.basis = 'none' or c.price_match = 'fuzzy' or c.price_notes is"
                " not null)"
            )
        where = f"where {' and '.join(tests)}" if tests else ""
        # The unary plus keeps SQLite from reading all calls in the order of their sessions, which
        # is much slower.
        levels = self._levels | {"session": "+c.session"} | {name: f"c.{name}" for name in more}
        totals = {**_TOTALS, "priced": _PRICED_SUM, "recorded": _RECORDED_SUM}
        columns = ", ".join(f"{sql} as {name}" for name, sql in {**levels, **totals}.items())
        return f"(select {columns} from ledger c {where} group by {', '.join(levels.values())})", [
            time for _, time in times
        ]


def _group_by(keys: Sequence[str]) -> str:
    """Return the end of a statement with these keys; without keys, it has one row or none."""
    if not keys:
        return _IF_ANY
    columns = ("u.number" if key == "u.uid" else str(n) for n, key in enumerate(keys, 1))
    return f"group by {', '.join(columns)}"


def _edges(chosen: CallFilter, since: int | None, until: int | None) -> Iterator[CallFilter]:
    """Yield the parts of a period before the slot `since` and from the slot `until` on."""
    if since is not None and until is not None and until < since:
        yield chosen
        return
    if since is not None and (edge := _START + timedelta(seconds=since * SLOT)) != chosen.since:
        yield CallFilter(since=chosen.since, until=edge)
    if until is not None and (edge := _START + timedelta(seconds=until * SLOT)) != chosen.until:
        yield CallFilter(since=edge, until=chosen.until)


def _slot(time: datetime | None, *, up: bool) -> int | None:
    """Return the slot of a time, or with `up` the first one that does not begin before it."""
    if time is None:
        return None
    slots = (time - _START) / timedelta(seconds=SLOT)
    # After the last slot of the year 9999, no time can be represented.
    return math.ceil(slots) if up and time.year < 9999 else math.floor(slots)


def _day(offsets: Sequence[tuple[int, int]]) -> str:
    """Return an expression for the ordinal of a slot's local date."""
    shift = str(offsets[0][1]) if offsets else "0"
    if len(offsets) > 1:
        cases = " ".join(
            f"when g.slot < {-(-start // SLOT)} then {offset}"
            for (_, offset), (start, _) in pairwise(offsets)
        )
        shift = f"case {cases} else {offsets[-1][1]} end"
    return f"(g.slot * {SLOT} + {shift} + {_EPOCH * 86_400}) / 86400"


def _sum(row: Sequence[Any], keys: int) -> CallSum:
    *counts, whole, rest, unpriced, fuzzy, recorded = row[keys:]
    usd = whole * _WHOLE_UNITS + rest
    return CallSum._make((row[:keys], *counts, usd, unpriced, fuzzy, recorded))
