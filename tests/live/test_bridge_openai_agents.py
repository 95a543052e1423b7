"""A session for the OpenAI Agents SDK, compared call by call with the SDK's own."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from runlore.live import SessionStore
from tests.live.frameworks import load

bridge, agents = load("runlore.live.bridges.openai_agents", "agents", extra="openai-agents")
pytestmark = pytest.mark.filterwarnings("default")

ITEMS: list[Any] = [
    {"role": "user", "content": "hi"},
    {"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}]},
    {"id": "rs_1", "type": "reasoning", "encrypted_content": "xyz",
     "summary": [{"type": "summary_text", "text": "think"}]},
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}]},
    {"id": "fc", "type": "function_call", "call_id": "c1", "name": "f", "status": "completed",
     "arguments": "{\"a\": 1}"},
    {"id": "f2", "type": "function_call", "call_id": "c2", "name": "f", "arguments": "not json"},
    {"type": "function_call_output", "call_id": "c2", "output": "res"},
    {"type": "function_call_output", "call_id": "c1",
     "output": [{"type": "input_text", "text": "x"}]},
    {"role": "assistant", "content": "plain"},
    {"role": "developer", "content": "dev"},
    {"type": "web_search_call", "id": "ws", "status": "completed",
     "action": {"type": "search", "query": "q"}},
    {"type": "item_reference", "id": "abc"},
    {"type": "compaction", "id": "cmp", "encrypted_content": "enc"},
    {"type": "function_call_output", "call_id": "nobody", "output": ""},
    {"role": "user", "content": ""},
    {"type": "message", "role": "assistant", "content": []},
    {"role": "user", "content": []},
    {"type": "function_call_output", "call_id": "big", "output": "x" * 70_000},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
]  # fmt: skip


def test_every_call_answers_as_the_own_session_of_the_sdk(address: str) -> None:
    async def run() -> None:
        ours, theirs = bridge.RunloreSession("user:42/chat", address), agents.SQLiteSession("s")
        chance = random.Random(1)
        for step in range(150):
            match chance.choice("aaapg" if step % 50 else "c"):
                case "a":
                    items = [chance.choice(ITEMS) for _ in range(chance.randrange(4))]
                    await ours.add_items(items)
                    await theirs.add_items(items)
                case "p":
                    assert await ours.pop_item() == await theirs.pop_item()
                case "c":
                    await ours.clear_session()
                    await theirs.clear_session()
                case _:
                    for limit in (None, 0, 1, 2, 5, 17):
                        assert await ours.get_items(limit) == await theirs.get_items(limit)
        await ours.close()
        again = bridge.RunloreSession("user:42/chat", address)
        assert await again.get_items() == await theirs.get_items()
        await again.close()

    asyncio.run(run())


def test_every_item_comes_back_as_it_was(address: str) -> None:
    async def run() -> None:
        async with bridge.RunloreSession("s", address) as session:
            await session.add_items(ITEMS)
            assert await session.get_items() == ITEMS

    asyncio.run(run())


def test_what_was_popped_and_cleared_stays_in_the_log(address: str) -> None:
    async def run() -> None:
        async with bridge.RunloreSession("s", address) as session:
            await session.add_items([{"role": "user", "content": "one"}])
            last = session.live.last_seq
            await session.clear_session()
            assert await session.get_items() == []
            session.live.rewind(to=last)
            assert await session.get_items() == [{"role": "user", "content": "one"}]

    asyncio.run(run())


def test_a_conversation_that_was_deleted_elsewhere_is_empty(address: str) -> None:
    async def run() -> None:
        async with bridge.RunloreSession("s", address) as session:
            await session.add_items([{"role": "user", "content": "one"}])
            store = SessionStore(address)
            store.purge("s")
            store.close()
            assert await session.get_items() == []

    asyncio.run(run())
