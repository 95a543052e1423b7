"""What Codex's adapter promises beyond what its fixtures show."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from runlore import config, query, timeline
from runlore.adapters import LOST, Normalized, Position, Record, Source, codex, get
from runlore.adapters.codex import fold, paths, tools, words
from runlore.integrations.mcp.events import iter_context
from runlore.model import Session, SessionEvent, Usage, make_uid
from runlore.store import Store
from runlore.sync import pipeline
from runlore.testing import check_law, iter_fixtures

ADAPTER = get("codex")
THREAD = "019cadc6-9a80-7000-8000-0000000000aa"
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
FIXTURES = {
    fixture.case: fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == ADAPTER.name
}


def source(path: str = f"/r/sessions/rollout-2026-03-02T09-00-00-{THREAD}.jsonl") -> Source:
    return Source(agent=ADAPTER.name, path=path, root="/r", size=0, mtime_ns=0)


def read(
    *lines: dict[str, Any] | bytes, path: str | None = None, carry: bytes | None = None
) -> Normalized:
    records, offset = [], 0
    for line in lines:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        records.append(Record(data, offset))
        offset += len(data) + 1
    return ADAPTER.normalize(source(path) if path else source(), records, carry)


def row(type: str, payload: Any, at: float = 0) -> dict[str, Any]:
    return {
        "timestamp": (START + timedelta(seconds=at)).isoformat().replace("+00:00", "Z"),
        "type": type,
        "payload": payload,
    }


def meta(thread: str = THREAD, at: float = 0, **more: Any) -> dict[str, Any]:
    return row(
        "session_meta",
        {
            "id": thread,
            "timestamp": (START + timedelta(seconds=at)).isoformat(),
            "cwd": "/w",
            **more,
        },
        at,
    )


def event(type: str, at: float = 1, **payload: Any) -> dict[str, Any]:
    return row("event_msg", {"type": type, **payload}, at)


def item(type: str, at: float = 1, **payload: Any) -> dict[str, Any]:
    return row("response_item", {"type": type, **payload}, at)


def user(text: str, at: float = 1) -> dict[str, Any]:
    return item("message", at, role="user", content=[{"type": "input_text", "text": text}])


def reply(text: str, at: float = 1) -> dict[str, Any]:
    return item("message", at, role="assistant", content=[{"type": "output_text", "text": text}])


def call(call_id: str, at: float = 1, name: str = "exec_command", **args: Any) -> dict[str, Any]:
    return item("function_call", at, name=name, arguments=json.dumps(args), call_id=call_id)


def output(call_id: str, text: Any, at: float = 1) -> dict[str, Any]:
    return item("function_call_output", at, call_id=call_id, output=text)


def tokens(total: int, last: int | None, at: float = 1) -> dict[str, Any]:
    counts = {
        "input_tokens": total,
        "cached_input_tokens": 0,
        "output_tokens": 0,
        "reasoning_output_tokens": 0,
        "total_tokens": total,
    }
    info: dict[str, Any] = {"total_token_usage": counts}
    if last is not None:
        info["last_token_usage"] = {**counts, "input_tokens": last, "total_tokens": last}
    return event("token_count", at, info=info)


def sources(case: str) -> dict[str, Normalized]:
    """What is made of each source of a fixture, by its path."""
    found = {}
    for one in ADAPTER.discover(FIXTURES[case].root):
        found[one.path] = ADAPTER.normalize(one, ADAPTER.read(one, None), None)
    return found


def linked(found: Normalized) -> list[SessionEvent]:
    """The events with their parents, as a store links them."""
    seqs = {made.native_id: made.seq for made in found.events}
    return [
        msgspec.structs.replace(made, parent_seq=seqs.get(parent))
        for made, parent in zip(found.events, found.parents, strict=True)
    ]


def spent(found: Iterable[SessionEvent]) -> int:
    return sum(made.usage.total for made in found if made.usage is not None)


@pytest.fixture
def tolerant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line goes the way of those that the typed decoder refuses."""

    def refuse(_: bytes) -> Any:
        raise msgspec.DecodeError

    monkeypatch.setattr(fold, "_decode", refuse)


@pytest.mark.parametrize("case", FIXTURES)
def test_both_ways_of_decoding_give_the_same(case: str, request: pytest.FixtureRequest) -> None:
    fast = sources(case)
    request.getfixturevalue("tolerant")
    for name, slow in sources(case).items():
        assert (slow.events, slow.bodies, slow.parents, slow.merged) == (
            fast[name].events,
            fast[name].bodies,
            fast[name].parents,
            fast[name].merged,
        )


NAMES = """
type payload timestamp message content role text output call_id name arguments input summary info
total_token_usage item id turn_id changes action query invocation result plan thread_settings git
source subagent forked_from_id replacement_history x
""".split()
WORDS = """
session_meta response_item event_msg turn_context compacted message reasoning function_call
function_call_output token_count user_message agent_message item_completed patch_apply_end
exec_command_end mcp_tool_call_end web_search_end thread_rolled_back user assistant task_complete
turn_aborted exec_command update_plan apply_patch AgentMessage FileChange McpToolCall
CommandExecution
""".split()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(WORDS)
)
ANY_JSON = st.recursive(
    LEAVES,
    lambda some: (
        st.lists(some, max_size=4) | st.dictionaries(st.sampled_from(NAMES), some, max_size=6)
    ),
)


@given(ANY_JSON)
def test_any_json_gives_an_event_or_is_counted(value: Any) -> None:
    found = read(json.dumps(value).encode())
    assert found.events or found.merged or found.skips
    for made in found.events:
        assert made.session_uid == make_uid(ADAPTER.name, made.session_uid.partition(":")[2])


@given(
    st.sampled_from(WORDS),
    st.dictionaries(st.sampled_from(NAMES), ANY_JSON, max_size=6),
    st.sampled_from(WORDS[:5]),
)
def test_any_payload_of_a_known_type_gives_an_event_or_is_counted(
    kind: str, payload: dict[str, Any], envelope: str
) -> None:
    found = read(meta(), row(envelope, {"type": kind, **payload}))
    assert len(found.events) + sum(found.merged.values()) >= 2
    first = read(meta())
    assert (
        read(row(envelope, {"type": kind, **payload}), carry=first.carry).events == found.events[1:]
    )


# Copies.


def test_a_copy_has_the_id_of_its_original_and_says_so() -> None:
    parent, child, grandchild = sources("fork-v7").values()
    known = {made.native_id for made in parent.events}
    copied = [
        (made, original)
        for made, original in zip(child.events, child.originals, strict=True)
        if original
    ]
    assert [made.kind for made, _ in copied] == [
        "lifecycle", "lifecycle", "user_msg", "tool_call", "tool_result", "assistant_msg",
        "completion",
    ]  # fmt: skip
    assert all(made.native_id == original and original in known for made, original in copied)
    known |= {made.native_id for made in child.events}
    assert all(original in known for original in grandchild.originals if original)


