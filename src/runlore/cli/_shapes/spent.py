"""What was used, and what it cost."""

from __future__ import annotations

from ._base import Number, Value


class Sums(Value):
    """What some calls add up to.

    reasoning_tokens: a part of output
    unpriced: calls without a price
    fuzzy: calls at the price of a model with a like name
    """

    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    reasoning_tokens: int
    web_searches: int
    total_tokens: int
    usd: Number
    unpriced: int
    fuzzy: int


class Row(Sums, kw_only=True):
    """A line of a report.

    key: the day, model, session, … that it is about; null for calls that do not say
    title: of the session; with agent and repo, in reports by session or subagent alone
    """

    key: str | None
    title: str | None = None
    agent: str | None = None
    repo: str | None = None


class Budget(Value):
    """A limit of your config.

    usd: spent today
    """

    name: str
    limit: Number
    usd: Number
    is_over: bool


class Report(Value):
    """Sums by day, model, session, …

    total: of all calls, also where -n leaves rows out
    """

    by: str
    timezone: str
    since: str | None
    until: str | None
    rows: list[Row]
    total: Sums
    budgets: list[Budget]


class Call(Value, kw_only=True):
    """An API call. What is 0, false or null in the ledger is here as well.

    key: the same in every copy of the call
    seq: the event that it is told in, or -1
    is_sum: the figure stands for several requests
    """

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


class Part(Value):
    """A line of a call's sum."""

    bucket: str
    count: int
    usd: Number


class Copy(Call, kw_only=True):
    """A copy that does not count, and why."""

    why: str


class Explained(Call, kw_only=True):
    """A call, and how its figures came about.

    usd_before: what it cost before it was priced again
    basis: listed, invoiced, none
    price: in words
    """

    usd: Number | None
    usd_before: Number | None
    basis: str | None
    price: str
    parts: list[Part]
    copies: list[Copy]


class Repeated(Value):
    """Copies of messages under another request id."""

    calls: int
    total_tokens: int


class Explanation(Value):
    """The calls of a session, and the sums of all of them.

    calls: the last 100, or as many as -n says
    elsewhere: calls of which it has a copy, and that count for another
    repeated: what a count by message and request, as other tools have it, would add
    """

    uid: str
    calls: list[Explained]
    elsewhere: list[Explained]
    total: Sums
    total_with_subagents: Sums
    repeated: Repeated


class Gap(Value):
    """A session whose events add up to other totals than its calls."""

    uid: str
    events_tokens: int
    ledger_tokens: int


class Lost(Value):
    """Tokens in the running total of a transcript, and in no record of it."""

    path: str
    tokens: int


class Doubts(Value):
    """What to know before trusting a figure.

    undated: calls without a time, which are in no day
    lost: what is in no figure
    cannot_know: what transcripts do not say
    """

    calls: int
    unpriced: list[Row]
    fuzzy: list[Row]
    assumed: list[Row]
    undated: Sums
    sessions: int
    gaps: list[Gap]
    lost: list[Lost]
    cannot_know: list[str]


class Wasted(Value):
    """What was spent on what led nowhere.

    any: each call of the first three once
    unplaced: calls of which nobody knows
    of: every call in question
    """

    abandoned: Sums
    retries: Sums
    failed: Sums
    any: Sums
    unplaced: Sums
    of: Sums
    sessions: int


class Repriced(Value):
    """What a new price sheet changed."""

    calls: int
    usd_before: Number
    usd: Number


class Refreshed(Repriced):
    """What a new price list brought.

    table: its version
    models: how many it knows
    """

    table: str
    models: int
    is_new: bool
