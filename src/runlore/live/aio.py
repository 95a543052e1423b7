"""The session log for async callers: the same calls with the same signatures, awaited.

Work that may take long goes to a thread. An append that neither waits for a disk nor has to read
much is done at once: handing it to a thread would cost more than the append.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

from ..model import LogRecord
from .backend import LEASE_S, LOCK_TIMEOUT_S, Durability, Item, Problem, SessionInfo
from .folds import Fold, View
from .latest import Branch
from .liveness import LOST_AFTER, Mark, Stale
from .log import LiveSession, SessionStore
from .recorder import RecordRef
from .shared import SharedValues
from .skills import SkillLog, SkillRun
from .state import StateHandle
from .streams import Stream
from .tool_calls import Recovery
from .views import COMPACT_AT, Conversation, Message

T = TypeVar("T")
V = TypeVar("V", bound=View)


class AsyncFold(Generic[V]):
    """A Fold whose value is awaited."""

    def __init__(self, fold: Fold[V]) -> None:
        self.sync = fold

    async def value(self) -> V:
        """Return the value at the end of the log."""
        if self.sync.is_near:
            return self.sync.value
        return await asyncio.to_thread(lambda: self.sync.value)

    async def save(self) -> None:
        await asyncio.to_thread(self.sync.save)


class AsyncSession:
    """A LiveSession whose methods are awaited. `sync` is the session itself.

    `state` and `skills` stay synchronous: their writers append small records.
    """

    def __init__(self, session: LiveSession) -> None:
        self.sync = session

    @property
    def id(self) -> str:
        return self.sync.id

    @property
    def path(self) -> Path:
        return self.sync.path

    @property
    def readonly(self) -> bool:
        return self.sync.readonly

    @property
    def durability(self) -> Durability:
        return self.sync.durability

    @property
    def is_draft(self) -> bool:
        return self.sync.is_draft

    @property
    def has_begun(self) -> bool:
        return self.sync.has_begun

    @property
    def last_seq(self) -> int:
        return self.sync.last_seq

    @property
    def problems(self) -> list[Problem]:
        return self.sync.problems

    @property
    def meta(self) -> SessionInfo:
        """Facts about the session. `info` does not block while a long log is read."""
        return self.sync.meta

    @property
    def state(self) -> StateHandle:
        return self.sync.state

    @property
    def skills(self) -> SkillLog:
        return self.sync.skills

    def skill(self, name: str, **about: Any) -> SkillRun:
        return self.sync.skill(name, **about)

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    async def append(
        self,
        message: Mapping[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
        partial: bool = False,
    ) -> LogRecord:
        return await self._write(
            lambda: self.sync.append(message, key=key, expect=expect, partial=partial), key
        )

    async def append_many(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> list[LogRecord]:
        return await self._write(
            lambda: self.sync.append_many(messages, key=key, expect=expect), key
        )

    async def record(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> LogRecord:
        return await self._write(
            lambda: self.sync.record(type, payload, key=key, expect=expect), key
        )

    async def record_many(
        self, items: Sequence[Item], *, expect: int | None = None
    ) -> list[LogRecord]:
        key = next((key for _, _, key in items if key is not None), None)
        return await self._write(lambda: self.sync.record_many(items, expect=expect), key)

    async def rewind(
        self, to: RecordRef | None = None, *, before: RecordRef | None = None
    ) -> LogRecord:
        return await asyncio.to_thread(self.sync.rewind, to, before=before)

    async def redo(self) -> LogRecord:
        return await asyncio.to_thread(self.sync.redo)

    async def compact(
        self,
        summary: str,
        *,
        upto: RecordRef | None = None,
        usage: Mapping[str, Any] | None = None,
        **about: Any,
    ) -> LogRecord:
        return await asyncio.to_thread(self.sync.compact, summary, upto=upto, usage=usage, **about)

    async def clear(self) -> LogRecord:
        return await self._write(self.sync.clear)

    async def set_title(self, title: str) -> LogRecord:
        return await self._write(lambda: self.sync.set_title(title))

    async def update_meta(
        self, changes: Mapping[str, Any] | None = None, /, **more: Any
    ) -> LogRecord:
        return await self._write(lambda: self.sync.update_meta(changes, **more))

    async def redact(
        self, record: RecordRef, replacement: Mapping[str, Any] | None = None
    ) -> LogRecord:
        return await asyncio.to_thread(self.sync.redact, record, replacement)

    async def fork(
        self,
        at: RecordRef | None = None,
        *,
        id: str | None = None,
        title: str | None = None,
        all: bool = False,
    ) -> AsyncSession:
        return AsyncSession(
            await asyncio.to_thread(self.sync.fork, at, id=id, title=title, all=all)
        )

    async def tool_started(
        self,
        call_id: str,
        name: str = "",
        input: Any = None,
        *,
        replay: Literal["never", "safe"] = "never",
    ) -> LogRecord:
        return await self._write(
            lambda: self.sync.tool_started(call_id, name, input, replay=replay)
        )

    async def tool_waiting(self, call_id: str, reason: str = "approval") -> LogRecord:
        return await self._write(lambda: self.sync.tool_waiting(call_id, reason))

    async def tool_decided(
        self, call_id: str, approved: bool, *, by: str = "", payload: Any = None
    ) -> LogRecord:
        return await self._write(
            lambda: self.sync.tool_decided(call_id, approved, by=by, payload=payload)
        )

    async def model_started(self, model: str = "", *, request: Any = None) -> LogRecord:
        return await self._write(lambda: self.sync.model_started(model, request=request))

    async def model_finished(
        self,
        usage: Mapping[str, Any],
        *,
        started: RecordRef | None = None,
        model: str = "",
        duration_ms: int | None = None,
    ) -> LogRecord:
        return await self._write(
            lambda: self.sync.model_finished(
                usage, started=started, model=model, duration_ms=duration_ms
            )
        )

    def stream(self, role: str = "assistant", *, key: str | None = None) -> AsyncStream:
        return AsyncStream(self, self.sync.stream(role, key=key))

    async def tool_finished(
        self, call_id: str, output: Any = None, *, is_error: bool = False
    ) -> LogRecord:
        return await self._write(
            lambda: self.sync.tool_finished(call_id, output, is_error=is_error)
        )

    async def put_values(
        self, values: Mapping[str, Any] | None = None, /, *, delete: Iterable[str] = ()
    ) -> None:
        await asyncio.to_thread(self.sync.put_values, values, delete=delete)

    async def put_output(self, data: bytes | str) -> dict[str, Any]:
        return await asyncio.to_thread(self.sync.put_output, data)

    async def put_snapshot(self, name: str, seq: int, data: bytes) -> None:
        await asyncio.to_thread(self.sync.put_snapshot, name, seq, data)

    async def wait_for_disk(self) -> None:
        """Wait until everything appended so far is on the disk: `sync` of the session itself."""
        await asyncio.to_thread(self.sync.sync)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def messages(
        self,
        *,
        last: int | None = None,
        repaired: bool = True,
        partial: bool = True,
        whole: bool = True,
    ) -> list[Message]:
        return await asyncio.to_thread(
            self.sync.messages, last=last, repaired=repaired, partial=partial, whole=whole
        )

    async def conversation(
        self,
        at: RecordRef | None = None,
        *,
        repaired: bool = True,
        partial: bool = True,
        whole: bool = True,
    ) -> Conversation:
        return await asyncio.to_thread(
            self.sync.conversation, at, repaired=repaired, partial=partial, whole=whole
        )

    async def at(self, record: RecordRef) -> Conversation:
        return await asyncio.to_thread(self.sync.at, record)

    async def branches(self) -> list[Branch]:
        return await asyncio.to_thread(self.sync.branches)

    async def recover(self) -> Recovery:
        return await asyncio.to_thread(self.sync.recover)

    async def should_compact(
        self, window: int, usage: Mapping[str, Any] | None = None, threshold: float = COMPACT_AT
    ) -> bool:
        return await asyncio.to_thread(self.sync.should_compact, window, usage, threshold)

    async def info(self) -> SessionInfo:
        """Return facts about the session: `meta` of the session itself."""
        return await asyncio.to_thread(lambda: self.sync.meta)

    async def values(self) -> dict[str, Any]:
        return await asyncio.to_thread(self.sync.values)

    async def output(self, ref: dict[str, Any] | str) -> bytes:
        return await asyncio.to_thread(self.sync.output, ref)

    def fold(
        self,
        name: str,
        view: type[V],
        *,
        types: Collection[str] | None = None,
        version: int = 1,
    ) -> AsyncFold[V]:
        return AsyncFold(self.sync.fold(name, view, types=types, version=version))

    async def find(self, record: LogRecord | int | str) -> LogRecord:
        return await asyncio.to_thread(self.sync.find, record)

    async def tail(self, count: int = 50) -> list[LogRecord]:
        return await asyncio.to_thread(self.sync.tail, count)

    async def check(self) -> list[Problem]:
        return await asyncio.to_thread(self.sync.check)

    async def snapshot(self, name: str) -> tuple[int, bytes] | None:
        return await asyncio.to_thread(self.sync.snapshot, name)

    async def records(self, after: int = -1) -> AsyncIterator[LogRecord]:
        """Yield the records after seq `after`, read in blocks so that other tasks can run."""
        source = self.sync.records(after)
        while block := await asyncio.to_thread(_take, source, 1000):
            for record in block:
                yield record

    async def follow(
        self,
        after: int | None = None,
        *,
        poll_s: float = 0.05,
        timeout_s: float | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> AsyncIterator[LogRecord]:
        """Yield records as anyone appends them, from now on or after seq `after`."""
        last = self.sync.last_seq if after is None else after
        waited = 0.0
        while not (stop and stop()) and (timeout_s is None or waited < timeout_s):
            async for record in self.records(last):
                last, waited = record.seq, 0.0
                yield record
            await asyncio.sleep(poll_s)
            waited += poll_s

    async def close(self) -> None:
        await asyncio.to_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _write(self, work: Callable[[], T], key: str | None = None) -> T:
        if self.sync.appends_at_once(has_key=key is not None):
            return work()
        return await asyncio.to_thread(work)


class AsyncStream:
    """A Stream whose methods are awaited: `async with session.stream() as stream`."""

    def __init__(self, session: AsyncSession, stream: Stream) -> None:
        self.sync = stream
        self._session = session

    @property
    def message(self) -> dict[str, Any]:
        return self.sync.message

    @property
    def record(self) -> LogRecord | None:
        return self.sync.record

    async def text(self, text: str) -> None:
        await self._session._write(lambda: self.sync.text(text))

    async def thinking(self, text: str) -> None:
        await self._session._write(lambda: self.sync.thinking(text))

    async def block(self, block: Mapping[str, Any]) -> None:
        await self._session._write(lambda: self.sync.block(block))

    async def flush(self) -> None:
        await self._session._write(self.sync.flush)

    async def finish(self, message: Mapping[str, Any] | None = None) -> LogRecord:
        return await self._session._write(lambda: self.sync.finish(message))

    async def __aenter__(self) -> Self:
        self.sync.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.sync.__exit__, kind, error, trace)


class AsyncSessionStore:
    """A SessionStore whose methods are awaited. `sync` is the store itself."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        durability: Durability = "process",
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        lease_s: float = LEASE_S,
    ) -> None:
        self.sync = SessionStore(
            path, durability=durability, lock_timeout_s=lock_timeout_s, lease_s=lease_s
        )

    async def create(
        self,
        title: str | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        api_base: str | None = None,
        agent: str | None = None,
        parent: str | None = None,
        call: str | None = None,
        id: str | None = None,
        **extra: Any,
    ) -> AsyncSession:
        session = await asyncio.to_thread(
            self.sync.create, title,
            provider=provider, model=model, cwd=cwd, api_base=api_base, agent=agent,
            parent=parent, call=call, id=id, **extra,
        )  # fmt: skip
        return AsyncSession(session)

    def draft(
        self,
        title: str | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        api_base: str | None = None,
        agent: str | None = None,
        parent: str | None = None,
        call: str | None = None,
        id: str | None = None,
        **extra: Any,
    ) -> AsyncSession:
        """Return a draft. Nothing is on disk yet, so there is nothing to wait for."""
        session = self.sync.draft(
            title,
            provider=provider, model=model, cwd=cwd, api_base=api_base, agent=agent,
            parent=parent, call=call, id=id, **extra,
        )  # fmt: skip
        return AsyncSession(session)

    async def open(
        self,
        id: str,
        *,
        exclusive: bool = False,
        readonly: bool = False,
        owner: str | None = None,
        take_over: str | None = None,
    ) -> AsyncSession:
        session = await asyncio.to_thread(
            self.sync.open,
            id, exclusive=exclusive, readonly=readonly, owner=owner, take_over=take_over,
        )  # fmt: skip
        return AsyncSession(session)

    async def ensure(self, id: str, **about: Any) -> AsyncSession:
        return AsyncSession(await asyncio.to_thread(self.sync.ensure, id, **about))

    async def restore(self, id: str) -> AsyncSession:
        return AsyncSession(await asyncio.to_thread(self.sync.restore, id))

    async def shared(self, scope: str) -> SharedValues:
        return await asyncio.to_thread(self.sync.shared, scope)

    async def list(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SessionInfo]:
        return await asyncio.to_thread(
            self.sync.list,
            cwd=cwd, status=status, agent=agent, where=where, limit=limit, offset=offset,
        )  # fmt: skip

    async def latest(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> SessionInfo | None:
        return await asyncio.to_thread(
            self.sync.latest, cwd=cwd, status=status, agent=agent, where=where
        )

    async def delete(self, id: str) -> None:
        await asyncio.to_thread(self.sync.delete, id)

    async def trash(self) -> Sequence[str]:
        return await asyncio.to_thread(self.sync.trash)

    async def empty_trash(self) -> int:
        return await asyncio.to_thread(self.sync.empty_trash)

    async def purge(self, id: str) -> None:
        await asyncio.to_thread(self.sync.purge, id)

    async def stale(self) -> Sequence[Stale]:
        return await asyncio.to_thread(self.sync.stale)

    async def recover(
        self, mark: Mark = "failed", *, lost_after: timedelta | None = LOST_AFTER
    ) -> Sequence[Stale]:
        return await asyncio.to_thread(self.sync.recover, mark, lost_after=lost_after)

    async def reindex(self) -> None:
        await asyncio.to_thread(self.sync.reindex)

    async def close(self) -> None:
        await asyncio.to_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _take(source: Iterator[LogRecord], count: int) -> list[LogRecord]:
    return list(islice(source, count))
