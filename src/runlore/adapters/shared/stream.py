"""The fold over one stream of records: which session it is, what a record is called, what it
follows. No agent's words.

Derived from by agents whose messages are told again as they grow, whose records name the record
that they follow, and by others.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar, Unpack

import msgspec
from msgspec.structs import force_setattr

from ...model import Relation, SessionEvent, Usage
from .fold import AllFields, keep
from .objects import Objects
from .pick import clean, identifier
from .tools import cap, one_line
from .values import Facts, Normalized, Source

# What is remembered between two reads, the oldest going first.
CALLS, REPEATS, ENTRIES = 500, 256, 512


class Call(msgspec.Struct, array_like=True, gc=False):
    """A call that was told, and whether its result was."""

    tool: str
    action: str
    is_test: bool = False
    is_done: bool = False
    is_cleared: bool = False


class Stream(Protocol):
    """Where the events of one session stand."""

    seq: int
    last: str | None
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
    """How often which record without an id was there."""
    calls: dict[str, Call] = {}


class Entries(State):
    entries: dict[str, tuple[bytes, int]] = msgspec.field(default_factory=dict)
    """Of the last records, by their names, what they were and how many events they had."""


S = TypeVar("S", bound=State)
E = TypeVar("E", bound=Entries)


class Fold(Objects, Generic[S]):
    """All that outlives a batch is in `state`; the rest is about the current record."""

    state: S

    def __init__(self, source: Source, state: S) -> None:
        super().__init__()
        self.flavor, self.state = source.agent, state
        self.folder, self.file = os.path.split(source.path)
        self.above = next(
            (
                clean(hint.removeprefix("parent:"))
                for hint in source.hints
                if hint.startswith("parent:")
            ),
            "",
        )
        """The session that a subagent's file lies below."""
        if self.above:
            state.parent, state.relation = self.uid(self.above), "subagent"
        self.parent: str | None = None
        self.original: str | None = None
        """The record that the agent says the current one is a copy of."""
        self.stamped: tuple[str | bytes | None, bytes] = (None, b"")
        """The last record that was stamped, and its stamp, which is asked for several times and
        made of all its bytes."""

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        self.parent, self.original = self.state.last, None

    def session(self, named: str | None = None) -> str:
        """The session of this file, once and for all: what its first record says, else the name of
        the file."""
        state = self.state
        if not state.session:
            own = clean(named or "") or clean(os.path.splitext(self.file)[0]) or "unknown"
            state.session = (
                f"{self.above}/agent-{own.removeprefix('agent-')}" if self.above else own
            )
        return state.session

    def stream(self) -> Stream:
        """Where the session stands that the current record belongs to, for a source may tell of
        several."""
        return self.state

    def current(self) -> str:
        """That session."""
        return self.session()

    def name(self, text: str | None, rank: int) -> None:
        """A title: 1 from a prompt, 2 of the agent's making, 3 given by a person."""
        if text and (line := one_line(text)) and rank >= self.title[1]:
            self.title = line, rank
            self.state.is_titled = True

    # Events.

    def identify(self, native: str) -> None:
        """Names the current record by what it says of itself."""
        self.native_id = self.state.anchor = native

    def stamp(self) -> bytes:
        """What tells the current record from others."""
        raw, stamp = self.stamped
        if raw is not self.raw:
            data = self.raw.encode("utf-8", "replace") if isinstance(self.raw, str) else self.raw
            stamp = blake2b(data, digest_size=8).digest()
            self.stamped = self.raw, stamp
        return stamp

    def anonymous(self) -> str:
        """An id for a record that has none: the same wherever the file is cut."""
        state, key = self.state, self.stamp()
        again = state.repeats.get(key, 0)
        keep(state.repeats, key, again + 1, REPEATS)
        anchor = f"{self.session()}/{state.anchor}".encode("utf-8", "replace")
        return "~" + blake2b(b"%s\n%d\n%s" % (anchor, again, key), digest_size=8).hexdigest()

    def emit(
        self,
        kind: str,
        body: str,
        native: str,
        summary: str | None = None,
        role: str | None = None,
        tool: str | None = None,
        call_id: str | None = None,
        action: str | None = None,
        part: int | None = None,
        **more: Unpack[AllFields],
    ) -> str:
        """One event of the current record, with the number of the part it is; gives back its native
        id."""
        self.room -= 1
        if self.room < 0:
            return self.native_id
        stream, out = self.stream(), self.out
        if not self.native_id:
            self.native_id = self.anonymous()
        number = self.count if part is None else part
        mark = f"#{number}" if number else ""
        native_id = self.native_id + mark
        body = cap(body)
        if stream.relation == "subagent":
            more["is_sidechain"] = True
        event = SessionEvent(
            session_uid=self.uid(self.current()), seq=stream.seq, ts=self.ts, kind=kind, role=role,
            tool=tool,
            summary=one_line(body if summary is None else summary), native_id=native_id,
            call_id=call_id, action=action,
            # What comes beside a record is the next one's.
            native=native, record=max(0, self.state.records - 1),
        )  # fmt: skip
        # It is known to nobody else yet, and arguments by dictionary cost as much as the event.
        for name, value in more.items():
            force_setattr(event, name, value)
        out.events.append(event)
        out.bodies.append(body)
        out.parents.append(self.parent)
        out.originals.append(None if self.original is None else self.original + mark)
        self.parent = stream.last = native_id
        stream.seq += 1
        self.count += 1
        return native_id

    def charge(self, used: Usage, model: str | None) -> str | None:
        """Says at the first event of the current record what the call of the model took; gives back
        its native id, if there is one."""
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
        out.carry = msgspec.msgpack.encode(state)
        return out


