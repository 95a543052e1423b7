"""Folds over sources of one session, of records with names, and of several sessions.

They know which session a record belongs to, and name records that have no name. No agent's words.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Protocol, TypeVar, Unpack

import msgspec

from ...model import Relation, Usage
from .calls import Described
from .fold import AllFields, Fold, Stream, keep
from .pick import clean, identifier
from .tools import title_line
from .values import Facts, Normalized, Source

# What is remembered between two reads, the oldest going first.
CALLS, REPEATS, ENTRIES = 500, 256, 512


class Call(msgspec.Struct, array_like=True, gc=False):
    """A tool call, and whether its result was read."""

    tool: str
    action: str
    is_test: bool = False
    is_done: bool = False
    is_cleared: bool = False


class SessionStream(Stream, Protocol):
    """The end of one session's events, and what the session is to the one that it comes from."""

    relation: Relation | None


class State(msgspec.Struct, array_like=True):
    """Ids, names, paths and hashes; nothing that people wrote."""

    version: int = 0
    records: int = 0
    seq: int = 0
    session: str = ""
    last: str | None = None
    """The native id of the last event."""
    model: str | None = None
    cwd: str | None = None
    branch: str | None = None
    parent: str | None = None
    """The uid of the session that this one comes from."""
    relation: Relation | None = None
    call: str | None = None
    """The call that started it."""
    is_titled: bool = False
    anchor: str = ""
    repeats: dict[bytes, int] = {}
    """How often each record without an id was read, by its hash."""
    calls: dict[str, Call] = {}


class Entries(State):
    entries: dict[str, tuple[bytes, int]] = msgspec.field(default_factory=dict)
    """The hash and the number of events of the latest records, by name."""


S = TypeVar("S", bound=State)
E = TypeVar("E", bound=Entries)


class SessionFold(Fold[S]):
    """The fold over a source of one session."""

    def __init__(self, source: Source, state: S) -> None:
        super().__init__(source, state)
        self.folder, self.file = os.path.split(source.path)
        parents = [hint[7:] for hint in source.hints if hint.startswith("parent:")]
        self.above = clean(parents[0]) if parents else ""
        """The session that a subagent's file lies below."""
        if self.above:
            state.parent, state.relation = self.uid(self.above), "subagent"
        self.stamped: tuple[str | bytes | None, bytes] = (None, b"")
        """The record that was hashed last, and its hash, which is needed several times."""

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        self.parent, self.original = self.state.last, None

    # The session.

    def session(self, named: str | None = None) -> str:
        """Return the id of the source's session, which is set once: by the first record that names
        it, else by the file."""
        state = self.state
        if not state.session:
            own = clean(named or "") or clean(os.path.splitext(self.file)[0]) or "unknown"
            state.session = (
                f"{self.above}/agent-{own.removeprefix('agent-')}" if self.above else own
            )
        return state.session

    def stream(self) -> SessionStream:
        return self.state

    def current(self) -> str:
        """Return the id of the session that the current record belongs to."""
        return self.session()

    def stream_uid(self) -> str:
        return self.uid(self.current())

    def set_title(self, text: str | None, rank: int) -> bool:
        is_set = super().set_title(text, rank)
        self.state.is_titled = self.state.is_titled or is_set
        return is_set

    # Events.

    def identify(self, native: str) -> None:
        """Name the current record by what it says of itself."""
        self.native_id = self.state.anchor = native

    def stamp(self) -> bytes:
        """Return a hash that tells the current record from others."""
        raw, stamp = self.stamped
        if raw is not self.raw:
            stamp = blake2b(self.raw_bytes(), digest_size=8).digest()
            self.stamped = self.raw, stamp
        return stamp

    def new_id(self) -> str:
        """Return an id for a record that has none: the same wherever the file is cut."""
        state, key = self.state, self.stamp()
        again = state.repeats.get(key, 0)
        keep(state.repeats, key, again + 1, REPEATS)
        anchor = f"{self.session()}/{state.anchor}".encode("utf-8", "replace")
        return "~" + blake2b(b"%s\n%d\n%s" % (anchor, again, key), digest_size=8).hexdigest()

    def annotate(self, fields: AllFields) -> None:
        if self.stream().relation == "subagent":
            fields["is_sidechain"] = True

    def emit_call(
        self,
        call: Described,
        native: str,
        call_id: str | None,
        role: str | None = "assistant",
        part: int | str | None = None,
        **fields: Unpack[AllFields],
    ) -> str:
        """Add a tool call of the current record, and return its native id."""
        fields["files"] = call.files
        return self.emit(
            call.kind, call.body, native, call.summary, role, call.tool, call_id, call.action, part,
            **fields,
        )  # fmt: skip

    def remember_call(self, call_id: str | None, call: Described) -> None:
        """Remember a call for its result, if it has an id."""
        if call_id:
            remembered = Call(call.tool, call.action, call.kind == "test_run")
            keep(self.state.calls, call_id, remembered, CALLS)

    def charge(self, used: Usage, model: str | None) -> str | None:
        """Add usage to the first event of the current record; return its native id, or None if the
        record has no event."""
        if not self.count:
            return None
        place = len(self.out.events) - self.count
        first = self.out.events[place]
        self.out.events[place] = msgspec.structs.replace(
            first, usage=used, tokens=used.total, model=model
        )
        return first.native_id

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        if state.records:
            session = self.session()
            out.facts[self.uid(session)] = Facts(
                native_session_id=session, title=self.title[0], title_rank=self.title[1],
                cwd=state.cwd, git_branch=state.branch,
                model=state.model, parent_uid=state.parent, relation=state.relation,
                parent_call=state.call,
            )  # fmt: skip
        return self.pack()


