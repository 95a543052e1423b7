"""What pi's adapter promises beyond what its fixtures show."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import config
from runlore.adapters import Normalized, Record, Source, get
from runlore.model import Session
from runlore.store import Store
from runlore.sync import pipeline
from runlore.testing import Fixture, iter_fixtures
from runlore.timeline import abandoned, active, model_context

ADAPTER = get("pi")
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent in ("pi", "omp")
]
MAIN, FORK = "pi:0199aa01-0000-7000-8000-000000000001", "pi:0199aa02-0000-7000-8000-000000000002"


def read(*lines: dict[str, Any], carry: bytes | None = None) -> Normalized:
    source = Source(
        agent="pi", path="/s/--x--/2026-05-04T10-00-00-000Z_s1.jsonl", root="/s", size=0, mtime_ns=0
    )
    return ADAPTER.normalize(
        source,
        [Record(json.dumps(line).encode(), n, None, None, n + 1) for n, line in enumerate(lines)],
        carry,
    )


def case(name: str, agent: str = "pi") -> Path:
    return next(
        fixture.root for fixture in FIXTURES if (fixture.agent, fixture.case) == (agent, name)
    )


def sync(store: Store, root: Path, agent: str = "pi") -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=[agent], roots=[str(root)])
    assert not report.problems
    return report


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: f"{fixture.agent}-{fixture.case}")
def test_nothing_that_was_said_is_carried_over(fixture: Fixture) -> None:
    for found in fixture.adapter.discover(fixture.root):
        result = fixture.adapter.normalize(found, fixture.adapter.read(found, None), None)
        carry = repr(msgspec.msgpack.decode(result.carry))
        assert not [body for body in result.bodies if len(body) > 17 and body in carry]


VALUES = (
    st.none()
    | st.integers()
    | st.text(max_size=3)
    | st.lists(st.sampled_from([{"type": "text", "text": "x"}, 17]), max_size=2)
)
LINES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "message",
                "session",
                "compaction",
                "branch_summary",
                "label",
                "model_change",
                "title",
                "x",
            ]
        )
    },
    optional={
        "id": st.sampled_from("abc"),
        "parentId": st.sampled_from(["a", "b", "z", None]),
        "timestamp": st.sampled_from(["2026-05-04T10:00:00Z", "never", 3]),
        "firstKeptEntryId": st.sampled_from("abz"),
        "firstKeptEntryIndex": st.integers(0, 3),
        "summary": VALUES,
        "message": st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "toolResult", "bashExecution", "y"])},
            optional={
                "content": VALUES,
                "usage": st.just({"input": 3, "output": 1}),
                "stopReason": st.sampled_from(["stop", "aborted"]),
            },
        ),
    },
)


@given(st.lists(LINES, max_size=8))
def test_any_entry_is_taken_and_any_cut_gives_the_same(lines: list[dict[str, Any]]) -> None:
    whole = read(*lines)
    carry, events, bodies = None, [], []
    for n, line in enumerate(lines):
        record = Record(json.dumps(line).encode(), n, None, None, n + 1)
        source = Source(
            agent="pi",
            path="/s/--x--/2026-05-04T10-00-00-000Z_s1.jsonl",
            root="/s",
            size=0,
            mtime_ns=0,
        )
        part = ADAPTER.normalize(source, [record], carry)
        carry = part.carry
        events += part.events
        bodies += part.bodies
    assert (events, bodies) == (whole.events, whole.bodies)
    assert len({event.native_id for event in events}) == len(events)


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    path = tmp_path / "--x--/2026-05-04T10-00-00-000Z_s1.jsonl"
    path.parent.mkdir()
    path.write_text('{"type":"session","version":3,"id":"s1"}\n')
    (source,) = ADAPTER.discover(tmp_path)
    position = ADAPTER.position(source, next(iter(ADAPTER.read(source, None))).end, 1)
    with path.open("a") as file:
        file.write('{"type":"label","id":"a","parentId":null}\n')
    assert ADAPTER.follows(source, position)
    assert [record.offset for record in ADAPTER.read(source, position)] == [position.offset]


def test_going_back_leaves_a_line_behind(store: Store) -> None:
    sync(store, case("session"))
    events = list(store.sessions.events(MAIN))
    prompts = ["Start again, with integers", "And the changelog"]
    assert [event.summary for event in active(events) if event.kind == "user_msg"] == prompts
    left = [
        [event.summary for event in line if event.kind == "user_msg"] for line in abandoned(events)
    ]
    assert left == [
        ["Make the price test pass", "Use decimal instead"],
        ["No, leave the test alone", "See the picture"],
    ]


def test_after_a_compaction_the_model_sees_the_summary_and_what_was_kept(store: Store) -> None:
    sync(store, case("session"))
    events = list(store.sessions.events(MAIN))
    seen = [entry.event.summary for entry in model_context(events, events[-1].seq)]
    assert seen == [
        "Start again, with integers",
        "Cents are integers now.",
        "## Goal",
        "And the changelog",
        "Written.",
    ]


def test_the_first_layout_counts_the_lines_that_a_compaction_keeps(store: Store) -> None:
    sync(store, case("first"))
    events = list(store.sessions.events("pi:0199aa04-0000-4000-8000-000000000004"))
    seen = [entry.event.summary for entry in model_context(events, events[-1].seq)]
    assert seen == [
        "Renamed.",
        "The module was renamed.",
        "Fix the imports",
        "Imports are unsorted",
    ]


@pytest.mark.parametrize(("name", "copied"), [("fork", 6), ("first", 3)])
def test_a_fork_refers_to_what_it_copied_and_its_calls_count_once(
    store: Store, name: str, copied: int
) -> None:
    sync(store, case(name))
    ((fork,),) = store.maintenance.rows("select uid from sessions where parent_uid is not null")
    assert sum(event.origin is not None for event in store.sessions.events(fork)) == copied
    assert (
        store.maintenance.rows("select count(*) from calls")[0][0] == {"fork": 3, "first": 2}[name]
    )


def test_usage_adds_up_with_what_was_spent_beside_the_conversation(store: Store) -> None:
    sync(store, case("later"))
    (row,) = store.maintenance.rows(
        "select sum(input_tokens), sum(output_tokens), sum(cache_read_tokens) from calls"
    )
    assert tuple(row) == (103 + 400 + 110 + 800 + 116, 10 + 20 + 10 + 30 + 10, 50000)


def test_a_subagent_belongs_to_the_session_whose_folder_it_lies_in(store: Store) -> None:
    sync(store, case("session", "omp"), "omp")
    agent = store.sessions.get("omp:0199bb02-0000-7000-8000-000000000002")
    assert agent is not None
    assert (agent.parent_uid, agent.relation) == (
        "omp:0199bb01-0000-7000-8000-000000000001",
        "subagent",
    )
    above = store.sessions.get(str(agent.parent_uid))
    assert above is not None
    assert above.title == "Count the files"
    assert get("omp").resume(agent) is None
    assert get("omp").resume(above) == ["omp", "--resume", above.source_path]


def test_a_session_is_taken_up_by_its_file() -> None:
    session = Session(
        session_uid="pi:a", flavor="pi", native_session_id="a", source_path="/s/x_a.jsonl"
    )
    assert ADAPTER.resume(session) == ["pi", "--session", "/s/x_a.jsonl"]
