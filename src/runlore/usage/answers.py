"""Reports of this room as `runlore usage --json` prints them: amounts in USD, times as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import msgspec
from msgspec import UNSET, UnsetType

from ..model import USD, Call, format_time
from ..pricing.ledger import Part
from ..store import CallFilter, Store
from .budget import Spent
from .explain import Check, Copy, Explained, Explanation, Gap, Lost
from .report import Alone, Report, Row, total
from .waste import Wasted


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of some calls."""

    PRESENTS: ClassVar = (Row,)

    key: str | UnsetType | None = UNSET
    """The day, model, session, … that a row is about; null for calls that do not say."""
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    reasoning_tokens: int
    web_searches: int
    total_tokens: int
    usd: float
    unpriced: int
    fuzzy: int
    recorded: int
    agent: str | UnsetType | None = UNSET
    """The agent of the session, in reports by session or subagent; title and repo as well."""
    title: str | UnsetType | None = UNSET
    """The title of the session."""
    repo: str | UnsetType | None = UNSET
    """The repository of the session."""
    subagents: int | UnsetType = UNSET
    """The number of all subagents below the session, in reports by session."""
    usd_without_subagents: float | UnsetType = UNSET
    """The cost of the session's own calls, in reports by session."""
    total_tokens_without_subagents: int | UnsetType = UNSET
    """The tokens of the session's own calls, in reports by session."""

    @classmethod
    def of(cls, row: Row, **more: Any) -> Self:
        """Return the totals of a row, without its key."""
        return cls(**{name: getattr(row, name) for name in _ROW_FIELDS}, **more)

    @classmethod
    def named(cls, row: Row, **more: Any) -> Self:
        """Return the totals of a row, with its key."""
        return cls.of(row, key=row.key, **more)


_ROW_FIELDS = [
    name
    for name in Totals.__struct_fields__
    if name in Row.__struct_fields__[1:] or name in ("total_tokens", "usd")
]


class BudgetState(Spent, frozen=True, kw_only=True):
    """A budget of the configuration, and what was spent of it today."""

    is_over: bool


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Totals by day, model, session, …"""

    by: str
    timezone: str
    since: str | None
    until: str | None
    rows: list[Totals]
    total: Totals
    """The total of all calls, also if -n leaves rows out."""
    total_of_rows: Totals
    """The total of these rows."""
    budgets: list[BudgetState]

    @classmethod
    def of(
        cls,
        store: Store,
        report: Report,
        rows: Sequence[Row],
        chosen: CallFilter,
        budgets: Sequence[Spent],
    ) -> Self:
        labels: dict[str | None, dict[str, Any]] = {}
        if report.by in ("session", "subagent"):
            known = store.sessions.labels([row.key for row in rows if row.key])
            for row in rows:
                agent, title, repo = known.get(row.key or "", (None, None, None))
                labels[row.key] = {"agent": agent, "title": title, "repo": repo}
                if report.by == "session":
                    alone = report.alone.get(row.key, Alone(row, 0))
                    labels[row.key] |= {
                        "subagents": alone.subagents,
                        "usd_without_subagents": alone.row.usd,
                        "total_tokens_without_subagents": alone.row.total_tokens,
                    }
        return cls(
            by=report.by,
            timezone=report.timezone,
            since=format_time(chosen.since) if chosen.since else None,
            until=format_time(chosen.until) if chosen.until else None,
            rows=[Totals.named(row, **labels.get(row.key, {})) for row in rows],
            total=Totals.of(report.total),
            total_of_rows=Totals.of(total(rows)),
            budgets=[
                BudgetState(name=one.name, limit=one.limit, usd=one.usd, is_over=one.is_over)
                for one in budgets
            ],
        )


# ── one session ───────────────────────────────────────────────────────────────────────────────────
class CallFigures(msgspec.Struct, frozen=True, kw_only=True):
    """An API call. Fields that are 0, false or null in the ledger are included."""

    PRESENTS: ClassVar = (Call,)

    key: str
    session_uid: str
    seq: int
    ts: str | None
    provider: str | None
    model: str | None
    tier: str | None
    region: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    reasoning_tokens: int
    web_searches: int
    is_sidechain: bool
    is_sum: bool
    request_id: str | None
    total_tokens: int


class PricePart(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the sum that is the price of a call."""

    bucket: str
    count: int
    usd: float

    @classmethod
    def of(cls, part: Part) -> Self:
        return cls(bucket=part.bucket, count=part.count, usd=part.usd / USD)


