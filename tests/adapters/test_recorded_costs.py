"""Agents that write down what a call cost: it is stored as recorded, counts where no price is
known, and stands beside the list price elsewhere."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runlore import config
from runlore.adapters import get
from runlore.cli.usage_lines import explained_lines
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.testing.fixtures import read_sources
from runlore.usage.explain import explain

FIXTURES = Path(__file__).parent / "fixtures"
MICRO = 10**6  # One millionth of a USD, in the unit of the ledger.
CASES = {
    "pi/session": {3000: 8},
    "atif/trial": {2000: 1, 10_000: 1},
    "mini_swe_agent/calls": {400: 6},
    "swe_agent/first": {310_000: 1, 50_000: 1, 2_010_000: 1, 100_000: 1},
    "grok_cli/usage": {3600: 1, 3900: 1, 40: 1},
}
every_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "runlore.db"))
    yield opened
    opened.close()


@every_case
def test_a_call_has_the_cost_that_its_agent_recorded(case: str) -> None:
    adapter = get(case.partition("/")[0])
    calls = [
        call
        for source, records in read_sources(adapter, FIXTURES / case / "root")
        for call, _ in adapter.normalize(source, records, None).calls
    ]
    assert Counter(call.recorded // MICRO for call in calls if call.recorded) == CASES[case]


@every_case
def test_a_recorded_cost_counts_where_no_price_is_known_and_is_shown_beside_one(
    case: str, store: Store, tmp_path: Path
) -> None:
    setting = config.Config(home=tmp_path, store=store.url)
    root = str(FIXTURES / case / "root")
    pipeline.sync(store, setting, agents=[case.partition("/")[0]], roots=[root], workers=0)
    calls = [
        one
        for line in store.sessions.select(Filter(parents_only=False))
        for one in explain(store, setting, line.uid).calls
        if one.call.recorded
    ]
    assert calls
    for one in calls:
        if one.basis == "recorded":
            assert one.units == one.call.recorded
        else:
            assert one.basis == "listed"
            assert any("recorded by its agent: $" in line for line in explained_lines(one, 100, ""))


@pytest.mark.parametrize("case", ["atif/trial", "swe_agent/first"])
def test_a_cost_without_tokens_is_a_call(case: str, tmp_path: Path) -> None:
    root = shutil.copytree(FIXTURES / case / "root", tmp_path / "root")
    for path in root.rglob("*.*"):
        if path.suffix in (".json", ".traj"):
            text = path.read_text(encoding="utf-8")
            path.write_text(
                re.sub(r'"(\w*_tokens|tokens_\w+)"', r'"no_\1"', text), encoding="utf-8"
            )
    adapter = get(case.partition("/")[0])
    calls = [
        call
        for source, records in read_sources(adapter, root)
        for call, _ in adapter.normalize(source, records, None).calls
    ]
    assert Counter(call.recorded // MICRO for call in calls if call.recorded) == CASES[case]
    assert not any(call.total for call in calls)
