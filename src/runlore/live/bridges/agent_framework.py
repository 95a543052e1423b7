"""Microsoft Agent Framework: history of agents and checkpoints of workflows over the live log.

    from runlore.live.bridges.agent_framework import RunloreHistoryProvider

    agent = Agent(client, context_providers=[RunloreHistoryProvider("./sessions")])

Saving N messages reads only the last N + 1 of the history. Needs the extra `agent-framework`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from agent_framework import (
    HistoryProvider,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
)
from agent_framework._sessions import filter_new_messages
from agent_framework._workflows._checkpoint_encoding import (
    decode_checkpoint_value,
    encode_checkpoint_value,
)

from ...model import LogRecord
from ..log import LiveSession, SessionStore
from .sessions import OpenSessions, id_for, last_records

AGENT = "agent-framework"
MESSAGE, CHECKPOINT, DELETED = (
    f"agent_framework.{name}" for name in ("message", "checkpoint", "checkpoint_deleted")
)
NO_SESSION = "default"
"""Id of the history of agents that run without a session."""


class RunloreHistoryProvider(HistoryProvider):
    """The messages of agents in a session store: a folder, or a server."""

    def __init__(
        self,
        store: SessionStore | str | os.PathLike[str] | None = None,
        *,
        source_id: str = "runlore",
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
    ) -> None:
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self._sessions = OpenSessions(store, AGENT)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **_: Any
    ) -> list[Message]:
        def read() -> list[Message]:
            live = self._sessions.get(_history_id(session_id))
            return list(_messages(live.records())) if live else []

        return await self._sessions.run(read)

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Append the messages that are not there yet, all or none."""

        def write(live: LiveSession) -> None:
            # Only the last ones, as many as are saved, can be duplicates.
            before = list(_messages(last_records(live, MESSAGE, len(messages) + 1)))
            new = filter_new_messages(before, messages)
            live.record_many([(MESSAGE, message.to_dict(), None) for message in new])

        if messages:
            id = _history_id(session_id)
            await asyncio.to_thread(
                lambda: self._sessions.write(id, write, session=session_id or NO_SESSION)
            )

    async def close(self) -> None:
        await asyncio.to_thread(self._sessions.close)


class Checkpoints(msgspec.Struct):
    """The seq of each checkpoint, in the order in which they were saved first."""

    seqs: dict[str, int] = {}

    def add(self, record: LogRecord) -> None:
        if record.type == DELETED:
            self.seqs.pop(record.payload["id"], None)
        elif record.type == CHECKPOINT:
            self.seqs[record.payload["id"]] = record.seq


class RunloreCheckpointStorage:
    """Checkpoints of workflows in a session store, a session for each workflow.

    Values of types that are neither the framework's nor in `allowed_checkpoint_types`
    ("module:qualname") are refused when they are saved, as they could not be loaded.
    """

    def __init__(
        self,
        store: SessionStore | str | os.PathLike[str] | None = None,
        *,
        allowed_checkpoint_types: Sequence[str] = (),
    ) -> None:
        self._sessions = OpenSessions(store, AGENT)
        self._allowed = frozenset(allowed_checkpoint_types)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        encoded = encode_checkpoint_value(checkpoint.to_dict())
        decode_checkpoint_value(encoded, allowed_types=self._allowed)
        id, name = checkpoint.checkpoint_id, checkpoint.workflow_name
        payload = {"id": id, "checkpoint": encoded}
        await asyncio.to_thread(
            lambda: self._sessions.write(
                id_for(AGENT, "workflow", name),
                lambda live: live.record(CHECKPOINT, payload),
                workflow=name,
            )
        )
        return id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        def read() -> WorkflowCheckpoint:
            for live, seqs in self._workflows():
                if checkpoint_id in seqs:
                    return self._checkpoint(live, seqs[checkpoint_id])
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")

        return await self._sessions.run(read)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        def read() -> list[WorkflowCheckpoint]:
            return [
                self._checkpoint(live, seq)
                for live, seqs in self._workflows(workflow_name)
                for seq in seqs.values()
            ]

        return await self._sessions.run(read)

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint. Its record stays in the log of the workflow."""

        def work() -> bool:
            for live, seqs in self._workflows():
                if checkpoint_id in seqs:
                    live.record(DELETED, {"id": checkpoint_id})
                    return True
            return False

        return await self._sessions.run(work)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        checkpoints = await self.list_checkpoints(workflow_name=workflow_name)
        return max(checkpoints, key=lambda one: datetime.fromisoformat(one.timestamp), default=None)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        return await self._sessions.run(
            lambda: [id for _, seqs in self._workflows(workflow_name) for id in seqs]
        )

    async def close(self) -> None:
        await asyncio.to_thread(self._sessions.close)

    def _workflows(self, name: str | None = None) -> Iterator[tuple[LiveSession, dict[str, int]]]:
        ids = self._workflow_ids() if name is None else [id_for(AGENT, "workflow", name)]
        for id in ids:
            live = self._sessions.get(id)
            if live is not None and "workflow" in live.meta.extra:
                fold = self._sessions.fold(live, AGENT, Checkpoints, ["agent_framework."])
                yield live, dict(fold.seqs)

    def _workflow_ids(self) -> list[str]:
        # Histories have a session, workflows have none.
        infos = self._sessions.store.list(agent=AGENT, where={"session": None})
        return [info.id for info in infos]

    def _checkpoint(self, live: LiveSession, seq: int) -> WorkflowCheckpoint:
        encoded = live.find(seq).payload["checkpoint"]
        return WorkflowCheckpoint.from_dict(
            decode_checkpoint_value(encoded, allowed_types=self._allowed)
        )


def _history_id(session_id: str | None) -> str:
    return id_for(AGENT, "history", session_id or NO_SESSION)


def _messages(records: Iterable[LogRecord]) -> Iterator[Message]:
    return (Message.from_dict(one.payload) for one in records if one.type == MESSAGE)
