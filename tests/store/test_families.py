"""Families of sessions that begin with the same events, of all kinds at once: each turn and each
call counts once, and in the same session whatever the order in which the files are read."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore import config as config_module
from runlore import doctor
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from tests.families import Family, Transcripts

Step = tuple[str, bytes]
"""The id of a session, and what is added to its transcript."""


def in_any_order(transcripts: Transcripts, rng: random.Random) -> list[Step]:
    """Whole files, one after another."""
    return rng.sample(list(transcripts.items()), len(transcripts))


def side_by_side(transcripts: Transcripts, rng: random.Random) -> list[Step]:
    """Files that grow, each in up to three parts."""
    parts = {session: _cut(data, rng) for session, data in transcripts.items()}
    turns = [session for session in parts for _ in parts[session]]
    rng.shuffle(turns)
    return [(session, parts[session].pop(0)) for session in turns]


def _cut(data: bytes, rng: random.Random) -> list[bytes]:
    lines = data.splitlines(keepends=True)
    at = sorted(rng.sample(range(1, len(lines)), rng.randrange(min(3, len(lines)))))
    return [b"".join(lines[a:b]) for a, b in itertools.pairwise([0, *at, len(lines)])]


def read(url: str, root: Path, steps: list[Step]) -> dict[str, Any]:
    """Sync after each step. Return the figures of each session."""
    config = config_module.load()
    root.mkdir()
    store = open_store(url)

    def sync() -> pipeline.Report:
        return pipeline.sync(store, config, agents=["claude"], roots=[str(root)])

    for session, data in steps:
        with (root / f"{session}.jsonl").open("ab") as file:
            file.write(data)
        sync()
    assert list(sync().found) == ["unchanged"], "nothing is left to do"
    assert doctor.examine(store, config, full=True).ok
    result = figures(store)
    store.close()
    return result


def figures(store: Store) -> dict[str, Any]:
    result = {}
    for line in store.sessions.select(Filter(parents_only=False)):
        session = store.sessions.get(line.uid)
        assert session is not None
        assert session.started_at is not None
        billed = sum(one.kept.call.output_tokens for one in store.ledger.billed(line.uid))
        assert billed == session.cost.output_tokens, "a call counts where its event does"
        result[line.uid] = {
            "relation": (session.relation, session.parent_uid),
            "dates": (session.started_at, session.ended_at),
            "turns": session.cost.turns,
            "tokens": billed,
            "usd": session.cost.usd,
        }
    return result


def check(
    seed: int, new_url: Callable[[], str], folder: Path, readings: int, *, is_whole: bool = True
) -> None:
    """Read a family, or all but one of its sessions, in several ways, and compare what is
    stored."""
    rng, family = random.Random(seed), Family(seed)
    transcripts = family.transcripts()
    if not is_whole:
        del transcripts[rng.choice(list(transcripts))]
    wanted = read(new_url(), folder / f"{seed}", list(transcripts.items()))
    if is_whole:
        assert sum(one["turns"] for one in wanted.values()) == family.turns, f"family {seed}"
        assert sum(one["tokens"] for one in wanted.values()) == (1 << family.turns) - 1
    for number in range(readings):
        steps = (side_by_side if number % 2 else in_any_order)(transcripts, rng)
        stored = read(new_url(), folder / f"{seed}-{number}", steps)
        assert stored == wanted, f"family {seed}, reading {number}"


def test_a_family_is_stored_the_same_in_every_order_of_reading(
    new_url: Callable[[], str], tmp_path: Path, loops: Callable[[int], int]
) -> None:
    # A server takes its time. These two have depended on the order before, each in its own way.
    seeds = (8, 15) if "://" in new_url() else range(loops(160))
    for seed in seeds:
        check(seed, new_url, tmp_path, readings=4)


def test_a_family_of_which_a_session_is_missing_is_stored_the_same_in_every_order(
    new_url: Callable[[], str], tmp_path: Path, loops: Callable[[int], int]
) -> None:
    # The first of them has depended on the order before.
    for seed in range(22, 22 + (1 if "://" in new_url() else loops(40))):
        check(seed, new_url, tmp_path, readings=2, is_whole=False)


def test_a_fork_in_parts_is_stored_the_same_if_the_original_is_not_stored(
    new_url: Callable[[], str], tmp_path: Path
) -> None:
    continuation, fork = orphans()
    lines = fork[1].splitlines(keepends=True)
    wanted = read(new_url(), tmp_path / "whole", [continuation, fork])
    assert [one["turns"] for one in wanted.values()] == [1, 3], "the fork is the younger one"
    # All of the copied turns and then the rest: until then, the fork is the one that ends first.
    parts = [(fork[0], b"".join(lines[:4])), (fork[0], b"".join(lines[4:]))]
    for number, steps in enumerate(([continuation, *parts], [parts[0], continuation, parts[1]])):
        assert read(new_url(), tmp_path / f"{number}", steps) == wanted


def orphans() -> tuple[Step, Step]:
    """A continuation and a fork that the agent does not declare, both of two turns of a session
    that is not there, each with a turn of its own."""
    family = Family(0, size=1)
    family.entrypoint = "claude-desktop"
    (original,) = family.records
    family.ask(original)
    records = [record for record in family.records.pop(original) if "uuid" in record]
    for copy in (family.copy_continuation, family.copy_silent):
        family.hours += 1
        session = family.new_uuid()
        family.records[session] = list(copy(records, original, session))
        family.ask(session)
    continuation, fork = family.transcripts().items()
    return continuation, fork


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes addresses of empty stores."""
    numbers = itertools.count()
    if request.param == "sqlite":
        yield lambda: str(tmp_path / f"{next(numbers)}.db")
    else:
        server = request.getfixturevalue("server")
        yield server.make_schema
