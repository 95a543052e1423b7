"""What Claude Code's adapter promises beyond what its fixtures show."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.adapters import Normalized, Record, Source, get
from runlore.adapters.claude import fold, words
from runlore.adapters.shared import tools
from runlore.model import Session, Tests, make_uid
from runlore.testing import check_law, iter_fixtures

ADAPTER = get("claude")
SESSION = "11111111-2222-4333-8444-555555555555"
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == ADAPTER.name
]


def source(path: str = f"/p/-home-me/{SESSION}.jsonl", *hints: str) -> Source:
    return Source(agent=ADAPTER.name, path=path, root="/p", size=0, mtime_ns=0, hints=hints)


def read(
    *lines: dict[str, Any] | bytes,
    path: str = f"/p/-home-me/{SESSION}.jsonl",
    carry: bytes | None = None,
) -> Normalized:
    records, offset = [], 0
    for line in lines:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        records.append(Record(data, offset))
        offset += len(data) + 1
    return ADAPTER.normalize(source(path), records, carry)


def uuid(n: int) -> str:
    return f"{n:08d}-0000-4000-8000-000000000000"


def user(n: int, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": uuid(n),
        "message": {"role": "user", "content": content},
        **more,
    }


def assistant(
    n: int, *blocks: dict[str, Any], usage: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "model": "m-1",
        "id": f"msg_{n}",
        "content": list(blocks),
        "usage": usage,
        **more.pop("message", {}),
    }
    return {"type": "assistant", "uuid": uuid(n), "message": message, **more}


def call(n: int, tool: str, **args: Any) -> dict[str, Any]:
    return assistant(n, {"type": "tool_use", "id": f"call_{n}", "name": tool, "input": args})


def result(n: int, of: int, content: Any, raw: Any = None, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": f"call_{of}", "content": content, **more}
    return user(n, [block], **({} if raw is None else {"toolUseResult": raw}))


@pytest.fixture
def tolerant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line goes the way of those that the typed decoder refuses."""

    def refuse(_: bytes) -> Any:
        raise msgspec.DecodeError

    monkeypatch.setattr(fold, "_decode", refuse)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.case)
def test_both_ways_of_decoding_give_the_same(fixture: Any, request: pytest.FixtureRequest) -> None:
    sources = list(ADAPTER.discover(fixture.root))
    fast = [ADAPTER.normalize(found, ADAPTER.read(found, None), None) for found in sources]
    request.getfixturevalue("tolerant")
    slow = [ADAPTER.normalize(found, ADAPTER.read(found, None), None) for found in sources]
    for one, other in zip(fast, slow, strict=True):
        assert one == other


NAMES = """
type message content role uuid text input name id data attachment subtype error usage
toolUseResult compactMetadata timestamp agentId isSidechain tool_use_id thinking model forkedFrom
sessionId parentUuid x
""".split()
WORDS = (
    "user assistant system attachment progress tool_use tool_result text agent_progress api_error"
    " compact_boundary pr-link".split()
)
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
    for event in found.events:
        assert event.session_uid == make_uid(ADAPTER.name, event.session_uid.partition(":")[2])


def test_every_session_of_an_event_has_its_facts() -> None:
    for fixture in FIXTURES:
        for found in ADAPTER.discover(fixture.root):
            normalized = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
            assert {event.session_uid for event in normalized.events} <= normalized.facts.keys()


def test_sequence_numbers_count_up_within_each_session() -> None:
    for fixture in FIXTURES:
        for found in ADAPTER.discover(fixture.root):
            numbers: dict[str, list[int]] = {}
            for event in ADAPTER.normalize(found, ADAPTER.read(found, None), None).events:
                numbers.setdefault(event.session_uid, []).append(event.seq)
            assert all(seqs == list(range(len(seqs))) for seqs in numbers.values())


def test_a_carry_of_another_version_is_not_used() -> None:
    fresh = read(user(1, "hi"))
    assert read(user(1, "hi"), carry=b"\x00nonsense") == fresh
    assert read(user(1, "hi"), carry=msgspec.msgpack.encode([999])) == fresh


