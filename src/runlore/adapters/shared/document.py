"""Reader of agents that have one JSON document for each session and rewrite it as a whole.

Knows documents and no agent's words. An adapter's `parts` divides a document into records, and a
position counts these. A document that is incomplete is being written, and is read again when it has
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from ...errors import ReadError, Rejected
from .jsonl import (
    MAX_RECORD_BYTES,
    MAX_VALUES,
    JsonlAdapter,
    has_too_many_values,
    parse,
    read_up_to,
    reason_of,
    to_json,
)
from .values import Position, Record, Source

PROBLEMS = (None, "not UTF-8")  # What may be wrong with a document that can be read all the same.


class DocumentAdapter(JsonlAdapter):
    """The base of adapters whose agent keeps a session as one document, or has done so."""

    def is_appended(self, path: str) -> bool:
        """Return True if the file is not a document but a log of lines, which is only appended
        to."""
        return False

    def has_lines(self, path: str) -> bool:
        return self.is_appended(path)

    def identity(self, path: str) -> tuple[bytes, bytes]:
        """Return two hashes that change with the document. Raises OSError."""
        with open(path, "rb") as file:
            digest = blake2b(read_up_to(MAX_RECORD_BYTES, file), digest_size=16).digest()
        return digest, digest

    def parts(self, source: Source, document: Any) -> list[Any]:
        """Return the records of a document, in the order in which things happened. Raises ReadError
        when it is no session."""
        raise AssertionError("the agent's own adapter has it")

    def follows(self, source: Source, since: Position) -> bool:
        if self.is_appended(source.path):
            return super().follows(source, since)
        try:
            return (since.head, since.tail) == self.identity(source.path)
        except OSError:
            return False

    def position(self, source: Source, offset: int, records: int) -> Position:
        """Return a position. That of a document counts its records."""
        if self.is_appended(source.path):
            return super().position(source, offset, records)
        try:
            head, tail = self.identity(source.path)
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error
        return Position(offset=offset, head=head, tail=tail, records=records)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        # Every time: it may have changed, whether or not the document has.
        yield from self.sidecars(source)
        found = self.parts(source, load_document(source.path))
        first = since.offset if since else 0
        yield from (
            Record(to_json(item), n, None, None, n + 1)
            for n, item in enumerate(found[first:], first)
        )


class GrowingAdapter(JsonlAdapter):
    """The base of adapters whose files must be read as a whole to be understood, and still grow. As
    long as the records that were read are the same, only those that follow are given."""

    _held: tuple[tuple[str, int, int], list[Record], list[bytes], list[bytes]] | None = None
    """What the last source holds, and the hashes of its records: whether it goes on, what is new,
    and up to where are asked one after another."""

    def whole(self, source: Source) -> tuple[list[Record], list[bytes]]:
        """Return the sidecars of a source, and all its finished records as JSON. Raises ReadError
        or OSError."""
        raise AssertionError("the agent's own adapter has it")

    def has_lines(self, path: str) -> bool:
        return False

    def follows(self, source: Source, since: Position) -> bool:
        try:
            _, _, hashes = self._whole(source)
        except ReadError:
            return False
        return len(hashes) >= since.records and (since.head, since.tail) == _outline(
            hashes[: since.records]
        )

    def position(self, source: Source, offset: int, records: int) -> Position:
        head, tail = _outline(self._whole(source)[2][:records])
        return Position(offset=offset, head=head, tail=tail, records=records)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        sidecars, records, _ = self._whole(source)
        first = since.records if since else 0
        if len(records) > first or since:
            yield from sidecars
        yield from (
            Record(data, n, None, None, n + 1) for n, data in enumerate(records[first:], first)
        )

    def _whole(self, source: Source) -> tuple[list[Record], list[bytes], list[bytes]]:
        # As it was found: a database is newer than its file when its log is.
        key = source.path, source.size, source.mtime_ns
        if self._held is None or self._held[0] != key:
            try:
                sidecars, records = self.whole(source)
                self._held = (
                    key,
                    sidecars,
                    records,
                    [blake2b(record, digest_size=16).digest() for record in records],
                )
            except OSError as error:
                raise ReadError(source.path, reason_of(error)) from error
        return self._held[1:]


def _outline(hashes: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return two hashes that show whether records are still the same: of the first, and of all."""
    first = hashes[0] if hashes else blake2b(digest_size=16).digest()
    return first, blake2b(b"".join(hashes), digest_size=16).digest()


def load_document(path: str) -> Any:
    """Return the value of a JSON document. Raises ReadError when it cannot be read, or is none."""
    try:
        with open(path, "rb") as file:
            data = read_up_to(MAX_RECORD_BYTES + 1, file)
    except OSError as error:
        raise ReadError(path, reason_of(error)) from error
    if len(data) > MAX_RECORD_BYTES:
        raise ReadError(path, f"larger than {MAX_RECORD_BYTES >> 20} MB")
    if has_too_many_values(data):
        raise Rejected(path, f"more than {MAX_VALUES:,} values are no session")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        values = parse(data)
        if len(values) == 1 and values[0][2] in PROBLEMS:
            return values[0][0]
    raise ReadError(path, "no whole JSON document; it is read again when it has changed")
