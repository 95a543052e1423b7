"""What lists and reports ask of a store, and the sums that they are given."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

SLOT = 900
"""Seconds. Every time zone of today differs from UTC by a multiple of it, so sums over slots become
sums over local days."""

SIDECHAIN = 1
"""Of the flags of a call: it was made beside the main line."""
ABANDONED, RETRIED, FAILED = 4, 8, 16
"""It led nowhere: it lies on an abandoned line, repeats an attempt that failed, or made one that
did."""
UNPLACED = 32
"""It has no event, in a session in which something led nowhere."""
WASTED = ABANDONED | RETRIED | FAILED
MARKS = WASTED | UNPLACED
"""The flags that follow from the digest of the session; the others come with the call."""
MARKED_FROM = 9
"""The version of the first digests that say what led nowhere. With an older one the flags of a
session's calls say nothing of it."""


class Filter(NamedTuple):
    """Which sessions a listing is about. Repo is a glob for the whole name or for what follows its
    last slash; cwd, branch and model are globs, or a part of the name; a cwd that is a whole path
    is that folder and what lies below. Times are compared with the session's end (`since`) and
    start (`until`)."""

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
    """What it cost at least. A session without a price costs nothing."""
    parents_only: bool = True
    """Leave subagents out: they are shown under their parent."""
    parent_uid: str | None = None
    name: str | None = None
    """The beginning of a uid or of a native id: a session and its subagents."""


class CallFilter(NamedTuple):
    """Which calls a report is about, those from `since` on and before `until`. The words for
    sessions mean what they mean in `Filter`; the model is that of the call."""

    since: datetime | None = None
    until: datetime | None = None
    agent: str | None = None
    model: str | None = None
    repo: str | None = None
    cwd: str | None = None
    branch: str | None = None
    machine: str | None = None
    session: str | None = None
    """A uid: that session, and its subagents."""
    is_subagent: bool | None = None
    """Only what subagents and side chains did, or only what they did not."""
    is_doubtful: bool = False
    """Only those without a price, with that of a model whose name is only alike, or with something
    assumed about it. For sums by a `price_…`: others are not made of single calls."""


class CallSum(NamedTuple):
    """What some calls add up to, by what they have in common. Exact: `usd` is in 1e-12 USD and may
    need more than 64 bits."""

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
    """Of the calls: those that have no price, or none yet. What an agent says in a model's place
    needs none."""
    fuzzy: int
    """Those with the price of a model whose name is only alike."""
