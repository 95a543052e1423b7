"""Segments: the compressed bodies of consecutive events, with their words. Pure; runs in workers.

The boundaries of segments depend on the sequence of events alone. A segment is closed by the event
that brings it to 64 KB, and one that is still open is filled up by the next read. So the store is
the same wherever the input was cut.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import zstandard

from ..adapters import Record
from ..errors import StoreError
from ..model import BLOCK, is_own
from . import tsvectors
from .rows import ERROR, FLAGS, KIND, LENGTH, OFFSET, OUTRANKED, SEQ, TOOL, column_index
from .values import Delta, Segment, Tail
from .words import index_text, mark

SEGMENT_BYTES = 64 * 1024
"""Size of the bodies at which a segment is closed."""

RECORDS_BYTES = 1024 * 1024
"""Size at which a chunk of native records is closed. Larger chunks compress better, and native
records are rarely read."""


class _Packers(threading.local):
    """A compressor and a decompressor for each thread. They must not be shared between threads."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=1).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_packers = _Packers()


def pack(rows: list[list[Any]], bodies: Sequence[bytes | None], tail: Tail | None) -> list[Segment]:
    """Return the bodies as segments, and set in each row where its body is.

    The first segment continues `tail`.
    """
    segments: list[Segment] = []
    open_: _OpenSegment | None = _OpenSegment.continuing(tail) if tail is not None else None
    for row, body in zip(rows, bodies, strict=True):
        if open_ is not None and row[SEQ] // BLOCK != open_.first_seq // BLOCK:
            # Segments of a session must not overlap, and another source may have the blocks
            # between.
            segments.append(open_.close())
            open_ = None
        if open_ is None:
            open_ = _OpenSegment(row[SEQ])
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
    """Return the bodies as one segment of any size, and set in each row where its body is."""
    open_ = _OpenSegment(rows[0][SEQ])
    for row, body in zip(rows, bodies, strict=True):
        if body is not None:
            row[OFFSET], row[LENGTH] = open_.length, len(body)
            open_.add(row[KIND], row[TOOL], row[FLAGS], body)
        open_.last_seq = row[SEQ]
    return open_.close()


class _OpenSegment:
    """A segment that is being filled."""

    __slots__ = ("bodies", "first_seq", "kinds", "last_seq", "length", "texts")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = self.last_seq = first_seq
        self.length = 0
        self.bodies: list[bytes] = []
        self.texts: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
        self.kinds: dict[tuple[str, str | None, int], list[bytes]] = {}
        """The list that a body is added to, by kind, tool and error flag of its event."""

    @classmethod
    def continuing(cls, tail: Tail) -> _OpenSegment:
        """Return an open segment that has the contents of `tail`."""
        segment = cls(tail.first_seq)
        for kind, tool, flags, offset, length in tail.events:
            segment.add(kind, tool, flags, tail.data[offset : offset + length])
        segment.last_seq = tail.last_seq
        return segment

    def add(self, kind: str, tool: str | None, flags: int, body: bytes) -> None:
        self.bodies.append(body)
        self.length += len(body)
        if flags & OUTRANKED:
            return
        key = kind, tool, flags & ERROR
        texts = self.kinds.get(key)
        if texts is None:
            texts = self.kinds[key] = [] if is_own(tool) else self.texts[column_index(kind)]
        texts.append(body)

    def close(self) -> Segment:
        data = b"".join(self.bodies)
        prompt, reply, tool = (index_text(texts) for texts in self.texts)
        # Kinds and tools are indexed as words that occur in no text, so that a filter on events
        # need not decompress every segment.
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


def add_tokens(segment: Segment) -> None:
    """Replace the texts of a segment by their tokens, for a store that `takes_tokens`."""
    segment.tokens = tsvectors.tokenize_segment(segment)
    segment.prompt = segment.reply = segment.tool = b""


def pack_text(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the length of the data, the hash of its packed bytes, and the packed bytes."""
    body = _packers.pack(data)
    return len(data), _hash(body), body


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def unpack(body: bytes, length: int, hash_: bytes) -> bytes:
    """Return the bodies of a segment. Raises StoreError if they are not what was stored."""
    try:
        data = _packers.unpack(body, max_output_size=length)
    except zstandard.ZstdError as error:
        raise StoreError(f"a segment cannot be unpacked ({error}); run `runlore doctor`") from None
    if len(data) != length or _hash(body) != hash_:
        raise StoreError("a segment is not what was stored; run `runlore doctor`")
    return data


def pack_records(records: Iterable[Record], first: int) -> list[tuple[int, int, int, bytes]]:
    """Return native records as chunks of (number of the first, count, length, packed bytes).

    Records of sidecars are packed with them and not counted.
    """
    packed: list[tuple[int, int, int, bytes]] = []
    chunk: list[tuple[int, bytes, str | None]] = []
    count = size = 0

    def close() -> None:
        data = msgspec.msgpack.encode(chunk)
        packed.append((first, count, len(data), _packers.pack(data)))

    for record in records:
        data, sidecar = record.data, record.sidecar
        chunk.append((record.offset, data, sidecar))
        size += len(data)
        if sidecar is None:
            count += 1
            if size >= RECORDS_BYTES:
                close()
                first, chunk, count, size = first + count, [], 0, 0
    if chunk:
        close()
    return packed


def unpack_records(body: bytes, length: int) -> list[Record]:
    """Return the records of a chunk that `pack_records` packed."""
    data = _packers.unpack(body, max_output_size=length)
    chunk = msgspec.msgpack.decode(data, type=list[tuple[int, bytes, str | None]])
    return [Record(line, offset, sidecar) for offset, line, sidecar in chunk]


def bodies_of(delta: Delta) -> list[bytes | None]:
    """Return the bodies of a delta's rows, from its segments."""
    spans = [(s.last_seq, unpack(s.body, s.length, s.hash)) for s in delta.segments]
    bodies: list[bytes | None] = []
    at = 0
    for row in delta.rows:
        while spans[at][0] < row[SEQ]:
            at += 1
        bodies.append(
            None if row[OFFSET] is None else spans[at][1][row[OFFSET] : row[OFFSET] + row[LENGTH]]
        )
    return bodies