class EntryFold(SessionFold[E]):
    """The fold over records with names: the same record twice is one, and another record with the
    same name gets a name of its own."""

    def admit(self, name: str) -> bool:
        """Name the current record; return False if the same one was read before."""
        entries = self.state.entries
        if name in entries and entries[name][0] != self.stamp():
            name = f"{name}~{self.stamp().hex()}"
        if name in entries:
            self.merge("told before")
            return False
        self.identify(name)
        return True

    def content_name(self) -> str:
        """Return a name for a record that has none, made of its content alone."""
        key = self.stamp()
        again = self.state.repeats.get(key, 0)
        keep(self.state.repeats, key, again + 1, REPEATS)
        return f"~{key.hex()}~{again}" if again else f"~{key.hex()}"

    def remember(self, name: str, follows: str | None) -> None:
        """Remember the current record by its name, after its events: later ones may follow it."""
        if not self.count:
            self.out.aliases[name] = follows
        keep(self.state.entries, name, (self.stamp(), self.count), ENTRIES)

    def last_of(self, name: str) -> str | None:
        """Return the native id of the last event of a record, which is what its followers
        follow."""
        _, count = self.state.entries.get(name, (b"", 0))
        return f"{name}#{count - 1}" if count > 1 else name


MAX_SESSIONS = 10_000  # Sessions of one source. What names more of them is made up.


class Thread(msgspec.Struct, array_like=True):
    """The state of one session of a source that holds several."""

    seq: int = 0
    last: str | None = None
    relation: Relation | None = None
    model: str | None = None
    is_titled: bool = False


class MultiState(State):
    """The state of a source of several sessions."""

    threads: dict[str, Thread] = msgspec.field(default_factory=dict)


M = TypeVar("M", bound=MultiState)


class MultiSessionFold(SessionFold[M]):
    """The fold over a source that may hold several sessions: a record names its own, or belongs to
    that of the source."""

    def __init__(self, source: Source, state: M) -> None:
        super().__init__(source, state)
        self.named: str | None = None
        """The session that the current record names."""
        self.titles: dict[str, tuple[str | None, int]] = {}
        """The sessions of this batch, and the best title of each."""

    def turn_to(self, named: object) -> None:
        """Make this session the current one; None means that of the source."""
        threads, self.named = self.state.threads, clean(identifier(named) or "") or None
        if self.named is not None and self.named not in threads:
            if len(threads) < MAX_SESSIONS:
                threads[self.named] = Thread()
            else:
                self.named = None
        if self.named is not None:
            self.titles.setdefault(self.named, (None, 0))
        self.parent = self.stream().last

    def stream(self) -> M | Thread:
        return self.state if self.named is None else self.state.threads[self.named]

    def current(self) -> str:
        return self.session() if self.named is None else self.named

    def set_current_title(self, text: str | None, rank: int) -> None:
        """Set the title of the current session; one from a prompt only where there is none yet."""
        if self.named is None:
            if rank > 1 or not self.state.is_titled:
                self.set_title(text, rank)
            return
        thread = self.state.threads[self.named]
        if (
            (line := title_line(text, rank))
            and (rank > 1 or not thread.is_titled)
            and rank >= self.titles[self.named][1]
        ):
            self.titles[self.named], thread.is_titled = (line, rank), True

    def finish(self) -> Normalized:
        out, state = super().finish(), self.state
        if state.threads:  # The source's own session is only that of records that name none.
            with_events = {event.session_uid for event in out.events}
            out.facts = {uid: facts for uid, facts in out.facts.items() if uid in with_events}
        for name, (title, rank) in self.titles.items():
            model = state.threads[name].model
            out.facts[self.uid(name)] = Facts(
                native_session_id=name, title=title, title_rank=rank, cwd=state.cwd, model=model
            )
        return out
