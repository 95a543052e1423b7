"""The log of a session in a folder: see `SessionLog`. A position is an offset in the file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import Conflict
from ...model import LogRecord
from ..backend import Durability, Item, Listener, Problem
from ..names import id_of
from .blobs import FolderBlobs
from .lease import Lease
from .log_file import LogFile
from .log_reader import LOG, LogReader
from .snapshots import FolderSnapshots
from .type_scan import scan_types


class FolderLog:
    """A `log.jsonl`, read and appended to."""

    def __init__(
        self,
        folder: Path,
        listener: Listener,
        durability: Durability,
        lock_timeout_s: float,
        make_folder: Callable[[Path], None],
    ) -> None:
        self.folder = folder
        self.reader = LogReader(folder / LOG)
        self.file = LogFile(self.reader, durability, lock_timeout_s, self._on_new, listener.on_own)
        self.lease = Lease(folder, self.file)
        self.blobs = FolderBlobs(folder, durability == "power")
        self.snapshots = FolderSnapshots(folder, self.reader)
        self._listener = listener
        self._make_folder = make_folder

    @property
    def mutex(self) -> threading.RLock:
        return self.file.mutex

    @property
    def is_inherited(self) -> bool:
        return self.file.is_inherited

    @is_inherited.setter
    def is_inherited(self, value: bool) -> None:
        self.file.is_inherited = value

    @property
    def problems(self) -> list[Problem]:
        return self.reader.problems

    def exists(self) -> bool:
        return not self.folder.is_symlink() and (self.folder / LOG).is_file()

    def create(self, items: Sequence[Item]) -> list[LogRecord]:
        self._make_folder(self.folder)
        try:
            self.file.create()
        except FileExistsError:
            raise Conflict(f"{id_of(self.folder.name)}: a session with this id exists") from None
        # When two handles create it at the same time, only one may be first.
        return self.file.append(items, -1)

    def append(self, items: Sequence[Item], expect: int | None) -> list[LogRecord]:
        return self.file.append(items, expect)

    def overwrite(self, seq: int, payloads: Sequence[dict[str, Any]]) -> LogRecord:
        record = self.file.overwrite(seq, payloads)
        # What was set aside after a crash may hold it, too.
        (self.folder / LOG).with_suffix(".torn").unlink(missing_ok=True)
        return record

    def is_current(self, *, has_key: bool = False) -> bool:
        return self.file.is_current(has_key=has_key)

    def scan(self, position: int = 0) -> Iterator[tuple[LogRecord, int]]:
        return self.reader.scan(position)

    def scan_types(self, position: int, types: Collection[str]) -> Iterator[tuple[LogRecord, int]]:
        return scan_types(self.reader, position, types)

    def collect(self, low: int, high: int, types: frozenset[str]) -> list[LogRecord]:
        return self.reader.collect(low, high, types)

    def tail(self, count: int) -> list[LogRecord]:
        return self.reader.tail(count)

    def position_of(self, seq: int) -> int:
        return self.reader.find(lambda n, _: n <= seq) if seq >= 0 else 0

    def find_id(self, id: str) -> LogRecord | None:
        position = self.reader.find(lambda _, other: other <= id)
        match = next((record for record, _ in self.reader.scan(position) if record.id >= id), None)
        if match is not None and match.id == id:
            return match
        # A log that was written by hand may have ids that do not grow.
        return next((record for record, _ in self.reader.scan() if record.id == id), None)

    def bytes_after(self, position: int) -> int:
        return self.reader.size_bytes - position

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return True

    def sync(self) -> None:
        self.file.sync()

    def close(self) -> None:
        self.lease.release()
        self.file.close()
        self.reader.close()

    def _on_new(self, records: list[LogRecord] | None, end: int) -> None:
        """Learn from the records of others, under the lock, what concerns this handle itself."""
        self.lease.learn(records)
        if records is None:
            self.file.is_gone = not self.reader.is_in_place
        else:
            for record in records:
                if record.type in ("deleted", "restored"):
                    self.file.is_gone = record.type == "deleted"
        self._listener.on_new(records, end)