@pytest.mark.parametrize("case", ["fork-v7", "fork-restamped", "fork-nov7", "subagent"])
def test_what_a_fork_did_itself_is_its_own(case: str) -> None:
    own: list[str | None] = []
    for found in sources(case).values():
        thread = next(iter(found.facts.values())).native_session_id
        mine = [
            made.native_id
            for made, original in zip(found.events, found.originals, strict=True)
            if not original
        ]
        assert all(native and native.startswith(f"{thread}:") for native in mine)
        own += mine
    assert len(own) == len(set(own))


def test_the_same_prompt_in_parent_and_fork_is_two_events() -> None:
    _, child, grandchild = sources("fork-v7").values()
    asked = {
        made.native_id
        for found in (child, grandchild)
        for made in found.events
        if made.summary == "and the words?"
    }
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("fork-v7", [2060, 2340, 1210]),
        ("fork-restamped", [1010]),
        ("fork-nov7", [2060, 1010, 1010, 1010, 1010, 1720]),
        ("subagent", [930, 420, 610]),
    ],
)
def test_tokens_are_counted_where_they_were_spent(case: str, expected: list[int]) -> None:
    assert [spent(found.events) for found in sources(case).values()] == expected


def test_a_thread_in_two_places_gives_the_same_ids() -> None:
    live, _, archived = sources("archived-and-packed").values()
    assert [made.native_id for made in live.events] == [made.native_id for made in archived.events][
        : len(live.events)
    ]
    assert live.facts.keys() == archived.facts.keys()


def test_a_fork_of_which_the_parent_is_named_twice_has_one_such_event() -> None:
    parent = "019cadc6-0000-7000-8000-000000000001"
    lines = [
        meta(at=0, forked_from_id=parent),
        meta(parent, 0.1),
        meta(parent, 0.2),
        user("hi", 0.3),
    ]
    found = read(*lines)
    assert [made.native_id for made in found.events][:2] == [f"{THREAD}:meta", f"{parent}:meta"]
    assert found.merged["session_meta"] == 1


@pytest.mark.parametrize("last_turn_only", [False, True])
def test_a_copy_that_leaves_out_calls_and_settings_has_the_same_ids(last_turn_only: bool) -> None:
    """What a subagent is given: messages and events, sometimes of the last turns only."""
    thread, turns = (
        "019cadc6-0000-7000-8000-000000000001",
        [f"019cadc6-{n:04x}-7000-8000-000000000002" for n in (1, 2)],
    )
    parent = [meta(thread)]
    for turn in turns:
        parent += [
            event("task_started", turn_id=turn),
            row("turn_context", {"turn_id": turn, "model": "m"}),
            user("continue"),
        ]
        parent += [
            event("user_message", message="continue", images=[]),
            call("c", cmd="ls"),
            output("c", "a"),
        ]
        parent += [
            event("agent_message", message="done"),
            reply("done"),
            tokens(1000, 1000),
            event("task_complete", turn_id=turn),
        ]
    dropped = ("turn_context", "function_call", "function_call_output")
    copied = [
        line
        for line in parent[1:]
        if line["type"] not in dropped and line["payload"]["type"] not in dropped
    ]
    if last_turn_only:
        copied = copied[len(copied) // 2 :]
    own = [
        event("task_started", 9, turn_id="019cadc6-9a81-7000-8000-000000000003"),
        user("continue", 9),
    ]
    child = read(meta(at=8, forked_from_id=thread), parent[0], *copied, *own)
    known = {made.native_id for made in read(*parent, path=f"/r/{thread}.jsonl").events}
    copies = {original for original in child.originals if original}
    assert copies <= known
    assert len(copies) == (5 if last_turn_only else 9)
    assert child.events[-1].native_id not in known


def test_a_page_of_history_says_where_the_own_part_begins() -> None:
    parent = "aaaaaaaa-0000-4000-8000-000000000001"
    first = meta(
        parent_thread_id=parent,
        source={"subagent": {"thread_spawn": {"parent_thread_id": parent}}},
        subagent_history_start_ordinal=2,
    )
    found = read(
        {**first, "ordinal": 0},
        {**user("copied", 90), "ordinal": 1},
        {**user("own", 91), "ordinal": 2},
    )
    assert [original is not None for original in found.originals] == [False, True, False]


def test_a_subagent_without_its_parents_history_copies_nothing() -> None:
    found = sources("subagent")
    reader = next(
        part for part in found.values() if next(iter(part.facts.values())).title == "Read a.py"
    )
    facts = next(iter(reader.facts.values()))
    assert facts.relation == "subagent"
    assert not any(reader.originals)
    assert all(made.is_sidechain for made in reader.events)


def test_totals_before_a_subagent_has_said_anything_are_its_parents() -> None:
    spawn = meta(
        source={
            "subagent": {
                "thread_spawn": {"parent_thread_id": "aaaaaaaa-0000-4000-8000-000000000001"}
            }
        }
    )
    lines = [
        spawn,
        tokens(1000, 1000),
        tokens(2000, 1000),
        user("do it", 5),
        reply("done", 9),
        tokens(2700, 700, 9),
    ]
    assert spent(read(*lines).events) == 700


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1000, 1000), (1000, 1000), (1000, 500)], 1000),
        ([(1000, 1000), (2500, 1500), (1000, 1000)], 2500),
        ([(1000, 1000), (9000, 1500)], 2500),
        ([(5000, 5000), (1200, 1200)], 6200),
        ([(1000, None), (1700, None), (1700, None)], 1700),
    ],
    ids=["told again", "an old one told again", "one is missing", "begins anew", "totals only"],
)
def test_tokens_of_a_running_total(rows: list[tuple[int, int | None]], expected: int) -> None:
    lines = [meta(), user("hi"), reply("hello"), *[tokens(total, last) for total, last in rows]]
    assert spent(read(*lines).events) == expected


def test_buckets_of_tokens_do_not_overlap() -> None:
    counts = {
        "input_tokens": 1000,
        "cached_input_tokens": 600,
        "cache_write_input_tokens": 100,
        "output_tokens": 50,
    }
    counts |= {"reasoning_output_tokens": 20, "total_tokens": 1050}
    context = row("turn_context", {"model": "m-1", "turn_id": "t"})
    lines = [
        meta(),
        context,
        event("token_count", info={"total_token_usage": counts, "last_token_usage": counts}),
    ]
    made = read(*lines).events[-1]
    assert made.usage == Usage(
        input_tokens=300,
        cache_read_tokens=600,
        cache_write_tokens=100,
        output_tokens=50,
        reasoning_tokens=20,
    )
    assert (made.tokens, made.model, made.kind) == (1050, "m-1", "lifecycle")


