"""The attacks of `bench/attack`, each at a small scale: whatever is tried, everything holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.attack import Result, memory, not_possible
from bench.attack._trials import Score, require
from tests.conftest import ALL

ROOT = Path(__file__).parent.parent
NAMES = sorted(
    file.stem for file in (ROOT / "bench/attack").glob("*.py") if not file.stem.startswith("_")
)
SCALE = 0.02
SMALLER = {
    "files": 0.01,
    "fuzz": 0.0004,
    "kills": 0.005,
    "logs": 0.005,
    "secrets": 0.01,
    "web": 0.003,
}
"""Attacks of which a smaller part is enough to see that they run."""
BARS = {"secrets": 0.95}
"""The share that must hold, where not everything can."""


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_finds_nothing(name: str) -> None:
    scale = 0.1 if ALL else SMALLER.get(name, SCALE)
    done = subprocess.run(
        [sys.executable, "-m", "bench.attack", name, "--scale", str(scale)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:]]
    assert rows, f"it tried nothing: {done.stderr}"
    tried, held = (sum(int(row[column]) for row in rows) for column in (2, 3))
    assert held >= BARS.get(name, 1.0) * tried, done.stdout
    assert done.returncode == (held < tried), done.stderr
    if untried := [f"{row[1]}: {row[4].rstrip(' |')}" for row in rows if row[2] == "0"]:
        pytest.skip("; ".join(untried))


def test_something_that_does_not_hold_is_a_failure() -> None:
    """The test above would pass if nothing ever counted."""
    score = Score("a case")
    for n in range(3):
        with score.trial(n):
            require(n != 1, "one is wrong")
    result = score.result("a figure")
    assert (result.tried, result.held, result.note) == (3, 2, "trial 1: one is wrong")


@pytest.mark.parametrize(
    ("tried", "held", "note"), [(1, True, ""), (1, 2, ""), (1, -1, ""), (0, 0, ""), (0.0, 0, "x")]
)
def test_a_result_has_numbers_or_a_reason_why_it_has_none(tried: int, held: int, note: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        Result("a case", tried, held, note)


def test_a_case_that_cannot_be_tried_here_says_why() -> None:
    assert not_possible("a case", "no disk") == Result("a case", 0, 0, "not tried: no disk")


@pytest.mark.skipif(sys.platform != "linux", reason="only there is address space limited")
def test_a_machine_on_which_nothing_runs_under_the_limit_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_BYTES", 20_000_000)
    [result] = memory.attack(0.02, tmp_path)
    assert (result.tried, result.note[:37]) == (0, "not tried: a sync of nothing ends wit")
