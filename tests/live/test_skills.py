"""The skills view: what is recorded, what is made of it, and that nothing in a log can break it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.errors import ModelError
from runlore.live import skills
from runlore.live.skills import (
    Check,
    SkillAttempt,
    SkillEntry,
    SkillLog,
    SkillsView,
    fold,
    fold_all,
)
from runlore.model import LogRecord, Usage
from tests.live.memory import MemoryLog

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def entry(
    skill: str = "tdd",
    status: str = "pass",
    *attempts: SkillAttempt,
    hours_ago: float = 0,
    **more: Any,
) -> SkillEntry:
    fields = {
        "id": f"{skill}-{status}-{hours_ago}-{len(attempts)}",
        "final_status": status,
        "attempts": attempts,
        **more,
    }
    return SkillEntry(skill=skill, timestamp=NOW - timedelta(hours=hours_ago), **fields)


def tried(model: str, verified: bool | None = None, **more: Any) -> SkillAttempt:
    checks = (
        ()
        if verified is None
        else (Check(by="exit_code", passed=verified, exit_code=0 if verified else 1),)
    )
    return SkillAttempt(model=model, verified=verified, checks=checks, **more)


def test_a_run_is_told_with_everything_that_was_said_of_it(log: MemoryLog) -> None:
    with SkillLog(log).run(
        "tdd", phase="red", input={"spec": [1]}, project_root="/p", file_path="/p/a.py"
    ) as run:
        with run.attempt("small", tier="local", warm_start=True) as attempt:
            attempt.output("wrote a test", runner_output="1 failed")
            attempt.used(input_tokens=10, output_tokens=2, usd=0.25)
            attempt.used(input_tokens=5, usd=0.5)
            attempt.verified(by="exit_code", command="pytest -q", exit_code=0)
            attempt.judged("accept", "good")
        run.finish("ok", "red as it should be")
    (found,) = SkillLog(log).entries()
    (one,) = found.attempts
    assert (found.session_id, found.skill, found.phase, found.input) == (
        "s1",
        "tdd",
        "red",
        {"spec": [1]},
    )
    assert (found.project_root, found.file_path, found.message) == (
        "/p",
        "/p/a.py",
        "red as it should be",
    )
    assert (found.final_status, found.model_used, found.verified, found.error) == (
        "pass",
        "small",
        True,
        None,
    )
    assert found.duration_ms is not None
    assert found.timestamp == log.kept[0].ts
    assert (one.attempt, one.model, one.tier, one.warm_start) == (1, "small", "local", True)
    assert (one.output_summary, one.runner_output, one.verdict, one.feedback) == (
        "wrote a test",
        "1 failed",
        "accept",
        "good",
    )
    assert one.checks == (Check(by="exit_code", passed=True, command="pytest -q", exit_code=0),)
    assert (one.usage, one.usd, one.is_open) == (
        Usage(input_tokens=15, output_tokens=2),
        0.75,
        False,
    )
    assert one.duration_ms is not None
    assert not found.extra
    assert not one.extra


def test_the_start_is_in_the_log_before_the_work(log: MemoryLog) -> None:
    with SkillLog(log).run("tdd") as run:
        assert [record.type for record in log.kept] == ["skill.started"]
        with run.attempt("small"):
            assert [record.type for record in log.kept] == [
                "skill.started",
                "skill.attempt_started",
            ]
            (open_one,) = SkillLog(log).open()
            assert open_one.final_status == "running"
            assert open_one.attempts[0].is_open


def test_an_exception_is_recorded_and_goes_on(log: MemoryLog) -> None:
    with pytest.raises(ZeroDivisionError), SkillLog(log).run("tdd") as run, run.attempt("small"):
        _ = 1 / 0
    (found,) = SkillLog(log).entries()
    assert found.final_status == "fail"
    assert found.error == "ZeroDivisionError: division by zero"
    assert found.attempts[0].error == found.error
    assert found.verified is None


def test_an_attempt_that_raised_can_be_followed_by_another(log: MemoryLog) -> None:
    with SkillLog(log).run("tdd") as run:
        with pytest.raises(OSError, match="gone"), run.attempt("small"):
            raise OSError("gone")
        with run.attempt("large") as attempt:
            attempt.verified(by="person")
    (found,) = SkillLog(log).entries()
    assert found.final_status == "pass"
    assert [(one.attempt, one.error, one.verified) for one in found.attempts] == [
        (1, "OSError: gone", None),
        (2, None, True),
    ]
    assert [(rate.model, rate.rate) for rate in SkillLog(log).rates()] == [
        ("large", 1.0),
        ("small", 0.0),
    ]


def test_what_the_work_raised_is_not_hidden_by_a_log_that_fails(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **options: Any) -> LogRecord:
        raise OSError("no space left")

    def work() -> None:
        with SkillLog(log).run("tdd"):
            monkeypatch.setattr(log, "record", full)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        work()
    assert caught.value.__notes__ == ["and its end could not be recorded: no space left"]


def test_a_run_without_a_word_ends_as_its_last_attempt_did(log: MemoryLog) -> None:
    for code in (1, 0):
        with SkillLog(log).run("tdd") as run, run.attempt("m") as attempt:
            attempt.verified(by="exit_code", exit_code=code)
    with SkillLog(log).run("tdd") as run, run.attempt("m") as attempt:
        attempt.judged("escalate")
    with SkillLog(log).run("tdd"):
        pass
    assert [one.final_status for one in SkillLog(log).entries()] == ["fail", "pass", "fail", "pass"]


def test_all_checks_must_pass(log: MemoryLog) -> None:
    with SkillLog(log).run("tdd") as run, run.attempt("m") as attempt:
        attempt.verified(by="exit_code", command="ruff check", exit_code=0)
        attempt.verified(by="exit_code", command="pytest", exit_code=1)
        attempt.verified(by="person", detail="looks right")
    (found,) = SkillLog(log).entries()
    assert found.verified is False
    assert [check.passed for check in found.attempts[0].checks] == [True, False, True]


@pytest.mark.parametrize(("by", "more"), [("self", {}), ("exit_code", {})])
def test_a_check_without_evidence_is_refused(log: MemoryLog, by: str, more: dict[str, Any]) -> None:
    with SkillLog(log).run("tdd") as run, run.attempt("m") as attempt, pytest.raises(ModelError):
        attempt.verified(by=by, **more)


def test_a_skill_without_a_name_is_refused(log: MemoryLog) -> None:
    with pytest.raises(ModelError, match="name"):
        SkillLog(log).run("  ")
    assert not log.kept


def test_a_run_that_was_killed_can_be_ended_by_another(log: MemoryLog) -> None:
    SkillLog(log).run("tdd", key="k").__enter__()
    (left,) = SkillLog(log).open()
    SkillLog(log).finish(left.id, "error", error="its process is gone")
    assert not SkillLog(log).open()
    assert [(one.final_status, one.error) for one in SkillLog(log).entries()] == [
        ("fail", "its process is gone")
    ]


def test_a_key_goes_on_with_a_run_that_was_interrupted(log: MemoryLog) -> None:
    first = SkillLog(log).run("tdd", key="rpc-1")
    first.__enter__()
    first.attempt("m").__enter__()
    with SkillLog(log).run("tdd", key="rpc-1") as again:
        assert not again.is_done
        with again.attempt("m") as attempt:
            assert attempt.number == 2
    (found,) = SkillLog(log).entries()
    assert found.final_status == "pass"
    assert [one.is_open for one in found.attempts] == [True, False]


def test_whole_invocations_can_be_added(log: MemoryLog) -> None:
    told = entry(
        "review",
        "skip",
        tried("m", None, attempt=1, feedback="no"),
        phase="p",
        message="nothing to review",
        extra={"more": 1},
    )
    SkillLog(log).add(told)
    (found,) = SkillLog(log).entries()
    assert found == msgspec.structs.replace(told, session_id="s1", model_used="m")
    strange = entry("review", "unknown", status_word="")
    SkillLog(log).add(strange)
    assert SkillLog(log).entries()[1] == msgspec.structs.replace(strange, session_id="s1")
    with pytest.raises(ModelError, match="running"):
        SkillLog(log).add(entry("review", "running"))


def test_an_added_invocation_without_a_time_has_that_of_its_record(log: MemoryLog) -> None:
    SkillLog(log).add(SkillEntry(id="a", skill="x", final_status="pass"))
    assert SkillLog(log).entries()[0].timestamp == log.kept[0].ts


def test_rates_of_a_window_leave_out_what_began_before() -> None:
    entries = [
        entry(hours_ago=1),
        entry(status="fail", hours_ago=30),
        entry(status="fail", hours_ago=24 * 8),
    ]
    found = [
        skills.pass_rate(entries, "tdd", None, window, now=NOW) for window in ("24h", "7d", None)
    ]
    assert found == [1.0, 0.5, 1 / 3]


@pytest.mark.parametrize("window", ["", "7", "d", "-1d", "1w", "0h", "1.5h", "999999d", "٣d" * 5])
def test_a_window_that_is_none_is_refused(window: str) -> None:
    with pytest.raises(ModelError, match="24h"):
        skills.window_of(window)


def test_the_largest_window_is_within_the_calendar() -> None:
    assert skills.pass_rates([entry()], "99999d", now=NOW)


def test_a_rate_is_of_all_also_of_those_whose_result_is_unknown(log: MemoryLog) -> None:
    for n, status in enumerate(("pass", "fail", "unknown", "unknown", "skip")):
        SkillLog(log).add(entry(status=status, hours_ago=n))
    assert SkillLog(log).rate("tdd") == 0.25
    assert [(rate.rate, rate.unknown) for rate in SkillLog(log).rates()] == [(0.25, 2)]


def test_rates_are_null_without_data(log: MemoryLog) -> None:
    assert SkillLog(log).rate("tdd") is None
    SkillLog(log).add(entry(status="skip"))
    assert SkillLog(log).rate("tdd") is None
    assert [(rate.rate, rate.skipped) for rate in SkillLog(log).rates()] == [(None, 1)]
    assert SkillLog(log).rate("tdd", "no such model") is None


def test_an_invocation_counts_once_for_each_model_that_tried() -> None:
    several = entry("tdd", "pass", tried("small", False), tried("small", True), tried("large"))
    rates = {rate.model: rate for rate in skills.pass_rates([several], now=NOW)}
    assert (
        rates["small"].passed,
        rates["small"].failed,
        rates["small"].attempts,
        rates["small"].verified,
    ) == (1, 0, 2, 1)
    assert (
        rates["large"].passed,
        rates["large"].failed,
        rates["large"].attempts,
        rates["large"].verified,
    ) == (1, 0, 1, 0)


def test_rates_add_up_what_was_used() -> None:
    used = [
        tried("m", usage=Usage(input_tokens=5, output_tokens=1), usd=0.5, duration_ms=10),
        tried("m", duration_ms=20),
    ]
    (rate,) = skills.pass_rates([entry("tdd", "pass", *used)], now=NOW)
    assert (rate.tokens, rate.usd, rate.duration_ms) == (6, 0.5, 30)


def test_history_tells_what_was_tried_without_the_phase_it_is_for() -> None:
    red = entry(
        "tdd",
        "pass",
        tried("small", True, attempt=1, output_summary="wrote\na test"),
        phase="red",
        message="fine",
    )
    green = entry(
        "tdd",
        "fail",
        tried("small", None, attempt=1, error="Timeout", feedback="be brief"),
        phase="green",
    )
    text = skills.format_history([red, green], exclude_phase="green")
    assert text.splitlines() == [
        "Earlier skill runs in this session, oldest first:",
        "- tdd/red: pass, verified",
        "  message: fine",
        "  attempt 1 (small): wrote a test; exit_code passed (exit code 0)",
    ]
    both = skills.format_history([red, green])
    assert "- tdd/green: fail, not checked" in both
    assert "attempt 1 (small): feedback: be brief; Timeout" in both


def test_history_is_bounded_and_says_what_it_leaves_out() -> None:
    long = [entry("tdd", "fail", hours_ago=n, message="x" * 100_000) for n in range(100)]
    text = skills.format_history(long, limit=50)
    assert len(text) < 9000
    assert "earlier left out)" in text
    assert skills.format_history(long, limit=0) == ""


def test_a_prompt_without_a_history_stays_as_it_is() -> None:
    assert skills.prepend_history("do it", []) == "do it"
    assert skills.prepend_history("do it", [entry()]).endswith("\n\ndo it")


def test_a_view_goes_on_from_a_snapshot(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skills, "SNAPSHOT_EVERY", 4)
    for n in range(5):
        with SkillLog(log).run("tdd", input="long" * 1000) as run, run.attempt(f"m{n}"):
            pass
    whole = SkillLog(log).view()
    assert log.snapshots["skills"][0] == whole.seq == 19
    assert len(log.snapshots["skills"][1]) < 4000, "a snapshot holds no long texts"
    with SkillLog(log).run("tdd"):
        pass
    log.read = 0
    assert len(SkillLog(log).view().entries) == 6
    assert log.read == 2


OTHERS = [SkillsView({}, 3), SkillsView({}, 7, version=99)]


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x93\x00\x01\x02", *map(msgspec.msgpack.encode, OTHERS)]
)
def test_a_snapshot_that_is_damaged_or_of_another_version_is_made_again(
    log: MemoryLog, data: bytes
) -> None:
    SkillLog(log).add(entry())
    log.put_snapshot("skills", 7, data)
    assert len(SkillLog(log).view().entries) == 1


def test_a_view_is_a_value(log: MemoryLog) -> None:
    SkillLog(log).add(entry())
    before = SkillLog(log).view()
    known = dict(before.entries)
    SkillLog(log).add(entry(status="fail"))
    after = fold(before, log.kept[-1])
    assert before.entries == known
    assert len(after.entries) == 2
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(after), type=SkillsView) == after


def test_the_attempts_of_one_invocation_are_bounded(log: MemoryLog) -> None:
    with SkillLog(log).run("loop") as run:
        for _ in range(1005):
            with run.attempt("m"):
                pass
    (found,) = SkillLog(log).entries()
    assert (len(found.attempts), found.left_out, found.attempts[-1].attempt) == (1000, 5, 1005)


def test_what_a_newer_version_says_is_kept(log: MemoryLog) -> None:
    log.record("skill.started", {"run": "a", "skill": "x", "colour": "red"})
    log.record("skill.attempt_finished", {"run": "a", "attempt": 1, "mood": 3})
    log.record("skill.applauded", {"run": "a"})
    log.record("skill.finished", {"run": "a", "final_status": "pass"})
    (found,) = SkillLog(log).entries()
    assert (found.extra, found.attempts[0].extra) == ({"colour": "red"}, {"mood": 3})


def test_a_start_that_is_lost_costs_the_start_only(log: MemoryLog) -> None:
    with SkillLog(log).run("tdd", phase="red") as run, run.attempt("m") as attempt:
        attempt.verified(by="exit_code", exit_code=0)
    for lost in range(4):
        (found,) = fold_all(
            SkillsView(), [record for record in log.kept if record.seq != lost]
        ).entries.values()
        assert found.skill == "tdd" or lost == 3
        assert found.final_status == ("running" if lost == 3 else "pass")
        assert found.attempts[0].model == "m"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    ["run", "id", *SkillEntry.__struct_fields__, *SkillAttempt.__struct_fields__, "strange"]
)
TYPES = st.sampled_from(
    [
        "skill.started",
        "skill.attempt_started",
        "skill.attempt_finished",
        "skill.finished",
        "skill.entry",
        "skill.x",
    ]
)


@given(st.lists(st.tuples(TYPES, st.dictionaries(FIELDS, PLAIN))))
def test_no_payload_breaks_the_view(told: list[tuple[str, dict[str, Any]]]) -> None:
    records = [
        LogRecord(id=f"{n}", seq=n, ts=NOW, type=type, payload=payload)
        for n, (type, payload) in enumerate(told)
    ]
    view = fold_all(SkillsView(), records)
    step = SkillsView()
    for record in records:
        step = fold(step, record)
    assert step == view
    skills.pass_rates(view.entries.values(), "7d", now=NOW)
    skills.format_history(view.entries.values())
