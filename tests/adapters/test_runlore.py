"""Live sessions, taken in by a sync like any agent's: what was said, what was taken back, what the
model sees, runs and skills."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import config, timeline
from runlore.adapters import Normalized, Source, get
from runlore.adapters.runlore.calls import describe_call
from runlore.adapters.runlore.lines import Line
from runlore.adapters.runlore.usage import usage_of
from runlore.digest.attempts import find_attempts
from runlore.errors import LogError
from runlore.live import LiveSession, SessionStore
from runlore.model import LogRecord, SessionEvent, Usage
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline

ADAPTER = get("runlore")


@pytest.fixture
def live(home: Path) -> SessionStore:
    return SessionStore(home / ".runlore" / "live")


def sync(tmp_path: Path, *agents: str) -> Store:
    store = open_store(str(tmp_path / "memory.db"))
    pipeline.sync(store, config.load(), agents=list(agents) or ["runlore"])
    return store


def derive(live: SessionStore, id: str) -> Normalized:
    source = next(
        source for source in ADAPTER.discover(live.path) if Path(source.path).parent.name == id
    )
    return ADAPTER.normalize(source, ADAPTER.read(source, None), None)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def texts(events: list[SessionEvent]) -> list[str | None]:
    return [event.summary for event in events if event.kind in ("user_msg", "assistant_msg")]


def test_its_letters_are_those_of_the_log() -> None:
    assert Line.__struct_fields__ == tuple(
        LogRecord.__struct_encode_fields__[LogRecord.__struct_fields__.index(name)]
        for name in ("seq", "id", "ts", "type", "payload")
    )


def test_a_subagent_belongs_to_the_call_that_started_it(live: SessionStore, tmp_path: Path) -> None:
    with live.create(id="user:42/chat", app="a") as lead:
        call = {"type": "tool_use", "id": "call-1", "name": "delegate", "input": {"task": "look"}}
        lead.append({"role": "assistant", "content": [call]})
        lead.put_values({"app:seen": True})
    with live.create(id="user:42/chat/sub", parent=lead.id, call="call-1") as sub:
        sub.append(user("look"))
        sub.update_meta(model="m-2")
        sub.append(assistant("seen"))
    store = sync(tmp_path)
    assert [line.uid for line in store.sessions.select(Filter())] == ["runlore:user:42/chat"]
    sub_uid = "runlore:user:42/chat/sub"
    stored = store.sessions.get(sub_uid)
    assert stored is not None
    assert (stored.parent_uid, stored.relation, stored.model) == (
        "runlore:user:42/chat",
        "subagent",
        "m-2",
    )
    source = next(one for one in ADAPTER.discover(live.path) if "%2Fsub" in one.path)
    facts = ADAPTER.normalize(source, ADAPTER.read(source, None), None).facts
    assert facts[sub_uid].parent_call == "call-1"


def test_a_live_session_is_found_where_the_log_puts_it_by_default(
    live: SessionStore, tmp_path: Path
) -> None:
    with SessionStore().create(model="m-1", cwd=str(tmp_path), agent="mine") as session:
        session.append(user("please fix the build"))
        session.append(assistant("It builds now."))
    store = sync(tmp_path)
    (line,) = store.sessions.select(Filter())
    assert (line.uid, line.agent, line.title, line.model) == (
        f"runlore:{session.id}",
        "runlore",
        "please fix the build",
        "m-1",
    )
    assert line.cwd == str(tmp_path)
    assert texts(list(store.sessions.events(line.uid))) == [
        "please fix the build",
        "It builds now.",
    ]


def test_a_rewind_shows_as_an_abandoned_line_also_when_it_comes_later(
    live: SessionStore, tmp_path: Path
) -> None:
    session = live.create()
    session.append(user("write a poem"))
    asked = session.append(assistant("about what?"))
    session.state.start(goal_id="poem")  # Noise between two messages.
    session.append(user("about rain"))
    session.append(assistant("drip, drop"))
    sync(tmp_path).close()
    session.rewind(to=asked)
    sync(tmp_path).close()
    session.append(user("about snow"))
    store = sync(tmp_path)
    events = list(store.sessions.events(f"runlore:{session.id}"))
    assert texts(timeline.active(events)) == ["write a poem", "about what?", "about snow"]
    assert [texts(line) for line in timeline.abandoned(events)] == [["about rain", "drip, drop"]]


def test_a_rewind_to_before_a_message_and_one_to_nothing_show_too(
    live: SessionStore, tmp_path: Path
) -> None:
    session = live.create()
    session.append(user("one"))
    second = session.append(user("two"))
    session.rewind(before=second)
    session.append(user("three"))
    session.rewind()
    session.append(user("four"))
    store = sync(tmp_path)
    events = list(store.sessions.events(f"runlore:{session.id}"))
    assert texts(timeline.active(events)) == ["four"]
    assert [texts(line) for line in timeline.abandoned(events)] == [["one", "three"], ["two"]]


def test_what_a_fork_took_along_is_stored_once(live: SessionStore, tmp_path: Path) -> None:
    with live.create(id="a") as session:
        session.append(user("name a colour"))
        blue = session.append(assistant("blue"))
        session.append(user("a warmer one"))
        with session.fork(at=blue, id="0-before") as fork:
            fork.append(user("a darker one"))
    store = sync(tmp_path)
    found = store.sessions.get("runlore:0-before")
    assert found is not None
    assert (found.parent_uid, found.relation) == ("runlore:a", "fork")
    events = list(store.sessions.events("runlore:0-before"))
    assert texts(events) == ["name a colour", "blue", "a darker one"]
    spoken = [event for event in events if event.kind in ("user_msg", "assistant_msg")]
    assert [
        event.origin is not None and event.origin.startswith("runlore:a#") for event in spoken
    ] == [True, True, False]
    assert not [event for event in store.sessions.events("runlore:a") if event.origin]


def test_the_model_sees_in_memory_what_it_sees_in_the_log(
    live: SessionStore, tmp_path: Path
) -> None:
    session = live.create()
    for n in range(4):
        session.append(user(f"u{n}"))
        last = session.append(assistant(f"a{n}"))
    session.append(user("said while the summary was made"))
    session.compact("four were greeted", upto=last)
    session.append(user("and now?"))
    store = sync(tmp_path)
    events = list(store.sessions.events(f"runlore:{session.id}"))
    seen = [item.event.summary for item in timeline.model_context(events, events[-1].seq)]
    assert seen == ["said while the summary was made", "four were greeted", "and now?"]


OPERATIONS = st.lists(
    st.one_of(
        st.just(("user", 0)), st.just(("assistant", 0)), st.just(("noise", 0)),
        st.just(("redo", 0)), st.just(("compact", 0)),
        st.tuples(st.just("rewind"), st.integers(0, 30)),
        st.tuples(st.just("before"), st.integers(0, 30)),
    ),
    max_size=25,
)  # fmt: skip


@given(OPERATIONS)
def test_any_conversation_is_seen_the_same(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int]]
) -> None:
    """The log's own view and the timeline's agree, whatever was said, compacted, and taken back to
    anything that ever was."""
    live = SessionStore(tmp_path_factory.mktemp("live"))
    session = live.create(id="s")
    for n, (what, place) in enumerate(operations):
        records = list(session.records())
        target = records[place % len(records)]
        if what in ("user", "assistant"):
            session.append(user(f"text {n}") if what == "user" else assistant(f"text {n}"))
        elif what == "noise":
            session.record("weather", {"sky": n})
        elif what == "redo":
            with suppress(LogError):
                session.redo()
        elif what == "compact":
            with suppress(LogError):
                session.compact(f"summary {n}")
        else:
            session.rewind(to=target) if what == "rewind" else session.rewind(before=target)
    session.append(user("the end"))
    assert seen(live) == [
        text.removeprefix("[Conversation Summary]\n\n")
        for text in told(session)
        if not text.startswith("Understood.")
    ]


def seen(live: SessionStore) -> list[str | None]:
    events = linked(derive(live, "s"))
    return [item.event.summary for item in timeline.model_context(events, events[-1].seq)]


def told(session: LiveSession) -> list[str]:
    contents = [message["content"] for message in session.messages()]
    return [content if isinstance(content, str) else content[0]["text"] for content in contents]


def linked(found: Normalized) -> list[SessionEvent]:
    """The events with their parents by number, as a store would link them."""
    numbers = {event.native_id: event.seq for event in found.events}

    def number(name: str | None) -> int | None:
        while name is not None and name not in numbers:
            name = found.aliases.get(name)
        return None if name is None else numbers[name]

    return [
        msgspec.structs.replace(event, parent_seq=number(parent))
        for event, parent in zip(found.events, found.parents, strict=True)
    ]


def test_skills_and_runs_are_told(live: SessionStore, tmp_path: Path) -> None:
    session = live.create()
    with session.skills.run("tdd", phase="red") as run:
        with run.attempt(model="small") as attempt:
            attempt.output("wrote a test", runner_output="E   NameError: add")
            attempt.used(input_tokens=10, output_tokens=2)
            attempt.verified(
                by="exit_code",
                command="pytest -q",
                exit_code=1,
                detail="1 failed, 2 passed in 0.1s",
            )
        run.fail("no answer")
    session.state.start(goal_id="g")
    session.state.heartbeat()
    session.state.fail("rate limited")
    found = derive(live, session.id)
    told = {(event.kind, event.native): event for event in found.events}
    check, result = told["test_run", "check"], told["tool_result", "check"]
    assert (check.summary, check.call_id == result.call_id) == ("pytest -q", True)
    assert (result.exit_code, result.is_error, result.tests and result.tests.failed) == (1, True, 1)
    attempt_event = told["lifecycle", "skill.attempt_finished/failed"]
    assert (attempt_event.model, attempt_event.tool, attempt_event.usage) == (
        "small",
        "tdd",
        Usage(input_tokens=10, output_tokens=2),
    )
    failed = told["lifecycle", "skill.finished/fail"]
    assert (failed.summary, failed.is_error) == ("skill tdd: fail", True)
    assert told["error", "state.failed"].summary == "rate limited"
    assert ("lifecycle", "state.started") in told


def test_a_check_that_passed_because_its_command_failed_is_no_error(live: SessionStore) -> None:
    session = live.create()
    with session.skills.run("tdd", phase="red") as run, run.attempt(model="m") as attempt:
        attempt.verified(
            by="test", command="pytest -q", exit_code=1, passed=True, detail="1 failed in 0.1s"
        )
    found = derive(live, session.id)
    assert not any(event.is_error for event in found.events)
    bodies = {event.seq: body for event, body in zip(found.events, found.bodies, strict=True)}
    assert not any(attempt.failed for attempt in find_attempts(found.events, bodies))
    assert "by test: passed with exit code 1" in [event.summary for event in found.events]
    assert "skill.attempt_finished/verified" in [event.native for event in found.events]


@pytest.mark.parametrize(
    ("end", "outcome", "by"),
    [
        (lambda run: run.complete({"report": "done"}), "success", "run"),
        (lambda run: run.complete(quality="failed"), "fail", "run"),
        (lambda run: run.fail("rate limited"), "fail", "run"),
        (lambda run: run.cancel("not needed"), "abandoned", "run"),
        (lambda run: run.pause("write", reason="waits"), "unknown", "run"),
        (lambda run: None, "unknown", ""),
    ],
    ids=["complete", "complete badly", "fail", "cancel", "pause", "active"],
)
def test_the_status_of_a_run_is_its_outcome(
    live: SessionStore, tmp_path: Path, end: Callable[[Any], None], outcome: str, by: str
) -> None:
    session = live.create()
    session.append(user("write the report"))
    session.append(assistant("I am at it."))
    session.state.start(goal_id="g")
    end(session.state)
    session.close()
    with closing(open_store(str(tmp_path / "memory.db"))) as store:
        pipeline.sync(store, config.load(), agents=["runlore"], quiet_s=-1e9)
        found = store.sessions.get(f"runlore:{session.id}")
    assert found is not None
    assert (found.outcome, found.outcome_by) == (outcome, by)
    assert found.outcome_level == ("unknown" if outcome == "unknown" else "verified")


def test_tokens_of_an_attempt_are_left_to_the_messages_where_these_tell_them(
    live: SessionStore,
) -> None:
    session = live.create()
    session.append({**assistant("hello"), "usage": {"input_tokens": 7, "output_tokens": 1}})
    with session.skills.run("tdd") as run, run.attempt(model="m") as attempt:
        attempt.used(input_tokens=7, output_tokens=1)
    assert sum(event.tokens for event in derive(live, session.id).events) == 8


def test_a_long_output_is_found_whole(live: SessionStore, tmp_path: Path) -> None:
    session = live.create()
    session.append(
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "make"}}
            ],
        }
    )
    whole = "x" * 50_000 + " needle " + "y" * 50_000
    session.append(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": whole}]}
    )
    found = derive(live, session.id)
    assert "needle" not in (session.path / "log.jsonl").read_text()
    assert found.bodies[-1] == whole


def test_what_was_deleted_is_not_read(live: SessionStore) -> None:
    live.create(id="kept").append(user("a"))
    live.create(id="gone").append(user("b"))
    live.delete("gone")
    assert [Path(source.path).parent.name for source in ADAPTER.discover(live.path)] == ["kept"]


def test_other_files_of_the_name_are_not_logs(tmp_path: Path) -> None:
    for place in ("log.jsonl", "a/my-log.jsonl", ".making/1/log.jsonl", "b/log.jsonl"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"")
    assert [source.path for source in ADAPTER.discover(tmp_path)] == [
        str(tmp_path / "b" / "log.jsonl")
    ]


def test_a_flipped_byte_is_told_and_kept(live: SessionStore) -> None:
    session = live.create(id="s")
    session.append(user("hello there"))
    file = session.path / "log.jsonl"
    file.write_bytes(file.read_bytes().replace(b"hello", b"hallo"))
    found = derive(live, "s")
    assert texts(found.events) == ["hallo there"]
    assert [skip.reason for skip in found.skips] == ["the checksum does not fit"]


def test_a_record_of_a_million_blocks_is_bounded(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "x"}] * 20_000
    line = {
        "n": 0,
        "i": "a",
        "d": "2026-03-01T10:00:00Z",
        "t": "message",
        "p": {"role": "user", "content": blocks},
    }
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "log.jsonl").write_bytes(json.dumps(line).encode() + b"\n")
    (source,) = ADAPTER.discover(tmp_path)
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    assert len(found.events) == 10_001
    assert "left out" in found.skips[-1].reason


def test_a_carry_of_another_version_is_not_read() -> None:
    source = Source(agent="runlore", path="/x/s/log.jsonl", root="/x", size=0, mtime_ns=0)
    for carry in (b"", b"\xc1", b"\x81\xa7version\x63"):
        assert ADAPTER.normalize(source, [], carry).events == []


@pytest.mark.parametrize(
    ("tool", "given", "kind", "action"),
    [
        ("bash", {"command": "ls"}, "tool_call", "shell"),
        ("run", {"cmd": ["pytest", "-q"]}, "test_run", "shell"),
        ("editor", {"command": "view", "path": "a"}, "tool_call", "edit"),
        ("read_file", {"path": "a"}, "tool_call", "read"),
        ("load", {"path": "a"}, "tool_call", "read"),
        ("save", {"path": "a", "content": "x"}, "edit", "edit"),
        ("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}, "edit", "edit"),
        ("grep", {"pattern": "x", "path": "a"}, "tool_call", "search"),
        ("web_fetch", {"url": "https://example.com"}, "tool_call", "web"),
        ("mcp__db__query", {"sql": "select 1"}, "tool_call", "mcp"),
        ("weather", {}, "tool_call", "other"),
        ("weather", None, "tool_call", "other"),
        ("weather", [1], "tool_call", "other"),
    ],
)
def test_a_call_is_understood_by_what_it_is_given(
    tool: str, given: Any, kind: str, action: str
) -> None:
    found = describe_call(tool, given)
    assert (found.kind, found.action) == (kind, action)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (
            {
                "input_tokens": 10,
                "output_tokens": 2,
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 3,
            },
            (10, 2, 5, 3),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 6},
            },
            (4, 2, 6, 0),
        ),
        (
            {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 6}},
            (4, 2, 6, 0),
        ),
        (
            {
                "input_tokens": 900,
                "output_tokens": 40,
                "cache_read_tokens": 512,
                "total_tokens": 940,
            },
            (388, 40, 512, 0),
        ),
        ({"input_tokens": 5, "cache_read_tokens": 3}, (5, 0, 3, 0)),
    ],
)
def test_tokens_are_counted_in_the_words_of_any_provider(
    told: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    found = usage_of(told)
    assert found is not None
    assert (
        found.input_tokens,
        found.output_tokens,
        found.cache_read_tokens,
        found.cache_write_tokens,
    ) == wanted


@pytest.mark.parametrize(
    "told",
    [None, 3, [], {}, {"input_tokens": -1}, {"input_tokens": True}, {"input_tokens": 1 << 60}],
)
def test_what_is_no_count_is_none(told: Any) -> None:
    assert usage_of(told) is None


def test_a_note_that_is_only_a_text_is_told_as_that_text(live: SessionStore) -> None:
    session = live.create()
    session.state.start("g")
    session.state.decide("use a file")
    session.state.decide({"decision": "use a table", "because": "of its size"})
    session.state.problem("no answer")
    found = derive(live, session.id)
    noted = [
        (event.summary, body)
        for event, body in zip(found.events, found.bodies, strict=True)
        if event.kind in ("decision", "error")
    ]
    assert [summary for summary, _ in noted] == ["use a file", "use a table", "no answer"]
    assert [body for _, body in noted][::2] == ["use a file", "no answer"]
    assert "of its size" in noted[1][1]


def test_a_last_record_without_a_newline_is_read_and_continued(
    live: SessionStore, tmp_path: Path
) -> None:
    with live.create(id="cut") as session:
        session.append(user("one"))
        session.append(assistant("two"))
    log = live.path / "cut" / "log.jsonl"
    log.write_bytes(log.read_bytes().removesuffix(b"\n"))
    os.utime(log, (1, 1))
    with closing(sync(tmp_path)) as store:
        assert texts(store.sessions.events("runlore:cut")) == ["one", "two"]
    with live.open("cut") as session:
        session.append(user("three"))
    with closing(sync(tmp_path)) as store:
        assert texts(store.sessions.events("runlore:cut")) == ["one", "two", "three"]
        assert not any(event.is_gone for event in store.sessions.events("runlore:cut"))
