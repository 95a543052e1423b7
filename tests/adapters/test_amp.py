"""What Amp's adapter promises beyond what its fixtures show: how a document is read that is written
again and again."""

import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore import config
from runlore.adapters import get
from runlore.errors import ReadError
from runlore.model import Session
from runlore.store import Store
from runlore.sync import pipeline
from runlore.testing import iter_fixtures

ADAPTER = get("amp")
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == "amp"
]
MAIN = "amp:T-11110000-0000-4000-8000-000000000001"
HELLO = {
    "role": "user",
    "messageId": 0,
    "content": [{"type": "text", "text": "Hello"}],
    "meta": {"sentAt": 1767000000000},
}
CALL = {"role": "assistant", "messageId": 1,
"content": [{"type": "tool_use", "id": "c", "name": "Bash", "input": {"cmd": "ls"}}],
        "state": {"type": "complete", "stopReason": "tool_use"}}  # fmt: skip


def case(name: str) -> Path:
    return next(fixture.root for fixture in FIXTURES if fixture.case == name)


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["amp"], roots=[str(root)])
    assert not report.problems
    return report


def write(folder: Path, *messages: dict[str, Any], age_s: float = 0, **more: Any) -> Path:
    path = folder / "threads/T-1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": "T-1", "messages": messages, **more}))
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def result(status: str, **run: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "messageId": 2,
        "content": [{"type": "tool_result", "toolUseID": "c", "run": {"status": status, **run}}],
    }


def test_nothing_that_was_said_is_carried_over() -> None:
    for fixture in FIXTURES:
        for found in ADAPTER.discover(fixture.root):
            made = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
            carry = repr(msgspec.msgpack.decode(made.carry))
            assert not [body for body in made.bodies if len(body) > 12 and body in carry]


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    write(tmp_path, HELLO)
    (source,) = ADAPTER.discover(tmp_path)
    records = [record for record in ADAPTER.read(source, None) if record.sidecar is None]
    position = ADAPTER.position(source, records[-1].end, len(records))
    write(tmp_path, HELLO, CALL)
    (source,) = ADAPTER.discover(tmp_path)
    assert ADAPTER.follows(source, position)
    assert [
        json.loads(record.data)["messageId"]
        for record in ADAPTER.read(source, position)
        if record.sidecar is None
    ] == [1]


def test_what_is_not_finished_is_not_given_before_it_is_old(tmp_path: Path) -> None:
    streaming = {**CALL, "state": {"type": "streaming"}}

    def numbers(*messages: dict[str, Any], age_s: float = 0) -> list[int]:
        write(tmp_path, *messages, age_s=age_s)
        (source,) = ADAPTER.discover(tmp_path)
        return [
            json.loads(record.data)["messageId"]
            for record in ADAPTER.read(source, None)
            if record.sidecar is None
        ]

    assert numbers(HELLO, streaming) == [0]
    assert numbers(HELLO, streaming, age_s=7200) == [0, 1]
    assert numbers(HELLO, CALL, result("in-progress")) == [0, 1]
    assert numbers(HELLO, CALL, result("done", result="x")) == [0, 1, 2]


def test_a_thread_that_grew_old_is_another_source(tmp_path: Path) -> None:
    path = write(tmp_path, HELLO, age_s=7200)
    (source,) = ADAPTER.discover(tmp_path)
    assert source.mtime_ns == path.stat().st_mtime_ns + 1
    assert ADAPTER.refresh(source) == source


def test_what_an_edit_took_away_stays_and_is_marked(store: Store, tmp_path: Path) -> None:
    write(tmp_path, HELLO, CALL, result("done", result="a.py"), nextMessageId=3)
    sync(store, tmp_path)
    write(
        tmp_path,
        {**HELLO, "messageId": 3, "content": [{"type": "text", "text": "Edited"}]},
        nextMessageId=4,
    )
    sync(store, tmp_path)
    assert [(event.summary, event.is_gone) for event in store.sessions.events("amp:T-1")] == [
        ("Hello", True), ("ls", True), ("a.py", True), ("Edited", False),
    ]  # fmt: skip


def test_usage_is_counted_once_whoever_tells_it(store: Store) -> None:
    """Of the messages; of the ledger the title and the oracle, not what the messages or the
    subagent's thread tell."""
    sync(store, case("thread"))
    rows = store.maintenance.rows(
        "select uid, sum(total) from (select s.uid as uid, c.input_tokens + c.output_tokens"
        " + c.cache_read_tokens + c.cache_write_5m_tokens as total from calls c"
        " join sessions s on s.number = c.session) group by 1 order by 1"
    )
    main = 950 + 1065 + 1035 + 1018 + 1034 + 1043 + 308 + 750
    assert [tuple(row) for row in rows] == [
        (MAIN, main),
        (MAIN[:-1] + "2", 907),
        (MAIN[:-1] + "3", 105),
    ]


def test_an_older_thread_is_counted_by_its_ledger(store: Store) -> None:
    sync(store, case("older"))
    assert store.maintenance.rows(
        "select count(*), sum(input_tokens), sum(output_tokens) from calls"
    )[0][:] == (3, 340, 21)


def test_forks_subagents_and_handoffs_know_where_they_come_from(store: Store) -> None:
    sync(store, case("thread"))
    found = [store.sessions.get(MAIN[:-1] + n) for n in "234"]
    assert [session and (session.parent_uid, session.relation) for session in found] == [
        (MAIN, "fork"), (MAIN, "subagent"), (MAIN, "continuation"),
    ]  # fmt: skip
    copied = [event.origin is not None for event in store.sessions.events(MAIN[:-1] + "2")]
    assert copied == [True] * 6 + [False] * 2


def test_a_document_that_is_no_thread_is_a_problem_and_secrets_are_not_opened(
    tmp_path: Path,
) -> None:
    (tmp_path / "secrets.json").write_text("{}")
    (tmp_path / "other.json").write_text("{}")
    (source,) = ADAPTER.discover(tmp_path)
    assert os.path.basename(source.path) == "other.json"
    with pytest.raises(ReadError, match="not a thread"):
        list(ADAPTER.read(source, None))


def test_a_session_is_taken_up_by_its_id() -> None:
    session = Session(session_uid="amp:T-1", flavor="amp", native_session_id="T-1")
    assert ADAPTER.resume(session) == ["amp", "threads", "continue", "T-1"]
