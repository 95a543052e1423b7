"""Sessions of agent frameworks in the live log, and in the SQLite store of each framework.

`bench/live.py` runs each side in a process of its own. A side returns CPU times and sizes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

COUNT = 3_000
LAST = 50
TURNS = 150
MEASURED_TURNS = 10
ROUNDS = 5
TEXT = ("The quick brown fox jumps over the lazy dog, again and again. " * 17)[:1024]

Figures = dict[str, float]


def openai_ours(folder: Path) -> Figures:
    from runlore.live.bridges.openai_agents import RunloreSession

    return asyncio.run(_openai(folder, lambda: RunloreSession("s", folder / "store")))


def openai_theirs(folder: Path) -> Figures:
    from agents import SQLiteSession

    return asyncio.run(_openai(folder, lambda: SQLiteSession("s", str(folder / "peer.db"))))


async def _openai(folder: Path, open: Callable[[], Any]) -> Figures:
    session = open()
    cpu = time.process_time()
    for number in range(COUNT):
        await session.add_items([{"role": "user", "content": f"{number} {TEXT}"}])
    append = (time.process_time() - cpu) / COUNT
    await _close(session)

    async def read(limit: int | None) -> int:
        session = open()
        count = len(await session.get_items(limit))
        await _close(session)
        return count

    return await _figures(folder, append, read)


def adk_ours(folder: Path) -> Figures:
    from runlore.live.bridges.adk import RunloreSessionService

    return asyncio.run(_adk(folder, lambda: RunloreSessionService(folder / "store")))


def adk_theirs(folder: Path) -> Figures:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    return asyncio.run(_adk(folder, lambda: SqliteSessionService(str(folder / "peer.db"))))


async def _adk(folder: Path, open: Callable[[], Any]) -> Figures:
    from google.adk.events.event import Event
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.genai.types import Content, Part

    where = {"app_name": "a", "user_id": "u", "session_id": "s"}
    service = open()
    session = await service.create_session(**where)
    events = [
        Event(
            author="user", invocation_id="i", timestamp=float(number),
            content=Content(role="user", parts=[Part(text=f"{number} {TEXT}")]),
        )
        for number in range(COUNT)
    ]  # fmt: skip
    cpu = time.process_time()
    for event in events:
        event.timestamp = session.last_update_time + 1e-3
        await service.append_event(session, event)
    append = (time.process_time() - cpu) / COUNT
    await _close(service)

    async def read(limit: int | None) -> int:
        config = GetSessionConfig(num_recent_events=limit) if limit else None
        service = open()
        count = len((await service.get_session(**where, config=config)).events)
        await _close(service)
        return count

    return await _figures(folder, append, read)


def langgraph_ours(folder: Path) -> Figures:
    from runlore.live.bridges.langgraph import RunloreSaver

    return _langgraph(folder, lambda: RunloreSaver(str(folder / "store")))


def langgraph_theirs(folder: Path) -> Figures:
    from langgraph.checkpoint.sqlite import SqliteSaver

    return _langgraph(folder, lambda: SqliteSaver.from_conn_string(str(folder / "peer.db")))


def _langgraph(folder: Path, open: Callable[[], AbstractContextManager[Any]]) -> Figures:
    """Measure the last turns of a graph whose messages are 300 at the end."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [AIMessage(f"answer {TEXT}")]})
    builder.add_edge(START, "answer")
    here: Any = {"configurable": {"thread_id": "s"}}

    def run(turns: int) -> float:
        with open() as saver:
            graph = builder.compile(checkpointer=saver)
            graph.get_state(here)
            cpu = time.process_time()
            for number in range(turns):
                graph.invoke({"messages": [("user", f"{number} {TEXT}")]}, here)
            return time.process_time() - cpu

    def load() -> float:
        with open() as saver:
            cpu = time.process_time()
            values = saver.get_tuple(here).checkpoint["channel_values"]
            assert len(values["messages"]) == 2 * TURNS
            return time.process_time() - cpu

    run(TURNS - MEASURED_TURNS)
    size = _size(folder)
    turn = run(MEASURED_TURNS) / MEASURED_TURNS
    return {
        "append_us": turn * 1e6,
        "turn_bytes": (_size(folder) - size) / MEASURED_TURNS,
        "bytes": _size(folder),
        "load_ms": min(load() for _ in range(ROUNDS)) * 1e3,
    }


async def _figures(
    folder: Path, append_s: float, read: Callable[[int | None], Awaitable[int]]
) -> Figures:
    async def least(limit: int | None) -> float:
        times = []
        for _ in range(ROUNDS):
            cpu = time.process_time()
            count = await read(limit)
            times.append(time.process_time() - cpu)
            assert count == (limit or COUNT)
        return min(times) * 1e3

    return {
        "append_us": append_s * 1e6,
        "load_ms": await least(None),
        "last_ms": await least(LAST),
        "bytes": _size(folder),
    }


async def _close(store: Any) -> None:
    """Close a store of a framework; some have nothing to close, some close at once."""
    closed = store.close() if hasattr(store, "close") else None
    if closed is not None:
        await closed


def _size(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
