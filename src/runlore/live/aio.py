"""The session log for async callers: the same calls, awaited.

Work that waits for a disk goes to a thread. An append that does not wait is done at once: handing
it to a thread would cost more than the append.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar

from ..model import LogRecord
from .handle import LOCK_TIMEOUT_S
from .index import SessionInfo
from .liveness import LOST_AFTER, Mark, Stale
from .log import LiveSession, SessionStore
from .log_file import Durability
from .shared import SharedValues

T = TypeVar("T")

QUICK = frozenset(
    {
        "append",
        "append_many",
        "record",
        "record_many",
        "tool_started",
        "tool_waiting",
        "tool_finished",
        "rewind",
        "clear",
    }
)
"""Methods that only append: done at once unless they have to wait for the disk."""


class AsyncSession:
    """A LiveSession whose methods are awaited: `await session.append(…)`, `await
    session.messages()`.

    `sync` is the session itself.
    """

    def __init__(self, session: LiveSession) -> None:
        self.sync = session
        self.id = session.id
        self.path = session.path

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.sync, name)
        if name.startswith("_") or not callable(method):
            return method
        is_quick = name in QUICK and self.sync.durability == "process"

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = (
                method(*args, **kwargs)
                if is_quick
                else await asyncio.to_thread(method, *args, **kwargs)
            )
            return AsyncSession(result) if isinstance(result, LiveSession) else result

        return call

    async def records(self, after: int = -1) -> AsyncIterator[LogRecord]:
        """Yield the records after seq `after`, read in blocks so that other tasks can run."""
        source = self.sync.records(after)
        while lot := await asyncio.to_thread(_take, source, 1000):
            for record in lot:
                yield record

    async def follow(
        self, after: int | None = None, *, poll_s: float = 0.05, timeout_s: float | None = None
    ) -> AsyncIterator[LogRecord]:
        """Yield records as anyone appends them."""
        last = self.sync.last_seq if after is None else after
        waited = 0.0
        while timeout_s is None or waited < timeout_s:
            async for record in self.records(last):
                last, waited = record.seq, 0.0
                yield record
            await asyncio.sleep(poll_s)
            waited += poll_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.sync.close)


class AsyncSessionStore:
    """A SessionStore whose methods are awaited. `sync` is the store itself."""

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        durability: Durability = "process",
        lock_timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        self.sync = SessionStore(path, durability=durability, lock_timeout_s=lock_timeout_s)

    async def create(self, title: str | None = None, **about: Any) -> AsyncSession:
        return AsyncSession(await _away(lambda: self.sync.create(title, **about)))

    async def open(self, id: str, **how: Any) -> AsyncSession:
        return AsyncSession(await _away(lambda: self.sync.open(id, **how)))

    async def ensure(self, id: str, **about: Any) -> AsyncSession:
        return AsyncSession(await _away(lambda: self.sync.ensure(id, **about)))

    async def restore(self, id: str) -> AsyncSession:
        return AsyncSession(await _away(lambda: self.sync.restore(id)))

    def draft(self, title: str | None = None, **about: Any) -> AsyncSession:
        """Return a draft. Nothing is on disk yet, so there is nothing to wait for."""
        return AsyncSession(self.sync.draft(title, **about))

    async def shared(self, scope: str) -> SharedValues:
        return await _away(lambda: self.sync.shared(scope))

    async def list(self, **wanted: Any) -> list[SessionInfo]:
        return await _away(lambda: self.sync.list(**wanted))

    async def latest(self, **wanted: Any) -> SessionInfo | None:
        return await _away(lambda: self.sync.latest(**wanted))

    async def delete(self, id: str) -> None:
        await _away(lambda: self.sync.delete(id))

    async def trash(self) -> Sequence[str]:
        return await _away(self.sync.trash)

    async def empty_trash(self) -> int:
        return await _away(self.sync.empty_trash)

    async def stale(self) -> Sequence[Stale]:
        return await _away(self.sync.stale)

    async def recover(
        self, mark: Mark = "failed", *, lost_after: timedelta | None = LOST_AFTER
    ) -> Sequence[Stale]:
        return await _away(lambda: self.sync.recover(mark, lost_after=lost_after))

    async def reindex(self) -> None:
        await _away(self.sync.reindex)

    async def close(self) -> None:
        await _away(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def _away(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


def _take(source: Any, count: int) -> list[LogRecord]:
    return [record for _, record in zip(range(count), source, strict=False)]
