"""Forks of which the agent says nothing: each event and each call counts once, in the original,
whatever the order in which the files are read and wherever they are cut."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runlore import config as config_module
from runlore import doctor
from runlore.config import Config
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline, prepare
from tests.test_law import contents

FIXTURES = Path(__file__).parents[1] / "adapters" / "fixtures" / "claude"

EXPECTED: dict[str, dict[str, tuple[int, str, str, int, str | None]]] = {
    # By the beginning of the session's id: turns, first and last minute, output tokens, parent.
    "desktop-fork": {
        "d4a7c1e0": (2, "09:00", "09:13", 45, None),
        "2b6f09d3": (1, "10:00", "10:03", 25, "d4a7c1e0"),
        "f0c83b5a": (1, "11:00", "11:03", 20, "2b6f09d3"),
        "7e15a94c": (1, "12:00", "12:03", 20, "d4a7c1e0"),
    },
    "fork-session": {
        "e93d5c07": (3, "09:00", "13:03", 65, None),
        "41b8e6f2": (1, "10:00", "10:03", 25, "e93d5c07"),
        "0c72a5d9": (1, "11:00", "11:03", 20, "41b8e6f2"),
        "a6f4097b": (1, "12:00", "12:03", 20, "e93d5c07"),
    },
}


@pytest.fixture
def config() -> Config:
    return config_module.load()


def files_of(case: str) -> list[Path]:
    return sorted((FIXTURES / case / "root").rglob("*.jsonl"))


def sync(store: Store, config: Config, root: Path) -> pipeline.Report:
    return pipeline.sync(store, config, agents=["claude"], roots=[str(root)])


def figures(store: Store) -> dict[str, tuple[int, str, str, int, str | None]]:
    """The figures of each session."""
    found = {}
    for line in store.sessions.select(Filter(parents_only=False)):
        session = store.sessions.get(line.uid)
        assert session is not None
        times = [time for time in (session.started_at, session.ended_at) if time is not None]
        parent = session.parent_uid and session.parent_uid[7:15]
        assert session.relation == ("fork" if parent else None)
        billed = store.ledger.billed(line.uid)
        output = sum(one.kept.call.output_tokens for one in billed)
        assert output == session.cost.output_tokens, "a call counts where its event does"
        assert session.cost.usd
        first, last = (f"{time:%H:%M}" for time in times)
        found[line.uid[7:15]] = (session.cost.turns, first, last, output, parent)
    return found


def ledger(store: Store) -> list[Any]:
    uids = store.sessions.uids(Filter(parents_only=False))
    return [one.kept for uid in sorted(uids) for one in store.ledger.billed(uid)]


@pytest.mark.parametrize("case", EXPECTED)
def test_every_order_of_reading_gives_the_same_store(
    case: str,
    new_url: Callable[[], str],
    config: Config,
    tmp_path: Path,
    loops: Callable[[int], int],
) -> None:
    orders = list(itertools.permutations(files_of(case)))
    if "://" in new_url():  # A server takes its time; some orders are enough for what it adds.
        orders = random.Random(0).sample(orders, max(3, loops(len(orders))))
    results = []
    for number, order in enumerate(orders):
        root = tmp_path / f"root{number}"
        root.mkdir()
        store = open_store(new_url())
        for file in order:
            shutil.copy(file, root)
            sync(store, config, root)
        assert figures(store) == EXPECTED[case]
        assert sync(store, config, root).found == {"unchanged": 4}, "nothing is left to do"
        assert doctor.examine(store, config, full=True).ok
        results.append((contents(store), ledger(store)))
        store.close()
        shutil.rmtree(root)
    first, *others = map(without_paths, results)
    assert all(other == first for other in others)


@pytest.mark.parametrize("case", EXPECTED)
def test_files_that_grow_side_by_side_give_the_same_store(
    case: str,
    new_url: Callable[[], str],
    config: Config,
    tmp_path: Path,
    loops: Callable[[int], int],
) -> None:
    """Each file is cut at several places, and the parts are read in any order in which files can
    grow."""
    for seed in range(loops(30) + 2):
        rng = random.Random(seed)
        root = tmp_path / f"root{seed}"
        root.mkdir()
        store = open_store(new_url())
        parts = {file.name: cut(file.read_bytes(), rng) for file in files_of(case)}
        while parts:
            name = rng.choice(sorted(parts))
            with (root / name).open("ab") as out:
                out.write(parts[name].pop(0))
            if not parts[name]:
                del parts[name]
            sync(store, config, root)
        assert figures(store) == EXPECTED[case], f"seed {seed}"
        assert doctor.examine(store, config, full=True).ok
        store.close()


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """Cut a file into up to four parts."""
    at = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(4)))
    return [data[a:b] for a, b in itertools.pairwise([0, *at, len(data)])]


def without_paths(result: tuple[dict[str, Any], Any]) -> Any:
    for session in result[0]["sessions"].values():
        session["session"]["source_path"] = os.path.basename(session["session"]["source_path"])
        session["session"].pop("usage", None)
    return result


@pytest.mark.parametrize("case", EXPECTED)
def test_long_files_that_are_read_in_several_batches_give_the_same_store(
    case: str, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is put first does not know yet how far its session reaches."""
    monkeypatch.setattr(prepare, "BATCH_BYTES", 1500)
    files = files_of(case)
    for number, order in enumerate((files, files[::-1], [*files[2:], *files[:2]])):
        root = tmp_path / f"root{number}"
        root.mkdir()
        store = open_store(str(tmp_path / f"{number}.db"))
        for file in order:
            shutil.copy(file, root)
            sync(store, config, root)
        assert figures(store) == EXPECTED[case]
        store.close()


