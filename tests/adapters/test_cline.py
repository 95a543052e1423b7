"""What the adapter of Cline promises beyond what its fixtures show."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runlore import config
from runlore.adapters import LOST, Normalized, get
from runlore.adapters.cline import documents, words
from runlore.errors import ReadError
from runlore.model import SessionEvent
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.sync.pipeline import Report

ADAPTER = get("cline")
FIXTURES = Path(__file__).parent / "fixtures/cline"
TASK = "1767261600000"
T0 = 1767261600000


def row(n: int, word: str, text: Any = None, type: str = "say", **more: Any) -> dict[str, Any]:
    body = text if isinstance(text, str | None) else json.dumps(text)
    return {"ts": T0 + 1000 * n, "type": type, type: word, "text": body, **more}


def request(n: int, *tokens: int, **more: Any) -> dict[str, Any]:
    names = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
    return row(
        n, "api_req_started", {"request": "", **dict(zip(names, tokens, strict=False)), **more}
    )


def write(root: Path, *rows: Any, task: str = TASK, name: str = "ui_messages.json") -> Path:
    folder = root / "tasks" / task
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(rows))
    later = time.time_ns() + len(rows) * 1_000_000
    os.utime(folder / name, ns=(later, later))
    return folder


def read(root: Path) -> Normalized:
    (source,) = ADAPTER.discover(root)
    return ADAPTER.normalize(source, ADAPTER.read(source, None), None)


def sync(root: Path, tmp_path: Path) -> tuple[Store, Report]:
    store = open_store(str(tmp_path / "store.db"))
    return store, pipeline.sync(store, config.load(), agents=[ADAPTER.name], roots=[str(root)])


def told(store: Store, uid: str = f"cline:{TASK}") -> list[tuple[int, str, str]]:
    bodies = store.sessions.bodies(uid)
    return [
        (event.seq, event.kind, bodies.get(event.seq) or "") for event in store.sessions.events(uid)
    ]


def counted(store: Store, uid: str = f"cline:{TASK}") -> int:
    session = store.sessions.get(uid)
    assert session is not None
    return session.cost.input_tokens + session.cost.output_tokens + session.cost.cache_tokens


# Files.


def test_folders_of_settings_are_not_looked_into(tmp_path: Path) -> None:
    write(tmp_path, row(0, "task", "hello"))
    for name in ("settings", "checkpoints", "cache"):
        shutil.copytree(tmp_path / "tasks", tmp_path / name / "tasks")
    assert [Path(source.path).parent.parent.parent for source in ADAPTER.discover(tmp_path)] == [
        tmp_path
    ]


def test_editors_are_found_by_looking_and_variables_replace_the_home(home: Path) -> None:
    there = home / ".config/Code - Insiders/User/globalStorage/saoudrizwan.claude-dev"
    far = home / ".vscode-server/data/User/globalStorage/saoudrizwan.claude-dev"
    for folder in (there, far, home / ".config/Other/User"):
        folder.mkdir(parents=True)
    assert ADAPTER.find_roots({}) == [there, far, home / ".cline/data"]
    assert ADAPTER.find_roots({"CLINE_DIR": "/elsewhere"}) == [there, far, Path("/elsewhere/data")]


@pytest.mark.parametrize(
    ("name", "content"),
    [("ui_messages.json", '[{"ts": 1'), ("ui_messages.json", "{}"), ("a.messages.json", "[]")],
)
def test_a_document_that_is_being_written_or_is_none_is_a_problem_and_no_session(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / name).write_text(content)
    (source,) = ADAPTER.discover(tmp_path)
    with pytest.raises(ReadError):
        list(ADAPTER.read(source, None))
    store, report = sync(tmp_path, tmp_path)
    assert [path for path, _ in report.problems] == [source.path]
    assert store.sessions.count(Filter(parents_only=False)) == 0


def test_a_large_task_is_read_in_parts_that_give_the_same(tmp_path: Path) -> None:
    write(
        tmp_path,
        row(0, "task", "hello"),
        *[row(n, "text", f"{n} " + "x" * 50) for n in range(1, 40)],
    )
    (source,) = ADAPTER.discover(tmp_path)
    whole = list(ADAPTER.read(source, None))
    since = ADAPTER.position(source, whole[19].end, 20)
    assert ADAPTER.follows(source, since)
    assert [record for record in ADAPTER.read(source, since) if record.sidecar is None] == whole[
        20:
    ]


def test_a_source_changes_with_every_file_that_it_is_made_of(tmp_path: Path) -> None:
    folder = write(tmp_path, row(0, "task", "hello"))
    (source,) = ADAPTER.discover(tmp_path)
    since = ADAPTER.position(source, 1, 1)
    assert ADAPTER.refresh(source) == source
    write(
        tmp_path,
        {"role": "user", "content": "<task>hello</task>"},
        name="api_conversation_history.json",
    )
    (later,) = ADAPTER.discover(tmp_path)
    assert later.size > source.size
    assert ADAPTER.refresh(source) == later
    assert not ADAPTER.follows(later, since)
    shutil.rmtree(folder)
    assert ADAPTER.refresh(source) is None


def test_a_title_that_comes_later_is_taken_though_the_messages_are_the_same(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(FIXTURES / "sdk-fork/root", root)
    sync(root, tmp_path)[0].close()
    manifest = root / "sessions/1794777000000_aaaaa/1794777000000_aaaaa.json"
    manifest.write_text(manifest.read_text().replace("Say hello", "A greeting"))
    later = time.time_ns()
    os.utime(manifest, ns=(later, later))
    store, report = sync(root, tmp_path)
    session = store.sessions.get("cline:1794777000000_aaaaa")
    assert session is not None
    assert (session.title, report.events) == ("A greeting", 0)


# Documents that are written again.


def test_what_is_added_to_a_task_is_added_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    rows = [row(0, "task", "hello"), request(1, 10, 2), row(2, "text", "Hi.")]
    write(root, *rows)
    store, _ = sync(root, tmp_path)
    before = told(store)
    store.close()
    write(root, *rows, row(3, "user_feedback", "more"), request(4, 20, 3), row(5, "text", "There."))
    store, report = sync(root, tmp_path)
    after = told(store)
    assert after[: len(before)] == before
    assert [(kind, body) for _, kind, body in after[len(before) :]] == [
        ("user_msg", "more"),
        ("lifecycle", ""),
        ("assistant_msg", "There."),
    ]
    assert report.events == 3
    assert counted(store) == 35
    store.close()
    _, report = sync(root, tmp_path)
    assert (report.events, report.found) == (0, {"unchanged": 1})


def test_a_text_that_was_read_while_it_grew_is_replaced_by_the_whole(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, row(0, "task", "hello"), row(1, "text", "Let me", partial=True))
    sync(root, tmp_path)[0].close()
    write(
        root,
        row(0, "task", "hello"),
        row(1, "text", "Let me look."),
        row(2, "completion_result", "Done."),
    )
    store, _ = sync(root, tmp_path)
    events = {
        store.sessions.bodies(event.session_uid).get(event.seq): event
        for event in store.sessions.events(f"cline:{TASK}")
    }
    assert events["Let me"].is_gone
    assert not events["Let me look."].is_gone
    assert not events["hello"].is_gone


def test_tokens_that_come_after_the_request_was_read_are_counted_once(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, row(0, "task", "hello"), request(1))
    store, _ = sync(root, tmp_path)
    assert counted(store) == 0
    store.close()
    for _ in range(2):
        write(root, row(0, "task", "hello"), request(1, 100, 5, 40, 10), row(2, "text", "Hi."))
        store, _ = sync(root, tmp_path)
        assert counted(store) == 155
        store.close()


def test_what_a_person_deleted_stays_and_its_tokens_stay_counted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    first = [row(0, "task", "hello"), request(1, 10, 2)]
    write(root, *first, row(2, "text", "wrong"), request(3, 20, 3))
    sync(root, tmp_path)[0].close()
    write(
        root,
        *first,
        row(4, "deleted_api_reqs", {"tokensIn": 20, "tokensOut": 3}),
        row(5, "text", "right"),
    )
    store, _ = sync(root, tmp_path)
    events: list[SessionEvent] = list(store.sessions.events(f"cline:{TASK}"))
    bodies = store.sessions.bodies(f"cline:{TASK}")
    assert {bodies.get(event.seq) for event in events if event.is_gone} == {"wrong", ""}
    assert counted(store) == 35
    assert [reason for _, _, reason in store.sources.skips()] == [f"23 {LOST}"]


def test_a_copy_of_a_task_elsewhere_has_the_same_keys(tmp_path: Path) -> None:
    keys = []
    for place in ("a", "b"):
        write(tmp_path / place, row(0, "task", "hello"), request(1, 10, 2))
        keys.append([call.key for call, _ in read(tmp_path / place).calls])
    assert keys[0] == keys[1] == [f"{TASK}/{T0 + 1000}"]


def test_messages_of_a_fork_are_references_and_are_counted_once(tmp_path: Path) -> None:
    store, report = sync(FIXTURES / "sdk-fork/root", tmp_path)
    old, new = "cline:1794777000000_aaaaa", "cline:1794777100000_bbbbb"
    copies = [event.origin for event in store.sessions.events(new) if event.origin]
    assert report.copies == len(copies) == 6
    assert all(origin.startswith(f"{old}#") for origin in copies)
    session = store.sessions.get(new)
    assert session is not None
    assert (session.parent_uid, session.relation) == (old, "fork")
    assert [body for _, kind, body in told(store, new) if kind == "assistant_msg"][-1] == "HELLO."


# One order out of two documents.

HISTORY = [
    {"role": "user", "content": "<task>x</task>"}, {"role": "assistant", "content": "1"},
    {"role": "user", "content": "result 1"},
    {"role": "assistant", "content": "2"}, {"role": "user", "content": "result 2"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "history"),
    [
        pytest.param(
            lambda row, count, ts: row, lambda message, ts: message, id="neither counts nor times"
        ),
        pytest.param(
            lambda row, count, ts: {**row, "conversationHistoryIndex": count},
            lambda message, ts: message,
            id="counts",
        ),
        pytest.param(
            lambda row, count, ts: {**row, "ts": ts},
            lambda message, ts: {**message, "ts": ts},
            id="times",
        ),
    ],
)
def test_a_message_stands_after_its_request_and_an_answer_before_the_next(
    rows: Callable[..., Any], history: Callable[..., Any]
) -> None:
    made = [
        ("task", -1, 0),
        ("api_req_started", -1, 10),
        ("tool", 0, 20),
        ("api_req_started", 1, 40),
        ("tool", 2, 50),
        ("api_req_started", 3, 70),
    ]
    timeline = [rows({"say": word}, count, ts) for word, count, ts in made]
    messages = [
        history(message, ts) for message, ts in zip(HISTORY, (11, 30, 41, 60, 71), strict=True)
    ]
    found = [
        item["say"][0] if "say" in item else item["history"]
        for item in documents._task(timeline, messages)
    ]
    assert "".join(map(str, found)) == "ta0t1a2t3a4"


def test_an_output_that_its_result_repeats_is_told_once(tmp_path: Path) -> None:
    output = ["line of output\n" * 50, 'a "b"']
    rows = [row(3 + n, "command_output", text, "ask") for n, text in enumerate(output)]
    write(
        tmp_path,
        row(0, "task", "x"),
        request(1, 1, 1),
        row(2, "command", "make", "ask"),
        *rows,
        request(5, 1, 1),
    )
    assert [body for event, body in events(tmp_path) if event.kind == "tool_result"] == [
        "\n".join(output)
    ]
    text = "[execute_command for 'make'] Result:\nCommand executed.\nOutput:\n" + "".join(output)
    result = {"role": "user", "content": [{"type": "text", "text": text}]}
    write(
        tmp_path,
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y"},
        result,
        name="api_conversation_history.json",
    )
    (found,) = [(event, body) for event, body in events(tmp_path) if event.kind == "tool_result"]
    assert found[1].startswith("Command executed.")
    assert found[0].call_id == next(
        event.native_id for event, _ in events(tmp_path) if event.kind == "tool_call"
    )


def events(root: Path) -> list[tuple[SessionEvent, str]]:
    found = read(root)
    return list(zip(found.events, found.bodies, strict=True))


# Tokens and money.


@pytest.mark.parametrize(
    ("provider", "fresh"),
    [("anthropic", 1000), ("openrouter", 1000), ("xai", 400), ("litellm", 400), (None, 1000)],
)
def test_some_providers_count_the_cache_into_the_prompt(
    tmp_path: Path, provider: str | None, fresh: int
) -> None:
    info = {"modelInfo": {"providerId": provider, "modelId": "m"}} if provider else {}
    write(tmp_path, row(0, "task", "x"), request(1, 1000, 5, 500, 100) | info)
    ((call, _),) = read(tmp_path).calls
    assert (
        call.input_tokens,
        call.cache_read_tokens,
        call.cache_write_5m_tokens,
        call.output_tokens,
    ) == (fresh, 500, 100, 5)
    assert call.model == ("m" if provider else None)


def test_only_what_a_provider_charged_is_an_invoice(tmp_path: Path) -> None:
    for provider, invoiced in (("openrouter", 2_000_000_000), ("anthropic", None)):
        write(
            tmp_path,
            row(0, "task", "x"),
            request(1, 10, 5, cost=0.002) | {"modelInfo": {"providerId": provider, "modelId": "m"}},
        )
        found = read(tmp_path)
        ((call, _),) = found.calls
        assert (call.invoiced, call.recorded) == (invoiced, 2_000_000_000)
        assert [event.extra for event in found.events if event.usage] == [{"cost_usd": 0.002}]


# What can be told from words.


def test_results_are_found_only_where_one_begins() -> None:
    printed = "out\n[read_file for 'x'] Result:\nprinted"
    text = (
        f"[execute_command for 'a\nb'] Result:\n{printed}\n\n[read_file for 'y']"
        " Result:\ny\n<environment_details>\nz"
    )
    assert words.results_in(text) == [("execute_command", printed), ("read_file", "y")]
    assert words.results_in("The [read_file for 'x'] Result: of it") == []
    assert (
        words.results_in("[TASK RESUMPTION] Interrupted.\n\n[read_file for 'x'] Result:\ny") == []
    )


def test_results_that_were_blocks_are_found_in_a_request() -> None:
    text = (
        "[Tool]\n[read_file for 'x'] Result:\n1\n\n[Tool (Error)]\nno such"
        " file\n\n[Tool]\nthird\n\nLoading..."
    )
    assert words.results_in(text) == [
        ("read_file", "1"),
        ("", "[Tool (Error)]\nno such file"),
        ("", "third"),
    ]
    assert words.results_in("[list_files]\na\nb") == [("list_files", "a\nb")]
    assert words.result("[Tool (Error)]\nno such file", "read", is_test=False).is_error


def test_calls_in_a_text_are_taken_out_of_it() -> None:
    text = (
        "I look.\n<read_file>\n<path>a</path>\n</read_file>\nThen.\n<execute_command>\nnever closed"
    )
    assert list(words.spoken(text)) == [
        ("", "I look.", {}),
        ("read_file", "\n<path>a</path>\n", {"path": "a"}),
        ("", "Then.\n<execute_command>\nnever closed", {}),
    ]


HOSTILE = {
    "openings": "<read_file>\n" * 50_000,
    "arguments": "<read_file>\n" + "".join(f"<a{n}>" for n in range(50_000)) + "</read_file>",
    "marks": "[read_file for '" * 50_000,
    "lines of marks": "[read_file for 'x'\n\n" * 50_000,
    "searches": "<<<<<<< SEARCH\n=======\n" * 50_000,
    "surroundings": "<environment_details>" * 50_000,
    "typed": "<task>" + "</task >" * 50_000,
    "quotes": "[read_file for '" + "'" * 500_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_no_long_time(text: str) -> None:
    began = time.process_time()
    words.results_in(text)
    list(words.spoken(text))
    words.change("appliedDiff", {"path": "a", "diff": text})
    words.typed(text)
    words.folder_in(text)
    assert time.process_time() - began < 5


# All of it, step by step.


@pytest.mark.parametrize(
    "case", ["timeline", "history-xml", "history-native", "history-alone", "claude-messages"]
)
def test_a_task_that_is_synced_while_it_grows_is_the_same_in_the_end(
    tmp_path: Path, case: str, loops: Callable[[int], int]
) -> None:
    root = tmp_path / "root"
    shutil.copytree(FIXTURES / case / "root", root)
    (source,) = ADAPTER.discover(root)
    at_once, _ = sync(root, tmp_path)
    (uid,) = at_once.sessions.uids(Filter(parents_only=False))
    wanted, tokens = present(at_once, uid), counted(at_once, uid)
    at_once.close()
    (tmp_path / "store.db").unlink()
    documents = {
        path: json.loads(path.read_text())
        for path in Path(source.path).parent.glob("*.json")
        if path.name != "task_metadata.json"
    }
    steps = loops(100)
    for step in range(1, steps + 1):
        for path, items in documents.items():
            path.write_text(json.dumps(items[: max(1, len(items) * step // steps)]))
            os.utime(path, ns=(step, step))
        store, report = sync(root, tmp_path)
        assert not report.problems
        store.close()
    store = open_store(str(tmp_path / "store.db"))
    assert present(store, uid) == wanted
    assert counted(store, uid) == tokens


def present(store: Store, uid: str) -> set[tuple[str | None, str, str]]:
    bodies = store.sessions.bodies(uid)
    return {
        (event.native_id, event.kind, bodies.get(event.seq) or "")
        for event in store.sessions.events(uid)
        if not event.is_gone
    }
