"""The Claude Agent SDK's own suite for session stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runlore.live import SessionStore
from tests.live.frameworks import load

bridge, testing = load(
    "runlore.live.bridges.claude_sdk", "claude_agent_sdk.testing", extra="claude-agent-sdk"
)
pytestmark = pytest.mark.filterwarnings("default")
KEY = {"project_key": "-home-ann-shop", "session_id": "s1"}


def test_it_passes_the_conformance_suite(address: str) -> None:
    def make() -> Any:
        store = SessionStore(address)
        for info in store.list():  # Each contract begins with nothing.
            store.purge(info.id)
        return bridge.RunloreSessionStore(store)

    asyncio.run(testing.run_session_store_conformance(make))


def test_a_batch_that_is_sent_again_is_stored_once(address: str) -> None:
    async def run() -> None:
        store = bridge.RunloreSessionStore(address)
        first: list[Any] = [{"type": "user", "uuid": "1"}, {"type": "mode"}]
        await store.append(KEY, first)
        await store.append(KEY, [{"type": "user", "uuid": "1", "more": 2}, {"type": "x"}])
        other = bridge.RunloreSessionStore(address)
        assert await other.load(KEY) == [*first, {"type": "x"}]
        await other.close()
        await store.close()

    asyncio.run(run())


def test_long_keys_and_keys_with_slashes_are_kept_apart(address: str) -> None:
    async def run() -> None:
        store = bridge.RunloreSessionStore(address)
        keys = [
            {"project_key": "a/b", "session_id": "c"},
            {"project_key": "a", "session_id": "b/c"},
            {"project_key": "p" * 300, "session_id": "c"},
            {"project_key": "p" * 301, "session_id": "c", "subpath": "subagents/agent-1"},
        ]
        for number, key in enumerate(keys):
            await store.append(key, [{"type": "x", "n": number}])
        loaded = [await store.load(key) for key in keys]
        assert loaded == [[{"type": "x", "n": number}] for number in range(4)]
        assert await store.list_subkeys({"project_key": "p" * 301, "session_id": "c"}) == [
            "subagents/agent-1"
        ]
        await store.close()

    asyncio.run(run())