def test_the_carry_holds_no_text() -> None:
    """Prompts, replies, output and titles may hold secrets, and the carry is not redacted."""
    lines: list[dict[str, Any] | bytes] = [
        user(1, "SECRET prompt"),
        assistant(2, {"type": "text", "text": "SECRET reply"}),
        call(3, "Bash", command="echo SECRET", description="SECRET"),
        call(4, "Task", prompt="SECRET task", description="SECRET"),
        result(5, 3, "SECRET output", {"stdout": "SECRET"}),
        {"type": "ai-title", "aiTitle": "SECRET title"},
        {"type": "summary", "summary": "SECRET summary", "leafUuid": uuid(1)},
        user(6, "SECRET subagent", isSidechain=True, parentUuid=None),
        b"SECRET malformed",
    ]
    assert b"SECRET" not in read(*lines).carry


def test_the_carry_stays_small(loops: Callable[[int], int]) -> None:
    carry = None
    for start in range(0, loops(40_000), 1000):
        lines = [
            line
            for n in range(start, start + 1000)
            for line in (call(n, "Task", prompt=f"{n}"), user(10**7 + n, "x", isSidechain=True))
        ]
        carry = read(*lines, carry=carry).carry
    assert carry is not None
    assert len(carry) < 150_000


def test_a_subagent_that_was_forgotten_does_not_reuse_its_numbers() -> None:
    lines = [user(n, f"agent {n}", isSidechain=True) for n in range(300)]
    again = user(9999, "still there", isSidechain=True, agentId="00000000")
    found = read(*lines, again)
    first, last = found.events[0], found.events[-1]
    assert first.session_uid == last.session_uid
    assert last.seq > max(event.seq for event in found.events[:-1])


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_what_follows_a_record_follows_its_last_event(n_blocks: int) -> None:
    blocks = [{"type": "text", "text": f"part {n}"} for n in range(n_blocks)]
    found = read(assistant(1, *blocks), user(2, "next", parentUuid=uuid(1)))
    assert found.parents[-1] == found.events[-2].native_id


