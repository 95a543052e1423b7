"""What Grok Build's adapter promises beyond what its fixtures show."""

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

from runlore import config, doctor
from runlore.adapters import Normalized, Record, Source, get
from runlore.adapters.grok import chat, events
from runlore.adapters.shared import fold
from runlore.model import Session, make_uid
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.testing import Fixture, iter_fixtures
from runlore.timeline import abandoned, active, model_context

ADAPTER = get("grok")
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == ADAPTER.name
]
SESSION = "019fb000-0000-7000-8000-0000000000aa"
FOLDER = f"/g/%2Fhome%2Fdev/{SESSION}"


def source(name: str = "updates.jsonl", folder: str = FOLDER) -> Source:
    return Source(agent=ADAPTER.name, path=f"{folder}/{name}", root="/g", size=0, mtime_ns=0)


def records(*lines: dict[str, Any] | bytes) -> Iterator[Record]:
    offset = 0
    for line in lines:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        yield Record(data, offset)
        offset += len(data) + 1


def read(
    *lines: dict[str, Any] | bytes, name: str = "updates.jsonl", carry: bytes | None = None
) -> Normalized:
    return ADAPTER.normalize(source(name), records(*lines), carry)


def line(
    n: int, tag: str, ms: int | None = None, session: str = SESSION, **fields: Any
) -> dict[str, Any]:
    meta = {
        "eventId": f"{session}-{n}",
        "agentTimestampMs": 1785800000000 + 1000 * n if ms is None else ms,
    }
    params = {"sessionId": session, "update": {"sessionUpdate": tag, **fields}, "_meta": meta}
    return {"timestamp": 1785800000 + n, "method": "session/update", "params": params}


def user(n: int, text: str, index: int) -> dict[str, Any]:
    return line(
        n,
        "user_message_chunk",
        content={"type": "text", "text": text},
        _meta={"promptIndex": index},
    )


def say(n: int, text: str) -> dict[str, Any]:
    return line(n, "agent_message_chunk", content={"type": "text", "text": text})


def write(
    folder: Path, *lines: dict[str, Any], name: str = "updates.jsonl", **summary: Any
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(each) + "\n" for each in lines))
    if summary:
        (folder / "summary.json").write_text(
            json.dumps({"info": {"id": folder.name, "cwd": "/home/dev"}, **summary})
        )
    return folder


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["grok"], roots=[str(root)])
    assert not report.problems
    return report


def case(name: str) -> Fixture:
    return next(fixture for fixture in FIXTURES if fixture.case == name)


def session_of(store: Store, native: str) -> Session:
    found = store.sessions.get(make_uid("grok", native))
    assert found is not None
    return found


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
def test_what_is_kept_of_a_line_says_the_same(fixture: Fixture) -> None:
    for found in ADAPTER.discover(fixture.root):
        whole = list(ADAPTER.read(found, None))
        slim = [
            each if each.sidecar else msgspec.structs.replace(each, data=ADAPTER.slim(each.data))
            for each in whole
        ]
        assert (
            ADAPTER.normalize(found, slim, None).bodies
            == ADAPTER.normalize(found, whole, None).bodies
        )


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.case)
def test_nothing_that_was_said_is_carried_over(fixture: Fixture) -> None:
    for found in ADAPTER.discover(fixture.root):
        result = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
        carry = repr(msgspec.msgpack.decode(result.carry))
        said = [body for body in result.bodies if len(body) > 12]
        assert not [body for body in said if body in carry]


