"""The fold over a Claude Code transcript: which session a record belongs to, what it is called,
what it follows.

Knows nothing of what a record says; `reader.py` does, and calls `emit` for every event. The traps
of the format are in the package's docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from hashlib import blake2b
from typing import Any, ClassVar, Unpack

import msgspec

from ...model import Usage
from .. import Facts, Normalized, Source
from ..shared.fold import REFUSALS, AllFields, Fold, keep, load
from ..shared.jsonl import lenient, parse
from ..shared.tools import cap, one_line, title_line
from .attempts import Extra, split_attempts
from .lines import CARRY, Counts, Fork, Line, Message, Meta, RareLine, SessionState, State, Tokens
from .paths import OVERFLOWS, SourcePath
from .teams import LEAD
from .words import (
    MERGED,
    TITLES,
    UUID,
    billed,
    checksum,
    clean,
    local_id,
    snapshot_time,
    speaker,
    tokens,
    utc,
)

# How many calls, messages and ids are remembered between two reads, the oldest going first.
CALLS, MESSAGES, SESSIONS, SIDE, RECENT, TAILS, REPEATS, LINKS = (
    256,
    64,
    256,
    1024,
    64,
    256,
    256,
    64,
)
# Lines of a message follow each other; those of subagents that run side by side come in between.
BILLS = 16

MAX_KEY = 300  # A session's name and a record's id. What is longer is no id that an agent made.

NOTHING = 0, 0, 0, 0

DESKTOP = "claude-desktop"
"""Prefix of the entry points of apps that fork a session by copying all its records under other ids
without recording the fork."""

_decode = msgspec.json.Decoder(Line).decode
_decode_rare = msgspec.json.Decoder(RareLine).decode


def _sum(found: list[Tokens]) -> Tokens:
    given, said, read, written = (sum(column) for column in zip(*found, strict=True))
    return given, said, read, written


def _highest(one: Tokens, other: Tokens) -> Tokens:
    return (
        max(one[0], other[0]),
        max(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


class ClaudeFold(Fold[State]):
    """A fold over the records of one transcript."""

    # Functions, and not methods of this fold, which would be a cycle: all that was made of a batch
    # would wait for one to be looked for.
    handlers: ClassVar[Mapping[str | None, Callable[[Any, Line], None]]]
    rare_handlers: ClassVar[Mapping[str | None, Callable[[Any, RareLine], None]]]

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, State, CARRY))
        self.path = SourcePath(source.path)
        self.hints = frozenset(source.hints)
        self.touched: dict[str, tuple[SessionState, str | None, int]] = {}
        """The sessions of this batch, by their key in the state, with the best title of each."""
        self.overflow: dict[str, str] = {}
        self.lead = ""
        """The session that leads the team of the line that comes next."""
        self.current = Line()
        self.session = SessionState("")
        self.key = self.session_uid = ""
        self.step: tuple[str, Tokens, Tokens] | None = None
        """Tokens for the next event: the message, what this line adds, the highest count so far."""

    def sidecar(self, name: str, data: bytes) -> None:
        if name in ("meta", "team"):
            values = (value for value, _, _ in parse(data) if isinstance(value, dict))
            meta, _ = lenient(Meta, next(values, {}))
            if name == "team":
                self.lead = clean(meta.leadSessionId or "")
                return
            self.turn_to(self.main(Line()), "")
            self.session.call = meta.toolUseId or self.session.call
            if meta.teamName and meta.name:
                self.session.member = one_line(meta.name)
                self.session.is_titled = bool(meta.description)
            self.set_title(meta.description, 2)
        else:
            # It belongs to the line that comes next, and nothing of it is remembered: at most a few
            # are held.
            keep(self.overflow, name.partition(":")[2], data.decode("utf-8", "replace"), OVERFLOWS)

    def record(self, data: bytes) -> None:
        try:
            line = _decode(data)
            handler = self.handlers.get(line.type)
            rare = None if handler else _decode_rare(data)
        except REFUSALS:
            self.tolerate(data)
            return
        self.raw = data
        if rare is not None:
            self.rare(rare)
        elif handler is not None:
            self.handle(handler, line)

    def take_damaged(self, value: dict[str, Any], text: str) -> list[str]:
        line, problems = lenient(RareLine, value)
        self.raw = text
        handler = self.handlers.get(line.type)
        if handler is not None:
            self.handle(handler, line)
        elif not self.rare(line):
            return []  # Nothing can be wrong with what is not known.
        return problems

    def handle(self, handler: Callable[[Any, Line], None], line: Line) -> None:
        self.begin_line(line)
        handler(self, line)
        if self.count != 1 or self.step is not None:
            self.end_line()

    def begin(self, raw: str | bytes) -> None:
        self.raw = raw
        self.begin_line(Line())

    def rare(self, line: RareLine) -> bool:
        """Take in a record that is not part of the conversation; return False if its type is not
        known."""
        kind = line.type
        if self.state.own_since is None and line.uuid is None:
            self.note_time(line)
        if kind in MERGED:
            self.take_fact(line, kind)
            return True
        handler = self.rare_handlers.get(kind)
        if handler is None and line.message and (role := speaker(line.message)):
            handler = self.handlers.get(role)  # Whatever the type was, this is what was said.
        self.begin_line(line)
        if handler:
            handler(self, line)
        else:
            self.unknown(kind)
        self.end_line()
        return handler is not None

    def take_fact(self, line: RareLine, kind: str) -> None:
        """Take in a fact about the session, which is no event. Such records are written again and
        again, so the last one counts."""
        self.merge(kind)
        if kind in TITLES:
            field, rank = TITLES[kind]
            self.turn_to(self.main(line), "")
            self.set_title(getattr(line, field), rank)
        elif kind == "summary" and self.has_leaf(line):
            self.turn_to(self.main(line), "")
            self.set_title(line.summary, 2)

    def has_leaf(self, line: RareLine) -> bool:
        """Return True if a summary is about this session, which has the record that it ends with.
        The file may also hold summaries of other sessions of its folder."""
        leaf = self.references((line.leafUuid,)) if line.leafUuid else ()
        return any(native in self.state.recent for native in leaf)

    def note_time(self, line: RareLine) -> None:
        """Note when the first record without a uuid was written. A fork copies none of them, so the
        file itself was written then."""
        ts = line.timestamp or snapshot_time(line.snapshot)
        self.state.own_since = ts and utc(ts)
        if self.state.own_since and (self.state.main or UUID.match(self.path.stem)):
            self.turn_to(self.main(line), "")

    # Which session, which id, which parent.

    def main(self, line: Line) -> SessionState:
        """Return the session of the file itself. It is named by the file where that is possible,
        else by the first session id in it."""
        state, place = self.state, self.path
        if state.main is None:
            named = clean((line.sessionId or "").partition("#")[0])
            stem = clean(place.stem) or "unknown"
            own = (
                f"agent-{clean(place.agent)}"
                if place.agent
                else f"journal-{clean(place.run)}"
                if place.run
                else ""
            )
            if own:
                state.root = clean(place.session) or named
                state.main = SessionState(f"{state.root}/{own}" if state.root else stem)
                if state.root:
                    state.main.parent, state.main.relation = (
                        self.uid(state.root),
                        "subagent",
                    )
                    if place.run_of_agent:
                        run = clean(place.run_of_agent)
                        state.main.call = f"{state.main.parent}/journal-{run}"
            else:
                state.root = stem if UUID.match(stem) else named or stem
                state.main = SessionState(state.root)
        return state.main

    def side(self, line: Line) -> str:
        """Return the key of the session that a line of an inline subagent belongs to, by the
        subagent's first line."""
        state, uuid = self.state, line.uuid or ""
        if line.agentId:
            key = f"agent-{clean(line.agentId)}"
        else:
            key = (
                state.side.get(line.parentUuid or "")
                or f"agent-{clean(uuid[:8] if len(uuid) == 36 else uuid) or 'unknown'}"
            )
            if uuid:
                keep(state.side, uuid, key, SIDE)
        if key not in state.sessions:
            self.sub(key)
        return key

    def sub(self, key: str) -> SessionState:
        state = self.state
        session = state.sessions.get(key)
        if session is None:
            state.has_dropped = state.has_dropped or len(state.sessions) >= SESSIONS
            start = state.events if state.has_dropped else 0
            session = SessionState(
                f"{state.root}/{key}",
                start,
                parent=self.uid(state.root),
                relation="subagent",
            )
            keep(state.sessions, key, session, SESSIONS)
        return session

    def begin_line(self, line: Line, session: SessionState | None = None, key: str = "") -> None:
        """Make this line the current one, in the session that it belongs to."""
        # One function, because it runs once for each line.
        state = self.state
        if session is None:
            session, key = self.session_of(line)
        if session is not self.session:
            self.turn_to(session, key)
        if not state.is_traced or line.forkedFrom is not None:
            self.trace(session, line)
        if line.teamName is not None and line.agentName and session.member is None:
            self.join_team(session, line.teamName, line.agentName)
        self.current, self.count, self.step = line, 0, None
        uuid = line.uuid
        if uuid:
            self.native_id = state.anchor = uuid if len(uuid) == 36 else local_id(state.root, uuid)
            if state.repeats:
                state.repeats.clear()
        else:
            self.native_id = ""
        if session.cwd is None:
            session.cwd = line.cwd
        if session.branch is None:
            session.branch = line.gitBranch or None
        ts = line.timestamp
        self.ts = ts if ts is None or ts.tzinfo is UTC else utc(ts)
        self.parent = None if line.parentUuid is None else self.reference(line.parentUuid)

    def session_of(self, line: Line) -> tuple[SessionState, str]:
        """Return the session that a line belongs to, and its key in the state."""
        main = self.state.main or self.main(line)
        if not line.isSidechain or self.path.agent:
            return main, ""
        key = self.side(line)
        return self.state.sessions[key], key

    def turn_to(self, session: SessionState, key: str) -> None:
        self.session, self.key, self.session_uid = session, key, self.uid(session.native)
        self.touched[key] = (session, *self.touched.get(key, (session, None, 0))[1:])

    def trace(self, session: SessionState, line: Line) -> None:
        """Note where a session comes from. A fork says so; a file that begins with another
        session's id continues that session."""
        fork = line.forkedFrom
        if fork and fork.sessionId and session.relation != "subagent":
            session.parent, session.relation = self.uid(clean(fork.sessionId)), "fork"
        if line.sessionId and not self.state.is_traced:
            self.state.is_traced = True
            origin = clean(line.sessionId)
            if (
                origin != session.native
                and session.relation is None
                and UUID.match(session.native)
                and UUID.match(origin)
            ):
                session.parent, session.relation = self.uid(origin), "continuation"

    def join_team(self, session: SessionState, team: str, name: str) -> None:
        """Note which member of a team a session is. It was started by the lead, like a subagent."""
        lead, self.lead = self.lead, ""
        if name == LEAD or session.native == lead or team == f"session-{session.native[:8]}":
            return
        session.member = one_line(name)
        if lead and session.relation is None:
            session.parent, session.relation = self.uid(lead), "subagent"

    def reference(self, uuid: str) -> str | None:
        """Return the native id that a uuid stands for: that of the last event of its record."""
        state = self.state
        if not uuid:
            return None
        if len(uuid) != 36:
            uuid = local_id(state.root, uuid)
        uuid = state.moved.get(uuid, uuid)
        return f"{uuid}#{state.tails[uuid]}" if uuid in state.tails else uuid

    def references(self, uuids: Iterable[str] | None) -> tuple[str, ...]:
        return tuple(
            [uuid if len(uuid) == 36 else local_id(self.state.root, uuid) for uuid in uuids or ()]
        )

    def new_id(self) -> str:
        """Return an id for a record that has none: the same wherever the file is cut, and in a copy
        of the file."""
        state = self.state
        key = blake2b(self.raw_bytes(), digest_size=8).digest()
        again = state.repeats.get(key, 0)
        keep(state.repeats, key, again + 1, REPEATS)
        anchor = (state.anchor or self.session.native).encode("utf-8", "replace")
        return "~" + blake2b(b"%s\n%d\n%s" % (anchor, again, key), digest_size=8).hexdigest()

    def stream(self) -> SessionState:
        return self.session

    def stream_uid(self) -> str:
        return self.session_uid

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
        part: int | str | None = None,
        **fields: Unpack[AllFields],
    ) -> str:
        """Add an event of the current record, and return its native id. A second record with the id
        of another gets an id of its own."""
        self.room -= 1
        if self.room < 0:
            return self.native_id
        body = cap(body)
        native_id = self.native_id
        if self.count:
            native_id = f"{native_id}#{self.count}"
        elif not native_id or native_id in self.state.recent:
            self.native_id = native_id = self.rename(body)
        else:
            keep(self.state.recent, native_id, body, RECENT)
        fork = self.current.forkedFrom
        self.put(
            native_id, kind, body, native, summary, role, tool, call_id, action, fields,
            None if fork is None else self.original_of(fork),
        )  # fmt: skip
        self.state.events += 1
        entrypoint = self.current.entrypoint
        if entrypoint is not None and entrypoint.startswith(DESKTOP):
            self.name_twin(native_id, kind, call_id, body)
        return native_id

    def name_twin(self, native_id: str, kind: str, call_id: str | None, body: str) -> None:
        """Name an event by what a copy of its record has as well: the ids of the API, or else its
        time and text."""
        line = self.current
        name = call_id or (line.message.id if line.message else None)
        if name is None and self.ts is None:
            return
        # The text of a result may be in a file of its own, which is not copied. Several texts of
        # the program may belong to one call.
        text = "" if call_id and kind != "lifecycle" else body
        words = (line.type, kind, name or str(self.ts), text)
        data = "\0".join(word or "" for word in words).encode("utf-8", "replace")
        self.out.twins[native_id] = f"twin:{blake2b(data, digest_size=16).hexdigest()}"

    def annotate(self, fields: AllFields) -> None:
        line, session = self.current, self.session
        if self.step is not None and line.message is not None:
            usage = self.usage_of_step(self.step)
            fields["usage"], fields["tokens"] = usage, usage.total
            fields["model"], self.step = line.message.model, None
        if line.cwd != session.cwd:
            fields["cwd"] = line.cwd
        if line.gitBranch != session.branch and line.gitBranch:
            fields["git_branch"] = line.gitBranch
        if line.isSidechain:
            fields["is_sidechain"] = True

    def rename(self, body: str) -> str:
        """Return the id of a record that has none, or one that another record has."""
        if not self.native_id:
            return self.new_id()
        before = self.state.recent[self.native_id]
        if before == (body if isinstance(before, str) else checksum(body)):
            return self.native_id
        return f"{self.native_id}~{checksum(body):08x}"

    def original_of(self, fork: Fork) -> str | None:
        uuid = fork.messageUuid
        if not uuid:
            return None
        original = uuid if len(uuid) == 36 else local_id(clean(fork.sessionId or ""), uuid)
        return f"{original}#{self.count}" if self.count else original

    def count_usage(self, line: Line) -> None:
        """Note the tokens that this line adds to those of its message, for the first event of the
        line."""
        message = line.message
        if message is None or message.usage is None:
            return
        counts, extra = split_attempts(message.usage, message.model)
        found = tokens(counts)
        self.bill(line, message, counts, extra)
        identity = message.id or ""
        if self.state.owed and identity in self.state.owed:
            found = _highest(found, self.state.owed[identity])
        before = self.state.usage.get(identity) if identity else None
        if before is None:
            if found != NOTHING:
                self.step = identity, found, found
        elif found != before:
            most = _highest(found, before)
            if most != before:
                self.step = (
                    identity,
                    (
                        most[0] - before[0],
                        most[1] - before[1],
                        most[2] - before[2],
                        most[3] - before[3],
                    ),
                    most,
                )

    def bill(self, line: Line, message: Message, counts: Counts, extra: list[Extra]) -> None:
        """Add the API call as this line counts it, and the attempts that are not in its figures.
        Figures that do not grow are added as well: a smaller one may be that of the main chain, and
        an equal one that of another request."""
        figures = [tokens(counts), *(tokens(part) for _, part in extra)]
        bill = _sum(figures), line.isSidechain is True, line.requestId
        if bill[0] == NOTHING or (message.id and self.state.bills.get(message.id) == bill):
            return
        if message.id:
            keep(self.state.bills, message.id, bill, BILLS)
        event = self.native_id = self.native_id or self.new_id()
        key = message.id or f"{self.session.native}/{event}"
        if len(key) > MAX_KEY:
            key = local_id(self.state.root, key)
        calls = [(key, counts, message.model)]
        calls += [(f"{key}/{end}", part, part.model or message.model) for end, part in extra]
        for (name, part, model), found in zip(calls, figures, strict=True):
            if found != NOTHING:
                call = billed(
                    part,
                    found,
                    name,
                    self.session_uid,
                    self.ts,
                    model,
                    bool(line.isSidechain),
                    line.requestId,
                )
                self.out.calls.append((call, event))

    def usage_of_step(self, step: tuple[str, Tokens, Tokens]) -> Usage:
        state = self.state
        identity, added, most = step
        if identity:
            keep(state.usage, identity, most, MESSAGES)
        if state.owed:
            state.owed.pop(identity, None)
            for other, owed in state.owed.items():
                paid = state.usage.get(other, NOTHING)
                more = [a + o - p for a, o, p in zip(added, owed, paid, strict=True)]
                added = more[0], more[1], more[2], more[3]
                keep(state.usage, other, owed, MESSAGES)
            state.owed.clear()
        return Usage(
            input_tokens=added[0],
            output_tokens=added[1],
            cache_read_tokens=added[2],
            cache_write_tokens=added[3],
        )

    def end_line(self) -> None:
        state = self.state
        if self.count > 1:
            keep(state.tails, self.native_id, self.count - 1, TAILS)
        elif not self.count and self.native_id:
            self.out.aliases[self.native_id] = self.parent
        if self.step is not None:
            identity, _, most = self.step
            keep(state.owed, identity or self.native_id, most, 4)

    def set_title(self, text: str | None, rank: int) -> bool:
        """Set the title of the current session, unless a better one is known."""
        if not (line := title_line(text, rank)):
            return False
        if (member := self.session.member) and rank < 3:
            if line == member:
                return False
            # It says what was asked of whom, as the agent's own titles do.
            line, rank = one_line(f"{member}: {line}"), 2
        if rank < self.touched[self.key][2]:
            return False
        self.touched[self.key] = (self.session, line, rank)
        return True

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        for session, title, rank in self.touched.values():
            # A subagent that is told in its session's file may have one of its own, which tells it
            # better.
            is_mirrored = session is not state.main and not self.path.agent and not self.path.run
            out.facts[self.uid(session.native)] = Facts(
                native_session_id=session.native, title=title, title_rank=rank, cwd=session.cwd,
                git_branch=session.branch,
                model=session.model, linked_repo=session.repo, task_ref=session.task,
                parent_uid=session.parent, parent_call=session.call,
                relation=session.relation, rank=int(is_mirrored),
                own_since=state.own_since if session is state.main else None,
            )  # fmt: skip
        state.recent = {
            key: checksum(body) if isinstance(body, str) else body
            for key, body in state.recent.items()
        }
        return self.pack()