def test_tokens_add_up_to_the_most_of_each_message_wherever_the_file_is_cut(tmp_path: Path) -> None:
    rng = random.Random(4)
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    lines: list[dict[str, Any]] = []
    most = [0, 0, 0, 0]
    for message in range(30):
        highest = [0, 0, 0, 0]
        for block in range(rng.randint(1, 4)):
            counts = [rng.randint(0, 50) for _ in range(4)]
            highest = [max(pair) for pair in zip(highest, counts, strict=True)]
            usage = dict(zip(names, counts, strict=True))
            content = (
                {"type": "text", "text": "x"}
                if rng.random() < 0.7 or block == 0
                else {"type": "thinking", "thinking": ""}
            )
            lines.append(
                assistant(
                    message * 10 + block, content, usage=usage, message={"id": f"msg_{message}"}
                )
            )
        if lines[-1]["message"]["content"][0]["type"] == "thinking":
            lines.append(
                assistant(
                    message * 10 + 9,
                    {"type": "text", "text": "y"},
                    usage=usage,
                    message={"id": f"msg_{message}"},
                )
            )
        most = [sum(pair) for pair in zip(most, highest, strict=True)]
    usages = [event.usage for event in read(*lines).events if event.usage]
    fields = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    assert [sum(getattr(usage, field) for usage in usages) for field in fields] == most
    (tmp_path / f"{SESSION}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    check_law(ADAPTER, tmp_path)


def test_a_message_that_only_thought_in_secret_is_still_paid_for() -> None:
    thought = assistant(1, {"type": "thinking", "thinking": ""}, usage={"input_tokens": 7})
    spoken = assistant(2, {"type": "text", "text": "hi"}, usage={"input_tokens": 1})
    found = read(thought, spoken)
    assert [event.tokens for event in found.events] == [8]
    later = assistant(
        3, {"type": "thinking", "thinking": ""}, usage={"input_tokens": 9}, message={"id": "msg_2"}
    )
    found = read(
        thought,
        spoken,
        later,
        assistant(4, {"type": "text", "text": "ho"}, usage={"input_tokens": 100}),
    )
    assert [event.tokens for event in found.events] == [8, 108]


@pytest.mark.parametrize(
    ("counts", "written"),
    [
        ({"cache_creation_input_tokens": 9}, 9),
        (
            {
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            },
            9,
        ),
        (
            {
                "cache_creation_input_tokens": 2,
                "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5},
            },
            9,
        ),
        ({"cache_creation_input_tokens": None, "cache_creation": None}, 0),
        ({"cache_creation_input_tokens": -3}, 0),
        ({"cache_creation_input_tokens": 1 << 41}, 0),
        ({"cache_creation_input_tokens": 1 << 60}, 0),
    ],
)
def test_cache_writes_are_the_larger_of_sum_and_parts(counts: dict[str, Any], written: int) -> None:
    (event,) = read(
        assistant(1, {"type": "text", "text": "x"}, usage={"input_tokens": 1, **counts})
    ).events
    assert event.usage is not None
    assert event.usage.cache_write_tokens == written


@pytest.mark.parametrize(
    ("path", "line_session", "native", "parent"),
    [
        (f"/p/x/{SESSION}.jsonl", None, SESSION, None),
        (f"/p/x/{SESSION}.jsonl", SESSION, SESSION, None),
        ("/p/x/chat.jsonl", "abc", "abc", None),
        ("/p/x/chat.jsonl", None, "chat", None),
        ("/p/x/ \n.jsonl", "\t", "unknown", None),
        ("/p/x/agent-a1.jsonl", SESSION, f"{SESSION}/agent-a1", SESSION),
        ("/p/x/agent-a1.jsonl", None, "agent-a1", None),
        (
            f"/p/x/{SESSION}/subagents/agent-a1.jsonl",
            f"{SESSION}#agent-a1",
            f"{SESSION}/agent-a1",
            SESSION,
        ),
        (
            f"/p/x/{SESSION}/subagents/workflows/w1/agent-a1.jsonl",
            None,
            f"{SESSION}/agent-a1",
            SESSION,
        ),
        (
            f"/p/x/{SESSION}/subagents/workflows/w1/journal.jsonl",
            None,
            f"{SESSION}/journal-w1",
            SESSION,
        ),
    ],
)
def test_a_session_is_named_by_its_file_or_by_its_records(
    path: str, line_session: str | None, native: str, parent: str | None
) -> None:
    found = read(user(1, "hi", sessionId=line_session), path=path)
    ((uid, facts),) = found.facts.items()
    assert uid == make_uid(ADAPTER.name, native)
    assert facts.parent_uid == (f"{ADAPTER.name}:{parent}" if parent else None)


def test_a_file_that_goes_on_from_another_session_is_its_continuation() -> None:
    other = SESSION.replace("1", "9")
    (facts,) = read(user(1, "hi", sessionId=other), user(2, "on", sessionId=SESSION)).facts.values()
    assert (facts.relation, facts.parent_uid) == ("continuation", f"{ADAPTER.name}:{other}")
    (facts,) = read(
        user(1, "hi", sessionId=other, forkedFrom={"sessionId": other, "messageUuid": uuid(9)})
    ).facts.values()
    assert facts.relation == "fork"
    (facts,) = read(user(1, "hi", sessionId="not-a-uuid")).facts.values()
    assert facts.relation is None


def test_the_title_is_the_best_that_was_given_and_the_latest_of_those() -> None:
    def title(*lines: dict[str, Any]) -> tuple[str | None, int]:
        (facts,) = read(*lines).facts.values()
        return facts.title, facts.title_rank

    prompts = user(1, "first prompt"), user(2, "second prompt")
    agents = {"type": "ai-title", "aiTitle": "one"}, {"type": "ai-title", "aiTitle": "two"}
    own = {"type": "custom-title", "customTitle": "mine"}
    assert title(*prompts) == ("first prompt", 1)
    assert title(*agents, *prompts) == ("two", 2)
    assert title(own, *agents, *prompts) == ("mine", 3)
    another = {"type": "summary", "summary": "of another", "leafUuid": uuid(9)}
    assert title(another, *prompts) == title(*prompts, another) == ("first prompt", 1)
    assert title(user(1, "hi"), another, user(2, "/clear")) == (None, 0)
    assert title(*prompts, {"type": "summary", "summary": "of this", "leafUuid": uuid(2)}) == (
        "of this",
        2,
    )


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Implement the following plan:\n\n# Cache the index\n\nIt is slow.", "Cache the index"),
        ("Look at this:", "Look at this:"),
        (
            (
                "Plan how the libraries come into the repository. What is known:\n\n##"
                " Layout\nThree packages"
            ),
            None,
        ),
        (
            (
                "Make the components of the shop in the folder components:\n1. Basket - what is in"
                " it\n2. Total"
            ),
            None,
        ),
    ],
)
def test_a_first_line_is_passed_over_for_a_title_only_when_all_it_does_is_announce(
    prompt: str, title: str | None
) -> None:
    (facts,) = read(user(1, prompt)).facts.values()
    assert facts.title == (title or prompt.partition("\n")[0])


