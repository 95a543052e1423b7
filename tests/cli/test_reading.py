"""`ls`, `show`, `resume` and `agents`: what people and programs are told."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tests.toy as toy_module
from runlore import config, query
from runlore.adapters import Facts, Position, Record, Source
from runlore.cli.commands import show
from runlore.errors import ReadError
from runlore.model import Session, SessionEvent
from runlore.query import synced_mark
from tests.cli.conftest import Run
from tests.toy import Toy, line


# ── ls ────────────────────────────────────────────────────────────────────────────────────────────
def test_ls_lists_the_newest_first_in_aligned_columns(run: Run, stored: Path) -> None:
    head, beta, alpha = run("ls").stdout.splitlines()
    assert head.split() == [
        "ID",
        "AGENT",
        "WHEN",
        "OUTCOME",
        "TIME",
        "TURNS",
        "EVENTS",
        "ERR",
        "TOKENS",
        "REPO",
        "TITLE",
    ]
    assert beta.split()[:2] == ["beta", "toy"]
    assert alpha.endswith("Fix the build")
    assert alpha[head.index("ERR") + 2] == "1"


def test_ls_gives_programs_an_array_of_plain_objects(run: Run, stored: Path) -> None:
    rows = json.loads(run("ls", "--json").stdout)
    assert [row["uid"] for row in rows] == ["toy:beta", "toy:alpha"]
    assert rows[1]["errors"] == 1
    assert rows[1]["title"] == "Fix the build"
    assert rows[1]["output_tokens"] == 1500


@pytest.mark.parametrize(
    ("words", "uids"),
    [
        (["--errors"], ["toy:alpha"]),
        (["--text", "BUILD"], ["toy:alpha"]),
        (["--repo", "bet*"], ["toy:beta"]),
        (["--repo", "BETA"], ["toy:beta"]),
        (["--repo", "bet"], []),
        (["--branch", "mai"], ["toy:beta", "toy:alpha"]),
        (["--agent", "toy", "--cwd", "*alpha"], ["toy:alpha"]),
        (["--until", "2026-01-01T00:01Z"], ["toy:alpha"]),
        (["--since", "2026-01-01T00:01Z"], ["toy:beta"]),
        (["--since", "1d"], []),
        (["--on", "2026-01-01"], ["toy:beta", "toy:alpha"]),
        (["--on", "2026-01"], ["toy:beta", "toy:alpha"]),
        (["--on", "yesterday"], []),
        (["--agent", "TOY"], ["toy:beta", "toy:alpha"]),
        (["--sort", "tokens", "-n", "1"], ["toy:alpha"]),
        (["--branch", "main", "--all"], ["toy:beta", "toy:alpha"]),
    ],
)
def test_ls_filters_and_sorts(run: Run, stored: Path, words: list[str], uids: list[str]) -> None:
    assert [row["uid"] for row in json.loads(run("ls", "--json", *words).stdout)] == uids


def test_an_agent_with_a_typing_error_is_answered_with_the_one_that_was_meant(run: Run) -> None:
    result = run("ls", "--agent", "clade")
    assert result.exit_code == 2
    assert "there is no agent 'clade'; did you mean claude? there are: " in result.stderr
    assert "did you mean" not in run("ls", "--agent", "zzz").stderr


def test_ls_dot_is_the_folder_one_is_in(
    run: Run, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = tmp_path / "a[1]*"
    strange.mkdir()
    monkeypatch.chdir(strange)
    assert json.loads(run("ls", "--cwd", ".", "--json").stdout) == []


def test_ls_says_what_to_do_when_there_is_nothing(run: Run, stored: Path) -> None:
    result = run("ls", "--repo", "nowhere")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no session matches; without --repo nowhere there are 2 sessions\n"


def test_ls_names_the_filter_to_drop(run: Run, stored: Path) -> None:
    def hint(*words: str) -> str:
        return run("ls", *words).stderr.removeprefix("no session matches; ").rstrip("\n")

    assert hint("--agent", "toy", "--outcome", "fail", "--on", "2020") == (
        "without --agent toy --on 2020 --outcome fail there are 2 sessions"
    ), "one of them is not enough"
    assert hint("--errors", "--text", "beta") == (
        "without --text beta there is 1 session; without --errors there is 1 session"
    )
    assert hint("--text", "#urgent") == "without --text '#urgent' there are 2 sessions"


def test_ls_tells_how_many_there_are_beyond_the_limit(run: Run, stored: Path) -> None:
    assert run("ls", "-n", "1").stderr == "1 of 2 sessions; --all shows them all\n"
    assert run("ls", "-n", "2").stderr == ""
    assert "--all " in run("ls", "--help").stdout


def test_ls_tells_of_the_subagents_that_it_leaves_out(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stored / "more.jsonl").write_bytes(
        b"".join(line(s=f"alpha/agent-{n}", id=f"m{n}", text="x", at=300 + n) for n in range(3))
    )
    facts = Facts
    monkeypatch.setattr(
        toy_module,
        "Facts",
        lambda **told: facts(
            **told,
            relation="subagent" if "/" in told["native_session_id"] else None,
            parent_uid="toy:alpha" if "/" in told["native_session_id"] else None,
        ),
    )
    run("sync")
    assert "1 of 2 sessions (3 subagents: --all-subagents); --all" in run("ls", "-n", "1").stderr
    assert run("ls", "--since", "2026-01-01T00:05").stderr == (
        "no session matches (3 subagents: --all-subagents); without --since 2026-01-01T00:05 there"
        " are 2 sessions\n"
    )
    assert "1 of 5 sessions; --all" in run("ls", "-n", "1", "--all-subagents").stderr


def test_ls_warns_of_transcripts_that_are_soon_deleted_and_not_stored(
    run: Run, stored: Path, toy: Toy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toy, "keeps_days", 30, raising=False)
    mark = synced_mark(config.load())
    os.utime(mark, (0, 0))
    assert "warning" not in run("ls").stderr
    late = stored / "late.jsonl"
    late.write_bytes(line(s="late", id="x", text="hello"))
    os.utime(late, (late.stat().st_atime, late.stat().st_mtime - 25 * 86_400))
    result = run("ls")
    assert (
        "warning: 1 transcript of Toy will soon be deleted by it (after 30 days) and is not stored"
        in result.stderr
    )
    assert "warning" not in result.stdout
    mark.touch()
    assert "warning" not in run("ls").stderr, "a sync was just now"
    mark.write_text("1\n")
    assert "warning" in run("ls").stderr, "it could not read everything"


# ── show ──────────────────────────────────────────────────────────────────────────────────────────
def test_show_folds_calls_and_shows_errors_and_diffs(run: Run, stored: Path) -> None:
    text = run("show", "alpha").stdout
    assert text.startswith("Fix the build\ntoy:alpha")
    assert "    0 ❯ please fix the build" in text
    assert "    1 ✗ tool_call  make all  → failed  (2.0 s)" in text
    assert "make: *** No rule" in text
    assert "    3 ▸ edit  src/a.c" in text
    assert "→ +1 −1" in text
    assert "+long a;" in text
    assert "tool_result" not in text
    assert "    5   It builds now." in text


def test_show_full_folds_nothing(run: Run, stored: Path, root: Path) -> None:
    (root / "long.jsonl").write_bytes(
        line(s="long", id="l", text="\n".join(f"line {n}" for n in range(60)), at=200)
    )
    run("sync")
    assert "line 59" not in run("show", "long").stdout
    assert "… 20 more lines (--full)" in run("show", "long").stdout
    assert "line 59" in run("show", "long", "--full").stdout


def test_show_marks_a_rewind_and_shows_what_it_left(run: Run, stored: Path) -> None:
    text = run("show", "beta").stdout
    assert "rain" not in text
    assert "    1 ⑂ rewound to here: 2 events left behind (--branch 1)" in text
    assert "about snow" in text
    left = run("show", "beta", "--branch", "1").stdout
    assert "about rain" in left
    assert "about snow" not in left
    everything = run("show", "beta", "--branch", "all").stdout
    assert "about rain" in everything
    assert "about snow" in everything


def test_show_refuses_a_branch_that_is_not_there(run: Run, stored: Path) -> None:
    assert (
        "there is no branch 1: nothing was rewound" in run("show", "alpha", "--branch", "1").stderr
    )
    assert "there is no branch 7: the last is 1" in run("show", "beta", "--branch", "7").stderr
    assert run("show", "beta", "--branch", "x").exit_code == 2


@pytest.mark.parametrize("words", [["alpha#2"], ["alpha", "--event", "2"], ["toy:alpha#2"]])
def test_show_gives_one_event_whole(run: Run, stored: Path, words: list[str]) -> None:
    text = run("show", *words).stdout
    assert text.startswith("toy:alpha#2\n")
    assert "is_error: True" in text
    assert text.endswith("line 1\nmake: *** No rule\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["alpha#2", "--event", "2"], "#EVENT and --event"),
        (["alpha#2", "--context", "2"], "#EVENT and --context"),
        (["alpha", "--event", "2", "--context", "2"], "--event and --context"),
        (["alpha", "--raw", "--context", "2"], "--raw and --context"),
        (["alpha", "--raw", "--json"], "--raw and --json"),
        (["beta", "--branch", "0", "--json"], "--branch and --json"),
        (["alpha#2", "--full"], "--full and #EVENT"),
        (["alpha", "--thinking", "--raw"], "--thinking and --raw"),
    ],
)
def test_show_refuses_options_that_ask_for_different_things(
    run: Run, stored: Path, words: list[str], told: str
) -> None:
    result = run("show", *words)
    assert result.exit_code == 2
    assert f"{told} do not go together" in result.stderr


def test_what_is_no_number_of_an_event_is_told_as_such(run: Run, stored: Path) -> None:
    result = run("show", "alpha#abc")
    assert result.exit_code == 2
    assert "'abc' is not an event number" in result.stderr
    assert run("show", "zeta#abc").stderr == "runlore: no session 'zeta'; `runlore ls` lists them\n"


def test_times_are_those_of_where_people_are(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "XXX-5:30")
    time.tzset()
    assert "ts: 2026-01-01 05:30:03\n" in run("show", "alpha#2").stdout
    assert "2026-01-01 05:31  6.0 s at work" in run("show", "beta").stdout.replace("5.0 s", "6.0 s")
    assert (
        json.loads(run("show", "alpha#2", "--json").stdout)["ts"] == "2026-01-01T00:00:03.000000Z"
    )


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (6, "2026-01-01 00:00  "),
        (600, "2026-01-01 00:00 → 00:10  "),
        (90_000, "2026-01-01 00:00 → 2026-01-02 01:00  "),
    ],
)
def test_show_tells_from_when_to_when(run: Run, stored: Path, end: int, told: str) -> None:
    with (stored / "alpha.jsonl").open("ab") as file:
        file.write(line(s="alpha", id="end", kind="assistant_msg", text="bye", at=end))
    run("sync")
    assert f"\n{told}" in run("show", "alpha").stdout


def test_show_of_a_session_in_which_nothing_was_said_says_so(run: Run, stored: Path) -> None:
    (stored / "quiet.jsonl").write_bytes(
        line(s="quiet", id="q1", kind="lifecycle", text="started")
        + line(s="quiet", id="q2", kind="lifecycle")
    )
    run("sync")
    assert (
        "nothing was said or done in it; --full shows 2 notes of the agent's own"
        in run("show", "quiet").stdout
    )
    assert "nothing was said" not in run("show", "quiet", "--full").stdout
    assert "nothing was said" not in run("show", "alpha").stdout


def test_the_margin_is_as_wide_as_the_longest_number(run: Run, stored: Path) -> None:
    (stored / "second.jsonl").write_bytes(
        line(s="alpha", id="z1", text="from a second file", at=50)
    )
    run("sync")
    text = run("show", "alpha").stdout
    assert "      0 ❯ please fix the build\n" in text
    assert "1048576 ❯ from a second file\n" in text


def test_a_word_that_ends_its_summary_is_shown_with_it(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = SessionEvent
    told = {"summary": "permission mode: plan"}
    monkeypatch.setattr(
        toy_module,
        "SessionEvent",
        lambda **fields: event(**{**fields, **(told if fields["summary"] == "plan" else {})}),
    )
    (stored / "mode.jsonl").write_bytes(
        line(s="mode", id="m1", kind="human_intervention", text="plan")
    )
    run("sync")
    assert "! permission mode: plan" in run("show", "mode").stdout


def test_what_stands_above_a_session_fits_a_narrow_screen(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "0123456789abcdef-0123456789"
    (stored / "long.jsonl").write_bytes(line(s=name, id="x", text="hello", at=500))
    run("sync")
    assert f"\ntoy:{name}  " in run("show", name).stdout
    monkeypatch.setenv("COLUMNS", "48")
    lines = run("show", name).stdout.splitlines()
    assert lines[1].startswith("01234567  0123")
    assert max(len(text) for text in lines if "/work/" not in text) <= 48


def test_subagents_are_named_by_short_ids_within_the_screen(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, parent = Facts, "0123456789abcdef-0123"

    def with_parent(**told: Any) -> Any:
        below = (
            {"parent_uid": f"toy:{parent}", "relation": "subagent"}
            if "/" in told["native_session_id"]
            else {}
        )
        return facts(**{**told, **below})

    monkeypatch.setattr(toy_module, "Facts", with_parent)
    text = "look for every place that is wide"
    (stored / "long.jsonl").write_bytes(
        line(s=parent, id="x", text="hello", at=500)
        + line(s=f"{parent}/agent-1", id="y", text=text, at=501)
    )
    run("sync")
    assert (
        "\n  01234567/agent-1  look for every place that is wide (1 event)\n"
        in run("show", parent).stdout
    )
    monkeypatch.setenv("COLUMNS", "60")
    assert (
        "\n  01234567/agent-1  look for every place that is … (1 event)\n"
        in run("show", parent).stdout
    )
    assert "\nsubagent of 01234567" not in run("show", f"{parent}/agent-1").stdout, (
        "it fits in full"
    )


def test_show_context_is_what_the_model_saw(run: Run, stored: Path) -> None:
    text = run("show", "beta", "--context", "4").stdout
    assert "about snow" in text
    assert "rain" not in text
    assert "White" not in text
    rows = json.loads(run("show", "beta", "--context", "3", "--json").stdout)
    assert [(row["seq"], row["body"], row["is_cleared"]) for row in rows][-1] == (
        3,
        "Drip, drop.",
        False,
    )


def test_show_raw_gives_the_agents_own_records(run: Run, stored: Path) -> None:
    records = [json.loads(text) for text in run("show", "alpha", "--raw").stdout.splitlines()]
    assert len(records) == 7
    assert records[6]["title"] == "Fix the build"
    assert json.loads(run("show", "alpha#1", "--raw").stdout)["id"] == "a2"


def test_show_json_holds_the_session_its_events_and_bodies(run: Run, stored: Path) -> None:
    data = json.loads(run("show", "beta", "--json").stdout)
    names = ("uid", "agent", "branch", "turns", "pinned")
    assert [data["session"][name] for name in names] == ["toy:beta", "toy", "main", 3, False]
    assert not data["session"].keys() & {"session_uid", "flavor", "git_branch", "cost"}
    assert [event["body"] for event in data["events"]][:2] == ["write a poem", "About what?"]
    assert [branch["is_active"] for branch in data["branches"]] == [True, False]
    assert json.loads(run("show", "beta#1", "--json").stdout)["body"] == "About what?"


def test_show_marks_copies_and_folds_many_of_them(run: Run, stored: Path, root: Path) -> None:
    copies = b"".join(
        line(s="gamma", id=f"g{n}", of=f"a{n}", text=f"copy {n}", at=n) for n in range(1, 7)
    )
    (root / "gamma.jsonl").write_bytes(copies + line(s="gamma", id="new", text="go on", at=300))
    run("sync")
    text = run("show", "gamma").stdout
    assert "from toy:alpha#" in text
    assert "go on" in text


def test_show_of_nothing_says_what_to_do(run: Run, stored: Path) -> None:
    result = run("show", "zeta")
    assert result.exit_code == 1
    assert result.stderr == "runlore: no session 'zeta'; `runlore ls` lists them\n"
    assert "has no event 99; its last is 5" in run("show", "alpha#99").stderr


def test_show_without_a_name_is_the_latest(run: Run, stored: Path) -> None:
    assert "toy:beta" in run("show").stdout


def test_a_number_of_a_branch_is_checked() -> None:
    assert show.which("all", 3) is None
    assert show.which("0", 0) == 0


# ── resume ────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def resumable(monkeypatch: pytest.MonkeyPatch, stored: Path, tmp_path: Path) -> Path:
    """An agent with a command of its own, and a folder for its sessions that is there."""
    folder = tmp_path / "it's here"
    folder.mkdir()

    def get(store: object, uid: str) -> Session:
        gone = datetime(2026, 2, 3, tzinfo=UTC) if (tmp_path / "gone").exists() else None
        return Session(
            session_uid=uid,
            flavor="toy",
            native_session_id=uid.partition(":")[2],
            cwd=str(folder),
            source_missing_at=gone,
        )

    monkeypatch.setattr("runlore.query.get", get)
    monkeypatch.setattr(
        Toy, "resume", lambda self, session: ["toy", "--resume", session.native_session_id]
    )
    return folder


@pytest.mark.skipif(os.name != "posix", reason="quoting of another shell")
def test_resume_prints_a_line_for_the_shell(run: Run, resumable: Path) -> None:
    assert (
        run("resume", "alpha").stdout == f"cd {shlex.quote(str(resumable))} && toy --resume alpha\n"
    )
    assert json.loads(run("resume", "alpha", "--json").stdout) == {
        "uid": "toy:alpha",
        "agent": "toy",
        "branch": None,
        "session_uid": "toy:alpha",
        "cwd": str(resumable),
        "cwd_exists": True,
        "source_missing_at": None,
        "command": ["toy", "--resume", "alpha"],
    }


@pytest.mark.skipif(os.name != "posix", reason="other systems start a process instead")
def test_resume_exec_becomes_the_agent_in_its_folder(
    run: Run, resumable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, list[str], str]] = []
    monkeypatch.chdir(resumable.parent)

    def execvp(program: str, words: list[str]) -> None:
        ran.append((program, words, os.getcwd()))
        raise FileNotFoundError

    monkeypatch.setattr("os.execvp", execvp)
    assert (
        run("resume", "alpha", "--exec").stderr
        == "runlore: toy is not installed, or not on the PATH\n"
    )
    assert ran == [("toy", ["toy", "--resume", "alpha"], str(resumable))]


def test_resume_says_so_when_the_folder_is_gone(run: Run, resumable: Path) -> None:
    resumable.rmdir()
    result = run("resume", "alpha")
    assert result.exit_code == 1
    assert "is not here (any more); elsewhere the command is: toy --resume alpha" in result.stderr
    data = json.loads(run("resume", "alpha", "--json").stdout)
    assert (data["cwd_exists"], data["command"]) == (False, ["toy", "--resume", "alpha"])


def test_resume_says_so_when_the_agent_deleted_its_transcript(
    run: Run, resumable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (resumable.parent / "gone").touch()
    told = (
        "the transcript of this session is gone since 2026-02-03: Toy will not find it; `runlore"
        " show alpha` still reads it\n"
    )
    result = run("resume", "alpha")
    assert (result.exit_code, result.stderr) == (0, told)
    assert result.stdout.endswith("toy --resume alpha\n")
    assert (
        json.loads(run("resume", "alpha", "--json").stdout)["source_missing_at"]
        == "2026-02-03T00:00:00Z"
    )
    monkeypatch.setattr("os.execvp", lambda *words: pytest.fail("it would find nothing"))
    result = run("resume", "alpha", "--exec")
    assert (result.exit_code, result.stderr) == (1, f"runlore: {told}")


def test_resume_says_so_when_the_agent_has_no_such_command(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toy, "resume", lambda self, session: None)
    assert (
        run("resume", "alpha").stderr
        == "runlore: Toy has no command that takes a session up again\n"
    )


# ── agents ────────────────────────────────────────────────────────────────────────────────────────
def test_agents_tells_where_it_looks_and_what_is_stored(run: Run, stored: Path) -> None:
    (row,) = json.loads(run("agents", "--json").stdout)
    assert (row["name"], row["sessions"], row["sources"]) == ("toy", 2, 2)
    assert row["roots"] == [{"path": str(stored), "exists": True, "machine": None}]
    assert row["last_sync"] is not None
    assert run("agents").stdout.endswith(" ~/.toy\n")


def test_agents_that_are_here_come_before_those_that_are_not(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here,) = query.agents(None, config.load())
    gone = msgspec.structs.replace(here, name="absent", roots=[])
    monkeypatch.setattr(query, "agents", lambda *_: [gone, here])
    first, second = run("agents").stdout.splitlines()[1:]
    assert (first.split()[0], first.endswith("~/.toy")) == ("toy", True)
    assert (second.split()[0], second.endswith("  not there")) == ("absent", True)


def test_agents_tells_what_an_agent_does_not(
    run: Run, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(run("agents", "--json").stdout)[0]["lacks"] == []
    monkeypatch.setattr(Toy, "lacks", ("tokens", "times"), raising=False)
    assert json.loads(run("agents", "--json").stdout)[0]["lacks"] == ["tokens", "times"]
    assert "tokens, times" in run("agents").stdout


def test_agents_tells_of_files_of_which_none_was_understood(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Toy, source: Source, since: Position | None) -> Iterator[Record]:
        raise ReadError(source.path, "no whole document")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(Toy, "read", refuse)
        run("sync")
    (row,) = json.loads(run("agents", "--json").stdout)
    assert (row["sessions"], row["sources"], row["not_understood"]) == (0, 2, 2)
    assert run("agents").stderr == (
        "warning: toy: 2 files, none understood; `runlore sync --agent toy` says why, and a newer"
        " runlore may understand more\n"
    )
    for file in root.iterdir():
        file.unlink()
    run("sync")
    assert run("agents").stderr == "", "they are gone"


def test_agents_tells_of_no_file_once_one_was_understood(run: Run, stored: Path) -> None:
    (row,) = json.loads(run("agents", "--json").stdout)
    assert row["not_understood"] == 0
    assert run("agents").stderr == ""


def test_agents_works_before_the_first_sync(run: Run, toy: Toy) -> None:
    (row,) = json.loads(run("agents", "--json").stdout)
    assert (row["sessions"], row["last_sync"], row["roots"][0]["exists"]) == (0, None, False)
    assert run("agents").stdout.endswith(" not there: ~/.toy\n")
