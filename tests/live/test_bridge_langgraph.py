"""LangGraph's own suite for checkpoint savers, and graphs that go on in another process."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runlore.live import SessionStore
from tests.live.frameworks import load

bridge, conformance, graphs, checkpoints, types = load(
    "runlore.live.bridges.langgraph",
    "langgraph.checkpoint.conformance",
    "langgraph.graph",
    "langgraph.checkpoint.base",
    "langgraph.types",
    extra="langgraph",
)
pytestmark = pytest.mark.filterwarnings("default")
BASE = {"put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5}
EXTENDED = {"delete_for_runs": 7, "copy_thread": 8, "prune": 8}
HERE = {"configurable": {"thread_id": "user:42/chat"}}


def test_it_passes_the_conformance_suite(address: str) -> None:
    async def make() -> AsyncIterator[Any]:
        with bridge.RunloreSaver(address) as saver:
            for thread in saver._sessions.ids():  # Each part of the suite begins with nothing.
                saver.delete_thread(thread)
            yield saver

    saver = conformance.checkpointer_test(name="runlore")(make)
    report = asyncio.run(conformance.validate(saver))
    failures = [failure for result in report.results.values() for failure in result.failures or ()]
    assert failures == []
    passed = {name: result.tests_passed for name, result in report.results.items()}
    assert all(passed[name] >= count for name, count in (BASE | EXTENDED).items())


class State(TypedDict):
    turns: Annotated[list[dict[str, Any]], operator.add]
    approved: bool


def build(saver: Any) -> Any:
    def ask(state: State) -> dict[str, Any]:
        return {"approved": types.interrupt("may I?")}

    def work(state: State) -> dict[str, Any]:
        return {"turns": [{"done": state["approved"]}]}

    builder = graphs.StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("work", work)
    builder.add_edge(graphs.START, "ask")
    builder.add_edge("ask", "work")
    builder.add_edge("work", graphs.END)
    return builder.compile(checkpointer=saver)


def test_an_interrupted_graph_is_resumed_by_another_saver(address: str) -> None:
    with bridge.RunloreSaver(address) as saver:
        state = build(saver).invoke({"turns": [{"asked": 1}], "approved": False}, HERE)
        assert [one.value for one in state["__interrupt__"]] == ["may I?"]
    with bridge.RunloreSaver(address) as saver:
        graph = build(saver)
        assert graph.get_state(HERE).next == ("ask",)
        state = graph.invoke(types.Command(resume=True), HERE)
        assert state["turns"] == [{"asked": 1}, {"done": True}]
        # Another branch, from the first checkpoint on.
        first = [*graph.get_state_history(HERE)][-2]
        graph.invoke(None, first.config)
        graph.invoke(types.Command(resume=False), HERE)
        assert graph.get_state(HERE).values["turns"] == [{"asked": 1}, {"done": False}]
        after = [one.values for one in graph.get_state_history(HERE) if not one.next]
        assert [one["turns"][-1] for one in after] == [{"done": False}, {"done": True}]


@pytest.mark.folder
def test_a_turn_stores_what_is_new_and_not_the_whole_conversation(address: str) -> None:
    def turn(state: State) -> dict[str, Any]:
        return {"turns": [{"role": "assistant", "content": "x" * 500}]}

    builder = graphs.StateGraph(State)
    builder.add_node("turn", turn)
    builder.add_edge(graphs.START, "turn")
    builder.add_edge("turn", graphs.END)
    with bridge.RunloreSaver(address) as saver:
        graph = builder.compile(checkpointer=saver)
        for number in range(100):
            question = {"role": "user", "content": f"{number} " + "y" * 500}
            state = graph.invoke({"turns": [question], "approved": True}, HERE)
        assert len(state["turns"]) == 200
    stored = sum(one.stat().st_size for one in Path(address).rglob("log.jsonl"))
    assert stored < 100 * 12_000
    with bridge.RunloreSaver(address) as saver:
        assert saver.get_tuple(HERE).checkpoint["channel_values"]["turns"] == state["turns"]


def test_large_values_and_branches_that_shorten_a_list_come_back(address: str) -> None:
    def put(saver: Any, parent: dict[str, Any], values: dict[str, Any], version: int) -> Any:
        checkpoint = checkpoints.empty_checkpoint() | {
            "channel_values": values,
            "channel_versions": dict.fromkeys(values, version),
        }
        config = {"configurable": {"checkpoint_ns": "", **parent["configurable"]}}
        return saver.put(config, checkpoint, {}, dict.fromkeys(values, version))

    with bridge.RunloreSaver(address) as saver:
        long = [{"n": number, "text": "z" * 40_000} for number in range(4)]
        one = put(saver, HERE, {"list": long, "blob": b"\0" * 300_000}, 1)
        # The same version number stands for two values, on two branches.
        two = put(saver, one, {"list": [*long[:1], {"n": 9}]}, 2)
        three = put(saver, one, {"list": [*long, {"n": 5}]}, 2)
    with bridge.RunloreSaver(address) as saver:
        values = [
            saver.get_tuple(config).checkpoint["channel_values"] for config in (one, two, three)
        ]
        assert values[0] == {"list": long, "blob": b"\0" * 300_000}
        assert values[1] == {"list": [*long[:1], {"n": 9}]}
        assert values[2] == {"list": [*long, {"n": 5}]}


def test_a_deleted_thread_leaves_nothing(address: str) -> None:
    with bridge.RunloreSaver(address) as saver:
        build(saver).invoke({"turns": [], "approved": False}, HERE)
        saver.delete_thread("user:42/chat")
        assert saver.get_tuple(HERE) is None
    store = SessionStore(address)
    assert (store.list(), store.trash()) == ([], [])
    store.close()


def test_a_listing_goes_on_when_a_thread_is_deleted_meanwhile(address: str) -> None:
    with bridge.RunloreSaver(address) as saver, bridge.RunloreSaver(address) as other:
        for thread in "abc":
            config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
            for _ in range(2):
                config = saver.put(config, checkpoints.empty_checkpoint(), {}, {})
        listed = saver.list(None)
        first = next(listed).config["configurable"]["thread_id"]
        other.delete_thread(first)
        rest = [one.config["configurable"]["thread_id"] for one in listed]
        assert sorted(rest) == sorted([*({"a", "b", "c"} - {first})] * 2)


def test_a_checkpoint_is_whole_when_its_parent_is_dropped_meanwhile(address: str) -> None:
    values = {"list": [{"n": 1}, {"n": 2}], "name": "x"}

    def checkpoint() -> Any:
        return checkpoints.empty_checkpoint() | {"channel_values": values}

    class Late(bridge.RunloreSaver):  # type: ignore[misc, name-defined]
        """Another process drops the parent when this one has read the log."""

        runs = iter(["1"])

        def _thread(self, session: Any) -> Any:
            thread = super()._thread(session)
            for run in self.runs:
                other.delete_for_runs([run])
            return thread

    with bridge.RunloreSaver(address) as other, Late(address) as saver:
        config = {"configurable": {"checkpoint_ns": "", **HERE["configurable"]}}
        parent = other.put(config, checkpoint(), {"run_id": "1"}, dict.fromkeys(values, 1))
        child = saver.put(parent, checkpoint(), {}, {"list": 2})
        assert saver.get_tuple(child).checkpoint["channel_values"] == values
