"""The values that pass between an adapter and the rest of runlore."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from ...model import Call, Relation, SessionEvent

MARK = " -m runlore hooks run "
"""Part of every command that runlore adds to a list in an agent's settings: it tells our elements
from others."""

LOST = "tokens of a running total that no record tells of"
"""The end of the reason of a skip, after the number of tokens: the agent's own total grew by more
than the requests in its records account for."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file or a database of an agent, as `discover` returned it."""

    agent: str
    path: str
    root: str
    size: int
    mtime_ns: int
    inode: int = 0
    machine: str | None = None
    hints: tuple[str, ...] = ()
    """Facts that only the folder knows and `normalize` needs, in the adapter's own words."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The end of what has been read of a source, with hashes that show whether the part before it
    is still the same."""

    offset: int
    head: bytes = b""
    tail: bytes = b""
    records: int = 0


class Record(msgspec.Struct, frozen=True, gc=False):
    """One native record: a line, a row, or a sidecar (then `sidecar` is its name and `offset` is
    -1)."""

    data: bytes
    offset: int
    sidecar: str | None = None
    problem: str | None = None
    """The reason why the bytes could not be read as they are ("too long"); `data` then holds a
    part of them."""
    end: int = -1
    """The offset of the next record; -1 for a sidecar. The length of `data` does not tell it when
    `data` is only a part."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about one session in a batch; None where there is nothing new (but see `rank`). A carry
    holds no text that people wrote, so a title is given once, in the batch that has it, and the
    store remembers it."""

    native_session_id: str
    title: str | None = None
    title_rank: int = 0
    """0 for none, 1 for a prompt, 2 for a title by the agent, 3 for one by a person. The highest
    wins, and of two equals the later."""
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    repo: str | None = None
    """The name of the remote of the session's folder."""
    linked_repo: str | None = None
    """The repository of a pull request of the session, which need not be that of its folder."""
    task_ref: str | None = None
    parent_uid: str | None = None
    parent_call: str | None = None
    """The id of the call that started a subagent; or the uid of another session that the same call
    started and that its result names."""
    relation: Relation | None = None
    written_at: datetime | None = None
    """When the source was last written, for a format without times. It is the end of a session of
    which no event has a time."""
    own_since: datetime | None = None
    """The time of the first record that the agent never copies from one source to another: of two
    sources with the same events, the one with the earlier time is the original."""
    rank: int | None = 0
    """The rank of the source, where an agent keeps the whole session in several sources: 0 for the
    one that tells it best, higher for one that tells it worse. Only the best source of a session
    counts. A source of a worse rank gives its API calls the same keys as the best one, or gives
    none. None is for a source that adds to all the others and always counts."""


class Skip(msgspec.Struct, frozen=True):
    """A record, or a part of one, that could not be understood. Its text is kept as a `lifecycle`
    event where there is any."""

    offset: int
    reason: str


class Normalized(msgspec.Struct, kw_only=True):
    """The meaning of a batch of records. The first four lists are parallel, with one entry for each
    event.

    `seq` counts up from 0 within this source's stream of a session: the store adds the block.
    Earlier records are named by native id, and the store links them. Native ids are unique within a
    flavor, across all its sessions.
    """

    events: list[SessionEvent] = msgspec.field(default_factory=list)
    bodies: list[str] = msgspec.field(default_factory=list)
    parents: list[str | None] = msgspec.field(default_factory=list)
    """The native id of the event or alias that each one follows."""
    originals: list[str | None] = msgspec.field(default_factory=list)
    """The native id of the event that each one is a copy of, where the agent says so."""
    twins: dict[str, str] = msgspec.field(default_factory=dict)
    """By native id, a name for what the event says, where the agent may copy events under other
    ids: an event of another session with the same name is the same."""
    aliases: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Records that gave no event but stand in the chain: by native id, the id that each follows."""
    facts: dict[str, Facts] = msgspec.field(default_factory=dict)
    """By session uid, for every session that this batch touched."""
    merged: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of records that are part of something else (a title, a progress line), by native
    word."""
    skips: list[Skip] = msgspec.field(default_factory=list)
    calls: list[tuple[Call, str | None]] = msgspec.field(default_factory=list)
    """API calls, each with the native id of its event. Every copy of a call and every growing
    figure of one may be given: of those with the same key one is counted."""
    carry: bytes = b""
    """The state of the fold as msgpack, so that texts in it can be redacted like others."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A value that runlore adds to a settings file: at a path of keys, or in the list there."""

    path: tuple[str, ...]
    value: dict[str, Any]
    in_list: bool = False
    """If True, the parts of list elements that contain `MARK` are ours, and the element with them
    when it has nothing else. If False, the whole value at the path is ours."""
    since: tuple[int, ...] = ()
    """The first version of the agent that accepts it, where an older one refuses it."""


class Integration(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that make an agent call runlore, and its settings files that they go to. Files
    are named like roots: the first that can be expanded is meant."""

    hooks_files: tuple[str, ...]
    hooks: Callable[[Callable[[str], str]], list[Entry]]
    """Return the entries that call us, given a function from "start" or "end" to the command."""
    program: str = ""
    """The program whose `--version` tells which entries the agent accepts, where that differs."""
    server_files: tuple[str, ...]
    server: Callable[[list[str], dict[str, str]], list[Entry]]
    """Return the entry of an MCP server, given the words of its command and its variables."""
    answer: Literal["json", "text"] = "text"
    """The form in which a hook adds text to a session: JSON with `additionalContext`, or plain."""
    find_session: Callable[[Mapping[str, object], Mapping[str, str]], object] | None = None
    """Return the agent's id of the session that makes an MCP call, given the call's `_meta` and the
    environment of our server; nothing if the call is another agent's."""
    after_hooks: str = ""
    """What the user has to do before the entries take effect."""
