"""What the adapter of VS Code's chat promises beyond what its fixtures show: how a log is replayed,
and what of it is new."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from runlore import config
from runlore.adapters import Source, get
from runlore.model import USD
from runlore.store import Store
from runlore.sync import pipeline

ADAPTER = get("vscode_copilot")
FIXTURES = Path(__file__).parent / "fixtures/vscode_copilot"
SESSION = "10600000-0000-4000-8000-00000000000b"
LOG = f"workspaceStorage/def456/chatSessions/{SESSION}.jsonl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "log/root", tmp_path / "User"))


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["vscode_copilot"], roots=[str(root)])
    assert not report.problems
    return report


def only(root: Path) -> Source:
    (source,) = ADAPTER.discover(root)
    return source


def append(path: Path, *changes: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(change) + "\n" for change in changes)


def test_of_a_log_and_a_document_the_log_is_read(root: Path) -> None:
    assert only(root).path == str(root / LOG)


def test_what_was_added_is_read_alone(root: Path, store: Store) -> None:
    source = only(root)
    records = [record for record in ADAPTER.read(source, None) if record.sidecar is None]
    since = ADAPTER.position(source, records[-1].end, len(records))
    assert sync(store, root).found == {"new": 1}
    append(root / LOG, {"kind": 1, "k": ["requests", 2, "modelState"], "v": {"value": 1}})
    assert ADAPTER.follows(only(root), since)
    new = [
        json.loads(record.data)
        for record in ADAPTER.read(only(root), since)
        if record.sidecar is None
    ]
    assert [record["kind"] for record in new] == ["prompt", "text", "end"]
    report = sync(store, root)
    assert (report.found, report.events) == ({"grown": 1}, 3)


def test_a_request_that_is_being_answered_is_given_when_it_is_old(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prompts() -> list[str]:
        records = (
            json.loads(record.data)
            for record in get("vscode_copilot").read(only(root), None)
            if record.sidecar is None
        )
        return [record["text"] for record in records if record["kind"] == "prompt"]

    assert prompts() == ["add an endpoint", "thanks"]
    monkeypatch.setattr("runlore.adapters.vscode_copilot.time", lambda: 4_080_000_000.0)
    os.utime(root / LOG, (1, 2))  # Not the file that is remembered.
    assert prompts() == ["add an endpoint", "thanks", "and docs"]


def test_a_request_that_was_never_finished_is_stored_in_the_end(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(root / LOG)  # Somebody writes to it: those of the tests are old.
    sync(store, root)
    assert sync(store, root).found == {"unchanged": 1}
    monkeypatch.setattr("runlore.adapters.vscode_copilot.time", lambda: 4_080_000_000.0)
    report = sync(store, root)
    assert (report.found, report.events) == ({"grown": 1}, 3)
    assert sync(store, root).found == {"unchanged": 1}


def test_a_title_that_was_changed_costs_no_second_reading(root: Path, store: Store) -> None:
    sync(store, root)
    append(root / LOG, {"kind": 1, "k": ["customTitle"], "v": "Endpoints"})
    report = sync(store, root)
    assert (report.found, report.events) == ({"grown": 1}, 0)
    assert store.sessions.get(f"vscode_copilot:{SESSION}").title == "Endpoints"  # type: ignore[union-attr] # it is there


def test_a_prompt_that_was_edited_and_sent_again_stays_and_says_so(
    root: Path, store: Store
) -> None:
    sync(store, root)
    again = {
        "requestId": "request_0c0de000-0000-4000-8000-0000000000aa",
        "message": {"text": "bye"},
        "response": [],
        "result": {},
    }
    append(root / LOG, {"kind": 2, "k": ["requests"], "i": 1, "v": [again]})
    assert sync(store, root).found == {"rewritten": 1}
    events = list(store.sessions.events(f"vscode_copilot:{SESSION}"))
    assert [(event.summary, event.is_gone) for event in events if event.kind == "user_msg"] == [
        ("add an endpoint", False), ("thanks", True), ("bye", False),
    ]  # fmt: skip


def test_a_log_that_was_written_anew_is_the_same_session(root: Path, store: Store) -> None:
    """The agent puts the whole document in one line when a log has become too long."""
    sync(store, root)
    before = [event.native_id for event in store.sessions.events(f"vscode_copilot:{SESSION}")]
    document = _replayed(root / LOG)
    (root / LOG).write_text(json.dumps({"kind": 0, "v": document}) + "\n")
    assert sync(store, root).events == 0
    events = list(store.sessions.events(f"vscode_copilot:{SESSION}"))
    assert ([event.native_id for event in events], any(event.is_gone for event in events)) == (
        before,
        False,
    )


def _replayed(path: Path) -> Any:
    from runlore.adapters.vscode_copilot.log import load

    return load(str(path))


def test_only_chats_are_opened(root: Path) -> None:
    for name in (
        "globalStorage/state.vscdb",
        "settings.json",
        "workspaceStorage/def456/other.json",
        "globalStorage/storage.json",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    assert only(root).path == str(root / LOG)


def test_a_file_that_is_no_session_is_named(tmp_path: Path, store: Store) -> None:
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats/a.json").write_text('{"x": 1}')
    (tmp_path / "chats/b.jsonl").write_text('{"kind": 1, "k": ["x"], "v": 1}\n')
    (tmp_path / "chats/c.json").write_text("{")
    report = pipeline.sync(
        store, config.load(), agents=["vscode_copilot"], roots=[str(tmp_path / "chats")]
    )
    assert sorted(reason for _, reason in report.problems) == [
        "no whole JSON document; it is read again when it has changed",
        "not a session: it has no list of requests",
        "not a session: no line of it is its beginning",
    ]


def test_credits_are_what_was_charged(root: Path) -> None:
    calls = [
        call
        for call, _ in ADAPTER.normalize(only(root), ADAPTER.read(only(root), None), None).calls
    ]
    assert [(call.invoiced, call.is_sum) for call in calls] == [
        (round(0.0475 * USD), True),
        (None, False),
    ]
