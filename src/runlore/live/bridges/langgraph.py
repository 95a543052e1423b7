"""LangGraph: a checkpoint saver over the live log. A thread is a session.

    from runlore.live.bridges.langgraph import RunloreSaver

    graph = builder.compile(checkpointer=RunloreSaver("./sessions"))

A checkpoint is one record. It has the values that changed since its parent; of a list of messages
only those that are new. Needs the extra `langgraph`.
"""

from __future__ import annotations

import asyncio
import os
import random
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Self, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from ...model import LogRecord
from ..log import LiveSession, SessionStore
from .sessions import OpenSessions, record_after

AGENT = "langgraph"
CHECKPOINT, WRITES, DROPPED = (f"{AGENT}.{name}" for name in ("checkpoint", "writes", "dropped"))
MAX_INLINE_BYTES = 64 * 1024
"""Maximum size of a serialized value in the log. A larger one becomes a blob."""
COPIED_AT_ONCE = 100
"""Number of records in one append of a copy."""
PLAIN = (str, bytes, bytearray, int, float, type(None))
"""Types of list items that are not worth an entry each."""


class Data(msgspec.Struct, array_like=True):
    """A serialized value: its kind, and the bytes in base64 or a reference to them."""

    kind: str
    data: str | dict[str, Any]


class Value(msgspec.Struct, omit_defaults=True):
    """The value of a channel: the whole value, or the items to append to a prefix of another
    list."""

    whole: Data | None = None
    base: int | None = None
    kept: int = 0
    items: list[Data] = []


class Write(msgspec.Struct):
    """A pending write of a task."""

    task: str
    index: int
    path: str
    channel: str
    data: Data


class StoredCheckpoint(msgspec.Struct):
    """A checkpoint. `values` has the number of the value of each channel."""

    parent: str | None
    checkpoint: Data
    metadata: Data
    values: dict[str, int]


class Space(msgspec.Struct):
    """The checkpoints of a namespace, and their writes by task and index."""

    checkpoints: dict[str, StoredCheckpoint] = {}
    writes: dict[str, dict[str, Write]] = {}

    def newest(self) -> str | None:
        return max(self.checkpoints, default=None)


class Put(msgspec.Struct, omit_defaults=True):
    """The record of a checkpoint. Channels in `same` have the values that the parent has.

    The base of a value is the value that the parent has.
    """

    space: str
    id: str
    parent: str | None
    checkpoint: Data
    metadata: Data
    values: dict[str, Value] = {}
    same: list[str] = []


class PutWrites(msgspec.Struct):
    """The record of writes."""

    space: str
    checkpoint: str
    writes: list[Write]


class Dropped(msgspec.Struct):
    """The record of checkpoints that no longer count: pairs of namespace and id."""

    checkpoints: list[tuple[str, str]]


