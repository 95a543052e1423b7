"""A new signal, with its lesson, is one file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runlore.config import Lessons as Thresholds
from runlore.lessons.curate import decide, propose
from runlore.lessons.measure import is_measurable, recurred
from runlore.lessons.retro import look_back
from runlore.mine import signals
from runlore.mine.patterns import find_patterns
from tests.mine.fleet import fleet

NOW = datetime(2026, 9, 1, tzinfo=UTC)

TOY = '''
"""Sessions that run `make deploy`."""

from runlore.mine.values import Signal
from runlore.mine.drafts import Draft, hash_id
from runlore.mine.ends import End, count_evidence, find_common_ends
from runlore.mine.loci import CommandLocus

KIND = "toy"


def mine(case, _):
    if any(run.command == "make deploy" for run in case.digest.commands):
        yield Signal(
            type="toy_deploy", polarity="problem", uid=case.uid,
            locus=CommandLocus("make deploy"), what="it is deployed",
        )


def find_ends(group):
    return [
        End(case.evidence_key, case.at, f"{case.uid}#1", "wait", is_over=True)
        for case in group.cases
    ]


def draft(group, ends):
    common = find_common_ends(ends, group.min_sessions)
    return common and Draft(
        id=hash_id(KIND, group.pattern.locus.key),
        kind=KIND,
        about=group.pattern.locus.key,
        key="wait",
        when=group.pattern.what,
        do="Wait for the night.",
        **count_evidence(common, ends),
    )


def recurred(about, case):
    return any(run.command == about for run in case.digest.commands)
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the file of a miner, beside the folder of ours."""
    (tmp_path / "toy_deploy.py").write_text(TOY)
    monkeypatch.setattr(signals, "__path__", [*signals.__path__, str(tmp_path)])
    signals.load_miners.cache_clear()
    yield
    monkeypatch.undo()
    signals.load_miners.cache_clear()


@pytest.mark.usefixtures("toy")
def test_a_file_adds_a_signal_its_pattern_its_lesson_and_its_measure() -> None:
    cases = fleet(1, 30, {"retry_storm": [3, 9, 20]})
    by_uid = {case.uid: case for case in cases}
    patterns = find_patterns(cases)
    [pattern] = [one for one in patterns if one.type == "toy_deploy"]
    assert pattern.uids == ("toy:0003", "toy:0009", "toy:0020")

    [lesson] = propose(patterns, by_uid, [], Thresholds(), NOW)
    assert (lesson.kind, lesson.do, lesson.sessions, lesson.helped) == (
        "toy",
        "Wait for the night.",
        3,
        3,
    )

    approved = decide(lesson, "approved", datetime(2020, 1, 1, tzinfo=UTC))
    [counted] = propose(patterns, by_uid, [approved], Thresholds(), NOW)
    assert (counted.kept, counted.broken) == (3, 0)

    assert is_measurable(lesson)
    assert [recurred(lesson, cases[n]) for n in (3, 4)] == [True, False]

    without = look_back(cases, [], [lesson], [], since="", until="")
    assert {one.advice for one in without.wrong} == {""}, "nobody has approved it"
    beside = look_back(cases, [], [approved], [], since="", until="")
    assert "Wait for the night." in {one.advice for one in beside.wrong}


def test_without_the_file_there_is_no_trace_of_it() -> None:
    assert "toy_deploy" not in signals.load_miners()
