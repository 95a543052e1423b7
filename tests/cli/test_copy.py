"""`runlore copy`: a file into a server and back is the same store, and a copy that was stopped goes
on."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore import config
from runlore.errors import StoreLost
from runlore.store import CallFilter, Filter, Store, copying, open_store
from runlore.sync import pipeline
from tests import postgres
from tests.cli.conftest import Run
from tests.toy import Toy, line

FIXTURES = Path(__file__).parents[1] / "adapters" / "fixtures"

COPIED_TABLES = frozenset(
    "sessions sources streams skips tombstones events segments natives aliases records calls"
    " digests errors".split()
)
DERIVED_TABLES = frozenset({"search", "sums", "models", "tariffs"})
"""Tables that are derived from the others, or written with them."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fixtures of every adapter, in a file."""
    folder = tmp_path_factory.mktemp("filled")
    with closing(open_store(str(folder / "runlore.db"))) as store:
        for case in sorted(FIXTURES.glob("*/*/root")):
            setting = config.Config(home=folder, store=store.url)
            pipeline.sync(store, setting, agents=[case.parts[-3]], roots=[str(case)], workers=0)
    return folder / "runlore.db"


def content(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for shown in store.sessions.select(Filter(parents_only=False)):
        session = store.sessions.get(shown.uid)
        assert session is not None
        apart = dict(machine=None, author=None)
        events = [
            msgspec.structs.replace(event, payload_ref=None)
            for event in store.sessions.events(shown.uid)
        ]
        words = {word: len(store.index.postings(word)) for word in ("error", "the", "test")}
        found[shown.uid] = (
            msgspec.structs.replace(session, **apart),
            events,
            store.sessions.bodies(shown.uid),
            words,
            store.ledger.billed(shown.uid),
        )
    found["sums"] = sorted(store.ledger.sum(["model"], CallFilter()), key=lambda one: str(one.keys))
    found["skips"] = sorted(store.sources.skips())
    return found


def test_a_file_into_a_server_and_back_is_the_same_store(
    run: Run, filled: Path, server: postgres.Server, tmp_path: Path
) -> None:
    there, back = server.make_schema(), str(tmp_path / "back.db")
    result = run("copy", str(filled), there)
    assert result.exit_code == 0, result.output
    assert "were there already" in result.stderr
    assert run("copy", there, back, "--json").exit_code == 0
    with (
        closing(open_store(str(filled), read_only=True)) as one,
        closing(open_store(there)) as two,
        closing(open_store(back)) as three,
    ):
        assert content(one) == content(two) == content(three)
        assert len(content(one)) > 50
        counts = [
            [
                store.maintenance.rows(f"select count(*) from {table}")
                for table in sorted(COPIED_TABLES)
            ]
            for store in (one, two, three)
        ]
        assert counts[0] == counts[1] == counts[2]


def test_a_sync_goes_on_in_the_copy(
    run: Run, root: Path, server: postgres.Server, home: Path
) -> None:
    assert run("sync").exit_code == 0
    there = server.make_schema()
    assert run("copy", str(home / ".runlore/runlore.db"), there).exit_code == 0
    with closing(open_store(there)) as store:
        setting = config.load()
        assert pipeline.sync(store, setting, workers=0).events == 0, "all of it is known"
        with (root / "alpha.jsonl").open("ab") as file:
            file.write(line(s="alpha", id="new", up="a3", text="goes on", at=99))
        assert pipeline.sync(store, setting, workers=0).events == 1
        assert [event.native_id for event in store.sessions.events("toy:alpha")][-1] == "new"
    assert run("copy", there, str(home / "back.db")).exit_code == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreLost("the server left"), 1), (KeyboardInterrupt(), 130)],
    ids=["lost", "Ctrl-C"],
)
def test_a_copy_that_was_stopped_goes_on_and_brings_what_is_new(
    run: Run,
    root: Path,
    toy: Toy,
    server: postgres.Server,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
) -> None:
    assert run("sync").exit_code == 0
    here, there = str(home / ".runlore/runlore.db"), server.make_schema()
    taken = copying.read_session

    def stop_at_the_second(source: Store, number: int, sources: dict[int, int]) -> Any:
        if number == 2:
            raise error
        return taken(source, number, sources)

    with monkeypatch.context() as patch:
        patch.setattr(copying, "read_session", stop_at_the_second)
        stopped = run("copy", here, there)
        assert (stopped.exit_code, "the same command goes on from there" in stopped.stderr) == (
            status,
            True,
        )
    with closing(open_store(there)) as store:
        assert store.sessions.count(Filter(parents_only=False)) == 1
    made = json.loads(run("copy", here, there, "--json").stdout)
    assert made["unchanged"] == 1
    assert made["problems"] == []
    with (root / "alpha.jsonl").open("ab") as file:
        file.write(line(s="alpha", id="new", text="more", at=99))
    assert run("sync").exit_code == 0
    again = json.loads(run("copy", here, there, "--json").stdout)
    assert (again["sessions"], again["unchanged"]) == (1, made["sessions"])
    assert run("mark", "toy:alpha", "--name", "the one").exit_code == 0
    marked = json.loads(run("copy", here, there, "--json").stdout)
    assert (marked["sessions"], marked["unchanged"]) == (1, made["sessions"])
    with closing(open_store(there)) as store:
        assert [shown.title for shown in store.sessions.select(Filter(name="toy:alpha"))] == [
            "the one"
        ]


def test_a_backup_of_a_server_is_a_file(
    run: Run, root: Path, server: postgres.Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLORE_STORE", server.make_schema())
    assert run("sync").exit_code == 0
    assert run("backup", str(home / "copy.db")).exit_code == 0
    assert run("backup", str(home / "copy.db")).exit_code == 1, "it is there already"
    with (
        closing(open_store(str(home / "copy.db"), read_only=True)) as file,
        closing(open_store(config.load().store)) as store,
    ):
        assert content(file) == content(store)
    assert sorted(path.name for path in home.glob("copy.db*")) == ["copy.db"]


def test_nothing_is_copied_onto_itself_or_from_nothing(run: Run, root: Path, home: Path) -> None:
    assert run("sync").exit_code == 0
    here = str(home / ".runlore/runlore.db")
    assert "are the same store" in run("copy", here, f"sqlite://{here}").stderr
    assert "there is no store" in run("copy", str(home / "nowhere.db"), here).stderr
    assert not (home / "nowhere.db").exists()


def test_every_table_is_copied_or_made_again(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path / "runlore.db"))) as store:
        tables = {
            name
            for (name,) in store.maintenance.rows(
                "select name from sqlite_schema where type = 'table'"
            )
        }
    assert {
        name for name in tables if not name.startswith("search_")
    } == COPIED_TABLES | DERIVED_TABLES
