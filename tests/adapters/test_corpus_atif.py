"""Documents in ATIF that others wrote, where they are at hand: nothing raises, every record is accounted for, and a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no code with the adapter.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise

SHARED = Path(__file__).parents[3] / "shared/corpus/atif"
ADAPTER = get("atif")

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the corpus is not here")


def test_every_document_is_read_and_a_second_count_agrees() -> None:
    sources = list(ADAPTER.discover(SHARED))
    assert {Path(source.path) for source in sources} == set(SHARED.rglob("*.json"))
    assert len(sources) == 6
    total: Counter[str] = Counter()
    for source in sources:
        records = list(ADAPTER.read(source, None))
        found = ADAPTER.normalize(source, records, None)
        assert len(records) == len({event.record for event in found.events}) + sum(found.merged.values())
        assert not found.skips
        document = json.loads(Path(source.path).read_text())
        mine = Counter("tool_call" if event.is_call else event.kind for event in found.events)
        assert mine == Counter(kinds_of(document)), source.path
        ((uid, facts),) = found.facts.items()
        assert uid == f"atif:{document['session_id']}"
        assert facts.title
        total += mine
    assert (total["tool_call"], total["tool_result"], total["user_msg"]) == (3, 3, 8)


def test_the_laws_hold_for_them(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, SHARED)
    check_breakage(ADAPTER, SHARED, random.Random(), loops(100))
    check_noise(ADAPTER, SHARED, random.Random(), loops(100))


def kinds_of(document: dict[str, Any]) -> Iterator[str]:
    yield "lifecycle"  # The start.
    for step in document["steps"]:
        if step["source"] != "agent":
            yield {"user": "user_msg", "system": "lifecycle"}[step["source"]]
        elif step["message"]:
            yield "assistant_msg"
        yield from ("tool_call" for _ in step.get("tool_calls") or ())
        yield from ("tool_result" for _ in (step.get("observation") or {}).get("results") or ())
