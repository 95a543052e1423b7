"""The suite for anyone's store, on our own log, and on the rules of an older one, which it must
find wanting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runlore.live import SessionStore
from runlore.testing.store_conformance import CHECKS, run_store_conformance
from tests.live.system1 import open_old


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("name", CHECKS)
def test_our_log_keeps_every_promise(
    name: str, durability: Any, loops: Callable[[int], int]
) -> None:
    report = run_store_conformance(
        lambda folder, id: SessionStore(folder, durability=durability).ensure(id),
        kills=loops(100),
        only=[name],
    )
    assert report.passed == [name], str(report)


def test_the_old_rules_fail_where_they_lose_data(loops: Callable[[int], int]) -> None:
    report = run_store_conformance(open_old, kills=loops(100))
    assert set(report.failed) >= {
        "survives a torn tail",
        "survives an empty file",
        "survives damage",
        "reading does not write",
        "stays in its folder",
        "takes any text",
    }, str(report)
    assert set(report.passed) >= {"keeps what it was given", "does not order by the clock"}, str(
        report
    )


def test_a_store_that_raises_is_reported_and_does_not_end_the_run() -> None:
    class Refusing:
        def __init__(self, folder: Path, id: str) -> None:
            raise RuntimeError("no such luck")

    report = run_store_conformance(Refusing, kills=1)
    assert len(report.checks) == len(CHECKS)
    assert "RuntimeError: no such luck" in str(report)
    assert "keeps what it was given" in report.failed


def test_a_store_that_forgets_half_is_found_out() -> None:
    """The checks would pass if they compared nothing."""

    kept: dict[tuple[str, str], list[dict[str, Any]]] = {}

    class Forgetful:
        def __init__(self, folder: Path, id: str) -> None:
            self.messages_ = kept.setdefault((str(folder), id), [])

        def append(self, message: dict[str, Any]) -> None:
            self.messages_.append(message)

        def messages(self) -> list[dict[str, Any]]:
            return self.messages_[::2]

    assert {"keeps what it was given", "survives kill -9", "keeps two writers apart"} <= set(
        run_store_conformance(Forgetful, kills=1).failed
    )
