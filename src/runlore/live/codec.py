"""One line of a log: records to bytes and back, with a checksum. Knows nothing of files.

A line is `{"n":seq,"i":id,"d":time,"t":type,"k":key,"e":epoch,"p":payload,"c":"crc32"}`. Records
that belong together are one line, `{"b":[record, …],"c":"crc32"}`. The checksum covers every byte
in front of `,"c":`; a line without one is accepted unchecked. The fields before the payload are
small and in this order, so that a line can be located without decoding it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from typing import Any
from zlib import crc32

import msgspec

from ..errors import LogError
from ..model import LogRecord

MARK = b',"c":"'
CHECK = len(MARK + b'12345678"}')
MAX_RECORDS_IN_DAMAGED_LINE = 64
"""Maximum number of records that are searched in a damaged line.

A lost line end joins two or three records, never that many.
"""


class Damaged(Exception):
    """A line that is no record; the text says why."""


class _Batch(msgspec.Struct):
    b: list[LogRecord]


_encode_into = msgspec.json.Encoder().encode_into
_record_decoder = msgspec.json.Decoder(LogRecord)
_decode_record = _record_decoder.decode
_decode_batch = msgspec.json.Decoder(_Batch).decode


def encode(records: Sequence[LogRecord], line: bytearray) -> None:
    """Write the line with these records into `line`, a buffer that is used again and again.

    Raises LogError for a payload that JSON cannot hold.
    """
    value: object = records[0] if len(records) == 1 else {"b": records}
    try:
        _encode_into(value, line)
    except UnicodeEncodeError:
        line[:] = _escaped(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LogError(f"a {records[0].type} record cannot be written as JSON: {error}") from None
    del line[-1]
    line += b',"c":"%08x"}\n' % crc32(line)


def encode_within(records: Sequence[LogRecord], size: int) -> bytes | None:
    """Return the line with these records, filled with spaces to a size without its line end.

    None if it would be longer.
    """
    line = bytearray()
    encode(records, line)
    body = bytes(line[: -CHECK - 1])
    if len(body) + CHECK > size:
        return None
    body = body.ljust(size - CHECK)
    return body + b',"c":"%08x"}' % crc32(body)


def check_plain(payload: dict[str, Any]) -> None:
    """Raise LogError for a value that JSON gives back as another one: bytes, times, sets, ….

    A tuple comes back as a list, and is let in.
    """
    # What is nested too deeply is refused when it is encoded.
    with suppress(RecursionError):
        _check_plain(payload)


def _check_plain(value: Any) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                raise LogError(f"the name {name!r} in a payload is not a text")
            _check_plain(part)
    elif isinstance(value, list | tuple):
        for part in value:
            _check_plain(part)
    elif isinstance(value, float) and not isfinite(value):
        raise LogError(f"a payload cannot hold {value}: JSON has no number for it")
    elif value is not None and not isinstance(value, str | int | float):
        raise LogError(
            f"a payload cannot hold {type(value).__name__}: it would come back as something else;"
            " encode it as text first"
        )


def decode(line: bytes) -> list[LogRecord]:
    """Return the records of a line without its line end. Raises Damaged."""
    is_sound = line[-10:-2] == b"%08x" % crc32(line[:-CHECK])
    if line[-CHECK:-10] == MARK:
        if not is_sound:
            raise Damaged("the checksum does not fit")
    elif is_sound:  # Only the name of the checksum is damaged. It must not be read as another.
        line = line[:-CHECK] + b"}"
    try:
        return _decode_batch(line).b if line.startswith(b'{"b":') else [_decode_record(line)]
    except (ValueError, RecursionError):
        return _decode_slowly(line)


def as_read(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload as a reader of its record gets it. Raises LogError."""
    line = bytearray()
    encode([LogRecord(seq=0, id="0", ts=datetime.now(UTC), type="", payload=payload)], line)
    return decode(bytes(line[:-1]))[0].payload


def are_sound(lines: bytes) -> bool:
    """Return True if every line has a checksum that matches."""
    split = lines[:-1].split(b"\n")
    return all(
        line[-CHECK:-10] == MARK and line[-10:-2] == b"%08x" % crc32(line[:-CHECK])
        for line in split
    )


def decode_all(lines: bytes) -> list[LogRecord] | None:
    """Return the records of many lines, unchecked; None unless every line is one record."""
    try:
        return _record_decoder.decode_lines(lines)
    except (ValueError, RecursionError):
        return None


def head(line: bytes) -> tuple[int, str] | None:
    """Return the seq and id of a line's first record from its first bytes, or None."""
    match = _head().match(line)
    return (int(match[1]), match[2].decode()) if match else None


def count_heads(line: bytes) -> int:
    """Return the number of records that seem to begin in a damaged line."""
    return sum(1 for _ in _head().finditer(line))


def salvage(line: bytes) -> Iterator[LogRecord]:
    """Yield the records inside a damaged line whose checksums match.

    A lost line end has joined them to something else.
    """
    starts = [match.start() for match in _head().finditer(line)][:MAX_RECORDS_IN_DAMAGED_LINE]
    ends = [match.end() for match in _end().finditer(line)][:MAX_RECORDS_IN_DAMAGED_LINE]
    done = 0
    for start in starts:
        if start < done:
            continue
        for end in [end for end in ends if end > start][:4]:
            try:
                records = decode(line[start:end])
            except Damaged:
                continue
            yield from records
            done = end
            break


def holds_record(tail: bytes) -> bool:
    """Return True if there is a whole record in a tail without line end.

    Then only the line end is missing or damaged.
    """
    try:
        return bool(decode(tail))
    except Damaged:
        return next(salvage(tail), None) is not None


def _decode_slowly(line: bytes) -> list[LogRecord]:
    """Decode a valid but unusual line, such as one with lone surrogates, with the standard
    library."""
    try:
        data = json.loads(line)
        if isinstance(data, dict) and "b" in data:
            return msgspec.convert(data, _Batch).b
        return [msgspec.convert(data, LogRecord)]
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not a record: {str(error)[:200]}") from None


def _escaped(value: object) -> bytes:
    """Encode with everything outside ASCII escaped: a lone surrogate has no UTF-8."""
    try:
        return json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":")).encode(
            "ascii"
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise LogError(f"a record cannot be written as JSON: {error}") from None


@cache
def _head() -> re.Pattern[bytes]:
    return re.compile(rb'(?:\{"b":\[)?\{"n":(\d{1,18}),"i":"([0-9A-Za-z_-]{1,64})"')


@cache
def _end() -> re.Pattern[bytes]:
    return re.compile(rb',"c":"[0-9a-f]{8}"\}')
