"""What kind of session it was."""

from datetime import UTC, datetime, timedelta

from runlore.config import Quality as Limits
from runlore.digest.quality import quality
from runlore.model import SessionEvent
from tests.digest.sessions import UID

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def events_of(*kinds: str, gap_s: float = 60.0, is_sidechain: bool = False) -> list[SessionEvent]:
    """Events of these kinds, with a pause before each prompt."""
    events, now = [], START
    for seq, kind in enumerate(kinds):
        now += timedelta(seconds=gap_s if kind == "user_msg" else 5)
        role = {"user_msg": "user", "tool_result": "tool"}.get(kind, "assistant")
        events.append(
            SessionEvent(
                session_uid=UID, seq=seq, ts=now, kind=kind, role=role, is_sidechain=is_sidechain
            )
        )
    return events


LOOK = ("tool_call", "tool_result")


def test_several_prompts_with_work_are_real() -> None:
    assert quality(events_of("user_msg", *LOOK, "user_msg", *LOOK, "assistant_msg"), {}) == "real"


def test_one_prompt_with_much_work_is_real() -> None:
    assert quality(events_of("user_msg", *LOOK * 6), {}) == "real"


def test_a_question_and_an_answer_are_trivial() -> None:
    assert quality(events_of("user_msg", "assistant_msg"), {}) == "trivial"
    assert quality([], {}) == "trivial"


def test_one_prompt_with_a_few_calls_is_one_shot() -> None:
    assert quality(events_of("user_msg", *LOOK * 3), {}) == "one_shot"
    assert quality(events_of("user_msg", "edit"), {}) == "one_shot"


def test_limits_are_the_users() -> None:
    events = events_of("user_msg", *LOOK * 3)
    assert quality(events, {}, limits=Limits(trivial_calls=4)) == "trivial"
    assert quality(events, {}, limits=Limits(one_shot_calls=2)) == "real"


def test_a_subagent_is_one_whatever_it_did() -> None:
    events = events_of("user_msg", *LOOK * 9)
    assert quality(events, {}, relation="subagent") == "subagent"
    assert quality(events_of("user_msg", *LOOK, is_sidechain=True), {}) == "subagent"


def test_prompts_that_come_faster_than_anyone_types_are_a_programs() -> None:
    turns = ("user_msg", *LOOK, "assistant_msg") * 4
    assert quality(events_of(*turns, gap_s=0.3), {}) == "automated"
    assert quality(events_of(*turns, gap_s=30), {}) == "real"
    assert quality(events_of(*turns, gap_s=0.3), {}, limits=Limits(pace_s=0.1)) == "real"


def test_a_page_of_rules_for_a_role_is_a_programs() -> None:
    events = events_of("user_msg", *LOOK * 9)
    assert quality(events, {0: "You are a reviewer. " + "Follow this rule. " * 40}) == "automated"
    assert quality(events, {0: "You are a genius, now fix the parser"}) == "real"


def test_the_users_own_programs_are_known_by_their_prompts() -> None:
    events = events_of("user_msg", *LOOK * 9)
    limits = Limits(automated=["Summarize this log*"])
    assert quality(events, {0: "Summarize this log: a"}, limits=limits) == "automated"
    assert quality(events, {0: "Why does it say: Summarize this log"}, limits=limits) == "real"


def test_what_was_copied_from_another_session_does_not_count() -> None:
    copies = [
        SessionEvent(session_uid=UID, seq=n, kind="tool_call", origin=f"toy:0#{n}")
        for n in range(20)
    ]
    assert quality(copies, {}) == "trivial"
