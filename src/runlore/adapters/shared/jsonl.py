"""Files of JSON lines: how they are found, read from where they were left off, and decoded without
trust.

Knows lines and JSON, and no agent's words: what a record means is the adapter's. A line is decoded
twice at most: first by the adapter's own typed decoder, which is fast and strict, and what that
refuses by `parse` and `lenient` here, which take what can be had. Both fill the same Struct, so an
adapter has one normalizer.

A file whose path is not valid Unicode is left out: no database column could hold its name, and no
terminal show it.
"""

from __future__ import annotations

import json
import os
import re
import types
import typing
from collections.abc import Generator, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from time import time
from typing import Any, TypeVar

import msgspec

from ...errors import ReadError
from .base import Adapter
from .values import Position, Record, Source

CHUNK_BYTES = 1 << 18  # Stays in the processor's cache; larger reads are slower.
MAX_RECORD_BYTES = 64 << 20  # A longer line is no record of a conversation; it is named, not kept.
SHORTENED_BYTES = 64 << 10  # What is kept of one: enough to see what it was.
FIRST_READ_BYTES = 16 << 10  # Bytes that are read at once of a file that is not long.
SAMPLE_BYTES = (
    4 << 10
)  # How much of the head and of the tail says whether a file is still the same.
HASH_BYTES = 16
OFFSET_BYTES = 8
OPEN_BYTES = OFFSET_BYTES + 2 * HASH_BYTES
QUIET_S = 60
"""Seconds without a write after which a last line that is whole JSON counts as a record, though no
newline follows: programs that died, or whose files were copied, never wrote one."""