def test_tokens_of_a_headless_run_are_counted_unless_there_is_a_total() -> None:
    end = {
        "type": "turn.completed",
        "usage": {"input_tokens": 1200, "cached_input_tokens": 200, "output_tokens": 50},
    }
    assert spent(read(meta(), end, end).events) == 2500
    assert spent(read(meta(), reply("x"), tokens(700, 700), end).events) == 700


# Branches and context.


def test_a_rollback_leaves_a_branch_behind() -> None:
    (found,) = sources("rollback").values()
    events = linked(found)
    lines = timeline.branches([made for made in events if made.seq < 18])
    assert [
        [events[seq].summary for seq in line.seqs if events[seq].kind == "user_msg"]
        for line in lines
    ] == [
        ["q1", "q2 again"],
        ["q2 dropped", "q3 dropped"],
    ]


def test_what_was_rolled_back_is_not_seen_before_the_next_prompt_either() -> None:
    (found,) = sources("rollback").values()
    seen = timeline.model_context(linked(found), 13)
    assert [one.event.summary for one in seen if one.event.kind == "user_msg"] == ["q1"]


def test_after_a_compaction_the_model_sees_what_was_kept_and_the_summary() -> None:
    (found,) = sources("compaction").values()
    events = linked(found)
    at = next(made.seq for made in events if made.summary == "Second answer.")
    assert [one.event.summary for one in timeline.model_context(events, at)] == [
        "second ask",
        "We did the first ask.",
        "Second answer.",
    ]


def context_of(found: Normalized, at: int) -> list[tuple[str | None, str]]:
    """What the model saw: roles and texts."""
    return [
        (one.event.role, found.bodies[one.event.seq])
        for one in timeline.model_context(linked(found), at)
    ]


def history(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {
        "type": "message",
        "role": role,
        "content": [{"type": kind, "text": text} for text in texts],
    }


def compacted(*items: Any, message: str = "") -> dict[str, Any]:
    return row("compacted", {"message": message, "replacement_history": list(items)})


def test_after_a_compaction_the_model_sees_the_whole_history_that_it_was_given() -> None:
    (found,) = sources("compaction-history").values()
    bodies = found.bodies
    first, second = (n for n, made in enumerate(found.events) if made.view == "compact")
    answer = bodies.index("Third answer.")
    seen = context_of(found, answer)
    agents = next(body for body in bodies if body.startswith("# AGENTS.md"))
    assert [(role, text.partition("\n")[0][:40]) for role, text in seen] == [
        ("user", "first ask"),
        ("assistant", "First answer."),
        ("user", "continue"),
        ("user", "continue"),
        ("developer", "<permissions instructions>Ask before you"),
        ("developer", "<collaboration_mode>Default mode.</colla"),
        ("user", agents.partition("\n")[0][:40]),
        ("user", "<environment_context>"),
        ("user", "third ask: list every price…180 chars tr"),
        (None, "[encrypted 200 B]"),
        ("assistant", "Third answer."),
    ]
    assert "2026-06-04" in seen[7][1]
    # What was said before is referred to; only what is new is an event.
    assert [body.partition("\n")[0][:20] for body in bodies[first + 1 : answer]] == [
        "<environment_context",
        "third ask: list ever",
        "[encrypted 200 B]",
    ]
    assert [text.partition("\n")[0][:40] for _, text in context_of(found, second + 1)] == [
        "<permissions instructions>Ask before you",
        "<collaboration_mode>Default mode.</colla",
        "third ask: list every price…180 chars tr",
        "fourth ask",
        "Another language model started to solve ",
    ]
    assert found.events[second + 1].view == "summary"


def test_a_store_gives_the_history_in_the_same_order(store: Store) -> None:
    root = FIXTURES["compaction-history"].root
    pipeline.sync(store, config.load(), agents=["codex"], roots=[str(root)])
    (found,) = sources("compaction-history").values()
    uid = found.events[0].session_uid
    for at in range(len(found.events)):
        seen = [(one.event.role, body) for one, body in query.context_at(store, uid, at)]
        assert seen == context_of(found, at)
    shown = [one for one, _ in query.context_at(store, uid, at)]
    entries = list(iter_context(shown, store, uid, 0, 0, full=True))
    assert [entry.body for entry in entries] == [body for _, body in seen]
    assert any(" developer" in entry.head for entry in entries)
    for n in range(len(entries)):  # An answer of several pages goes on at any of them.
        assert list(iter_context(shown, store, uid, n, 0, full=True)) == entries[n:]


def test_a_compaction_that_was_announced_before_shows_its_history_too() -> None:
    found = read(
        meta(),
        user("first"),
        reply("said"),
        event("context_compacted"),
        compacted(history("assistant", "said"), history("user", "first")),
    )
    assert context_of(found, len(found.events) - 1) == [("assistant", "said"), ("user", "first")]


def test_a_compaction_does_not_refer_to_what_was_rolled_back() -> None:
    found = read(
        meta(),
        user("first"),
        reply("one"),
        user("second"),
        item("message", role="developer", content=[{"type": "input_text", "text": "be brief"}]),
        event("thread_rolled_back", num_turns=1),
        user("third"),
        compacted(history("developer", "be brief"), history("user", "first")),
    )
    assert context_of(found, len(found.events) - 1) == [
        ("developer", "be brief"),
        ("user", "first"),
    ]


def test_a_message_beside_the_history_is_not_in_the_context() -> None:
    """The program then takes the history alone."""
    found = read(meta(), user("first"), compacted(history("user", "first"), message="a note"))
    assert "a note" in found.bodies
    assert context_of(found, len(found.events) - 1) == [("user", "first")]


def test_a_history_refers_to_messages_of_other_agents() -> None:
    message: dict[str, Any] = {
        "author": "/root",
        "recipient": "/root/x",
        "content": [{"text": "done"}],
    }
    found = read(
        meta(),
        user("first"),
        item("agent_message", **message),
        compacted({"type": "agent_message", **message}, history("user", "first")),
    )
    assert context_of(found, len(found.events) - 1) == [("user", "done"), ("user", "first")]
    assert found.bodies.count("done") == 1


def test_a_history_of_anything_is_read() -> None:
    found = read(
        meta(),
        user("first"),
        compacted(
            None,
            7,
            {},
            {"type": "message", "role": "user", "content": "plain"},
            {"type": "message", "role": 5, "content": [None, {"text": 3}]},
            {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": "a.py"},
            {"type": "compaction"},
        ),
    )
    seen = context_of(found, len(found.events) - 1)
    assert ("user", "plain") in seen
    assert [role for role, text in seen if "call_id" in text] == ["assistant", "tool"]
    assert seen[-1] == (None, "[encrypted]")


def test_every_call_has_its_result() -> None:
    for case in ("exec-outputs", "patch", "paginated", "twins"):
        for found in sources(case).values():
            paired = [pair for pair in timeline.pairs(linked(found)) if pair.call is not None]
            assert paired
            assert not [pair.call for pair in paired if pair.is_pending]


# Messages.


def test_a_message_that_both_sides_tell_is_one_event_wherever_the_file_is_cut(
    tmp_path: Path,
) -> None:
    shutil.copytree(FIXTURES["twins"].root, tmp_path / "root")
    check_law(ADAPTER, tmp_path / "root", cuts=200)
    (found,) = sources("twins").values()
    said = [
        body
        for made, body in zip(found.events, found.bodies, strict=True)
        if made.kind == "assistant_msg"
    ]
    assert said == ["ok", "ok", "only sent", "only shown"]


def test_the_same_message_much_later_is_another_one() -> None:
    between = [reply(f"step {n}") for n in range(fold.NEAR + 1)]
    found = read(meta(), reply("ok"), *between, event("agent_message", message="ok"))
    assert sum(body == "ok" for body in found.bodies) == 2


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("<environment_context>\n<cwd>/x</cwd>", "environment_context"),
        ("  # AGENTS.md instructions for /x\n", "agents_md"),
        ("<turn_aborted>\n", "turn_aborted"),
        ("<subagent_notification>{}", "subagent_notification"),
        ("Warning: The maximum number of unified exec processes", "warning"),
        ("<b>bold</b> words of mine", None),
        ("see <environment_context>", None),
    ],
)
def test_what_the_program_wrote_is_told_from_what_people_did(text: str, word: str | None) -> None:
    made = read(meta(), user(text)).events[-1]
    assert (made.kind, made.native, made.view) == (
        ("lifecycle", word, "context") if word else ("user_msg", "user_message", None)
    )


