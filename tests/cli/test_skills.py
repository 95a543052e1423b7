"""`runlore skills`: rates of the live sessions and of old logs, windows, history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runlore.live import LiveSession, SessionStore
from tests.cli.conftest import Run


@pytest.fixture
def store(home: Path) -> SessionStore:
    return SessionStore(home / ".runlore" / "live")


def invoke(
    session: LiveSession, skill: str, model: str, *codes: int, phase: str | None = None
) -> None:
    with session.skills.run(skill, phase=phase, input="secret plan") as run:
        for code in codes:
            with run.attempt(model=model) as attempt:
                attempt.output(f"tried {skill}")
                attempt.used(input_tokens=1500, usd=0.5)
                attempt.verified(by="exit_code", command="make", exit_code=code)


def test_nothing_was_run(run: Run, home: Path) -> None:
    result = run("skills")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no skill was run" in result.stderr
    assert json.loads(run("skills", "--json").stdout) == []
    assert not (home / ".runlore" / "live").exists(), "asking makes nothing"


def test_rates_are_shown_for_each_skill_and_model(run: Run, store: SessionStore) -> None:
    for _ in range(2):
        with store.create() as session:
            invoke(session, "tdd", "small", 1)
            invoke(session, "tdd", "large", 1, 0)
    invoke(store.create(), "review", "large", 0)
    lines = run("skills").stdout.splitlines()
    assert [line.split()[:5] for line in lines] == [
        ["SKILL", "MODEL", "RATE", "PASS", "FAIL"],
        ["review", "large", "100%", "1", "0"],
        ["tdd", "large", "100%", "2", "0"],
        ["tdd", "small", "0%", "0", "2"],
    ]
    rows = json.loads(run("skills", "--json", "--skill", "td*", "--model", "large").stdout)
    (row,) = rows
    assert (row["skill"], row["model"], row["rate"], row["passed"], row["verified"]) == (
        "tdd",
        "large",
        1.0,
        2,
        2,
    )
    assert (row["attempts"], row["tokens"], row["usd"]) == (4, 6000, 2.0)


def test_a_rate_without_data_is_null(run: Run, store: SessionStore) -> None:
    with store.create().skills.run("tdd") as skill:
        skill.skip("nothing to do")
    assert json.loads(run("skills", "--json").stdout)[0]["rate"] is None
    assert run("skills").stdout.splitlines()[1].split()[:3] == ["tdd", "-", "-"]


def test_a_window_leaves_out_what_began_before(
    run: Run, store: SessionStore, tmp_path: Path
) -> None:
    invoke(store.create(), "tdd", "m", 0)
    assert len(json.loads(run("skills", "--window", "24h", "--json").stdout)) == 1
    old = tmp_path / "old.jsonl"
    old.write_bytes(line(timestamp="2020-01-01T00:00:00Z"))
    result = run("skills", "--old", str(old), "--window", "7d")
    assert (result.stdout, result.stderr.strip()) == ("", "no skill was run within 7d")
    wrong = run("skills", "--window", "soon")
    assert wrong.exit_code == 2
    assert "24h" in wrong.stderr


def line(**more: Any) -> bytes:
    data = {
        "session_id": "old",
        "timestamp": "2026-03-01T10:00:00Z",
        "skill": "tdd",
        "final_status": "ok",
        "model_used": "m",
        **more,
    }
    return json.dumps(data).encode() + b"\n"


def test_old_logs_are_counted_and_what_is_wrong_in_them_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_bytes(line() + line(final_status="error", phase="x") + b"{torn")
    (tmp_path / "note.txt").write_text("not a log")
    result = run("skills", "--old", str(tmp_path), "--json")
    assert [(row["skill"], row["model"], row["rate"]) for row in json.loads(result.stdout)] == [
        ("tdd", "m", 0.5)
    ]
    assert "1 line could not be read" in result.stderr


def test_history_is_text_for_a_next_prompt(run: Run, store: SessionStore) -> None:
    session = store.create(id="s-1")
    invoke(session, "tdd", "m", 0, phase="red")
    invoke(session, "tdd\x1b[31m", "m", 1, phase="green")
    result = run("skills", "--history", "s-1", "--exclude-phase", "blue")
    assert result.stdout.splitlines() == [
        "Earlier skill runs in this session, oldest first:",
        "- tdd/red: pass, verified, m",
        "  attempt 1 (m): tried tdd; make passed (exit code 0)",
        "- tdd/green: fail, checked and failed, m",
        "  attempt 1 (m): tried tdd; make failed (exit code 1)",
    ]
    assert "green" not in run("skills", "--history", "s-1", "--exclude-phase", "green").stdout
    told = json.loads(run("skills", "--history", "s-1", "--json").stdout)
    assert [entry["input"] for entry in told["entries"]] == ["secret plan"] * 2
    assert told["text"].startswith("Earlier skill runs")


def test_history_of_no_session_fails_with_one_line(run: Run) -> None:
    result = run("skills", "--history", "nobody")
    assert result.exit_code == 1
    assert result.stderr.startswith("runlore: no live session begins with 'nobody'")
    assert run("skills", "--history", "../x").exit_code == 1


def test_a_session_is_named_by_its_beginning_and_the_folder_can_be_another(
    run: Run, tmp_path: Path
) -> None:
    with SessionStore(tmp_path / "here").create(id="calculator-1") as session:
        invoke(session, "tdd", "small", 0)
    for name in ("calc", "latest"):
        assert (
            "tdd: pass" in run("skills", "--dir", str(tmp_path / "here"), "--history", name).stdout
        )
    assert "tdd" in run("skills", "--dir", str(tmp_path / "here")).stdout
    assert run("skills", "--history", "calc").exit_code == 1