TAGS = """user_message_chunk agent_message_chunk tool_call tool_call_update plan turn_completed
retry_state rewind_marker goal_updated hook_execution auto_compact_completed compaction_checkpoint
subagent_spawned task_completed model_changed current_mode_update x""".split()
NAMES = """content text type toolCallId status rawInput rawOutput usage modelUsage inputTokens
target_prompt_index runs entries _meta promptIndex x.ai/tool name kind command exit_code output
title stop_reason attempt tool_calls id role tool_call_id prompt_index""".split()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(TAGS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(TAGS), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
        ),
        max_size=6,
    ),
    st.data(),
)
def test_any_record_is_taken_and_any_cut_gives_the_same(
    made: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["updates.jsonl", "chat_history.jsonl", "events.jsonl"]))
    lines = [
        line(n, tag, **fields) if name == "updates.jsonl" else {"type": tag, **fields}
        for n, (tag, fields) in enumerate(made)
    ]
    whole = read(*lines, name=name)
    assert {event.record for event in whole.events} <= set(range(len(lines)))
    carry, events, bodies = None, [], []
    for each in lines:
        part = read(each, name=name, carry=carry)
        carry = part.carry
        events += part.events
        bodies += part.bodies
    assert (events, bodies) == (whole.events, whole.bodies)


def test_a_record_of_very_many_parts_is_cut_and_says_so() -> None:
    calls = [{"id": f"c{n}", "name": "grep", "arguments": "{}"} for n in range(10_005)]
    found = read(
        {"type": "assistant", "content": "", "tool_calls": calls},
        {"type": "assistant", "content": "next"},
        name="chat_history.jsonl",
    )
    assert len(found.events) == 10_000 + 1 + 1
    assert found.skips[0].reason == "5 more events of this record are left out"


# Where things are.


def test_the_folder_of_the_variable_is_meant_instead_of_the_usual_one(tmp_path: Path) -> None:
    assert ADAPTER.find_roots({"GROK_HOME": str(tmp_path)}) == [tmp_path / "sessions"]
    assert ADAPTER.find_roots({}) == [Path.home() / ".grok/sessions"]


def test_what_the_model_saw_is_read_only_where_there_are_no_updates(tmp_path: Path) -> None:
    write(tmp_path / "a", user(1, "hello", 0))
    write(tmp_path / "a", {"type": "user", "content": "hello"}, name="chat_history.jsonl")
    write(tmp_path / "b", {"type": "user", "content": "hello"}, name="chat_history.jsonl")
    write(
        tmp_path / "c", {"timestamp": "2026-01-01", "prompt": "hello"}, name="prompt_history.jsonl"
    )
    assert [
        Path(found.path).relative_to(tmp_path).as_posix() for found in ADAPTER.discover(tmp_path)
    ] == [
        "a/updates.jsonl",
        "b/chat_history.jsonl",
    ]


def test_a_session_without_a_summary_is_in_the_folder_that_its_name_says(tmp_path: Path) -> None:
    folder = write(tmp_path / "%2Fhome%2Fdev%2Fshop" / SESSION, user(1, "hello", 0))
    (found,) = ADAPTER.discover(tmp_path)
    assert facts(found).cwd == "/home/dev/shop"
    long = tmp_path / "shop-0123456789abcdef"
    shutil.move(folder.parent, long)
    (long / ".cwd").write_text("/home/dev/a very long path\n")
    (found,) = ADAPTER.discover(tmp_path)
    assert facts(found).cwd == "/home/dev/a very long path"


def facts(found: Source) -> Any:
    return next(iter(ADAPTER.normalize(found, ADAPTER.read(found, None), None).facts.values()))


def test_a_summary_that_changes_is_read_though_no_line_was_added(
    tmp_path: Path, store: Store
) -> None:
    folder = write(
        tmp_path / SESSION, user(1, "hello", 0), session_summary="hello", head_branch="main"
    )
    sync(store, tmp_path)
    write(
        folder,
        user(1, "hello", 0),
        session_summary="hello",
        generated_title="A greeting",
        current_model_id="grok-4.5",
    )
    os.utime(folder / "summary.json", ns=(2**62, 2**62))
    report = sync(store, tmp_path)
    session = session_of(store, SESSION)
    assert (report.found, report.events) == ({"grown": 1}, 0)
    assert (session.title, session.model, session.git_branch, session.events) == (
        "A greeting",
        "grok-4.5",
        "main",
        1,
    )


def test_a_summary_alone_is_no_session_yet(tmp_path: Path, store: Store) -> None:
    write(tmp_path / SESSION, session_summary="hello")
    sync(store, tmp_path)
    assert store.sessions.count(Filter(parents_only=False)) == 0