def test_the_title_is_what_was_asked_without_what_the_editor_put_before_it() -> None:
    found = read(
        meta(), user("# Context from my IDE setup:\n- a.py\n\n## My request for Codex:\nrename a\n")
    )
    assert found.facts[f"codex:{THREAD}"].title == "rename a"
    assert "Context from my IDE" in found.bodies[-1]


def test_pictures_never_reach_a_body_and_slim_leaves_the_same_reference() -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgoA" * 50
    line = json.dumps(
        item("message", role="user", content=[{"type": "input_image", "image_url": picture}])
    ).encode()
    slim = ADAPTER.slim(line)
    assert len(slim) < 300
    for found in (read(meta(), line), read(meta(), slim)):
        assert found.bodies[-1].startswith("[image image/png 450 B")
        assert found.events[-1].native_id == read(meta(), line).events[-1].native_id


def test_ciphertext_is_not_kept() -> None:
    line = json.dumps(
        item("reasoning", summary=[], encrypted_content="gAAA" * 500), separators=(",", ":")
    ).encode()
    assert len(ADAPTER.slim(line)) < 200
    assert (
        read(meta(), ADAPTER.slim(line)).merged
        == read(meta(), line).merged
        == {"empty reasoning": 1}
    )


# Calls.


@pytest.mark.parametrize(
    ("text", "code", "ms", "is_error"),
    [
        ("Exit code: 0\nWall time: 1.5 seconds\nOutput:\nfine", 0, 1500, False),
        ("Exit code: 2\nWall time: 0 seconds\nOutput:\nExit code: 7", 2, 0, True),
        (
            "Chunk ID: x\nWall time: 0.1 seconds\nProcess exited with code 127\nOutput:\nno",
            127,
            100,
            True,
        ),
        (
            (
                "Command: ls\nChunk ID: x\nWall time: 0.1 seconds\nProcess exited with code"
                " 0\nOutput:\n"
            ),
            0,
            100,
            False,
        ),
        (
            "Chunk ID: x\nWall time: 9 seconds\nProcess running with session ID 7\nOutput:\n",
            None,
            9000,
            False,
        ),
        ('{"output":"no\\n","metadata":{"exit_code":1,"duration_seconds":0.25}}', 1, 250, True),
        ('{"output":"no","metadata":{"exit_code":99999999999}}', None, None, False),
        ("Script failed\nWall time 0.5 seconds\nOutput:\nTypeError", None, 500, True),
        ("exec_command failed for `x`: denied", None, None, True),
        ("Exit code: many\nOutput:\n", None, None, False),
        ("the words Exit code: 3 in a text", None, None, False),
        (
            (
                f"Command: cat <<E\nExit code: 9\nOutput:\n{'x' * 9000}\nE\nChunk ID: x\nWall time:"
                " 1 seconds\nProcess exited with code 4\nOutput:\n"
            ),
            4,
            1000,
            True,
        ),
    ],
)
def test_how_a_command_ended(text: str, code: int | None, ms: int | None, is_error: bool) -> None:
    made = read(meta(), call("c", cmd="ls"), output("c", text)).events[-1]
    assert (made.exit_code, made.duration_ms, made.is_error) == (code, ms, is_error)


@pytest.mark.parametrize(
    ("text", "kind", "native", "is_error"),
    [
        ("exec command rejected by user", "human_intervention", "rejected", False),
        ("patch rejected by user: too much", "human_intervention", "rejected", False),
        ("user rejected MCP tool call", "human_intervention", "rejected", False),
        (
            f"exec_command failed for `{'x' * 900}`:"
            ' CreateProcess { message: "Rejected(\\"rejected by user\\")" }',
            "human_intervention", "rejected", False,
        ),
        ("exec_command failed for `grep 'rejected by user' a`: No such file", "tool_result",
        "function_call_output", True),
        ('{"output":"the plan was rejected by user 7","metadata":{"exit_code":0}}', "tool_result",
        "function_call_output", False),
        ('{"output":"denied by user","metadata":{"exit_code":1}}', "tool_result",
        "function_call_output", True),
        ("Exit code: 1\nOutput:\nrejected by user", "tool_result", "function_call_output", True),
        (f"if it was rejected by user, {'say so. ' * 60}", "tool_result", "function_call_output",
        False),
        ("aborted by user after 10.2s", "tool_result", "tool_result/aborted", False),
        ("Wall time: 10.2 seconds\naborted by user", "tool_result", "tool_result/aborted", False),
        ("aborted", "tool_result", "tool_result/aborted", False),
        ("aborted transactions: 3", "tool_result", "function_call_output", False),
        ("Exit code: 1\nOutput:\naborted by user", "tool_result", "function_call_output", True),
    ],
)  # fmt: skip
def test_what_a_person_stopped_is_told_from_output_with_such_words(
    text: str, kind: str, native: str, is_error: bool
) -> None:
    made = read(meta(), call("c", cmd="ls"), output("c", text)).events[-1]
    assert (made.kind, made.native, made.is_error) == (kind, native, is_error)


