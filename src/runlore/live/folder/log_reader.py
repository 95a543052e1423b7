"""Reads a log that others may be writing: from the start, from a record on, or from the end.

Never locks, never writes.

A last line without line end is being written or was cut off, and is not returned. A damaged line is
skipped and reported in `problems`; the lines around it are not affected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ...errors import LogError, SessionNotFound
from ...files.locks import O_BINARY, read_at
from ...model import LogRecord
from .. import codec
from ..backend import Problem

LOG = "log.jsonl"
CHUNK_BYTES = 1 << 17
"""Size of a read. Small enough to stay in the processor's cache between reading and decoding."""
BLOCK_BYTES = 1 << 16
HEAD_BYTES = 128
"""Enough bytes of a line for its first record's seq and id."""
MAX_PROBLEMS = 1000


class LogReader:
    """`reports` counts what was reported, also what was reported before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reports = 0
        self._fd = -1
        self._problems: dict[int, Problem] = {}
        self._sound = (0, 0)

    @property
    def problems(self) -> list[Problem]:
        """The problems so far, each once, in the order of the file."""
        return [self._problems[offset] for offset in sorted(self._problems)]

    def report(self, offset: int, size_bytes: int, reason: str) -> None:
        self.reports += 1
        known = self._problems.get(offset)
        if known is not None or len(self._problems) < MAX_PROBLEMS:
            lost = known.lost if known is not None and known.reason == reason else None
            self._problems[offset] = Problem(offset, size_bytes, reason, lost)

    def trust(self, start: int, end: int) -> None:
        """Skip the checksums of these bytes from now on: they were checked, or this process wrote
        them.

        The range is joined with the trusted range where they touch.
        """
        low, high = self._sound
        self._sound = (
            (min(low, start), max(high, end)) if start <= high and low <= end else (start, end)
        )

    def is_sound(self, start: int, end: int) -> bool:
        return self._sound[0] <= start and end <= self._sound[1]

    def stamp(self) -> tuple[int, int, int, int]:
        """Return a value that changes when anyone changes the file."""
        stat = os.fstat(self.fd)
        return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino

    @property
    def is_in_place(self) -> bool:
        """True if the open file is the one at the path.

        It may have been moved away and replaced.
        """
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.fd))
        except OSError:
            return False

    @property
    def size_bytes(self) -> int:
        return os.fstat(self.fd).st_size

    @property
    def fd(self) -> int:
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | O_BINARY)
            except FileNotFoundError:
                raise SessionNotFound(f"{self.path.parent}: no session log is there") from None
            except OSError as error:
                raise LogError(f"{self.path}: {error.strerror}") from None
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def scan(self, start: int = 0) -> Iterator[tuple[LogRecord, int]]:
        """Yield the records from the start of a line on, each with the offset of the end of its
        line.

        Reports records that are missing in between, and seqs that were given twice.
        """
        expected = 0 if start == 0 else None
        damaged: list[tuple[int, bytes]] = []
        for offset, lines in self.blocks(start):
            end = offset
            for line in lines:
                begin, end = end, end + len(line) + 1
                records = self.decode(line, begin)
                if not records and line:
                    damaged.append((begin, line))
                for record in records:
                    if record.seq != expected and expected is not None:
                        self._report_order(record.seq, expected, damaged or [(begin, line)])
                    if expected is None or record.seq >= expected:
                        expected = record.seq + 1
                    yield record, end
                if records:
                    damaged.clear()
        self._report_end(expected, damaged)

    def _report_end(self, expected: int | None, damaged: list[tuple[int, bytes]]) -> None:
        """Report the records in damaged lines that no other record follows."""
        if damaged and expected is not None:
            count = sum(max(1, codec.count_heads(line)) for _, line in damaged)
            self._report_order(expected + count, expected, damaged)

    def _report_order(self, seq: int, expected: int, lines: list[tuple[int, bytes]]) -> None:
        """Report that a record has another seq than the one that follows the record before it."""
        if seq < expected:
            begin, line = lines[-1]
            text = f"record {seq} follows record {expected - 1}: written without the log's lock"
            self.report(begin, len(line), text)
            return
        for begin, line in lines:
            if begin not in self._problems:  # No line is damaged; some were taken out.
                self.report(begin, len(line), "records before this line are missing")
            if begin in self._problems:
                problem = self._problems[begin]
                self._problems[begin] = msgspec.structs.replace(problem, lost=(expected, seq - 1))

    def collect(self, low: int, high: int, types: frozenset[str]) -> list[LogRecord]:
        """Return the records of some types from seq `low` to `high`, decoded many lines at a
        time."""
        matches: list[LogRecord] = []
        for offset, data in self._lots(self.find(lambda n, _: n <= low)):
            end = offset + len(data)
            is_sound = self.is_sound(offset, end) or codec.are_sound(data)
            records = codec.decode_all(data) if is_sound else None
            if records is None:  # Some line needs a closer look.
                records = self._decode_each(data, offset)
            elif is_sound:
                self.trust(offset, end)
            matches += [
                record for record in records if low <= record.seq <= high and record.type in types
            ]
            if records and records[-1].seq >= high:
                break
        return matches

    def blocks(self, start: int = 0) -> Iterator[tuple[int, list[bytes]]]:
        """Yield complete lines in blocks of about 128 KB, each with its offset.

        A last line without line end is left for later.
        """
        for offset, data in self._lots(start):
            yield offset, data[:-1].split(b"\n")

    def _lots(self, start: int) -> Iterator[tuple[int, bytes]]:
        size = CHUNK_BYTES
        while chunk := read_at(self.fd, size, start):
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield start, chunk[:cut]
                start, size = start + cut, CHUNK_BYTES
            elif len(chunk) < size:
                return
            else:  # A longer line: read again, with more of it.
                size *= 4

    def _decode_each(self, data: bytes, offset: int) -> list[LogRecord]:
        records = []
        for line in data[:-1].split(b"\n"):
            records += self.decode(line, offset)
            offset += len(line) + 1
        return records

    def decode(self, line: bytes, offset: int) -> list[LogRecord]:
        """Return the records of a line; of a damaged one, those that can still be read."""
        try:
            return codec.decode(line)
        except codec.Damaged as error:
            if not line:
                return []
            saved = list(codec.salvage(line))
            note = f"{error}; {len(saved)} records in it could be read" if saved else str(error)
            self.report(offset, len(line), f"damaged line skipped: {note}")
            return saved

    def find(self, is_before: Callable[[int, str], bool]) -> int:
        """Return the start of the last line whose first record `is_before` the target, or 0.

        Binary search over the file.
        """
        low, high = 0, self.size_bytes
        while high - low > BLOCK_BYTES:
            middle = (low + high) // 2
            head = self._next_head(middle, high)
            if head is None or not is_before(head[1], head[2]):
                high = middle
            else:
                low = head[0]
        return low if self._is_as_it_says(low, is_before) else 0

    def _is_as_it_says(self, position: int, is_before: Callable[[int, str], bool]) -> bool:
        """Return True if the line there is sound and lies before the target.

        A changed digit would lead past good records.
        """
        if not position:
            return True
        line = next((lines[0] for _, lines in self.blocks(position)), None)
        if line is None:  # It is still being written, so nothing follows it.
            return True
        try:
            first = codec.decode(line)[0]
        except (codec.Damaged, IndexError):
            return False
        return is_before(first.seq, first.id)

    def after(self, seq: int) -> Iterator[tuple[LogRecord, int]]:
        """Yield the records after `seq`, each with the offset of the end of its line.

        Does not read what lies before.
        """
        start = self.find(lambda n, _: n <= seq) if seq >= 0 else 0
        return ((record, end) for record, end in self.scan(start) if record.seq > seq)

    def line_of(self, seq: int) -> tuple[int, bytes] | None:
        """Return the offset of the line with a record and its first bytes, or None."""
        begin = self.find(lambda n, _: n <= seq)
        for offset, lines in self.blocks(begin):
            position = offset
            for line in lines:
                if any(record.seq == seq for record in self.decode(line, position)):
                    return position, line[:HEAD_BYTES]
                position += len(line) + 1
        return None

    def read(self, offset: int, size: int) -> bytes:
        return read_whole(self.fd, size, offset)

    def tail(self, count: int) -> list[LogRecord]:
        """Return the last records, oldest first, read from the end."""
        want = BLOCK_BYTES
        while True:
            start, lines = self._last_lines(want)
            backwards: list[LogRecord] = []
            end = start + sum(len(line) + 1 for line in lines)
            for line in reversed(lines):
                end -= len(line) + 1
                backwards += reversed(self.decode(line, end))
                if len(backwards) >= count:
                    return backwards[: max(count, 0)][::-1]
            if start == 0:
                return backwards[::-1]
            want *= 4

    def _last_lines(self, want: int) -> tuple[int, list[bytes]]:
        """Return the complete lines in the last `want` bytes, and the offset of the first."""
        size = self.size_bytes
        position = max(0, size - want)
        data = read_whole(self.fd, size - position, position)
        first = 0 if position == 0 else data.find(b"\n") + 1
        last = data.rfind(b"\n")
        if last < first or (position and not first):
            return (position, []) if position else (0, [])
        return position + first, data[first:last].split(b"\n")

    def _next_head(self, position: int, limit: int) -> tuple[int, int, str] | None:
        """Return offset, seq and id of the first readable line at or after a position."""
        data, begin, step = b"", position, 1 << 12
        while begin < limit:
            chunk = read_at(self.fd, step, position + len(data))
            data += chunk
            newline = data.find(b"\n", begin - position)
            if newline < 0 or len(data) - newline < HEAD_BYTES:
                if not chunk:
                    return None
                step *= 2
                continue
            begin = position + newline + 1
            head = codec.head(data[newline + 1 : newline + 1 + HEAD_BYTES])
            if head and begin < limit:
                return begin, *head
        return None


def read_whole(fd: int, size: int, offset: int) -> bytes:
    pieces, end = [], offset + size
    while offset < end and (chunk := read_at(fd, min(end - offset, 1 << 24), offset)):
        pieces.append(chunk)
        offset += len(chunk)
    return b"".join(pieces)
