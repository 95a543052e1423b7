"""Decisions with their content, and what is no decision."""

from __future__ import annotations

from typing import Any

import pytest

from tests.digest.test_session import Timeline

PLAN = "# Cache the index\n\n## Context\n\nReading it is slow.\n\n## Steps\n\n1. Measure"


def decided(call: str, body: str, **fields: Any) -> list[str]:
    line = Timeline().say("plan it").add("tool_call", call, action="plan", call_id="1", tool="Ask")
    given = {"action": "plan", "call_id": "1", "tool": "Ask", "role": "user", **fields}
    return [moment.text for moment in line.add("decision", body, **given).digest.decisions]


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (f"plan: {PLAN}", "User has approved your plan. You can now start coding."),
        ("plan: …", f"User has approved your plan.\n\n## Approved Plan:\n{PLAN}"),
        (PLAN, "Plan approved"),
    ],
)
def test_an_approved_plan_has_its_headline_and_first_lines(call: str, body: str) -> None:
    [text] = decided(call, body)
    assert text == "plan approved: Cache the index. Reading it is slow. Steps"


@pytest.mark.parametrize(
    ("call", "body", "text"),
    [
        (
            "questions: […]",
            'User has answered your questions: "Which port?"="8080", "Which host?"="local".',
            "Which port? → 8080; Which host? → local",
        ),
        (
            'questions: [{"question":"Which \\"port\\"?","options":[]}]',
            '{"answers":{"q":{"answers":["8080"]}}}',
            'Which "port"? → 8080',
        ),
        ("question: Which port?", "User selected: 8080", "Which port? → 8080"),
        ("", "8080", "8080"),
    ],
)
def test_an_answer_stands_after_its_question(call: str, body: str, text: str) -> None:
    assert decided(call, body) == [text]


def test_a_decision_of_a_run_is_told_in_its_own_words() -> None:
    body = '{"id":"d1","intent":"Which source","chosen_option_id":"o1","reasoning":"fast"}'
    line = Timeline().say("go").add("decision", body, summary="Which source")
    assert [moment.text for moment in line.digest.decisions] == ["Which source, fast"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("", {"summary": "approved: Running: pytest", "tool": "Bash", "call_id": "7"}),
        ("", {"summary": "approve_for_session", "role": "user"}),
        ("model: big", {"summary": "model small → big", "role": "user"}),
        ("Run it? (Y)es/(N)o [Yes]: y", {"role": "user"}),
        ("[completed] Read it\n[pending] Test it", {"action": "plan", "role": "assistant"}),
        ("- [x] Read it\n- [ ] Test it", {"action": "plan", "role": "assistant"}),
    ],
)
def test_a_permission_a_setting_and_a_list_of_steps_are_no_decisions(
    body: str, fields: dict[str, Any]
) -> None:
    assert Timeline().say("go").add("decision", body, **fields).digest.decisions == ()


OPTIONS = "We can:\n\n**A) One file** - simple\n**B) A folder** - it grows\n\nWhich one?"


@pytest.mark.parametrize(
    ("reply", "answer", "text"),
    [
        ("The lock is held too long, so two runs wait. Shall I fix it?", "yes",
         "approved: The lock is held too long, so two runs wait. Shall I fix it?"),
        ("Should I move the parser into a module of its own, with its tests?", "Go ahead!",
         "approved: Should I move the parser into a module of its own, with its tests?"),
        ("Should I move the parser into a module of its own, with its tests?", "no thanks",
         "declined: Should I move the parser into a module of its own, with its tests?"),
        (OPTIONS, "b", "chose b: A folder - it grows"),
        (OPTIONS, "let's do A then", "chose A: One file - simple"),
        ("Shall I drop the old table and all of its backups as well?", "thanks", None),
        ("Shall I drop the old table and all of its backups as well?", "Great!", None),
        (OPTIONS, "c", None),
        (OPTIONS, "yes", None),
        ("I moved the parser.", "ok", None),
        ("Shall I fix it?", "yes, and then write a test for the case of an empty file", None),
    ],
)  # fmt: skip
def test_a_short_answer_is_kept_with_what_it_answers(
    reply: str, answer: str, text: str | None
) -> None:
    line = Timeline().say("look at it").reply(reply).say(answer)
    assert [moment.text for moment in line.digest.decisions] == ([text] if text else [])
    assert [moment.seq for moment in line.digest.decisions] == ([2] if text else [])
