"""The lines of a Claude Code transcript as they are written, and what is remembered of them between
two reads.

Values only; what they mean is in `claude.py`. A field that is not named here is not read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ...model import Relation

CARRY = 3
"""The layout of `State`. Never changed without the adapter's `version`: a carry of another layout
is not read, so numbering would begin at 0 again in the middle of a session, over events that are
stored. A raised `version` reads every source anew."""

# What is read of a line. Fields stand in the order in which they are written: the decoder looks for
# the next one first.


class Blob(msgspec.Struct, gc=False):
    type: str | None = None
    data: str | None = None
    url: str | None = None


class Block(msgspec.Struct, gc=False):
    tool_use_id: str | None = None
    type: str | None = None
    content: str | list[Block] | Block | None = None
    is_error: bool | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    source: Blob | None = None
    tool_name: str | None = None
    title: str | None = None
    url: str | None = None


class CacheCreation(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ServerTools(msgspec.Struct, gc=False):
    web_search_requests: int | None = None


class Counts(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    server_tool_use: ServerTools | None = None
    service_tier: str | None = None
    cache_creation: CacheCreation | None = None
    inference_geo: str | None = None
    iterations: list[Iteration] | None = None
    speed: str | None = None


class Iteration(Counts, gc=False):
    """An attempt behind a message; see `attempts.py` for which of them are in its own figures."""

    type: str | None = None
    model: str | None = None


class Message(msgspec.Struct, gc=False):
    model: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: Counts | None = None


class Progress(msgspec.Struct, gc=False):
    message: Line | None = None
    type: str | None = None
    agentId: str | None = None


class Origin(msgspec.Struct, gc=False):
    kind: str | None = None


class Fork(msgspec.Struct, gc=False):
    sessionId: str | None = None
    messageUuid: str | None = None


class Segment(msgspec.Struct, gc=False):
    headUuid: str | None = None
    anchorUuid: str | None = None
    tailUuid: str | None = None


class Preserved(msgspec.Struct, gc=False):
    uuids: list[str] | None = None
    allUuids: list[str] | None = None


class Compaction(msgspec.Struct, gc=False):
    trigger: str | None = None
    preTokens: int | None = None
    preservedSegment: Segment | None = None
    preservedMessages: Preserved | None = None
    compactedToolIds: list[str] | None = None


class Line(msgspec.Struct, gc=False):
    """The fields that are decoded of every line. Fields that only few lines have are in `RareLine`,
    as each costs time on each line."""

    parentUuid: str | None = None
    isSidechain: bool | None = None
    agentId: str | None = None
    attachment: dict[str, Any] | None = None
    message: Message | None = None
    data: Progress | None = None
    parentToolUseID: str | None = None
    type: str | None = None
    uuid: str | None = None
    timestamp: datetime | None = None
    toolUseResult: msgspec.Raw = msgspec.Raw()
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    entrypoint: str | None = None
    cwd: str | None = None
    sessionId: str | None = None
    gitBranch: str | None = None
    isApiErrorMessage: bool | None = None
    requestId: str | None = None
    error: msgspec.Raw = msgspec.Raw()
    forkedFrom: Fork | None = None
    teamName: str | None = None
    agentName: str | None = None
    origin: Origin | None = None
    toolDenialKind: str | None = None


class RareLine(Line, gc=False):
    """A line of another type than `user`, `assistant`, `attachment` or `progress`."""

    logicalParentUuid: str | None = None
    subtype: str | None = None
    content: msgspec.Raw = msgspec.Raw()
    permissionMode: str | None = None
    compactMetadata: Compaction | None = None
    microcompactMetadata: Compaction | None = None
    durationMs: float | None = None
    retryInMs: float | None = None
    retryAttempt: int | None = None
    maxRetries: int | None = None
    hookErrors: msgspec.Raw = msgspec.Raw()
    hookAdditionalContext: msgspec.Raw = msgspec.Raw()
    retractedMessageUuids: list[str] | None = None
    summary: str | None = None
    leafUuid: str | None = None
    aiTitle: str | None = None
    customTitle: str | None = None
    prNumber: int | str | None = None
    prUrl: str | None = None
    prRepository: str | None = None
    snapshot: msgspec.Raw = msgspec.Raw()


class Outcome(msgspec.Struct, gc=False):
    """The fields of `toolUseResult` that the text of the result does not tell."""

    agentId: Any = None
    runId: Any = None
    interrupted: Any = None
    backgroundTaskId: Any = None
    returnCodeInterpretation: Any = None
    durationMs: Any = None
    totalDurationMs: Any = None
    durationSeconds: Any = None
    answers: Any = None
    plan: Any = None


class Meta(msgspec.Struct, gc=False):
    """The program's note about a subagent, or about a team."""

    description: str | None = None
    toolUseId: str | None = None
    name: str | None = None
    teamName: str | None = None
    leadSessionId: str | None = None


# What is remembered between two reads: ids, paths, names and hashes, never text.


Tokens = tuple[int, int, int, int]
"""Input, output, cache read, cache write."""
Bill = tuple[Tokens, bool, str | None]
"""What was last given to the ledger of a message: its tokens, whether on a sidechain, and of which
request."""


class Call(msgspec.Struct, array_like=True, gc=False):
    tool: str
    action: str
    is_test: bool


class SessionState(msgspec.Struct, array_like=True, gc=False):
    native: str
    seq: int = 0
    last: str | None = None
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    repo: str | None = None
    task: str | None = None
    parent: str | None = None
    relation: Relation | None = None
    call: str | None = None
    is_titled: bool = False
    member: str | None = None
    """Its name in a team that another session leads."""


class State(msgspec.Struct, array_like=True):
    version: int = CARRY
    records: int = 0
    events: int = 0
    root: str = ""
    """The native id of the session that this file belongs to, once it is known."""
    is_traced: bool = False
    """Whether a session id has been read, which may be that of the session which this one
    continues."""
    has_dropped: bool = False
    """Whether a session has been forgotten: a new one may then be an old one, and is counted from
    beyond all others."""
    main: SessionState | None = None
    sessions: dict[str, SessionState] = {}
    """Sessions of subagents in the same file, by what follows the root in their name."""
    anchor: str = ""
    """The last uuid, and how often which record without one came since."""
    repeats: dict[bytes, int] = {}
    mode: str | None = None
    link: str | None = None
    calls: dict[str, Call] = {}
    usage: dict[str, Tokens] = {}
    """The most that was seen of each API message's tokens."""
    owed: dict[str, Tokens] = {}
    """The same, of messages that have given no event yet."""
    bills: dict[str, Bill] = {}
    recent: dict[str, str | int] = {}
    """The first body of each recent uuid; its checksum once it has been stored."""
    side: dict[str, str] = {}
    tails: dict[str, int] = {}
    """Records of several events: how many there are after the first."""
    moved: dict[str, str] = {}
    """Where a chain goes on that a compaction has cut."""
    own_since: datetime | None = None
    """The time of the first record without a uuid that has one."""
    links: dict[bytes, bool] = {}
    """What was published, by a hash of where."""
