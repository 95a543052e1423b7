"""Which sessions a lesson is withheld from: a share of them, the same at every moment."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import config
from runlore.lessons import Lesson, deliver
from runlore.lessons.trial import SEED_BYTES, SEED_FILE, Trial, read_trial

SEEDS = st.binary(min_size=SEED_BYTES, max_size=SEED_BYTES)
SHARES = st.floats(0, 1)


def lesson(name: str) -> Lesson:
    return Lesson(id=name, when="p", do="r")


@given(SEEDS, SHARES, st.lists(st.tuples(st.text(), st.text()), unique=True), st.randoms())
def test_a_decision_depends_on_nothing_but_seed_lesson_and_session(
    seed: bytes, share: float, pairs: list[tuple[str, str]], rng: object
) -> None:
    first = {pair: Trial(seed, share).withholds(*pair) for pair in pairs}
    rng.shuffle(pairs)  # type: ignore[attr-defined]
    assert {pair: Trial(seed, share).withholds(*pair) for pair in pairs} == first


@given(SEEDS, st.text(), st.text(), SHARES, SHARES)
def test_who_is_withheld_from_stays_so_when_the_share_grows(
    seed: bytes, name: str, session: str, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert Trial(seed, low).withholds(name, session) <= Trial(seed, high).withholds(name, session)
    assert not Trial(seed, 0).withholds(name, session)
    assert Trial(seed, 1).withholds(name, session)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_the_share_is_kept_to_and_lessons_are_decided_apart(share: float, seed: int) -> None:
    trial, number = Trial(f"seed {seed}".encode(), share), 4_000
    decided = {
        name: [trial.withholds(name, f"claude:{n}") for n in range(number)] for name in ("a", "b")
    }

    def is_near(count: int, expected: float) -> bool:
        return abs(count / number - expected) < 4 * sqrt(expected * (1 - expected) / number)

    assert all(is_near(sum(values), share) for values in decided.values())
    both = sum(one and other for one, other in zip(decided["a"], decided["b"], strict=True))
    assert is_near(both, share**2)


def test_a_home_has_one_seed_whoever_comes_first(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        trials = list(pool.map(lambda _: read_trial(home, 0.2), range(8)))
    assert len({trial.seed for trial in trials if trial}) == 1
    assert read_trial(home, 0.2) == trials[0]
    assert os.listdir(home) == [SEED_FILE]
    assert (home / SEED_FILE).stat().st_mode & 0o077 == 0 or os.name == "nt"


def test_without_a_share_there_is_no_seed_and_a_damaged_one_is_replaced(home: Path) -> None:
    assert read_trial(home, 0) is None
    assert os.listdir(home) == []
    (home / SEED_FILE).write_bytes(b"cut")
    trial = read_trial(home, 0.2)
    assert trial
    assert len(trial.seed) == SEED_BYTES


def test_where_no_seed_can_be_written_nothing_is_withheld(tmp_path: Path) -> None:
    assert read_trial(tmp_path / "missing", 0.2) is None
    choice = deliver.divide_lessons(
        tmp_path / "missing", config.Lessons(withhold=0.9), [lesson("a")], "claude:1"
    )
    assert ([one.id for one in choice.shown], choice.withheld, choice.share) == (["a"], [], 0)


def test_a_session_that_is_not_known_is_shown_everything(tmp_path: Path) -> None:
    lessons = [lesson(f"l{n}") for n in range(30)]
    unknown = deliver.divide_lessons(tmp_path, config.Lessons(withhold=0.5), lessons, "")
    assert (unknown.shown, unknown.withheld, unknown.share) == (lessons, [], 0)
    known = deliver.divide_lessons(tmp_path, config.Lessons(withhold=0.5), lessons, "claude:1")
    assert known.share == 0.5
    assert known.shown
    assert known.withheld
    assert sorted(one.id for one in known.shown + known.withheld) == sorted(
        one.id for one in lessons
    )
