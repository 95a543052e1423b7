"""Subagents belong to the call that started them, where something proves it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runlore import query
from runlore.cli.transcript import View, render
from runlore.config import Config
from runlore.export.outline import outline
from runlore.model import SessionEvent
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.timeline import (
    AgentCall,
    Pair,
    Subagent,
    ToolCall,
    has_prompt,
    match_ids,
    match_prompts,
    pairs,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(second: int | None) -> datetime | None:
    return None if second is None else NOON + timedelta(seconds=second)


def tool_call(seq: int, call_id: str | None = None, **refs: tuple[str, ...]) -> ToolCall:
    def event(seq: int, kind: str) -> SessionEvent:
        return SessionEvent(
            session_uid="toy:s", seq=seq, kind=kind, call_id=call_id, refs=refs.get(kind, ())
        )

    others = (event(seq + 2, "lifecycle"),) if "lifecycle" in refs else ()
    return ToolCall(
        call=event(seq, "tool_call"), result=event(seq + 1, "tool_result"), others=others
    )


def started(call: int, ended: int | None = None, *, seq: int, text: str) -> AgentCall:
    return AgentCall(seq=seq, begun=at(call), ended=at(ended), text=text)


def subagent(uid: str, prompt: str, began: int | None = None) -> Subagent:
    return Subagent(uid=uid, began=at(began), prompt=prompt)


def test_the_recorded_call_decides_whatever_else_names_the_subagent() -> None:
    calls = [tool_call(0, "a", tool_result=("one",)), tool_call(10, "b")]
    assert match_ids(calls, {"one": "b"}) == ([Pair(10, "one", "id")], {})


@pytest.mark.parametrize("kind", ["tool_call", "tool_result", "lifecycle"])
def test_the_first_call_that_names_a_subagent_started_it(kind: str) -> None:
    calls = [
        tool_call(0, "a"),
        tool_call(10, "b", **{kind: ("one",)}),
        tool_call(20, "c", **{kind: ("one", "two", "a stranger")}),
    ]
    pairs = [Pair(10, "one", "id"), Pair(20, "two", "id")]
    assert match_ids(calls, {"one": None, "two": None}) == (pairs, {})


def test_a_recorded_call_that_is_not_here_leaves_no_other() -> None:
    assert match_ids([tool_call(0, "a", tool_result=("one",))], {"one": "elsewhere"}) == ([], {})


def test_a_subagent_of_a_run_belongs_to_the_call_that_started_the_run() -> None:
    calls = [tool_call(0, "a"), tool_call(10, "b", tool_result=("toy:s/run",))]
    recorded = {"toy:s/run": None, "toy:s/one": "toy:s/run", "toy:s/two": "toy:s/other-run"}
    pairs = [Pair(10, "toy:s/run", "id"), Pair(10, "toy:s/one", "id")]
    assert match_ids(calls, recorded) == (pairs, {})


def test_of_calls_with_the_same_id_the_prompt_decides() -> None:
    calls = [tool_call(0, "a"), tool_call(10, "a"), tool_call(20, "b")]
    pairs, left = match_ids(calls, {"one": "a", "two": None})
    assert (pairs, left) == ([], {"one": frozenset({0, 10}), "two": None})


def test_a_prompt_decides_and_not_the_order() -> None:
    calls = [
        started(0, 60, seq=0, text="description: First\nprompt: Look at the  first\nthing."),
        started(1, 60, seq=2, text='tasks: [{"task": "Look at the\\nsecond \\"thing\\"."}]'),
    ]
    subagents = [
        subagent("two", 'Look at the second "thing".', 2),
        subagent("one", "Look at the first thing.", 3),
        subagent("other", "Look at the third thing.", 4),
        subagent("silent", "…", 4),
    ]
    assert match_prompts(calls, subagents) == [Pair(2, "two", "prompt"), Pair(0, "one", "prompt")]


def test_what_was_put_before_a_prompt_does_not_hide_it() -> None:
    call = started(0, seq=0, text="description: look\nprompt: Look at:\nbig: files\nkind: quick")
    given = subagent("one", "<git>\nBranch: main\n</git>\n\nLook at:\nbig: files")
    assert match_prompts([call], [given]) == [Pair(0, "one", "prompt")]
    assert match_prompts([call], [subagent("other", "Branch: look")]) == []
    assert match_prompts([call], [subagent("other", f"{given.prompt} again")]) == []


def test_one_call_may_start_several_subagents() -> None:
    call = started(0, seq=0, text='tasks: [{"task": "Add a basket"}, {"task": "Add a till"}]')
    subagents = [subagent("till", "Add a till"), subagent("basket", "Add a basket")]
    assert [pair.uid for pair in match_prompts([call], subagents)] == ["till", "basket"]


def test_the_same_prompt_in_two_calls_proves_a_pair_only_with_the_time() -> None:
    calls = [
        started(0, 10, seq=0, text="prompt: Run the tests"),
        started(20, 30, seq=2, text="prompt: Run the tests"),
    ]
    assert match_prompts(calls, [subagent("one", "Run the tests", 25)]) == [
        Pair(2, "one", "prompt")
    ]
    for began in (5, None):
        both = [started(0, seq=n, text="prompt: Run the tests") for n in (0, 2)]
        assert match_prompts(both, [subagent("one", "Run the tests", began)]) == []


def test_two_subagents_with_the_prompt_of_one_call_are_not_both_its_own() -> None:
    call = started(0, 10, seq=0, text="prompt: Run the tests")
    both = [subagent("one", "Run the tests", 5), subagent("late", "Run the tests", 50)]
    assert match_prompts([call], both) == [Pair(0, "one", "prompt")]
    assert match_prompts([call], [*both, subagent("two", "Run the tests", 6)]) == []


def test_only_whole_words_are_a_prompt() -> None:
    assert has_prompt("prompt: Look at it", "Look at it")
    assert not has_prompt("prompt: Look at items", "Look at it")
    assert has_prompt("prompt: " + "word " * 5000, "word " * 5000)
    assert not has_prompt("prompt: other " + "word " * 10, "another " + "word " * 10)


# A whole session: calls side by side, whose subagents begin in another order.

SESSION = "0b5e0000-0000-4000-8000-000000000001"
TASKS = {"Basket": "Add a basket.", "Till": "Add a till.", "Door": "Paint the door."}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    folder = tmp_path / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    lines = [
        _record(0, "user", "Build a shop."),
        *(
            _record(n, "assistant", [_task(n, name, prompt)])
            for n, (name, prompt) in enumerate(TASKS.items(), 1)
        ),
        _record(10, "user", TASKS["Till"], isSidechain=True),
        _record(11, "user", TASKS["Basket"], isSidechain=True),
        _record(12, "user", "Nobody asked for this.", isSidechain=True),
        *(_record(20 + n, "user", [_result(n)]) for n in (1, 2, 3)),
    ]
    (folder / f"{SESSION}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    config = Config(home=tmp_path, store=str(tmp_path / "runlore.db"))
    with closing(open_store(config.store)) as opened:
        pipeline.sync(opened, config, agents=["claude"], roots=[str(tmp_path / "projects")])
        yield opened


def _record(n: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": kind, "uuid": f"{n:08x}-0000-4000-8000-000000000000", "parentUuid": None,
        "sessionId": SESSION, "timestamp": (NOON + timedelta(seconds=n)).isoformat(),
        "message": {"role": kind, "content": content}, **more,
    }  # fmt: skip


def _task(n: int, name: str, prompt: str) -> dict[str, Any]:
    given = {"description": name, "prompt": prompt}
    return {"type": "tool_use", "id": f"toolu_{n}", "name": "Task", "input": given}


def _result(n: int) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "done"}


def test_a_subagent_is_shown_with_the_call_that_has_its_prompt(store: Store) -> None:
    page = outline(store, f"claude:{SESSION}")
    titles = {uid: child.title for uid, child in page.children.items()}
    below = {
        block.event.summary: [titles[uid] for uid in block.below]
        for block in page.blocks
        if block.event.action == "agent"
    }
    assert below == {"Basket": [TASKS["Basket"]], "Till": [TASKS["Till"]], "Door": []}
    assert [child.title for child in page.apart] == ["Nobody asked for this."]


def test_every_face_shows_the_same_pairs(store: Store) -> None:
    uid = f"claude:{SESSION}"
    page, script = outline(store, uid, None), query.transcript(store, uid)
    assert script.started == {block.event.seq: block.below for block in page.blocks if block.below}
    assert len(script.started) == 2
    lines = list(render(script, View()))
    starts = [n for n, line in enumerate(lines) if "◦" in line]
    assert [("Basket" in lines[n - 1], TASKS["Basket"] in lines[n]) for n in starts] == [
        (True, True),
        (False, False),
    ]


def test_only_what_is_compared_is_read_of_subagents_and_calls(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = f"claude:{SESSION}"
    calls = pairs(store.sessions.events(uid))
    children = store.sessions.select(Filter(parent_uid=uid, parents_only=False))
    unpacked: list[int] = []
    segment = store.index.segment

    def counted(id: int, **options: Any) -> Any:
        unpacked.append(id)
        return segment(id, **options)

    def refuse(*args: Any) -> Any:
        raise AssertionError("more is read than is compared")

    monkeypatch.setattr(store.index, "segment", counted)
    monkeypatch.setattr(store.sessions, "outline", refuse)
    monkeypatch.setattr(store.sessions, "bodies", refuse)
    assert len(query.find_pairs(store, uid, calls, children)) == 2
    assert len(unpacked) == 1, "the calls are in one segment"