MEMBER = {"teamName": "checkout", "agentName": "tester", "parentUuid": None}


def member(root: Path, **more: Any) -> Normalized:
    """A session of a team's member, as it stands below this folder."""
    file = root / "-home-me" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    asked = '<teammate-message teammate_id="team-lead">\nTest the checkout.\n</teammate-message>'
    file.write_text(json.dumps(user(1, asked, **{**MEMBER, **more})) + "\n")
    (found,) = ADAPTER.discover(root)
    return ADAPTER.normalize(found, ADAPTER.read(found, None), None)


def test_the_lead_of_a_team_is_found_by_the_note_about_the_team(tmp_path: Path) -> None:
    note = tmp_path / "teams" / "checkout" / "config.json"
    note.parent.mkdir(parents=True)
    note.write_text('{"leadAgentId": "team-lead@checkout", "leadSessionId": "the-lead"}')
    (facts,) = member(tmp_path / "projects").facts.values()
    assert (facts.parent_uid, facts.relation) == ("claude:the-lead", "subagent")
    assert (facts.title, facts.rank) == ("tester: Test the checkout.", 0)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"teamName": "../checkout"},
        {"teamName": "broken"},
        {"teamName": "session-00000000"},
    ],
)
def test_a_member_whose_lead_is_not_known_is_named_all_the_same(
    more: dict[str, Any], tmp_path: Path
) -> None:
    notes = {"checkout": '{"leadSessionId": "another"}', "teams/broken": '{"leadSessionId": 3}'}
    for folder, note in notes.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text(note)
    (facts,) = member(tmp_path / "projects", **more).facts.values()
    assert (facts.parent_uid, facts.relation) == (None, None)
    assert facts.title == "tester: Test the checkout."


@pytest.mark.parametrize(
    "more",
    [
        {"agentName": None},
        {"agentName": "team-lead"},
        {"teamName": f"session-{SESSION[:8]}", "agentName": "my-own-name"},
        {"teamName": None},
    ],
)
def test_a_lead_is_no_member(more: dict[str, Any]) -> None:
    (facts,) = read(user(1, "Test the checkout.", **{**MEMBER, **more})).facts.values()
    assert (facts.title, facts.title_rank) == ("Test the checkout.", 1)
    assert facts.parent_uid is None


def test_the_title_of_a_member_names_it_whatever_the_title_is() -> None:
    titles = [
        {"type": "agent-name", "agentName": "tester"},
        user(1, "Test the checkout.", **MEMBER),
        {"type": "agent-name", "agentName": "tester"},
        {"type": "ai-title", "aiTitle": "Tests for the checkout"},
        {"type": "custom-title", "customTitle": "mine"},
    ]
    found = []
    for n in range(1, len(titles) + 1):
        (facts,) = read(*titles[:n]).facts.values()
        found.append(facts.title)
    asked = "tester: Test the checkout."
    assert found == ["tester", asked, asked, "tester: Tests for the checkout", "mine"]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"from": {"model": "a"}, "to": {"model": "b"}}, "b answers in place of a"),
        ({"from": {"model": 3}, "to": None}, '{"type":"fallback","from":{"model":3},"to":null}'),
        ({}, '{"type":"fallback"}'),
    ],
)
def test_a_fallback_says_which_model_answers(block: dict[str, Any], text: str) -> None:
    found = read(assistant(1, {"type": "fallback", **block}))
    assert [(event.kind, event.native) for event in found.events] == [("lifecycle", "fallback")]
    assert found.bodies == [text]


def test_the_time_of_a_file_is_that_of_the_first_record_that_no_fork_copies() -> None:
    first, later = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    lines = [
        user(1, "hi", timestamp="2025-01-01T00:00:00Z"),
        {"type": "file-history-snapshot", "snapshot": []},
        {"type": "file-history-snapshot", "snapshot": {"timestamp": "?"}},
        {"type": "file-history-snapshot", "snapshot": {"timestamp": first}},
        {"type": "queue-operation", "operation": "enqueue", "timestamp": later},
    ]
    (facts,) = read(*lines).facts.values()
    assert facts.own_since is not None
    assert facts.own_since.isoformat() == "2026-01-01T00:00:00+00:00"


