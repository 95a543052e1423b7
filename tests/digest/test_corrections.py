"""Corrections: what people said to reject or redirect what the agent did, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.digest.test_session import Timeline


def corrections(line: Timeline) -> list[str]:
    return [moment.text for moment in line.digest.corrections]


def after(reply: str, text: str) -> list[str]:
    """Return the corrections of a session in which this was said after the agent's reply."""
    line = Timeline().say("build the page").call("make", "ok", exit_code=0)
    return corrections(line.reply(reply).say(text))


@pytest.mark.parametrize(
    "text",
    [
        "no, use the other library",
        "Hmm, no. That breaks the old clients",
        "the redirect doesn't work :(",
        "Still doesn't work, maybe a step is missing?",
        "oh no, we lost the menu",
        "ok. uh. no. it runs on the wrong branch",
        "you forgot the tests",
        "why did you change the colour?",
        "don't commit the docs",
        "when I press enter the font changes. don't do that",
        "wait, did you touch my settings? I meant the other file",
        "I don't see the new button",
        "let's use podman instead of docker",
        "Actually, make it parse YAML instead",
        "I thought we would retry in that case?",
        '"probably fine" is not good enough',
        "nein, das ist falsch",
        "das funktioniert immer noch nicht",
        "non, ce n'est pas ce que j'ai demandé",
        "ça ne marche pas",
        "no, así no",
        "sigue sin funcionar",
        "não funciona",
        "non funziona ancora",
        "nee, dat werkt nog steeds niet",
        "нет, не то",
        "всё ещё не работает",
        "不对，应该用另一个函数",
        "还是报错",
        "違います、別のファイルです",
        "まだエラーが出ます",
        "아직도 안 돼요",
        "되돌려 주세요",
    ],
)
def test_a_message_that_rejects_the_work_is_a_correction(text: str) -> None:
    assert after("Done, it works now.", text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "now add a footer",
        "can you also add validation?",
        "yes, but keep it short",
        "looks good, commit it",
        "what does the cache do?",
        "would it be easier to use a queue instead of a file",
        "but it should be easy to add, right?",
        "Findings: 1. High: the parser is wrong about empty input",
        "PR feedback: the loop does not work for empty lists",
        "any idea why this happens?\nerror: no such host",
        "ja, mach das",
        "好的，继续",
        "はい、お願いします",
        "note that this is slow; add an index",
        "no worries",
    ],
)
def test_a_task_a_question_an_approval_and_a_review_are_no_corrections(text: str) -> None:
    assert after("Done, it works now.", text) == []


def test_a_no_to_a_question_is_an_answer() -> None:
    text = "No. Please check the upload"
    assert after("Would you like me to add an option?", text) == []
    assert after("I added an option.", text) == [text]
    assert after("要加吗？", "不用，提交吧") == []


PASTE = "$ ./run.sh\nbuilding\nnpm ERR! cannot find module 'left-pad'\nexit status 1"


def test_a_failure_that_is_pasted_after_the_agent_was_done_is_a_correction() -> None:
    assert len(after("Fixed! The build should now work.", PASTE)) == 1
    assert after("Please run it and paste the output.", PASTE) == []


def test_what_is_pasted_at_the_start_is_the_task() -> None:
    assert corrections(Timeline().say(PASTE).reply("I look.")) == []


def refused(body: str, **fields: Any) -> Timeline:
    line = Timeline().say("set it up").add("tool_call", "npm install", action="shell", call_id="1")
    given = {"call_id": "1", "native": "rejected", "role": "user", **fields}
    return line.add("human_intervention", body, **given)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("use pnpm", "use pnpm"),
        (
            "The user doesn't want to proceed with this tool use. The user provided the following"
            " reason for the rejection:  use pnpm",
            "use pnpm",
        ),
        (
            "The user rejected permission to use this specific tool call with the following"
            " feedback: use pnpm",
            "use pnpm",
        ),
        ("The user doesn't want to proceed with this tool use. STOP.", None),
        ("exec command rejected by user", None),
        ("continue", None),
    ],
)
def test_what_was_typed_when_a_call_was_refused_is_a_correction(
    body: str, text: str | None
) -> None:
    assert corrections(refused(body)) == ([text] if text else [])


def test_an_instruction_after_a_stop_is_a_correction_unless_the_agent_may_go_on() -> None:
    def stopped(text: str) -> list[str]:
        line = Timeline().say("set it up").call("npm install", "ok").reply("Now the tests.")
        line.add("human_intervention", "[Request interrupted by user]", native="interrupt")
        return corrections(line.say(text))

    assert stopped("put the tests in another folder") == ["put the tests in another folder"]
    assert stopped("sorry, I mistyped, continue") == []
    assert stopped("are you still there?") == []
    assert stopped("it seems to work, commit it") == []


def test_a_person_who_changes_a_request_before_any_work_corrects_nobody() -> None:
    line = Timeline().say("set it up")
    line.add("human_intervention", "[Request interrupted by user]", native="interrupt")
    assert corrections(line.say("use pnpm for it")) == []
