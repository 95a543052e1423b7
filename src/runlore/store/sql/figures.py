"""The figures of sessions: tokens and cost of their calls, alone and with their subagents.

Tokens are those of the ledger, so that a list, a session and a report say the same. The columns of
`sessions` have what the events say; they count for agents of which the ledger has no calls.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..session_line import SessionLine
from .database import Database

EVENT_TOKENS = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens"

CALL_TOKENS = (
    "input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens +"
    " cache_write_1h_tokens"
)

_FIELDS = SessionLine.__struct_fields__
_FLAVOR, _ERRORS, _USD = map(_FIELDS.index, ("agent", "errors", "usd"))
_TOKENS = slice(_FIELDS.index("input_tokens"), _FIELDS.index("cache_write_tokens") + 1)

_BELOW = (
    "with recursive below (top, uid, number) as (select t.number, s.uid, s.number from sessions t"
    " join sessions s on s.parent_uid = t.uid and s.relation = 'subagent' where t.number in (select"
    " value from carray(?)) union select b.top, s.uid, s.number from below b join sessions s on"
    " s.parent_uid = b.uid and s.relation = 'subagent')"
)

_TOTALS = ", ".join(
    f"cast(sum({name}) as bigint)"
    for name in (
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_5m_tokens + cache_write_1h_tokens",
        "reasoning_tokens",
        "whole",
        "rest",
        "priced",
        "unpriced",
    )
)


class CallTotals(NamedTuple):
    """The totals of the calls of a session. The cost is in parts, as in the table `sums`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    whole: int = 0
    rest: int = 0
    priced: int = 0
    unpriced: int = 0


class _Member(NamedTuple):
    """A session, or a subagent below it."""

    number: int
    errors: int
    event_tokens: int


class SqlFigures:
    """Reads the figures of sessions."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def complete(self, rows: Mapping[int, Sequence[Any]]) -> dict[int, SessionLine]:
        """Return lines of a list, by number, from the values of all columns but the last six."""
        if not rows:
            return {}
        subagents = self._subagents(rows)
        below = {one.number for some in subagents.values() for one in some}
        calls = self._calls(below.union(rows))
        counts_calls = functools.cache(self._counts_calls)  # Once for each agent, not for each row.
        lines = {}
        for number, row in rows.items():
            values, own = list(row), calls.get(number)
            is_in_ledger = own is not None or (any(row[_TOKENS]) and counts_calls(row[_FLAVOR]))
            if is_in_ledger:
                values[_TOKENS] = (own or CallTotals())[:4]
            unpriced = own.unpriced if own else 0
            if number in subagents:
                session = _Member(number, row[_ERRORS], sum(row[_TOKENS]))
                members = [session, *subagents[number]]
                values += _figures(members, calls, is_in_ledger=is_in_ledger)
            else:
                values += [0, values[_ERRORS], sum(values[_TOKENS]), values[_USD], unpriced]
            values.append(unpriced)
            lines[number] = SessionLine(*values)
        return lines

    def tokens_of(self, number: int, flavor: str) -> dict[str, int] | None:
        """Return the tokens of a session by the ledger; None if it has none of its agent."""
        own = self._calls([number]).get(number)
        if own is None and not self._counts_calls(flavor):
            return None
        return {name: getattr(own or CallTotals(), name) for name in CallTotals._fields[:5]}

    def _subagents(self, numbers: Iterable[int]) -> dict[int, list[_Member]]:
        """Return the subagents below each session that has any."""
        subagents: dict[int, list[_Member]] = {}
        sql = (
            f"{_BELOW} select b.top, s.number, s.errors, {EVENT_TOKENS} from below b join sessions"
            " s on s.number = b.number where b.number != b.top"
        )
        for top, *member in self.db.all(sql, (self.db.ids(numbers),)):
            subagents.setdefault(top, []).append(_Member(*member))
        return subagents

    def _calls(self, numbers: Iterable[int]) -> dict[int, CallTotals]:
        sql = (
            f"select session, {_TOTALS} from sums where session in (select value from carray(?))"
            " group by session"
        )
        rows = self.db.all(sql, (self.db.ids(numbers),))
        return {session: CallTotals(*totals) for session, *totals in rows}

    def _counts_calls(self, flavor: str) -> bool:
        """Return True if the ledger has calls of this agent."""
        sql = (
            "select 1 from sessions where flavor = ? and number in (select session from sums)"
            " limit 1"
        )
        return self.db.one(sql, (flavor,)) is not None


def _figures(
    members: Sequence[_Member], calls: Mapping[int, CallTotals], *, is_in_ledger: bool
) -> tuple[int, int, int, float | None, int]:
    """Return the figures of a session with its subagents, as a line has them."""
    some = [calls[one.number] for one in members if one.number in calls]
    total = CallTotals(*map(sum, zip(*some, strict=True))) if some else CallTotals()
    # The same steps as for the cost of a single session, so that equal sums are equal numbers.
    usd = (float(total.whole) * 1e6 + float(total.rest)) / 1e12 if total.priced else None
    errors = sum(one.errors for one in members)
    tokens = sum(total[:4]) if some or is_in_ledger else sum(one.event_tokens for one in members)
    return len(members) - 1, errors, tokens, usd, total.unpriced
