"""Stores for Microsoft Agent Framework, compared call by call with those of the framework."""

from __future__ import annotations

import asyncio
import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tests.live.frameworks import load

bridge, framework = load(
    "runlore.live.bridges.agent_framework", "agent_framework", extra="agent-framework"
)
pytestmark = pytest.mark.filterwarnings("default")


def make_messages(chance: random.Random) -> list[Any]:
    return [
        framework.Message(
            role=chance.choice(["user", "assistant"]),
            contents=[f"t{chance.randrange(4)}"],
            **({"message_id": str(chance.randrange(9))} if chance.random() < 0.3 else {}),
        )
        for _ in range(chance.randrange(4))
    ]


def test_messages_are_saved_and_joined_as_the_provider_in_files_does(
    address: str, tmp_path: Path
) -> None:
    async def run() -> None:
        ours = bridge.RunloreHistoryProvider(address)
        theirs = framework.FileHistoryProvider(str(tmp_path / "theirs"))
        chance = random.Random(5)
        for _ in range(120):
            session = chance.choice([None, "x", "y/z"])
            before = await theirs.get_messages(session)
            messages = make_messages(chance)
            if chance.random() < 0.4:
                messages = before[-chance.randrange(1, 4) :] + messages
            elif chance.random() < 0.1:
                messages = before + messages
            for one in (ours, theirs):
                await one.save_messages(session, copy.deepcopy(messages))
            stored = [
                [message.to_dict() for message in await one.get_messages(session)]
                for one in (ours, theirs)
            ]
            assert stored[0] == stored[1]
        await ours.close()

    asyncio.run(run())


def id_of(checkpoint: Any) -> str | None:
    return checkpoint.checkpoint_id if checkpoint else None


def test_checkpoints_are_stored_as_the_storage_in_memory_does(address: str) -> None:
    async def loaded(storage: Any, id: str) -> Any:
        try:
            return (await storage.load(id)).state["n"]
        except framework.WorkflowCheckpointException:
            return "none"

    async def run() -> None:
        both = (
            bridge.RunloreCheckpointStorage(address),
            framework.InMemoryCheckpointStorage(),
        )
        chance, ids = random.Random(6), ["nothing"]
        for step in range(60):
            if chance.random() < 0.6:
                state = {"n": step, "message": framework.Message(role="user", contents=["x"])}
                checkpoint = framework.WorkflowCheckpoint(
                    workflow_name=chance.choice("wv"), graph_signature_hash="h", state=state
                )
                ids.append(checkpoint.checkpoint_id)
                for one in both:
                    await one.save(checkpoint)
            else:
                gone = chance.choice(ids)
                assert await both[0].delete(gone) == await both[1].delete(gone)
            id = chance.choice(ids)
            assert await loaded(both[0], id) == await loaded(both[1], id)
            for name in "wvx":
                listed = [await one.list_checkpoint_ids(workflow_name=name) for one in both]
                latest = [await one.get_latest(workflow_name=name) for one in both]
                assert listed[0] == listed[1]
                assert id_of(latest[0]) == id_of(latest[1])
        await both[0].close()

    asyncio.run(run())
