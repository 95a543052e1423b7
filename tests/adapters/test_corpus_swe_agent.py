"""Real trajectories of SWE-agent, where they are at hand: nothing raises, every record is accounted
for, and a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import get
from runlore.model import make_uid
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

ROOTS = (corpus.CORPUS / "swe-agent", corpus.CORPUS / "labelled/sweagent")
ADAPTER = get("swe_agent")

pytestmark = corpus.needs(*ROOTS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return [entry for root in ROOTS for entry in corpus.read_all(ADAPTER, root)]


def test_every_trajectory_is_read(everything: Everything) -> None:
    assert [
        path for root in ROOTS for path in corpus.unread(root, everything) if path.suffix == ".traj"
    ] == []


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        assert len(records) == len({event.record for event in found.events}) + sum(
            found.merged.values()
        ), source.path
        assert not found.skips
        assert not [event for event in found.events if event.native in ("unknown", "step")]


def test_sessions_are_named_and_numbered(everything: Everything) -> None:
    names = [uid for _, _, found in everything for uid in found.facts]
    assert len(set(names)) == len(everything)  # The same instance was run several times.
    for source, _, found in everything:
        ((uid, facts),) = found.facts.items()
        assert uid == make_uid("swe_agent", facts.native_session_id)
        assert [event.seq for event in found.events] == list(range(len(found.events)))
        assert len({event.native_id for event in found.events}) == len(found.events)
        assert facts.title, source.path


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        mine = Counter("tool_call" if event.is_call else event.kind for event in found.events)
        assert mine == Counter(kinds_of(json.loads(Path(source.path).read_text()))), source.path


def test_edits_say_which_file_and_refused_ones_are_errors(everything: Everything) -> None:
    edits = {
        event.call_id: event
        for _, _, found in everything
        for event in found.events
        if event.kind == "edit"
    }
    results = [
        event
        for _, _, found in everything
        for event in found.events
        if event.kind == "tool_result" and event.call_id in edits
    ]
    assert len(edits) == len(results) > 0
    assert sum(bool(event.files) for event in edits.values()) >= 0.98 * len(edits)
    texts = {
        event.native_id: body
        for _, _, found in everything
        for event, body in zip(found.events, found.bodies, strict=True)
    }
    refused = [event for event in results if REFUSED in texts[event.native_id]]
    assert len(refused) == sum(map(refusals_in, (source.path for source, _, _ in everything))) > 0
    assert all(event.is_error for event in refused)


def test_tokens_are_what_the_files_say(everything: Everything) -> None:
    for source, _, found in everything:
        stats = json.loads(Path(source.path).read_text()).get("info", {}).get("model_stats", {})
        told = [(call.input_tokens, call.output_tokens) for call, _ in found.calls]
        sums = (stats.get("tokens_sent", 0), stats.get("tokens_received", 0))
        assert told == ([sums] if any(sums) else [])


def test_the_laws_hold_for_real_trajectories(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, ROOTS[0])
    check_breakage(ADAPTER, ROOTS[0], random.Random(), loops(30))
    check_noise(ADAPTER, ROOTS[0], random.Random(), loops(30))


# The second count.

REFUSED = "proposed edit has introduced new syntax"


def refusals_in(path: str) -> int:
    return sum(
        REFUSED in step["observation"]
        for step in json.loads(Path(path).read_text()).get("trajectory") or ()
    )


def kinds_of(document: dict[str, Any]) -> Iterator[str]:
    yield "lifecycle"  # The start.
    history = document["history"]
    first = next(n for n, item in enumerate(history) if item["role"] == "assistant")
    for item in history[:first]:
        if not item.get("is_demo"):
            yield {"system": "lifecycle", "user": "user_msg"}[item["role"]]
    steps = document.get("trajectory") or [item for item in history if item["role"] == "assistant"]
    for step in steps:
        if step["action"].startswith("exit_"):
            yield "lifecycle"
            continue
        yield from ["thinking"] * bool(step["thought"].strip())
        yield "tool_call"
        yield "tool_result"
    status = document.get("info", {}).get("exit_status")
    if status is not None:
        yield "completion" if status == "submitted" else "error"
