"""What led nowhere, by events; and the calls that it is charged to."""

from __future__ import annotations

from typing import Any

import pytest

from runlore.digest import dead_ends as module
from runlore.digest.dead_ends import dead_ends, join_dead_ends
from runlore.model import SessionEvent
from runlore.store.dead_ends import charge
from runlore.store.filters import ABANDONED, FAILED, RETRIED, UNPLACED


def event(seq: int, kind: str, **fields: Any) -> SessionEvent:
    return SessionEvent(session_uid="toy:s1", seq=seq, kind=kind, **fields)


def tried(seq: int, call: str, words: str = "make") -> SessionEvent:
    return event(seq, "tool_call", call_id=call, tool="sh", summary=words)


def failed(seq: int, call: str) -> SessionEvent:
    return event(seq, "tool_result", call_id=call, is_error=True)


ATTEMPTS = [
    event(0, "user_msg"),
    event(1, "thinking"),
    tried(2, "a"),
    tried(3, "b", "ls"),
    failed(4, "a"),
    event(5, "tool_result", call_id="b"),
    tried(6, "c"),
    event(7, "tool_result", call_id="c"),
]


def test_an_attempt_is_told_with_the_blocks_that_the_model_made_with_it() -> None:
    assert dead_ends(ATTEMPTS, retries=1) == {"failed": (2, 1, 3), "retries": (6, 6, 6)}
    assert dead_ends(reversed(ATTEMPTS), retries=1) == dead_ends(ATTEMPTS, retries=1)
    assert dead_ends(ATTEMPTS, retries=0) == {"failed": (2, 1, 3)}
    assert dead_ends(ATTEMPTS[:4], retries=0) == {}


def test_blocks_of_another_source_are_no_part_of_an_answer() -> None:
    far = [
        event(0, "assistant_msg"),
        tried(5000, "a"),
        event(5001, "assistant_msg"),
        failed(5002, "a"),
    ]
    assert dead_ends(far, retries=0) == {"failed": (5000, 5000, 5001)}


def test_a_line_that_was_left_is_told_by_its_stretches() -> None:
    events = [
        event(0, "user_msg"),
        event(1, "assistant_msg", parent_seq=0),
        event(2, "user_msg", parent_seq=1),
        event(3, "assistant_msg", parent_seq=2),
        event(4, "user_msg", parent_seq=1),
        event(5, "assistant_msg", parent_seq=3),  # written late
        event(6, "assistant_msg", parent_seq=4),
    ]
    assert dead_ends(events, retries=0) == {"abandoned": (2, 2, 3, 5, 5, 5)}


def test_no_session_has_more_dead_ends_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PER_KIND", 2)
    many = [
        one for n in range(0, 50, 2) for one in (tried(n, f"c{n}", f"{n}"), failed(n + 1, f"c{n}"))
    ]
    assert dead_ends(many, retries=0) == {"failed": (0, 0, 0, 2, 2, 2)}
    assert join_dead_ends(
        {"failed": (0, 0, 0)}, {"failed": (2, 2, 2, 4, 4, 4), "retries": (4, 4, 4)}
    ) == {
        "failed": (0, 0, 0, 2, 2, 2),
        "retries": (4, 4, 4),
    }


CHARGED = {
    "with the block before it": ([1, 3, 9], {3: FAILED}),
    "with the first block": ([2, 9], {2: FAILED}),
    "with the last block": ([1, 8, 9], {8: FAILED}),
    "with none of the blocks": ([0, 1, 9], {1: FAILED}),
    "nowhere before": ([9, 20], {}),
    "nowhere at all": ([-1, -1], {-1: UNPLACED}),
}


@pytest.mark.parametrize("where", CHARGED)
def test_an_attempt_is_charged_to_the_call_that_is_told(where: str) -> None:
    """The attempt is event 5, and the model made 2 to 8 in one go."""
    told, expected = CHARGED[where]
    assert charge({"failed": (5, 2, 8)}, told) == expected


def test_a_call_may_be_marked_for_several_reasons() -> None:
    dead = {"failed": (5, 5, 5), "retries": (5, 5, 5), "abandoned": (4, 4, 6, 8, 8, 9)}
    assert charge(dead, [3, 4, 5, 6, 7, 9, 10]) == {
        4: ABANDONED, 5: ABANDONED | RETRIED | FAILED, 6: ABANDONED, 9: ABANDONED
    }  # fmt: skip


def test_where_nothing_led_nowhere_no_call_is_marked() -> None:
    assert charge({}, [-1, 0, 1]) == charge({"failed": ()}, [-1, 0]) == {}
