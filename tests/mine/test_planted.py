"""What is planted is found, what is not planted is not."""

from __future__ import annotations

import random

import msgspec
import pytest

from runlore.mine.commands import command_head
from runlore.mine.patterns import find_patterns
from runlore.mine.signals import load_miners
from runlore.mine.values import Skill
from tests.mine.fleet import PLANTS, REPOS, fleet

COUNT = 60


def test_every_miner_has_something_to_find() -> None:
    assert load_miners().keys() == PLANTS.keys()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_where_nothing_is_planted(seed: int) -> None:
    assert [
        pattern for pattern in find_patterns(fleet(seed, COUNT, {})) if pattern.type != "clean_pass"
    ] == []


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_planted_is_found_where_it_is(name: str) -> None:
    numbers = random.Random(name).sample(range(COUNT), 5)
    found = [
        pattern
        for pattern in find_patterns(fleet(7, COUNT, {name: numbers}))
        if pattern.type == name and pattern.repo in (None, REPOS[0])
    ]
    planted = {f"toy:{number:04}" for number in numbers}
    best = max(found, key=lambda pattern: len(planted & set(pattern.uids)), default=None)
    assert best is not None
    assert PLANTS[name][1] in best.what
    assert len(planted & set(best.uids)) >= 4
    if name != "clean_pass":  # Others go well too.
        assert set(best.uids) <= planted


def test_sessions_that_go_back_to_one_are_one_piece_of_evidence() -> None:
    import msgspec

    cases = fleet(3, 20, {"recurring_error": [4, 9]})
    assert any(pattern.type == "recurring_error" for pattern in find_patterns(cases))
    same = [
        msgspec.structs.replace(case, root="toy:0004") if case.uid == "toy:0009" else case
        for case in cases
    ]
    assert not any(pattern.type == "recurring_error" for pattern in find_patterns(same))


def test_sessions_that_are_no_work_do_not_count() -> None:
    import msgspec

    cases = fleet(3, 20, {"recurring_error": [4, 9]})
    for quality in ("trivial", "automated"):
        idle = [
            msgspec.structs.replace(
                case, digest=msgspec.structs.replace(case.digest, quality=quality)
            )
            for case in cases
        ]
        assert find_patterns(idle) == []


def test_patterns_are_the_same_in_any_order() -> None:
    cases = fleet(5, 40, {"correction": [1, 8, 20], "recovery": [3, 4], "edit_churn": [10, 11]})
    turned = list(cases)
    random.Random(1).shuffle(turned)
    assert find_patterns(cases) == find_patterns(turned)


@pytest.mark.parametrize(
    ("command", "about"),
    [
        ("cd /w && make deploy ENV=x", "make deploy"),
        ("sudo docker build -t a .", "docker build"),
        ("pytest -q a.py | tail", "pytest"),
    ],
)
def test_a_command_is_known_by_its_program_and_what_that_is_told(command: str, about: str) -> None:
    assert command_head(command) == about


def test_sessions_whose_time_is_not_known_make_nothing_new() -> None:
    cases = fleet(1, 40, {"recurring_error": [2, 9, 20, 33]})
    timeless = [
        msgspec.structs.replace(case, uid=f"{case.uid}x", root=f"{case.uid}x", at="")
        for case in fleet(2, 60, {})
    ]
    [alone], [beside] = (
        [pattern for pattern in find_patterns(some) if pattern.type == "recurring_error"]
        for some in (cases, [*cases, *timeless])
    )
    assert alone.trend == beside.trend == "steady"
    lost = [
        msgspec.structs.replace(case, at="") if case.uid == "toy:0009" else case for case in cases
    ]
    [pattern] = [pattern for pattern in find_patterns(lost) if pattern.type == "recurring_error"]
    assert (pattern.sessions, pattern.first_at) == (4, alone.first_at)
    assert sum(pattern.months.values()) == 3


def test_a_test_that_passes_at_a_new_attempt_of_a_skill_is_not_flaky() -> None:
    cases = fleet(7, COUNT, {"flaky_test": [3, 9, 20, 31]})
    assert any(pattern.type == "flaky_test" for pattern in find_patterns(cases))
    attempted = [msgspec.structs.replace(case, skills=(Skill("tdd", True),)) for case in cases]
    assert not any(pattern.type == "flaky_test" for pattern in find_patterns(attempted))
