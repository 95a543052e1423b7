"""A step store for Pydantic AI, compared call by call with the one in memory."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.live.frameworks import load

bridge, steps, messages = load(
    "runlore.live.bridges.pydantic_ai",
    "pydantic_ai_harness.step_persistence",
    "pydantic_ai.messages",
    extra="pydantic-ai",
)
pytestmark = pytest.mark.filterwarnings("default")
RUNS = {"r1": "c1", "r2": "c2", "r3": "c1"}


def turn(step: int) -> list[Any]:
    call = messages.ToolCallPart(tool_name="t", args={"x": 1}, tool_call_id=f"{step}")
    return [
        messages.ModelRequest(parts=[messages.UserPromptPart(content=f"{step}")]),
        messages.ModelResponse(parts=[messages.TextPart(content="a"), call]),
    ]


async def answers(store: Any, run: str) -> list[Any]:
    return [
        await store.get_run(run_id=run),
        await store.list_runs(),
        await store.list_runs(conversation_id="c1"),
        await store.list_runs(parent_run_id="r1"),
        await store.list_events(run_id=run),
        await store.latest_snapshot(run_id=run),
        await store.latest_snapshot(run_id=run, include_interrupted=True),
        await store.get_tool_effect(run_id=run, tool_call_id="2"),
        sorted(one.tool_call_id for one in await store.list_unresolved_tool_effects(run_id=run)),
    ]


def test_every_call_answers_as_the_store_in_memory(address: str) -> None:
    async def run() -> None:
        both = (bridge.RunloreStepStore(address), steps.InMemoryStepStore())
        assert isinstance(both[0], steps.StepStore)
        chance, histories = random.Random(4), {name: list[Any]() for name in RUNS}
        started = set()
        for step in range(200):
            name = chance.choice(sorted(RUNS))
            what = chance.choice(["run", "event", "snapshot", "snapshot", "effect", "read"])
            if what == "run" and name not in started:
                started.add(name)
                parent = "r1" if name == "r3" else None
                record: Any = steps.RunRecord(
                    run_id=name, conversation_id=RUNS[name], parent_run_id=parent
                )
            elif what == "event":
                key = chance.choice([None, f"k{step % 7}"])
                record = steps.StepEvent(
                    run_id=name, kind="run_started", step_index=step, idempotency_key=key
                )
            elif what == "snapshot":
                history = histories[name]
                if history and chance.random() < 0.2:
                    del history[chance.randrange(len(history)) :]
                history += turn(step)
                keys = [None, f"{step // 9}:a", f"{step // 8}:b", f"plain{step % 5}"]
                record = steps.ContinuableSnapshot(
                    run_id=name, step_index=step, messages=list(history),
                    state=chance.choice(["complete", "interrupted"]),
                    idempotency_key=chance.choice(keys),
                )  # fmt: skip
            elif what == "effect":
                record = steps.ToolEffectRecord(
                    tool_call_id=f"{step % 5}", tool_name="t", run_id=name,
                    status=chance.choice(["started", "completed", "failed"]),
                )  # fmt: skip
            else:
                assert await answers(both[0], name) == await answers(both[1], name)
                continue
            method = {
                "run": "register_run", "event": "append_event", "snapshot": "save_snapshot",
                "effect": "record_tool_effect",
            }.get(what)  # fmt: skip
            for store in both:
                await getattr(store, str(method))(record)
        await both[0].close()

    asyncio.run(run())


@pytest.mark.folder
def test_a_snapshot_stores_the_messages_that_are_new(address: str) -> None:
    async def run() -> None:
        store, history = bridge.RunloreStepStore(address), list[Any]()
        for step in range(60):
            history += turn(step)
            await store.save_snapshot(
                steps.ContinuableSnapshot(run_id="r", step_index=step, messages=list(history))
            )
        await store.close()
        size = sum(one.stat().st_size for one in Path(address).rglob("log.jsonl"))
        assert size < 60 * 3_000
        again = await bridge.RunloreStepStore(address).latest_snapshot(run_id="r")
        assert again.messages == history

    asyncio.run(run())


def test_snapshots_of_two_processes_are_not_mixed(address: str) -> None:
    other = bridge.RunloreStepStore(address)
    turns = {number: turn(number) for number in (1, 2, 3, 8)}

    def snapshot(*numbers: int) -> Any:
        history = [message for number in numbers for message in turns[number]]
        return steps.ContinuableSnapshot(run_id="r", step_index=0, messages=history)

    class Late(bridge.RunloreStepStore):  # type: ignore[misc, name-defined]
        """The other one saves a snapshot when this one has read the log."""

        waiting = iter([snapshot(8)])

        def _run(self, live: Any) -> Any:
            run = super()._run(live)
            for one in self.waiting:
                asyncio.run(other.save_snapshot(one))
            return run

    async def run() -> None:
        await other.save_snapshot(snapshot(1, 2))
        late = Late(address)
        await late.save_snapshot(snapshot(1, 2, 3))
        for store in (late, other):
            latest = await store.latest_snapshot(run_id="r")
            assert latest.messages == snapshot(1, 2, 3).messages
            await store.close()

    asyncio.run(run())
