"""Outcomes of sessions whose truth is known, where these are at hand: see bench/outcome.py.

Only the half that the rules were written on is looked at; the other is for measuring.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from runlore.digest import Outcome
from runlore.digest.outcome import outcome

LABELLED = Path(__file__).parents[3] / "shared/corpus/labelled"

_spec = importlib.util.spec_from_file_location(
    "bench_labelled", Path(__file__).parents[2] / "bench" / "_labelled.py"
)
assert _spec is not None
assert _spec.loader is not None
labelled = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(labelled)

Judged = list[tuple[Any, Outcome]]


@pytest.fixture(scope="module", params=["sweagent", "vorflux"])
def judged(request: pytest.FixtureRequest) -> tuple[str, Judged]:
    if not (LABELLED / request.param).is_dir():
        pytest.skip("the corpus is not here")
    sessions = getattr(labelled, request.param)(LABELLED / request.param)
    return request.param, [
        (session, outcome(session.events, session.bodies))
        for session in sessions
        if not session.is_held_out
    ]


def test_each_kind_of_evidence_is_better_than_a_guess(judged: tuple[str, Judged]) -> None:
    _, sessions = judged
    base = sum(session.is_resolved for session, _ in sessions) / len(sessions)
    groups: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for session, found in sessions:
        if found.verdict != "unknown":
            is_right = session.is_resolved == (found.verdict == "success")
            groups[found.by, found.verdict].append(is_right)
    assert groups
    for (by, verdict), rights in groups.items():
        bar = 0.97 if verdict == "fail" else base + 0.05
        assert sum(rights) / len(rights) >= bar, (by, verdict)


def test_failures_of_a_weak_agent_are_named_and_truly_are_some(judged: tuple[str, Judged]) -> None:
    name, sessions = judged
    named = [session for session, found in sessions if found.verdict == "fail"]
    right = sum(not session.is_resolved for session in named)
    assert right >= 0.97 * len(named)
    if name == "sweagent":
        assert right >= 0.2 * sum(not session.is_resolved for session, _ in sessions)


def test_a_session_whose_last_test_failed_is_no_success(judged: tuple[str, Judged]) -> None:
    for session, found in judged[1]:
        runs = {event.call_id for event in session.events if event.kind == "test_run"}
        ends = [
            event
            for event in session.events
            if event.kind == "tool_result" and event.call_id in runs
        ]
        if ends and (ends[-1].exit_code or (ends[-1].tests and ends[-1].tests.failed)):
            # Some runs are known by their output alone, and may come later.
            is_later = any(seq > ends[-1].seq for seq in found.evidence)
            assert found.verdict != "success" or is_later, session.name
