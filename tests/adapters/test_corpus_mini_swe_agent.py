"""Real trajectories of mini-SWE-agent, where they are at hand: nothing raises, every record is
accounted for, and a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import random
import shutil
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

CORPUS = corpus.CORPUS / "mini-swe-agent"
ADAPTER = get("mini_swe_agent")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return corpus.read_all(ADAPTER, CORPUS)


def test_every_trajectory_is_read(everything: Everything) -> None:
    # What was made of a run.
    assert {path.name for path in corpus.unread(CORPUS, everything)} <= {"results.json"}


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        assert len(records) == len({event.record for event in found.events}) + sum(
            found.merged.values()
        ), source.path
        assert not found.skips


def test_sessions_are_named_and_numbered(everything: Everything) -> None:
    assert len({uid for _, _, found in everything for uid in found.facts}) == len(everything)
    for _, _, found in everything:
        ((uid, facts),) = found.facts.items()
        assert uid == make_uid("mini_swe_agent", facts.native_session_id)
        assert [event.seq for event in found.events] == list(range(len(found.events)))
        assert len({event.native_id for event in found.events}) == len(found.events)
        assert facts.title
        assert not facts.title.startswith("<")


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        mine = Counter(
            "tool_call" if event.is_call else event.kind
            for event in found.events
            if event.kind != "lifecycle"
        )
        assert mine == Counter(kinds_of(json.loads(Path(source.path).read_text()))), source.path


def test_tokens_are_what_the_answers_say(everything: Everything) -> None:
    for source, _, found in everything:
        document = json.loads(Path(source.path).read_text())
        messages = document if isinstance(document, list) else document["messages"]
        answers = [
            message["extra"]["response"]["usage"]
            for message in messages
            if "response" in message.get("extra", {})
        ]
        calls = [call for call, _ in found.calls]
        assert len(calls) == len({call.key for call in calls}) == len(answers)
        assert sum(call.prompt_tokens for call in calls) == sum(
            answer["prompt_tokens"] for answer in answers
        )
        assert sum(call.output_tokens for call in calls) == sum(
            answer["completion_tokens"] for answer in answers
        )
        if isinstance(document, dict):
            assert (
                len(calls) == document["info"]["model_stats"]["api_calls"]
                or "patch_repair" in document["info"]
            )


def test_the_laws_hold_for_real_trajectories(
    everything: Everything, tmp_path: Path, loops: Callable[[int], int]
) -> None:
    """Of the three that are smallest: each check reads them again and again."""
    for source, _, _ in sorted(everything, key=lambda entry: entry[0].size)[:3]:
        shutil.copy(source.path, tmp_path)
    check_law(ADAPTER, tmp_path, cuts=5)
    check_breakage(ADAPTER, tmp_path, random.Random(), loops(50))
    check_noise(ADAPTER, tmp_path, random.Random(), loops(50))


# The second count.


def kinds_of(document: Any) -> Iterator[str]:
    messages = document if isinstance(document, list) else document["messages"]
    users = 0
    for n, message in enumerate(messages):
        role, text = message["role"], message["content"]
        if role == "assistant":
            is_block = "tool_calls" not in message and "```" in text
            yield from ["assistant_msg"] * bool(
                text.partition("```")[0].strip() if is_block else text.strip()
            )
            yield from ["tool_call"] * (
                len(message["tool_calls"] or ()) if "tool_calls" in message else is_block
            )
        elif role == "user":
            users += 1
            is_last = n == len(messages) - 1
            yield (
                "user_msg"
                if users == 1
                else "completion"
                if is_last and "<returncode>" not in text
                else "tool_result"
            )
        elif role in ("tool", "exit"):
            yield {"tool": "tool_result", "exit": "completion"}[role]