def test_overflow_is_only_read_from_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "-home-me"
    (folder / SESSION / "tool-results").mkdir(parents=True)
    (folder / SESSION / "tool-results/whole.txt").write_text("all of it")
    (folder / SESSION / "tool-results/link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "secret.txt").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")

    def shown(place: str) -> str:
        text = (
            f"<persisted-output>\nOutput too large (9KB). Full output saved to: {place}\n\nPreview"
            " (first 2KB):\nstart"
        )
        (folder / f"{SESSION}.jsonl").write_text(json.dumps(result(1, 0, text)) + "\n")
        (found,) = ADAPTER.discover(tmp_path)
        return ADAPTER.normalize(found, ADAPTER.read(found, None), None).bodies[0]

    assert shown("/elsewhere/tool-results/whole.txt") == "all of it"
    assert shown("C:\\Users\\me\\whole.txt") == "all of it"
    assert shown("C:\\Users\\new\\ref\\whole.txt") == "all of it"
    for place in (
        "../secret.txt",
        "../../secret.txt",
        "/etc/passwd",
        "link.txt",
        "..",
        "missing.txt",
        "",
    ):
        assert shown(place).startswith("<persisted-output>")


def test_a_record_speaks_of_a_few_files_at_most(tmp_path: Path) -> None:
    folder = tmp_path / "-home-me"
    (folder / SESSION / "tool-results").mkdir(parents=True)
    for n in range(9):
        (folder / SESSION / f"tool-results/{n}.txt").write_text(f"{n}")
    text = "<persisted-output>\n" + "".join(f"saved to: /x/{n}.txt\n" for n in range(9))
    (folder / f"{SESSION}.jsonl").write_text(json.dumps(result(1, 0, text)) + "\n")
    (found,) = ADAPTER.discover(tmp_path)
    assert [record.data for record in ADAPTER.read(found, None) if record.sidecar] == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "x"},
        {"type": "tool_use", "id": "a", "name": "Bash", "input": {}},
        {"type": "?"},
    ],
)
def test_a_record_gives_ten_thousand_events_and_says_how_many_it_does_not(
    block: dict[str, Any],
) -> None:
    found = read(assistant(1, *[block] * 10_003), user(2, "next", parentUuid=uuid(1)))
    assert len(found.events) == 10_002
    left_out, following = found.events[-2:]
    assert (left_out.kind, left_out.native, left_out.record) == ("lifecycle", "left-out", 0)
    assert [skip.reason for skip in found.skips] == ["3 more events of this record are left out"]
    assert following.summary == "next"
    assert found.parents[-1] == f"{uuid(1)}#9999"


def test_glued_values_share_the_room_of_their_record() -> None:
    line = json.dumps(assistant(1, *[{"type": "text", "text": "x"}] * 6000)).encode()
    found = read(line + line.replace(uuid(1).encode(), uuid(2).encode()), user(3, "next"))
    assert len(found.events) == 10_002
    assert [skip.reason for skip in found.skips] == ["2000 more events of this record are left out"]


def test_what_the_program_put_before_a_prompt_is_set_apart_however_much_it_is() -> None:
    around = "<system-reminder>be brief</system-reminder>\n"
    found = read(user(1, around * 5000 + "the prompt"))
    assert [(event.kind, event.summary) for event in found.events] == [
        ("user_msg", "the prompt"),
        ("lifecycle", "be brief"),
    ]
    assert found.bodies == ["the prompt", (around * 5000).strip()]
    found = read(user(1, around * 5000))
    assert [(event.kind, event.native) for event in found.events] == [
        ("lifecycle", "system-reminder")
    ]
    assert read(user(1, around * 2 + "<system-reminder>not closed")).events[0].kind == "lifecycle"