@pytest.mark.parametrize(
    ("told", "code", "is_error"),
    [
        ({"exit_code": 0, "status": "completed"}, 0, False),
        ({"exit_code": 3, "status": "failed"}, 3, True),
        ({"exit_code": None, "status": "failed"}, None, True),
        ({"exit_code": None, "status": "completed"}, None, False),
        ({"exit_code": 1, "aggregated_output": "aborted: no such branch"}, 1, True),
    ],
)
def test_a_command_that_only_its_end_tells_of(
    told: dict[str, Any], code: int | None, is_error: bool
) -> None:
    end = {"command": ["ls"], "cwd": "/w", "aggregated_output": "out", **told}
    made = read(meta(), event("exec_command_end", call_id="c", **end)).events[-1]
    paged = read(
        meta(), event("item_completed", item={"type": "CommandExecution", "id": "c", **end})
    ).events[-1]
    after = read(
        meta(),
        call("c", cmd="ls"),
        event("exec_command_end", call_id="c", **end),
        output("c", "out"),
    ).events[-1]
    assert {(one.exit_code, one.is_error) for one in (made, paged, after)} == {(code, is_error)}


@pytest.mark.parametrize(
    ("name", "args", "kind", "action", "summary"),
    [
        ("shell", {"command": ["bash", "-lc", "pytest -q"]}, "test_run", "shell", "pytest -q"),
        (
            "shell",
            {"command": ["git", "commit", "-m", "two words"]},
            "tool_call",
            "shell",
            "git commit -m 'two words'",
        ),
        (
            "exec_command",
            {"cmd": "grep '*** Begin Patch' a"},
            "tool_call",
            "shell",
            "grep '*** Begin Patch' a",
        ),
        (
            "shell",
            {"command": ["powershell.exe", "-NoProfile", "-Command", "pytest -q"]},
            "test_run",
            "shell",
            "pytest -q",
        ),
        (
            "shell",
            {"command": ["C:\\\\Git\\\\bin\\\\bash.exe", "-lc", "go test ./..."]},
            "test_run",
            "shell",
            "go test ./...",
        ),
        ("shell", {"command": ["bash", "-l", "-c", "ls"]}, "tool_call", "shell", "ls"),
        ("write_stdin", {"session_id": 7, "chars": "y\n"}, "tool_call", "shell", "y"),
        ("view_image", {"path": "/a.png"}, "tool_call", "read", "/a.png"),
        ("spawn_agent", {"message": "look"}, "tool_call", "agent", "look"),
        ("mcp__wiki__ask", {"question": "why"}, "tool_call", "mcp", "why"),
        ("something_new", {"n": 1}, "tool_call", "other", "something_new"),
    ],
)
def test_what_a_call_does(
    name: str, args: dict[str, Any], kind: str, action: str, summary: str
) -> None:
    made = read(meta(), call("c", name=name, **args)).events[-1]
    assert (made.kind, made.action, made.summary) == (kind, action, summary)


@pytest.mark.parametrize(
    ("program", "kind", "summary"),
    [
        (
            'const r = await tools.exec_command({"cmd":"pytest -q \\"a b\\"","workdir":"/w"});',
            "test_run",
            'pytest -q "a b"',
        ),
        ("await tools.exec_command({'cmd': 'ls -la'})", "tool_call", "ls -la"),
        ("await tools.exec_command({cmd: `go test ./...`})", "test_run", "go test ./..."),
        # An escape that JSON does not have.
        ('await tools.exec_command({cmd: "grep \\d x"})', "tool_call", "grep \\d x"),
        ('await tools.exec_command({cmd: "\ud800"})', "tool_call", "\ud800"),
        ("text(1)", "tool_call", "text(1)"),
        (
            f"exec({{cmd: 'cat {'x' * 3000}'}}); exec({{cmd: 'pytest -q'}})",
            "test_run",
            f"cat {'x' * 3000}",
        ),
        (f"/* {'#' * 30_000} */ exec({{cmd: 'pytest -q'}})", "test_run", "pytest -q"),
        ("exec({cmd: \"never closed }); exec({cmd: 'ls'})", "tool_call", "ls"),
    ],
)
def test_a_program_is_told_by_the_first_command_that_it_runs(
    program: str, kind: str, summary: str
) -> None:
    made = tools.describe_call("exec", None, program)
    assert (made.kind, made.action, made.summary, made.body) == (
        kind,
        "shell",
        summary[:640],
        program,
    )


def test_a_test_run_that_goes_on_is_counted_where_it_ends() -> None:
    (found,) = sources("exec-outputs").values()
    counted = [
        made for made in found.events if made.tests is not None and made.tool == "write_stdin"
    ]
    assert [made.tests.failed for made in counted if made.tests] == [1]


def test_a_pull_request_that_was_opened_is_the_sessions_task() -> None:
    lines = [
        meta(),
        call("a", cmd="gh pr view 3"),
        output("a", "https://github.com/ada/shop/pull/3"),
    ]
    assert read(*lines).facts[f"codex:{THREAD}"].task_ref is None
    lines += [
        call("b", cmd="git push && gh pr create --fill"),
        output("b", "Exit code: 0\nOutput:\nhttps://github.com/ada/shop/pull/17\n"),
    ]
    assert read(*lines).facts[f"codex:{THREAD}"].task_ref == "ada/shop#17"


def test_an_edit_is_its_paths_and_its_lines() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-x\n+y\n*** Delete File: b.py\n***"
        " Add File: c.py\n+z\n*** End Patch\nEOF\n"
    )
    body, files = tools.patch_body(patch)
    assert body == "a.py\n@@\n def f():\n-x\n+y\nb.py\n[deleted]\nc.py\n@@\n+z"
    assert files == ("a.py", "b.py", "c.py")


def test_hostile_programs_and_outputs_are_read_in_linear_time() -> None:
    began = time.process_time()
    for text in (
        'cmd:"' * 200_000,
        "cmd: '\\" * 200_000,
        "*** Add File: x\n" * 100_000,
        "@@" * 500_000,
        "Wall time" * 100_000,
    ):
        for name in ("exec", "apply_patch", "update_plan", "exec_command"):
            tools.describe_call(name, None, text)
        tools.output_of(text)
        tools.output_of(f"Exit code: {text}")
    assert time.process_time() - began < 5


def test_a_file_that_begins_with_a_damaged_line_is_named_by_its_path() -> None:
    found = read(b'{"timestamp": "2026-', user("hi"), meta())
    assert {made.session_uid for made in found.events} == {f"codex:{THREAD}"}
    assert found.merged == {}
    assert [made.native for made in found.events] == ["malformed", "user_message", "session_meta"]


