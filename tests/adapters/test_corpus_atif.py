"""Documents in ATIF that others wrote, where they are at hand: nothing raises, every record is
accounted for, and a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus

CORPUS = corpus.CORPUS / "atif"
ADAPTER = get("atif")

pytestmark = corpus.needs(CORPUS)


def test_every_document_is_read_and_a_second_count_agrees() -> None:
    everything = corpus.read_all(ADAPTER, CORPUS)
    assert corpus.unread(CORPUS, everything) == []
    for source, records, found in everything:
        assert len(records) == len({event.record for event in found.events}) + sum(
            found.merged.values()
        )
        assert not found.skips
        document = json.loads(Path(source.path).read_text())
        mine = Counter("tool_call" if event.is_call else event.kind for event in found.events)
        assert mine == Counter(kinds_of(document)), source.path
        ((uid, facts),) = found.facts.items()
        assert uid == f"atif:{document['session_id']}"
        assert facts.title


def test_the_laws_hold_for_them(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS)
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(100))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(100))


def kinds_of(document: dict[str, Any]) -> Iterator[str]:
    yield "lifecycle"  # The start.
    for step in document["steps"]:
        if step["source"] != "agent":
            yield {"user": "user_msg", "system": "lifecycle"}[step["source"]]
        elif step["message"]:
            yield "assistant_msg"
        yield from ("tool_call" for _ in step.get("tool_calls") or ())
        yield from ("tool_result" for _ in (step.get("observation") or {}).get("results") or ())
