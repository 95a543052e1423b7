"""What a worker makes of a part of a source, beyond what the fixtures of adapters show."""

import gc
from pathlib import Path

import pytest

from runlore import config
from runlore.sync.deltas import follow_aliases
from runlore.sync.prepare import Job, Preparer, prepare_setting
from runlore.testing import Fixture, iter_fixtures

FIXTURES = list(iter_fixtures(Path(__file__).parent / "adapters" / "fixtures"))


def test_records_without_events_lead_to_the_event_at_the_end_of_their_chain() -> None:
    assert follow_aliases({"c": "b", "b": "a", "z": None, "y": "z", "d": "c"}) == {
        "c": "a",
        "b": "a",
        "z": None,
        "y": None,
        "d": "a",
    }


def test_what_leads_back_to_itself_leads_nowhere() -> None:
    assert follow_aliases({"a": "b", "b": "c", "c": "a", "d": "a", "e": "e", "f": "g"}) == {
        **dict.fromkeys("abcde"),
        "f": "g",
    }


def test_a_long_chain_is_gone_along_once() -> None:
    class Counting(dict[str, str | None]):
        asked = 0

        def __getitem__(self, key: str) -> str | None:
            self.asked += 1
            return super().__getitem__(key)

    chain = Counting({f"{n + 1}": f"{n}" for n in range(50_000)})
    assert set(follow_aliases(chain).values()) == {"0"}
    assert chain.asked == 50_000


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: f"{fixture.agent}-{fixture.case}")
def test_what_was_made_of_a_source_is_gone_with_its_result(
    fixture: Fixture, tmp_path: Path
) -> None:
    """Cycles would hold all of it in memory until they are looked for."""
    preparer = Preparer(prepare_setting(config.Config(home=tmp_path, store="")))
    sources = list(fixture.adapter.discover(fixture.root))
    was_enabled = gc.isenabled()
    gc.disable()
    # What the other tests have left is not looked at: it would take a second each time.
    gc.freeze()
    try:
        found = []
        for _ in range(2):  # The first time, modules are imported and things are remembered.
            for source in sources:
                preparer.prepare(Job(source=source, is_new=True))
            found.append(gc.collect())
        assert found[1] == 0
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
