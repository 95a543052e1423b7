"""Views of events: nothing is dropped, nothing raises, and what a view says can be read off a small
example."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.model import Cost, Relation, Session, SessionEvent, Usage
from runlore.text.task_ref import task_ref
from runlore.timeline import (
    Node,
    Tally,
    ToolCall,
    abandoned,
    active,
    branches,
    cost_of,
    is_prompt,
    merge,
    model_context,
    nest,
    pairs,
    retries,
    turns,
    walk,
    wall_clock_s,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(seq: int, kind: str, parent: int | None = None, **fields: Any) -> SessionEvent:
    return SessionEvent(
        session_uid="pi:s1",
        seq=seq,
        kind=kind,
        parent_seq=parent,
        **{"native_id": f"n{seq}", **fields},
    )


def chain(*kinds: str | dict[str, Any]) -> list[SessionEvent]:
    """Events that follow each other. A dict gives more than the kind; its `parent` breaks the
    chain."""
    made: list[SessionEvent] = []
    for seq, given_ in enumerate(kinds):
        fields: dict[str, Any] = dict(given_) if isinstance(given_, dict) else {"kind": given_}
        parent = fields.pop("parent", seq - 1 if seq else None)
        made.append(event(seq, fields.pop("kind"), parent, **fields))
    return made


def call(id_: str | None, summary: str | None = "ls", **fields: Any) -> dict[str, Any]:
    return {"kind": "tool_call", "call_id": id_, "tool": "sh", "summary": summary, **fields}


def result(id_: str | None, **fields: Any) -> dict[str, Any]:
    return {"kind": "tool_result", "call_id": id_, **fields}


def failure(id_: str | None, **fields: Any) -> dict[str, Any]:
    return result(id_, is_error=True, **fields)


def prompt(parent: int | None) -> dict[str, Any]:
    return {"kind": "user_msg", "parent": parent}


def seqs(events: Iterable[SessionEvent]) -> list[int]:
    return [event.seq for event in events]


# --- branches ---


def test_a_straight_session_is_one_active_line():
    (line,) = branches(chain("user_msg", "assistant_msg", "user_msg"))
    assert (line.seqs, line.leaf, line.is_active, line.forked_at) == ((0, 1, 2), 2, True, None)


def test_no_events_have_no_branches():
    assert branches([]) == []
    assert active([]) == []
    assert abandoned([]) == []


def test_rewind_keeps_what_came_after_in_the_record():
    events = chain(
        "user_msg", "assistant_msg", "user_msg", "assistant_msg", prompt(1), "assistant_msg"
    )
    went_on, left = branches(events)
    assert (went_on.seqs, went_on.is_active, went_on.forked_at) == ((0, 1, 4, 5), True, None)
    assert (left.seqs, left.is_active, left.forked_at, left.leaf) == ((2, 3), False, 1, 3)
    assert seqs(active(events)) == [0, 1, 4, 5]
    assert [seqs(line) for line in abandoned(events)] == [[2, 3]]


def test_the_line_with_the_latest_event_is_active_even_when_it_began_first():
    events = chain("user_msg", prompt(0), prompt(0), {"kind": "assistant_msg", "parent": 1})
    assert seqs(active(events)) == [0, 1, 3]
    assert [seqs(line) for line in abandoned(events)] == [[2]]


def test_a_prompt_taken_back_twice_leaves_two_lines():
    events = chain("assistant_msg", prompt(0), prompt(0), prompt(0))
    assert seqs(active(events)) == [0, 3]
    assert [seqs(line) for line in abandoned(events)] == [[1], [2]]


def test_a_rewind_within_an_abandoned_line_gives_a_line_of_its_own():
    events = chain("assistant_msg", prompt(0), "assistant_msg", prompt(2), prompt(2), prompt(0))
    assert seqs(active(events)) == [0, 5]
    inner = [(line.forked_at, line.seqs) for line in branches(events)[1:]]
    assert inner == [(0, (1, 2, 4)), (2, (3,))]


def test_parallel_calls_are_no_rewind():
    events = chain(
        "user_msg",
        call("a"),
        call("b"),
        result("a", parent=1),
        result("b", parent=2),
        {"kind": "assistant_msg", "parent": 4},
    )
    assert len(branches(events)) == 1


def test_a_command_counts_as_a_prompt_and_an_interrupt_does_not():
    command = {"kind": "human_intervention", "summary": "/compact", "parent": 0}
    interrupt = {"kind": "human_intervention", "summary": "interrupted", "parent": 0}
    assert len(branches(chain("assistant_msg", command, prompt(0)))) == 2
    assert len(branches(chain("assistant_msg", interrupt, prompt(0)))) == 1
    assert not is_prompt(
        event(0, "human_intervention", call_id="a", summary="/etc may not be read")
    )


def test_commands_that_hang_on_a_note_of_the_agent_hide_nothing():
    events = chain(
        "lifecycle",
        "user_msg",
        "assistant_msg",
        {"kind": "user_msg", "summary": "!make", "parent": 0},
    )
    assert len(branches(events)) == 1
    assert len(branches(chain("lifecycle", prompt(0), prompt(0)))) == 2


def test_the_prompt_of_an_inline_side_chain_is_no_alternative():
    side = {"kind": "user_msg", "is_sidechain": True, "parent": 0}
    assert len(branches(chain("tool_call", side, prompt(0)))) == 1


def test_roots_follow_each_other():
    resumed = chain("user_msg", "assistant_msg", prompt(None), "assistant_msg")
    orphan = [event(9, "assistant_msg", 7)]
    assert seqs(active(resumed + orphan)) == [0, 1, 2, 3, 9]
    # rewound to nothing: cannot be told from a resume
    assert seqs(active(chain(prompt(None), prompt(None)))) == [0, 1]


def test_order_of_the_list_does_not_matter():
    events = chain("user_msg", "assistant_msg", "user_msg", prompt(1), "assistant_msg")
    assert branches(events[::-1]) == branches(events)
    assert turns(events[::-1]) == turns(events)
    assert model_context(events[::-1], 4) == model_context(events, 4)


def test_abandoned_events_were_paid_for():
    spent = {"usage": Usage(input_tokens=10, output_tokens=1)}
    events = chain(
        "user_msg",
        {"kind": "assistant_msg", **spent},
        prompt(0),
        prompt(0),
        {"kind": "assistant_msg", **spent},
    )
    assert cost_of(events) == Cost(input_tokens=20, output_tokens=2, turns=3)


# --- what the model saw ---


def context_seqs(events: list[SessionEvent], at: int) -> list[int]:
    return [it.event.seq for it in model_context(events, at)]


def test_the_model_sees_messages_and_not_bookkeeping():
    events = chain(
        "lifecycle",
        "user_msg",
        "thinking",
        call("a"),
        {"kind": "human_intervention", "call_id": "a"},
        "retry",
        "error",
        {"kind": "edit", "call_id": "b"},
        result("b"),
        {"kind": "test_run", "call_id": "c"},
        "decision",
        "human_intervention",
        "assistant_msg",
        "completion",
        {"kind": "lifecycle", "view": "context"},
    )
    assert context_seqs(events, 14) == [1, 2, 3, 4, 7, 8, 9, 10, 12, 14]


def test_the_model_sees_nothing_of_what_comes_later():
    assert context_seqs(chain("user_msg", "assistant_msg", "user_msg"), 1) == [0, 1]
    assert context_seqs(chain("user_msg"), -1) == []


def test_the_model_sees_the_line_that_leads_there():
    events = chain(
        "user_msg", "assistant_msg", "user_msg", "assistant_msg", prompt(1), "assistant_msg"
    )
    assert context_seqs(events, 3) == [0, 1, 2, 3]
    assert context_seqs(events, 5) == [0, 1, 4, 5]


def test_going_back_to_an_abandoned_line_shows_it_again():
    events = chain("user_msg", prompt(0), prompt(0), {"kind": "assistant_msg", "parent": 1})
    assert context_seqs(events, 2) == [0, 2]
    assert context_seqs(events, 3) == [0, 1, 3]


def test_results_of_parallel_calls_are_seen():
    events = chain(
        "user_msg",
        call("a"),
        call("b"),
        result("a", parent=1),
        result("b", parent=2),
        "assistant_msg",
    )
    assert context_seqs(events, 5) == [0, 1, 2, 3, 4, 5]


COMPACT = {"kind": "lifecycle", "view": "compact"}
SUMMARY = {"kind": "lifecycle", "view": "summary"}


def test_after_compaction_the_model_sees_the_summary_in_place_of_what_was():
    events = chain("user_msg", "assistant_msg", COMPACT, SUMMARY, "user_msg")
    assert context_seqs(events, 4) == [3, 4]
    assert context_seqs(events, 1) == [0, 1]


def test_only_the_last_compaction_counts():
    events = chain("user_msg", COMPACT, SUMMARY, "user_msg", COMPACT, SUMMARY, "user_msg")
    assert context_seqs(events, 6) == [5, 6]


def test_a_compaction_may_start_a_chain_of_its_own():
    events = chain(
        "user_msg",
        "assistant_msg",
        {**COMPACT, "parent": None},
        SUMMARY,
        {"kind": "user_msg", "parent": 1},
    )
    assert context_seqs(events, 4) == [3, 4]


def test_a_compaction_on_an_abandoned_line_is_undone_with_it():
    events = chain("user_msg", "assistant_msg", "user_msg", COMPACT, SUMMARY, prompt(1))
    assert context_seqs(events, 4) == [4]
    assert context_seqs(events, 5) == [0, 1, 5]


def test_compaction_keeps_the_listed_events():
    events = chain(
        "user_msg", "assistant_msg", "user_msg", {**COMPACT, "refs": ("n1", "gone")}, SUMMARY
    )
    assert context_seqs(events, 4) == [1, 4]


def test_a_compaction_may_put_what_it_keeps_in_another_order():
    events = chain(
        "user_msg",
        "assistant_msg",
        "user_msg",
        {**COMPACT, "refs": ("n2", "n4", "n0")},
        {"kind": "lifecycle", "view": "context"},
        SUMMARY,
        "assistant_msg",
    )
    assert context_seqs(events, 6) == [2, 4, 0, 5, 6]
    assert context_seqs(events, 3) == [2, 0]


def test_compaction_keeps_a_segment_with_the_results_beside_it():
    events = chain(
        "user_msg",
        call("a"),  # the head
        call("b"),
        result("a", parent=1),
        result("b", parent=2),
        {"kind": "assistant_msg", "parent": 4},  # the tail
        {**COMPACT, "refs": ("n1", "..", "n5")},
        SUMMARY,
    )
    assert context_seqs(events, 7) == [1, 2, 3, 4, 5, 7]


def test_a_segment_that_does_not_hang_together_is_kept_as_far_as_it_does():
    broken = chain(
        "user_msg",
        "assistant_msg",
        prompt(None),
        "assistant_msg",
        {**COMPACT, "refs": ("n1", "..", "n3")},
    )
    assert context_seqs(broken, 4) == [1, 2, 3]
    headless = chain("user_msg", "assistant_msg", {**COMPACT, "refs": ("gone", "..", "n1")})
    assert context_seqs(headless, 2) == [1]


def test_the_id_of_a_record_names_all_its_blocks():
    blocks = [{"kind": "assistant_msg", "native_id": id_} for id_ in ("r", "r#1", "r#2")]
    listed = chain("user_msg", *blocks, {**COMPACT, "refs": ("r",)}, SUMMARY)
    assert context_seqs(listed, 5) == [1, 2, 3, 5]
    segment = chain(
        "user_msg", "user_msg", *blocks, {**COMPACT, "refs": ("n1", "..", "r")}, SUMMARY
    )
    assert context_seqs(segment, 6) == [1, 2, 3, 4, 6]
    exact = chain("user_msg", *blocks, {"kind": "error", "view": "retract", "refs": ("r#1",)})
    assert context_seqs(exact, 4) == [0, 1, 3]


def test_cleared_results_stay_as_empty_places():
    clear = {"kind": "lifecycle", "view": "clear", "refs": ("a",)}
    events = chain(call("a"), result("a"), call("b"), result("b"), clear, call("a"), result("a"))
    assert [(it.event.seq, it.is_cleared) for it in model_context(events, 6)] == [
        (0, False),
        (1, True),
        (2, False),
        (3, False),
        (5, False),
        (6, False),
    ]
    assert not any(it.is_cleared for it in model_context(events, 3))


def test_retracted_messages_are_out_from_then_on():
    retract = {"kind": "error", "view": "retract", "refs": ("n1", "n4")}
    events = chain("user_msg", "assistant_msg", retract, "assistant_msg", "assistant_msg")
    assert context_seqs(events, 1) == [0, 1]
    assert context_seqs(events, 4) == [0, 3, 4]


def test_what_was_retracted_does_not_come_back_by_compaction():
    retract = {"kind": "error", "view": "retract", "refs": ("n0",)}
    events = chain("user_msg", retract, {**COMPACT, "refs": ("n0",)}, SUMMARY)
    assert context_seqs(events, 3) == [3]


def test_side_chains_are_seen_only_from_within():
    side = {"kind": "assistant_msg", "is_sidechain": True}
    events = chain(
        "user_msg", {**side, "parent": None}, side, {"kind": "assistant_msg", "parent": 0}
    )
    assert context_seqs(events, 3) == [0, 3]
    assert context_seqs(events, 2) == [1, 2]


def test_events_of_another_session_are_not_seen():
    other = SessionEvent(session_uid="pi:s2", seq=1, kind="assistant_msg")
    assert context_seqs([*chain("user_msg"), other, event(2, "assistant_msg", 0)], 2) == [0, 2]


# --- calls and results ---


def ids(found: ToolCall) -> tuple[int | None, int | None, list[int]]:
    return (
        found.call.seq if found.call else None,
        found.result.seq if found.result else None,
        seqs(found.others),
    )


def test_a_call_is_paired_with_its_result_by_id():
    events = chain("user_msg", call("a"), call("b"), result("b"), failure("a"), "assistant_msg")
    first, second = pairs(events)
    assert (ids(first), first.failed, first.is_pending) == ((1, 4, []), True, False)
    assert (ids(second), second.failed, second.is_pending) == ((2, 3, []), False, False)


def test_edits_and_test_runs_are_paired_as_well():
    assert [
        ids(it)
        for it in pairs(
            chain(
                {"kind": "edit", "call_id": "a"},
                {"kind": "test_run", "call_id": "b"},
                result("a"),
                result("b"),
            )
        )
    ] == [
        (0, 2, []),
        (1, 3, []),
    ]


def test_a_call_without_a_result_is_pending():
    (pending,) = pairs(chain(call("a")))
    assert pending.is_pending
    assert not pending.failed
    assert pending.duration_ms is None


def test_a_result_without_a_call_stands_on_its_own():
    assert [ids(it) for it in pairs(chain(result("a"), result(None)))] == [
        (None, 0, []),
        (None, 1, []),
    ]


def test_a_result_written_just_before_its_call_belongs_to_it():
    assert [ids(it) for it in pairs(chain(result("a"), call("a")))] == [(1, 0, [])]
    assert [ids(it) for it in pairs(chain(result("a"), call("a"), result("a")))] == [(1, 0, [2])]
    far = chain(result("a"), *["lifecycle"] * 8, call("a"))
    assert [ids(it) for it in pairs(far)] == [(None, 0, []), (9, None, [])]


def test_of_two_results_the_first_counts():
    assert [ids(it) for it in pairs(chain(call("a"), result("a"), failure("a")))] == [(0, 1, [2])]


def test_a_call_told_twice_is_one_call():
    assert [ids(it) for it in pairs(chain(call("a"), call("a"), result("a")))] == [(0, 2, [1])]


def test_an_id_used_again_is_a_new_call():
    assert [ids(it) for it in pairs(chain(call("0"), result("0"), call("0"), result("0")))] == [
        (0, 1, []),
        (2, 3, []),
    ]


def test_a_refusal_is_the_result_when_there_is_no_other():
    refused = {"kind": "human_intervention", "call_id": "a", "is_error": True}
    (it,) = pairs(chain(call("a"), refused))
    assert (ids(it), it.failed) == ((0, 1, []), True)


def test_a_permission_is_not_taken_for_the_result():
    allowed = {"kind": "human_intervention", "call_id": "a"}
    progress = {"kind": "lifecycle", "call_id": "a"}
    assert [
        ids(it) for it in pairs(chain(progress, call("a"), allowed, progress, result("a")))
    ] == [(1, 4, [2, 3])]
    assert pairs(chain(call("a"), progress))[0].is_pending


def test_calls_without_ids_are_not_guessed_at():
    assert [ids(it) for it in pairs(chain(call(None), result(None)))] == [
        (0, None, []),
        (None, 1, []),
    ]


def test_duration_is_what_the_agent_says_or_else_the_time_between():
    later = NOON + timedelta(seconds=1.5)
    assert pairs(chain(call("a", ts=NOON), result("a", ts=later)))[0].duration_ms == 1500
    assert (
        pairs(chain(call("a", ts=NOON), result("a", ts=later, duration_ms=7)))[0].duration_ms == 7
    )
    assert pairs(chain(call("a", ts=later), result("a", ts=NOON)))[0].duration_ms is None
    assert pairs(chain(call("a"), result("a", ts=NOON)))[0].duration_ms is None


# --- turns ---


def test_a_turn_is_a_prompt_and_what_followed():
    events = chain(
        "lifecycle",
        "user_msg",
        "assistant_msg",
        {"kind": "human_intervention", "summary": "/clear"},
        "user_msg",
        "completion",
    )
    found = [
        (turn.prompt.seq if turn.prompt else None, seqs(turn.events)) for turn in turns(events)
    ]
    assert found == [(None, [0]), (1, [1, 2]), (3, [3]), (4, [4, 5])]
    assert turns([]) == []


# --- sessions under sessions ---


def session(
    name: str, parent: str | None = None, relation: Relation | None = "subagent"
) -> Session:
    return Session(
        session_uid=f"pi:{name}",
        flavor="pi",
        native_session_id=name,
        parent_uid=f"pi:{parent}" if parent else None,
        relation=relation if parent else None,
    )


def drawn(nodes: list[Node]) -> list[str]:
    return ["  " * depth + node.session.native_session_id for depth, node in walk(nodes)]


def test_subagents_stand_under_the_session_that_started_them():
    assert drawn(
        nest([session("c", "b"), session("a"), session("b", "a"), session("d", "a"), session("e")])
    ) == [
        "a",
        "  b",
        "    c",
        "  d",
        "e",
    ]


def test_forks_stand_beside_their_origin_and_name_it():
    nodes = nest(
        [
            session("a"),
            session("b", "a", "fork"),
            session("c", "b", "continuation"),
            session("d", "b"),
        ]
    )
    assert drawn(nodes) == ["a", "b", "  d", "c"]
    assert [node.follows for node in nodes] == [None, "pi:a", "pi:b"]
    assert nodes[1].children[0].follows is None


def test_a_missing_parent_makes_a_root():
    assert drawn(nest([session("b", "gone"), session("c", "b")])) == ["b", "  c"]


def test_circles_of_parents_lose_nobody():
    assert drawn(
        nest([session("a", "b"), session("b", "c"), session("c", "a"), session("d", "b")])
    ) == ["a", "  c", "    b", "      d"]
    assert drawn(nest([session("c", "b"), session("a", "b"), session("b", "b")])) == [
        "b",
        "  c",
        "  a",
    ]
    assert drawn(nest([session("a", "a")])) == ["a"]
    assert drawn(nest([session("a", "b", "fork"), session("b", "a", "fork")])) == ["a", "b"]


def test_a_session_given_twice_is_shown_twice():
    assert drawn(nest([session("a"), session("a"), session("b", "a")])) == ["a", "  b", "a"]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["subagent", "fork", "continuation"])),
        max_size=10,
    )
)
def test_nesting_loses_no_session(links):
    sessions = [
        session(str(n), str(parent), relation) for n, (parent, relation) in enumerate(links)
    ]
    shown = [node.session.session_uid for _, node in walk(nest(sessions))]
    assert sorted(shown) == sorted(it.session_uid for it in sessions)


def test_subagents_may_be_nested_very_deep():
    sessions = [session(str(n), str(n - 1) if n else None) for n in range(20_000)]
    assert max(depth for depth, _ in walk(nest(sessions))) == 19_999


# --- retries ---


def test_a_retry_that_the_agent_tells_of_counts():
    assert retries(chain("retry", "user_msg", "retry")) == 2


def test_a_failed_call_made_again_is_a_retry():
    assert retries(chain(call("a"), failure("a"), call("b"), result("b"))) == 1
    assert retries(chain(call("a"), failure("a"), call("b"), failure("b"), call("c"))) == 2


def test_a_call_made_again_without_need_is_none():
    assert retries(chain(call("a"), result("a"), call("b"))) == 0
    # it failed only after the second had begun
    assert retries(chain(call("a"), call("b"), failure("a"))) == 0


def test_another_call_after_a_failure_is_none():
    assert retries(chain(call("a"), failure("a"), call("b", "pwd"))) == 0
    assert retries(chain(call("a"), failure("a"), call("b", tool="fish"))) == 0
    assert retries(chain(call("a", files=("x",)), failure("a"), call("b", files=("y",)))) == 0


def test_a_retry_is_one_of_the_next_five_calls():
    between = [it for n in range(5) for it in (call(f"x{n}", f"other {n}"), result(f"x{n}"))]
    assert retries(chain(call("a"), failure("a"), *between[:8], call("b"))) == 1
    assert retries(chain(call("a"), failure("a"), *between, call("b"))) == 0


def test_calls_of_which_only_the_tool_is_known_are_not_compared():
    assert retries(chain(call("a", None), failure("a"), call("b", None))) == 0


def test_a_failure_without_an_id_is_that_of_the_last_call_without_one():
    assert retries(chain(call(None), failure(None), call(None))) == 1


def test_half_a_surrogate_pair_costs_nothing():
    assert retries(chain(call("a", "\ud800"), failure("a"), call("b", "\ud800"))) == 1


# --- time ---


def at(*minutes: float) -> list[datetime]:
    return [NOON + timedelta(minutes=m) for m in minutes]


def test_wall_clock_is_the_time_at_work():
    assert wall_clock_s(at(0, 1, 3)) == 180
    assert wall_clock_s([]) == 0
    assert wall_clock_s(at(5)) == 0
    assert wall_clock_s([None, *at(0), None, *at(1)]) == 60


def test_a_pause_is_not_work():
    assert wall_clock_s(at(0, 10)) == 600
    assert wall_clock_s(at(0, 10.01, 11.01)) == 60


def test_a_clock_that_goes_back_counts_nothing_twice():
    assert wall_clock_s(at(0, 5, 1, 6)) == 360
    assert wall_clock_s(at(5, 0)) == 0


@given(st.lists(st.integers(-2000, 2000)))
def test_wall_clock_is_at_most_the_span(seconds):
    times = [NOON + timedelta(seconds=s) for s in seconds]
    span = (max(times) - min(times)).total_seconds() if times else 0
    assert 0 <= wall_clock_s(times) <= span


# --- tallies ---


def test_a_tally_counts():
    events = chain(
        {"kind": "user_msg", "role": "user", "summary": "fix it", "ts": NOON},
        call(
            "a", usage=Usage(input_tokens=5, cache_read_tokens=100), ts=NOON + timedelta(seconds=10)
        ),
        failure("a", ts=NOON + timedelta(seconds=5)),
        {"kind": "error", "ts": NOON + timedelta(hours=1)},
        call("b", usage=Usage(output_tokens=7, cache_write_tokens=3, reasoning_tokens=2)),
        {
            "kind": "user_msg",
            "summary": "thanks",
            "role": "user",
            "ts": NOON - timedelta(seconds=1),
        },
    )
    tally = Tally().add(events)
    assert (tally.events, tally.errors, tally.turns, tally.retries) == (6, 2, 2, 1)
    assert tally.usage == Usage(
        input_tokens=5,
        output_tokens=7,
        cache_read_tokens=100,
        cache_write_tokens=3,
        reasoning_tokens=2,
    )
    assert (tally.wall_clock_s, tally.started_at, tally.ended_at) == (
        10,
        NOON - timedelta(seconds=1),
        NOON + timedelta(hours=1),
    )
    assert (tally.last_seq, tally.first_prompt) == (5, "fix it")
    assert tally.kinds == {"user_msg": 2, "tool_call": 2, "tool_result": 1, "error": 1}
    assert tally.cost == Cost(
        input_tokens=5,
        output_tokens=7,
        cache_read_tokens=100,
        cache_write_tokens=3,
        reasoning_tokens=2,
        wall_clock_s=10,
        turns=2,
        retries=1,
    )


def test_turns_are_those_of_people():
    by_agent = {"kind": "user_msg", "role": "user", "is_sidechain": True, "summary": "look around"}
    by_tool = {"kind": "user_msg", "role": "tool"}
    tally = Tally().add(chain(by_agent, by_tool, "user_msg"))
    assert (tally.turns, tally.first_prompt) == (1, "look around")


def test_a_copy_counts_where_it_happened():
    copied = {"origin": "pi:s0#0", "usage": Usage(input_tokens=5), "is_error": True, "ts": NOON}
    tally = Tally().add(
        chain(
            {"kind": "user_msg", "summary": "first", **copied},
            {"kind": "retry", **copied},
            "user_msg",
        )
    )
    assert (tally.events, tally.copies, tally.turns, tally.errors, tally.retries) == (3, 2, 1, 0, 0)
    assert (tally.usage, tally.started_at, tally.kinds) == (Usage(), None, {"user_msg": 1})
    assert (tally.last_seq, tally.first_prompt) == (2, "first")


def test_a_tally_keeps_no_words_but_the_first_prompt():
    """Redaction has to know every place that text is kept in."""
    tally = Tally().add(
        chain(call("a", "curl -H secret-4711", files=("secret-4711",)), failure("a"))
    )
    assert b"secret-4711" not in msgspec.msgpack.encode(tally)


def test_adding_does_not_change_what_was():
    before = Tally().add(chain("user_msg"))
    copy = msgspec.structs.replace(before, kinds=dict(before.kinds))
    before.add(chain("user_msg", call("a")))
    assert before == copy
    assert Tally() == Tally().add([])


def test_streams_of_a_session_are_merged():
    first = Tally().add(
        chain(
            {"kind": "user_msg", "summary": "a", "ts": NOON},
            {"kind": "error", "ts": NOON + timedelta(minutes=1)},
        )
    )
    second = Tally().add(
        [
            event(
                1 << 20,
                "user_msg",
                summary="b",
                ts=NOON + timedelta(hours=1),
                usage=Usage(input_tokens=3),
            )
        ]
    )
    total = merge([first, second])
    assert (total.events, total.errors, total.turns, total.last_seq, total.first_prompt) == (
        3,
        1,
        2,
        1 << 20,
        "a",
    )
    assert (total.started_at, total.ended_at, total.wall_clock_s) == (
        NOON,
        NOON + timedelta(hours=1),
        60,
    )
    assert total.kinds == {"user_msg": 2, "error": 1}
    assert total.usage == Usage(input_tokens=3)
    assert merge([]) == Tally()


def test_streams_written_at_the_same_time_share_their_minutes():
    tally = Tally().add(
        chain(
            {"kind": "user_msg", "ts": NOON}, {"kind": "error", "ts": NOON + timedelta(minutes=1)}
        )
    )
    assert merge([tally, tally]).wall_clock_s == 60


# --- any forest of events ---

KINDS = [
    "user_msg",
    "assistant_msg",
    "tool_call",
    "edit",
    "tool_result",
    "retry",
    "error",
    "human_intervention",
    "lifecycle",
]


@st.composite
def forests(draw: st.DrawFn) -> list[SessionEvent]:
    """Events with rewinds, orphans, several roots, unpaired and doubled ids, in any order."""
    made: list[SessionEvent] = []
    seq = -1
    for n in range(draw(st.integers(0, 15))):
        seq += draw(st.integers(1, 2))  # gaps: parents that are not there
        parent = (
            draw(st.none() | st.just(max(seq - 1, 0)) | st.integers(0, max(seq - 1, 0)))
            if seq
            else None
        )
        made.append(
            event(
                seq,
                draw(st.sampled_from(KINDS)),
                parent,
                native_id=f"n{n}" if draw(st.booleans()) else None,
                call_id=draw(st.sampled_from([None, "a", "b"])),
                summary=draw(st.sampled_from([None, "ls", "/x", "\n"])),
                is_error=draw(st.booleans()),
                is_sidechain=draw(st.integers(0, 9)) == 0,
                origin=draw(st.sampled_from([None, None, None, "pi:s0#1"])),
                ts=draw(
                    st.none() | st.integers(-3000, 3000).map(lambda s: NOON + timedelta(seconds=s))
                ),
                usage=draw(
                    st.none()
                    | st.builds(
                        Usage, input_tokens=st.integers(0, 9), reasoning_tokens=st.integers(0, 9)
                    )
                ),
                view=draw(
                    st.sampled_from(
                        [None, None, "context", "summary", "compact", "clear", "retract"]
                    )
                ),
                refs=tuple(
                    draw(
                        st.lists(
                            st.sampled_from(["n0", "n1", "n2", "n5", "..", "a", "gone"]), max_size=4
                        )
                    )
                ),
            )
        )
    return made


@given(forests(), st.randoms())
def test_every_event_is_in_exactly_one_branch(events, random):
    random.shuffle(events)
    lines = branches(events)
    assert sorted(seq for line in lines for seq in line.seqs) == sorted(seqs(events))
    assert [line.is_active for line in lines] == [True, *[False] * (len(lines) - 1)][: len(lines)]
    assert all(list(line.seqs) == sorted(line.seqs) for line in lines)
    assert all(
        line.is_active or (line.forked_at is not None and line.forked_at < line.seqs[0])
        for line in lines
    )
    assert sorted(
        seqs(active(events)) + [seq for line in abandoned(events) for seq in seqs(line)]
    ) == sorted(seqs(events))


@given(forests())
def test_the_last_event_is_on_the_active_line(events):
    assert not events or branches(events)[0].leaf == max(seqs(events))


@given(forests(), st.integers(-1, 60))
def test_what_the_model_saw_is_a_part_of_what_happened(events, at):
    found = context_seqs(events, at)
    assert set(found) <= {seq for seq in seqs(events) if seq <= at}
    assert len(found) == len(set(found))
    if not any(it.view == "compact" and it.refs for it in events):
        assert found == sorted(found)


@given(forests())
def test_every_call_and_result_is_in_exactly_one_pair(events):
    found = [
        it
        for pair in pairs(events)
        for it in (pair.call, pair.result, *pair.others)
        if it is not None
    ]
    assert len(set(seqs(found))) == len(found)
    assert set(seqs(found)) >= {it.seq for it in events if it.is_call or it.kind == "tool_result"}
    assert all(
        pair.call.call_id == pair.result.call_id
        for pair in pairs(events)
        if pair.call and pair.result
    )


@given(forests())
def test_every_event_is_in_exactly_one_turn(events):
    assert [seq for turn in turns(events) for seq in seqs(turn.events)] == seqs(events)


@given(forests(), st.lists(st.integers(0, 15), max_size=4))
def test_adding_in_pieces_equals_adding_at_once(events, cuts):
    at_once = Tally().add(events)
    tally = Tally()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(events)], strict=True):
        # as a sync leaves it for the next one
        stored = msgspec.msgpack.encode(tally.add(events[start:end]))
        tally = msgspec.msgpack.decode(stored, type=Tally)
    assert tally == at_once


@given(forests())
def test_a_tally_agrees_with_the_views(events):
    own = [it for it in events if it.origin is None]
    tally = Tally().add(events)
    assert tally.wall_clock_s == wall_clock_s(it.ts for it in own)
    assert sum(tally.kinds.values()) == len(own) == tally.events - tally.copies
    assert tally.cost == cost_of(events)
    assert tally.cost.input_tokens == sum(it.usage.input_tokens for it in own if it.usage)


def test_a_chain_of_100_000_events_is_as_good_as_one_of_ten():
    numbers = count()
    events = [
        event(
            n,
            kind,
            n - 1 if n else None,
            call_id=f"c{n - n % 4}" if kind.startswith("tool") else None,
        )
        for _ in range(25_000)
        for kind in ("user_msg", "tool_call", "tool_result", "assistant_msg")
        for n in [next(numbers)]
    ]
    compaction = event(100_000, "lifecycle", 99_999, view="compact", refs=("n0", "..", "n99999"))
    events.append(compaction)
    assert len(branches(events)) == 1
    assert len(model_context(events, 100_000)) == 100_000
    assert sum(not it.is_pending for it in pairs(events)) == 25_000
    assert len(turns(events)) == 25_000
    assert cost_of(events).turns == 25_000


def test_100_000_rewinds_to_the_same_place_are_as_many_lines():
    events = [event(0, "assistant_msg"), *(event(n, "user_msg", 0) for n in range(1, 100_000))]
    assert len(branches(events)) == 99_999
    assert seqs(active(events)) == [0, 99_999]


# --- the task ---


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ("fix/123-title", "#123"),
        ("123-title", "#123"),
        ("feature/42", "#42"),
        ("feat-117-new-login", "#117"),
        ("issue-45", "#45"),
        ("someone/issue-63-deferred-helper", "#63"),
        ("agent/issue-12-20250808_1234", "#12"),
        ("issues/2024", "#2024"),
        ("gh-7", "#7"),
        ("GH-7", "#7"),
        ("pull/15/merge", "#15"),
        ("chore/pr46-review-followups", "#46"),
        ("ABC-123", "ABC-123"),
        ("feature/ABC-123-new-login", "ABC-123"),
        ("alice/PROJ2-9_x", "PROJ2-9"),
        ("fix/123-2fa", "#123"),
    ],
)
def test_a_branch_names_its_task(branch, expected):
    assert task_ref(branch, "see #99") == expected


@pytest.mark.parametrize(
    "branch",
    [
        *(
            "main",
            "HEAD",
            "",
            "release-2024",
            "release/2024",
            "releases/12",
            "release/1.2",
            "v1.2",
            "v2",
            "1.x",
            "2.0.1",
        ),
        *(
            "2024-05-01",
            "2024-05-01-cleanup",
            "20240501-cleanup",
            "240501-cleanup",
            "05-01-cleanup",
            "backup/2024/05/01",
        ),
        *(
            "fix-404-page",
            "fix/500-on-login",
            "fix/3-way-merge",
            "2fa",
            "convert-sha256",
            "upgrade-python-3.12",
            "SHA-256-support",
        ),
        *(
            "dependabot/npm_and_yarn/lodash-4.17.21",
            "renovate/node-20",
            "worktree-agent-a4ca7529",
            "changelog-0-4-3",
            "debug-12",
            "UTF-8",
        ),
    ],
)
def test_a_branch_without_a_task_names_none(branch):
    assert task_ref(branch, None) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look at https://github.com/owner/repo.js/issues/12 please", "owner/repo.js#12"),
        ("https://github.com/owner/repo/pull/757/changes", "owner/repo#757"),
        ("https://git.example.org/owner/repo/pulls/3#issuecomment-99", "owner/repo#3"),
        ("https://gitlab.com/group/sub/repo/-/issues/5", "group/sub/repo#5"),
        ("https://gitlab.com/group/repo/-/merge_requests/8", "group/repo#8"),
        ("https://api.github.com/repos/owner/repo/issues/12", "owner/repo#12"),
        ("https://example.atlassian.net/browse/ABC-123", "ABC-123"),
        ("port owner/repo#12 to here", "owner/repo#12"),
        ("this fixes #7.", "#7"),
        ("Fix issue #20", "#20"),
        ("Review PR #36", "#36"),
        ("closes: #1290, then rest", "#1290"),
        ("fixes #123456", "#123456"),
        ("merge request !12", "#12"),
        ("work on issue 45", "#45"),
        ("(see #123)", "#123"),
        ("#123: the login fails", "#123"),
        ("#88 and again #88", "#88"),
        ("do ABC-12 next", "ABC-12"),
        ("in UTF-8 for CVE-2024-1234, as PROJ-7 says", "PROJ-7"),
    ],
)
def test_a_prompt_names_its_task(text, expected):
    assert task_ref(None, text) == expected
    assert task_ref("main", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "hello",
            "make it #fff",
            "use #123456 here",
            "#1a2b3c",
            "color: #123",
            "a background of #789",
            "set it to #333",
            '"#123"',
        ),
        *(
            "# 12 steps",
            "## 2024",
            "#1 priority",
            "step #12",
            "[Image #12] look",
            "Connection #22 to host",
            "the year #2024",
            "&#123;",
        ),
        *(
            "docs/readme.md#12",
            "page.html#12",
            "see /a/b#12",
            "#12, #13 and #14",
            "line #120",
            "item#12",
            "issue 2024",
            "PR 1",
        ),
        *(
            "UTF-8",
            "SHA-256",
            "ISO-8601",
            "BSD-2-Clause",
            "CVE-2017-1000117",
            "MPL-2.0",
            "GPT-4",
            "Q3-2024",
            "abc-123",
        ),
        *("```\nfixes #12\n```", "run `git show #123`", "fix 3 bugs", "#0", "#012", "issue #12.5"),
    ],
)
def test_a_prompt_without_a_task_names_none(text):
    assert task_ref(None, text) is None


def test_a_task_is_looked_for_where_a_prompt_begins():
    assert task_ref(None, "x" * 20_000 + " fixes #12") is None


@pytest.mark.parametrize(
    "piece",
    [
        "a/",
        "`",
        "```",
        "fix ",
        "A1",
        "#12 ",
        "https://a/",
        "https://a/b/c/d/",
        "-1",
        " ",
        "pull request ",
    ],
)
def test_a_hostile_prompt_takes_no_time(piece):
    started = datetime.now(UTC)
    task_ref(piece * 5_000, piece * 5_000)
    assert datetime.now(UTC) - started < timedelta(seconds=5)
