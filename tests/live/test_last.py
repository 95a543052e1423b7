"""The last messages are the end of all messages, and are read without the rest."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runlore.live import LiveSession, SessionStore

CALLS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.just(("user",)),
        st.just(("reply",)),
        st.tuples(st.just("call"), st.lists(CALLS, min_size=1, max_size=2)),
        st.tuples(st.just("result"), st.lists(CALLS, min_size=1, max_size=2)),
        st.tuples(st.just("tool"), CALLS),
        st.tuples(st.just("finished"), CALLS),
        st.just(("partial",)),
        st.tuples(st.just("rewind"), st.integers(0, 30)),
        st.just(("compact",)),
        st.just(("clear",)),
    ),
    max_size=30,
)


def do(session: LiveSession, step: tuple[Any, ...], n: int) -> None:
    kind = step[0]
    blocks: list[dict[str, Any]]
    if kind == "user":
        session.append({"role": "user", "content": f"{n}"})
    elif kind == "reply":
        session.append({"role": "assistant", "content": f"{n}"})
    elif kind == "call":
        blocks = [{"type": "tool_use", "id": id, "name": "t", "input": {}} for id in step[1]]
        session.append({"role": "assistant", "content": blocks})
    elif kind == "result":
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": f"{n}"} for id in step[1]]
        session.append({"role": "user", "content": blocks})
    elif kind == "tool":
        session.append({"role": "tool", "tool_call_id": step[1], "content": f"{n}"})
    elif kind == "finished":
        session.tool_finished(step[1], f"done {n}")
    elif kind == "partial":
        session.append({"role": "assistant", "content": f"{n}"}, partial=True)
    elif kind == "rewind":
        session.rewind(to=min(step[1], session.last_seq))
    elif kind == "compact" and any(entry.record for entry in session.conversation().entries):
        session.compact(f"summary {n}")
    elif kind == "clear":
        session.clear()


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([True, False]))
def test_the_last_messages_are_the_end_of_all(steps: list[tuple[Any, ...]], repaired: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, SessionStore(folder).create() as session:
        for n, step in enumerate(steps):
            do(session, step, n)
        whole = session.messages(repaired=repaired)
        for count in range(len(whole) + 2):
            expected = whole[max(0, len(whole) - count) :]
            assert session.messages(last=count, repaired=repaired) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_a_long_conversation_is_read_from_its_end(tmp_path: Path, count: int) -> None:
    session = SessionStore(tmp_path).create()
    for n in range(300):
        do(session, ("call", [f"c{n}"]), n)
        do(session, ("result", [f"c{n}"]), n)
    whole = session.messages()
    reads = 0
    collect = session.backend_log.collect

    def counted(low: int, high: int, types: frozenset[str]) -> Any:
        nonlocal reads
        reads += high - low + 1
        return collect(low, high, types)

    session.backend_log.collect = counted  # type: ignore[method-assign]
    assert session.messages(last=count) == whole[-count:]
    assert reads <= 4 * (count + 16)
