"""Real chats of VS Code, where they are at hand: nothing raises, everything is accounted for, and a
second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import Source, get
from runlore.errors import ReadError
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

CORPUS = corpus.CORPUS / "vscode-copilot"
ADAPTER = get("vscode_copilot")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    sources = [
        (source, list(ADAPTER.read(source, None)))
        for source in ADAPTER.discover(CORPUS)
        if not is_expectation(source)
    ]
    assert sources
    return [
        (source, records, ADAPTER.normalize(source, records, None)) for source, records in sources
    ]


def is_expectation(source: Source) -> bool:
    """What somebody expects of a log."""
    return source.path.endswith(".expected.json")


def document(path: str) -> Any:
    if path.endswith(".json"):
        return json.loads(Path(path).read_text())
    found: Any = None
    for line in Path(path).read_text().splitlines():
        change = json.loads(line)
        if change["kind"] == 0:
            found = change["v"]
            continue
        holder = found
        for key in change["k"][:-1]:
            holder = holder[key]
        last = change["k"][-1]
        if change["kind"] == 1:
            holder[last] = change["v"]
        elif change["kind"] == 2:
            items = holder.setdefault(last, [])
            del items[change.get("i", len(items)) :]
            items += change["v"]
    return found


def test_every_file_is_read_or_says_why_not(everything: Everything) -> None:
    others = [source for source in ADAPTER.discover(CORPUS) if is_expectation(source)]
    for other in others:
        with pytest.raises(ReadError, match="no list of requests"):
            list(ADAPTER.read(other, None))
    assert {str(path) for path in corpus.unread(CORPUS, everything)} == {
        other.path for other in others
    }


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        count = sum(record.sidecar is None for record in records)
        assert count == len({event.record for event in found.events}) + sum(
            found.merged.values()
        ), source.path
        assert not found.skips
        assert len({event.native_id for event in found.events}) == len(found.events)
        (facts,) = found.facts.values()
        assert (facts.native_session_id, facts.title) == tuple(
            document(source.path)[name] for name in ("sessionId", "customTitle")
        )


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        theirs = Counter[str]()
        for request in document(source.path)["requests"]:
            metadata = request["result"]["metadata"]
            parts = request["response"]
            runs = "".join(
                "t"
                if part.get("kind", "inlineReference") == "inlineReference" and text(part)
                else "."
                for part in parts
            )
            theirs["prompts"] += 1
            theirs["replies"] += len([run for run in split(runs, parts) if run.strip("` \n")])
            theirs["thoughts"] += sum(
                part.get("kind") == "thinking" and bool(part["value"]) for part in parts
            )
            theirs["calls"] += sum(part.get("kind") == "toolInvocationSerialized" for part in parts)
            theirs["results"] += len(metadata["toolCallResults"])
            theirs["failed"] += sum(bool(state(part).get("exitCode")) for part in parts)
            theirs["arguments"] += sum(
                len(turn["toolCalls"]) for turn in metadata["toolCallRounds"]
            )
        ours = Counter[str]()
        for event in found.events:
            ours["prompts"] += event.kind == "user_msg"
            ours["replies"] += event.kind == "assistant_msg"
            ours["thoughts"] += event.kind == "thinking"
            ours["calls"] += event.is_call
            ours["results"] += event.role == "tool"
            ours["failed"] += bool(event.exit_code)
            ours["arguments"] += (
                event.is_call and bool(event.call_id) and event.call_id.startswith("toolu_")  # type: ignore[union-attr]
            )  # it has one
        assert +ours == +theirs, source.path


def text(part: dict[str, Any]) -> str:
    return (
        part.get("value", "") if "kind" not in part else part["inlineReference"].get("name") or "x"
    )


def split(runs: str, parts: list[dict[str, Any]]) -> list[str]:
    found = [""]
    for mark, part in zip(runs, parts, strict=True):
        if mark == "t":
            found[-1] += text(part)
        else:
            found.append("")
    return found


def state(part: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = part.get("toolSpecificData", {}).get("terminalCommandState", {})
    return found


def test_calls_are_joined_with_what_was_given_to_them_and_what_came_of_them(
    everything: Everything,
) -> None:
    for source, _, found in everything:
        rounds = [
            turn
            for request in document(source.path)["requests"]
            for turn in request["result"]["metadata"]["toolCallRounds"]
        ]
        given = {
            call["id"].partition("__")[0]: json.loads(call["arguments"])
            for turn in rounds
            for call in turn["toolCalls"]
        }
        for event, body in zip(found.events, found.bodies, strict=True):
            if event.is_call:
                values = [
                    value for value in given.pop(event.call_id).values() if isinstance(value, str)
                ]
                assert any(value in body or value in event.files for value in values), (
                    source.path,
                    body,
                )
        assert not given


def test_tokens_are_what_the_requests_say(everything: Everything) -> None:
    wanted = {
        request["requestId"]: request
        for source, _, _ in everything
        for request in document(source.path)["requests"]
    }
    calls = [call for _, _, found in everything for call, _ in found.calls]
    told = {name: request for name, request in wanted.items() if "promptTokens" in request}
    assert len(calls) == len(told) > 0
    for call, request in zip(calls, told.values(), strict=True):
        assert (call.input_tokens, call.output_tokens) == (
            request["promptTokens"],
            request["completionTokens"],
        )


def test_the_promises_hold(
    tmp_path: Path, everything: Everything, loops: Callable[[int], int]
) -> None:
    for n, (source, _, _) in enumerate(everything):
        (tmp_path / f"{n}{Path(source.path).suffix}").write_bytes(Path(source.path).read_bytes())
    check_law(ADAPTER, tmp_path, cuts=loops(20))
    check_breakage(ADAPTER, tmp_path, random.Random(), loops(100))
    check_noise(ADAPTER, tmp_path, random.Random(), loops(50))
