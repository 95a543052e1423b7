"""The lines of a Codex rollout as they are written, and what is remembered of them between two
reads.

Values only; what they mean is in `reader`. A field that is not named here is read, where it is
rare, from the plain record.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ...model import Relation, Tier

CARRY = 4
"""The layout of `State`. Never changed without the adapter's `version`: a carry of another layout
is not read, so numbering would begin at 0 again in the middle of a session."""

# What is read of a line. One wide Struct for every payload: a payload has a few of these fields
# only, so its decoding takes one pass, where a Struct for each type would take two. Fields of the
# same record stand together, in the order in which it has them.


class Block(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    image_url: Any = None


class Counts(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    total_tokens: int | None = None


class Info(msgspec.Struct, gc=False):
    total_token_usage: Counts | None = None
    last_token_usage: Counts | None = None
    model: str | None = None


class Git(msgspec.Struct, gc=False):
    branch: str | None = None
    repository_url: str | None = None


class Payload(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    role: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | dict[str, Any] | None = None
    call_id: str | None = None
    output: str | list[Block] | None = None
    summary: str | list[Block] | None = None
    content: str | list[Block] | None = None
    phase: str | None = None
    message: str | None = None
    text: str | None = None
    info: Info | None = None
    turn_id: str | None = None
    exit_code: int | None = None
    started_at: Any = None
    timestamp: Any = None
    cwd: str | None = None
    model: str | None = None
    approval_policy: Any = None
    source: Any = None
    git: Git | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    agent_path: str | None = None
    author: str | None = None
    recipient: str | None = None


class Line(msgspec.Struct, gc=False):
    timestamp: datetime | int | float | None = None
    ordinal: int | None = None
    type: str | None = None
    payload: Payload | None = None


class Header(msgspec.Struct, gc=False):
    """The fields that tell the kind of a line without envelope."""

    id: str | None = None
    record_type: str | None = None
    role: str | None = None
    git: Git | None = None
    payload: msgspec.Raw = msgspec.Raw()


# What is remembered between two reads: ids, paths, names and hashes, never text.


class Call(msgspec.Struct, array_like=True, gc=False):
    """A call whose result is still to come, and what has been told of its outcome."""

    tool: str
    action: str
    is_test: bool = False
    is_silent: bool = False
    """Its result says nothing that the call has not said."""
    is_pull: bool = False
    """It opens a pull request, and its result names it."""
    exit_code: int | None = None
    duration_ms: int | None = None
    failed: bool | None = None
    refs: tuple[str, ...] = ()


class Kin(msgspec.Struct, array_like=True, gc=False):
    """A thread whose history may stand in this file, and when it began (ms)."""

    id: str
    born: int | None = None
    is_emitted: bool = False


Total = tuple[int, int, int, int, int, int]
"""Input, cache read, cache write, output, reasoning, and the sum as it was written."""


class Replay(msgspec.Struct, array_like=True):
    """The position in the history that a fork begins with, which is a copy of its parent's."""

    owner: int
    """Whose history this is: a place in `State.kin`."""
    born: int | None = None
    """When the fork began, in ms."""
    last_ms: int | None = None
    is_early: bool = False
    """Whether the copies have their first times, which lie before the fork's."""
    has_turns: bool = False
    """Whether turns of the parent have been seen that tell when they were: then the fork's own
    will, too."""
    until: int | None = None
    """The ordinal of the fork's first own record, where it is written."""
    has_rows: bool = False
    """Whether anything but settings has been copied."""
    is_late: bool = False
    """Whether it begins with totals of tokens after a pause, which are the parent's as long as
    nothing else is told."""


class State(msgspec.Struct, array_like=True):
    version: int = CARRY
    records: int = 0
    seq: int = 0
    thread: str = ""
    is_named: bool = False
    """Whether the thread's own first record has been read."""
    is_head: bool = True
    """Whether nothing but such first records has been read."""
    began: datetime | None = None
    """For lines that have no time of their own."""
    kin: list[Kin] = []
    """This thread, the one that it was copied from, the one that that one was copied from…"""
    replay: Replay | None = None
    is_side: bool = False
    path: str | None = None
    cwd: str | None = None
    here: str | None = None
    """The folder of the current turn."""
    branch: str | None = None
    model: str | None = None
    repo: str | None = None
    policy: str | None = None
    task: str | None = None
    parent: str | None = None
    relation: Relation | None = None
    is_titled: bool = False
    turn: str = ""
    turns: dict[str, int] = {}
    """How often each of the last turns was entered."""
    last: str | None = None
    anchor: str | None = None
    """The last event that a prompt can follow."""
    prompts: list[tuple[str, str | None, bytes]] = []
    """The prompts that no rollback has taken back, what each follows, and a hash of its text."""
    contexts: dict[bytes, str] = {}
    replies: dict[bytes, str] = {}
    """The last texts of the program and of the model, by a hash, and their events: a compaction
    repeats some of them."""
    counts: dict[bytes, int] = {}
    epoch: int = 0
    twins: dict[bytes, tuple[int, int, int, int]] = {}
    """Messages, how often each of three sides has told them, and in which record last."""
    calls: dict[str, Call] = {}
    done: dict[str, bool] = {}
    """Calls that have had their result."""
    shells: dict[str, bool] = {}
    """Commands that go on running, and whether they run tests."""
    total: Total | None = None
    totals: dict[str, bool] = {}
    """The last sums of tokens: one that is written again is no new call."""
    has_spoken: bool = False
    """Whether the model has said anything of its own in this thread."""
    provider: str | None = None
    tier: Tier | None = None
    """Where requests go, and how they are served, as the last settings say."""
    has_own_total: bool = False
    """Whether the last sum of tokens was that of a request of this thread: a copy may leave some of
    its parent's out."""