class JsonlAdapter(Adapter):
    """The base of adapters whose agent appends JSON lines to files below its roots."""

    suffix = ".jsonl"
    markers: tuple[bytes, ...] = ()
    """Lines with one of these name sidecars: `sidecars_of_line` is called for them."""

    def discover(self, root: Path) -> Iterator[Source]:
        self.refused = refused = list[ReadError]()
        for entry in walk_files(str(root), self.suffix, refused):
            try:
                stat = entry.stat()
            except OSError as error:
                note_refusal(entry.path, error, refused)
                continue
            yield Source(
                agent=self.name,
                path=entry.path,
                root=str(root),
                size=stat.st_size,
                mtime_ns=stat.st_mtime_ns,
                inode=stat.st_ino,
            )

    def has_lines(self, path: str) -> bool:
        """Return True if the source is a file of lines, and not a document or a database."""
        return True

    def aged(self, source: Source) -> Source:
        return aged(source, QUIET_S) if self.has_lines(source.path) else source

    def is_appended(self, path: str) -> bool:
        """Return True unless the adapter reads its files in another way than line by line."""
        return type(self).read is JsonlAdapter.read

    def follows(self, source: Source, since: Position) -> bool:
        try:
            with open(source.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < since.offset:
                    return False
                if (since.head, since.tail[:HASH_BYTES]) != sample_hashes(file, since.offset):
                    return False
                return not is_open(since) or self.is_ended(file, since)
        except OSError:
            return False

    def is_ended(self, file: typing.IO[bytes], since: Position) -> bool:
        """Return True if the record that was read without its end is not continued in the file,
        which stands at the position."""
        return file.read(1) in (b"", b"\n")

    def has_other_end(self, source: Source, since: Position) -> bool:
        if not is_open(since):
            return False
        try:
            with open(source.path, "rb") as file:
                return since.tail[HASH_BYTES:] == open_end(file, open_start(since))
        except OSError:
            return False

    def position(self, source: Source, offset: int, records: int) -> Position:
        """Return the position after a line: an open one (`is_open`) if the line has no newline."""
        try:
            with open(source.path, "rb") as file:
                head, tail = sample_hashes(file, offset)
                if (start := _line_start(file, offset)) != offset:
                    tail += open_end(file, start)
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error
        return Position(offset=offset, head=head, tail=tail, records=records)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield every complete line after the position. Bytes after the last newline are still
        being written, unless they are whole JSON and the file is quiet (`QUIET_S`)."""
        if since is None:
            yield from self.sidecars(source)
        try:
            with open(source.path, "rb", buffering=0) as file:
                offset = file.seek(since.offset if since else 0)
                if since is not None and is_open(since):
                    # The newline of the line that was read without it.
                    offset = file.seek(offset + (file.read(1) == b"\n"))
                rest, offset = yield from self._lines(source, file, offset)
                if rest and is_stale(source, QUIET_S) and values_of(rest):
                    if any(mark in rest for mark in self.markers):
                        yield from self.sidecars_of_line(source, rest)
                    yield Record(rest, offset, None, None, offset + len(rest))
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error

    def sidecars(self, source: Source) -> Iterable[Record]:
        """Return small files that belong to the source. They are given before its first line."""
        return ()

    def sidecars_of_line(self, source: Source, line: bytes) -> Iterable[Record]:
        """Return small files that this line speaks of. They are given just before it."""
        return ()

    def _lines(
        self, source: Source, file: typing.IO[bytes], offset: int
    ) -> Generator[Record, None, tuple[bytes, int]]:
        """Yield the lines of a file; return the bytes after the last of them, and their offset."""
        # One loop, because every byte of every transcript passes through it.
        begun: list[bytes] = []  # The pieces of a line whose end has not come yet.
        held = 0  # Their length, and that of what was not kept of them.
        while chunk := file.read(CHUNK_BYTES):
            at = chunk.find(b"\n")
            if held <= MAX_RECORD_BYTES:
                begun.append(chunk[:at] if at >= 0 else chunk)
            held += at if at >= 0 else len(chunk)
            if held > MAX_RECORD_BYTES:
                begun = [b"".join(begun)[:SHORTENED_BYTES]]
            if at < 0:
                continue
            end = offset + held + 1
            if held > MAX_RECORD_BYTES:
                yield Record(begun[0], offset, None, f"too long ({held >> 20} MB)", end)
            else:
                line = b"".join(begun)
                if any(mark in line for mark in self.markers):
                    yield from self.sidecars_of_line(source, line)
                yield _long_record(line, offset, end)
            offset = end
            start = at + 1
            base = end - start  # Where the chunk begins.
            watched = [mark for mark in self.markers if mark in chunk]
            # Not `split`, which looks at each byte: lines are long.
            while (at := chunk.find(b"\n", start)) >= 0:
                line = chunk[start:at]
                if watched and any(mark in line for mark in watched):
                    yield from self.sidecars_of_line(source, line)
                end = base + at + 1
                yield Record(line, offset, None, None, end)
                offset, start = end, at + 1
            begun, held = [chunk[start:]], len(chunk) - start
        return b"".join(begun) if held <= MAX_RECORD_BYTES else b"", offset


def _long_record(line: bytes, offset: int, end: int) -> Record:
    """Return a line that is longer than a chunk as a record; shortened, with a problem, when it has
    too many values."""
    if has_too_many_values(line):
        return Record(line[:SHORTENED_BYTES], offset, None, TOO_MANY, end)
    return Record(line, offset, None, None, end)


def reason_of(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


# Neither through a link nor waiting for a pipe, and on Windows without another reading of line
# ends.
_AS_IT_IS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_small(path: str, limit: int) -> bytes | None:
    """Return the content of a regular file of at most so many bytes; None for anything else, and
    for a link."""
    try:
        handle = os.open(path, _AS_IT_IS)
    except OSError:
        return None
    try:
        if not S_ISREG(os.fstat(handle).st_mode):
            return None
        data = os.read(handle, FIRST_READ_BYTES)
        # Seldom: and to make a file of a handle takes longer than to read a small one.
        if more := os.read(handle, FIRST_READ_BYTES):
            data += more
            with os.fdopen(handle, "rb", closefd=False) as file:
                data += read_up_to(max(1, limit + 1 - len(data)), file)
    except OSError:
        return None
    finally:
        os.close(handle)
    return data if len(data) <= limit else None


def read_up_to(most: int, file: typing.IO[bytes]) -> bytes:
    """Return at most so many bytes of a file. No more are requested than the file has, as Python
    makes room for all that are requested."""
    size = min(os.fstat(file.fileno()).st_size, most - 1)
    data = file.read(size + 1)
    return data if len(data) <= size else data + file.read(most - len(data))


def is_stale(source: Source, after_s: float) -> bool:
    """Return True if nothing was written to a source for so long that nothing will be. A time that
    lies in the future says nothing of when that was, and does not hold anything back."""
    return abs(time() * 1e9 - source.mtime_ns) > after_s * 1e9


def aged(source: Source, after_s: float) -> Source:
    """Return the source with another time when it is stale. It then counts as changed, and what was
    held back of it, as it might still have changed, is read."""
    return (
        msgspec.structs.replace(source, mtime_ns=source.mtime_ns + 1)
        if is_stale(source, after_s)
        else source
    )


def note_refusal(path: str, error: OSError, refused: list[ReadError]) -> None:
    """Remember a path that could not be looked at. One that has gone since its folder was listed is
    simply not there."""
    if not isinstance(error, FileNotFoundError):
        refused.append(ReadError(path, reason_of(error)))


def walk_files(
    folder: str, suffix: str, refused: list[ReadError] | None = None
) -> Iterator[os.DirEntry[str]]:
    """Files by name, folder by folder. Links to folders are not followed, so there is no way round
    in a circle.

    A list and not a recursion: folders can be nested deeper than Python calls.
    """
    refused = [] if refused is None else refused
    pending = list_entries(folder, refused)
    while pending:
        entry = pending.pop()
        try:
            if entry.is_dir(follow_symlinks=False):
                pending += list_entries(entry.path, refused)
            elif entry.name.endswith(suffix) and entry.is_file():
                yield entry
        except OSError as error:
            note_refusal(entry.path, error, refused)


def list_entries(folder: str, refused: list[ReadError]) -> list[os.DirEntry[str]]:
    """Return the entries of a folder in reverse order of their names. Names that are not valid
    Unicode are left out."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
    except OSError as error:
        note_refusal(folder, error, refused)
        return []
    return [entry for entry in entries if entry.path.isascii() or not _SURROGATE.search(entry.path)]


def sample_hashes(file: typing.IO[bytes], offset: int) -> tuple[bytes, bytes]:
    head = file.read(min(SAMPLE_BYTES, offset))
    file.seek(max(0, offset - SAMPLE_BYTES))
    tail = file.read(min(SAMPLE_BYTES, offset))
    return blake2b(head, digest_size=16).digest(), blake2b(tail, digest_size=16).digest()


def is_open(position: Position) -> bool:
    """Return True if the record before the position was read without its end. The tail then also
    has what `open_end` returns."""
    return len(position.tail) == HASH_BYTES + OPEN_BYTES


def open_start(position: Position) -> int:
    """Return where the record begins that was read without its end."""
    return int.from_bytes(position.tail[HASH_BYTES : HASH_BYTES + OFFSET_BYTES], "big")


def open_end(file: typing.IO[bytes], start: int) -> bytes:
    """Return the start of a record that has no end yet, and the hashes of what lies before it."""
    file.seek(0)
    return start.to_bytes(OFFSET_BYTES, "big") + b"".join(sample_hashes(file, start))


def _line_start(file: typing.IO[bytes], offset: int) -> int:
    """Return where the line begins that ends at an offset without a newline; the offset itself if
    there is a newline."""
    start, newline, size = offset, -1, 1
    while start and newline < 0:
        size = min(size, start)
        start = file.seek(start - size)
        newline = file.read(size).rfind(b"\n")
        size = CHUNK_BYTES
    return start + newline + 1


# The tolerant path: what a strict decoder refuses.

MALFORMED: Any = object()
"""Stands for a value where there is none."""
TOO_DEEP = "nested too deeply"

# Levels of nesting. No agent writes as many, and all that walks a value by recursion can go this
# far.
MAX_DEPTH = 100
MAX_GLUED_VALUES = 10_000  # Values that are glued together in one line.
MAX_VALUES = 1_000_000  # Values in one line or document. Each takes many times its bytes of memory.
TOO_MANY = "too many values"

_SURROGATE = re.compile("[\ud800-\udfff]")
# A crashed machine leaves runs of NUL; editors leave a byte order mark.
_BLANK = re.compile("[ \t\r\n\0\ufeff]*")


# Whole strings, which may contain anything, and what every further value of JSON comes with.
_STRINGS_AND_SIGNS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([,\[{])', re.DOTALL)


def has_too_many_values(data: bytes | str) -> bool:
    """Return True if a text of JSON holds more than MAX_VALUES values."""
    if len(data) <= MAX_VALUES:
        return False
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    if sum(map(data.count, (b",", b"[", b"{"))) <= MAX_VALUES:
        return False
    signs = (found for found in _STRINGS_AND_SIGNS.finditer(data) if found[1])
    return next(islice(signs, MAX_VALUES, None), None) is not None


def parse(data: bytes) -> list[tuple[Any, str, str | None]]:
    """Return the JSON values of a line: each with its own text, and what is wrong with it if
    anything. A blank line has none. Two objects glued together are two values. The value of what is
    not JSON, or nests too deeply, is MALFORMED. All text is valid: bytes that are not UTF-8 and
    halves of surrogate pairs become U+FFFD."""
    text = data.decode("utf-8", "replace")
    if has_too_many_values(data):
        return [(MALFORMED, text, TOO_MANY)]
    # A replacement character may also have been in the file; only the strict codec knows.
    spoiled = "\ufffd" in text and not _is_utf8(data)
    note = "not UTF-8" if spoiled else None
    values: list[tuple[Any, str, str | None]] = []
    start = _skip_blank(text, 0)
    while start < len(text):
        if len(values) == MAX_GLUED_VALUES:
            values.append((MALFORMED, text[start:], f"more than {MAX_GLUED_VALUES} values"))
            break
        try:
            value, end = _DECODER.raw_decode(text, start)
        except RecursionError:
            values.append((MALFORMED, text[start:], TOO_DEEP))
            break
        except ValueError as error:
            values.append(
                (MALFORMED, text[start:], f"not JSON: {getattr(error, 'msg', error)}".lower())
            )
            break
        own = text[start:end]
        if _is_deep(value, own):
            values.append((MALFORMED, own, TOO_DEEP))
        else:
            values.append((_whole(value) if "\\u" in own else value, own, note))
        start = _skip_blank(text, end)
    return values


def values_of(data: bytes) -> list[Any] | None:
    """Return all JSON values of a line that a strict decoder refuses; None when any of it is not
    JSON. `b" ".join(map(to_json, values))` is a line that gives the same values."""
    values = [value for value, _, _ in parse(data)]
    return None if any(value is MALFORMED for value in values) else values


def _is_deep(value: Any, text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _parse_int(digits: str) -> int | str:
    # Python itself refuses more than 4,300 digits.
    return int(digits) if len(digits) < 4000 else digits


def _parse_float(digits: str) -> float | str:
    number = float(digits)
    return number if abs(number) != float("inf") else digits


_DECODER = json.JSONDecoder(
    strict=False, parse_int=_parse_int, parse_float=_parse_float, parse_constant=str
)


def _skip_blank(text: str, start: int) -> int:
    found = _BLANK.match(text, start)
    return found.end() if found else start


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _whole(value: Any) -> Any:
    """Return the value without halves of surrogate pairs, which no codec can write."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


S = TypeVar("S", bound=msgspec.Struct)


def lenient(kind: type[S], data: dict[str, Any], where: str = "") -> tuple[S, list[str]]:
    """Return a Struct from plain data, and the path of each value that does not fit. Such a value
    takes its default. An item of a list of Structs that is no object becomes a Struct of defaults,
    so that it keeps its place among the others."""
    fitting: dict[str, Any] = {}
    problems: list[str] = []
    if where.count(".") > MAX_DEPTH // 3:  # Each level of Structs takes several calls.
        return kind(), [f"{where[:100]}… is {TOO_DEEP}"]
    for written, field in _fields(kind).items():
        if written not in data:
            continue
        value = data[written]
        place = f"{where}{written}"
        try:
            fitting[field.name], more = _fit(value, field, place)
        except msgspec.ValidationError:
            more = [f"{place} is {_word(value)}"]
        problems += more
    return kind(**fitting), problems


def _fit(value: Any, field: _Field, place: str) -> tuple[Any, list[str]]:
    """Return a value as one of the types of a field, and the problems in it. Raises ValidationError
    when it is of none of them."""
    if field.is_raw:
        return msgspec.Raw(to_json(value)), []
    if isinstance(value, dict) and field.struct:
        return lenient(field.struct, value, f"{place}.")
    if isinstance(value, list) and (listed := field.item):
        items = [_lenient_item(listed, item, f"{place}[{n}]") for n, item in enumerate(value)]
        return [item for item, _ in items], [problem for _, found in items for problem in found]
    return msgspec.convert(value, field.type), []


def _lenient_item(kind: type[S], item: Any, place: str) -> tuple[S, list[str]]:
    return (
        lenient(kind, item, f"{place}.")
        if isinstance(item, dict)
        else (kind(), [f"{place} is {_word(item)}"])
    )


class _Field(msgspec.Struct, frozen=True):
    """A field of a Struct, and what its type has to do with Structs."""

    name: str
    type: Any
    is_raw: bool
    struct: type[msgspec.Struct] | None
    """The Struct that it may be."""
    item: type[msgspec.Struct] | None
    """The Struct that it may be a list of."""


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, _Field]:
    """Return the fields of a Struct by their name in the data."""
    hints = typing.get_type_hints(kind)
    return {
        field.encode_name: _field(field.name, hint)
        for field in msgspec.structs.fields(kind)
        if (hint := hints[field.name]) is not None
    }


def _field(name: str, hint: Any) -> _Field:
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    options = typing.get_args(hint) if is_union else (hint,)
    return _Field(
        name=name,
        type=hint,
        is_raw=msgspec.Raw in options,
        struct=next(filter(_is_struct, options), None),
        item=next((item for option in options if (item := _item_struct(option))), None),
    )


def _is_struct(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, msgspec.Struct)


def _item_struct(option: Any) -> type[msgspec.Struct] | None:
    inner = typing.get_args(option)[0] if typing.get_origin(option) is list else None
    return inner if _is_struct(inner) else None


def _word(value: Any) -> str:
    words = {
        bool: "a truth value",
        dict: "an object",
        float: "a number",
        int: "a number",
        list: "a list",
        str: "a text",
    }
    return words.get(type(value), "null")


def to_json(value: Any) -> bytes:
    """Return plain data as compact JSON, or a note when it nests so deeply that it cannot be
    written."""
    try:
        try:
            return msgspec.json.encode(value)
        except OverflowError:  # Integers beyond 64 bits, in older versions of msgspec.
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except RecursionError:
        return f'"[{TOO_DEEP}]"'.encode()
