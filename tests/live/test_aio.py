"""The async front gives what the sync one gives, and does not leave the loop for a plain append."""

import asyncio
import shutil
import threading
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.errors import SessionNotFound
from runlore.live import AsyncSession, AsyncSessionStore, LiveSession, SessionStore
from runlore.live.session import FOLD_STEP_BYTES
from runlore.model import LogRecord


class Types(msgspec.Struct):
    seen: list[str] = []

    def add(self, record: LogRecord) -> None:
        self.seen.append(record.type)


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

        def append(message: dict[str, Any], **about: Any) -> Any:
            where.append(threading.get_ident())
            return real(message, **about)

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


INNER = {
    "sync", "appends_at_once", "folded_to", "format", "on_new", "on_own", "backend_log",
    "stored_payload",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "other", "inner"),
    [
        (SessionStore, AsyncSessionStore, {"check_id", "name", "path", "backend"}),
        (
            LiveSession,
            AsyncSession,
            INNER,
        ),
    ],
)
def test_every_public_call_has_an_async_one_with_the_same_signature(
    kind: type, other: type, inner: set[str]
) -> None:
    # `inner` are for those who make sessions, not for users; `sync` is the session itself.
    names = {name for name in dir(kind) if not name.startswith("_")} - inner
    assert names <= set(dir(other))
    assert not hasattr(other, "__getattr__")
    for name in names:
        here, there = getattr(kind, name), getattr(other, name)
        if not callable(here):
            assert isinstance(there, property), name
            continue
        assert list(signature(here).parameters.values()) == list(
            signature(there).parameters.values()
        ), name


def test_a_store_is_kept_asynchronously(tmp_path: Path) -> None:
    async def live() -> None:
        async with AsyncSessionStore(tmp_path) as store:
            async with await store.create(id="one", app="a") as session:
                session.state.start("goal")
                await session.put_values({"app:x": 1, "y": 2})
                assert await session.values() == {"app:x": 1, "y": 2}
                fold = session.fold("types", Types)
                await session.record("own", {}, key="k")
                assert (await fold.value()).seen[-1] == "own"
                await session.update_meta(n=1)
                assert (await session.info()).extra == {"app": "a", "n": 1}
                await session.wait_for_disk()
            assert await store.stale() == await store.recover("paused") == []
            await store.reindex()
            assert [info.status for info in await store.list(where={"n": 1})] == ["active"]

    asyncio.run(live())


@pytest.mark.parametrize("key", [None, "k"])
def test_the_first_append_to_a_long_log_reads_little_of_it(
    tmp_path: Path, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path)
    with store.create(id="one") as session:
        for _ in range(200):
            session.append_many([user("x" * 1000)] * 30)
    shutil.rmtree(tmp_path / "one" / "snapshots", ignore_errors=True)

    async def append() -> None:
        async with await AsyncSessionStore(tmp_path).open("one") as session:
            where: list[int] = []
            real = session.sync.append

            def append(message: dict[str, Any], **about: Any) -> Any:
                where.append(threading.get_ident())
                return real(message, **about)

            monkeypatch.setattr(session.sync, "append", append)
            await session.append(user("a"), key=key)
            assert session.sync._fold.end < 3 * FOLD_STEP_BYTES  # Of six megabytes.
            await session.append(user("b"), key=key and "other")
            here = threading.get_ident()
            assert [one == here for one in where] == [False, True]
        with store.open("one", readonly=True) as other:
            assert len(other.messages()) == 6002

    asyncio.run(append())
    assert [(info.id, info.messages) for info in store.list()] == [("one", 6002)]
