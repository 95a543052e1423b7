"""From events to what a store keeps: rows, segments of bodies, words. Pure, and run in the worker
processes.

The boundaries of segments follow from the sequence of events alone: a segment is closed by the
event that brings it to 64 KB, and one that is still open is filled up by the next read. So the
store is the same wherever the input was cut.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec
import zstandard
from msgspec.structs import force_setattr

from ..adapters import Facts, Record, read_loosely
from ..errors import StoreError
from ..model import (
    BLOCK,
    KINDS,
    SessionEvent,
    Tests,
    Usage,
    format_time,
    is_own,
    parse_time,
    shorten,
)
from ..timeline import Tally
from . import tsvectors
from .natives import hidden_id as hidden_id
from .natives import native_hash as native_hash
from .values import Piece, Segment, SegmentEvent, StreamState, Tail
from .words import index_text, mark

SEGMENT_BYTES = 64 * 1024
RECORDS_BYTES = 1024 * 1024
"""Native records are packed a megabyte at a time: they are read rarely, and larger pieces compress
better."""

SIDECHAIN, ERROR, GONE, CUT, ASIDE = 1, 2, 4, 8, 16
"""CUT: all that an eviction left of a part of a session, to be read again with it. ASIDE: another
store of the agent tells it better; it can be read by its number, because it may be cited, and is
found in no other way."""

ROW = (
    "seq", "ts", "kind", "parent_seq", "tool", "action", "flags", "exit_code", "native_id",
    "call_id", "summary",
    "offset", "length", "rest",
)  # fmt: skip
"""The columns of a row, in order."""
SEQ, TS, KIND, PARENT, TOOL, FLAGS, NATIVE_ID, CALL_ID, SUMMARY, OFFSET, LENGTH, REST = (
    0,
    1,
    2,
    3,
    4,
    6,
    8,
    9,
    10,
    11,
    12,
    13,
)

_COLUMN = {"user_msg": 0, "assistant_msg": 1, "thinking": 1}
"""Which column of the index a kind's body goes to; all others go to the third, `tool`."""


class Rest(
    msgspec.Struct,
    omit_defaults=True,
    gc=False,
    rename=dict(
        role="r",
        native="n",
        record="c",
        usage="u",
        tokens="t",
        duration_ms="d",
        files="f",
        cwd="w",
        git_branch="b",
        model="m",
        origin="o",
        tests="s",
        view="v",
        refs="e",
        extra="x",
        original="h",
    ),
):
    """The fields of an event that have no column of their own; short names, because they are on
    every row."""

    role: str | None = None
    native: str | None = None
    record: int | None = None
    usage: tuple[int, int, int, int, int] | None = None
    tokens: int = 0
    duration_ms: int | None = None
    files: tuple[str, ...] = ()
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    origin: str | None = None
    tests: Tests | None = None
    view: str | None = None
    refs: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    original: int | None = None
    """The hash of the native id that the agent says this is a copy of."""


_encode_rest = msgspec.msgpack.Encoder().encode
_decode_rest = msgspec.msgpack.Decoder(Rest).decode