class Thread(msgspec.Struct):
    """What the records of a thread add up to."""

    spaces: dict[str, Space] = {}
    values: dict[int, Value] = {}
    next_number: int = 0

    def add(self, record: LogRecord) -> None:
        if record.type == CHECKPOINT:
            self._add_checkpoint(msgspec.convert(record.payload, Put))
        elif record.type == WRITES:
            self._add_writes(msgspec.convert(record.payload, PutWrites))
        elif record.type == DROPPED:
            self._drop(msgspec.convert(record.payload, Dropped).checkpoints)

    def parent_values(self, space: str, parent: str | None) -> dict[str, int]:
        stored = self.spaces[space].checkpoints.get(parent or "") if space in self.spaces else None
        return stored.values if stored else {}

    def items_of(self, number: int) -> list[Data] | None:
        """Return the items of a list that was stored item by item; None for other values."""
        chain: list[tuple[Value, int]] = []
        count: int | None = None
        at: int | None = number
        while at is not None:
            value = self.values[at]
            if value.whole is not None:
                return None
            chain.append((value, len(value.items) if count is None else count - value.kept))
            count = value.kept if count is None else min(count, value.kept)
            at = value.base if count else None
        items: list[Data] = []
        for value, wanted in reversed(chain):
            items += value.items[: max(0, wanted)]
        return items

    def _add_checkpoint(self, put: Put) -> None:
        inherited = self.parent_values(put.space, put.parent)
        numbers = {name: inherited[name] for name in put.same if name in inherited}
        for name, value in put.values.items():
            base = inherited.get(name) if value.kept else None
            numbers[name] = self.next_number
            self.values[self.next_number] = msgspec.structs.replace(value, base=base)
            self.next_number += 1
        space = self.spaces.setdefault(put.space, Space())
        space.checkpoints[put.id] = StoredCheckpoint(
            put.parent, put.checkpoint, put.metadata, numbers
        )

    def _add_writes(self, put: PutWrites) -> None:
        writes = self.spaces.setdefault(put.space, Space()).writes.setdefault(put.checkpoint, {})
        for write in put.writes:
            name = f"{write.index} {write.task}"
            # What a task has written is written; only special writes are replaced.
            if write.index < 0 or name not in writes:
                writes[name] = write

    def _drop(self, checkpoints: Iterable[tuple[str, str]]) -> None:
        for name, id in checkpoints:
            if space := self.spaces.get(name):
                space.checkpoints.pop(id, None)
                space.writes.pop(id, None)
        used = {
            number
            for space in self.spaces.values()
            for stored in space.checkpoints.values()
            for number in stored.values.values()
        }
        waiting = list(used)
        while waiting:
            base = self.values[waiting.pop()].base
            if base is not None and base not in used:
                used.add(base)
                waiting.append(base)
        self.values = {number: value for number, value in self.values.items() if number in used}