def test_a_fork_without_anything_of_its_own_has_the_time_of_what_it_begins_with(
    new_url: Callable[[], str], config: Config, tmp_path: Path
) -> None:
    original = files_of("desktop-fork")[2]
    copy = tmp_path / "root" / "ffffffff-0000-4000-8000-000000000000.jsonl"
    copy.parent.mkdir()
    text = original.read_text().replace(original.stem, copy.stem)
    copy.write_text(text)
    shutil.copy(original, copy.parent)
    store = open_store(new_url())
    sync(store, config, copy.parent)
    session = store.sessions.get(f"claude:{copy.stem}")
    assert session is not None
    assert (session.parent_uid, session.relation) == (f"claude:{original.stem}", "fork")
    assert session.started_at is not None
    assert session.cost.turns == 0
    store.close()


IDS = [f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc"]


def turn(session: str, after: str | None, when: datetime, number: int) -> list[dict[str, Any]]:
    """Return a prompt and its answer."""
    common = {"isSidechain": False, "cwd": "/home/dev/shop", "sessionId": session}
    ids = [f"00000000-0000-4000-8000-{2 * number + n:012}" for n in range(2)]
    usage = {"input_tokens": 4, "output_tokens": 5}
    answer: dict[str, Any] = {
        "id": f"msg_{number}",
        "role": "assistant",
        "model": "claude-opus-4-6",
    }
    answer |= {"type": "message", "content": [{"type": "text", "text": "done"}], "usage": usage}
    prompt = {"role": "user", "content": f"please do number {number}"}
    return [
        {**common, "type": kind, "uuid": own, "parentUuid": parent, "message": message}
        | {"timestamp": f"{when + timedelta(seconds=n):%Y-%m-%dT%H:%M:%S}.000Z"}
        for n, (kind, own, parent, message) in enumerate(
            [("user", ids[0], after, prompt), ("assistant", ids[1], ids[0], answer)]
        )
    ]


def write(root: Path, session: str, records: list[dict[str, Any]]) -> None:
    with (root / f"{session}.jsonl").open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("names", list(itertools.permutations(IDS)))
def test_a_family_in_which_age_and_what_the_agent_says_disagree_comes_to_rest(
    names: tuple[str, ...], new_url: Callable[[], str], config: Config, tmp_path: Path
) -> None:
    """The original ends last, a continuation first, and a fork without a word in between."""
    original, continuation, fork = names
    begin = datetime(2026, 3, 2, 9, tzinfo=UTC)
    shared = turn(original, None, begin, 0)
    last = shared[-1]["uuid"]
    write(tmp_path, original, shared + turn(original, last, begin + timedelta(hours=3), 1))
    later = turn(continuation, last, begin + timedelta(hours=1), 2)
    write(tmp_path, continuation, shared + later)
    copies = [{**record, "sessionId": fork} for record in shared]
    write(tmp_path, fork, copies + turn(fork, last, begin + timedelta(hours=2), 3))
    store = open_store(new_url())
    sync(store, config, tmp_path)
    assert sync(store, config, tmp_path).found == {"unchanged": 3}, "nothing is left to do"
    lines = store.sessions.select(Filter(parents_only=False))
    assert sum(line.turns for line in lines) == 4, "each turn counts once"
    assert doctor.examine(store, config, full=True).ok
    store.close()


def test_sessions_that_go_on_in_turn_are_settled_when_they_are_at_rest(
    new_url: Callable[[], str], config: Config, tmp_path: Path
) -> None:
    original, fork, _ = IDS
    now = datetime.now(UTC) - timedelta(minutes=5)
    shared = turn(original, None, now, 0)
    last = shared[-1]["uuid"]
    write(tmp_path, original, shared)
    copies = [{**record, "sessionId": fork} for record in shared]
    write(tmp_path, fork, copies + turn(fork, last, now + timedelta(seconds=10), 1))
    store = open_store(new_url())
    sync(store, config, tmp_path)

    def turns() -> list[int]:
        sessions = [store.sessions.get(f"claude:{session}") for session in (original, fork)]
        return [session.cost.turns for session in sessions if session is not None]

    assert turns() == [1, 1]
    for number in range(2, 6):
        session = original if number % 2 == 0 else fork
        when = now + timedelta(seconds=10 * number)
        write(tmp_path, session, turn(session, last, when, number))
        assert sync(store, config, tmp_path).found == {"grown": 1, "unchanged": 1}
        assert turns() == [number // 2 + 1, (number + 1) // 2], "nothing moves while they go on"
    write(tmp_path, original, turn(original, last, now + timedelta(seconds=60), 6))
    sync(store, config, tmp_path)
    assert turns() == [4, 3]
    pipeline.sync(store, config, agents=["claude"], roots=[str(tmp_path)], quiet_s=-3600)
    assert turns() == [3, 4], "the one that ends first has what both begin with"
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes addresses of empty stores."""
    numbers = itertools.count()
    if request.param == "sqlite":
        yield lambda: str(tmp_path / f"{next(numbers)}.db")
    else:
        server = request.getfixturevalue("server")
        yield server.make_schema
