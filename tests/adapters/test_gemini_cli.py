"""What Gemini CLI's adapter promises beyond what its fixtures show."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import config
from runlore.adapters import Normalized, Position, Record, Source, get
from runlore.adapters.gemini_cli import reader, words
from runlore.adapters.shared import fold
from runlore.model import Session
from runlore.pricing.ledger import merge
from runlore.store import Filter, Store
from runlore.sync import pipeline
from runlore.testing import Fixture, iter_fixtures
from runlore.timeline import abandoned, active, model_context

ADAPTER = get("gemini_cli")
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == ADAPTER.name
]
SESSION = "0a0b0c0d-0000-4000-8000-00000000000a"
NAME = "session-2026-05-02T10-00-0a0b0c0d"
HEADER = {
    "sessionId": SESSION,
    "projectHash": "p",
    "startTime": "2026-05-02T10:00:00.000Z",
    "kind": "main",
}


def case(name: str) -> Path:
    return next(fixture.root for fixture in FIXTURES if fixture.case == name)


def records(*lines: dict[str, Any]) -> Iterator[Record]:
    offset = 0
    for line in lines:
        data = json.dumps(line).encode()
        yield Record(data, offset, None, None, offset + len(data) + 1)
        offset += len(data) + 1


def read(
    *lines: dict[str, Any], carry: bytes | None = None, hints: tuple[str, ...] = ()
) -> Normalized:
    source = Source(
        agent=ADAPTER.name,
        path=f"/g/p/chats/{NAME}.jsonl",
        root="/g",
        size=0,
        mtime_ns=0,
        hints=hints,
    )
    return ADAPTER.normalize(source, records(*lines), carry)


def user(key: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": key,
        "timestamp": "2026-05-02T10:00:01.000Z",
        "type": "user",
        "content": text,
        **more,
    }


def say(key: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": key,
        "timestamp": "2026-05-02T10:00:02.000Z",
        "type": "gemini",
        "content": text,
        "model": "gemini-2.5-pro",
        **more,
    }


def tool(
    name: str, args: dict[str, Any], output: str | None, status: str = "success"
) -> dict[str, Any]:
    response = [{"functionResponse": {"id": "c1", "name": name, "response": {"output": output}}}]
    return {
        "id": "c1",
        "name": name,
        "args": args,
        "status": status,
        "result": None if output is None else response,
    }


def write(path: Path, *messages: dict[str, Any], **more: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps({**HEADER, **more, "messages": messages}, indent=1))
    else:
        path.write_text(
            "".join(json.dumps(line) + "\n" for line in ({**HEADER, **more}, *messages))
        )
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".gemini" / "tmp"


def sync(store: Store, root: Path) -> pipeline.Report:
    return pipeline.sync(store, config.load(), agents=[ADAPTER.name], roots=[str(root)])


def told(found: Normalized) -> list[tuple[str, str]]:
    return [
        (event.kind, body)
        for event, body in zip(found.events, found.bodies, strict=True)
        if event.native not in ("header", "tokens")
    ]


# Reading.


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.case)
def test_both_ways_of_decoding_give_the_same(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: bytes) -> Any:
        raise msgspec.DecodeError

    sources = list(ADAPTER.discover(fixture.root))
    fast = [ADAPTER.normalize(found, ADAPTER.read(found, None), None) for found in sources]
    monkeypatch.setattr(fold, "decode", refuse)
    assert fast == [ADAPTER.normalize(found, ADAPTER.read(found, None), None) for found in sources]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.case)
def test_nothing_that_was_said_is_carried_over(fixture: Fixture) -> None:
    for found in ADAPTER.discover(fixture.root):
        result = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
        carry = repr(msgspec.msgpack.decode(result.carry))
        assert not [body for body in result.bodies if len(body) > 12 and body in carry]


KEYS = (
    "id type content parts text toolCalls thoughts tokens input name args status result"
    " functionCall functionResponse $set".split()
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(["user", "gemini", "a", "b", "success"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=10,
)
CONTENTS: list[Any] = [
    "x", "/y", "", [{"text": "x"}, {"inlineData": {"data": "AAAA"}}],
    [{"text": "t", "thought": True}, {"text": "z"}],
    [{"functionCall": {"id": "c1", "name": "glob", "args": {}}}],
    [{"functionResponse": {"id": "c1", "response": {"output": "a"}}}],
]  # fmt: skip
CALLS: list[Any] = [
    17,
    {"name": "glob"},
    {"id": "c1", "status": "executing"},
    {"id": "c1", "status": "success"},
    {"id": "c2", "result": "r"},
]
MESSAGES = st.fixed_dictionaries(
    {"id": st.sampled_from("abc"), "type": st.sampled_from(["user", "gemini", "info", "new"])},
    optional={
        "content": st.sampled_from(CONTENTS),
        "displayContent": st.sampled_from(CONTENTS),
        "toolCalls": st.lists(st.sampled_from(CALLS), max_size=3),
        "thoughts": st.lists(st.just({"subject": "s"}), max_size=2),
        "tokens": st.just({"input": 1, "output": 1, "total": 2}),
    },
)
LINES = (
    MESSAGES
    | st.lists(MESSAGES, max_size=3).map(lambda messages: {"$set": {"messages": messages}})
    | st.sampled_from("abcd").map(lambda name: {"$rewindTo": name})
    | st.dictionaries(st.sampled_from([*KEYS, "$rewindTo", "sessionId"]), VALUES, max_size=6)
)


@given(st.lists(LINES, max_size=8))
def test_any_record_is_taken_and_any_cut_gives_the_same(lines: list[dict[str, Any]]) -> None:
    whole = read(*lines)
    carry, events, bodies = None, [], []
    for line in lines:
        part = read(line, carry=carry)
        carry = part.carry
        events += part.events
        bodies += part.bodies
    assert (events, bodies) == (whole.events, whole.bodies)
    names = {event.native_id for event in events}
    assert len(names) == len(events)
    assert names.issuperset(parent for parent in whole.parents if parent is not None)


def test_only_what_is_new_is_read_of_a_log(root: Path) -> None:
    path = write(root / "shop/chats" / f"{NAME}.jsonl", user("a", "one"))
    (source,) = ADAPTER.discover(root)
    first = list(ADAPTER.read(source, None))
    position = ADAPTER.position(source, first[-1].end, 2)
    with path.open("a") as file:
        file.write(json.dumps(say("b", "two")) + "\n" + '{"id":"c","type":"us')
    assert ADAPTER.follows(source, position)
    assert [record.offset for record in ADAPTER.read(source, position)] == [position.offset]


# A message that is told again.


def test_a_message_that_is_told_again_gives_only_what_is_new() -> None:
    call = tool("run_shell_command", {"command": "ls"}, None, "executing")
    done = tool("run_shell_command", {"command": "ls"}, "Output: a.py")
    tokens = {"input": 10, "output": 2, "cached": 4, "thoughts": 1, "tool": 0, "total": 13}
    found = read(
        HEADER,
        say("m", "I look."),
        say("m", "I look.", toolCalls=[call]),
        say("m", "I look.", toolCalls=[done], tokens=tokens),
    )
    assert told(found) == [
        ("assistant_msg", "I look."),
        ("tool_call", "ls"),
        ("tool_result", "Output: a.py"),
    ]
    (again,) = [event for event in found.events if event.usage]
    assert again.usage is not None
    assert (again.usage.input_tokens, again.usage.cache_read_tokens, again.usage.output_tokens) == (
        6,
        4,
        3,
    )


def test_a_message_that_says_something_else_takes_the_place_of_what_it_said() -> None:
    found = read(HEADER, user("a", "hi"), say("m", "Hel"), say("m", "Hello"))
    seen = model_context(linked(found), found.events[-1].seq)
    assert [entry.event.summary for entry in seen] == ["hi", "Hello"]


def test_names_of_parts_do_not_depend_on_when_they_were_read() -> None:
    calls = [
        {**tool("glob", {"pattern": "*"}, "x"), "id": "c1"},
        {**tool("glob", {"pattern": "?"}, "y"), "id": "c2"},
    ]
    pending = [{**call, "result": None, "status": "executing"} for call in calls]
    at_once = read(HEADER, say("m", "", toolCalls=calls, thoughts=[{"subject": "Hm"}]))
    grown = read(
        HEADER,
        say("m", "", toolCalls=pending),
        say("m", "", toolCalls=calls, thoughts=[{"subject": "Hm"}]),
    )
    assert {(event.native_id, event.kind) for event in at_once.events} == {
        (event.native_id, event.kind) for event in grown.events
    }


def linked(found: Normalized) -> list[Any]:
    places: dict[str | None, int] = {event.native_id: event.seq for event in found.events}
    return [
        msgspec.structs.replace(event, parent_seq=places.get(parent))
        for event, parent in zip(found.events, found.parents, strict=True)
    ]


# Rewinds and compactions.


def test_a_rewind_leaves_a_line_behind() -> None:
    lines = (
        HEADER,
        user("a", "one"),
        say("b", "1"),
        user("c", "two"),
        say("d", "2"),
        {"$rewindTo": "c"},
    )
    found = read(*lines)
    marker = found.events[-1]
    assert (marker.kind, marker.view) == ("human_intervention", "retract")
    assert [entry.event.summary for entry in model_context(linked(found), marker.seq)] == [
        "one",
        "1",
    ]
    events = linked(read(*lines, user("e", "three")))
    assert [event.summary for event in active(events) if event.kind == "user_msg"] == [
        "one",
        "three",
    ]
    assert [
        event.summary for line in abandoned(events) for event in line if event.kind == "user_msg"
    ] == ["two"]


def test_after_a_compaction_the_model_sees_the_summary_and_what_was_kept() -> None:
    summary = {
        "id": "s",
        "type": "user",
        "content": [{"text": "<state_snapshot>so far</state_snapshot>"}],
    }
    kept = {**say("d", ""), "content": [{"text": "2"}]}
    change = {"$set": {"messages": [summary, user("c", "two"), kept]}}
    found = read(
        HEADER,
        user("a", "one"),
        say("b", "1"),
        user("c", "two"),
        say("d", "2"),
        change,
        user("e", "three"),
    )
    seen = [entry.event.summary for entry in model_context(linked(found), found.events[-1].seq)]
    assert seen == ["two", "2", "<state_snapshot>so far</state_snapshot>", "three"]


def test_a_result_that_is_masked_is_seen_as_cleared_and_kept_as_it_was() -> None:
    whole = say("b", "", toolCalls=[tool("read_file", {"file_path": "a"}, "long")])
    masked = say(
        "b", "", toolCalls=[tool("read_file", {"file_path": "a"}, f"{words.MASKED} saved")]
    )
    found = read(
        HEADER, user("a", "one"), whole, {"$set": {"messages": [user("a", "one"), masked]}}
    )
    assert "long" in found.bodies
    assert [
        entry.event.kind
        for entry in model_context(linked(found), found.events[-1].seq)
        if entry.is_cleared
    ] == ["tool_result"]
    again = read({"$set": {"messages": [user("a", "one"), masked]}}, carry=found.carry)
    assert (again.events, again.merged) == ([], {"$set": 1})


def test_a_history_longer_than_what_is_remembered_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "MESSAGES", 4)
    messages = [user(f"m{n}", f"words {n}") for n in range(10)]
    found = read(HEADER, *messages, {"$set": {"messages": messages}})
    assert len(told(found)) == 10


# Documents.


def test_a_document_that_is_written_anew_is_compared_by_name(root: Path, store: Store) -> None:
    path = root / "shop/chats" / f"{NAME}.json"
    pending = tool("run_shell_command", {"command": "ls"}, None, "executing")
    write(path, user("a", "one"), say("b", "I look.", toolCalls=[pending]), user("x", "never mind"))
    assert sync(store, root).events == 5
    tokens = {"input": 10, "output": 2, "cached": 4, "thoughts": 1, "tool": 0, "total": 13}
    done = tool("run_shell_command", {"command": "ls"}, "a.py")
    write(
        path,
        user("a", "one"),
        say("b", "I look.", toolCalls=[done], tokens=tokens),
        summary="Listing",
    )
    report = sync(store, root)
    assert (report.found, report.events) == ({"rewritten": 1}, 2)
    events = {
        event.summary: event.is_gone for event in store.sessions.events(f"gemini_cli:{SESSION}")
    }
    assert events == {
        "session started": False, "one": False, "I look.": False, "ls": False, "never mind": True,
        "a.py": False,
        "10 tokens in, 3 out": False,
    }  # fmt: skip
    session = store.sessions.get(f"gemini_cli:{SESSION}")
    assert session is not None
    assert (session.title, session.cost.input_tokens, session.cost.output_tokens) == (
        "Listing",
        6,
        3,
    )
    assert sync(store, root).found == {"unchanged": 1}


def test_a_document_that_became_a_log_stays_one_session(root: Path, store: Store) -> None:
    path = write(
        root / "shop/chats" / f"{NAME}.json",
        user("a", "one"),
        say("b", "1", tokens={"input": 5, "output": 1, "total": 6}),
    )
    sync(store, root)
    write(
        path.with_suffix(".jsonl"),
        user("a", "one"),
        say("b", "1", tokens={"input": 5, "output": 1, "total": 6}),
        user("c", "two"),
    )
    sync(store, root)
    assert store.sessions.count(Filter()) == 1
    session = store.sessions.get(f"gemini_cli:{SESSION}")
    assert session is not None
    words_said = [
        event.summary
        for event in store.sessions.events(session.session_uid)
        if event.kind == "user_msg"
    ]
    assert words_said == ["one", "two"]
    assert session.cost.input_tokens == 5


def test_a_document_that_is_cut_off_is_named_and_read_when_it_is_whole(
    root: Path, store: Store
) -> None:
    path = write(root / "shop/chats" / f"{NAME}.json", user("a", "one"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert "no whole JSON" in sync(store, root).problems[0][1]
    assert store.sessions.count(Filter()) == 0
    path.write_bytes(whole)
    report = sync(store, root)
    assert (report.problems, store.sessions.count(Filter())) == ([], 1)


def test_a_document_of_the_same_length_is_another_one(root: Path) -> None:
    filler = "x" * 20_000
    path = write(
        root / "shop/chats" / f"{NAME}.json",
        user("a", filler),
        user("b", "left"),
        user("c", filler),
    )
    (source,) = ADAPTER.discover(root)
    position = ADAPTER.position(source, 10, 1)
    assert ADAPTER.follows(source, position)
    path.write_bytes(path.read_bytes().replace(b"left", b"gone"))
    assert not ADAPTER.follows(source, position)
    assert not ADAPTER.follows(source, Position(offset=10))


def test_what_was_typed_is_not_told_again_when_the_agent_deletes_the_session(
    root: Path, store: Store
) -> None:
    path = write(root / "shop/chats" / f"{NAME}.jsonl", user("a", "one"))
    entry = {
        "sessionId": SESSION,
        "messageId": 0,
        "timestamp": "2026-05-02T10:00:01.000Z",
        "type": "user",
        "message": "one",
    }
    (root / "shop/logs.json").write_text(json.dumps([entry]))
    sync(store, root)
    path.unlink()
    (root / "shop/logs.json").write_text(
        json.dumps([entry, {**entry, "messageId": 1, "sessionId": "another", "message": "two"}])
    )
    sync(store, root)
    assert [event.summary for event in store.sessions.events(f"gemini_cli:{SESSION}")] == [
        "session started",
        "one",
    ]
    assert store.sessions.count(Filter()) == 1


# Where things are.


def test_only_files_of_sessions_are_found(tmp_path: Path) -> None:
    home = tmp_path / ".gemini"
    for name in (
        "settings.json",
        "oauth_creds.json",
        "tmp/shop/checkpoint-a.json",
        "tmp/shop/shell.json",
        "tmp/shop/chats/a.txt",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}")
    path = write(home / "tmp/shop/chats" / f"{NAME}.jsonl", user("a", "one"))
    assert [source.path for source in ADAPTER.discover(home)] == [str(path)]
    assert [source.path for source in ADAPTER.discover(home / "tmp")] == [str(path)]
    (tmp_path / "loose").mkdir()
    shutil.copy(path, tmp_path / "loose/a.jsonl")
    shutil.copy(home / "oauth_creds.json", tmp_path / "loose")
    assert [os.path.basename(source.path) for source in ADAPTER.discover(tmp_path / "loose")] == [
        "a.jsonl"
    ]


@pytest.mark.parametrize("way", ["note", "slug", "hash", "nothing"])
def test_the_folder_of_a_session_is_known_by_its_project(root: Path, way: str) -> None:
    place = "/home/dev/shop"
    name = hashlib.sha256(place.encode()).hexdigest() if way == "hash" else "shop"
    write(root / name / "chats" / f"{NAME}.jsonl", user("a", "one"))
    if way == "note":
        (root / name / ".project_root").write_text(place + "\n")
    elif way != "nothing":
        (root.parent / "projects.json").write_text(
            json.dumps({"projects": {"/home/dev/x": "x", place: "shop"}})
        )
    (source,) = ADAPTER.discover(root)
    (facts,) = ADAPTER.normalize(source, ADAPTER.read(source, None), None).facts.values()
    assert facts.cwd == (None if way == "nothing" else place)


def test_a_variable_names_another_home(tmp_path: Path) -> None:
    assert ADAPTER.find_roots({"GEMINI_CLI_HOME": str(tmp_path)}) == [tmp_path / ".gemini/tmp"]


def test_the_command_to_go_on() -> None:
    session = Session(
        session_uid=f"gemini_cli:{SESSION}", flavor="gemini_cli", native_session_id=SESSION
    )
    assert ADAPTER.resume(session) == ["gemini", "--resume", SESSION]
    assert ADAPTER.resume(msgspec.structs.replace(session, relation="subagent")) is None
    for name, wanted in (
        (f"{SESSION}/2026-05-02T11-00", ["gemini", "--resume", SESSION]),
        ("a2a-server-2026-05-02T11-00", None),
    ):
        other = Session(
            session_uid=f"gemini_cli:{name}", flavor="gemini_cli", native_session_id=name
        )
        assert ADAPTER.resume(other) == wanted


# Several files with the same id.


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_subagent_with_the_id_of_its_session_is_kept_apart(
    store: Store, tmp_path: Path, is_reversed: bool
) -> None:
    root = Path(shutil.copytree(case("same-id"), tmp_path / "root"))
    files = sorted((root / "shop/chats").iterdir(), reverse=is_reversed)
    for n, file in enumerate(files):  # What was written last is read first.
        os.utime(file, (1_700_000_000 + n, 1_700_000_000 + n))
    sync(store, root)
    first = "gemini_cli:6f708192-0000-4000-8000-000000000006"
    session = store.sessions.get(first)
    assert session is not None
    assert (session.title, session.model, session.cwd) == (
        "Where are prices rounded?",
        "gemini-2.5-pro",
        "/home/ada/shop",
    )
    assert (session.cost.input_tokens, session.cost.output_tokens) == (200, 20)
    assert abandoned(store.sessions.events(first)) == []
    lines = store.sessions.select(Filter(parent_uid=first, parents_only=False))
    assert {line.uid.removeprefix(first): line.relation for line in lines} == {
        "/agent-2025-12-01T10-01": "subagent",
        "/2025-12-01T10-20": "continuation",
        "/agent-2025-12-01T10-21": "subagent",
        "/agent-2025-12-01T10-22": "subagent",
    }


def test_without_a_log_only_tasks_of_the_program_are_recognized(tmp_path: Path) -> None:
    root = Path(shutil.copytree(case("same-id"), tmp_path / "root"))
    (root / "shop/logs.json").unlink()
    relations = {
        next(iter(found.facts.values())).relation
        for source in ADAPTER.discover(root)
        if source.path.endswith(("10-20-6f708192.json", "10-21-6f708192.json"))
        for found in [ADAPTER.normalize(source, ADAPTER.read(source, None), None)]
    }
    assert relations == {None}


def test_a_command_that_became_a_prompt_was_typed(root: Path) -> None:
    chats = root / "p/chats"
    prompt = user("b", "Review every file of the shop.", timestamp="2026-05-02T11:00:01.500Z")
    file = write(chats / "session-2026-05-02T11-00-0a0b0c0d.json", prompt)
    file.write_text(file.read_text().replace('"kind": "main",', ""))
    typed = {"sessionId": SESSION, "type": "user", "message": "/review shop"}
    for at, relation in (("11:00:01", None), ("10:40:00", "subagent"), ("12:00:00", None)):
        log = [{**typed, "timestamp": f"2026-05-02T{at}.000Z"}]
        (root / "p/logs.json").write_text(json.dumps(log) + " " * len(at))
        (later,) = [source for source in ADAPTER.discover(root) if "T11-00" in source.path]
        found = ADAPTER.normalize(later, ADAPTER.read(later, None), None)
        assert next(iter(found.facts.values())).relation == relation


def test_every_file_of_the_server_is_a_session(store: Store) -> None:
    sync(store, case("server"))
    assert [(line.uid, line.title) for line in store.sessions.select(Filter(), sort="started")] == [
        ("gemini_cli:a2a-server-2026-06-01T11-30-b2b2b2b2", "Write a test"),
        ("gemini_cli:a2a-server-2026-06-01T10-00-b2b2b2b2", "Rename the function"),
    ]


# What things mean.


@pytest.mark.parametrize(
    ("text", "is_command"),
    [
        ("/chat list", True),
        ("/help", True),
        ("?", True),
        ("/home/dev/a.py is broken", False),
        ("/ what", True),
        ("why?", False),
    ],
)
def test_a_command_is_no_path(text: str, is_command: bool) -> None:
    assert words.is_command(text) is is_command


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Output: x\nExit Code: 2\nProcess Group PGID: 1", 2),
        ("Exit Code: 7\nOutput:\nExit Code: 0", 0),
        ("says Exit Code: 3", None),
        ("", None),
    ],
)
def test_how_a_command_ended(output: str, code: int | None) -> None:
    found = read(
        HEADER, say("m", "", toolCalls=[tool("run_shell_command", {"command": "x"}, output)])
    )
    assert (found.events[-1].exit_code, found.events[-1].is_error) == (code, bool(code))


@pytest.mark.parametrize(
    ("counts", "buckets"),
    [
        ((100, 20, 60, 5, 0, 125), (40, 60, 25, 5)),  # thoughts beside the output
        ((100, 20, 60, 5, 0, 120), (40, 60, 20, 5)),  # thoughts within the output
        # what the service's own tools found is a prompt as well
        ((100, 20, 60, 5, 10, 135), (50, 60, 25, 5)),
        ((10, 1, 60, 0, 0, 11), (0, 10, 1, 0)),  # more in the cache than was sent
        ((-5, None, "x", True, 0, 0), (0, 0, 0, 0)),
    ],
)
def test_buckets_of_tokens_do_not_overlap(
    counts: tuple[Any, ...], buckets: tuple[int, ...]
) -> None:
    used = words.usage(*counts)
    assert (
        used.input_tokens,
        used.cache_read_tokens,
        used.output_tokens,
        used.reasoning_tokens,
    ) == buckets


def test_a_call_of_the_model_is_counted_once_and_has_no_path_in_its_name() -> None:
    tokens = {"input": 10, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 12}
    found = read(
        HEADER,
        say("m", "a", tokens=tokens),
        say("m", "a", tokens=tokens),
        say("n", "b", tokens=tokens),
    )
    calls = [entry.call for entry in merge(call for call, _ in found.calls)]
    assert [call.key for call in calls] == [f"{SESSION}/m", f"{SESSION}/n"]
    assert {(call.provider, call.model) for call in calls} == {("google", "gemini-2.5-pro")}


def test_a_record_of_very_many_parts_is_cut_and_says_so() -> None:
    calls = [{"id": f"c{n}", "name": "glob", "args": {}} for n in range(10_005)]
    found = read(say("m", "", toolCalls=calls), say("n", "next"))
    assert len(found.events) == 10_000 + 1 + 1
    assert found.skips[0].reason == "5 more events of this record are left out"


def test_a_message_of_an_unknown_role_keeps_its_text_and_its_picture(tmp_path: Path) -> None:
    parts = [{"text": "Describe this:"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]
    (tmp_path / "session-1.json").write_text(
        json.dumps({"sessionId": "s1", "messages": [{"role": None, "parts": parts}]})
    )
    adapter = get("gemini_cli")
    (source,) = adapter.discover(tmp_path)
    found = adapter.normalize(source, adapter.read(source, None), None)
    assert "Describe this:" in found.bodies
    assert any("3 B sha256:" in body for body in found.bodies)
