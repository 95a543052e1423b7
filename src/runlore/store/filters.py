"""Filters of sessions and of API calls, and the sums that reports are made of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

SLOT = 900
"""Seconds of a slot. Every time zone of today differs from UTC by a multiple of it, so sums over
slots can be added up to sums over local days."""

SIDECHAIN = 1
"""A flag of a call: it was made on a side chain."""
ABANDONED, RETRIED, FAILED = 4, 8, 16
"""Flags of a call that led nowhere: it is on an abandoned branch, repeats an attempt that failed,
or made an attempt that failed."""
UNPLACED = 32
"""A flag of a call without an event, in a session in which something led nowhere."""
WASTED = ABANDONED | RETRIED | FAILED
MARKS = WASTED | UNPLACED
"""The flags that are derived from the digest of the session; the others come with the call."""
MARKED_FROM = 9
"""The first version of digests with dead ends. With an older digest, the flags of a session's calls
do not say whether they led nowhere."""


class Filter(NamedTuple):
    """A filter of sessions.

    `repo` is a glob for the whole name, or for the part after its last slash. `cwd`, `branch` and
    `model` are globs, or a part of the name; a `cwd` that is a whole path means that folder and
    everything below it. `since` is compared with the end of a session, `until` with its start.
    """

    agent: str | None = None
    repo: str | None = None
    domain: str | None = None
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    machine: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    errors: bool = False
    outcome: str | None = None
    quality: str | None = None
    pinned: bool = False
    tag: str | None = None
    min_usd: float | None = None
    """The minimum cost. A session without a price costs nothing."""
    parents_only: bool = True
    """Leave out subagents, which are shown under their parent."""
    parent_uid: str | None = None
    name: str | None = None
    """The beginning of a uid or of a native id. It matches a session and its subagents."""
    beginnings: tuple[str, ...] = ()
    """Beginnings of native ids, at most a few hundred. A session needs one of them."""
    author: str | None = None
    """The person whose sessions they are, in a store that several share."""


class CallFilter(NamedTuple):
    """A filter of API calls: those from `since` on and before `until`.

    The fields about sessions have the same meaning as in `Filter`. `model` is that of the call.
    """

    since: datetime | None = None
    until: datetime | None = None
    agent: str | None = None
    model: str | None = None
    repo: str | None = None
    cwd: str | None = None
    branch: str | None = None
    machine: str | None = None
    session: str | None = None
    """A uid. It matches that session and its subagents."""
    is_subagent: bool | None = None
    """True: only calls of subagents and side chains. False: only the others."""
    is_doubtful: bool = False
    """Only calls without a price, with the price of a model whose name is only similar, or with an
    assumption about the price. Only for sums by a `price_…` key: other sums are not computed from
    single calls."""
    author: str | None = None


class CallSum(NamedTuple):
    """The sum of the API calls that have the same keys.

    It is exact: `usd` is in 1e-12 USD and may need more than 64 bits.
    """

    keys: tuple[Any, ...]
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    reasoning_tokens: int
    web_searches: int
    usd: int
    unpriced: int
    """The number of calls that have no price, or none yet. A call whose model is a placeholder of
    the agent (`<…>`) needs none and is not counted."""
    fuzzy: int
    """The number of calls with the price of a model whose name is only similar."""
    recorded: int
    """The number of calls without a price that cost what their agent itself recorded."""