class EntryFold(Fold[E]):
    """For agents whose records have names: the same record twice is one, and another record with
    the same name gets one of its own."""

    def admit(self, name: str) -> bool:
        """Names the current record. False when it was told before."""
        entries = self.state.entries
        if name in entries and entries[name][0] != self.stamp():
            name = f"{name}~{self.stamp().hex()}"
        if name in entries:
            self.merge("told before")
            return False
        self.identify(name)
        return True

    def untold(self) -> str:
        """A name for a record that has none, made of what it says alone."""
        key = self.stamp()
        again = self.state.repeats.get(key, 0)
        keep(self.state.repeats, key, again + 1, REPEATS)
        return f"~{key.hex()}~{again}" if again else f"~{key.hex()}"

    def dismiss(self, name: str, follows: str | None) -> None:
        """After the current record, which has this name and follows that one: what comes later may
        hang on it."""
        if not self.count:
            self.out.aliases[name] = follows
        keep(self.state.entries, name, (self.stamp(), self.count), ENTRIES)

    def last_of(self, name: str) -> str | None:
        """What hangs on a record hangs on its last event."""
        _, count = self.state.entries.get(name, (b"", 0))
        return f"{name}#{count - 1}" if count > 1 else name


MOST_TALKS = 10_000  # Sessions of one source. What names more of them is made up.


class Talk(msgspec.Struct, array_like=True):
    """A session of a source that holds several."""

    seq: int = 0
    last: str | None = None
    relation: Relation | None = None
    model: str | None = None
    is_titled: bool = False


class Many(State):
    """What is remembered of such a source."""

    talks: dict[str, Talk] = msgspec.field(default_factory=dict)


M = TypeVar("M", bound=Many)


class Talks(Fold[M]):
    """The fold over a source that may hold several sessions: a record names its own, or belongs to
    that of the source."""

    def __init__(self, source: Source, state: M) -> None:
        super().__init__(source, state)
        self.talk: str | None = None
        """The session that the current record names."""
        self.titles: dict[str, tuple[str | None, int]] = {}
        """The sessions of this batch, and the best title that was found for each."""

    def turn_to(self, named: object) -> None:
        """From here on this session is meant; None for that of the source."""
        talks, self.talk = self.state.talks, clean(identifier(named) or "") or None
        if self.talk is not None and self.talk not in talks:
            if len(talks) < MOST_TALKS:
                talks[self.talk] = Talk()
            else:
                self.talk = None
        if self.talk is not None:
            self.titles.setdefault(self.talk, (None, 0))
        self.parent = self.stream().last

    def stream(self) -> M | Talk:
        return self.state if self.talk is None else self.state.talks[self.talk]

    def current(self) -> str:
        return self.session() if self.talk is None else self.talk

    def called(self, text: str | None, rank: int) -> None:
        """A title of the session that is meant; one from a prompt only where there is none yet."""
        if self.talk is None:
            if rank > 1 or not self.state.is_titled:
                self.name(text, rank)
            return
        talk = self.state.talks[self.talk]
        if (
            text
            and (line := one_line(text))
            and (rank > 1 or not talk.is_titled)
            and rank >= self.titles[self.talk][1]
        ):
            self.titles[self.talk], talk.is_titled = (line, rank), True

    def finish(self) -> Normalized:
        out, state = super().finish(), self.state
        if state.talks:  # Such a source has no session of its own, but for what names none.
            told = {event.session_uid for event in out.events}
            out.facts = {uid: facts for uid, facts in out.facts.items() if uid in told}
        for name, (title, rank) in self.titles.items():
            model = state.talks[name].model
            out.facts[self.uid(name)] = Facts(
                native_session_id=name, title=title, title_rank=rank, cwd=state.cwd, model=model
            )
        return out
