"""Reminders that an agent's program puts beside prompts and results: shown on demand, ranked last,
never an error."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from runlore import config as settings
from runlore import search
from runlore.adapters import Normalized, Record, Source, get
from runlore.adapters.claude import ClaudeAdapter
from runlore.adapters.shared.tools import split_reminders
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.testing import check_breakage

ROOT = Path(__file__).parent / "adapters/fixtures/claude/reminders/root"
REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    opened = open_store(settings.load().store)
    pipeline.sync(opened, settings.load(), agents=["claude"], roots=[str(ROOT)], workers=0)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("text", "own", "reminders"),
    [
        ("1\ta\n\n" + REMINDER + "\n", "1\ta", [REMINDER]),
        (f"{REMINDER}\n\n  a\n{REMINDER}\n{REMINDER}", "  a", [REMINDER] * 3),
        (REMINDER, REMINDER, []),
        (f"a\n{REMINDER}\nb", f"a\n{REMINDER}\nb", []),
        (f"print('{REMINDER}", f"print('{REMINDER}", []),
        ("a\n<system-reminder>\nnever closed", "a\n<system-reminder>\nnever closed", []),
        (f"a\n\n{REMINDER}\n\n{REMINDER}", "a", [REMINDER] * 2),
        ("", "", []),
    ],
)
def test_reminders_before_and_behind_a_result_are_not_its_own(
    text: str, own: str, reminders: list[str]
) -> None:
    assert split_reminders(text) == (own, reminders)


def test_a_word_that_only_a_reminder_has_is_found_as_injected(store: Store) -> None:
    [hit] = search.search(store, "malware").hits
    assert all(event.is_injected for event in hit.events)
    [hit] = search.search(store, "vouchers").hits
    assert not any(event.is_injected for event in hit.events)


def test_a_reminder_is_no_part_of_an_error(store: Store) -> None:
    [line] = store.sessions.select(Filter())
    digest = store.digests.get(line.uid)
    assert digest is not None
    assert [error.signature.template for error in digest.errors] == ["ticket <n> was not found"]
    assert "token expired" not in digest.to_json()


def test_a_title_is_the_prompt_behind_a_reminder(store: Store) -> None:
    [line] = store.sessions.select(Filter())
    assert line.title == "Read the cart and its tests"


class Forgetful(ClaudeAdapter):
    """Drops a record whose role is no text."""

    def normalize(
        self, source: Source, records: Iterable[Record], carry: bytes | None
    ) -> Normalized:
        return super().normalize(
            source, [record for record in records if b'"role": "' in record.data], carry
        )


def test_a_broken_value_may_cost_a_result_with_its_reminders_and_nothing_else() -> None:
    check_breakage(get("claude"), ROOT, random.Random(1), 50)
    with pytest.raises(AssertionError, match="loses"):
        check_breakage(Forgetful(), ROOT, random.Random(1), 5000)