class _Packers(threading.local):
    """One of each for each thread: two that use the same one get each other's bytes, or the process
    ends."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=1).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_packers = _Packers()


def column_of(kind: str) -> str:
    """The column of the index that has the bodies of this kind."""
    return ("prompt", "reply", "tool")[_COLUMN.get(kind, 2)]


def make_row(
    event: SessionEvent, seq: int, parent_seq: int | None, original: int | None = None
) -> list[Any]:
    """An event as a row, its body still to be placed."""
    usage, ts = event.usage, event.ts
    rest = Rest(
        event.role,
        event.native,
        event.record,
        (
            (
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.cache_write_tokens,
                usage.reasoning_tokens,
            )
            if usage
            else None
        ),
        event.tokens,
        event.duration_ms,
        event.files,
        event.cwd,
        event.git_branch,
        event.model,
        event.origin,
        event.tests,
        event.view,
        event.refs,
        event.extra,
        original,
    )
    return [
        seq,
        format_time(ts) if ts else None,
        event.kind,
        parent_seq,
        event.tool,
        event.action,
        event.is_sidechain * SIDECHAIN | event.is_error * ERROR | event.is_gone * GONE,
        event.exit_code,
        event.native_id,
        event.call_id,
        event.summary,
        None,
        None,
        _encode_rest(rest),
    ]


def read_row(uid: str, row: Sequence[Any], ref: str | None = None) -> SessionEvent:
    """The event of a row. A kind or a field that a newer version wrote is kept as it is."""
    (
        seq,
        ts,
        kind,
        parent,
        tool,
        action,
        flags,
        exit_code,
        native_id,
        call_id,
        summary,
        _,
        _,
        blob,
    ) = row
    rest = _decode_rest(blob)
    try:
        return SessionEvent(  # Named one by one: with a dictionary of them it takes a third longer.
            session_uid=uid, seq=seq, ts=parse_time(ts) if ts else None, kind=kind,
            parent_seq=parent, tool=tool, action=action,
            is_sidechain=bool(flags & SIDECHAIN), is_error=bool(flags & ERROR),
            is_gone=bool(flags & GONE), exit_code=exit_code,
            native_id=native_id, call_id=call_id, summary=summary, payload_ref=ref, role=rest.role,
            native=rest.native,
            record=rest.record, tokens=rest.tokens, duration_ms=rest.duration_ms, files=rest.files,
            cwd=rest.cwd,
            git_branch=rest.git_branch, model=rest.model, origin=rest.origin, tests=rest.tests,
            view=rest.view, refs=rest.refs,
            extra=rest.extra, usage=None if rest.usage is None else _usage(rest.usage),
        )  # fmt: skip
    except ValueError:
        if kind in KINDS:
            raise
        # A kind of a newer version: cannot be made here, can be kept.
        event = read_row(uid, [seq, ts, "lifecycle", *row[3:]], ref)
        force_setattr(event, "kind", kind)
        return event


def read_briefly(uid: str, row: Sequence[Any]) -> SessionEvent:
    """The event of (seq, kind, parent, flags, call id, tool, summary, rest), as an outline has it:
    without times, and most without the last three. A kind of a newer version is `lifecycle`."""
    seq, kind, parent, flags, call_id, tool, summary, blob = row
    rest = _decode_rest(blob) if blob is not None else None
    return SessionEvent(
        session_uid=uid, seq=seq, kind=kind if kind in KINDS else "lifecycle", parent_seq=parent,
        is_sidechain=bool(flags & SIDECHAIN),
        is_error=bool(flags & ERROR), call_id=call_id, tool=tool, summary=summary,
        files=rest.files if rest else (),
        origin=rest.origin if rest else None,
    )  # fmt: skip


def segment_event(row: Sequence[Any]) -> SegmentEvent:
    """What a search asks of a row: (seq, kind, ts, tool, whether it is an error, rest or None,
    offset, length)."""
    seq, kind, ts, tool, is_error, rest, offset, length = row
    return SegmentEvent(
        seq,
        kind,
        ts,
        tool,
        bool(is_error),
        _decode_rest(rest).files if rest else (),
        offset,
        length,
    )


def with_origin(row: Sequence[Any], origin: str | None, summary: str | None = None) -> list[Any]:
    """The row of a copy: it says where it happened, and has no body and no tokens of its own.
    Without an origin, and with another summary, it is the place of something that was forgotten."""
    rest = _decode_rest(row[REST])
    copy = msgspec.structs.replace(
        rest, origin=origin, usage=None, tokens=0, extra={}, files=rest.files if origin else ()
    )
    return [*row[:SUMMARY], row[SUMMARY] if origin else summary, None, None, _encode_rest(copy)]


def without_body(row: Sequence[Any]) -> list[Any]:
    """The row with its body still to be placed."""
    return [*row[:OFFSET], None, None, row[REST]]


def cut_down(row: list[Any]) -> None:
    """Marks a row whose body was just placed as what an eviction has left, without what is known
    elsewhere then: what it was called in `natives`, what it took in the ledger, and what it says in
    its body. One that is no longer in its source is all that there is of it."""
    row[FLAGS] |= CUT
    if row[FLAGS] & GONE:
        return
    row[NATIVE_ID] = row[CALL_ID] = None
    if row[OFFSET] is not None:
        row[SUMMARY] = None
    rest = _decode_rest(row[REST])
    native = rest.native if row[KIND] == "lifecycle" else None
    row[REST] = _encode_rest(
        msgspec.structs.replace(
            rest, native=native, record=None, usage=None, tokens=0, model=None, git_branch=None
        )
    )


def with_record(rest: bytes, record: int | None) -> bytes:
    """The rest of a row whose native record has another number now."""
    return _encode_rest(msgspec.structs.replace(_decode_rest(rest), record=record))


def copied(rest: bytes) -> tuple[str | None, int | None]:
    """Of a row's rest: where the event happened, when this is a reference to it; and the hash of
    what it is a copy of."""
    try:
        found = _decode_rest(rest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Damaged: the doctor has it derived again, and this is a part of that.
        return None, None
    return found.origin, found.original


def record_of(row: Sequence[Any]) -> int | None:
    """The number of a row's native record."""
    return _decode_rest(row[REST]).record


