"""The public names are there, documented, and their values can be written and read back."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import runlore
from runlore import live
from runlore.errors import MissingField, ModelError
from runlore.live import SessionStore
from runlore.model import Call, Cost, Digest, LogRecord, Session, SessionEvent, Usage

PAGE = Path(__file__).parents[2] / "docs/live.md"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SESSION: dict[str, Any] = {
    "session_uid": "claude:1",
    "flavor": "claude",
    "native_session_id": "1",
}


def test_the_public_names_are_sorted_there_and_on_the_page() -> None:
    assert list(live.__all__) == sorted(set(live.__all__))
    page = PAGE.read_text()
    for name in live.__all__:
        assert name == "SessionStatus" or getattr(live, name).__doc__, name
        assert f"`{name}" in page or f" {name}" in page, f"{name} is not in docs/live.md"
    for name in ("Digest", "KINDS", "OUTCOMES", "SessionState", "SkillEntry", "SkillAttempt"):
        assert name in runlore.__all__
        assert getattr(runlore, name)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Session, {**SESSION, "source_bytes": "abc"}),
        (Session, {**SESSION, "tags": (1,)}),
        (Session, {**SESSION, "pinned": 1}),
        (Session, {**SESSION, "started_at": "2026-01-01"}),
        (Cost, {"input_tokens": "1"}),
        (SessionEvent, {"session_uid": "a:b", "seq": "0"}),
        (SessionEvent, {"session_uid": "a:b", "seq": 0, "files": (1,)}),
        (live.SessionState, {"session_id": 1, "status": "new", "goal_id": ""}),
        (live.SessionProgress, {"path": "a"}),
        (live.SessionMetrics, {"decision_count": 1.5}),
        (Digest, {"session_uid": "a:b", "version": "1", "covers": None}),
    ],
)
def test_a_constructor_refuses_a_wrong_type(kind: type, fields: dict[str, Any]) -> None:
    if kind is live.SessionState:
        fields = {**fields, "timestamps": live.SessionTimestamps(started_at=NOW, updated_at=NOW)}
    for _ in range(2):  # Also when it has seen a right one.
        with pytest.raises(ModelError):
            kind(**fields)
        Session(**SESSION, tags=("a",))
        SessionEvent(session_uid="a:b", seq=0, files=("a",))


def test_a_list_in_place_of_a_tuple_becomes_one() -> None:
    tags: Any = ["a"]
    for _ in range(2):
        session = Session(**SESSION, tags=tags)
        assert session.tags == ("a",)
        assert Session.from_json(session.to_json()) == session


def values(tmp_path: Path) -> list[Any]:
    """One of each value that the live log returns."""
    store = SessionStore(tmp_path)
    session = store.create("Chat", id="one", app="a")
    record = session.append({"role": "user", "content": "x"})
    block = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    session.append({"role": "assistant", "content": [block]})
    state = session.state
    state.start("goal")
    one, two = state.checkpoint("a", {"n": 1}), state.checkpoint("b", {"n": 2})
    with session.skill("tdd") as run, run.attempt(model="m") as attempt:
        attempt.verified(by="exit_code", command="pytest", exit_code=0)
    (entry,) = session.skills.entries()
    with (session.path / "log.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    recovery, conversation = session.recover(), session.conversation()
    return [
        record, state.current, state.current.progress, one, state.checkpoints.compare(one, two),
        *state.history(), *session.branches(), *session.check(), session.meta, entry,
        entry.attempts[0], entry.attempts[0].checks[0], *session.skills.rates(), recovery,
        recovery.calls[0], conversation, conversation.entries[0], state.current.owner,
        live.Stale(session_id="one", owner=live.Owner(pid=1), verdict="dead", updated_at=NOW),
        Session(**SESSION), SessionEvent(session_uid="a:b", seq=0), Usage(input_tokens=1),
        Call(key="k", session_uid="a:b", ts=NOW),
    ]  # fmt: skip


def test_every_value_is_written_and_read_back(tmp_path: Path) -> None:
    shown = values(tmp_path)
    kinds = {type(value) for value in shown}
    public = {getattr(live, name) for name in live.__all__}
    structs = {one for one in public if isinstance(one, type) and issubclass(one, msgspec.Struct)}
    importer = {one for one in structs if one.__module__.startswith("runlore.live.importers")}
    rest = structs - importer - kinds
    assert {one.__name__ for one in rest} <= {
        "SessionMetrics", "SessionResult", "SessionTimestamps",  # Parts of a SessionState.
    }  # fmt: skip
    for value in shown:
        kind = type(value)
        assert kind.from_dict(value.to_dict()) == value
        assert kind.from_json(value.to_json()) == value
        assert json.loads(value.to_json()) == json.loads(json.dumps(value.to_dict()))


def test_a_record_is_written_with_the_names_of_its_fields(tmp_path: Path) -> None:
    record = SessionStore(tmp_path).create().append({"role": "user", "content": "x"})
    assert record.to_dict()["seq"] == 1
    assert record.to_dict()["payload"] == {"role": "user", "content": "x"}
    with pytest.raises(MissingField):
        LogRecord.from_dict({"seq": 1})
    with pytest.raises(ModelError):
        LogRecord.from_json("[]")
    with pytest.raises(ModelError):
        LogRecord.from_dict({**record.to_dict(), "seq": "x"})
    assert LogRecord.from_dict({**record.to_dict(), "newer": 1}) == record