class CallCopy(CallFigures, frozen=True, kw_only=True):
    """A copy of a call that does not count."""

    why: str
    """The reason why it does not count."""

    @classmethod
    def of(cls, copy: Copy) -> Self:
        return cls(**_call_fields(copy.call), why=copy.why)


class ExplainedCall(CallFigures, frozen=True, kw_only=True):
    """A call, and where its figures come from."""

    usd: float | None
    usd_before: float | None
    """The cost before it was priced again."""
    usd_recorded: float | None
    """The cost by its agent's own account, whether it counts or not."""
    basis: str | None
    """listed, invoiced, recorded, none."""
    price: str
    """The price in words."""
    parts: list[PricePart]
    copies: list[CallCopy]

    @classmethod
    def of(cls, one: Explained) -> Self:
        return cls(
            **_call_fields(one.call),
            usd=None if one.units is None else one.units / USD,
            usd_before=None if one.old_units is None else one.old_units / USD,
            usd_recorded=None if one.call.recorded is None else one.call.recorded / USD,
            basis=one.basis,
            price=one.price,
            parts=[PricePart.of(part) for part in one.parts],
            copies=[CallCopy.of(copy) for copy in one.copies],
        )


class RepeatedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of messages under another request id."""

    calls: int
    total_tokens: int


class SessionCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a session, and the totals of all of them."""

    PRESENTS: ClassVar = (Explanation,)

    uid: str
    calls: list[ExplainedCall]
    """The last 100, or as many as -n says."""
    elsewhere: list[ExplainedCall]
    total: Totals
    """The totals of the session's own calls."""
    total_with_subagents: Totals
    """The totals of its calls and of those of all subagents below it."""
    repeated: RepeatedCalls

    @classmethod
    def of(cls, uid: str, explanation: Explanation) -> Self:
        repeated = explanation.repeated
        return cls(
            uid=uid,
            calls=[ExplainedCall.of(one) for one in explanation.calls],
            elsewhere=[ExplainedCall.of(one) for one in explanation.elsewhere],
            total=Totals.of(explanation.own),
            total_with_subagents=Totals.of(explanation.with_subagents),
            repeated=RepeatedCalls(calls=repeated.calls, total_tokens=repeated.total_tokens),
        )


def _call_fields(call: Call) -> dict[str, Any]:
    fields = msgspec.structs.asdict(call)
    del fields["invoiced"], fields["recorded"]
    return {**fields, "ts": format_time(call.ts) if call.ts else None, "total_tokens": call.total}


# ── doubts and waste ──────────────────────────────────────────────────────────────────────────────
class UsageDoubts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts to know before trusting a figure."""

    PRESENTS: ClassVar = (Check,)

    calls: int
    unpriced: list[Totals]
    fuzzy: list[Totals]
    assumed: list[Totals]
    undated: Totals
    sessions: int
    gaps: list[Gap]
    lost: list[Lost]
    cannot_know: tuple[str, ...]

    @classmethod
    def of(cls, check: Check) -> Self:
        return cls(
            calls=check.calls,
            unpriced=[Totals.named(row) for row in check.unpriced],
            fuzzy=[Totals.named(row) for row in check.fuzzy],
            assumed=[Totals.named(row) for row in check.assumed],
            undated=Totals.of(check.undated),
            sessions=check.sessions,
            gaps=check.gaps,
            lost=check.lost,
            cannot_know=check.cannot_know,
        )


class WasteTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of calls that led nowhere. A call may be in several of these totals."""

    PRESENTS: ClassVar = (Wasted,)

    abandoned: Totals
    retries: Totals
    failed: Totals
    any: Totals
    unplaced: Totals
    of: Totals
    sessions: int

    @classmethod
    def from_wasted(cls, wasted: Wasted) -> Self:
        names = ("abandoned", "retries", "failed", "any", "unplaced", "of")
        rows = {name: Totals.of(getattr(wasted, name)) for name in names}
        return cls(**rows, sessions=wasted.sessions)