def redact_row(row: Sequence[Any], cleaner: Cleaner) -> list[Any] | None:
    """The row without secrets, or None when it has none."""
    text = cleaner.text
    rest = _decode_rest(row[REST])
    changed = msgspec.structs.replace(
        rest,
        files=tuple(text(file) for file in rest.files),
        cwd=text(rest.cwd) if rest.cwd else rest.cwd,
        git_branch=text(rest.git_branch) if rest.git_branch else rest.git_branch,
    )
    summary = text(row[SUMMARY]) if row[SUMMARY] else row[SUMMARY]
    if changed == rest and summary == row[SUMMARY]:
        return None
    return [*row[:SUMMARY], summary, row[OFFSET], row[LENGTH], _encode_rest(changed)]


def pack(rows: list[list[Any]], bodies: Sequence[bytes | None], tail: Tail | None) -> list[Segment]:
    """Places the bodies in segments, the first of which continues `tail`, and notes in each row
    where its body is."""
    segments: list[Segment] = []
    open_: _Open | None = _Open.of(tail) if tail is not None else None
    for row, body in zip(rows, bodies, strict=True):
        if open_ is not None and row[SEQ] // BLOCK != open_.first_seq // BLOCK:
            # Another source may have the blocks between: segments of a session do not overlap.
            segments.append(open_.close())
            open_ = None
        if open_ is None:
            open_ = _Open(row[SEQ])
        if body is not None:
            row[OFFSET], row[LENGTH] = open_.length, len(body)
            open_.add(row[KIND], row[TOOL], row[FLAGS], body)
        open_.last_seq = row[SEQ]
        if open_.length >= SEGMENT_BYTES:
            segments.append(open_.close())
            open_ = None
    if open_ is not None:
        segments.append(open_.close())
    return segments


def pack_one(rows: list[list[Any]], bodies: Sequence[bytes | None]) -> Segment:
    """The same as one segment, whatever its size."""
    open_ = _Open(rows[0][SEQ])
    for row, body in zip(rows, bodies, strict=True):
        if body is not None:
            row[OFFSET], row[LENGTH] = open_.length, len(body)
            open_.add(row[KIND], row[TOOL], row[FLAGS], body)
        open_.last_seq = row[SEQ]
    return open_.close()