def test_only_names_are_taken_from_a_line_and_never_a_path(tmp_path: Path) -> None:
    folder = write(tmp_path / SESSION)
    (tmp_path / "secret.log").write_text("not yours")
    (folder / "terminal").mkdir()
    (folder / "terminal" / "mine.log").write_text("the whole output")
    os.symlink(tmp_path / "secret.log", folder / "terminal" / "link.log")
    for path, told in {
        "../../secret.log": "part",
        str(tmp_path / "secret.log"): "part",
        "link.log": "part",
        "..": "part",
        "C:\\x\\mine.log": "the whole output",
        "/else/where/mine.log": "the whole output",
    }.items():
        out = {
            "type": "Bash",
            "output_for_prompt": "part",
            "truncated": True,
            "output_file": path,
            "exit_code": 0,
        }
        write(
            folder, line(1, "tool_call_update", toolCallId="c", status="completed", rawOutput=out)
        )
        (found,) = ADAPTER.discover(tmp_path)
        assert ADAPTER.normalize(found, ADAPTER.read(found, None), None).bodies == [told]


# What is told.


def test_a_rewind_leaves_a_line_behind_and_the_next_prompt_goes_on_before_it(store: Store) -> None:
    sync(store, case("rewind").root)
    events = list(store.sessions.events("grok:019fb000-0000-7000-8000-000000000004"))
    prompts = [event.summary for event in active(events) if event.kind == "user_msg"]
    left = [
        [event.summary for event in branch if event.kind == "user_msg"]
        for branch in abandoned(events)
    ]
    assert prompts == ["Name the numbers"]
    assert left == [["Name the colours", "Add black instead"], ["Add green"]]


def test_a_rewind_is_seen_before_anything_follows_it() -> None:
    found = read(
        user(1, "one", 0),
        say(2, "1"),
        user(3, "two", 1),
        say(4, "2"),
        line(5, "rewind_marker", target_prompt_index=1),
    )
    marker = found.events[-1]
    assert (marker.kind, marker.view) == ("human_intervention", "retract")
    assert marker.refs == (found.events[2].native_id, "..", found.events[3].native_id)


def test_after_a_compaction_the_model_sees_the_summary(store: Store) -> None:
    sync(store, case("compaction").root)
    events = list(store.sessions.events("grok:019fb000-0000-7000-8000-000000000005"))
    at = next(event.seq for event in events if event.summary == "And now?")
    assert [seen.event.summary for seen in model_context(events, at)] == [
        "Summary: everything was read; the basket is a list.",
        "And now?",
    ]


def test_a_fork_shares_what_it_copied_in_whatever_order_the_files_come(tmp_path: Path) -> None:
    lines = [user(1, "hello", 0), say(2, "hi")]
    child = SESSION.replace("aa", "bb")
    copied = [json.loads(json.dumps(each)) for each in lines]
    for each in copied:
        each["params"]["sessionId"] = child
    for order in (0, 1):
        root = tmp_path / str(order)
        first = write(root / SESSION, *lines, session_summary="p")
        second = write(
            root / child,
            *copied,
            line(3, "agent_message_chunk", session=child, content={"text": "bye"}),
            parent_session_id=SESSION,
        )
        for n, folder in enumerate((first, second)):
            for file in folder.iterdir():
                os.utime(file, ns=(1, 10 + (n if order else -n)))
        store = open_store(str(tmp_path / f"{order}.db"))
        sync(store, root)
        fork = session_of(store, child)
        assert (fork.parent_uid, fork.relation) == (f"grok:{SESSION}", "fork")
        both = [list(store.sessions.events(f"grok:{uid}")) for uid in (SESSION, child)]
        assert [len(events) for events in both] == [2, 3]
        assert sum(event.origin is not None for events in both for event in events) == 2
        store.close()


def test_a_subagent_stands_below_its_parent_and_has_no_prompts_of_a_person(store: Store) -> None:
    sync(store, case("subagent").root)
    parent, child = (session_of(store, f"019fb000-0000-7000-8000-00000000000{n}") for n in (8, 9))
    assert (child.parent_uid, child.relation, child.cost.turns) == (
        parent.session_uid,
        "subagent",
        0,
    )
    assert parent.cost.turns == 1
    spawned = next(
        event
        for event in store.sessions.events(parent.session_uid)
        if event.native == "subagent_spawned"
    )
    assert spawned.refs == (child.session_uid,)


