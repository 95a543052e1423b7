"""Where the older skill log failed, one test for each: it would fail there, and does not here.

Numbered as they were found: a line limit, a corrupt line, a torn line, names that lead elsewhere,
and so on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import LogError, ModelError
from runlore.live import LiveSession, SessionStore, importers, skills
from runlore.live.skills import SkillEntry, SkillLog
from runlore.model import Usage
from tests.live.memory import MemoryLog
from tests.live.test_importers import entry, skill_log

pytestmark = pytest.mark.folder


@pytest.fixture
def session(store: SessionStore) -> LiveSession:
    return store.create(id="s-1")


def log_of(session: LiveSession) -> Path:
    """The session's own file of lines."""
    (file,) = session.path.glob("*.jsonl")
    return file


def invoke(session: LiveSession, skill: str, code: int = 0, model: str = "m") -> None:
    with session.skills.run(skill) as run, run.attempt(model=model) as attempt:
        attempt.verified(by="exit_code", command="make", exit_code=code)


def test_01_a_line_longer_than_64_kib_is_read_back(session: LiveSession) -> None:
    with (
        session.skills.run("tdd", input={"text": "i" * 300_000}) as run,
        run.attempt(model="m") as attempt,
    ):
        attempt.output(runner_output="o" * 300_000)
    (found,) = session.skills.entries()
    assert len(found.input["text"]) == len(found.attempts[0].runner_output or "") == 300_000


def test_02_a_corrupt_line_costs_one_record(store: SessionStore, session: LiveSession) -> None:
    for name in "abc":
        invoke(session, name)
    session.close()
    file = log_of(session)
    lines = file.read_bytes().splitlines(keepends=True)
    hit = next(n for n, line in enumerate(lines) if b"skill.started" in line and b'"b"' in line)
    file.write_bytes(b"".join([*lines[:hit], b"\xff" * 40 + b"\n", *lines[hit + 1 :]]))
    found = store.open("s-1", readonly=True).skills.entries()
    assert [one.skill for one in found] == ["a", "b", "c"], "what is left of b says what it was"
    assert {one.final_status for one in found} == {"pass"}


def test_03_an_append_after_a_torn_line_is_not_glued_to_it(
    store: SessionStore, session: LiveSession
) -> None:
    invoke(session, "a")
    session.close()
    with log_of(session).open("ab") as file:
        file.write(b'{"n":99,"i":"torn')
    again = store.open("s-1")
    invoke(again, "b")
    assert [one.skill for one in again.skills.entries()] == ["a", "b"]


@pytest.mark.parametrize("name", ["../x", "..", "", "/etc/passwd", "a/../b", "a\0b"])
def test_04_a_session_id_cannot_lead_out_of_the_store(
    store: SessionStore, tmp_path: Path, name: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LogError):
        store.create(id=name)
    assert sorted(tmp_path.rglob("*")) == before


