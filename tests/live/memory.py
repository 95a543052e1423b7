"""A log in memory, with what the views need of a real one: for tests of folds, that are about
values and not about files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from runlore.model import LogRecord


class MemoryLog:
    def __init__(self, id: str = "s1") -> None:
        self.id = id
        self.kept: list[LogRecord] = []
        self.snapshots: dict[str, tuple[int, bytes]] = {}
        self.read = 0  # Records that were given to readers.

    def record(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> LogRecord:
        known = next(
            (record for record in self.kept if key is not None and record.key == key), None
        )
        if known is not None:
            return known
        number = len(self.kept)
        plain = msgspec.json.decode(msgspec.json.encode(payload))
        self.kept.append(
            LogRecord(
                id=f"{number:032x}",
                seq=number,
                ts=datetime.now(UTC),
                type=type,
                payload=plain,
                key=key,
            )
        )
        return self.kept[-1]

    def records(self, after: int = -1) -> Iterator[LogRecord]:
        for record in self.kept[after + 1 :]:
            self.read += 1
            yield record

    def snapshot(self, name: str) -> tuple[int, bytes] | None:
        return self.snapshots.get(name)

    def put_snapshot(self, name: str, seq: int, data: bytes) -> None:
        self.snapshots[name] = (seq, data)
