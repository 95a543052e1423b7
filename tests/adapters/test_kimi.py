"""What Kimi's adapter promises beyond what its fixtures show."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import config
from runlore.adapters import Normalized, Record, Source, get
from runlore.adapters.kimi.paths import owner_of
from runlore.model import Session
from runlore.store import Store
from runlore.sync import pipeline
from runlore.testing import Fixture, iter_fixtures
from runlore.timeline import abandoned, active, model_context

ADAPTER = get("kimi")
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == "kimi"
]
CLI = "kimi:11110000-0000-4000-8000-000000000001"
CODE = "kimi:session_33330000-0000-4000-8000-000000000001"


def case(name: str) -> Path:
    return next(fixture.root for fixture in FIXTURES if fixture.case == name)


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["kimi"], roots=[str(root)])
    assert not report.problems
    return report


def read(*lines: dict[str, Any], carry: bytes | None = None, start: int = 0) -> Normalized:
    source = Source(agent="kimi", path="/k/sessions/w/s1/wire.jsonl", root="/k", size=0, mtime_ns=0)
    records = [
        Record(json.dumps(line).encode(), n, None, None, n + 1)
        for n, line in enumerate(lines, start)
    ]
    return ADAPTER.normalize(source, records, carry)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.case)
def test_nothing_that_was_said_is_carried_over(fixture: Fixture) -> None:
    for found in ADAPTER.discover(fixture.root):
        result = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
        carry = repr(msgspec.msgpack.decode(result.carry))
        assert not [body for body in result.bodies if len(body) > 17 and body in carry]


PARTS = st.lists(st.sampled_from([{"type": "text", "text": "x"}, {"think": "y"}, 17]), max_size=2)
VALUES = st.none() | st.integers() | st.text(max_size=3) | PARTS
FIELDS = [
    "user_input",
    "text",
    "think",
    "function",
    "return_value",
    "token_usage",
    "event",
    "output",
]
SHOWN = ["TurnBegin", "ContentPart", "ToolCall", "ToolResult", "StatusUpdate", "SubagentEvent", "x"]
LOGGED = [
    "turn.prompt",
    "context.append_message",
    "context.append_loop_event",
    "context.undo",
    "usage.record",
    "y",
]
MESSAGES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(SHOWN),
        "payload": st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
    },
)
SAID = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "_usage", None])},
    optional={"content": VALUES},
)
LINES = (
    st.fixed_dictionaries({"timestamp": st.sampled_from([1.5, 2.5, None]), "message": MESSAGES})
    | SAID
    | st.fixed_dictionaries(
        {"type": st.sampled_from(LOGGED)},
        optional={
            "time": st.sampled_from([1785000000000, "x"]),
            "input": VALUES,
            "count": st.integers(0, 3),
            "message": SAID,
            "usage": st.just({"inputOther": 3, "output": 1}),
        },
    )
)


@given(st.lists(LINES, max_size=8))
def test_any_record_is_taken_and_any_cut_gives_the_same(lines: list[dict[str, Any]]) -> None:
    whole = read(*lines)
    carry, events, bodies = None, [], []
    for n, line in enumerate(lines):
        part = read(line, carry=carry, start=n)
        carry = part.carry
        events += part.events
        bodies += part.bodies
    assert (events, bodies) == (whole.events, whole.bodies)
    assert len({event.native_id for event in events}) == len(events)


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sessions/w/s1/wire.jsonl"
    path.parent.mkdir(parents=True)
    first = {
        "timestamp": 1.5,
        "message": {"type": "TurnBegin", "payload": {"user_input": "one" * 50}},
    }
    path.write_text(json.dumps(first) + "\n")
    (source,) = ADAPTER.discover(tmp_path)
    position = ADAPTER.position(source, next(iter(ADAPTER.read(source, None))).end, 1)
    with path.open("a") as file:
        file.write('{"timestamp": 2.5, "message": {"type": "TurnEnd", "payload": {}}}\n')
    assert ADAPTER.follows(source, position)
    assert [record.offset for record in ADAPTER.read(source, position)] == [position.offset]


# Calls in parts.


def call(arguments: str) -> str:
    payload = {
        "type": "function",
        "id": "c1",
        "function": {"name": "Shell", "arguments": arguments},
    }
    return json.dumps({"timestamp": 1.5, "message": {"type": "ToolCall", "payload": payload}})


def part(arguments: str) -> str:
    return json.dumps(
        {
            "timestamp": 2.5,
            "message": {"type": "ToolCallPart", "payload": {"arguments_part": arguments}},
        }
    )


OTHER = '{"timestamp": 2.0, "message": {"type": "Notification", "payload": {"title": "x"}}}'
END = '{"timestamp": 3.0, "message": {"type": "StatusUpdate", "payload": {}}}'


def commands(tmp_path: Path, *lines: str, age_s: float = 0) -> list[str]:
    path = tmp_path / "sessions/w/s1/wire.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"type": "metadata", "protocol_version": "1.10"}\n' + "\n".join(lines) + "\n")
    os.utime(path, (time.time() - age_s,) * 2)
    (source,) = ADAPTER.discover(tmp_path)
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    return [
        body
        for event, body in zip(found.events, found.bodies, strict=True)
        if event.tool or event.native == "ToolCallPart"
    ]


def test_a_call_has_the_arguments_that_came_later(tmp_path: Path) -> None:
    assert commands(
        tmp_path, call('{"command": "py'), OTHER, part("test -q"), OTHER, part('"}'), END
    ) == ["pytest -q"]


def test_a_call_whose_rest_may_still_come_is_not_given_yet(tmp_path: Path) -> None:
    assert commands(tmp_path, call('{"command": "py'), OTHER) == []
    assert commands(tmp_path, call('{"command": "py'), OTHER, age_s=3600) == ["py"]
    assert commands(tmp_path, call('{"command": "py'), OTHER, END) == ["py"]


def below(task: str, message: str) -> str:
    """A message of a subagent, as the log of its session repeats it."""
    value = json.loads(message)
    payload = {"task_tool_call_id": task, "event": value["message"]}
    return json.dumps({**value, "message": {"type": "SubagentEvent", "payload": payload}})


def test_calls_of_subagents_have_the_arguments_that_came_later(tmp_path: Path) -> None:
    lines = [
        below("t1", call('{"command": "py')),
        below("t2", call('{"')),
        below("t1", OTHER),
        below("t2", part('command": "ls')),
        call('{"command": "make'),
        below("t1", part("test -q")),
        part(' all"}'),
        below("t2", part('"}')),
        below("t1", part('"}')),
        below("t1", END),
        END,
    ]
    whole = ["pytest -q", "ls", "make all"]
    assert commands(tmp_path, *lines) == whole
    # Until then, nothing is given that would come before something that is held back.
    for cut in range(len(lines)):
        found = commands(tmp_path, *lines[:cut])
        assert found == whole[: len(found)]
        assert bool(found) == (cut >= 9)


def test_a_call_of_a_subagent_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    done = {"tool_call_id": "t1", "return_value": {"is_error": False, "output": "x"}}
    ended = json.dumps({"timestamp": 2.5, "message": {"type": "ToolResult", "payload": done}})
    cut_off = below("t1", call('{"command": "py'))
    assert commands(tmp_path, cut_off, OTHER) == []
    assert commands(tmp_path, cut_off, ended)[:1] == ["py"]
    assert commands(tmp_path, cut_off, below("t2", END)) == []


def test_a_call_in_very_many_parts_is_whole(tmp_path: Path) -> None:
    parts = [below("t1", part(text)) for text in ["x"] * 3000 + ['"}']]
    assert commands(tmp_path, below("t1", call('{"command": "')), *parts) == ["x" * 3000]


def test_parts_that_were_read_with_their_call_are_not_told_again(tmp_path: Path) -> None:
    """A batch may end between the two."""
    lines = [call('{"command": "py'), part("test"), part('"}'), END]
    path = tmp_path / "sessions/w/s1/wire.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")
    (source,) = ADAPTER.discover(tmp_path)
    first, *_ = ADAPTER.read(source, None)
    begun = ADAPTER.normalize(source, [first], None)
    position = ADAPTER.position(source, first.end, 1)
    rest = ADAPTER.normalize(source, ADAPTER.read(source, position), begun.carry)
    assert begun.bodies == ["pytest"]
    assert rest.bodies == []


def test_a_log_that_is_no_longer_written_is_another_source(tmp_path: Path) -> None:
    """What was held back of it is read then, although it has not changed."""
    path = tmp_path / "wire.jsonl"
    path.write_text(call('{"command": "py') + "\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    (source,) = ADAPTER.discover(tmp_path)
    assert source.mtime_ns == path.stat().st_mtime_ns + 1
    assert ADAPTER.refresh(source) == source


def test_a_secret_in_two_parts_is_seen(store: Store, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    commands(
        tmp_path, call('{"command": "echo ' + secret[:12]), OTHER, part(secret[12:] + '"}'), END
    )
    sync(store, tmp_path)
    ((uid,),) = store.maintenance.rows("select uid from sessions")
    (event,) = [event for event in store.sessions.events(uid) if event.is_call]
    assert secret not in str(event.summary)
    raw = b"".join(
        data
        for _, _, data in store.sources.native_records(str(tmp_path / "sessions/w/s1/wire.jsonl"))
    )
    assert b"echo" in raw
    assert secret[12:].encode() not in raw


# Sessions.


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("sessions/md5/uuid/wire.jsonl", ("uuid", None)),
        ("sessions/md5/uuid/context.jsonl", ("uuid", None)),
        ("sessions/md5/uuid/context_sub_3.jsonl", ("uuid", "sub_3")),
        ("sessions/md5/uuid/subagents/a1/wire.jsonl", ("uuid", "a1")),
        ("sessions/wd_x/session_1/agents/main/wire.jsonl", ("session_1", None)),
        ("sessions/wd_x/session_1/agents/agent-0/wire.jsonl", ("session_1", "agent-0")),
        ("sessions/md5/uuid.jsonl", ("uuid", None)),
    ],
)
def test_the_place_of_a_file_tells_whose_it_is(path: str, found: tuple[str, str | None]) -> None:
    assert owner_of(f"/home/dev/.kimi/{path}") == found
    assert owner_of(path.replace("/", "\\")) == found


def test_contexts_are_read_only_where_there_is_no_log(tmp_path: Path) -> None:
    folder = tmp_path / "sessions/md5/uuid"
    folder.mkdir(parents=True)
    for name in ("context.jsonl", "context_sub_1.jsonl", "context_1.jsonl"):
        (folder / name).write_text('{"role": "user", "content": "x"}\n')
    assert [Path(source.path).name for source in ADAPTER.discover(tmp_path)] == [
        "context.jsonl",
        "context_sub_1.jsonl",
    ]
    (folder / "wire.jsonl").write_text(f"{OTHER}\n{END}\n")
    assert [Path(source.path).name for source in ADAPTER.discover(tmp_path)] == ["wire.jsonl"]


def test_both_programs_have_roots_of_their_own() -> None:
    found = ADAPTER.find_roots({"KIMI_SHARE_DIR": "/a", "HOME": "/home/dev"})
    assert Path("/a/sessions").absolute() in found
    assert [root.parent.name for root in found][1:] == [".kimi-code"]


def test_what_was_undone_is_left_behind(store: Store) -> None:
    sync(store, case("code"))
    events = list(store.sessions.events(CODE))
    left = [
        [event.summary for event in line if event.kind == "user_msg"] for line in abandoned(events)
    ]
    assert left == [["Use Decimal"]]
    assert "Use integers" in [event.summary for event in active(events)]


def test_after_a_compaction_the_model_sees_the_summary(store: Store) -> None:
    sync(store, case("code"))
    events = list(store.sessions.events(CODE))
    at = next(event.seq for event in events if event.summary == "Go on")
    assert [entry.event.summary for entry in model_context(events, at)] == [
        "Prices are integers.",
        "Go on",
    ]


@pytest.mark.parametrize(("name", "calls"), [("cli", 7 + 2 + 1), ("code", 7 + 1 + 1)])
def test_the_calls_of_a_fork_count_once(store: Store, name: str, calls: int) -> None:
    """Those of the session, of its subagents, and of the fork alone."""
    sync(store, case(name))
    assert store.maintenance.rows("select count(*) from calls")[0][0] == calls


def test_a_fork_refers_to_what_it_copied(store: Store) -> None:
    sync(store, case("code"))
    fork = store.sessions.get(CODE[:-1] + "2")
    assert fork is not None
    assert (fork.parent_uid, fork.relation) == (CODE, "fork")
    assert [event.origin is not None for event in store.sessions.events(fork.session_uid)] == [
        True
    ] * 9 + [False] * 4


def test_a_subagent_without_a_log_is_told_within_its_session(store: Store) -> None:
    sync(store, case("cli"))
    below = [event.summary for event in store.sessions.events(CLI) if event.is_sidechain]
    assert below == ["Count the lines", "Twelve lines.", "99 tokens in, 9 out"]
    agent = store.sessions.get(f"{CLI}/agent-a1b2c3d4e")
    assert agent is not None
    assert (agent.parent_uid, agent.relation, agent.cwd) == (CLI, "subagent", "/home/dev/shop")
    assert ADAPTER.resume(agent) is None


def test_a_subagent_that_began_after_files_were_looked_for_is_told_by_its_own_log(
    tmp_path: Path,
) -> None:
    shutil.copytree(case("cli"), tmp_path / "root")
    (log,) = (tmp_path / "root").rglob("subagents/*/wire.jsonl")
    agent = log.parent.rename(tmp_path / "later")
    (found,) = [
        source
        for source in ADAPTER.discover(tmp_path / "root")
        if source.path == str(log.parents[2] / "wire.jsonl")
    ]
    agent.rename(log.parent)
    told = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
    assert [event.summary for event in told.events if event.is_sidechain] == [
        "Count the lines",
        "Twelve lines.",
        "99 tokens in, 9 out",
    ]


def test_a_subagent_whose_log_may_still_come_is_not_told_yet(tmp_path: Path) -> None:
    shutil.copytree(case("cli"), tmp_path / "root")
    path = next(
        path
        for path in (tmp_path / "root").rglob("wire.jsonl")
        if f"kimi:{path.parent.name}" == CLI
    )
    shutil.rmtree(path.parent / "subagents")
    log = path.read_text().splitlines()
    first = next(n for n, text in enumerate(log) if '"agent_id"' in text)
    path.write_text("\n".join(log[: first + 1]).replace("1780000006.9", f"{time.time()}") + "\n")

    def told() -> list[str | None]:
        (source,) = [
            source for source in ADAPTER.discover(tmp_path / "root") if source.path == str(path)
        ]
        found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
        return [event.native for event in found.events][-2:]

    assert told() == ["ToolCall", "StatusUpdate"]
    path.write_text("\n".join(log[: first + 1]) + "\n")
    assert told() == ["StatusUpdate", "TurnBegin"], "after a minute it has none"


def test_what_is_derived_again_without_its_files_is_told_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(case("cli"), tmp_path / "root")
    sync(store, tmp_path / "root")
    before = [(event.seq, event.summary) for event in store.sessions.events(CLI)]
    for file in (tmp_path / "root").rglob("*.json*"):
        file.unlink()
    monkeypatch.setattr(ADAPTER, "version", ADAPTER.version + 1)
    assert sync(store, tmp_path / "root").found["outdated"] == 3
    assert [(event.seq, event.summary) for event in store.sessions.events(CLI)] == before


def test_a_time_that_no_float_holds_costs_no_more_than_its_record(tmp_path: Path) -> None:
    event = (
        '{"message": {"type": "SubagentEvent", "payload": {"agent_id": "a1", "event": {}}},'
        ' "timestamp": 1%s}' % ("0" * 400)
    )
    path = tmp_path / "sessions/w/one/wire.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(
        '{"type": "metadata", "protocol_version": "1.10"}\n' + event + "\n" + OTHER + "\n"
    )
    assert [
        len(list(ADAPTER.read(source, None))) for source in ADAPTER.discover(tmp_path / "sessions")
    ] == [3]


def test_a_session_that_begins_like_one_that_is_gone_is_another(
    store: Store, tmp_path: Path
) -> None:
    """Every log has the same name, and the same first line, and one to which nothing came may be
    gone the next time."""
    first, said = '{"type": "metadata", "protocol_version": "1.10"}\n', OTHER + "\n"
    for name, text in (("one", first), ("two", first + said)):
        path = tmp_path / "sessions/w" / name / "wire.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        sync(store, tmp_path)
        path.unlink()
    assert store.maintenance.rows("select uid from sessions") == [("kimi:two",)]


def test_a_session_that_was_moved_is_the_same(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "sessions/w/one/wire.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(OTHER + "\n")
    sync(store, tmp_path)
    path.parent.parent.rename(tmp_path / "sessions/elsewhere")
    assert sync(store, tmp_path).found == {"moved": 1, "unchanged": 1}


def test_a_session_is_taken_up_by_its_id() -> None:
    session = Session(session_uid="kimi:a", flavor="kimi", native_session_id="a")
    assert ADAPTER.resume(session) == ["kimi", "--session", "a"]


def test_what_was_taken_over_is_told_where_it_was_as_long_as_that_is_there(tmp_path: Path) -> None:
    shutil.copytree(case("taken-over"), tmp_path / "root")
    (path,) = (tmp_path / "root").rglob("state.json")
    session = "ses_66660000-0000-4000-8000-000000000001"
    before = session.removeprefix("ses_")
    for is_there, wanted in (
        (True, ["And the plums?"]),
        (False, ["Count the pears", "And the plums?"]),
    ):
        state = json.loads(path.read_text())
        state["custom"]["kimi_cli_source_path"] = str(
            tmp_path if is_there else tmp_path / "nowhere"
        )
        path.write_text(json.dumps(state))
        (source,) = ADAPTER.discover(tmp_path / "root")
        found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
        assert [event.summary for event in found.events if event.kind == "user_msg"] == wanted
        about = found.facts[f"kimi:{session}"]
        assert (about.parent_uid, about.relation) == (f"kimi:{before}", "continuation")