def test_05_a_write_that_fails_is_told(
    session: LiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises((LogError, OSError), match="No space"):
        session.skills.run("tdd").__enter__()


def many(path: Path, name: str, count: int) -> None:
    session = SessionStore(path).open("s-1")
    for _ in range(count):
        invoke(session, name)


def test_06_writers_of_several_processes_lose_nothing(
    store: SessionStore, session: LiveSession
) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=many, args=(store.path, name, 25)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = store.open("s-1", readonly=True).skills.entries()
    assert sorted(one.skill for one in found) == ["a"] * 25 + ["b"] * 25
    assert {(one.final_status, len(one.attempts)) for one in found} == {("pass", 1)}


KILLED = """
import sys, time
from runlore.live import SessionStore
skills = SessionStore(sys.argv[1]).create(id="s-1").skills
with skills.run("deploy", phase="prod") as run, run.attempt(model="m"):
    print("begun", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_07_a_crash_in_the_middle_leaves_a_trace(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "live")], stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"begun\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    (left,) = SessionStore(tmp_path / "live").open("s-1", readonly=True).skills.open()
    assert (left.skill, left.phase, left.final_status) == ("deploy", "prod", "running")
    assert left.attempts[0].is_open
    assert (
        "deploy/prod: not ended"
        in SessionStore(tmp_path / "live").open("s-1", readonly=True).skills.history()
    )


def test_08_an_entry_always_has_its_time(session: LiveSession) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    invoke(session, "a")
    session.skills.add(SkillEntry(id="x", skill="b", final_status="pass"))
    assert all(
        one.timestamp is not None and one.timestamp > before for one in session.skills.entries()
    )
    assert [rate.skill for rate in session.skills.rates("1h")] == ["a", "b"]


def test_09_the_session_of_an_entry_is_that_of_its_log(
    session: LiveSession, tmp_path: Path
) -> None:
    session.skills.add(SkillEntry(id="x", session_id="another", skill="a", final_status="pass"))
    assert session.skills.entries()[0].session_id == "s-1"
    found = importers.read_skills(skill_log(tmp_path, entry(session_id="another")))
    assert (found.entries[0].session_id, found.entries[0].extra) == (
        "s-1",
        {"session_named": "another"},
    )
    assert "another session" in found.problems[0].reason


OLD_WORDS = {
    "pass": "pass",
    "ok": "pass",
    "OK ": "pass",
    "fail": "fail",
    "error": "fail",
    "skip": "skip",
    "skipped": "skip",
}


@pytest.mark.parametrize(("word", "status"), OLD_WORDS.items())
def test_10_old_words_for_a_status_are_understood(
    session: LiveSession, tmp_path: Path, word: str, status: str
) -> None:
    with session.skills.run("tdd") as run:
        run.finish(word)
    assert session.skills.entries()[0].final_status == status
    assert (
        importers.read_skills(skill_log(tmp_path, entry(final_status=word))).entries[0].final_status
        == status
    )


def test_10_a_word_that_nobody_knows_is_refused_and_in_an_old_log_counted(
    session: LiveSession, tmp_path: Path
) -> None:
    with session.skills.run("tdd") as run, pytest.raises(ModelError, match="pass, fail, skip"):
        run.finish("meh")
    found = importers.read_skills(
        skill_log(tmp_path, entry(final_status="meh"), entry(final_status=""))
    )
    assert [(one.final_status, one.status_word) for one in found.entries] == [
        ("unknown", "meh"),
        ("unknown", ""),
    ]
    (rate,) = skills.pass_rates(found.entries, now=datetime.now(UTC))
    assert (rate.rate, rate.unknown) == (None, 2)
    assert len(found.problems) == 2


def test_11_not_checked_is_not_the_same_as_failed(session: LiveSession) -> None:
    with session.skills.run("tdd") as run:
        with run.attempt(model="m"):
            pass
        with run.attempt(model="m") as attempt:
            attempt.verified(by="exit_code", command="pytest -q", exit_code=1)
        with run.attempt(model="m") as attempt:
            attempt.verified(by="exit_code", command="pytest -q", exit_code=0)
    (found,) = session.skills.entries()
    assert [one.verified for one in found.attempts] == [None, False, True]
    assert [
        (check.by, check.command, check.exit_code) for one in found.attempts for check in one.checks
    ] == [
        ("exit_code", "pytest -q", 1),
        ("exit_code", "pytest -q", 0),
    ]


def test_12_a_call_that_is_made_again_counts_once(
    store: SessionStore, session: LiveSession, tmp_path: Path
) -> None:
    for _ in range(3):
        again = store.open("s-1")
        with again.skills.run("tdd", key="rpc-17") as run, run.attempt(model="m") as attempt:
            attempt.verified(by="exit_code", exit_code=0)
        again.skills.add(SkillEntry(id="whole", skill="review", final_status="pass"), key="rpc-18")
    (tdd,) = session.skills.entries(skill="tdd")
    assert len(tdd.attempts) == 1
    assert [(rate.skill, rate.passed) for rate in session.skills.rates()] == [
        ("review", 1),
        ("tdd", 1),
    ]
    with store.open("s-1").skills.run("tdd", key="rpc-17") as run:
        assert run.is_done
    assert len(importers.read_skills(skill_log(tmp_path, entry(), entry())).entries) == 1


@pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
def test_13_nobody_else_can_read_it(session: LiveSession, store: SessionStore) -> None:
    invoke(session, "a")
    session.close()
    for path in store.path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_14_a_rate_is_not_paid_for_with_a_full_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    for n in range(600):
        SkillLog(log).add(SkillEntry(id=f"{n}", skill="tdd", final_status="pass"))
        log.record("message", {"text": "x"})
    assert SkillLog(log).rate("tdd") == 1.0
    log.read = 0
    assert SkillLog(log).rate("tdd") == 1.0
    assert log.read < skills.SNAPSHOT_EVERY
    kept = SkillLog(log)
    kept.rate("tdd")
    log.read = 0
    assert kept.rate("tdd") == 1.0
    assert log.read == 0


def test_14_whoever_writes_leaves_a_snapshot_for_those_who_read(
    store: SessionStore, session: LiveSession
) -> None:
    log = session.skills
    for _ in range(skills.SNAPSHOT_EVERY // 4 + 5):
        with log.run("tdd") as run, run.attempt(model="m"):
            pass
    session.close()
    reader = store.open("s-1", readonly=True)
    found = reader.snapshot("skills")
    assert found is not None
    assert len(reader.skills.view().entries) == skills.SNAPSHOT_EVERY // 4 + 5
    assert len(list(reader.records(found[0]))) < 100


def test_15_a_stronger_model_does_not_lift_the_rate_of_a_weaker_one(session: LiveSession) -> None:
    for _ in range(4):
        with session.skills.run("tdd") as run:
            with run.attempt(model="small") as attempt:
                attempt.judged("escalate", "does not compile")
            with run.attempt(model="strong") as attempt:
                attempt.verified(by="exit_code", exit_code=0)
    rates = {rate.model: rate.rate for rate in session.skills.rates()}
    assert rates == {"small": 0.0, "strong": 1.0}
    assert session.skills.rate("tdd", model="small") == 0.0
    assert session.skills.rate("tdd") == 1.0


def test_16_the_model_is_that_of_the_attempt_and_tokens_are_counted(session: LiveSession) -> None:
    with session.skills.run("tdd", model="planned") as run, run.attempt(model="used") as attempt:
        attempt.used(input_tokens=100, output_tokens=7, usd=0.01)
    (found,) = session.skills.entries()
    assert (found.model_used, found.attempts[0].usage) == (
        "used",
        Usage(input_tokens=100, output_tokens=7),
    )
    (rate,) = session.skills.rates()
    assert (rate.model, rate.tokens, rate.usd) == ("used", 107, 0.01)


def test_17_sessions_can_be_listed_followed_and_deleted(
    store: SessionStore, session: LiveSession
) -> None:
    invoke(session, "a")
    session.close()
    assert [info.id for info in store.list()] == ["s-1"]
    assert [record.type for record in store.open("s-1", readonly=True).tail(2)] == [
        "skill.attempt_finished",
        "skill.finished",
    ]
    store.delete("s-1")
    assert list(store.list()) == []


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        (
            "skill.entry",
            {
                "id": "r",
                "skill": "tdd",
                "timestamp": "\ud800",
                "attempts": [{"tier": "\ud800", "timestamp": "\ud800"}],
            },
        ),
        (
            "skill.attempt_finished",
            {
                "run": "r",
                "attempt": 1,
                "checks": [{"by": "\ud800", "passed": "\ud800"}],
                "usage": {"\ud800": 1},
            },
        ),
        (
            "skill.finished",
            {"run": "r", "skill": "tdd", "final_status": "\ud800", "error": "\ud800"},
        ),
    ],
)
def test_half_of_a_surrogate_pair_anywhere_does_not_cost_the_view(
    tmp_path: Path, type: str, payload: dict[str, Any]
) -> None:
    session = SessionStore(tmp_path).create(id="one")
    session.record(type, payload)
    with session.skill("tdd") as run:
        assert run.id
    assert [entry.id for entry in session.skills.entries()] == ["r", run.id]
    assert sum(rate.passed for rate in session.skills.rates()) == 1
    assert session.skills.history()