def test_a_fork_that_begins_with_a_damaged_line_still_counts_only_its_own() -> None:
    for one in ADAPTER.discover(FIXTURES["fork-v7"].root):
        whole = list(ADAPTER.read(one, None))
        damaged = [msgspec.structs.replace(whole[0], data=whole[0].data[:50]), *whole[1:]]
        assert spent(ADAPTER.normalize(one, damaged, None).events) == spent(
            ADAPTER.normalize(one, whole, None).events
        )


def test_events_carry_their_folder_where_it_is_not_the_sessions() -> None:
    there = row("turn_context", {"turn_id": "t", "cwd": "/other", "model": "m"})
    found = read(
        meta(),
        user("a"),
        there,
        user("b"),
        call("c1", cmd="ls"),
        call("c2", cmd="ls", workdir="/w"),
        call("c3", cmd="ls", workdir="/x"),
    )
    assert [made.cwd for made in found.events] == [None, None, "/other", "/other", None, "/x"]
    assert found.facts[f"codex:{THREAD}"].cwd == "/w"


@pytest.mark.parametrize(
    ("name", "thread"),
    [
        (f"rollout-2026-03-02T09-00-00-{THREAD}.jsonl", THREAD),
        (
            f"rollout-2026-03-02T09-00-00-{THREAD}_019cadc6-9a80-7000-8000-0000000000bb.jsonl",
            THREAD,
        ),
        (f"rollout-2026-03-02T09-00-00-{THREAD}.jsonl.zst", THREAD),
        ("snap-00.jsonl", "snap-00"),
    ],
)
def test_a_thread_in_the_name_of_a_file(name: str, thread: str) -> None:
    assert paths.thread_in(f"/r/{name}") == thread


def test_times_in_ids_are_read_from_version_7_only() -> None:
    assert words.born_at("019cadc6-9a80-7000-8000-0000000000aa") == 1772442000000
    assert words.born_at("aaaaaaaa-0000-4000-8000-000000000001") is None
    assert words.born_at("turn-1") is None


# The carry.


def test_a_carry_of_another_version_is_not_used() -> None:
    fresh = read(meta(), user("hi"))
    assert read(meta(), user("hi"), carry=b"\x00nonsense") == fresh
    assert read(meta(), user("hi"), carry=msgspec.msgpack.encode([999])) == fresh


def test_the_carry_holds_no_text() -> None:
    """Prompts, replies, output and titles may hold secrets, and the carry is not redacted."""
    lines: list[dict[str, Any] | bytes] = [
        meta(),
        user("SECRET prompt"),
        reply("SECRET reply"),
        item("reasoning", summary=[{"type": "summary_text", "text": "SECRET thought"}]),
        call("c1", cmd="echo SECRET"),
        output("c1", "SECRET output"),
        item(
            "custom_tool_call",
            name="apply_patch",
            input="*** Begin Patch\n*** Add File: SECRET\n+SECRET\n",
            call_id="c2",
        ),
        event("thread_name_updated", thread_name="SECRET title"),
        row("compacted", {"message": "SECRET summary", "replacement_history": []}),
        event(
            "web_search_end",
            call_id="w",
            query="SECRET",
            action={"type": "search", "query": "SECRET"},
        ),
        b"SECRET malformed",
    ]
    assert b"SECRET" not in read(*lines).carry


def test_the_carry_stays_small(loops: Callable[[int], int]) -> None:
    carry = None
    for start in range(0, loops(20_000), 1000):
        numbers = range(start, start + 1000)
        lines: list[dict[str, Any]] = []
        for n in numbers:
            lines += [
                user(f"ask {n}"),
                reply(f"say {n}"),
                call(f"call_{n}", cmd="ls"),
                tokens(n + 1, 1),
            ]
            lines.append(event("task_started", turn_id=f"t{n % 7}"))
        carry = read(*lines, carry=carry).carry
    assert carry is not None
    assert len(carry) < 60_000


def test_ids_stay_unique_when_more_is_said_than_is_remembered() -> None:
    lines = [reply(f"{n % 1500}") for n in range(3 * fold.COUNTS)]
    natives = [made.native_id for made in read(meta(), *lines).events]
    assert len(set(natives)) == len(natives) == 3 * fold.COUNTS + 1


def test_a_turn_that_is_entered_again_counts_anew() -> None:
    lines = [
        line
        for turn in ("a", "b", "a")
        for line in (event("task_started", turn_id=turn), reply("ok"))
    ]
    natives = [made.native_id for made in read(meta(), *lines).events]
    assert len(set(natives)) == len(natives) == 7


def test_a_record_gives_ten_thousand_events_and_says_how_many_it_does_not() -> None:
    blocks = [{"type": "input_text", "text": f"<skill>{n}"} for n in range(12_000)]
    found = read(meta(), item("message", role="user", content=blocks), user("next"))
    assert len(found.events) == 10_003
    assert "2000 more events" in found.skips[0].reason
    assert found.bodies[-1] == "next"


# Files.


def test_only_rollouts_are_found(tmp_path: Path) -> None:
    names = [
        "sessions/2026/a.jsonl",
        "archived_sessions/b.jsonl.zst",
        "sessions/rollout-c.json",
        "sessions/other.json",
        "history.jsonl",
    ]
    names += ["log/d.jsonl", "archived_sessions/session_index.jsonl"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [Path(one.path).relative_to(tmp_path).as_posix() for one in ADAPTER.discover(tmp_path)]
    assert found == [
        "sessions/2026/a.jsonl",
        "sessions/rollout-c.json",
        "archived_sessions/b.jsonl.zst",
    ]
    assert [Path(one.path).name for one in ADAPTER.discover(tmp_path / "log")] == ["d.jsonl"]
    assert list(ADAPTER.discover(tmp_path / "nowhere")) == []


def packed(path: Path, *lines: Mapping[str, Any]) -> Source:
    path.write_bytes(
        zstandard.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
    )
    return next(one for one in ADAPTER.discover(path.parent) if one.path == str(path))


def test_a_packed_rollout_is_read_on_from_a_position_and_is_another_one_when_it_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rollout-1.jsonl.zst"
    one = packed(path, meta(), user("a"), user("b"))
    records = list(ADAPTER.read(one, None))
    assert len(records) == 3
    position = ADAPTER.position(one, records[1].end, 2)
    assert ADAPTER.follows(one, position)
    assert list(ADAPTER.read(one, position)) == records[2:]
    other = packed(path, meta(), user("a"), user("b"), user("c"))
    assert not ADAPTER.follows(other, position)
    path.unlink()
    assert not ADAPTER.follows(one, position)


def test_a_packed_rollout_without_a_last_line_end_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(b'{"a":1}\n{"b":2}'))
    (one,) = ADAPTER.discover(tmp_path)
    assert [record.data for record in ADAPTER.read(one, None)] == [b'{"a":1}', b'{"b":2}']