class _Open:
    """A segment that is being filled."""

    __slots__ = ("bodies", "first_seq", "kinds", "last_seq", "length", "texts")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = self.last_seq = first_seq
        self.length = 0
        self.bodies: list[bytes] = []
        self.texts: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
        self.kinds: dict[tuple[str, str | None, int], list[bytes]] = {}
        """By kind, tool and whether it failed, which of the texts a body goes to: of thousands of
        events there are a dozen."""

    @classmethod
    def of(cls, tail: Tail) -> _Open:
        made = cls(tail.first_seq)
        for kind, tool, flags, offset, length in tail.events:
            made.add(kind, tool, flags, tail.data[offset : offset + length])
        made.last_seq = tail.last_seq
        return made

    def add(self, kind: str, tool: str | None, flags: int, body: bytes) -> None:
        self.bodies.append(body)
        self.length += len(body)
        if flags & ASIDE:
            return
        key = kind, tool, flags & ERROR
        texts = self.kinds.get(key)
        if texts is None:
            texts = self.kinds[key] = [] if is_own(tool) else self.texts[_COLUMN.get(kind, 2)]
        texts.append(body)

    def close(self) -> Segment:
        data = b"".join(self.bodies)
        prompt, reply, tool = (index_text(texts) for texts in self.texts)
        # What events there are, as words that nobody writes: a filter on events then need not
        # unpack every segment.
        marks = {mark("kind", kind) for kind, _, _ in self.kinds}
        marks |= {mark("tool", name) for _, name, _ in self.kinds if name}
        marks |= {mark("is", "error") for _, _, error in self.kinds if error}
        tool += ("\n" + " ".join(sorted(marks))).encode("utf-8", "replace")
        body = _packers.pack(data)
        return Segment(
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            length=len(data),
            hash=_hash(body),
            body=body,
            prompt=prompt,
            reply=reply,
            tool=tool,
        )


def cut_words(segment: Segment) -> None:
    """Has the words of a segment in place of its texts: for a store that takes them so."""
    segment.cut = tsvectors.cut_words(segment)
    segment.prompt = segment.reply = segment.tool = b""


def pack_text(data: bytes) -> tuple[int, bytes, bytes]:
    """The length, the hash and the packed bytes of something that is kept in one piece."""
    body = _packers.pack(data)
    return len(data), _hash(body), body


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def unpack(body: bytes, length: int, hash_: bytes) -> bytes:
    """The bodies of a segment. Raises StoreError when they are not what was stored."""
    try:
        data = _packers.unpack(body, max_output_size=length)
    except zstandard.ZstdError as error:
        raise StoreError(f"a segment cannot be unpacked ({error}); run `runlore doctor`") from None
    if len(data) != length or _hash(body) != hash_:
        raise StoreError("a segment is not what was stored; run `runlore doctor`")
    return data


def pack_records(records: Iterable[Record], first: int) -> list[tuple[int, int, int, bytes]]:
    """Native records as (number of the first, count, length, packed), a megabyte each. Small files
    beside the source are packed with them and not counted."""
    packed: list[tuple[int, int, int, bytes]] = []
    chunk: list[tuple[int, bytes, str | None]] = []
    count = size = 0

    def close() -> None:
        data = msgspec.msgpack.encode(chunk)
        packed.append((first, count, len(data), _packers.pack(data)))

    for record in records:
        data, aside = record.data, record.aside
        chunk.append((record.offset, data, aside))
        size += len(data)
        if aside is None:
            count += 1
            if size >= RECORDS_BYTES:
                close()
                first, chunk, count, size = first + count, [], 0, 0
    if chunk:
        close()
    return packed


def unpack_records(body: bytes, length: int) -> list[Record]:
    """What `pack_records` packed."""
    data = _packers.unpack(body, max_output_size=length)
    chunk = msgspec.msgpack.decode(data, type=list[tuple[int, bytes, str | None]])
    return [Record(line, offset, aside) for offset, line, aside in chunk]


