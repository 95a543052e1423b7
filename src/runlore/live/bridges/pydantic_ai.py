"""Pydantic AI: a step store over the live log, for `StepPersistence` of pydantic-ai-harness.

    from runlore.live.bridges.pydantic_ai import RunloreStepStore

    agent = Agent(model, capabilities=[StepPersistence(store=RunloreStepStore("./sessions"))])

A run is a session. A snapshot stores the messages that are new since the last one. Needs the extra
`pydantic-ai`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import datetime
from itertools import takewhile
from typing import Any, TypeVar

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    ToolEffectRecord,
)

from ...errors import Conflict
from ...model import LogRecord
from ..log import LiveSession, SessionStore
from .sessions import OpenSessions, id_for, record_after

AGENT = "pydantic-ai"
RUN, EVENT, SNAPSHOT, EFFECT = (
    f"pydantic_ai.{name}" for name in ("run", "event", "snapshot", "effect")
)
RUNS, EVENTS = TypeAdapter(RunRecord), TypeAdapter(StepEvent)
EFFECTS = TypeAdapter(ToolEffectRecord)

T = TypeVar("T")


class Snapshot(msgspec.Struct):
    """A snapshot without its messages, and the messages as JSON."""

    about: dict[str, Any]
    messages: list[Any]


class Run(msgspec.Struct):
    """The record of a run, its effects by call, and its newest snapshots."""

    record: dict[str, Any] | None = None
    effects: dict[str, dict[str, Any]] = {}
    newest: Snapshot | None = None
    complete: Snapshot | None = None
    sequence: int = -1
    """The highest number that a snapshot's key begins with."""
    keys: list[str] = []
    """The keys of snapshots without a number, and of those with the highest."""

    def add(self, record: LogRecord) -> None:
        payload = record.payload
        if record.type == RUN:
            self.record = payload
        elif record.type == EFFECT:
            self.effects[payload["tool_call_id"]] = payload
        elif record.type == SNAPSHOT:
            self._add_snapshot(payload["about"], payload["kept"], payload["messages"])

    def has_snapshot(self, key: str) -> bool:
        """Return True if a snapshot with the key, or a later one, was saved."""
        number = _number(key)
        return key in self.keys or (number is not None and number < self.sequence)

    def _add_snapshot(self, about: dict[str, Any], kept: int, messages: list[Any]) -> None:
        before = self.newest.messages[:kept] if self.newest else []
        self.newest = Snapshot(about, [*before, *messages])
        if about["state"] == "complete":
            self.complete = self.newest
        key = about.get("idempotency_key")
        if key is not None:
            number = _number(key)
            if number is not None and number > self.sequence:
                self.sequence = number
                self.keys = [one for one in self.keys if _number(one) is None]
            self.keys.append(key)