def test_the_reply_that_ends_a_turn_is_marked() -> None:
    text = {"type": "text", "text": "done"}
    found = read(
        assistant(1, text),
        assistant(2, text, message={"stop_reason": "end_turn"}),
        assistant(3, text, message={"stop_reason": 7}),
    )
    assert [event.native for event in found.events] == [
        "assistant",
        "assistant/end_turn",
        "assistant",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[[ ## user_query ## ]]\n\nWhat is new?\nTell me.", "What is new?"),
        ("[[ ## user_query ## ]]", "[[ ## user_query ## ]]"),
        ("[[ ## user_query ## ]]\n", "[[ ## user_query ## ]]"),
        ("[[ ## user_query ## ]] What is new?", "[[ ## user_query ## ]] What is new?"),
        ("[[ -f setup.py ]]\necho yes", "[[ -f setup.py ]]"),
    ],
)
def test_the_name_of_a_field_in_a_filled_in_prompt_is_no_summary(text: str, line: str) -> None:
    assert tools.one_line(text) == line


def test_a_summary_is_one_line_and_not_cut_within_a_word() -> None:
    def summary(text: str) -> str | None:
        return read(user(1, text)).events[0].summary

    assert summary("\n\n --- \n\x1b[31m the\tline \nanother") == "the line"
    assert summary("x" * 640) == "x" * 640
    assert summary("x" * 5000) == "x" * 640
    assert summary("word " * 1000) == "word " * 127 + "word"
    assert summary("?" * 3000) == "?" * 640
    assert summary(" \n" * 3000 + "far") == ""


def test_pictures_never_reach_a_body_and_slim_leaves_the_same_reference() -> None:
    data = "iVBORw0KGgo" + "A" * 400 + "="
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data},
    }
    line = user(
        1,
        [picture, {"type": "text", "text": "see"}],
        toolUseResult={"type": "image", "file": {"base64": data}},
    )
    found = read(line)
    assert data not in "".join(found.bodies)
    slim = ADAPTER.slim(json.dumps(line).encode())
    assert data.encode() not in slim
    assert read(slim).bodies == found.bodies
    assert ADAPTER.slim(b'{"a":"base64"}') == b'{"a":"base64"}'
    assert ADAPTER.slim(slim) == slim


def test_the_signature_of_a_thought_is_not_kept_and_anything_else_of_that_name_is() -> None:
    signature, thought = "Er8C" + "+a/" * 200 + "=", 'so "this", or \\ that'
    call = {
        "type": "tool_use",
        "id": "t1",
        "name": "Sign",
        "input": {"text": "x", "signature": signature},
    }
    said = assistant(1, {"type": "thinking", "thinking": thought, "signature": signature}, call)
    line = json.dumps(said, separators=(",", ":")).encode()
    slim = ADAPTER.slim(line)
    assert slim.count(signature.encode()) == 1
    assert b'"signature":"[signature 605 B]"' in slim
    assert read(slim).bodies == read(line).bodies
    assert ADAPTER.slim(slim) == slim
    endless = b'{"signature":"","type":"thinking","thinking":"' + b"\\n" * 1_000_000
    assert ADAPTER.slim(endless) == endless


PIECES = (
    b'"type":"thinking","thinking":"', b'","signature":"', b'"', b"\\", b'\\"', b"abc", b"A" * 63,
    b"B" * 64, b"C" * 70 + b"==", b"},",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join), st.integers(0, 200))
def test_what_is_quickly_seen_of_a_signature_is_what_the_pattern_finds(
    rest: bytes, quotes: int
) -> None:
    line = PIECES[0] + b'\\"' * quotes + rest
    found = words._SIGNED.sub(lambda found: b"%s[signature %d B]" % (found[1], len(found[2])), line)
    assert words.without_signatures(line) == found


def test_a_session_is_resumed_by_its_id_and_a_subagent_by_its_parents() -> None:
    def resume(native: str) -> list[str] | None:
        return ADAPTER.resume(
            Session(
                session_uid=f"{ADAPTER.name}:{native}",
                flavor=ADAPTER.name,
                native_session_id=native,
            )
        )

    assert resume(SESSION) == resume(f"{SESSION}/agent-a1") == ["claude", "--resume", SESSION]


def test_roots_follow_the_variables_that_the_agent_knows(home: Path) -> None:
    assert ADAPTER.find_roots({}) == [home / ".claude/projects", home / ".config/claude/projects"]
    assert ADAPTER.find_roots({"XDG_CONFIG_HOME": "/x"}) == [
        home / ".claude/projects",
        Path("/x/claude/projects"),
    ]
    assert ADAPTER.find_roots({"CLAUDE_CONFIG_DIR": "/a,/b"}) == [
        Path("/a/projects"),
        Path("/b/projects"),
    ]
    assert ADAPTER.find_roots({"CLAUDE_PROJECTS_DIR": "/p", "CLAUDE_CONFIG_DIR": "/a"}) == [
        Path("/p")
    ]