def test_a_line_that_is_there_twice_counts_once(store: Store) -> None:
    sync(store, case("usage-ticks").root)
    events = list(store.sessions.events("grok:019fb000-0000-7000-8000-000000000011"))
    assert sum(event.kind == "completion" for event in events) == 4


def test_a_counter_that_begins_anew_loses_nothing(tmp_path: Path, store: Store) -> None:
    write(
        tmp_path / SESSION,
        user(1, "hello", 0),
        user(1, "hello again", 1)
        | {"params": line(1, "agent_message_chunk", ms=9, content="later")["params"]},
    )
    assert sync(store, tmp_path).events == 2


def test_the_invoice_is_kept_to_the_last_tick_and_the_parts_of_a_turn_add_up() -> None:
    fixture = case("usage-ticks")
    (found,) = ADAPTER.discover(fixture.root)
    events = [
        event
        for event in ADAPTER.normalize(found, ADAPTER.read(found, None), None).events
        if event.usage
    ]
    assert [event.extra for event in events] == [
        {"cost_usd_ticks": 953756001},
        {"cost_usd_ticks": 50000000},
        {"cost_usd_ticks": 20000000},
        {"cost_is_partial": True},
    ]
    assert [event.model for event in events] == [
        "grok-4.5",
        "grok-4.5",
        "grok-4.5-mini",
        "grok-4.5",
    ]
    assert events[0].usage
    assert events[0].usage.total == 140099
    assert sum(event.tokens for event in events[1:3]) == 330


def test_what_was_invoiced_survives_the_store(store: Store) -> None:
    sync(store, case("usage-ticks").root)
    events = store.sessions.events("grok:019fb000-0000-7000-8000-000000000011")
    assert sum(event.extra.get("cost_usd_ticks", 0) for event in events) == 953756001 + 70000000


def test_output_that_is_written_byte_by_byte_is_counted_and_never_read() -> None:
    numbers = list(b"secret words " * 100)
    only = line(
        1,
        "tool_call_update",
        toolCallId="c",
        status="completed",
        rawOutput={"type": "Bash", "output": numbers},
    )
    (body,) = read(only).bodies
    assert body == "[1300 bytes]"
    both = line(
        1,
        "tool_call_update",
        toolCallId="c",
        status="completed",
        rawOutput={"output": numbers, "output_for_prompt": "exit: 0\nok"},
    )
    assert read(both).bodies == ["exit: 0\nok"]
    kept = ADAPTER.slim(json.dumps(both).encode())
    assert b'"output": "[1300 bytes]"' in kept
    assert len(kept) < 500


def test_updates_that_come_later_take_the_place_of_a_chat_history(
    tmp_path: Path, store: Store
) -> None:
    answer = {
        "type": "permission_resolved",
        "tool_name": "bash",
        "decision": "allow",
        "wait_ms": 900,
        "ts": "2026-08-01T10:00:00Z",
    }
    chat = [{"type": "user", "content": "hello"}, {"type": "assistant", "content": "hi"}]
    folder = write(tmp_path / SESSION, *chat, name="chat_history.jsonl", session_summary="x")
    write(folder, answer, name="events.jsonl")

    def told() -> list[str]:
        sync(store, tmp_path)
        assert doctor.examine(store, config.load(), full=True).ok
        return sorted(event.summary or "" for event in store.sessions.events(f"grok:{SESSION}"))

    assert told() == ["hello", "hi", "permission for bash: allow"]
    write(folder, user(1, "hello", 0), say(2, "hi"))
    write(
        folder,
        answer,
        answer | {"decision": "reject", "ts": "2026-08-01T10:01:00Z"},
        name="events.jsonl",
    )
    assert told() == ["hello", "hi", "permission for bash: allow", "permission for bash: reject"]
    assert session_of(store, SESSION).cost.turns == 1