class RunloreStepStore:
    """Runs of Pydantic AI in a session store: a folder, or a server. A `StepStore`."""

    def __init__(self, store: SessionStore | str | os.PathLike[str] | None = None) -> None:
        self._sessions = OpenSessions(store, AGENT)

    async def close(self) -> None:
        await asyncio.to_thread(self._sessions.close)

    async def register_run(self, record: RunRecord) -> None:
        payload = RUNS.dump_python(record, mode="json")
        about = {"conversation": record.conversation_id, "parent_run": record.parent_run_id}

        def write(live: LiveSession) -> None:
            # An event or a snapshot may have been the first of the run.
            if live.has_begun and any(live.meta.extra.get(name) != about[name] for name in about):
                live.update_meta(about)
            live.record(RUN, payload)

        await self._write(record.run_id, write, **about)

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        return await self._read(run_id, lambda _, run: _run_record(run))

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Return the runs, the first started first."""
        wanted = {"parent_run": parent_run_id, "conversation": conversation_id}
        where = {name: value for name, value in wanted.items() if value is not None}

        def read() -> list[RunRecord]:
            infos = self._sessions.store.list(agent=AGENT, where=where)
            runs = [self._run(live) for info in infos if (live := self._sessions.get(info.id))]
            return [record for run in runs if (record := _run_record(run)) is not None]

        return sorted(await self._sessions.run(read), key=lambda one: one.started_at)

    async def append_event(self, event: StepEvent) -> None:
        """Append an event. One with a key that was used before is not appended again."""
        payload = EVENTS.dump_python(event, mode="json")

        def write(live: LiveSession) -> None:
            try:
                live.record(EVENT, payload, key=event.idempotency_key)
            except Conflict:
                return  # The same event again, with another time.

        await self._write(event.run_id, write)

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        def read(live: LiveSession, _: Run) -> list[StepEvent]:
            events = (record for record in live.records() if record.type == EVENT)
            return [EVENTS.validate_python(record.payload) for record in events]

        return await self._read(run_id, read) or []

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Save a snapshot. One with a key that was used before, or an older one, is not saved."""
        messages = ModelMessagesTypeAdapter.dump_python(snapshot.messages, mode="json")
        about = _about(snapshot)

        def payload(live: LiveSession) -> dict[str, Any] | None:
            run = self._run(live)
            if snapshot.idempotency_key and run.has_snapshot(snapshot.idempotency_key):
                return None
            before = run.newest.messages if run.newest else []
            same = takewhile(lambda pair: pair[0] == pair[1], zip(before, messages, strict=False))
            kept = sum(1 for _ in same)
            return {"about": about, "kept": kept, "messages": messages[kept:]}

        await self._write(
            snapshot.run_id, lambda live: record_after(live, SNAPSHOT, lambda: payload(live))
        )

    async def latest_snapshot(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> ContinuableSnapshot | None:
        def read(_: LiveSession, run: Run) -> ContinuableSnapshot | None:
            found = run.newest if include_interrupted else run.complete
            return None if found is None else _snapshot(found)

        return await self._read(run_id, read)

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        payload = EFFECTS.dump_python(record, mode="json")
        await self._write(record.run_id, lambda live: live.record(EFFECT, payload))

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        def read(_: LiveSession, run: Run) -> ToolEffectRecord | None:
            effect = run.effects.get(tool_call_id)
            return None if effect is None else EFFECTS.validate_python(effect)

        return await self._read(run_id, read)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        def read(_: LiveSession, run: Run) -> list[ToolEffectRecord]:
            effects = (EFFECTS.validate_python(effect) for effect in run.effects.values())
            return [effect for effect in effects if effect.status == "started"]

        return await self._read(run_id, read) or []

    def _run(self, live: LiveSession) -> Run:
        return self._sessions.fold(live, AGENT, Run, ["pydantic_ai."])

    async def _write(
        self, run_id: str, write: Callable[[LiveSession], Any], **about: str | None
    ) -> None:
        await asyncio.to_thread(
            lambda: self._sessions.write(id_for(AGENT, run_id), write, run=run_id, **about)
        )

    async def _read(self, run_id: str, read: Callable[[LiveSession, Run], T]) -> T | None:
        def work() -> T | None:
            live = self._sessions.get(id_for(AGENT, run_id))
            return None if live is None else read(live, self._run(live))

        return await self._sessions.run(work)


def _number(key: str) -> int | None:
    """Return the number that the key of a snapshot begins with, as `12:…` does."""
    head, colon, _ = key.partition(":")
    return int(head) if colon and head.isdecimal() else None


def _run_record(run: Run) -> RunRecord | None:
    return None if run.record is None else RUNS.validate_python(run.record)


def _about(snapshot: ContinuableSnapshot) -> dict[str, Any]:
    return {
        "run_id": snapshot.run_id,
        "step_index": snapshot.step_index,
        "conversation_id": snapshot.conversation_id,
        "parent_run_id": snapshot.parent_run_id,
        "agent_name": snapshot.agent_name,
        "timestamp": snapshot.timestamp.isoformat(),
        "state": snapshot.state,
        "idempotency_key": snapshot.idempotency_key,
    }


def _snapshot(stored: Snapshot) -> ContinuableSnapshot:
    about = {**stored.about, "timestamp": datetime.fromisoformat(stored.about["timestamp"])}
    messages = ModelMessagesTypeAdapter.validate_python(stored.messages)
    return ContinuableSnapshot(messages=messages, **about)