def bodies_of(piece: Piece) -> list[bytes | None]:
    """The bodies of a piece's rows, out of its segments."""
    spans = [(s.last_seq, unpack(s.body, s.length, s.hash)) for s in piece.segments]
    bodies: list[bytes | None] = []
    at = 0
    for row in piece.rows:
        while spans[at][0] < row[SEQ]:
            at += 1
        bodies.append(
            None if row[OFFSET] is None else spans[at][1][row[OFFSET] : row[OFFSET] + row[LENGTH]]
        )
    return bodies


def repeated(piece: Piece) -> dict[int, int]:
    """The rows that repeat an earlier one, by its native id or as copies of it or of the same
    original, and which it is."""
    first: dict[int, int] = {}
    if not piece.originals:
        return {
            n: first[h] for n, h in enumerate(piece.natives) if h and first.setdefault(h, n) != n
        }
    found: dict[int, int] = {}
    originals = dict(piece.originals)
    for n, h in enumerate(piece.natives):
        names = [name for name in (h, originals.get(n)) if name]
        earlier = next((first[name] for name in names if name in first), None)
        if earlier is None:
            first.update(dict.fromkeys(names, n))
        else:
            found[n] = earlier
    return found


def outside(seq: int) -> int:
    """A parent that is not numbered within the stream but within the session is written as -1 -
    seq; and back."""
    return -1 - seq


def rebuild(
    piece: Piece,
    state: StreamState | None,
    replaced: dict[int, list[Any] | None],
    instead: dict[int, int],
) -> Piece:
    """The piece as it is when some rows are copies: None leaves the row out, another row stands in
    its place, without its body. What followed a row that was left out follows `instead`. Every sum
    over the rows is made again."""
    all_bodies = bodies_of(piece)
    rows: list[list[Any]] = []
    bodies: list[bytes | None] = []
    place: dict[int, int] = {}
    for n, row in enumerate(piece.rows):
        now = replaced.get(n, row)
        if now is None:
            continue
        place[n] = len(rows)
        rows.append(list(now))
        rows[-1][PARENT] = instead.get(now[PARENT], now[PARENT])
        bodies.append(None if n in replaced else all_bodies[n])
    tally = state.tally if state else Tally()
    segments = pack(rows, bodies, state.tail if state else None)
    return msgspec.structs.replace(
        piece,
        tally=tally.add(
            read_row(piece.session_uid, [*row[:PARENT], None, *row[PARENT + 1 :]]) for row in rows
        ),
        rows=[tuple(row) for row in rows],
        segments=segments,
        natives=[piece.natives[n] for n in place],
        links=[(place[n], parent) for n, parent in piece.links if n in place],
        originals=[(place[n], original) for n, original in piece.originals if n in place],
    )


def renumber(piece: Piece, numbers: dict[int, int], taken: set[int], fresh: int) -> Piece:
    """A newer adapter made other events of the same records: a native id that had a number keeps
    it, unless that is `taken`, the others get the number that counting gives them in the block
    `fresh`. What comes out is numbered within the session."""
    number: dict[int, int] = {}
    for h, row in zip(piece.natives, piece.rows, strict=True):
        known = numbers.get(h)
        number[row[SEQ]] = fresh * BLOCK + row[SEQ] if known is None or known in taken else known
        taken.add(number[row[SEQ]])
    parent_of = {row[SEQ]: row[PARENT] for row in piece.rows}
    all_bodies = bodies_of(piece)
    order = sorted(range(len(piece.rows)), key=lambda n: number[piece.rows[n][SEQ]])
    rows: list[list[Any]] = []
    for n in order:
        made = list(piece.rows[n])
        seq, parent = number[made[SEQ]], made[PARENT]
        # The parent may be one of the new ones and lie behind: then the one before it is the
        # parent.
        while parent is not None and number.get(parent, seq) >= seq:
            parent = parent_of.get(parent)
        made[SEQ], made[PARENT] = seq, None if parent is None else number[parent]
        rows.append(made)
    segments = pack(rows, [all_bodies[n] for n in order], None)
    place = {n: at for at, n in enumerate(order)}
    return msgspec.structs.replace(
        piece,
        rows=[tuple(row) for row in rows],
        segments=segments,
        natives=[piece.natives[n] for n in order],
        links=[(place[n], h) for n, h in piece.links],
        originals=[(place[n], h) for n, h in piece.originals],
    )


