"""`runlore live`: what people and programs are told of the sessions that agents write
themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.live.liveness import here
from runlore.live.log import LiveSession, SessionStore
from tests.cli.conftest import Run

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
POISON = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5n\u202egnp.exe\x08\x00\rover"


@pytest.fixture
def store(home: Path) -> Iterator[SessionStore]:
    made = SessionStore(home / ".runlore/live")
    yield made
    made.close()


@pytest.fixture
def talk(store: SessionStore) -> str:
    """A conversation with a tool call, that was rewound once."""
    with store.create(id="talk-1", agent="poet", cwd="/work/poems") as session:
        session.append({"role": "user", "content": "write a poem"})
        asked = session.append(
            {"role": "assistant", "content": [{"type": "text", "text": "About what?"}]}
        )
        session.append({"role": "user", "content": "about rain"})
        session.rewind(to=asked)
        session.append({"role": "user", "content": "about snow"})
        call = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "snow"}}
        session.append(
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, call]}
        )
    return "talk-1"


@pytest.fixture
def work(store: SessionStore) -> str:
    """A run with two checkpoints that failed."""
    with store.create("Write the report", id="work-1") as session:
        state = session.state
        state.start("report", agent_id="writer")
        state.progress("search", tokens=120_000, retries={"search": 4})
        state.checkpoint("search", {"hits": 3}, next_node="write", id="cp_one")
        state.progress("write", latency_ms=61_000)
        state.checkpoint("write", {"hits": 3, "draft": "x"}, clean=False, id="cp_two")
        state.fail("no paper")
    return "work-1"


def data(run: Run, *words: str) -> Any:
    result = run("live", *words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_another_folder_can_be_named_before_and_behind_the_command(
    run: Run, tmp_path: Path
) -> None:
    SessionStore(tmp_path / "here").create(id="elsewhere").close()
    for words in (
        ("--dir", str(tmp_path / "here"), "ls"),
        ("ls", "--dir", str(tmp_path / "here")),
        ("ls", f"--dir={tmp_path / 'here'}"),
    ):
        assert "elsewhere" in run("live", *words).stdout
    shown = run("live", "show", "--dir", str(tmp_path / "here"))
    assert "nothing was said; `runlore live tail elsewhere`" in shown.stderr
    assert "there are no live sessions in" in run("live", "ls").stderr
    assert "no live session is like that in" in run("live", "ls", "--agent", "x").stderr


# ── ls ────────────────────────────────────────────────────────────────────────────────────────────
def test_ls_lists_the_newest_first_with_status_and_what_needs_a_look(
    run: Run, talk: str, work: str
) -> None:
    head, first, second = run("live", "ls").stdout.splitlines()
    assert head.split() == ["ID", "STATUS", "WHEN", "MESSAGES", "AGENT", "NOTE", "TITLE"]
    assert first.startswith("work-1")
    assert "failed, retries, slow, tokens" in first
    assert first.endswith("Write the report")
    assert second.split()[:1] == ["talk-1"]
    assert second.endswith("write a poem")


def test_ls_gives_programs_the_same_keys_for_every_session(run: Run, talk: str, work: str) -> None:
    rows = data(run, "ls")
    assert [row["id"] for row in rows] == ["work-1", "talk-1"]
    assert {tuple(sorted(row)) for row in rows} == {tuple(sorted(rows[0]))}
    assert (rows[0]["status"], rows[0]["owner"], rows[0]["attention"]) == (
        "failed",
        None,
        ["failed", "retries", "slow", "tokens"],
    )
    assert (rows[1]["status"], rows[1]["agent"], rows[1]["messages"], rows[1]["cwd"]) == (
        None,
        "poet",
        5,
        "/work/poems",
    )


def test_ls_filters(run: Run, talk: str, work: str) -> None:
    assert [row["id"] for row in data(run, "ls", "--status", "failed")] == ["work-1"]
    assert [row["id"] for row in data(run, "ls", "--agent", "poet")] == ["talk-1"]
    assert [row["id"] for row in data(run, "ls", "--cwd", "/work/poems")] == ["talk-1"]
    assert len(data(run, "ls", "-n", "1")) == 1
    nothing = run("live", "ls", "--status", "paused")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no live session" in nothing.stderr


def test_ls_of_no_folder_is_empty_and_makes_none(run: Run, home: Path) -> None:
    assert data(run, "ls") == []
    assert not (home / ".runlore").exists()


def test_another_folder_can_be_named(run: Run, tmp_path: Path) -> None:
    with SessionStore(tmp_path / "mine").create(id="m1") as session:
        session.append({"role": "user", "content": "x"})
    assert [
        row["id"]
        for row in json.loads(run("live", "--dir", str(tmp_path / "mine"), "ls", "--json").stdout)
    ] == ["m1"]


def test_ls_notes_an_owner_that_died(run: Run, store: SessionStore) -> None:
    orphan(store, "lost")
    assert "owner dead" in run("live", "ls").stdout
    assert data(run, "ls")[0]["owner"] == "dead"


# ── names ─────────────────────────────────────────────────────────────────────────────────────────
def test_a_session_is_named_by_the_beginning_of_its_id_or_latest(
    run: Run, talk: str, work: str
) -> None:
    assert data(run, "state", "wor")["session_id"] == "work-1"
    assert data(run, "state")["session_id"] == "work-1"
    assert data(run, "state", "latest")["session_id"] == "work-1"
    missing = run("live", "show", "zzz")
    assert missing.exit_code == 1
    assert "no live session begins with 'zzz'" in missing.stderr


@pytest.mark.parametrize("name", ["..", "../work-1", "", "/etc", "\x1b[2J"])
def test_no_name_leads_out_of_the_store(run: Run, work: str, name: str) -> None:
    result = run("live", "show", name)
    assert result.exit_code == 1
    assert not OBEYED.search(result.stderr)


def test_a_beginning_that_several_share_is_ambiguous(run: Run, store: SessionStore) -> None:
    for id in ("twin-a", "twin-b"):
        store.create(id=id).close()
    result = run("live", "state", "twin")
    assert result.exit_code == 1
    assert "2 live sessions: twin-a, twin-b" in result.stderr
    assert run("live", "state", "twin-a").exit_code == 0


def test_latest_of_nothing_says_so(run: Run) -> None:
    result = run("live", "state")
    assert result.exit_code == 1
    assert "there are no live sessions" in result.stderr


# ── show and tail ─────────────────────────────────────────────────────────────────────────────────
def test_show_tells_what_the_model_sees_with_the_numbers_to_go_back_to(run: Run, talk: str) -> None:
    result = run("live", "show", talk)
    assert "write a poem" in result.stdout
    assert "about snow" in result.stdout
    assert "about rain" not in result.stdout
    assert "▸ look_up" in result.stdout
    assert "look_up (c1): it may have begun" in result.stderr
    assert re.search(r"^ +2 ● About what\?", result.stdout, re.MULTILINE)
    assert "1 other line (--branches)" in result.stderr
    assert "left another line at 2" in run("live", "show", talk, "--branches").stdout


def test_show_gives_programs_messages_with_their_records(run: Run, talk: str) -> None:
    told = data(run, "show", talk)
    assert list(told) == ["session", "messages", "open_calls", "branches", "problems"]
    assert [message["seq"] for message in told["messages"]] == [1, 2, 5, 6, None]
    assert told["messages"][0]["message"] == {"role": "user", "content": "write a poem"}
    assert told["open_calls"] == [
        {"call_id": "c1", "name": "look_up", "fate": "unknown", "replay": "never"}
    ]
    assert len(told["branches"]) == 2
    assert [message["seq"] for message in data(run, "show", talk, "--at", "3")["messages"]] == [
        1,
        2,
        3,
    ]


def test_show_folds_long_texts(run: Run, store: SessionStore) -> None:
    with store.create(id="long") as session:
        session.append({"role": "user", "content": "\n".join(f"line {n}" for n in range(30))})
    assert "… 18 more lines (--full)" in run("live", "show", "long").stdout
    assert "line 29" in run("live", "show", "long", "--full").stdout


def test_show_warns_of_what_cannot_be_read(run: Run, store: SessionStore, talk: str) -> None:
    file = store.path / talk / "log.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b"garbage\n", *lines[1:]]))
    for snapshot in (store.path / talk / "snapshots").glob("*"):
        snapshot.unlink()
    assert "warning: 1 place of the log could not be read" in run("live", "show", talk).stderr
    assert len(data(run, "show", talk)["problems"]) == 1


def test_tail_gives_the_last_records(run: Run, talk: str) -> None:
    lines = run("live", "tail", talk, "-n", "2").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["5", "6"]
    rows = [
        json.loads(line)
        for line in run("live", "tail", talk, "-n", "3", "--json").stdout.splitlines()
    ]
    assert [(row["seq"], row["type"]) for row in rows] == [
        (4, "rewind"),
        (5, "message"),
        (6, "message"),
    ]
    assert list(rows[0]) == ["seq", "id", "ts", "type", "key", "epoch", "payload"]
    assert run("live", "tail", talk, "-n", "0").stdout == ""


def test_tail_follows_what_is_appended(store: SessionStore, talk: str) -> None:
    words = [sys.executable, "-m", "runlore", "live", "tail", talk, "-n", "0", "-f", "--json"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True
    ) as process:
        try:
            assert process.stdout is not None
            with store.open(talk) as session:
                # Until it is seen: the other process may not have looked yet, and only what comes
                # later is told.
                seen = write_until_seen(session, process)
            assert seen["type"] == "note"
        finally:
            process.kill()


def write_until_seen(session: LiveSession, process: subprocess.Popen[str]) -> Any:
    import select

    assert process.stdout is not None
    for n in range(300):
        session.record("note", {"n": n})
        if select.select([process.stdout], [], [], 0.1)[0]:
            return json.loads(process.stdout.readline())
    raise AssertionError("nothing was told")


# ── state and checkpoints ─────────────────────────────────────────────────────────────────────────
def test_state_tells_what_is_known_of_the_run(run: Run, work: str) -> None:
    text = run("live", "state", work).stdout
    assert "work-1  failed" in text
    for expected in ("report", "no paper", "search → write", "retries, slow, tokens", "cp_two"):
        assert expected in text
    told = data(run, "state", work)
    assert (told["status"], told["result"]["error"], told["owner_verdict"]) == (
        "failed",
        "no paper",
        None,
    )
    assert told["attention"] == ["failed", "retries", "slow", "tokens"]
    assert told["refused"] == []
    assert told["progress"]["path"] == ["search", "write"]


def test_state_at_a_record_and_its_history(run: Run, work: str) -> None:
    assert data(run, "state", work, "--at", "2")["progress"]["path"] == ["search"]
    steps = data(run, "state", work, "--history")
    assert [(step["before"], step["after"]) for step in steps] == [
        ("new", "active"),
        ("active", "failed"),
    ]
    assert (
        run("live", "state", work, "--history")
        .stdout.splitlines()[1]
        .endswith("active → failed  no paper")
    )


def test_checkpoints_are_listed_compared_and_pruned(run: Run, work: str) -> None:
    rows = data(run, "checkpoints", work)
    assert [(row["id"], row["node"], row["is_clean"]) for row in rows] == [
        ("cp_one", "search", True),
        ("cp_two", "write", False),
    ]
    assert "search → write" in run("live", "checkpoints", work).stdout
    told = data(run, "checkpoints", work, "--compare", "cp_one", "cp_two")
    assert (told["added"], told["path"], told["counters"]["total_latency_ms"]) == (
        {"draft": "x"},
        ["write"],
        61_000,
    )
    assert (
        '+ draft: "x"' in run("live", "checkpoints", work, "--compare", "cp_one", "cp_two").stdout
    )
    assert data(run, "checkpoints", work, "--prune", "0") == [], (
        "one is the latest, the other the latest clean one"
    )
    missing = run("live", "checkpoints", work, "--compare", "cp_one", "cp_none")
    assert missing.exit_code == 1
    assert "no checkpoint 'cp_none'" in missing.stderr


def test_a_session_without_a_run_has_a_state_and_no_checkpoints(run: Run, talk: str) -> None:
    assert data(run, "state", talk)["status"] == "new"
    assert data(run, "checkpoints", talk) == []
    assert "no checkpoints" in run("live", "checkpoints", talk).stderr


# ── rewind, fork, recover ─────────────────────────────────────────────────────────────────────────
def test_rewind_goes_back_and_redo_takes_it_back(run: Run, talk: str) -> None:
    done = data(run, "rewind", talk, "2")
    assert (done["session"], done["messages"]) == (talk, 2)
    assert [message["seq"] for message in data(run, "show", talk)["messages"]] == [1, 2]
    assert data(run, "rewind", talk, "--redo")["messages"] == 5
    assert run("live", "rewind", talk).exit_code == 2
    assert run("live", "rewind", talk, "99").exit_code == 1
    assert "--redo` undoes it" in run("live", "rewind", talk, "1").stdout


def test_fork_makes_a_new_session(run: Run, talk: str) -> None:
    made = data(run, "fork", talk, "--at", "2", "--id", "child", "--title", "Another")
    assert (made["session"], made["origin"]["session"], made["origin"]["seq"]) == ("child", talk, 2)
    told = data(run, "show", "child")
    assert told["messages"][0]["message"]["content"] == "write a poem"
    assert len(told["messages"]) == 2
    assert f"fork of {talk} at record 2" in run("live", "show", "child").stdout
    assert run("live", "fork", talk, "--id", "child").exit_code == 1
    assert len(run("live", "fork", talk).stdout.strip()) >= 16


def orphan(store: SessionStore, id: str) -> None:
    owner = msgspec.to_builtins(msgspec.structs.replace(here(), started="before"))
    with store.create(id=id) as session:
        session.record("state.started", {"run": "r", "owner": owner})


def test_recover_marks_the_sessions_whose_process_died(
    run: Run, store: SessionStore, work: str
) -> None:
    orphan(store, "lost")
    seen = data(run, "recover", "--dry-run")
    assert [(row["session_id"], row["verdict"], row["marked"]) for row in seen] == [
        ("lost", "dead", None)
    ]
    assert data(run, "state", "lost")["status"] == "active"
    assert "lost  process" in run("live", "recover", "--dry-run").stdout
    done = data(run, "recover", "--mark", "paused")
    assert [row["marked"] for row in done] == ["paused"]
    assert set(done[0]["owner"]) == {
        "pid",
        "started",
        "boot",
        "host",
        "machine",
        "space",
        "heartbeat",
    }
    assert data(run, "state", "lost")["status"] == "paused"
    assert data(run, "recover") == []
    assert "no session has lost its process" in run("live", "recover").stderr


# ── hostile text ──────────────────────────────────────────────────────────────────────────────────
def test_no_command_lets_an_escape_through(run: Run, store: SessionStore) -> None:
    with store.create(POISON, id="poison", agent=POISON, model=POISON, cwd="/tmp") as session:
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": POISON},
            {"type": "thinking", "thinking": POISON},
            {"type": POISON},
            {"type": "tool_use", "id": POISON, "name": POISON, "input": {POISON: POISON}},
        ]
        session.append({"role": "user", "content": f"{POISON}\ud83d"})
        session.append({"role": "assistant", "content": blocks})
        session.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "x", "content": POISON, "is_error": True}
                ],
            }
        )
        session.append({"role": POISON, "content": POISON})
        session.record(POISON, {POISON: POISON})
        state = session.state
        state.start(POISON, agent_id=POISON)
        state.progress(POISON, buffer={POISON: POISON})
        state.problem(POISON)
        state.checkpoint(POISON, {POISON: "\ud83d"}, id="one", description=POISON, next_node=POISON)
        state.checkpoint(POISON, {"other" + POISON: POISON}, id=f"two{POISON}")
        session.record("state.started", {"run": POISON})
        state.pause(POISON, reason=POISON)
    orphan(store, "orphan")
    commands = [
        ["ls"], ["show", "poison"], ["show", "poison", "--full"], ["show", "poison", "--branches"],
        ["tail", "poison"], ["state", "poison"],
        ["state", "poison", "--history"], ["checkpoints", "poison"],
        ["checkpoints", "poison", "--compare", "one", f"two{POISON}"],
        ["checkpoints", "poison", "--compare", "one", POISON],
        ["fork", "poison", "--title", POISON], ["rewind", "poison", "1"],
        ["show", POISON], ["rewind", "poison", POISON], ["recover", "--dry-run"],
    ]  # fmt: skip
    for words in commands:
        for more in ([], ["--json"]):
            result = run("live", *words, *more)
            assert "bug" not in result.stderr, words
            found = OBEYED.search(result.stdout + result.stderr)
            printed = result.stdout + result.stderr
            assert found is None, (
                f"{words}: {printed[max(0, found.start() - 40) : found.end() + 40]!r}"
            )
            for line in result.stdout.splitlines() if more and result.exit_code == 0 else ():
                json.loads(line)
    assert "red" in run("live", "show", "poison").stdout, "the text itself is there"


def test_what_a_rewind_says_can_be_done(store: SessionStore, talk: str, run: Run) -> None:
    assert "--redo` undoes it" in run("live", "rewind", talk, "1").output
    assert "undoes" not in run("live", "rewind", talk, "--redo").output
    lines = run("live", "show", talk, "--branches").output.splitlines()
    assert "from the beginning" in lines[0]
    assert "left another line at 2" in lines[1]
