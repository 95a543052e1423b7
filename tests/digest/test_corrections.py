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
        "let's use podman instead of docker",
        "Actually, make it parse YAML instead",
        "the login worked before these changes",
        "but the summary is not a list, so it can hold totals",
        "the second lock is unnecessary",
        "the second flag is also redundant",
        "no need to look into that folder",
        "I started it as you said, but it exits at once",
        "这个效果不太好",
        "it should be the port, not the host",
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
        "also ci failed, please fix it",
        "wait, what does this flag do?",
        "it's not clear to me how the cache works",
        "I get this error when I start the other service",
    ],
)
def test_a_task_a_question_an_approval_and_a_review_are_no_corrections(text: str) -> None:
    assert after("Done, it works now.", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "we have a proxy and I thought the client is packaged with it",
        "isn't that what the importer does",
        "I don't see the new button",
        "I don't think we need a second cache",
        "wait, do we only have one colour for links",
        "and we don't need the old format",
    ],
)
def test_an_opinion_is_a_correction_if_the_agent_has_changed_something(text: str) -> None:
    edited = Timeline().say("build the page").edit("/w/page.ts", "-a\n+b")
    talked = Timeline().say("how would you build the page?").call("ls", "page.ts")
    assert corrections(edited.reply("It has a page now.").say(text)) == [text]
    assert corrections(talked.reply("With one page for each.").say(text)) == []


def test_a_doubt_about_the_work_is_no_correction() -> None:
    assert after("Done.", "I thought the rates are for each assertion. Will that confuse?") == []
    assert after("Done.", "What's the trace for? I thought it was removed") == []


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
        ("is there a lock file?", None),
        ("会有省略效果吗", None),
    ],
)
def test_what_was_typed_when_a_call_was_refused_is_a_correction(
    body: str, text: str | None
) -> None:
    assert corrections(refused(body)) == ([text] if text else [])


def stopped(text: str) -> list[str]:
    """Return the corrections of a session in which this was said after the agent was stopped."""
    line = Timeline().say("set it up").call("npm install", "ok").reply("Now the tests.")
    line.add("human_intervention", "[Request interrupted by user]", native="interrupt")
    return corrections(line.say(text))


def test_an_instruction_after_a_stop_is_a_correction_unless_the_agent_may_go_on() -> None:
    assert stopped("put the tests in another folder") == ["put the tests in another folder"]
    assert stopped("sorry, I mistyped, continue") == []
    assert stopped("are you still there?") == []
    assert stopped("it seems to work, commit it") == []


def test_a_person_who_changes_a_request_before_any_work_corrects_nobody() -> None:
    line = Timeline().say("set it up")
    line.add("human_intervention", "[Request interrupted by user]", native="interrupt")
    assert corrections(line.say("use pnpm for it")) == []


@pytest.mark.parametrize(
    "text",
    [
        "use yarn for this",
        "the lock file is already there",
        "I want a cleaner way to install it",
        "that is too much, one test will do",
        "I don't want tests for the docs",
        "let's keep the old runner",
        "改用另一个目录",
        "the backend is in ../server",
        "remove the theme file",
        "dude sleep 5 seconds in the shell",
        "you can set the group with the table's own option",
    ],
)
def test_what_redirects_a_stopped_agent_is_a_correction(text: str) -> None:
    assert stopped(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "now write the release notes",
        "do we even need the second test?",
        "can you have a look at the old changelog?",
        "also group the runs by day",
        "Step 2",
        "commit and push",
        "here are the credentials for the registry",
        "what is the name of the branch?",
        "would this be better as a hook instead of a command",
        "Never mind! I'd like you to add a section about limits",
        "In src/load.ts around lines 4 to 9, the listener leaks; remove it when it is done.",
        "提交并推送",
    ],
)
def test_the_next_step_after_a_stop_is_no_correction(text: str) -> None:
    assert stopped(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "the connection broke, please continue",
        "I was offline. try again",
        "sorry, my laptop crashed and it broke, pick up where you left off",
        "we hit the usage limit, it is not working any more until noon. Resume now",
        "网络断了，继续",
    ],
)
def test_going_on_after_a_failure_of_the_network_is_no_correction(text: str) -> None:
    assert after("API Error: no connection", text) == []
    assert stopped(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "are you sure?",
        "are you sure this is right? please check it once more",
        "double-check that nothing is broken",
        "can you verify that the login is not broken on phones",
        "please review it again and look for what still fails",
        "make sure it is not the same error",
        "re-check which findings are still wrong",
    ],
)
def test_a_request_to_look_at_the_work_again_is_no_correction(text: str) -> None:
    assert after("Done, it works now.", text) == []


def test_a_doubt_with_its_reason_is_a_correction() -> None:
    text = "are you sure the cache is at fault? I turned it off and it is as slow as before"
    assert after("Done, it works now.", text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "the old importer is broken for large files, so we need our own",
        "their documentation is wrong about the limit",
        "customers say that the search is not working on phones",
        "the existing dashboard looks terrible",
        "why would you choose a queue here?",
        "the problem is that people forget their passwords",
        "there is the same bug in the exporter",
    ],
)
def test_criticism_of_something_else_than_the_work_is_no_correction(text: str) -> None:
    assert after("Done, it works now.", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "fyi the staging server is broken today",
        "for context: the importer does not work with old files",
        "by the way, the docs are wrong about this flag",
        f"in context of this:\n{PASTE}",
        "don't deploy yet, first show me the plan",
        "stop here for today",
    ],
)
def test_added_information_and_limits_of_the_next_step_are_no_corrections(text: str) -> None:
    assert after("Done, it works now.", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "the issue is the formatter, not the build",
        "why do you keep deleting the header?",
        "the new importer is broken",
        "got the same error as before",
        "The user complained about prompts. But this is still broken",
    ],
)
def test_criticism_of_the_work_stays_a_correction(text: str) -> None:
    assert after("Done, it works now.", text) == [text]