class RunloreSaver(BaseCheckpointSaver[str]):
    """Checkpoints of LangGraph in a session store: a folder, or a server."""

    def __init__(
        self,
        store: SessionStore | str | os.PathLike[str] | None = None,
        *,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._sessions = OpenSessions(store, AGENT)

    def close(self) -> None:
        """Close what is open. It is opened again when it is needed."""
        self._sessions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self._sessions.lock:
            id, space_name = _thread_of(config), _space_of(config)
            session = self._sessions.get(id)
            if session is None:
                return None
            thread = self._thread(session)
            space = thread.spaces.get(space_name, Space())
            checkpoint = get_checkpoint_id(config) or space.newest()
            if checkpoint not in space.checkpoints:
                return None
            return self._tuple(session, thread, space_name, checkpoint)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        older_than = get_checkpoint_id(before) if before else None
        yield from islice(self._matches(config, filter or {}, older_than), limit)

    def _matches(
        self, config: RunnableConfig | None, wanted: dict[str, Any], before: str | None
    ) -> Iterator[CheckpointTuple]:
        only = get_checkpoint_id(config) if config else None
        space_only = config["configurable"].get("checkpoint_ns") if config else None
        for id in [_thread_of(config)] if config else self._sessions.ids():
            for space, checkpoint in self._checkpoints(id):
                if (
                    space_only not in (None, space)
                    or only not in (None, checkpoint)
                    or (before is not None and checkpoint >= before)
                ):
                    continue
                match = self._match(id, space, checkpoint, wanted)
                if match is not None:
                    yield match

    def _match(
        self, id: str, space: str, checkpoint: str, wanted: dict[str, Any]
    ) -> CheckpointTuple | None:
        """Return a checkpoint with these metadata; None if it was dropped meanwhile."""
        with self._sessions.lock:
            session = self._sessions.get(id)
            if session is None:
                return None
            thread = self._thread(session)
            stored = thread.spaces.get(space, Space()).checkpoints.get(checkpoint)
            if stored is None:
                return None
            metadata = self._load(session, stored.metadata)
            if any(metadata.get(key) != value for key, value in wanted.items()):
                return None
            return self._tuple(session, thread, space, checkpoint)

    def _checkpoints(self, id: str) -> Sequence[tuple[str, str]]:
        """Return the namespace and id of each checkpoint, the newest of each namespace first."""
        with self._sessions.lock:
            session = self._sessions.get(id)
            spaces = self._thread(session).spaces if session else {}
            return [
                (name, checkpoint)
                for name, space in spaces.items()
                for checkpoint in sorted(space.checkpoints, reverse=True)
            ]

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        with self._sessions.lock:
            return super().get_delta_channel_history(config=config, channels=channels)

    def _tuple(self, session: LiveSession, thread: Thread, space: str, id: str) -> CheckpointTuple:
        stored = thread.spaces[space].checkpoints[id]
        writes = thread.spaces[space].writes.get(id, {}).values()
        ordered = sorted(writes, key=lambda one: writes_sort_key(one.path, one.task, one.index))
        values = {
            name: self._load_value(session, thread, number)
            for name, number in stored.values.items()
        }
        return CheckpointTuple(
            config=_config(session.id, space, id),
            checkpoint=cast(
                "Checkpoint", {**self._load(session, stored.checkpoint), "channel_values": values}
            ),
            metadata=self._load(session, stored.metadata),
            parent_config=_config(session.id, space, stored.parent) if stored.parent else None,
            pending_writes=[
                (one.task, one.channel, self._load(session, one.data)) for one in ordered
            ],
        )

    def _thread(self, session: LiveSession) -> Thread:
        return self._sessions.fold(session, AGENT, Thread, [f"{AGENT}."])

    def _load_value(self, session: LiveSession, thread: Thread, number: int) -> Any:
        whole = thread.values[number].whole
        if whole is not None:
            return self._load(session, whole)
        return [self._load(session, item) for item in thread.items_of(number) or ()]

    def _load(self, session: LiveSession, data: Data) -> Any:
        raw = b64decode(data.data) if isinstance(data.data, str) else session.output(data.data)
        return self.serde.loads_typed((data.kind, raw))

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        id, space = _thread_of(config), _space_of(config)
        rest = cast("dict[str, Any]", checkpoint.copy())
        values = rest.pop("channel_values")
        parent = config["configurable"].get("checkpoint_id")

        def payload(session: LiveSession) -> dict[str, Any]:
            thread = self._thread(session)
            inherited = thread.parent_values(space, parent)
            same = [name for name in values if name in inherited and name not in new_versions]
            changed = {
                name: self._dump_value(session, thread, value, inherited.get(name))
                for name, value in values.items()
                if name not in same
            }
            put = Put(
                space=space, id=checkpoint["id"], parent=parent,
                checkpoint=self._dump(session, rest),
                metadata=self._dump(session, get_checkpoint_metadata(config, metadata)),
                values=changed, same=same,
            )  # fmt: skip
            content: dict[str, Any] = msgspec.to_builtins(put)
            return content

        self._sessions.write(
            id, lambda session: record_after(session, CHECKPOINT, lambda: payload(session))
        )
        return _config(id, space, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        def write(session: LiveSession) -> None:
            put = PutWrites(
                space=_space_of(config),
                checkpoint=config["configurable"]["checkpoint_id"],
                writes=[
                    Write(
                        task=task_id, index=WRITES_IDX_MAP.get(channel, index), path=task_path,
                        channel=channel, data=self._dump(session, value),
                    )
                    for index, (channel, value) in enumerate(writes)
                ],
            )  # fmt: skip
            session.record(WRITES, msgspec.to_builtins(put))

        self._sessions.write(_thread_of(config), write)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version that is larger, and unlike that of another branch."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311

    def _dump_value(
        self, session: LiveSession, thread: Thread, value: Any, base: int | None
    ) -> Value:
        """Return the whole value, or the items to append to a prefix of the base's list."""
        if type(value) is not list or not value or any(isinstance(one, PLAIN) for one in value):
            return Value(whole=self._dump(session, value))
        items = [self._dump(session, item) for item in value]
        before = (thread.items_of(base) or []) if base is not None else []
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, items, strict=False))
        kept = sum(1 for _ in same)
        return Value(kept=kept, items=items[kept:])

    def _dump(self, session: LiveSession, value: Any) -> Data:
        kind, raw = self.serde.dumps_typed(value)
        if len(raw) > MAX_INLINE_BYTES:
            return Data(kind, session.put_output(raw))
        return Data(kind, b64encode(raw).decode())

    # ── deleting and copying ──────────────────────────────────────────────────────────────────────

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread for good: its log, and all that was derived from it."""
        with self._sessions.lock:
            if self._sessions.get(str(thread_id)) is not None:
                self._sessions.delete(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop the checkpoints of runs, but keep values that other checkpoints use.

        Their records stay in the log until the thread is deleted.
        """
        wanted = set(map(str, run_ids))
        for id in self._sessions.ids():
            with self._sessions.lock:
                if session := self._sessions.get(id):
                    thread = self._thread(session)
                    self._drop(
                        session,
                        [
                            (name, checkpoint)
                            for name, space in thread.spaces.items()
                            for checkpoint, stored in space.checkpoints.items()
                            if str(self._load(session, stored.metadata).get("run_id")) in wanted
                        ],
                    )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop all but the newest checkpoint of each namespace; with `delete`, whole threads.

        Ancestors that a delta channel of the newest is made of are kept. Records of what is dropped
        stay in the log until the thread is deleted.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"unknown strategy {strategy!r}: use 'keep_latest' or 'delete'")
        for id in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(id)
                continue
            with self._sessions.lock:
                if session := self._sessions.get(id):
                    spaces = self._thread(session).spaces
                    kept = {name: self._needed(session, space) for name, space in spaces.items()}
                    self._drop(
                        session,
                        [
                            (name, checkpoint)
                            for name, space in spaces.items()
                            for checkpoint in space.checkpoints.keys() - kept[name]
                        ],
                    )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes into another thread."""
        with self._sessions.lock:
            source = self._sessions.get(str(source_thread_id))
            if source is None:
                return
            records = (one for one in source.records() if one.type in (CHECKPOINT, WRITES, DROPPED))
            while some := list(islice(records, COPIED_AT_ONCE)):
                target = self._sessions.ensure(str(target_thread_id))
                target.record_many(
                    [(one.type, _moved(one.payload, source, target), None) for one in some]
                )

    def _drop(self, session: LiveSession, checkpoints: Sequence[tuple[str, str]]) -> None:
        if checkpoints:
            session.record(DROPPED, msgspec.to_builtins(Dropped(sorted(checkpoints))))

    def _needed(self, session: LiveSession, space: Space) -> set[str]:
        """Return the newest checkpoint and the ancestors that its delta channels are made of."""
        id = space.newest()
        if id is None:
            return set()
        needed = {id}
        stored = space.checkpoints[id]
        counters = self._load(session, stored.metadata).get("counters_since_delta_snapshot") or {}
        open_channels = set(counters) - set(stored.values)
        while open_channels and stored.parent in space.checkpoints:
            needed.add(stored.parent)
            stored = space.checkpoints[stored.parent]
            open_channels -= set(stored.values)
        return needed

    # ── the same for async graphs ─────────────────────────────────────────────────────────────────

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        matches = self.list(config, filter=filter, before=before, limit=limit)
        while (match := await asyncio.to_thread(next, matches, None)) is not None:
            yield match

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await asyncio.to_thread(
            self.get_delta_channel_history, config=config, channels=channels
        )

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))


def _thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _space_of(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns", ""))


def _config(thread: str, space: str, checkpoint: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": space,
            "checkpoint_id": checkpoint,
        }
    }


def _moved(value: Any, source: LiveSession, target: LiveSession) -> Any:
    """Return a payload for another session, after storing there what the payload refers to."""
    if isinstance(value, dict):
        if "sha256" in value:
            return target.put_output(source.output(value))
        return {name: _moved(one, source, target) for name, one in value.items()}
    return [_moved(one, source, target) for one in value] if isinstance(value, list) else value
