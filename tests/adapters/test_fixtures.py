"""Every fixture of every adapter: what is made of it, and that the promises of adapters hold for
it.

`REGENERATE=1 pytest tests/adapters` rewrites the expectations; read the difference before keeping
it.
"""

import json
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from runlore.adapters import Normalized, Record, Source
from runlore.testing import Fixture, check_breakage, check_law, check_noise, derive, iter_fixtures

FIXTURES = list(iter_fixtures(Path(__file__).parent / "fixtures"))
every_fixture = pytest.mark.parametrize(
    "fixture", FIXTURES, ids=lambda fixture: f"{fixture.agent}-{fixture.case}"
)


@every_fixture
def test_fixture_gives_what_is_expected(fixture: Fixture) -> None:
    found = json.loads(json.dumps(derive(fixture.adapter, fixture.root)))
    if os.environ.get("REGENERATE") == "1":
        fixture.expected.write_text(
            json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    assert found == json.loads(fixture.expected.read_text(encoding="utf-8"))


@every_fixture
def test_any_cut_gives_the_same(fixture: Fixture, loops: Callable[[int], int]) -> None:
    check_law(fixture.adapter, fixture.root, cuts=loops(100))


@every_fixture
def test_a_broken_value_costs_one_event(fixture: Fixture, loops: Callable[[int], int]) -> None:
    check_breakage(fixture.adapter, fixture.root, random.Random(), loops(300))


@every_fixture
def test_damaged_bytes_raise_nothing(fixture: Fixture, loops: Callable[[int], int]) -> None:
    check_noise(fixture.adapter, fixture.root, random.Random(), loops(500))


@every_fixture
def test_values_of_events_fit_a_database(fixture: Fixture) -> None:
    """Numbers within 64 bits, text that every codec writes, and summaries of one line, which are
    cut when they have been redacted."""
    for source in fixture.adapter.discover(fixture.root):
        found = fixture.adapter.normalize(source, fixture.adapter.read(source, None), None)
        for event, body in zip(found.events, found.bodies, strict=True):
            text = event.to_json() + body + repr(found.facts)
            assert text.encode("utf-8")
            assert all(
                abs(n) < 1 << 62
                for n in (
                    event.tokens,
                    event.exit_code or 0,
                    event.duration_ms or 0,
                    event.record or 0,
                )
            )
            assert event.summary is None or (
                len(event.summary) <= 640
                and "\n" not in event.summary
                and "\x1b" not in event.summary
            )


def test_the_check_for_noise_sees_a_record_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = next(fixture for fixture in FIXTURES if fixture.case == "basic")
    normalize = fixture.adapter.normalize

    def forgetful(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
        """Gives up at the first line that is no JSON."""
        good: list[Record] = []
        for record in records:
            try:
                json.loads(record.data)
            except ValueError:
                break
            good.append(record)
        return normalize(source, good, carry)

    monkeypatch.setattr(fixture.adapter, "normalize", forgetful)
    with pytest.raises(AssertionError, match=r"vanishes|changes records"):
        check_noise(fixture.adapter, fixture.root, random.Random(1), 20)


def test_the_check_for_noise_sees_a_record_that_says_what_nobody_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixture = next(fixture for fixture in FIXTURES if fixture.case == "basic")
    normalize = fixture.adapter.normalize

    def chatty(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
        """Makes something up as soon as a line is no JSON."""
        found = normalize(source, records, carry)
        if found.skips:
            found.events.append(found.events[0])
            found.bodies.append("made up")
            found.parents.append(None)
            found.originals.append(None)
        return found

    monkeypatch.setattr(fixture.adapter, "normalize", chatty)
    with pytest.raises(AssertionError, match="changes records"):
        check_noise(fixture.adapter, fixture.root, random.Random(1), 20)