def test_a_chat_history_that_was_not_ranked_yet_stays_beside_its_telemetry(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(
        tmp_path / SESSION,
        {"type": "user", "content": "hello"},
        name="chat_history.jsonl",
        session_summary="x",
    )
    write(
        folder,
        {"type": "permission_resolved", "decision": "reject", "wait_ms": 900},
        name="events.jsonl",
    )
    with monkeypatch.context() as before:
        before.setattr(chat.Chat, "rank", 0)
        before.setattr(events.Events, "rank", 0)
        before.setattr(ADAPTER, "version", ADAPTER.version - 1)
        sync(store, tmp_path)
    assert sync(store, tmp_path).found == {"outdated": 2}
    assert len(list(store.sessions.events(f"grok:{SESSION}"))) == 2


def test_a_chat_history_that_is_written_anew_keeps_what_left_it(
    tmp_path: Path, store: Store
) -> None:
    first: list[dict[str, Any]] = [
        {"type": "user", "content": "one", "prompt_index": 0},
        {
            "type": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "grep", "arguments": '{"pattern":"x"}'}],
        },
        {"type": "tool_result", "tool_call_id": "c1", "content": "none"},
        {"type": "user", "content": "two", "prompt_index": 1},
        {"type": "assistant", "content": "done"},
    ]
    folder = write(tmp_path / SESSION, *first, name="chat_history.jsonl", session_summary="x")
    assert sync(store, tmp_path).events == 5
    again: list[dict[str, Any]] = [
        {"type": "user", "content": "so far", "synthetic_reason": "compaction_meta"},
        *first[3:],
    ]
    write(folder, *again, name="chat_history.jsonl")
    report = sync(store, tmp_path)
    assert report.found == {"rewritten": 1}
    gone = {event.summary: event.is_gone for event in store.sessions.events(f"grok:{SESSION}")}
    assert gone == {
        "one": True,
        "x": True,
        "none": True,
        "two": False,
        "done": False,
        "so far": False,
    }


def test_telemetry_comes_after_what_it_is_about(store: Store) -> None:
    sync(store, case("cancelled-turn").root)
    natives = [
        event.native for event in store.sessions.events("grok:019fb000-0000-7000-8000-000000000007")
    ]
    assert natives[0] == "user_message_chunk"
    assert natives[-1] == "a_new_measure"
    assert "permission_resolved/deny" in natives


def test_a_goal_that_is_told_every_second_is_an_event_when_it_changes() -> None:
    goals = [
        line(n, "goal_updated", status="active", phase=phase, objective="ship it")
        for n, phase in enumerate(("plan", "plan", "work"))
    ]
    found = read(*goals)
    assert [event.native for event in found.events] == ["goal_updated", "goal_updated"]
    assert found.merged == {"goal_updated": 1}


def test_the_command_to_go_on() -> None:
    session = Session(session_uid=f"grok:{SESSION}", flavor="grok", native_session_id=SESSION)
    assert ADAPTER.resume(session) == ["grok", "--resume", SESSION]


def done(status: str = "completed", **output: Any) -> dict[str, Any]:
    return line(
        2, "tool_call_update", toolCallId="c", status=status, rawOutput={"type": "Bash", **output}
    )


@pytest.mark.parametrize(
    ("update", "kind", "code", "is_error"),
    [
        (done(output_for_prompt="ok", exit_code=0, signal=None), "tool_result", 0, False),
        (done(output_for_prompt="no", exit_code=-9), "tool_result", -9, True),
        (done(output_for_prompt="", exit_code=None, signal="SIGKILL"), "tool_result", None, True),
        (done(output_for_prompt="", exit_code=None, timed_out=True), "tool_result", None, True),
        (
            done("failed", output_for_prompt="User rejected the command"),
            "human_intervention",
            None,
            False,
        ),
        (done(output_for_prompt="User rejected orders: 7", exit_code=0), "tool_result", 0, False),
        (
            line(2, "task_completed", task_snapshot={"command": "make", "exit_code": -9}),
            "lifecycle",
            -9,
            True,
        ),
        (
            line(2, "task_completed", task_snapshot={"command": "make", "exit_code": 0}),
            "lifecycle",
            0,
            False,
        ),
        (
            line(2, "task_completed", task_snapshot={"command": "make", "exit_code": 1e99}),
            "lifecycle",
            None,
            False,
        ),
    ],
)
def test_how_a_command_ended(
    update: dict[str, Any], kind: str, code: int | None, is_error: bool
) -> None:
    made = read(
        line(1, "tool_call", toolCallId="c", rawInput={"variant": "Bash", "command": "ls"}), update
    ).events[-1]
    assert (made.kind, made.exit_code, made.is_error) == (kind, code, is_error)