def test_damage_costs_the_rest_of_a_packed_rollout_and_is_told(tmp_path: Path) -> None:
    lines = b"".join(json.dumps(reply(f"{n} {n * n}")).encode() + b"\n" for n in range(20_000))
    whole = zstandard.compress(lines)
    (tmp_path / "a.jsonl.zst").write_bytes(
        whole[: len(whole) // 2] + b"\xff" * 400 + whole[len(whole) // 2 :]
    )
    (one,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(one, None))
    assert "damaged" in (records[-1].problem or "")
    found = ADAPTER.normalize(one, records, None)
    assert len(found.skips) >= 1
    position = ADAPTER.position(one, records[-1].end, len(records))
    assert list(ADAPTER.read(one, position)) == []


def test_a_rollout_that_unpacks_to_too_much_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codex, "MAX_ROLLOUT_BYTES", 1 << 20)
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(b'{"a":1}\n' * (1 << 20)))
    (one,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(one, None))
    assert "left out" in (records[-1].problem or "")
    assert records[-1].offset <= 1 << 20


@pytest.mark.parametrize(
    "text",
    [
        '{"session": {"id": "x"}, "items": [',
        "[]",
        "",
        '{"items": 3}',
        "\x00",
        '{"session": 5, "items": [1, null, {"role": "user"}]}',
    ],
)
def test_a_document_that_is_none_raises_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "rollout-1.json").write_text(text)
    (one,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(one, None))
    found = ADAPTER.normalize(one, records, None)
    assert len(found.events) + sum(found.merged.values()) >= len(records)


def test_a_document_is_read_again_as_a_whole_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "rollout-1.json"
    path.write_text(
        json.dumps({"session": {"id": "s"}, "items": [{"role": "user", "content": "a"}]})
    )
    (one,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(one, None))
    position = ADAPTER.position(one, records[-1].end, len(records))
    assert ADAPTER.follows(one, position)
    assert list(ADAPTER.read(one, position)) == []
    path.write_text(
        json.dumps(
            {
                "session": {"id": "s"},
                "items": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
            }
        )
    )
    assert not ADAPTER.follows(one, position)


def test_a_plain_rollout_is_read_on_when_it_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(meta()).encode() + b"\n")
    (one,) = ADAPTER.discover(tmp_path)
    position: Position = ADAPTER.position(one, path.stat().st_size, 1)
    with path.open("ab") as file:
        file.write(json.dumps(user("more")).encode() + b"\n")
    assert ADAPTER.follows(one, position)
    assert len(list(ADAPTER.read(one, position))) == 1


def test_a_thread_is_resumed_by_its_id() -> None:
    session = Session(session_uid=f"codex:{THREAD}", flavor="codex", native_session_id=THREAD)
    assert ADAPTER.resume(session) == ["codex", "resume", THREAD]
    assert get("traex").resume(session) is None


def test_roots_follow_the_variables_that_the_agent_knows(home: Path) -> None:
    assert ADAPTER.find_roots({}) == [home / ".codex"]
    assert ADAPTER.find_roots({"CODEX_HOME": "/c"}) == [Path("/c")]


def test_a_total_that_grew_by_more_than_a_request_says_how_much_is_in_no_record() -> None:
    lines = [
        meta(),
        tokens(100, 100),
        tokens(250, 150),
        tokens(250, 150),
        tokens(900, 50),
        tokens(960, 60),
        tokens(30, 30),
        tokens(99, None),
    ]
    found = read(*lines)
    assert [skip.reason for skip in found.skips] == [f"600 {LOST}"]
    assert spent(found.events) == 100 + 150 + 50 + 60 + 30 + 69
    first = read(*lines[:4])
    assert [skip.reason for skip in read(*lines[4:], carry=first.carry).skips] == [f"600 {LOST}"]


def test_a_fork_has_lost_nothing_that_its_parent_has() -> None:
    parent = "019cadc0-0000-7000-8000-0000000000bb"
    fork = [meta(forked_from_id=parent), meta(parent), tokens(100, 100, 0.1)]
    own = [user("go on", 60), reply("yes", 61), tokens(5000, 70, 62), tokens(5900, 100, 63)]
    found = read(*fork, *own)
    assert spent(found.events) == 170
    assert [skip.reason for skip in found.skips] == [f"800 {LOST}"]


def page(word: str, /, **fields: Any) -> list[SessionEvent]:
    """What an item of a page of history gives, after the event of the session itself."""
    return read(meta(), event("item_completed", item={"type": word, "id": "c", **fields})).events[
        1:
    ]


def test_items_are_read_in_both_spellings() -> None:
    snake = {
        "command": ["bash", "-lc", "pytest"],
        "cwd": "/w/a",
        "status": "failed",
        "exit_code": 2,
        "aggregated_output": "1 failed in 2s",
    }
    camel = {**snake, "exitCode": 2, "aggregatedOutput": "1 failed in 2s", "cwd": "file:///w/a"}
    del camel["exit_code"], camel["aggregated_output"]
    for fields in (snake, camel):
        call, result = page("CommandExecution", duration={"secs": 1, "nanos": 5_000_000}, **fields)
        assert (call.kind, call.summary, call.cwd) == ("test_run", "pytest", "/w/a")
        assert (result.exit_code, result.is_error, result.duration_ms) == (2, True, 1005)
        assert result.tests is not None
        assert result.tests.failed == 1


def test_an_mcp_call_that_failed_says_why() -> None:
    fields = {
        "server": "wiki",
        "tool": "ask",
        "arguments": {"q": 1},
        "status": "failed",
        "result": None,
        "error": {"message": "no such page"},
    }
    call, result = page("McpToolCall", **fields)
    assert (call.tool, call.action) == ("mcp__wiki__ask", "mcp")
    assert (result.kind, result.summary, result.is_error) == ("tool_result", "no such page", True)
    refused = page(
        "McpToolCall", **{**fields, "error": {"message": "user rejected MCP tool call"}}
    )[1]
    assert (refused.kind, refused.is_error) == ("human_intervention", False)


def test_a_tool_of_the_client_is_a_call_and_its_result() -> None:
    told = {
        "namespace": "app",
        "tool": "open_tab",
        "arguments": {"url": "https://a"},
        "success": False,
    }
    for items in ("content_items", "contentItems"):
        call, result = page(
            "DynamicToolCall",
            status="failed",
            **told,
            **{items: [{"type": "inputText", "text": "no tab"}]},
        )
        assert (call.kind, call.tool, call.summary, call.call_id) == (
            "tool_call",
            "open_tab",
            "https://a",
            "c",
        )
        assert (result.summary, result.is_error, result.call_id) == ("no tab", True, "c")
    assert (
        page("DynamicToolCall", status="failed", error="gone", tool="t", arguments=None)[1].summary
        == "gone"
    )


