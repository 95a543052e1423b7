"""Passes while watching: when something was written, when a folder appears, never twice at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runlore.cli import watching
from runlore.errors import StoreBusy
from runlore.sync.pipeline import Report


def watched(
    monkeypatch: pytest.MonkeyPatch, rounds: list[list[bool]], sync: list[Report | StoreBusy]
) -> list[Report]:
    """What is told in these rounds of changes, after which the user interrupts."""
    told: list[Report] = []
    waiting = iter(rounds)

    def changes(there: list[str]) -> Iterator[bool]:
        try:
            yield from next(waiting)
        except StopIteration:
            raise KeyboardInterrupt from None

    def run() -> Report:
        result = sync.pop(0)
        if isinstance(result, StoreBusy):
            raise result
        return result

    monkeypatch.setattr(watching, "changes", changes)
    watching.watch(run, [], told.append)
    assert not sync, "all passes were made"
    return told


def test_a_pass_is_made_for_each_change_and_told_when_it_found_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, nothing = Report(found={"grown": 1, "unchanged": 5}), Report(found={"unchanged": 6})
    assert watched(monkeypatch, [[True, False, True]], [found, nothing]) == [found]


def test_another_sync_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Report(found={"new": 1})
    assert watched(monkeypatch, [[True], [True]], [StoreBusy("busy"), found]) == [found]


def test_a_problem_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, worse = (
        Report(found={"unchanged": 1}, problems=[("/x", reason)]) for reason in ("denied", "gone")
    )
    assert watched(monkeypatch, [[True, True, True]], [bad, bad, worse]) == [bad, worse]


def test_only_one_watches(tmp_path: Path) -> None:
    with (
        watching.alone(tmp_path),
        pytest.raises(StoreBusy, match="another `runlore sync --watch` is running"),
        watching.alone(tmp_path),
    ):
        pass
    with watching.alone(tmp_path):
        pass


def test_a_folder_that_appears_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "later"
    passes: list[str] = []

    def changes(there: list[str]) -> Iterator[bool]:
        if there:
            raise KeyboardInterrupt
        place.mkdir()
        yield False

    def sync() -> Report:
        passes.append("one")
        return Report()

    monkeypatch.setattr(watching, "changes", changes)
    watching.watch(sync, [str(place)], lambda report: None)
    assert passes == ["one"]
    assert capsys.readouterr().err == "watching for the first folder of an agent; Ctrl-C ends it\n"


def test_what_was_written_before_watching_began_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between the look of the last pass and the first moment of watching a turn may be written."""
    passes: list[str] = []

    def changes(there: list[str]) -> Iterator[bool]:
        yield from (False, False)
        raise KeyboardInterrupt

    def sync() -> Report:
        passes.append("one")
        return Report()

    monkeypatch.setattr(watching, "changes", changes)
    watching.watch(sync, [str(tmp_path)], lambda report: None)
    assert passes == ["one"]


def test_a_pass_follows_when_what_was_written_last_has_become_quiet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now, passes = 0.0, list[float]()
    steps = iter([*[(True, 5.0)], *[(False, 10.0)] * 80])

    def changes(there: list[str]) -> Iterator[bool]:
        nonlocal now
        yield False  # The pass at the beginning.
        for changed, seconds in steps:
            now += seconds
            yield changed
        raise KeyboardInterrupt

    def sync() -> Report:
        passes.append(now)
        return Report(found={"unchanged": 1})

    monkeypatch.setattr(watching, "changes", changes)
    watching.watch(sync, [str(tmp_path)], lambda report: None, clock=lambda: now)
    assert passes == [0, 5, 75, 675], "one when it is quiet, and then every ten minutes"