def test_a_refusal_is_known_where_only_the_chat_is_left() -> None:
    call = {
        "type": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "name": "bash", "arguments": '{"command":"ls"}'}],
    }
    made = read(
        call,
        {"type": "tool_result", "tool_call_id": "c", "content": "User rejected the command"},
        name="chat_history.jsonl",
    )
    assert (made.events[-1].kind, made.events[-1].call_id) == ("human_intervention", "c")


def test_reasoning_is_never_more_than_the_output_that_it_is_a_part_of() -> None:
    usage = {"inputTokens": 5, "outputTokens": 3, "reasoningTokens": 1 << 39, "totalTokens": 8}
    ((call, _),) = read(line(1, "turn_completed", stop_reason="end_turn", usage=usage)).calls
    assert (call.total, call.reasoning_tokens) == (8, 3)


def test_a_prompt_of_a_picture_alone_is_a_turn_that_a_rewind_counts() -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    lines = [
        user(1, "zero", 0), say(2, "0"),
        line(3, "user_message_chunk", content=picture, _meta={"promptIndex": 1}), say(4, "1"),
        line(5, "user_message_chunk", content=picture, _meta={"promptIndex": 2}), user(6, "two", 2),
        say(7, "2"),
        user(8, "three", 3), say(9, "3"), line(10, "rewind_marker", target_prompt_index=2),
        user(11, "two again", 2),
    ]  # fmt: skip
    found = read(*lines)
    names = [event.native_id for event in found.events]
    retracted = next(event for event in found.events if event.view == "retract")
    assert retracted.refs == (names[4], "..", names[8]), "from the picture that the turn began with"
    assert found.parents[-1] == names[3]
    assert [event.summary for event in found.events if event.kind == "user_msg"] == [
        "zero",
        "two",
        "three",
        "two again",
    ]
    for cut in range(1, len(lines)):
        first = read(*lines[:cut])
        assert [*first.parents, *read(*lines[cut:], carry=first.carry).parents] == found.parents


@pytest.mark.parametrize("name", ["updates.jsonl", "chat_history.jsonl"])
def test_a_picture_in_a_record_that_nobody_knows_is_not_kept(name: str) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo" + "A" * 4000}
    new = line(1, "something_new", content=picture, url="data:image/png;base64," + "A" * 4000)
    (body,) = read(
        new if name == "updates.jsonl" else {"type": "something_new", **new}, name=name
    ).bodies
    assert len(body) < 700
    assert "something_new" in body


@pytest.mark.parametrize("begun", [{}, {"rawInput": {}}, {"rawInput": {"command": "make test"}}])
@pytest.mark.parametrize("last", [{}, {"rawInput": {"command": "make test"}}])
def test_one_call_is_one_event(begun: dict[str, Any], last: dict[str, Any]) -> None:
    """Whenever its input is told; the input is always there to read."""
    call: dict[str, Any] = {"toolCallId": "c", "title": "Run make", "kind": "execute"}
    given: dict[str, Any] = {} if last else {"rawInput": {"command": "make test"}}
    found = read(
        line(0, "tool_call", **call, **begun, status="pending"),
        line(1, "tool_call_update", **call, **given, status="in_progress"),
        line(2, "tool_call_update", **call, **last, status="completed"),
    )
    assert [event.call_id for event in found.events if event.is_call] == ["c"]
    assert [event.kind for event in found.events][-1] == "tool_result"
    assert "make test" in found.bodies