@pytest.mark.parametrize(
    ("command", "is_test"),
    [
        ("pytest", True), ("cd x && uv run pytest -q", True),
        ("FOO=1 .venv/bin/python -m pytest tests", True), ("npm run test:unit", True),
        ("go test ./... 2>&1 | tail", True), ("timeout 60 cargo nextest run", True),
        ("./gradlew test", True), ("make check", True),
        ("docker compose exec web pytest", True), ("python manage.py test", True),
        ("bundle exec rspec", True), ("npx vitest run", True),
        ("set -e\ncd a\nmake -j4 check", True), ("echo test; (cd b && mvn -q verify)", True),
        ("pip install pytest", False), ("cat pytest.ini", False), ("grep -r pytest .", False),
        ("git commit -m 'pytest'", False),
        ("npm run build", False), ("git checkout test", False), ("ls tests", False),
        ("echo 'make test'", False), ("", False),
        (
            "gh pr create --body \"$(cat <<'EOF'\nFull `go test ./...` passes.\nEOF\n)\" 2>&1"
            " | tail -2",
            False,
        ),
        ("git commit -q -F - <<EOF\nMend it\n\npytest -q\nEOF", False),
        ('git commit -m "Mend it\n\nRun `go test` first"', False),
        ("bd update x --append-notes \"Passed: bun test a; go test ./...\"", False),
        ("rg -n \"a|jest b\" x | head", False),
        ("gh pr edit 1 --body $'## It\\'s\\n- `npm test` passes'", False),
        ("ssh host 'cd a && pytest -q'", True),
        ('docker exec x sh -c "cd /app && pytest -q"', True),
        ("cat <<EOF\npytest", False), ("git commit -F - <<EOF\nMend it\nEOF\npytest -q", True),
        ("bash <<'EOF'\npytest -q\nEOF", True),
        ("cat > test_a.py <<'EOF' && pytest test_a.py\nassert 1\nEOF", True),
        ("git commit -m 'Mend it' && pytest", True),
    ],
)  # fmt: skip
def test_commands_that_run_tests_are_told_from_those_that_speak_of_them(
    command: str, is_test: bool
) -> None:
    (event,) = read(call(1, "Bash", command=command)).events
    assert (event.kind == "test_run") is is_test


