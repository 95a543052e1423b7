"""Live sessions on a server, taken in by a sync like those in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore import config
from runlore.adapters import get
from runlore.live import SessionStore
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from tests import postgres


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    yield from postgres.start()


@pytest.fixture
def address(server: postgres.Server, home: Path) -> str:
    """A server that is named in a file among the live sessions of this home."""
    address = server.make_schema()
    folder = home / ".runlore/live"
    folder.mkdir(parents=True)
    (folder / "team.server").write_text(f"{address}\n")
    return address


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def talk(store: SessionStore, id: str) -> None:
    with store.create(id=id, model="m-1", agent="mine") as session:
        question = session.append(user("please fix the build"), key="turn \0 ü")
        calls = [{"type": "tool_use", "id": "a", "name": "run", "input": {"command": "make"}}]
        session.append({"role": "assistant", "content": calls})
        output = "error: no rule\n" + "x" * 70_000 + "the needle"
        result = {"type": "tool_result", "tool_use_id": "a", "content": output}
        session.append(user([result]))  # type: ignore[arg-type]
        session.rewind(to=question)
        session.append({"role": "assistant", "content": "half a pair: \ud800"})
        session.state.start("goal")


def sync(store: Store) -> Any:
    return pipeline.sync(store, config.load(), agents=["runlore"])


def events(store: Store, id: str) -> list[Any]:
    return [
        (event.seq, event.kind, event.summary, event.tool, event.native_id)
        for event in store.sessions.events(f"runlore:{id}")
    ]


def test_a_session_on_a_server_is_read_like_one_in_a_folder(
    address: str, tmp_path: Path, home: Path
) -> None:
    with SessionStore(address) as there, SessionStore(home / ".runlore/live") as here:
        talk(there, "far")
        talk(here, "near")
        store = open_store(str(tmp_path / "memory.db"))
        sync(store)
        assert {line.uid for line in store.sessions.select(Filter())} == {
            "runlore:far",
            "runlore:near",
        }
        far, near = events(store, "far"), events(store, "near")
        assert [one[:4] for one in far] == [one[:4] for one in near]
        assert len(far) > 4
        # What is new is read from where the last sync ended.
        with there.open("far") as session:
            session.append(user("and the tests"))
        sync(store)
        assert len(events(store, "far")) == len(far) + 1
        assert events(store, "far")[: len(far)] == far
        before = events(store, "far")
        sync(store)
        assert events(store, "far") == before
        for source in get("runlore").discover(home / ".runlore/live"):
            assert "postgres" not in source.path
        store.close()


def test_a_server_that_is_away_costs_only_its_own_sessions(
    address: str, tmp_path: Path, home: Path
) -> None:
    with SessionStore(address) as there, SessionStore(home / ".runlore/live") as here:
        talk(there, "far")
        store = open_store(str(tmp_path / "memory.db"))
        sync(store)
        file = home / ".runlore/live/team.server"
        for wrong in ("postgresql://me:geheim@localhost:1/db", "mysql://me:geheim@x/db", ""):
            file.write_text(wrong)
            adapter = get("runlore")
            assert not list(adapter.discover(home / ".runlore/live"))
            (refused,) = adapter.refused
            assert "geheim" not in str(refused)
        talk(here, "near")
        sync(store)
        lines = {line.uid: line for line in store.sessions.select(Filter())}
        assert lines.keys() == {"runlore:far", "runlore:near"}
        assert len(events(store, "far")) > 4
        store.close()