class Cleaner(Protocol):
    """What takes secrets out: see `redact.Redactor`."""

    def text(self, text: str) -> str:
        """The text without its secrets."""

    def value(self, value: Any) -> Any:
        """A decoded JSON value without its secrets; the same object when there are none."""


def redact_record(line: bytes, cleaner: Cleaner) -> bytes:
    """A native record with every decoded string cleaned; what is not JSON is cleaned as the text it
    is."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        loose = read_loosely(line)
        if loose:
            import json

            cleaned = [cleaner.value(value) for value in loose]
            same = all(new is old for new, old in zip(cleaned, loose, strict=True))
            return (
                line
                if same
                else " ".join(json.dumps(value, ensure_ascii=False) for value in cleaned).encode(
                    "utf-8", "replace"
                )
            )
        plain = line.decode("utf-8", "replace")
        clean = cleaner.text(plain)
        return line if clean == plain else clean.encode("utf-8", "replace")
    clean_value = cleaner.value(value)
    return line if clean_value is value else msgspec.json.encode(clean_value)


def clean_facts(facts: Facts, text: Callable[[str], str]) -> Facts:
    """The same without secrets in what came from the records."""
    names = ("title", "cwd", "git_branch", "model", "repo", "task_ref")
    clean = msgspec.structs.replace(
        facts, **{name: text(value) for name in names if (value := getattr(facts, name))}
    )
    return msgspec.structs.replace(clean, title=shorten(clean.title)) if clean.title else clean


def clean_carry(carry: bytes, cleaner: Cleaner) -> bytes:
    """A carry is msgpack by contract, so its texts (folders, branches, names of tools) can be
    cleaned like others."""
    try:
        value = msgspec.msgpack.decode(carry)
    except (msgspec.DecodeError, RecursionError):
        return carry
    clean = cleaner.value(value)
    return carry if clean is value else msgspec.msgpack.encode(clean)


def update_facts(old: Facts | None, new: Facts) -> Facts:
    """What a stream says after a further batch: what is new wins, but for titles, where a lesser
    one does not."""
    if old is None:
        return new
    changes = {
        name: value for name in Facts.__struct_fields__ if (value := getattr(new, name)) is not None
    }
    if new.title is None or new.title_rank < old.title_rank:
        changes |= {"title": old.title, "title_rank": old.title_rank}
    return msgspec.structs.replace(old, **changes)


def fold_facts(parts: Sequence[Facts]) -> Facts:
    """What several streams say of one session: the first answer wins, but for titles, where the
    better one does."""
    first = parts[0]
    best = max(enumerate(parts), key=lambda item: (item[1].title_rank, item[0]))[1]

    def answer(name: str) -> Any:
        return next((value for part in parts if (value := getattr(part, name)) is not None), None)

    return msgspec.structs.replace(
        first,
        title=best.title,
        title_rank=best.title_rank,
        **{
            n: answer(n)
            for n in (
                "cwd",
                "git_branch",
                "repo",
                "task_ref",
                "parent_uid",
                "parent_call",
                "relation",
            )
        },
        model=next((part.model for part in reversed(parts) if part.model is not None), None),
        written_at=max(
            (part.written_at for part in parts if part.written_at is not None), default=None
        ),
    )


def _usage(buckets: tuple[int, int, int, int, int]) -> Usage:
    fresh, output, read, write, reasoning = buckets
    return Usage(
        input_tokens=fresh,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=reasoning,
    )