COUNTS = [
    ("===== 2 failed, 10 passed, 1 skipped, 3 warnings in 1.23s =====", (10, 2, 1)),
    ("10 passed in 0.05s", (10, 0, 0)),
    ("=== 1 error in 0.1s ===", (0, 1, 0)),
    ("Ran 12 tests in 0.003s\n\nFAILED (failures=1, errors=2, skipped=1)", (8, 3, 1)),
    ("Ran 3 tests in 0.001s\n\nOK", (3, 0, 0)),
    (
        "Test Suites: 1 failed, 2 passed, 3 total\n"
        "Tests:       1 failed, 2 skipped, 12 passed, 15 total",
        (12, 1, 2),
    ),
    (" Test Files  1 passed (1)\n      Tests  4 passed | 1 skipped (5)", (4, 0, 1)),
    (
        "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured\n\n"
        "test result: FAILED. 3 passed; 2 failed; 0 ignored;",
        (15, 2, 1),
    ),
    ("     Summary [   0.5s] 5 tests run: 4 passed, 1 failed, 2 skipped", (4, 1, 2)),
    ("=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.01s)\n    --- SKIP: TestC\nFAIL",
    (1, 1, 1)),
    ("ok  \tgithub.com/a/b\t0.01s\nok  \tgithub.com/a/c\t(cached)\nFAIL\tgithub.com/a/d\t0.2s",
    (2, 1, None)),
    ("  12 passing (1s)\n  2 pending\n  1 failing", (12, 1, 2)),
    ("12 examples, 1 failure, 2 pending", (9, 1, 2)),
    ("OK (12 tests, 30 assertions)", (12, 0, 0)),
    ("Tests: 12, Assertions: 30, Failures: 1, Errors: 1, Skipped: 2.", (8, 2, 2)),
    ("Failed!  - Failed:     1, Passed:    12, Skipped:     3, Total:    16", (12, 1, 3)),
    ("Test summary: total: 13, failed: 1, succeeded: 12, skipped: 0, duration: 1s", (12, 1, 0)),
    ("[ERROR] Tests run: 9, Failures: 1, Errors: 1, Skipped: 1", (6, 2, 1)),
    ("13 tests completed, 1 failed, 2 skipped", (10, 1, 2)),
    ("92% tests passed, 1 tests failed out of 13", (12, 1, None)),
    ("1..3\nok 1\n# tests 3\n# pass 2\n# fail 1", (2, 1, 0)),
    ("ℹ tests 3\nℹ pass 3\nℹ fail 0", (3, 0, 0)),
    (" 7 pass\n 1 fail\nRan 8 tests across 2 files.", (7, 1, 0)),
    ("\x1b[32m3 passed\x1b[0m in 0.01s", (3, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("output", "counts"), COUNTS)
def test_results_of_test_runs_are_counted(
    output: str, counts: tuple[int | None, int | None, int | None]
) -> None:
    event = read(call(1, "Bash", command="make test"), result(2, 1, "noise\n" + output)).events[1]
    assert event.tests == Tests(passed=counts[0], failed=counts[1], skipped=counts[2])


@pytest.mark.parametrize(
    "output", ["", "no tests here", "all good", "make: *** No rule to make target 'test'."]
)
def test_output_without_counts_has_none(output: str) -> None:
    assert read(call(1, "Bash", command="make test"), result(2, 1, output)).events[1].tests is None


def test_hostile_output_is_counted_in_linear_time() -> None:
    for piece in (
        "1 passed ",
        "\n",
        " " * 99,
        "= ",
        "1 a, ",
        "ok a ",
        "Tests ",
        "Tests: 1 failed | ",
        "Ran 1 tests in 1s \n",
    ):
        tools.test_counts(piece * (20_000 // len(piece)))
    for piece in (
        "uv run --with ",
        "python -m ",
        "A=1 ",
        "timeout 1 ",
        "test ",
        "npm run ",
        "make test <<E\n",
        "make test -m '",
    ):
        tools.is_test_run(piece * 1000)


@pytest.mark.parametrize(
    ("content", "more", "raw", "code", "is_error"),
    [
        ("fine", {}, {"interrupted": False}, 0, False),
        ("Exit code 127\nnot found", {"is_error": True}, "Error: Exit code 127", 127, True),
        ("some failure", {"is_error": True}, "Error: some failure", None, True),
        ("cut off", {}, {"interrupted": True}, None, False),
        ("started", {}, {"backgroundTaskId": "b1"}, None, False),
        ("", {}, {"returnCodeInterpretation": "No matches found"}, None, False),
    ],
)
def test_exit_codes_are_told_where_they_are_known(
    content: str, more: dict[str, Any], raw: Any, code: int | None, is_error: bool
) -> None:
    event = read(call(1, "Bash", command="x"), result(2, 1, content, raw, **more)).events[1]
    assert (event.exit_code, event.is_error) == (code, is_error)


def test_a_copy_of_a_file_gives_the_same_ids() -> None:
    """A resumed session begins with copies of lines, some of them without an id: they are one event
    each, wherever they stand."""
    for fixture in FIXTURES:
        for found in ADAPTER.discover(fixture.root):
            records = list(ADAPTER.read(found, None))
            again = msgspec.structs.replace(found, root="/elsewhere", size=1)
            one, other = (ADAPTER.normalize(which, records, None) for which in (found, again))
            assert [event.native_id for event in one.events] == [
                event.native_id for event in other.events
            ]


def test_ids_and_names_are_fit_to_be_shown_and_stored() -> None:
    strange = {
        "type": "user",
        "uuid": "a\0b\n" * 500,
        "parentUuid": " \x1b[0m ",
        "message": {"content": "x"},
    }
    found = read(strange, user(2, "y", isSidechain=True, agentId="\0" * 9), path="/p/\x07\t.jsonl")
    for event, parent in zip(found.events, found.parents, strict=True):
        names = (event.session_uid, event.native_id or "", parent or "")
        assert all(name.isprintable() and len(name) < 300 for name in names)


def test_only_copies_share_an_id() -> None:
    seen: dict[str, str] = {}
    for fixture in FIXTURES:
        for found in ADAPTER.discover(fixture.root):
            normalized = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
            for event, body in zip(normalized.events, normalized.bodies, strict=True):
                assert event.native_id is not None
                assert seen.setdefault(event.native_id, body) == body


def test_the_reason_of_a_refusal_is_what_the_person_typed() -> None:
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected. "
    reason = "The user provided the following reason for the rejection:  use pnpm\n\nplease"
    assert words.reason_of(refusal + reason) == "use pnpm\n\nplease"
    assert words.reason_of(refusal) == refusal
