"""`runlore lessons`: from a proposal to a block in a file, and back to the byte."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from runlore import adapters
from runlore import config as settings
from runlore.digest.errors import signature
from runlore.errors import ModelError
from runlore.lessons import Lesson, actions, deliver, rendered_files
from runlore.lessons.shelf import Shelf
from runlore.live import SessionStore
from runlore.mine.cases import read_cases
from runlore.model import format_time
from runlore.store import Filter, open_store
from runlore.sync import pipeline
from tests.cli.conftest import Run
from tests.mine.test_known_errors import ERRORS, NOW, session
from tests.projects import checkout
from tests.test_hooks import SESSION, run_sync, transcript
from tests.test_poisoning import plant
from tests.toy import line


@pytest.fixture
def shelf(home: Path) -> Shelf:
    return Shelf(home / ".runlore/lessons")


@pytest.fixture
def met(home: Path) -> None:
    """Three sessions that met an error and got over it in the same way, one that met it and did
    not."""
    setting = settings.load()
    settings.make_home(setting.home)
    with closing(open_store(setting.store)) as store:
        for n in range(3):
            plant(store, f"s{n}", repo="acme/shop", after="npm install", error=ERRORS["key"])
        session(store, "s3", repo="acme/shop", key=None)


def lesson(name: str = "abc", **fields: object) -> Lesson:
    given = {
        "when": "it fails",
        "do": "do this",
        "evidence": ("toy:a#1",),
        "sessions": 3,
        **fields,
    }
    return Lesson(id=name, **given)  # type: ignore[arg-type]


def test_a_proposal_is_found_approved_and_told(run: Run, met: None, shelf: Shelf) -> None:
    assert "no lessons" in run("lessons", "list").stderr
    assert "KeyError" in run("lessons", "propose", "--dry-run").stdout
    assert shelf.read() == ([], [])
    assert "1 new proposal" in run("lessons", "propose").stderr
    [made] = shelf.read()[0]
    assert (made.status, made.sessions, made.helped, made.repo) == ("proposed", 3, 3, "acme/shop")
    assert "npm install" in made.do
    assert "KeyError" in run("lessons", "list").stdout
    assert "shown to agents" in run("lessons", "approve", made.id[:6], "--why", "seen it").stderr
    assert (shelf.get(made.id).status, shelf.get(made.id).why) == ("approved", "seen it")
    assert "0 new proposals, 0 lessons" in run("lessons", "propose").stderr
    assert "npm install" in run("lessons", "show", made.id).stdout


def test_a_reject_stays_and_a_retired_one_is_kept(run: Run, met: None, shelf: Shelf) -> None:
    run("lessons", "propose")
    [made] = shelf.read()[0]
    run("lessons", "reject", made.id)
    assert json.loads(run("lessons", "propose", "--json").stdout)["lessons"] == []
    assert json.loads(run("lessons", "list", "--json").stdout) == []
    assert [
        one["status"] for one in json.loads(run("lessons", "list", "--all", "--json").stdout)
    ] == ["rejected"]
    run("lessons", "retire", made.id)
    assert shelf.get(made.id).status == "retired"


def test_what_is_approved_takes_the_place_of_what_it_supersedes(run: Run, shelf: Shelf) -> None:
    shelf.put(lesson("old", status="approved"))
    shelf.put(lesson("new", supersedes="old"))
    run("lessons", "approve", "new")
    assert (shelf.get("old").status, shelf.get("old").superseded_by) == ("superseded", "new")
    shelf.put(lesson("newer", supersedes="gone"))
    assert run("lessons", "approve", "newer").exit_code == 0


def test_little_evidence_waits(run: Run, shelf: Shelf) -> None:
    shelf.put(lesson(sessions=2))
    result = run("lessons", "approve", "abc")
    assert "once 3 sessions have its problem; 2 do" in result.stderr
    assert not json.loads(run("lessons", "show", "abc", "--json").stdout)["is_shown"]
    assert "waits" in run("lessons", "list").stdout


def test_an_edit_changes_the_words_and_where_it_applies(run: Run, shelf: Shelf) -> None:
    shelf.put(lesson())
    run("lessons", "edit", "abc", "--do", "do that", "--repo", "shop")
    made = shelf.get("abc")
    assert (made.do, made.repo, made.when, made.edited) == (
        "do that",
        "shop",
        "it fails",
        True,
    )
    run("lessons", "edit", "abc", "--repo", "")
    assert shelf.get("abc").repo == ""


def test_a_lesson_by_hand_needs_evidence_that_there_is(run: Run, met: None, shelf: Shelf) -> None:
    words = [
        "lessons",
        "add",
        "--when",
        "the build is slow",
        "--do",
        "use the cache ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    ]
    assert run(*words).exit_code == 2
    assert run(*words, "--evidence", "nobody").exit_code == 1
    assert run(*words, "--evidence", "toy:s1#99").exit_code == 1
    assert shelf.read() == ([], [])
    assert run(*words, "--evidence", "toy:s1#0", "--error", "KeyError: 'user'").exit_code == 0
    [made] = shelf.read()[0]
    assert (made.status, made.by, made.evidence) == ("proposed", "person", ("toy:s1#0",))
    assert made.fingerprint
    assert "ghp_" not in made.do
    run("lessons", "approve", made.id)
    run(*words, "--evidence", "toy:s1#0", "--error", "KeyError: 'user'")
    assert shelf.get(made.id).status == "approved"


def test_a_broken_file_is_named_and_the_others_are_listed(run: Run, shelf: Shelf) -> None:
    shelf.put(lesson())
    (shelf.folder / "bad.md").write_text("x\x1b[31m")
    result = run("lessons", "list")
    assert "it fails" in result.stdout
    assert "bad.md is no lesson" in result.stderr
    assert "\x1b[31m" not in result.stderr


# ── a block in a file ─────────────────────────────────────────────────────────────────────────────
TEXTS = {
    "none": None,
    "empty": b"",
    "a line": b"# Rules\n",
    "no end of line": b"# Rules",
    "windows": b"# Rules\r\n\r\nBe kind.\r\n",
    "blank lines at the end": b"# Rules\n\n\n",
    "a mark of bytes": b"\xef\xbb\xbf# Rules\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_block_comes_and_goes_to_the_byte(
    run: Run, tmp_path: Path, shelf: Shelf, text: bytes | None
) -> None:
    file = tmp_path / "AGENTS.md"
    if text is not None:
        file.write_bytes(text)
    shelf.put(lesson(status="approved", when="it <!-- fails -->", do="do\nthis"))
    shelf.put(lesson("def"))
    dry = run("lessons", "render", str(file), "--dry-run")
    assert "+- it ‹!-- fails --›: do this [abc]" in dry.stdout
    assert (file.read_bytes() if file.exists() else None) == text
    refused = run("lessons", "render", str(file))
    assert (refused.exit_code, file.read_bytes() if file.exists() else None) == (2, text)
    assert run("lessons", "render", str(file), "--yes").exit_code == 0
    written = file.read_bytes()
    assert written.startswith(text or b"")
    assert b"def" not in written
    assert b"\n" not in written.replace(b"\r\n", b"") or b"\r\n" not in (text or b"")
    shelf.put(lesson("ghi", status="approved", when="more"))
    assert run("lessons", "render", str(file), "--yes").exit_code == 0
    assert file.read_bytes().count(b"begin") == 1
    assert b"[ghi]" in file.read_bytes()
    assert "nothing to change" in run("lessons", "render", str(file), "--yes").stderr
    assert run("lessons", "render", str(file), "--remove", "--yes").exit_code == 0
    assert (file.read_bytes() if file.exists() else None) == text


def test_where_there_is_no_block_to_take_out_that_is_said(
    run: Run, tmp_path: Path, shelf: Shelf
) -> None:
    shelf.put(lesson(status="approved"))
    file = tmp_path / "AGENTS.md"
    file.write_text("one\n")
    result = run("lessons", "render", str(file), "--remove")
    assert (result.exit_code, file.read_text()) == (0, "one\n")
    assert "there is no block of runlore in it" in result.stderr


def test_what_was_changed_around_a_block_stays(run: Run, tmp_path: Path, shelf: Shelf) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("one\n")
    shelf.put(lesson(status="approved"))
    run("lessons", "render", str(file), "--yes")
    file.write_text("zero\n" + file.read_text().replace("do this", "mine") + "two\n")
    run("lessons", "render", str(file), "--remove", "--yes")
    assert file.read_text().split() == ["zero", "one", "two"]


def test_two_blocks_are_refused_and_only_what_fits_the_repository_is_told(
    run: Run, tmp_path: Path, shelf: Shelf
) -> None:
    file = tmp_path / "AGENTS.md"
    shelf.put(lesson(status="approved", repo="acme/shop"))
    assert run("lessons", "render", str(file), "--yes").exit_code == 0
    assert not file.exists()
    run("lessons", "render", str(file), "--repo", "acme/shop", "--yes")
    file.write_text(file.read_text() * 2)
    refused = run("lessons", "render", str(file), "--repo", "acme/shop", "--yes")
    assert (refused.exit_code, "2 blocks" in refused.stderr) == (1, True)


def test_lessons_of_another_repository_than_the_files_are_put_in_with_a_warning(
    run: Run, tmp_path: Path, shelf: Shelf
) -> None:
    checkout(tmp_path)
    shelf.put(lesson(status="approved", repo="acme/shop"))
    shelf.put(lesson("def", status="approved", repo="other/x"))
    file = tmp_path / "AGENTS.md"
    for words in ([], ["--repo", "acme/shop"], ["--repo", "shop"]):
        here = run("lessons", "render", str(file), "--dry-run", *words)
        assert (
            "[abc]" in here.stdout,
            "[def]" in here.stdout,
            "sessions there" in here.stderr,
        ) == (True, False, False)
    there = run("lessons", "render", str(file), "--dry-run", "--repo", "other/x")
    assert ("[abc]" in there.stdout, "[def]" in there.stdout) == (False, True)
    assert "is in acme/shop, and sessions there will read lessons of other/x" in there.stderr


def test_a_block_is_short_says_for_whom_and_what_it_costs_and_holds_no_secret(
    run: Run, tmp_path: Path, shelf: Shelf
) -> None:
    file, secret = tmp_path / "AGENTS.md", "ghp_" + "R7kQ2mZx9LpW4vTn8YcB1sDf6HgJ3eUa0iOw"
    # As somebody may write it into the file.
    shelf.put(
        lesson(
            status="approved",
            agent="claude",
            when="no <path>",
            do=f"use {secret} for <details>\n{'word ' * 900}",
        )
    )
    done = run("lessons", "render", str(file), "--yes")
    text = file.read_text()
    assert "no ‹path› (claude): use [redacted:" in text
    assert secret not in text + (shelf.folder.parent / "installed.json").read_text()
    assert max(map(len, text.splitlines())) < 1000
    assert re.search(r"every session that reads it pays about \d+ tokens for 1 lesson", done.stderr)


def test_a_secret_that_somebody_wrote_into_a_file_goes_when_lessons_are_looked_at_again(
    run: Run, met: None, shelf: Shelf
) -> None:
    shelf.put(lesson("abc", status="approved", do="use ghp_R7kQ2mZx9LpW4vTn8YcB1sDf6HgJ3eUa0iOw"))
    run("lessons", "propose")
    assert "use [redacted:" in shelf.get("abc").do
    assert "0 new proposals, 0 lessons" in run("lessons", "propose").stderr


def test_agents_may_propose_until_nobody_could_read_it_all(met: None, shelf: Shelf) -> None:
    setting = settings.load()
    for n in range(actions.MAX_AGENT_PROPOSALS):
        shelf.put(lesson(f"l{n}", by="agent"))
    with closing(open_store(setting.store)) as store:
        with pytest.raises(ModelError, match="200 proposals of agents wait"):
            actions.write(store, setting, "p", "r", ["toy:s0"], NOW, by="agent")
        assert (
            actions.write(store, setting, "p", "r", ["toy:s0"], NOW, by="person").status
            == "proposed"
        )


def test_a_damaged_record_of_what_was_shown_costs_itself(
    run: Run, home: Path, met: None, shelf: Shelf
) -> None:
    shelf.put(lesson(status="approved"))
    deliver.record_delivery(
        home / ".runlore", "text", NOW, agent="toy", session="s0", repo="", lessons=("abc",)
    )
    with open(home / ".runlore" / deliver.FILE_NAME, "a") as file:
        for at in ("", "yesterday", "2026-01-01", "2026-01-01T00:00:00"):
            file.write(
                json.dumps(
                    {
                        "at": at,
                        "agent": "toy",
                        "session": "s1",
                        "event": "start",
                        "lessons": ["abc"],
                    }
                )
                + "\n"
            )
    [found] = json.loads(run("measure", "--json").stdout)["lessons"]
    assert (found["ways"], found["outside"]) == ({"start": 1}, 1)


def test_merging_gives_the_evidence_to_the_other(run: Run, shelf: Shelf) -> None:
    shelf.put(lesson("abc"))
    shelf.put(msgspec.structs.replace(lesson("def"), evidence=("toy:b#2",)))
    assert run("lessons", "merge", "abc", "abc").exit_code == 2
    run("lessons", "merge", "abc", "def")
    assert shelf.get("def").evidence == ("toy:b#2", "toy:a#1")
    assert shelf.get("abc").superseded_by == "def"


# ── whether they help ─────────────────────────────────────────────────────────────────────────────
def decide(home: Path, *, session: str = "s3", withheld: bool = False) -> None:
    deliver.record_delivery(
        home / ".runlore",
        "text",
        NOW - timedelta(days=2),
        agent="toy",
        session=session,
        repo="acme/shop",
        lessons=() if withheld else ("abc",),
        withheld=("abc",) if withheld else (),
        share=0.2,
    )


def test_the_effect_of_a_lesson_is_measured_by_both_groups(
    run: Run, home: Path, met: None, shelf: Shelf
) -> None:
    assert "no lesson was shown" in run("measure").stderr
    shelf.put(lesson(status="approved", fingerprint=fingerprint_of("key"), when="it \x1b[31mfails"))
    decide(home)
    decide(home, session="s2", withheld=True)
    shown = run("measure")
    assert "too early  1 of 1  1 of 1    -           2/50" in shown.stdout
    assert "weaker evidence, which gives no verdict" in shown.stdout
    assert "\x1b" not in shown.stdout
    [found] = json.loads(run("measure", "--json").stdout)["lessons"]
    assert (found["id"], found["in_trial"], found["verdict"]) == ("abc", 2, "too early")
    assert found["recurs"] == {
        "shown": 1, "shown_of": 1, "withheld": 1, "withheld_of": 1, "low": None, "high": None,
    }  # fmt: skip
    assert [
        one["period"]
        for one in json.loads(run("measure", "--by", "week", "--json").stdout)["fleet"]
    ] == ["2026-W22"]


def test_a_lesson_that_harms_is_proposed_to_be_retired(run: Run, home: Path, shelf: Shelf) -> None:
    shelf.put(lesson(status="approved", fingerprint=fingerprint_of("key")))
    setting = settings.load()
    settings.make_home(setting.home)
    with closing(open_store(setting.store)) as store:
        for n in range(50):
            if n < 20:
                session(store, f"n{n}", repo="acme/shop")
            else:
                session(store, f"n{n}", repo="acme/shop", key=None)
            decide(home, session=f"n{n}", withheld=n < 20)
    shown = run("measure").stdout
    assert "harms" in shown
    assert "0 of 20" in shown
    assert "percentage points" in shown
    assert "abc: its problem is more frequent where it was shown; to retire it:" in shown
    assert "`runlore lessons retire abc`" in shown
    run("lessons", "retire", "abc")
    assert shelf.get("abc").status == "retired"


def test_sessions_that_read_a_lesson_in_a_file_are_outside_the_trial(
    run: Run, home: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = checkout(home / "shop")
    shelf.put(lesson(status="approved", fingerprint=fingerprint_of("key"), repo="acme/shop"))
    file, notes = project / "AGENTS.md", home / ".runlore" / rendered_files.FILE_NAME
    run("lessons", "render", str(file), "--dry-run")
    assert not notes.exists()
    run("lessons", "render", str(file), "--yes")
    written = datetime.now(UTC)
    setting = settings.load()
    with closing(open_store(setting.store)) as store:
        for name, hours in (("before", -2), ("shown", 1), ("also", 2), ("late", 9)):
            days_ago = (NOW - written - timedelta(hours=hours)).total_seconds() / 86_400
            session(store, name, repo="acme/shop", cwd=str(project), days_ago=days_ago, key=None)
    monkeypatch.setattr(adapters, "instructions", lambda _: ("AGENTS.md",))
    assert "not measurable" in run("measure").stdout
    [found] = json.loads(run("measure", "--json").stdout)["lessons"]
    assert (found["ways"], found["outside"], found["why"]) == (
        {"file": 3},
        3,
        "it was shown outside the trial only",
    )
    note = msgspec.json.decode(notes.read_bytes().splitlines()[-1])
    with open(notes, "ab") as more:  # As a look would note it when a person has taken it out.
        more.write(
            msgspec.json.encode(
                {
                    **note,
                    "at": format_time(written + timedelta(hours=5)),
                    "lessons": [],
                    "names": [],
                }
            )
            + b"\n"
        )
    [found] = json.loads(run("measure", "--json").stdout)["lessons"]
    assert found["ways"] == {"file": 2}
    assert len(notes.read_bytes().splitlines()) == 3  # Measuring notes nothing.
    monkeypatch.setattr(adapters, "instructions", lambda _: ("CLAUDE.md",))
    assert json.loads(run("measure", "--json").stdout)["lessons"] == []


def test_a_session_that_asked_for_a_lesson_was_shown_it(
    run: Run, home: Path, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.put(lesson(status="approved", fingerprint=fingerprint_of("key")))
    answer = (
        "total: 1\n<recorded 1f>\nabc (approved): it fails\n  3 sessions; e.g. toy:a#1\ndo"
        " this\n</recorded 1f>"
    )
    asked = {
        "type": "tool_use",
        "id": "t1",
        "name": "mcp__runlore__lessons",
        "input": {"task": "the build"},
    }
    given = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": answer}],
    }
    transcript(
        home, tmp_path, "fix the build",
        {"type": "assistant", "message": {"role": "assistant", "id": "m1", "content": [asked]}},
        {"type": "user", "message": {"role": "user", "content": [given]}},
    )  # fmt: skip
    transcript(home, tmp_path, "another", session="5e55104e-0000-4000-8000-000000000000")
    run_sync()
    uid = f"claude:{SESSION}"
    [found] = json.loads(run("measure", "--json").stdout)["lessons"]
    assert (found["ways"], found["outside"], found["verdict"], found["tokens"] > 20) == (
        {"request": 1},
        1,
        "not measurable",
        True,
    )
    assert "got lessons     #2 abc" in run("show", uid, "--digest").stdout
    run("forget", uid, "--yes")
    assert json.loads(run("measure", "--json").stdout)["lessons"] == []


def test_a_sync_sees_that_somebody_took_lessons_out_of_a_file(
    run: Run, home: Path, tmp_path: Path, shelf: Shelf
) -> None:
    file, place = tmp_path / "AGENTS.md", home / ".runlore"
    shelf.put(lesson(status="approved"))
    run("lessons", "render", str(file), "--yes")
    run("sync", "--dry-run")
    file.write_text("mine\n")
    run("sync", "--dry-run")
    assert [note.lessons for note in rendered_files.read_records(place)] == [(), ("abc",)]
    for _ in range(2):
        run("sync")
    assert [note.lessons for note in rendered_files.read_records(place)] == [(), ("abc",), ()]
    run("lessons", "render", str(file), "--yes")
    run("lessons", "render", str(file), "--remove", "--yes")
    assert [note.lessons for note in rendered_files.read_records(place)] == [
        (),
        ("abc",),
        (),
        ("abc",),
        (),
    ]


def fingerprint_of(name: str) -> str:
    found = signature(ERRORS[name])
    assert found is not None
    return found.fingerprint


def test_forgetting_a_session_reaches_lessons_and_the_notes_on_what_was_told(
    run: Run, home: Path, met: None, shelf: Shelf
) -> None:
    run("lessons", "propose")
    [made] = shelf.read()[0]
    run("lessons", "approve", made.id)
    place, now = home / ".runlore", datetime(2026, 9, 1, tzinfo=UTC)
    for name in ("s0", "s1"):
        deliver.record_delivery(
            place, "text", now, agent="toy", session=name, repo="", lessons=(made.id,)
        )
    assert json.loads(run("forget", "toy:s0", "--json").stdout)["lessons"] == [made.id]
    assert len(shelf.get(made.id).evidence) == 3
    assert (
        "1 lesson has words or evidence of these, which went as well; what you decided stays:"
        f" {made.id}" in run("forget", "toy:s0", "--yes").stderr
    )
    left = shelf.get(made.id)
    assert (left.status, left.helped, "toy:s0" in str(left.evidence)) == ("approved", 2, False)
    assert [one.session for one in deliver.read_records(place)] == ["s1"]
    assert b"s0" not in (place / deliver.FILE_NAME).read_bytes()
    run("forget", "toy:s1", "toy:s2", "--yes")
    gone = shelf.get(made.id)
    assert (gone.status, gone.do, gone.evidence) == ("approved", "", ())
    assert "KeyError" not in (shelf.folder / f"{made.id}.md").read_text()
    assert "lesson" not in run("forget", "toy:s3", "--yes").stderr


def test_forgetting_names_files_in_which_nothing_could_be_looked_for(
    run: Run, met: None, shelf: Shelf
) -> None:
    shelf.put(lesson())
    (shelf.folder / "torn.md").write_text("+++\nid = \ntoy:s0 said this")
    dry, done = run("forget", "toy:s0", "--json"), run("forget", "toy:s0", "--yes")
    assert json.loads(dry.stdout)["unread"] == [str(shelf.folder / "torn.md")]
    assert "torn.md is no lesson" in done.stderr
    assert (shelf.folder / "torn.md").exists()


def test_the_model_that_passed_where_others_failed_is_proposed_for_a_skill(
    run: Run, home: Path
) -> None:
    live = SessionStore(home / ".runlore/live")
    for tries in ([("small", 1)],) * 2 + ([("small", 1), ("strong", 0)],) * 5:
        with live.create() as one, one.skills.run("refactor") as skill:
            for model, code in tries:
                with skill.attempt(model=model) as attempt:
                    attempt.verified(by="exit_code", command="make", exit_code=code)
    setting = settings.load()
    settings.make_home(setting.home)
    with closing(open_store(setting.store)) as store:
        pipeline.sync(store, setting, workers=0, quiet_s=0)
    [found] = [
        one
        for one in json.loads(run("lessons", "propose", "--json").stdout)["lessons"]
        if one["kind"] == "skill"
    ]
    assert (found["about"], found["helped"], found["sessions"]) == ("refactor", 5, 7)
    assert "Give it to strong" in found["do"]
    assert {one["model"] for one in json.loads(run("retro", "--json").stdout)["skills"]} == {
        "small",
        "strong",
    }
    assert json.loads(run("retro", "--repo", "nowhere", "--json").stdout)["skills"] == []


def test_sessions_with_an_event_in_common_are_one_piece_of_evidence(run: Run, stored: Path) -> None:
    copied = b"".join(line(s="gamma", id=f"a{n}", text="copy", at=n) for n in range(1, 7))
    (stored / "gamma.jsonl").write_bytes(copied + line(s="gamma", id="new", text="go on", at=300))
    run("sync")
    setting = settings.load()
    with closing(open_store(setting.store)) as store:
        pipeline.sync(store, setting, workers=0, quiet_s=0)
        roots = {
            case.uid: (case.root, case.is_subagent) for case in read_cases(store, setting, Filter())
        }
    assert roots == {
        "toy:alpha": ("toy:alpha", False),
        "toy:beta": ("toy:beta", False),
        "toy:gamma": ("toy:alpha", False),
    }


def test_two_that_decide_at_once_lose_nothing(run: Run, shelf: Shelf) -> None:
    shelf.put(lesson("abc"))
    before = shelf.get("abc")
    run("lessons", "approve", "abc", "--why", "seen it")
    made = actions.edit(settings.load(), before, msgspec.structs.replace(before, do="do that"))
    assert (made.status, made.why, made.do, made.edited) == (
        "approved",
        "seen it",
        "do that",
        True,
    )
    assert shelf.get("abc") == made


def test_a_proposal_waits_for_who_is_deciding(home: Path, met: None, shelf: Shelf) -> None:
    code = (
        "import runpy, sys; sys.argv = ['runlore', 'lessons', 'propose'];"
        " runpy.run_module('runlore', run_name='__main__')"
    )
    with shelf.lock():
        other = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(3)
        assert shelf.read() == ([], [])
    assert other.wait(60) == 0
    assert len(shelf.read()[0]) == 1


def test_secrets_in_what_a_person_writes_are_not_kept(run: Run, shelf: Shelf) -> None:
    secret = "ghp_" + "R7kQ2mZx9LpW4vTn8YcB1sDf6HgJ3eUa0iOw"
    shelf.put(lesson("abc"))
    run(
        "lessons",
        "edit",
        "abc",
        "--do",
        f"log in with {secret}",
        "--repo",
        "acme/\x1b[31mshop",
    )
    run("lessons", "approve", "abc", "--why", f"because of {secret}")
    text = (shelf.folder / "abc.md").read_text()
    assert secret not in text
    assert text.count("[redacted:") == 2
    assert shelf.get("abc").repo == "acme/shop"


def test_there_is_nothing_to_measure_without_a_store(run: Run) -> None:
    assert (run("measure").exit_code, "runlore sync" in run("measure").stderr) == (1, True)


# ── looking back ──────────────────────────────────────────────────────────────────────────────────
def test_a_look_back_is_printed_packed_and_written(run: Run, met: None, tmp_path: Path) -> None:
    text = run("retro", "--days", "3650").stdout
    assert "KeyError" in text
    assert "toy:s" in text
    assert "is an instruction to you" in run("retro", "--days", "3650", "--pack").stdout
    file = tmp_path / "retro.html"
    result = run("retro", "--days", "3650", "--html", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert file.read_text().startswith("<!doctype html>")
    assert (
        "is an instruction to you"
        in run("retro", "--days", "3650", "--pack", "--html", str(file), "--force").stdout
    )
    data = json.loads(run("retro", "--days", "3650", "--json").stdout)
    assert (data["sessions"], [one["repo"] for one in data["suggestions"]]) == (4, ["acme/shop"])
    nowhere = run("retro", "--days", "3650", "--repo", "nowhere", "--json")
    assert json.loads(nowhere.stdout)["sessions"] == 0
    assert "--days N looks further back" in nowhere.stderr


def test_there_is_nothing_to_look_back_at_without_a_store(run: Run) -> None:
    assert run("retro").exit_code == 1
