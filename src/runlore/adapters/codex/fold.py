"""The fold over a Codex rollout: which thread a record belongs to, what it is called, what it
follows, whether it was told before.

Knows little of what a record says; `reader` does, and calls `emit` for every event. See
`../codex.py` for the traps of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar, Unpack

import msgspec

from ...errors import ModelError
from ...model import parse_time
from .. import Facts, Normalized, Source
from ..shared.fold import MAX_REASON, REFUSALS, AllFields, Fold, keep, load
from ..shared.jsonl import MALFORMED, lenient, parse
from ..shared.pick import clean
from ..shared.tools import cap, one_line
from . import words
from .lines import CARRY, Header, Kin, Line, Payload, Replay, State
from .paths import thread_in

# How much is remembered between two reads, the oldest going first.
CALLS, DONE, SHELLS, TWINS, TOTALS, PROMPTS, TURNS, COUNTS = 256, 256, 64, 64, 64, 128, 64, 1024
CONTEXTS, REPLIES = 64, 128

# Records between a message and its twin: three have been seen, and parallel calls make it more.
NEAR = 40
# The same for what has no text, so that one cannot be told from another: four have been seen.
NEXT = 8
# A copied history is written in one go. A model takes longer to answer, and a person to type.
PAUSE_MS = 2_000
# The same where turns tell when they were, and only the fork's first one is damaged.
LONG_PAUSE_MS = 10_000
# Of what is remembered. No id is as long, and a carry is stored with every part of a file.
MAX_NAME = 200

RESPONSE, EVENT, ITEM = 0, 1, 2
"""The three that tell of the same message: what the model was sent, what the screen showed, what a
page of history holds."""

S = TypeVar("S", bound=msgspec.Struct)

_decode = msgspec.json.Decoder(Line).decode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_payload = msgspec.json.Decoder(Payload).decode


class CodexFold(Fold[State]):
    """A fold over the records of one rollout."""

    # Functions, and not methods of this fold, which would be a cycle: all that was made of a batch
    # would wait for one to be looked for.
    handlers: ClassVar[Mapping[str | None, Callable[[Any, Payload], None]]]

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, State, CARRY))
        self.path = source.path
        self.value: Any = MALFORMED
        self.current = Line()

    def sidecar(self, name: str, data: bytes) -> None:
        """Take the name of the thread, which is newer than what records say of it."""
        for value, _, _ in parse(data):
            if isinstance(value, dict) and isinstance(title := value.get("thread_name"), str):
                self.set_title(title, 3)

    def record(self, data: bytes) -> None:
        try:
            line = _decode(data)
        except REFUSALS:
            self.tolerate(data)
        else:
            self.raw, self.value = data, MALFORMED
            self.take_line(line)

    def take_damaged(self, value: dict[str, Any], text: str) -> list[str]:
        line, problems = lenient(Line, value)
        self.raw, self.value = text, value
        self.take_line(line, problems)
        return problems

    def strange(self, text: str, reason: str, native: str = "malformed") -> None:
        self.raw = text
        is_head = self.state.is_head
        self.begin_line(Line())
        self.state.is_head = is_head  # It may have been the first record of a thread.
        self.emit("lifecycle", text, native, reason)
        self.skip(reason)

    def take_line(self, line: Line, problems: list[str] | None = None) -> None:
        """Take in one record: find its type, and add its events."""
        payload = line.payload
        if payload is None and (payload := self.bare(line, problems)) is None:
            return
        kind = payload.type
        if kind is None or line.type == "session_meta":
            kind = (
                line.type
                if line.type in self.handlers
                else "message"
                if payload.role is not None
                else line.type
            )
        self.current = line
        if kind != "session_meta":  # Which must first say whose it is.
            self.begin_line(line)
            if self.state.replay is not None:
                self.advance(line, payload)
        handler = self.handlers.get(kind) or self.guess(payload)
        if handler is not None:
            handler(self, payload)
        else:
            self.unknown(kind)

    def guess(self, payload: Payload) -> Callable[[Any, Payload], None] | None:
        """Return the handler for a record of an unknown type, by its fields."""
        raise AssertionError("the reader has it")

    def bare(self, line: Line, problems: list[str] | None) -> Payload | None:
        """Return the payload of a line without envelope, as they were until 2025-09; None when the
        line was dealt with here."""
        header, _ = self.typed(Header, _decode_header)
        is_header = line.type is None and header.role is None and bytes(header.payload) == b""
        if is_header and header.record_type is not None:
            self.begin_line(line)
            self.merge(f"record_type/{header.record_type[:MAX_NAME]}")
            return None
        if is_header and header.id and not self.state.is_named and self.state.seq == 0:
            self.head(line, header)
            return None
        if bytes(header.payload) or (line.type not in self.handlers and header.role is None):
            self.begin_line(line)
            self.unknown(line.type)
            return None
        payload, more = self.typed(Payload, _decode_payload)
        if problems is not None:
            problems += more
        elif more:
            self.skip("; ".join(more)[:MAX_REASON])
        return payload

    def typed(self, kind: type[S], decode: Callable[[bytes], S]) -> tuple[S, list[str]]:
        """Return the current record itself as such a Struct, and the problems of values that do not
        fit."""
        if isinstance(self.raw, bytes):
            try:
                return decode(self.raw), []
            except REFUSALS:
                pass
        return lenient(kind, self.whole())

    def head(self, line: Line, header: Header) -> None:
        """Take in the first line of an old rollout, which has the only time in it."""
        state = self.state
        self.name(clean(header.id or ""))
        self.begin_line(line)
        state.began, state.is_named = self.ts, True
        self.place(
            None,
            header.git.branch if header.git else None,
            header.git.repository_url if header.git else None,
        )
        self.emit("lifecycle", "", "session", identity="session", summary="session started")

    def unknown(self, kind: str | None) -> None:
        word = (kind or "unknown")[:MAX_NAME]
        body = words.without_blobs(self.raw_text().encode("utf-8", "replace")).decode()
        self.emit("lifecycle", body, word, summary=one_line(word if kind else "unknown record"))

    # Which thread, which id, which parent.

    def name(self, thread: str) -> None:
        """Name the session of the file, once: by its first record where that has an id, else by the
        file's name."""
        state = self.state
        if not state.thread:
            state.thread = thread or thread_in(self.path)
            state.kin = [Kin(state.thread, words.born_at(state.thread))]

    def begin_line(self, line: Line) -> None:
        """Make this line the current one."""
        state = self.state
        if not state.thread:
            self.name("")
        self.current = line
        ts = line.timestamp
        self.ts = ts if isinstance(ts, datetime) and ts.tzinfo is UTC else time_of(ts)
        if self.ts is None:
            self.ts = state.began
        if state.is_head:
            state.is_head = line.type == "session_meta"

    def place(self, cwd: str | None, branch: str | None, remote: str | None) -> None:
        state = self.state
        state.cwd, state.branch = cwd or state.cwd, branch or state.branch
        state.repo = words.repo_of(remote) or state.repo

    @property
    def owner(self) -> str:
        """The thread whose history the current record is."""
        state = self.state
        return state.thread if state.replay is None else state.kin[state.replay.owner].id

    def enter(self, turn: str | None) -> None:
        """Begin a turn. Records are counted within it, so nothing else must be remembered to tell
        equal ones apart."""
        state = self.state
        turn = turn[:MAX_NAME] if turn else ""
        if not turn or turn == state.turn.partition("#")[0]:
            return
        before = state.turns.get(turn, 0)
        keep(state.turns, turn, before + 1, TURNS)
        state.turn = f"{turn}#{before}" if before else turn
        state.counts.clear()

    def advance(self, line: Line, payload: Payload) -> None:
        """Note one more record of a copied history, and find out whether it still is one."""
        replay = self.state.replay
        assert replay is not None
        if replay.until is not None and line.ordinal is not None:
            if line.ordinal >= replay.until:
                self.pass_on(0)
            return
        ms = None if self.ts is None else int(self.ts.timestamp() * 1000)
        is_turn = payload.turn_id is not None or payload.started_at is not None
        if is_turn and (at := _turn_time(payload)) is not None:
            replay.has_turns, replay.last_ms = True, ms
            owner = self.owner_at(at, replay)
            if owner != replay.owner:
                self.pass_on(owner)
        elif ms is not None and replay.born is not None and ms < replay.born:
            replay.is_early = True
        elif ms is not None:
            self.compare_times(ms, payload, replay)

    def owner_at(self, at: int, replay: Replay) -> int:
        """Return the number of the youngest thread that was there at this time (ms)."""
        kin = self.state.kin[: replay.owner + 1]
        born = (n for n, thread in enumerate(kin) if thread.born is not None and thread.born <= at)
        return next(born, replay.owner)

    def compare_times(self, ms: int, payload: Payload, replay: Replay) -> None:
        """End the copied history after a pause: it was written at once."""
        pause = LONG_PAUSE_MS if replay.has_turns else PAUSE_MS
        is_total = payload.type == "token_count"
        is_paused = replay.last_ms is not None and ms - replay.last_ms > pause
        if is_paused and is_total and not replay.has_rows:
            replay.is_late = True
        elif replay.is_early or (replay.is_late and not is_total) or is_paused:
            self.pass_on(0)
        replay.last_ms = ms
        replay.has_rows = replay.has_rows or payload.type is not None

    def pass_on(self, owner: int) -> None:
        """Note that from here on it is the history of a younger thread; that of the youngest is no
        copy."""
        state = self.state
        assert state.replay is not None
        state.replay.owner = owner
        if owner == 0:
            state.replay = None
        state.counts.clear()
        state.turns.clear()
        state.turn = ""
        state.epoch = 0

    def identify(self, identity: str) -> str:
        """Return the id of an event, made of its thread, its content, and how often that came in
        its turn. It is the same in every copy."""
        state = self.state
        key = blake2b(
            f"{state.turn}\0{identity}".encode("utf-8", "replace"), digest_size=8
        ).digest()
        counts = state.counts
        again = counts.get(key, 0)
        if len(counts) >= COUNTS and not again:
            counts.clear()
            state.epoch += 1
        counts[key] = again + 1
        owner = state.thread if state.replay is None else self.owner
        return (
            f"{owner}:{key.hex()}:{again}"
            if not state.epoch
            else f"{owner}:{key.hex()}:{state.epoch}.{again}"
        )

    def is_repeated(self, side: int, key: bytes, near: int = NEAR) -> bool:
        """Return True if another kind of record has given this message already. The one that comes
        first gives the event, so no cut can matter."""
        state = self.state
        *told, at = state.twins.pop(key, (0, 0, 0, 0))
        now = state.records
        if now - at > near:
            told = [0, 0, 0]
        elif (
            side == EVENT
            and now - at == 1
            and told[EVENT] > max(told[RESPONSE], told[ITEM])
            and key.startswith(b"user")
        ):
            keep(state.twins, key, (told[0], told[1], told[2], now), TWINS)
            return True  # A review tells what it was asked twice in a row.
        most = max(told)
        told[side] += 1
        keep(state.twins, key, (told[0], told[1], told[2], now), TWINS)
        return told[side] <= most

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
        *,
        identity: str | None = None,
        parent: str | None = None,
        native_id: str | None = None,
        **fields: Unpack[AllFields],
    ) -> str:
        """Add an event of the current record, and return its native id. It is named by its
        identity, which is what it says unless another is given."""
        self.room -= 1
        state = self.state
        if self.room < 0:
            return state.last or ""
        body = cap(body)
        if native_id is None:
            native_id = self.identify(
                f"{native}\0{call_id}\0{body}" if identity is None else identity
            )
        self.parent = parent or state.last
        self.put(
            native_id, kind, body, native, summary, role, tool, call_id, action, fields,
            None if state.replay is None else native_id,
        )  # fmt: skip
        if kind != "lifecycle" or state.anchor is None:
            state.anchor = native_id
        return native_id

    def stream(self) -> State:
        return self.state

    def stream_uid(self) -> str:
        return self.uid(self.state.thread)

    def annotate(self, fields: AllFields) -> None:
        state = self.state
        if state.is_side:
            fields["is_sidechain"] = True
        if state.here is not None and state.here != state.cwd and "cwd" not in fields:
            fields["cwd"] = state.here

    def whole(self) -> dict[str, Any]:
        """Return the whole record as plain data."""
        if self.value is MALFORMED:
            try:
                self.value = msgspec.json.decode(self.raw)
            except REFUSALS:  # The typed decoder does not look into what it does not need.
                self.value = next((value for value, _, _ in parse(self.raw_bytes())), None)
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> dict[str, Any]:
        """Return the payload of the record as plain data, or the record itself where it has no
        envelope."""
        value = self.whole()
        inner = value.get("payload", value)
        return inner if isinstance(inner, dict) else {}

    def start_replay(self, parent: str, until: int | None = None) -> Kin:
        """Note that the history of another thread follows, until something shows that it is our
        own."""
        state = self.state
        names = [thread.id for thread in state.kin]
        if parent not in names:
            state.kin.append(Kin(parent, words.born_at(parent)))
            names.append(parent)
        ms = None if self.ts is None else int(self.ts.timestamp() * 1000)
        if state.replay is None:
            state.replay = Replay(names.index(parent), state.kin[0].born, ms, until=until)
        else:
            state.replay.owner = names.index(parent)
        return state.kin[names.index(parent)]

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        if state.thread:
            title, rank = self.title
            out.facts[self.stream_uid()] = Facts(
                native_session_id=state.thread, title=title, title_rank=rank, cwd=state.cwd,
                git_branch=state.branch, model=state.model,
                repo=state.repo, task_ref=state.task, parent_uid=state.parent,
                relation=state.relation,
            )  # fmt: skip
        return self.pack()


def time_of(value: Any) -> datetime | None:
    """Return an aware time, whatever it was written as; None when it is none."""
    try:
        if isinstance(value, str | datetime):
            return parse_time(value)
        at = words.seconds(value)
        return None if at is None else datetime.fromtimestamp(at, UTC)
    except (ModelError, ValueError, OverflowError, OSError):
        return None


def _turn_time(payload: Payload) -> int | None:
    """Return when a turn began (ms), as far as it says itself; the time of the record may be that
    of a copy."""
    at = words.born_at(payload.turn_id or "")
    if at is None and (began := words.seconds(payload.started_at)) is not None:
        return int(began * 1000) + 999  # It is cut to the second.
    return at
