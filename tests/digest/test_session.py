"""A session in a few kilobytes: what is in it, that it is always the same, and that it stays
small."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runlore.digest.session import (
    MAX_COMMANDS,
    MAX_ERRORS,
    MAX_EXCERPT_BYTES,
    MAX_FILES,
    MAX_REQUESTS,
    excerpt,
    make,
)
from runlore.digest.statements import MAX_REQUEST_CHARS
from runlore.model import Cost, Digest, Session, SessionEvent, Tests
from runlore.store.digest_rows import pack_digest

START = datetime(2026, 3, 1, tzinfo=UTC)
UID = "toy:1"


class Timeline:
    """Events as an adapter would give them, one a minute."""

    def __init__(self) -> None:
        self.events: list[SessionEvent] = []
        self.bodies: dict[int, str] = {}

    def add(self, kind: str, text: str = "", **fields: Any) -> Timeline:
        seq = len(self.events)
        roles = {"user_msg": "user", "assistant_msg": "assistant"}
        given = {
            "role": roles.get(kind),
            "summary": text[:100],
            "ts": START + timedelta(minutes=seq),
            **fields,
        }
        self.events.append(SessionEvent(session_uid=UID, seq=seq, kind=kind, **given))
        self.bodies[seq] = text
        return self

    def say(self, text: str) -> Timeline:
        return self.add("user_msg", text)

    def reply(self, text: str = "done") -> Timeline:
        return self.add("assistant_msg", text)

    def call(
        self,
        called: str,
        came_back: str = "",
        *,
        kind: str = "tool_call",
        action: str = "shell",
        **fields: Any,
    ) -> Timeline:
        """A call and its result; `files` and `tool` are the call's, the rest the result's."""
        call_id = str(len(self.events))
        own = {name: fields.pop(name) for name in ("files", "tool") if name in fields}
        self.add(kind, called, action=action, call_id=call_id, **{"tool": action.title(), **own})
        return self.add("tool_result", came_back, call_id=call_id, **fields)

    def edit(self, path: str, diff: str, came_back: str = "ok", **fields: Any) -> Timeline:
        return self.call(
            f"{path}\n@@\n{diff}", came_back, kind="edit", action="edit", files=(path,), **fields
        )

    @property
    def digest(self) -> Digest:
        return self.digest_in(None)

    def digest_in(self, cwd: str | None) -> Digest:
        """Return the digest of a session that was started in this folder."""
        session = Session(
            session_uid=UID,
            cwd=cwd,
            flavor="toy",
            native_session_id="1",
            title="A title",
            last_seq=len(self.events) - 1,
            content_hash="h",
            cost=Cost(wall_clock_s=12.5, retries=2),
        )
        return make(session, self.events, self.bodies)


@pytest.fixture
def line() -> Timeline:
    return Timeline()


@pytest.mark.parametrize("begin", ["", "/" + "x" * 80 + " "])
@pytest.mark.parametrize("between", [" ", "\n\n\t ", " " * 9])
def test_a_long_goal_is_kept_to_its_full_length_however_it_is_laid_out(
    line: Timeline, begin: str, between: str
) -> None:
    words = [f"word{n}" for n in range(900)]
    made = line.say(begin + between.join(words)).digest
    assert made.goal == " ".join(words)[:599] + "…"


def test_the_goal_is_the_first_prompt_that_asks_for_something(line: Timeline) -> None:
    made = (
        line.say("hi!")
        .reply("Hello!")
        .say("<context>you are here</context>\nfix the parser,\nplease")
        .digest
    )
    assert (made.goal, made.goal_seq, made.title) == ("fix the parser, please", 2, "A title")


@pytest.mark.parametrize(
    ("prompts", "goal"),
    [
        (["/model", "/review the changes on this branch"], "the changes on this branch"),
        (["!make test", "why does it fail?"], "why does it fail?"),
        (["/review /simplify\n\nScope: this branch"], "Scope: this branch"),
        (["/model /compact"], None),
        (
            ["<pr_description>\nThe door squeaks.\n</pr_description>\n<rules>No oil.</rules>"],
            "The door squeaks.",
        ),
        (["[Image #1] make this button blue"], "make this button blue"),
        (
            ["Implement the following plan:\n\n# Cache the index\n\nIt is slow."],
            "Cache the index It is slow.",
        ),
        (["hello"], None),
        (["Thank you so much!"], None),
        (["Hey Ada, please look at the diff"], "Hey Ada, please look at the diff"),
        (["continue", "ok", "add a test"], "add a test"),
        # Read in two ways at each word, this would take for ever.
        (["hi " * 1000 + "@"], ("hi " * 1000)[:599] + "…"),
        (["[[ ## user_query ## ]]\nWhat is new?"], "What is new?"),
        (["<environment>\nlinux\n</environment>"], None),
        ([], None),
    ],
)
def test_commands_wrappers_and_greetings_are_no_goal(
    line: Timeline, prompts: list[str], goal: str | None
) -> None:
    for text in prompts:
        line.say(text).reply()
    assert line.digest.goal == goal


def test_each_turn_that_asks_for_something_is_a_request(line: Timeline) -> None:
    line.say("hi").reply().say("/model").reply().say("add a cache to the reader").reply()
    line.say("continue").reply().say("now the same\nfor the writer " + "x" * 300).reply()
    requests = line.digest.requests
    assert [(one.seq, one.text[:30]) for one in requests] == [
        (4, "add a cache to the reader"),
        (8, "now the same for the writer xx"),
    ]
    assert len(requests[1].text) == MAX_REQUEST_CHARS


def test_of_many_requests_the_first_and_the_last_are_kept(line: Timeline) -> None:
    for n in range(MAX_REQUESTS + 5):
        line.say(f"build part {n}").reply()
    made = line.digest
    texts = [request.text for request in made.requests]
    assert (texts[0], texts[1], texts[-1]) == ("build part 0", "build part 6", "build part 34")
    assert made.cut["requests"] == 5


def test_the_result_is_what_the_agent_said_last(line: Timeline) -> None:
    line.say("fix it").reply("First I look.").call("make", "ok", exit_code=0)
    line.reply("Fixed:\n\n- the door\n- the window").say("thanks!")
    result = line.digest.result
    assert result is not None
    assert (result.seq, result.text) == (4, "Fixed:\n\n- the door\n- the window")
    assert Timeline().say("fix it").digest.result is None


def test_the_result_ends_a_turn_and_announces_no_call(line: Timeline) -> None:
    summary = "Fixed the door and the window; all 12 tests of the house pass again now."
    line.say("fix it").reply("Now I look.").call("make", "ok", exit_code=0).reply(summary)
    line.say("and the roof").reply("Now I look at the roof.").call("ls", "roof", exit_code=0)
    result = line.digest.result
    assert result is not None
    assert result.text == summary


def test_a_bare_remark_is_no_result_where_there_is_a_sentence(line: Timeline) -> None:
    summary = "Fixed the door and the window; all 12 tests of the house pass again now."
    line.say("fix it").call("make", "ok", exit_code=0).reply(summary).say("commit it")
    line.call("git commit -m x", "[main 1a2b3c4] x", exit_code=0).reply("Committed as 1a2b3c4.")
    result = line.digest.result
    assert result is not None
    assert result.text == summary


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (
            ("The door hangs straight again: the hinge was bent. Let me make a patch:",
             "Good! Now let me submit it:"),
            "The door hangs straight again: the hinge was bent.",
        ),
        (("All 4 doors open and close again now.", "Calling `submit`."),
         "All 4 doors open and close again now."),
        (("Let me look at the door first:", "I'll oil the hinge."), None),
        (("Fixed.", "Now that it is fixed, let's submit our changes."), "Fixed."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["assistant_msg", "thinking"])
def test_what_announces_the_next_call_is_no_result(
    kind: str, words: tuple[str, ...], result: str | None
) -> None:
    line = Timeline().say("fix the door")
    for text in words:
        line.add(kind, text, role="assistant").call("submit", "ok", exit_code=0)
    assert (line.digest.result.text if line.digest.result else None) == result


def test_the_last_thought_is_the_result_of_an_agent_that_writes_nothing_else(
    line: Timeline,
) -> None:
    line.say("fix it").add("thinking", "The door hangs straight now, so I submit.")
    result = line.digest.result
    assert result is not None
    assert result.text == "The door hangs straight now, so I submit."


def test_an_answer_to_thanks_is_no_result(line: Timeline) -> None:
    line.say("fix it").reply("Fixed the door.").say("Thanks!").reply("You are welcome!")
    result = line.digest.result
    assert result is not None
    assert result.text == "Fixed the door."
    greeted = Timeline().say("hello").reply("Hello!").digest.result
    assert greeted is not None
    assert greeted.text == "Hello!"


def test_the_result_is_told_without_code_and_directives(line: Timeline) -> None:
    line.say("fix it").reply('Done:\n```py\nx = 1\n```\nIt works.\n::git-push{cwd="/w"}')
    result = line.digest.result
    assert result is not None
    assert result.text == "Done:\n…\nIt works."


@pytest.mark.parametrize(
    ("fields", "task"),
    [
        ({"task_ref": "acme/api#7", "git_branch": "fix/door"}, "acme/api#7"),
        ({"git_branch": "fix/21-door"}, "#21"),
        ({"git_branch": "fix/door"}, "fix/door"),
        ({"git_branch": "main"}, None),
        ({}, None),
    ],
)
def test_the_task_is_an_issue_or_else_a_branch_that_is_no_default_one(
    line: Timeline, fields: dict[str, str], task: str | None
) -> None:
    session = Session(session_uid=UID, flavor="toy", native_session_id="1", **fields)  # type: ignore[arg-type]
    line.say("mend the door")
    assert make(session, line.events, line.bodies).task_ref == task


def test_the_task_is_named_anywhere_in_the_first_request(line: Timeline) -> None:
    line.say("hi").reply().say("mend the door\n" + "so and so\n" * 90 + "fixes #34")
    assert line.digest.task_ref == "#34"


def test_a_command_is_the_goal_where_nothing_else_was_asked_for(line: Timeline) -> None:
    command = {"role": "user", "native": "slash_command"}
    line.add("human_intervention", "/status", **command).add("lifecycle", "all fine")
    line.add("human_intervention", "/init", view="context", **command)
    alone = line.events[:]
    line.add("lifecycle", "Please describe this house.\nBe brief.", role="user", view="context")
    made = line.reply("It has a door.").digest
    assert (made.goal_seq, made.goal) == (2, "/init: Please describe this house. Be brief.")
    assert [request.text for request in made.requests] == [made.goal]
    line.events = alone
    assert line.reply("It has a door.").digest.goal == "/init"
    line.say("paint the door")
    assert line.digest.goal == "paint the door"


def test_a_part_of_a_file_is_not_a_new_file(line: Timeline) -> None:
    line.call("/w/a.py\n@@ 4:4 @@\n+x", kind="edit", action="edit", files=("/w/a.py",))
    line.call("/w/b.py\n@@ -3 +3,2 @@\n+x", kind="edit", action="edit", files=("/w/b.py",))
    line.call("/w/new.py\n@@ -0,0 +1,2 @@\n+x", kind="edit", action="edit", files=("/w/new.py",))
    line.call("/w/empty.py", kind="edit", action="edit", files=("/w/empty.py",))
    assert line.digest.files_created == ("/w/new.py", "/w/empty.py")


def test_files_are_told_apart_by_what_was_done_to_them(line: Timeline) -> None:
    line.call("a.py", "text", action="read", files=("/w/a.py",)).edit("/w/a.py", " x\n-1\n+2").edit(
        "/w/new.py", "+1\n+2"
    )
    line.edit("/w/refused.py", "-1\n+2", "String to replace not found", is_error=True).edit(
        "/w/new.py", "+3"
    )
    made = line.digest
    assert (made.files_read, made.files_edited, made.files_created) == (
        ("/w/a.py",),
        ("/w/a.py", "/w/new.py"),
        ("/w/new.py",),
    )


def test_paths_are_relative_to_the_folder_of_the_session(line: Timeline) -> None:
    line.call("a.py", "text", action="read", files=("/w/api/src/a.py", "/etc/hosts"))
    line.edit("src/a.py", " x\n-1\n+2").edit("/w/api/src/a.py", " x\n-2\n+3")
    line.edit("/w/api/.worktrees/fix/src/b.py", " x\n-1\n+2")
    line.edit("/w/api.worktrees/fix/src/b.py", " x\n-1\n+2").edit("/w/apis/c.py", " x\n-1\n+2")
    made = line.digest_in("/w/api/")
    assert made.files_read == ("src/a.py", "/etc/hosts")
    assert made.files_edited == ("src/a.py", "src/b.py", "/w/apis/c.py")


def test_files_that_commands_change_count_when_they_are_in_the_repository(line: Timeline) -> None:
    patch = "*** Begin Patch\n*** Update File: src/p.py\n@@\n-1\n+2\n*** End Patch"
    line.call(f"apply_patch <<'EOF'\n{patch}\nEOF", "Done", exit_code=0)
    line.call("sed -i s/a/b/ /w/api/src/s.py > /tmp/sed.log", "", exit_code=0)
    line.call("make > build.log; rm -rf node_modules", "", exit_code=0)
    line.call("sed -i s/a/b/ src/not.py", "no such file", exit_code=1, is_error=True)
    made = line.digest_in("/w/api")
    assert (made.files_edited, made.edits) == (("src/p.py", "src/s.py"), {})


def test_commands_are_read_out_of_the_program_that_runs_them(line: Timeline) -> None:
    program = (
        "const [one, two] = await Promise.all([\n"
        '  tools.exec_command({ cmd: "git status --short", workdir: "/w" }),\n'
        '  tools.exec_command({ cmd: "sed -n \'1,9p\' \\"a b.py\\"", workdir: "/w" })\n]);'
    )
    line.call(program, "ok", exit_code=0)
    line.call("const r = await tools.search({ query: 'x' });", "none")
    line.call("cell_id: 24\nyield_time_ms: 1000", "still running")
    line.call("shellId: 22\ndelay: 5", "still running")
    line.call("configuration: Debug", "built")
    made = line.digest
    assert [run.command for run in made.commands] == [
        "git status --short", "sed -n '1,9p' \"a b.py\"",
    ]  # fmt: skip
    assert made.files_read == ("a b.py",)


def test_what_git_keeps_for_itself_is_no_file_of_the_work(line: Timeline) -> None:
    line.call("cat .git/config src/a.py build.log", "x", exit_code=0)
    assert line.digest_in("/w/api").files_read == ("src/a.py", "build.log")


def test_a_subagent_is_a_call_that_gives_a_task(line: Timeline) -> None:
    line.call("message: look around\ntask_name: scout", "started", action="agent")
    line.call("target: scout\nmessage: and the cellar", "sent", action="agent")
    line.call("timeout_ms: 1000", "nothing yet", action="agent").call("", "[]", action="agent")
    assert [moment.seq for moment in line.digest.subagents] == [0]


def test_commands_are_in_their_order(line: Timeline) -> None:
    for command, code in (("ls", 0), ("make build", 1), ("git status", 0), ("make test", 0)):
        line.call(command, "x", exit_code=code, is_error=bool(code))
    commands = [run.command for run in line.digest.commands]
    assert commands == ["ls", "make build", "git status", "make test"]


def test_of_many_commands_those_that_did_something_are_kept(line: Timeline) -> None:
    for n in range(MAX_COMMANDS):
        line.call(f"cat file{n}", "x", exit_code=0)
    made = line.call("make build", "x", exit_code=0).call("make test", "x", exit_code=0).digest
    assert [run.command for run in made.commands][-2:] == ["make build", "make test"]
    assert (len(made.commands), made.cut["commands"]) == (MAX_COMMANDS, 2)


def test_of_many_commands_the_steps_of_the_work_and_both_ends_are_kept(line: Timeline) -> None:
    line.call("ls", "x", exit_code=0).call("npm test", "x", exit_code=0)
    for n in range(MAX_COMMANDS):
        line.call(f"python script{n}.py", "x", exit_code=0)
    line.call("git commit -m x", "[main 1a2b3c4] x", exit_code=0).call("cat log", "x", exit_code=0)
    commands = [run.command for run in line.digest.commands]
    assert {"ls", "npm test", "git commit -m x", "cat log"} < set(commands)
    assert len(commands) == MAX_COMMANDS


def test_commands_have_their_exit_codes_and_how_often_they_failed(line: Timeline) -> None:
    line.call("make build", "boom", exit_code=2, is_error=True).call(
        "make build", "ok", exit_code=0
    ).call("ls", "a", exit_code=0)
    assert [
        (ran.command, ran.count, ran.failed, ran.exit_code, ran.seq) for ran in line.digest.commands
    ] == [
        ("make build", 2, 1, 0, 3),
        ("ls", 1, 0, 0, 5),
    ]


def test_packages_are_not_counted_as_tests(line: Timeline) -> None:
    line.call(
        "go test ./...", "ok  \tx/a\t0.1s\nok  \tx/b\t(cached)", kind="test_run", exit_code=0,
        tests=Tests(passed=2, failed=0),
    )  # fmt: skip
    line.call(
        "go test -v ./...", "--- PASS: TestA (0.0s)\nok  \tx/a\t0.1s", kind="test_run",
        exit_code=0, tests=Tests(passed=1, failed=0, skipped=0),
    )  # fmt: skip
    assert [(run.passed, run.failed) for run in line.digest.tests] == [(None, None), (1, 0)]


def test_runs_of_tests_have_their_counts(line: Timeline) -> None:
    line.call("pytest", "1 failed", kind="test_run", is_error=True, tests=Tests(passed=3, failed=1))
    line.edit("a.py", "a.py\n+1")
    line.call("pytest", "90 passed", kind="test_run", tests=Tests(passed=90, failed=0))
    line.call("git commit -m fix", "[main 1a2b3c4] fix", exit_code=0)
    made = line.digest
    assert [(run.passed, run.failed, run.is_error) for run in made.tests] == [
        (3, 1, True),
        (90, 0, False),
    ]
    assert (made.outcome, made.outcome_level, made.outcome_by) == ("success", "observed", "test")
    assert made.outcome_evidence == (5,)


@pytest.mark.parametrize(
    ("command", "output", "subjects"),
    [
        ("git commit -q -m 'Mend the door'", "", ["Mend the door"]),
        ('git add -A && git commit -qam "Mend the door" && git push -q', "", ["Mend the door"]),
        ("git commit --quiet --message='Mend it'", "", ["Mend it"]),
        ("git commit -q -F - <<'EOF'\nMend it\n\nIt was ajar.\nEOF", "", ["Mend it"]),
        ("git commit -q -m \"$(cat <<'EOF'\nMend it\n\nAjar.\nEOF\n)\"", "", ["Mend it"]),
        ("git commit -q -m 'One' ; git commit -q -m 'Two'", "", ["One", "Two"]),
        ("git commit -q -m 'Mend it' || true", "nothing to commit, working tree clean", []),
        ("git commit -q -m 'Mend it'; ls", "error: pathspec 'x' did not match", []),
        ("git init -q x && cd x && git commit -q -m 'try'", "", []),
        ("git commit -q --amend --no-edit", "", []),
        ("git log --grep commit -m 'x'", "", []),
    ],
)
def test_a_quiet_commit_has_the_subject_of_its_message(
    line: Timeline, command: str, output: str, subjects: list[str]
) -> None:
    line.call(command, output, exit_code=0)
    assert [(commit.sha, commit.subject) for commit in line.digest.commits] == [
        ("", subject) for subject in subjects
    ]


def test_a_quiet_commit_counts_only_if_it_succeeded(line: Timeline) -> None:
    line.call("git commit -q -m 'Mend it'", "").call("git commit -q -m 'Mend it'", "", exit_code=1)
    assert line.digest.commits == ()


def test_commits_and_pull_requests_are_those_that_were_made(line: Timeline) -> None:
    line.call("git log --oneline", "[main 1111111] of someone else", exit_code=0)
    line.call("git commit -m 'Fix it'", "[main 1a2b3c4] Fix it\n 1 file changed", exit_code=0)
    quiet = (
        "git add -A && git commit -q -F - <<'EOF'\nMend the door\n\nIt was ajar.\nEOF\ngit log"
        " --oneline -2"
    )
    line.call(quiet, "2b3c4d5 (HEAD -> main) Mend the door\n0000000 of someone else", exit_code=0)
    line.call("git commit -q -m 'No luck'", "3c4d5e6 No luck", exit_code=1)
    shown = '{"seconds": 0.921464375,\n"output": "[main 4d5e6f7] Paint it\\n 1 file changed"}'
    line.call("git commit -m 'Paint it, red'", shown, exit_code=0)
    line.call("gh pr view 7", "https://github.com/acme/api/pull/7", exit_code=0)
    line.call("gh pr create --fill", "https://github.com/acme/api/pull/8\n", exit_code=0)
    made = line.digest
    assert [(commit.sha, commit.subject, commit.seq) for commit in made.commits] == [
        ("1a2b3c4", "Fix it", 3), ("2b3c4d5", "Mend the door", 5), ("4d5e6f7", "Paint it", 9),
    ]  # fmt: skip
    assert [(request.text, request.seq) for request in made.pull_requests] == [
        ("opened https://github.com/acme/api/pull/8", 13)
    ]


@pytest.mark.parametrize(
    ("command", "output", "done"),
    [
        ("gh pr merge 12 --squash", "✓ Squashed and merged pull request #12", "merged #12"),
        ("gh pr merge --auto", "Merged pull request acme/api#7 (Fix it)", "merged #7"),
        (
            "gh pr comment 9 --body hi",
            "https://github.com/acme/api/pull/9#issuecomment-1",
            "commented https://github.com/acme/api/pull/9",
        ),
        ("gh pr review 9 --approve", "", "reviewed #9"),
        ("glab mr merge 4", "merged", "merged #4"),
        ("gh pr view 7", "https://github.com/acme/api/pull/7", None),
        ("gh pr create --fill", "aborted: you must first push", None),
        ("gh pr list", "#7 Fix it", None),
    ],
)
def test_pull_requests_have_what_was_done_to_them_and_their_number(
    line: Timeline, command: str, output: str, done: str | None
) -> None:
    made = line.say("go").call(command, output, exit_code=0).digest
    assert [request.text for request in made.pull_requests] == ([done] if done else [])


def test_a_tool_may_merge_a_pull_request(line: Timeline) -> None:
    line.say("go").call(
        "owner: acme\nrepo: api\npullNumber: 12",
        '{"merged":true}',
        action="mcp",
        tool="mcp__github__merge_pull_request",
    )
    assert [request.text for request in line.digest.pull_requests] == ["merged #12"]


def test_a_pull_request_that_was_not_opened_is_none(line: Timeline) -> None:
    line.say("go").call(
        "gh pr create --fill", "exists: https://github.com/acme/api/pull/8", exit_code=1,
        is_error=True,
    )  # fmt: skip
    assert line.digest.pull_requests == ()


def test_people_who_step_in_and_what_they_then_say_are_noted(line: Timeline) -> None:
    line.say("rename it").reply("renamed everything")
    line.say("no, only the class")
    line.call("rm -rf build", "", exit_code=0)
    line.add("human_intervention", "[interrupted]", native="interrupt")
    line.say("keep the build folder").reply()
    line.say("now the tests").reply().add("human_intervention", "/model", role="user").add(
        "decision", "plan approved"
    )
    made = line.digest
    assert [(moment.seq, moment.text) for moment in made.corrections] == [
        (2, "no, only the class"),
        (6, "keep the build folder"),
    ]
    assert [moment.seq for moment in made.interventions] == [5]
    assert [moment.text for moment in made.decisions] == ["plan approved"]


def test_what_a_person_refused_was_not_done_and_is_one_step_in(line: Timeline) -> None:
    line.say("test it")
    line.add("test_run", "pytest", action="shell", call_id="a")
    line.add(
        "human_intervention", "The user refused", native="rejected", call_id="a", is_error=True
    )
    line.add("human_intervention", "[interrupted]", native="interrupt")
    line.add("edit", "a.py\n@@\n+x", action="edit", call_id="b", files=("a.py",))
    line.add("human_intervention", "denied", native="denied", call_id="b")
    made = line.digest
    assert (made.commands, made.tests, made.errors, made.files_edited) == ((), (), (), ())
    assert [moment.seq for moment in made.interventions] == [2, 5]


def test_a_decision_is_told_from_all_of_its_lines(line: Timeline) -> None:
    line.say("plan it").add("decision", "Answers:\n\n1. The small one", summary="Answers:")
    assert [moment.text for moment in line.digest.decisions] == ["Answers: 1. The small one"]


@pytest.mark.parametrize(
    "text",
    [
        "continue",
        "please continue with the other files, one by one",
        "yes please, and the docs",
        "it works. commit",
    ],
)
def test_an_agent_that_was_stopped_and_may_go_on_was_not_corrected(
    line: Timeline, text: str
) -> None:
    line.say("do it").call("make", "", exit_code=0).add(
        "human_intervention", "[interrupted]", native="interrupt"
    ).say(text).reply()
    assert line.digest.corrections == ()


@pytest.mark.parametrize(
    ("text", "rejects"),
    [
        ("No.", False),  # It may as well be an answer.
        ("nope, that's the other file", True),
        ("please don't touch the lockfile", True),
        ("that's not what I meant", True),
        ("It still doesn't work", True),
        ("why did you delete the test?", True),
        ("actually, let's use sqlite", True),
        ("revert your change", True),
        ("I said only the class", True),
        ("I actually wanted the other one", True),
        ("I actually have one more idea: a cache", False),
        ("now run the tests", False),
        ("nothing else, thanks", False),
        ("note that the tests are slow; add one more", False),
        ("looks good, commit it", False),
        ("add a stop button", False),
        ("why does the parser fail on empty input?", False),
        ("now the docs", False),
        ("north of the border", False),
    ],
)
def test_a_correction_is_known_by_how_it_begins(line: Timeline, text: str, rejects: bool) -> None:
    made = line.say("do it").reply().say(text).reply().digest
    assert [moment.text for moment in made.corrections] == ([text] if rejects else [])


def test_histograms_times_and_the_rest_are_counted(line: Timeline) -> None:
    line.say("go").call("ls", "a", tool="Bash").call(
        "look into it", "found", action="agent", tool="Task"
    )
    line.add("lifecycle", "compacted", view="compact")
    made = line.digest
    assert made.tools == {"Bash": 1, "Task": 1}
    assert made.kinds == {"tool_call": 2, "tool_result": 2, "lifecycle": 1, "user_msg": 1}
    assert (made.wall_s, made.active_s, made.retries, made.compactions) == (300, 12.5, 2, 1)
    assert [(moment.seq, moment.text) for moment in made.subagents] == [(3, "look into it")]


TRACE = (
    'Traceback (most recent call last):\n  File "/w/a.py", line 7, in f\n    return'
    " d[\"x\"]\nKeyError: 'x'"
)


def test_an_error_has_its_times_its_ends_and_its_fix_with_the_change(line: Timeline) -> None:
    for _ in range(3):
        line.call("python a.py", TRACE, exit_code=1, is_error=True)
    line.edit("/w/a.py", "-    return d['x']\n+    return d.get('x')").call(
        "python a.py", "fine", exit_code=0
    )
    made = line.digest
    [error], [fix] = made.errors, made.fixes
    assert (error.signature.name, error.count, error.seqs) == ("KeyError", 3, (1, 5))
    assert (error.first_at, error.last_at) == (
        START + timedelta(minutes=1),
        START + timedelta(minutes=5),
    )
    assert (fix.how, fix.fixed_seq, fix.is_shown) == ("edit", 9, True)
    assert "+    return d.get('x')" in fix.diff
    assert {moment.seq for moment in made.excerpts} == {1, 5, 9}
    assert "KeyError" in made.excerpts[0].text


def test_what_an_error_cites_is_there_as_an_excerpt_of_at_most_500_bytes(line: Timeline) -> None:
    line.call("make", "ä" * 4000 + "\n" + TRACE + "\n", exit_code=1, is_error=True)
    [moment] = line.digest.excerpts
    assert len(moment.text.encode()) <= MAX_EXCERPT_BYTES
    assert "KeyError: 'x'" in moment.text
    assert len(excerpt("x" * 9000).encode()) <= MAX_EXCERPT_BYTES
    assert excerpt("\x1b[31mred\x1b[0m") == "red"


def test_copies_and_our_own_answers_are_no_part_of_it(line: Timeline) -> None:
    line.add("tool_result", TRACE, origin="toy:0#5", is_error=True)
    line.call("KeyError", TRACE, action="mcp", tool="mcp__runlore__search", is_error=True)
    made = line.digest
    assert (made.errors, made.tools, made.kinds) == ((), {}, {})


def test_lessons_that_it_asked_for_and_was_given_are_in_it_once_each(line: Timeline) -> None:
    text = (
        "total: 2\n<recorded 1>\nab1 (approved): the build fails\n  3 sessions\nRun it.\nkeep-it"
        " (approved): x\n</recorded 1>"
    )
    form = msgspec.json.encode(
        {"recorded": text, "lessons": [{"id": "cd2", "status": "approved"}]}
    ).decode()
    line.say("fix it").call("{}", text, action="mcp", tool="mcp__runlore__lessons")
    line.call("{}", form, action="mcp", tool="runlore.lessons")
    line.call(
        "{}",
        '{"id": "no1", "status": "proposed"}\nno2 (proposed): x',
        action="mcp",
        tool="runlore.lessons",
    )
    line.call(
        "{}",
        text.replace("ab1", "ef3"),
        action="mcp",
        tool="mcp__runlore__lessons",
        origin="toy:0#5",
    )
    line.call("cat notes", "gh4 (approved): no answer of ours")
    told = line.digest.requested_lessons
    assert [(one.lesson, one.seq, one.at) for one in told] == [
        ("ab1", 2, line.events[2].ts),
        ("keep-it", 2, line.events[2].ts),
        ("cd2", 4, line.events[4].ts),
    ]
    assert told[0].tokens > told[2].tokens > 20  # The first was told twice.


def test_long_lists_are_cut_and_what_is_missing_is_counted(line: Timeline) -> None:
    for n in range(2 * MAX_FILES):
        line.call(f"f{n}", "text", action="read", files=(f"/w/f{n}.py",))
    for n in range(2 * MAX_ERRORS):
        line.call(
            f"run {'x' * n}",
            f"{'ABCDEFGHIJ'[n % 10]}{'abcdefghijkl'[n // 10]}Error: no",
            exit_code=1,
            is_error=True,
        )
    made = line.digest
    assert (len(made.files_read), len(made.errors), len(made.commands)) == (
        MAX_FILES,
        MAX_ERRORS,
        MAX_COMMANDS,
    )
    assert made.cut == {
        "files_read": MAX_FILES,
        "errors": MAX_ERRORS,
        "commands": 2 * MAX_ERRORS - MAX_COMMANDS,
    }
    assert len(pack_digest(made)[2]) <= 32 * 1024


def test_the_same_events_give_the_same_bytes(line: Timeline) -> None:
    line.say("go").call("python a.py", TRACE, exit_code=1, is_error=True).edit(
        "/w/a.py", "-1\n+2"
    ).call("python a.py", "ok", exit_code=0)
    once = pack_digest(line.digest)
    assert pack_digest(line.digest) == once
    line.events.reverse()
    line.bodies = dict(reversed(line.bodies.items()))
    assert pack_digest(line.digest) == once


def test_a_digest_of_nothing_says_nothing() -> None:
    made = Timeline().digest
    assert (made.goal, made.outcome, made.errors, made.wall_s) == (None, "unknown", (), 0.0)
    assert Digest.from_json(made.to_json()) == made


def test_hostile_text_is_taken_as_text(line: Timeline) -> None:
    for text in (
        "<" * 5000,
        "<a>" * 5000,
        "/" * 5000,
        "[image" * 2000,
        "no" * 5000,
        "\x1b]0;x\x07",
        "{" * 5000,
        "git commit " * 3000,
    ):
        line.say(text).call(text, text, exit_code=1, is_error=True).edit(text[:50], text)
    made = line.digest
    assert Digest.from_json(made.to_json()) == made
    assert "\x1b" not in str([moment.text for moment in made.excerpts])
    assert msgspec.json.encode(made.to_dict())


def test_a_file_that_a_command_writes_whole_was_created_if_nobody_saw_it_before() -> None:
    line = Timeline().say("try it").call("cat old.py", "x = 1")
    line.call("cat > new.py << 'EOF'\nprint(1)\nEOF\npython new.py", "1")
    line.call("cat <<EOF > 'notes.md'\n# Notes\nEOF", "")
    line.call("cat > old.py <<EOF\nx = 2\nEOF", "")
    line.call("echo more >> log.md && cat >> more.py <<EOF\ny\nEOF", "")
    digest = line.digest
    assert digest.files_edited == ("new.py", "notes.md", "old.py", "log.md", "more.py")
    assert digest.files_created == ("new.py", "notes.md")
