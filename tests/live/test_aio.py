"""The async front gives what the sync one gives, and does not leave the loop for a plain append."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import SessionNotFound
from runlore.live import AsyncSessionStore, SessionStore


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_session_lives_and_dies_asynchronously(tmp_path: Path) -> None:
    async def live() -> None:
        store = AsyncSessionStore(tmp_path)
        async with await store.create("hello", cwd="/work", id="one") as session:
            first = await session.append(user("a"))
            await session.append_many([user("b"), user("c")])
            await session.rewind(to=first)
            assert await session.messages() == [user("a")]
            assert session.meta.title == "hello"
            fork = await session.fork(id="two")
            await fork.append(user("d"))
            assert await fork.messages() == [user("a"), user("d")]
            assert [record.seq async for record in session.records(after=1)] == [2, 3, 4]
            session.state.start(goal_id="g")
        assert {info.id for info in await store.list()} == {"one", "two"}
        assert (await store.latest(cwd="/work")) is not None
        await store.delete("one")
        assert list(await store.trash()) == ["one"]
        async with await store.restore("one") as session:
            assert await session.messages() == [user("a")]
        await store.delete("one")
        assert await store.empty_trash() == 1
        with pytest.raises(SessionNotFound):
            await store.open("one")
        draft = store.draft(id="three")
        await draft.append(user("x"))
        async with await store.ensure("three") as session:
            assert await session.messages() == [user("x")]

    asyncio.run(live())


@pytest.mark.parametrize(("durability", "is_here"), [("process", True), ("power", False)])
def test_only_what_waits_for_the_disk_goes_to_a_thread(
    tmp_path: Path, durability: Any, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def append() -> None:
        session = await AsyncSessionStore(tmp_path, durability=durability).create()
        where: list[int] = []
        real = session.sync.append

        def append(message: dict[str, Any]) -> Any:
            where.append(threading.get_ident())
            return real(message)

        monkeypatch.setattr(session.sync, "append", append)
        await session.append(user("a"))
        assert (where == [threading.get_ident()]) == is_here

    asyncio.run(append())


def test_records_are_followed(tmp_path: Path) -> None:
    async def follow() -> list[int]:
        session = await AsyncSessionStore(tmp_path).create(id="one")

        async def write() -> None:
            other = SessionStore(tmp_path).open("one")
            for n in range(3):
                await asyncio.sleep(0.01)
                other.append(user(str(n)))

        writing = asyncio.create_task(write())
        seen = []
        async for record in session.follow(poll_s=0.005, timeout_s=20):
            seen.append(record.seq)
            if len(seen) == 3:
                break
        await writing
        return seen

    assert asyncio.run(follow()) == [1, 2, 3]


def test_the_async_store_has_every_call_of_the_other(tmp_path: Path) -> None:
    inner = {"check_id", "name", "path"}  # They do not wait for anything.
    calls = {name for name in dir(SessionStore) if not name.startswith("_")} - inner
    assert calls <= set(dir(AsyncSessionStore))

    async def live() -> None:
        async with AsyncSessionStore(tmp_path) as store:
            async with await store.create(id="one") as session:
                session.state.start("goal")
            assert await store.stale() == await store.recover("paused") == []
            await store.reindex()
            assert [info.status for info in await store.list()] == ["active"]

    asyncio.run(live())
