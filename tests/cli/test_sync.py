"""`sync`: what it tells people and programs, dry runs, and watching."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from runlore import config
from runlore.cli import watching
from runlore.cli.commands import sync
from runlore.query import synced_mark
from runlore.store import open_store
from runlore.sync.pipeline import Report
from tests.cli.conftest import Run
from tests.toy import Toy, line


def test_sync_tells_people_on_stderr_what_it_did(run: Run, root: Path) -> None:
    result = run("sync")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "sources: 2 new" in result.stderr
    assert "stored: 12 events of 2 sessions (2 new)" in result.stderr
    assert run("sync").stderr.startswith("nothing new in 2 sources")


def test_sync_gives_programs_a_report_on_stdout(run: Run, root: Path) -> None:
    result = run("sync", "--json")
    report = json.loads(result.stdout)
    assert result.stderr == ""
    assert (report["found"], report["events"], report["new_sessions"]) == ({"new": 2}, 12, 2)


def test_sync_says_what_became_of_every_source(run: Run, stored: Path) -> None:
    with (stored / "alpha.jsonl").open("ab") as file:
        file.write(line(s="alpha", id="a9", text="more", at=9) + b"not json\n")
    (stored / "beta.jsonl").unlink()
    text = run("sync").stderr
    assert "1 grown" in text
    assert "1 missing (their sessions stay)" in text


def test_a_sync_that_stored_nothing_claims_nothing(run: Run, stored: Path) -> None:
    (stored / "beta.jsonl").unlink()
    assert "stored:" not in run("sync").stderr


def test_how_records_were_read_is_told_to_those_who_ask() -> None:
    report = Report(
        found={"new": 1}, events=2, sessions=1, new_sessions=1, merged=3, copies=1, seconds=0.1,
        skipped={"timestamp is a text": 137}, redacted={"aws-key": 1}, size=10,
    )  # fmt: skip
    short = list(sync.summary(report))
    assert short == [
        "sources: 1 new",
        "stored: 2 events of 1 session (1 new) from 10 B in 0.1 s",
        "secrets redacted: 1 × aws-key",
    ]
    details = [line for line in sync.summary(report, is_verbose=True) if line not in short]
    assert details == [
        "merged into other events: 3 records",
        "copies of events stored elsewhere: 1",
        "not understood, kept as they are: 137 × timestamp is a text",
    ]


def test_what_was_not_understood_is_told_by_verbose_json_and_doctor(run: Run, stored: Path) -> None:
    with (stored / "alpha.jsonl").open("ab") as file:
        file.write(b"not json\n")
    text = run("sync", "--verbose").stderr
    assert "not understood, kept as they are: 1 × not JSON" in text
    with (stored / "alpha.jsonl").open("ab") as file:
        file.write(b"nor this\n")
    assert json.loads(run("sync", "--json").stdout)["skipped"] == {"not JSON": 1}
    result = run("doctor")
    assert "not understood, kept as is (2 ×): not JSON" in result.stdout + result.stderr


def test_an_interrupted_sync_says_what_stays(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runlore.sync.pipeline.sync", interrupt)
    result = run("sync")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "stopped; what was committed stays, `runlore sync` goes on from there\n"


def test_a_setting_for_no_agent_is_told(run: Run, root: Path, home: Path) -> None:
    (home / ".runlore").mkdir()
    (home / ".runlore/config.toml").write_text("[sources.nope]\nenabled = true\n")
    text = run("sync").stderr
    assert (
        "config.toml: [sources.nope] is about no agent that runlore reads; there are: toy\n" in text
    )
    assert "2 new" in text


def test_a_rule_that_cannot_be_used_is_told_with_its_file(run: Run, root: Path, home: Path) -> None:
    (home / ".runlore").mkdir()
    (home / ".runlore/config.toml").write_text(
        '[redact]\nrules = [{ name = "a", pattern = "(" }]\n'
    )
    assert run("sync").stderr.startswith(
        f"runlore: {home / '.runlore/config.toml'}: redact.rules: the pattern of 'a' cannot be used"
    )


def test_a_folder_that_cannot_be_read_is_named_as_such(
    run: Run, toy: Toy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".toy").mkdir()
    plain = os.scandir

    def scandir(path: str) -> object:
        if str(path) == str(home / ".toy"):
            raise PermissionError(13, "Permission denied", path)
        return plain(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert f"  {home / '.toy'}  (not readable)\n" in run("sync").stderr


def test_watching_gives_programs_lines_for_what_was_found(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(
        sync: Callable[[], Report], places: list[str], tell: Callable[[Report], None], known: object
    ) -> None:
        tell(sync())

    monkeypatch.setattr("runlore.cli.watching.watch", watch)
    lines = [json.loads(text) for text in run("sync", "--watch", "--json").stdout.splitlines()]
    assert [report["found"] for report in lines] == [{"new": 2}, {"unchanged": 2}]
    assert len(run("sync", "--watch", "--json").stdout.splitlines()) == 1, (
        "the first pass found nothing"
    )


def test_every_pass_of_a_verbose_watch_tells_how_records_were_read(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(
        sync: Callable[[], Report], places: list[str], tell: Callable[[Report], None], known: object
    ) -> None:
        with (stored / "alpha.jsonl").open("ab") as file:
            file.write(b"not json\n")
        tell(sync())

    monkeypatch.setattr("runlore.cli.watching.watch", watch)
    assert "not understood" not in run("sync", "--watch").stderr
    assert run("sync", "--watch", "-v").stderr.endswith(
        "          not understood, kept as they are: 1 × not JSON\n"
    )


def test_a_second_watch_leaves_with_a_message(run: Run, stored: Path) -> None:
    with watching.alone(config.load().home):
        result = run("sync", "--watch")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        result.stderr
        == "runlore: another `runlore sync --watch` is running; this one has nothing to do\n"
    )


def test_a_dry_run_stores_nothing_and_makes_nothing(run: Run, root: Path, home: Path) -> None:
    result = run("sync", "--dry-run")
    assert "2 new" in result.stderr
    assert "nothing was stored" in result.stderr
    assert not (home / ".runlore").exists()
    run("sync")
    assert run("sync", "--dry-run").stderr.startswith("nothing new")


def test_sync_that_finds_nothing_says_where_it_looked(run: Run, toy: Toy, home: Path) -> None:
    result = run("sync")
    assert result.exit_code == 0
    assert f"  {home / '.toy'}  (not there)" in result.stderr
    assert "runlore demo" in result.stderr


def test_of_many_places_only_those_that_are_there_are_named(
    run: Run, home: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "here").mkdir()
    found = [str(home / name) for name in ("here", *"abcdefgh")]
    monkeypatch.setattr(sync, "places", lambda *_: found)
    lines = run("sync").stderr.splitlines()
    assert lines[1:3] == [
        f"  {home / 'here'}",
        "  8 folders that are not there; `runlore agents` has the list",
    ]


def test_sync_looks_elsewhere_when_told(run: Run, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "far.jsonl").write_bytes(line(s="far", id="f", text="hello"))
    assert "1 new" in run("sync", "--agent", "toy", "--root", str(other)).stderr
    assert run("sync", "--agent", "toy", "--root", str(tmp_path / "nowhere")).exit_code == 2
    whose = run("sync", "--root", str(other))
    assert whose.exit_code == 2
    assert "say whose sessions" in whose.stderr
    assert run("sync", "--agent", "nobody").exit_code == 2


def test_only_a_whole_sync_counts_as_the_last(run: Run, root: Path) -> None:
    mark = synced_mark(config.load())
    run("sync", "--agent", "toy")
    assert not mark.exists()
    run("sync")
    assert mark.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_the_mark_of_the_last_sync_is_for_its_owner_alone(run: Run, root: Path) -> None:
    run("sync")
    mark = synced_mark(config.load())
    assert (mark.stat().st_mode & 0o777, mark.read_text()) == (0o600, "")


def test_the_mark_is_new_after_every_sync_and_tells_of_problems(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = synced_mark(config.load())
    os.utime(mark, (0, 0))
    run("sync")
    assert time.time() - mark.stat().st_mtime < 60
    monkeypatch.setattr(
        "runlore.sync.pipeline.sync",
        lambda *args, **options: Report(problems=[("/x", "not readable")]),
    )
    run("sync")
    assert mark.read_text() == "1\n"


def test_a_second_sync_leaves_with_a_message(run: Run, stored: Path) -> None:
    with closing(open_store(config.load().store)) as store, store.sync_lock():
        result = run("sync")
    assert result.exit_code == 1
    assert result.stderr == "runlore: another sync is running; this one has nothing to do\n"


def test_problems_are_named_with_their_path(run: Run) -> None:
    report = Report(
        found={"new": 12},
        problems=[(f"/x/\x1b[31m{n}", "not\nreadable") for n in range(12)],
        redacted={"token": 2, "assigned": 1},
        seconds=1,
    )
    text = "\n".join(sync.summary(report))
    assert "could not be read: 12 sources" in text
    assert "  /x/0: not readable" in text
    assert "and 2 more" in text
    assert "secrets redacted: 2 × token, 1 × assigned (password=…)" in text


def test_newer_rules_that_found_something_in_the_store_are_told() -> None:
    assert list(
        sync.summary(Report(found={"unchanged": 3}, redacted={"token": 2}, seconds=57))
    ) == [
        "nothing new in 3 sources (57 s)",
        "secrets redacted in what was stored before: 2 × token",
    ]


def test_watch_and_dry_run_do_not_go_together(run: Run, root: Path) -> None:
    assert run("sync", "--watch", "--dry-run").exit_code == 2


@pytest.mark.skipif(os.name != "posix", reason="ends by a signal")
def test_watch_waits_for_folders_and_ends_cleanly(home: Path) -> None:
    # A test that runs in the background of a shell ignores Ctrl-C, and so would what it starts.
    code = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " runpy.run_module('runlore', run_name='__main__')"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        [*words, "sync", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        deadline = time.monotonic() + 30
        while "Ctrl-C" not in process.stderr.readline():
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()