def test_agents_that_a_page_tells_of_are_linked() -> None:
    child = "019cadc6-9a80-7000-8000-0000000000bb"
    call, result = page(
        "CollabAgentToolCall",
        tool="spawnAgent",
        status="completed",
        receiverThreadIds=[child, 7, ""],
        prompt="look",
    )
    assert (call.tool, call.action, call.summary) == ("spawn_agent", "agent", "look")
    assert result.refs == (f"codex:{child}",)
    waiting, _ = page(
        "CollabAgentToolCall", tool="wait", status="completed", receiver_thread_ids=[child]
    )
    assert (waiting.tool, waiting.action) == ("wait_agent", "agent")
    (activity,) = page("SubAgentActivity", kind="started", agentThreadId=child, agentPath="/root/x")
    assert (activity.kind, activity.native, activity.refs) == (
        "lifecycle",
        "sub_agent_activity",
        (f"codex:{child}",),
    )


def test_other_items_of_a_page_are_what_they_are_elsewhere() -> None:
    (image,) = page("ImageView", path="file:///w/a%20b.png")
    assert (image.kind, image.action, image.files) == ("tool_call", "read", ("/w/a b.png",))
    drawn, made = page(
        "ImageGeneration",
        status="completed",
        revised_prompt="a cat",
        result="",
        saved_path="/w/cat.png",
    )
    assert (drawn.tool, drawn.summary, made.summary) == ("image_generation", "a cat", "/w/cat.png")
    (hook,) = page("HookPrompt", fragments=[{"text": "lint first", "hookRunId": "h"}])
    assert (hook.kind, hook.native, hook.view, hook.summary) == (
        "lifecycle",
        "hook_prompt",
        "context",
        "lint first",
    )


def test_an_item_of_a_call_that_was_told_is_no_second_call() -> None:
    lines = [meta(), call("c", name="open_tab", url="https://a")]
    done = event(
        "item_completed",
        item={
            "type": "DynamicToolCall",
            "id": "c",
            "tool": "open_tab",
            "arguments": {},
            "status": "failed",
        },
    )
    found = read(*lines, done, output("c", "no tab"))
    assert [made.kind for made in found.events[1:]] == ["tool_call", "tool_result"]
    assert found.events[-1].is_error


def test_what_is_sealed_or_a_picture_is_not_kept_of_a_record_that_nobody_knows_either() -> None:
    for kind in ("compaction", "context_compaction", "something_new"):
        made = read(
            meta(),
            item(kind, encrypted_content="Q" * 5000, image="data:image/png;base64," + "A" * 4000),
        )
        assert (made.events[-1].kind, made.events[-1].native) == ("lifecycle", kind)
        assert len(made.bodies[-1]) < 300
        assert "[encrypted 5000 B]" in made.bodies[-1]


def test_what_agents_write_to_each_other_is_told_once() -> None:
    said: dict[str, Any] = {
        "author": "/root",
        "recipient": "/root/x",
        "content": "look at the shop",
    }
    sent = row(
        "inter_agent_communication", {**said, "other_recipients": [], "trigger_turn": True}, 1
    )
    heard = item(
        "agent_message", **{**said, "content": [{"type": "input_text", "text": said["content"]}]}
    )
    for lines in ([sent], [heard], [sent, heard], [heard, sent]):
        made = read(meta(), *lines).events[1:]
        assert [(one.kind, one.summary) for one in made] == [
            ("lifecycle", "/root → /root/x: look at the shop")
        ]
    child = meta(
        source={"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}, agent_path="/root/x"
    )
    assert [one.kind for one in read(child, sent, heard).events[1:]] == ["user_msg"]


def test_tools_that_are_offered_are_no_event() -> None:
    assert read(meta(), item("additional_tools", tools=[{"name": "a"}])).merged == {
        "additional_tools": 1
    }


# Names that people give to threads are in a file beside all rollouts.


def index(home: Path, *lines: dict[str, Any] | bytes) -> None:
    data = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (home / "session_index.jsonl").write_bytes(b"".join(line + b"\n" for line in data))


def rollout(home: Path, *lines: dict[str, Any]) -> Path:
    file = home / f"sessions/2026/03/02/rollout-2026-03-02T09-00-00-{THREAD}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.mark.parametrize("root", ["", "sessions"])
def test_a_thread_has_the_name_that_was_given_to_it_last(tmp_path: Path, root: str) -> None:
    rollout(
        tmp_path, meta(), user("first words"), event("thread_name_updated", thread_name="long ago")
    )
    index(
        tmp_path,
        {"id": THREAD, "thread_name": "before", "updated_at": "2026-03-02T10:00:00Z"},
        b"{broken", b"[]", b"7", {"id": 7, "thread_name": []},
        {"id": "another", "thread_name": "of another", "updated_at": "2026-03-03T10:00:00Z"},
        {"id": THREAD, "thread_name": "Fix the\x1b[31m shop\n",
        "updated_at": "2026-03-02T11:00:00Z"},
    )  # fmt: skip
    (found,) = ADAPTER.discover(tmp_path / root)
    facts = ADAPTER.normalize(found, ADAPTER.read(found, None), None).facts[f"codex:{THREAD}"]
    assert facts.title is not None
    assert (facts.title.startswith("Fix the"), facts.title_rank) == (True, 3)


def test_a_name_that_is_given_later_is_read_though_no_line_was_added(
    tmp_path: Path, store: Store
) -> None:
    file = rollout(tmp_path, meta(), user("first words"))
    os.utime(file, ns=(10**18, 10**18))
    title = partial(title_of, store, tmp_path)
    assert title() == "first words"
    index(
        tmp_path,
        {"id": THREAD, "thread_name": "a better name", "updated_at": "2026-03-02T11:00:00.5Z"},
    )
    assert title() == "a better name"
    (before,) = ADAPTER.discover(tmp_path)
    index(
        tmp_path,
        {"id": THREAD, "thread_name": "a better name", "updated_at": "2026-03-02T11:00:00.5Z"},
        {"id": "x", "thread_name": "y"},
    )
    assert list(ADAPTER.discover(tmp_path)) == [before], (
        "the name of another thread changes nothing"
    )
    index(tmp_path, {"id": THREAD, "thread_name": "far", "updated_at": "9999-01-01T00:00:00Z"})
    assert next(ADAPTER.discover(tmp_path)).mtime_ns == 10**18


def title_of(store: Store, root: Path) -> str | None:
    assert not pipeline.sync(store, config.load(), agents=["codex"], roots=[str(root)]).problems
    found = store.sessions.get(f"codex:{THREAD}")
    assert found is not None
    return found.title


@given(st.text())
def test_white_space_of_any_kind_tells_no_two_messages_apart(text: str) -> None:
    assert (
        words.key_of(text)
        == words.key_of("".join(text.split()))
        == words.key_of("\u2003".join(text.split()))
    )
