"""What Qwen Code's adapter promises beyond what its fixtures show."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import config
from runlore.adapters import Normalized, Record, Source, get
from runlore.model import Call, Session
from runlore.pricing.ledger import merge
from runlore.store import Filter, Store
from runlore.sync import pipeline
from runlore.testing import Fixture, iter_fixtures
from runlore.timeline import abandoned, active, model_context

ADAPTER = get("qwen_code")
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == ADAPTER.name
]
SESSION = "0b0b0c0d-0000-4000-8000-00000000000b"
MAIN = f"{SESSION}########0"


def records(*lines: dict[str, Any]) -> Iterator[Record]:
    offset = 0
    for line in lines:
        data = json.dumps(line).encode()
        yield Record(data, offset, None, None, offset + len(data) + 1)
        offset += len(data) + 1


def read(
    *lines: dict[str, Any], carry: bytes | None = None, above: str = "", file: str = SESSION
) -> Normalized:
    hints = (f"parent:{above}",) if above else ()
    source = Source(
        agent=ADAPTER.name,
        path=f"/q/projects/p/chats/{file}.jsonl",
        root="/q",
        size=0,
        mtime_ns=0,
        hints=hints,
    )
    return ADAPTER.normalize(source, records(*lines), carry)


def line(n: int, kind: str, parent: int | None = -1, **more: Any) -> dict[str, Any]:
    above = n - 1 if parent == -1 else parent
    return {
        "uuid": f"0000000b-0000-4000-8000-{n:012d}",
        "parentUuid": f"0000000b-0000-4000-8000-{above:012d}" if above else None,
        "sessionId": SESSION, "timestamp": f"2026-06-03T10:00:{n:02d}.000Z", "type": kind,
        "cwd": "/home/dev", "version": "0.21.13", **more,
    }  # fmt: skip


def user(n: int, text: str, **more: Any) -> dict[str, Any]:
    return line(n, "user", message={"role": "user", "parts": [{"text": text}]}, **more)


def say(
    n: int, text: str, counts: tuple[int, int, int] | None = None, **more: Any
) -> dict[str, Any]:
    if counts:
        prompt, out, cached = counts
        more["usageMetadata"] = {
            "promptTokenCount": prompt, "candidatesTokenCount": out,
            "cachedContentTokenCount": cached, "thoughtsTokenCount": 1,
            "totalTokenCount": prompt + out,
        }  # fmt: skip
    return line(
        n, "assistant", model="m", message={"role": "model", "parts": [{"text": text}]}, **more
    )


def responded(n: int, counts: tuple[int, int, int], prompt_id: str) -> dict[str, Any]:
    prompt, out, cached = counts
    event = {
        "event.name": "qwen-code.api_response", "model": "m", "input_token_count": prompt,
        "output_token_count": out,
        "cached_content_token_count": cached, "thoughts_token_count": 1,
        "total_token_count": prompt + out, "prompt_id": prompt_id,
    }  # fmt: skip
    return line(n, "system", subtype="ui_telemetry", systemPayload={"uiEvent": event})


def ledger(*found: Normalized) -> list[Call]:
    return [entry.call for entry in merge(call for each in found for call, _ in each.calls)]


def linked(found: Normalized) -> list[Any]:
    """The events with their parents, as a store links them."""
    places: dict[str | None, int] = {event.native_id: event.seq for event in found.events}

    def place(native: str | None) -> int | None:
        while native in found.aliases:
            native = found.aliases[native]
        return places.get(native)

    return [
        msgspec.structs.replace(event, parent_seq=place(parent))
        for event, parent in zip(found.events, found.parents, strict=True)
    ]


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=[ADAPTER.name], roots=[str(root)])
    assert not report.problems
    return report


def case(name: str) -> Path:
    return next(fixture.root for fixture in FIXTURES if fixture.case == name)


# Reading.


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.case)
def test_nothing_that_was_said_is_carried_over(fixture: Fixture) -> None:
    for found in ADAPTER.discover(fixture.root):
        result = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
        carry = repr(msgspec.msgpack.decode(result.carry))
        assert not [body for body in result.bodies if len(body) > 12 and body in carry]


KEYS = (
    "type subtype uuid parentUuid message role parts text thought functionCall functionResponse id"
    " name args systemPayload uiEvent".split()
)
WORDS = [
    "user",
    "assistant",
    "system",
    "tool_result",
    "rewind",
    "chat_compression",
    "ui_telemetry",
    "a",
    "b",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=10,
)


PARTS: list[Any] = [
    {"text": "x"}, {"text": "t", "thought": True}, {"functionCall": {"id": "c", "name": "glob"}},
    {"functionResponse": {"id": "c"}}, 17,
]  # fmt: skip
LINES = st.fixed_dictionaries(
    {"uuid": st.sampled_from("abc"), "type": st.sampled_from(["user", "assistant", "tool_result"])},
    optional={
        "parentUuid": st.sampled_from(["a", "b", "c", None]),
        "message": (
            st.lists(st.sampled_from(PARTS), max_size=3).map(
                lambda parts: {"role": "user", "parts": parts}
            )
        ),
        "usageMetadata": st.just(
            {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}
        ),
    },
) | st.dictionaries(st.sampled_from([*KEYS, "usageMetadata", "toolCallResult"]), VALUES, max_size=6)


@given(st.lists(LINES, max_size=8))
def test_any_record_is_taken_and_any_cut_gives_the_same(lines: list[dict[str, Any]]) -> None:
    whole = read(*lines)
    carry, events, bodies = None, [], []
    for each in lines:
        part = read(each, carry=carry)
        carry = part.carry
        events += part.events
        bodies += part.bodies
    assert (events, bodies) == (whole.events, whole.bodies)
    assert len({event.native_id for event in events}) == len(events)


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    path = tmp_path / "projects/p/chats" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(user(1, "one")) + "\n")
    (source,) = ADAPTER.discover(tmp_path)
    first = list(ADAPTER.read(source, None))
    position = ADAPTER.position(source, first[-1].end, 1)
    with path.open("a") as file:
        file.write(json.dumps(say(2, "two")) + "\n")
    assert ADAPTER.follows(source, position)
    assert [record.offset for record in ADAPTER.read(source, position)] == [position.offset]


# Branches.


def test_a_rewind_leaves_a_line_behind() -> None:
    rewind = line(5, "system", 2, subtype="rewind", systemPayload={"truncatedCount": 2})
    found = read(user(1, "one"), say(2, "1"), user(3, "two"), say(4, "2"), rewind, user(6, "three"))
    events = linked(found)
    assert [event.summary for event in active(events) if event.kind == "user_msg"] == [
        "one",
        "three",
    ]
    assert [
        event.summary
        for branch in abandoned(events)
        for event in branch
        if event.kind == "user_msg"
    ] == ["two"]


def test_a_branch_shares_what_it_copied_and_its_calls_count_once(store: Store) -> None:
    sync(store, case("branches"))
    branch = store.sessions.get("qwen_code:cccc0003-0000-4000-8000-000000000003")
    assert branch is not None
    assert (branch.parent_uid, branch.relation) == (
        "qwen_code:bbbb0002-0000-4000-8000-000000000002",
        "fork",
    )
    origins = [event.origin is not None for event in store.sessions.events(branch.session_uid)]
    assert origins == [True, True, False, False, False]
    (total,) = store.maintenance.rows(
        "select sum(input_tokens + output_tokens + cache_read_tokens) from calls"
    )[0]
    assert total == 110 + 132 + 136 + 139


def test_after_a_compaction_the_model_sees_the_summary(store: Store) -> None:
    sync(store, case("compaction"))
    events = list(store.sessions.events("qwen_code:dddd0004-0000-4000-8000-000000000004"))
    at = next(event.seq for event in events if event.summary == "More")
    assert [entry.event.summary for entry in model_context(events, at)] == [
        "<state_snapshot>We talked for long.</state_snapshot>",
        "More",
    ]


def test_the_same_record_twice_is_one_and_the_same_id_with_other_words_is_another() -> None:
    found = read(user(1, "one"), user(1, "one"), user(1, "two"))
    assert (found.bodies, found.merged) == (["one", "two"], {"told before": 1})
    assert len({event.native_id for event in found.events}) == 2


# Tokens.


def test_telemetry_and_the_message_it_comes_before_are_one_call() -> None:
    counts = (100, 20, 60)
    found = read(
        user(1, "hi"),
        responded(2, counts, MAIN),
        say(3, "hello", counts),
        say(4, "more", (120, 5, 0)),
    )
    first, second = sorted(ledger(found), key=lambda call: call.total)
    assert (first.total, second.input_tokens, second.cache_read_tokens) == (120, 120, 0)
    assert (
        first.input_tokens,
        first.cache_read_tokens,
        first.output_tokens,
        first.reasoning_tokens,
    ) == (40, 60, 20, 1)
    assert [event for call, event in found.calls if call.key == first.key] == [
        None,
        found.events[1].native_id,
    ]


def test_calls_that_are_alike_are_several() -> None:
    counts = (100, 20, 0)
    main = read(
        responded(1, counts, MAIN),
        say(2, "a", counts),
        responded(3, counts, MAIN),
        say(4, "b", counts),
    )
    assert len(ledger(main)) == 2
    inner = read(*(responded(n, counts, f"{SESSION}#planner-abc#{n}") for n in range(1, 4)))
    assert len(ledger(inner)) == 3


def test_the_calls_of_a_subagent_count_once_though_two_files_tell_of_them(store: Store) -> None:
    sync(store, case("subagent"))
    rows = store.maintenance.rows(
        "select input_tokens + output_tokens + cache_read_tokens from calls"
    )
    assert sorted(row[0] for row in rows) == [415, 456, 720]


def test_a_subagent_stands_below_its_session(store: Store) -> None:
    sync(store, case("subagent"))
    above = "qwen_code:eeee0005-0000-4000-8000-000000000005"
    inner = store.sessions.get(f"{above}/agent-explore-7f3c")
    assert inner is not None
    assert (inner.parent_uid, inner.relation, inner.title) == (
        above,
        "subagent",
        "Explore the code",
    )
    assert store.sessions.count(Filter()) == 1


# What things mean.


def test_what_a_person_typed_is_the_prompt_and_the_rest_its_context() -> None:
    parts = [
        {"text": "see @a.py\n--- a.py ---\nx = 1"},
        {"text": "<qwen:user-prompt-submit-context>\nh\n</qwen:user-prompt-submit-context>"},
    ]
    found = read(
        line(
            1,
            "user",
            None,
            message={"role": "user", "parts": parts},
            systemPayload={"displayText": "see @a.py", "hookContext": "h"},
        )
    )
    assert [(event.kind, event.view) for event in found.events] == [
        ("user_msg", None),
        ("lifecycle", "context"),
        ("lifecycle", "context"),
    ]
    assert found.bodies[0] == "see @a.py"


@pytest.mark.parametrize(("took", "expected"), [([40], 40), ([40, 50], None), ([], None)])
def test_how_long_a_call_took_is_told_when_it_is_certain(
    took: list[int], expected: int | None
) -> None:
    told = [
        line(n, "system", subtype="ui_telemetry",
        systemPayload={"uiEvent": {"event.name": "qwen-code.tool_call", "function_name": "glob",
             "duration_ms": ms, "prompt_id": MAIN}}) for n, ms in enumerate(took, 2)
    ]  # fmt: skip
    result = {"functionResponse": {"id": "c", "name": "glob", "response": {"output": "x"}}}
    found = read(
        user(1, "hi"), *told, line(9, "tool_result", 1, message={"role": "user", "parts": [result]})
    )
    assert found.events[-1].duration_ms == expected


def test_only_files_of_sessions_are_found(tmp_path: Path) -> None:
    names = (
        "projects/p/chats/a.jsonl", "projects/p/chats/archive/b.jsonl",
        "projects/p/subagents/s/agent-x.jsonl",
        "projects/p/memory/notes.jsonl", "tmp/h/chats/session-1.json", "tmp/h/logs.json",
        "oauth_creds.json", "debug/x.jsonl",
    )  # fmt: skip
    for name in names:
        (tmp_path / ".qwen" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".qwen" / name).write_text("{}\n")
    found = {
        os.path.relpath(source.path, tmp_path / ".qwen").replace(os.sep, "/")
        for source in ADAPTER.discover(tmp_path / ".qwen")
    }
    assert found == {*names[:3], "tmp/h/chats/session-1.json"}
    (tmp_path / "empty/.qwen").mkdir(parents=True)
    (tmp_path / "empty/.qwen/debug.jsonl").write_text("{}\n")
    assert not list(ADAPTER.discover(tmp_path / "empty/.qwen"))


def test_the_command_to_go_on() -> None:
    session = Session(
        session_uid=f"qwen_code:{SESSION}", flavor="qwen_code", native_session_id=SESSION
    )
    assert ADAPTER.resume(session) == ["qwen", "--resume", SESSION]


def test_the_last_title_counts_also_if_a_rewind_took_one_by_a_person_back() -> None:
    def title(n: int, text: str, source: str) -> dict[str, Any]:
        payload = {"customTitle": text, "titleSource": source}
        return line(n, "system", subtype="custom_title", systemPayload=payload)

    found = read(
        user(1, "Sort the parcels by weight"),
        title(2, "Parcels on the wrong shelf", "manual"),
        line(3, "system", 1, subtype="rewind", systemPayload={"targetUuid": "x"}),
        title(4, "Parcels by weight", "auto"),
    )
    (facts,) = found.facts.values()
    assert facts.title == "Parcels by weight"
