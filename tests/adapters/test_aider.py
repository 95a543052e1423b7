"""What aider's adapter promises beyond what its fixtures show: how a history in Markdown is taken
apart, and read on."""

import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import config, query
from runlore.adapters import Record, get
from runlore.adapters.aider.history import (
    Marks,
    edits,
    part_start,
    split_history,
    split_thought,
)
from runlore.adapters.shared.jsonl import open_start
from runlore.store import Store, open_store
from runlore.sync import pipeline
from runlore.testing import iter_fixtures
from runlore.timeline import pairs
from tests.test_law import contents

ADAPTER = get("aider")
FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == "aider"
]
START = "\n# aider chat started at 2026-05-04 10:00:00\n\n"


def user(text: str) -> str:
    return "\n#### " + "  \n#### ".join(text.splitlines()) + "  \n"


def tool(*lines: str) -> str:
    return "".join(f"> {line}  \n" for line in lines)


def reply(text: str) -> str:
    return f"\n{text}\n\n"


def write(folder: Path, text: str, age_s: float = 0) -> Path:
    path = folder / "shop/.aider.chat.history.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def said(records: Iterator[Record]) -> list[Any]:
    return [
        value.get("text", value.get("lines"))
        for record in records
        if (value := json.loads(record.data))
    ]


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["aider"], roots=[str(root)])
    assert not report.problems
    return report


def case(name: str) -> Path:
    return next(fixture.root for fixture in FIXTURES if fixture.case == name)


def test_nothing_that_was_said_is_carried_over() -> None:
    for fixture in FIXTURES:
        for found in ADAPTER.discover(fixture.root):
            made = ADAPTER.normalize(found, ADAPTER.read(found, None), None)
            carry = repr(msgspec.msgpack.decode(made.carry))
            assert not [body for body in made.bodies if len(body) > 20 and body in carry]


WORDS = [
    "#### a",
    "#### b  ",
    "> c  ",
    "> d",
    "",
    "text",
    "```",
    "# aider chat started at 2026-05-04 10:00:00",
    "é",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.booleans())
def test_pieces_lie_one_after_another_and_nothing_is_lost(lines: list[str], is_stale: bool) -> None:
    data = "\n".join(lines).encode()
    found = list(split_history(data, Marks(), is_end=True, is_stale=is_stale))
    ends = [0, *(end for _, end, _ in found)]
    assert all(begin >= end for (begin, _, _), end in zip(found, ends, strict=False))
    if is_stale:
        said = "\n".join(
            text
            for _, _, piece in found
            for text in [piece.get("text", ""), *piece.get("lines", [])]
        )
        for line in lines:
            assert line.lstrip("#> ").strip() in said


def marked() -> Marks:
    return Marks(prompts=True, program=True)


@given(
    st.lists(
        st.sampled_from(
            ["#### b  ", "> c  ", "", "text", "# aider chat started at 2026-05-04 10:00:00"]
        ),
        max_size=12,
    ),
    st.data(),
)
def test_a_history_read_in_parts_gives_the_same_pieces(
    lines: list[str], data: st.DataObject
) -> None:
    """As the program writes it: a prompt, a reply or a line of its own at a time."""
    forms = {"#### b  ": "\n#### b  \n", "> c  ": "> c  \n", START.strip(): START}
    written = "".join(forms.get(line, reply("text")) for line in lines)
    # Two replies never follow each other without a line of the program between them.
    whole = written.replace(
        reply("text"), reply("text") + "> Tokens: 1 sent, 1 received.  \n"
    ).encode()
    once = [piece for _, _, piece in split_history(whole, marked(), is_end=True, is_stale=True)]
    cut = data.draw(st.sampled_from([0, *(n + 1 for n, char in enumerate(whole) if char == 10)]))
    first = list(split_history(whole[:cut], marked(), is_end=True, is_stale=False))
    at = first[-1][1] if first else 0
    rest = [
        piece for _, _, piece in split_history(whole[at:], marked(), is_end=True, is_stale=True)
    ]
    assert [*(piece for _, _, piece in first), *rest] == once


def test_what_is_read_on_is_understood_as_the_beginning_of_its_session(tmp_path: Path) -> None:
    """A formatter went over the first session; the second one is as the program wrote it."""
    shown = "> Aider v0.86.2  \n\n"
    first = START + shown + "#### one\n\n#### and more\n\nA reply.\n\n#### Its heading\n\nText.\n\n"
    first += "> Tokens: 5 sent, 1 received.  \n\n"
    second = START + shown + user("two") + reply("#### Not a prompt\n\n> No program")
    end = "> Tokens: 6 sent, 1 received.  \n\n#### again"
    whole = f"{first}{end}\n\n{second}{end}  \n"
    write(tmp_path, whole, age_s=3600)
    (source,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(source, None))
    texts = [json.loads(record.data).get("text") for record in records]
    assert texts == [
        START.strip(),
        None,
        "one\nand more",
        "A reply.\n\n#### Its heading\n\nText.",
        None,
        "again",
        START.strip(),
        None,
        "two",
        "#### Not a prompt\n\n> No program",
        None,
        "again",
    ]
    for n, record in enumerate(records, 1):
        since = ADAPTER.position(source, record.end, n)
        assert list(ADAPTER.read(source, since)) == records[n:]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_the_start_of_a_part_is_found_from_its_end(lines: list[str]) -> None:
    file = io.BytesIO("\n".join([START.strip(), "", *lines]).encode())
    found = split_history(file.getvalue(), Marks(), is_end=True, is_stale=True)
    for begin, end, _ in found:
        assert part_start(file, end) == begin


def test_a_position_does_not_depend_on_what_was_read_before(tmp_path: Path) -> None:
    """Another process may ask for it."""
    write(tmp_path, START + user("one") + reply("1") + tool("Applied edit to a.py"), age_s=3600)
    (source,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(source, None))
    for n, record in enumerate(records, 1):
        position = ADAPTER.position(source, record.end, n)
        assert position == type(ADAPTER)().position(source, record.end, n)
        assert open_start(position) == record.offset
        assert ADAPTER.follows(source, position)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<thinking-content-0a1b>\n\nHm.\n\n</thinking-content-0a1b>\n\nYes.", ("Hm.", "Yes.")),
        ("Hm.\n</thinking-content-0a1b>\nYes.", ("Hm.", "Yes.")),
        ("<thinking-content-0a1b>\nHm.", ("Hm.", "")),
        ("<think>Hm.</think>Yes.", ("Hm.", "Yes.")),
        ("The tag <think> is closed by </think>.", ("", "The tag <think> is closed by </think>.")),
        ("--------\n► **THINKING**\n\nHm.\n\n------\n► **ANSWER**\n\nYes.", ("Hm.", "Yes.")),
        ("-----\n**► THINKING**\n\nHm.\n\n-----\n**► ANSWER**\n\nYes.", ("Hm.", "Yes.")),
        ("Yes.", ("", "Yes.")),
    ],
)
def test_what_was_thought_is_told_from_what_was_said(text: str, wanted: tuple[str, str]) -> None:
    thought, said = split_thought(text)
    assert (thought, said.strip()) == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("Model: gpt-4 using diff edit format", "gpt-4"),
        ("Model: o1 with whole edit format", "o1"),
        ("Models: gpt-4o with diff edit format, weak model gpt-4o-mini", "gpt-4o"),
        ("Main model: openai/gpt-4o with diff edit format", "gpt-4o"),
        ("Aider v0.36.0 Models: gpt-4o with ♾️ diff edit format, weak model x", "gpt-4o"),
        ("Weak model: gpt-4o-mini", None),
    ],
)
def test_the_model_is_read_in_every_form(tmp_path: Path, line: str, wanted: str | None) -> None:
    write(tmp_path, START + tool(line) + user("one") + reply("1"), age_s=3600)
    (source,) = ADAPTER.discover(tmp_path)
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    assert [facts.model for facts in found.facts.values()] == [wanted]


def test_only_what_is_new_is_read_and_what_may_go_on_is_held_back(tmp_path: Path) -> None:
    text = START + user("one") + reply("1") + tool("Tokens: 5 sent, 1 received.")
    path = write(tmp_path, text)
    (source,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(source, None))
    assert said(iter(records))[1:] == ["one", "1"]
    position = ADAPTER.position(source, records[-1].end, len(records))
    write(tmp_path, text + tool("Applied edit to a.py") + user("two"))
    assert ADAPTER.follows(source, position)
    assert said(ADAPTER.read(source, position)) == [
        ["Tokens: 5 sent, 1 received.", "Applied edit to a.py"],
        "two",
    ]
    write(tmp_path, text, age_s=3600)
    (source,) = ADAPTER.discover(tmp_path)
    assert said(ADAPTER.read(source, None))[-1] == ["Tokens: 5 sent, 1 received."]
    assert ADAPTER.aged(source).mtime_ns == path.stat().st_mtime_ns + 1
    assert ADAPTER.refresh(source) == source


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (user("two") + reply("2"), "grown"),
        (tool("Applied edit to a.py") + user("two"), "outdated"),
        ("> and a line of the program", "outdated"),
    ],
    ids=["a prompt", "more lines of the program", "the rest of a line"],
)
def test_a_part_that_goes_on_after_a_pause_is_stored_as_if_read_at_once(
    tmp_path: Path, store: Store, more: str, reason: str
) -> None:
    text = START + user("one") + reply("1") + tool("Tokens: 5 sent, 1 received.")
    if reason == "outdated" and not more.endswith("\n"):
        text = text.removesuffix("  \n")

    def read(into: Store) -> dict[str, int]:
        return pipeline.sync(
            into, config.load(), agents=["aider"], roots=[str(tmp_path / "work")]
        ).found

    write(tmp_path / "work", text, age_s=200)
    read(store)
    write(tmp_path / "work", text + more, age_s=100)
    assert read(store) == {reason: 1}
    with closing(open_store(str(tmp_path / "once.db"))) as once:
        read(once)
        assert contents(store) == contents(once)


def test_a_long_history_is_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = START + "".join(
        user(f"prompt {n}") + reply(f"reply {n} " + "x" * 300) + tool("Tokens: 5 sent, 1 received.")
        for n in range(50)
    )
    write(tmp_path, text, age_s=3600)
    (source,) = ADAPTER.discover(tmp_path)
    whole = list(ADAPTER.read(source, None))
    # Less than a reply: then it takes more at a time.
    monkeypatch.setattr("runlore.adapters.aider.CHUNK", 256)
    assert list(ADAPTER.read(source, None)) == whole
    assert len(whole) == 151


def test_a_prompt_has_the_time_at_which_the_same_words_were_typed(store: Store) -> None:
    sync(store, case("history"))
    rows = store.maintenance.rows("select uid from sessions order by started_at, uid")
    assert len(rows) == 4
    events = list(store.sessions.events(rows[0][0]))
    prompt = next(event for event in events if event.kind == "user_msg")
    assert prompt.ts is not None
    assert prompt.ts.isoformat() == "2026-05-04T10:01:00.500000+00:00"
    assert {event.kind for event in events if event.ts} == {
        "lifecycle",
        "human_intervention",
        "user_msg",
    }


def test_an_edit_is_paired_with_the_line_that_it_was_applied(store: Store) -> None:
    sync(store, case("history"))
    uid = store.maintenance.rows("select uid from sessions order by started_at, uid")[0][0]
    calls = [
        call
        for call in pairs(store.sessions.events(uid))
        if call.call is not None and call.call.kind == "edit"
    ]
    assert [(call.call and call.call.files, call.result is not None) for call in calls] == [
        (("shop/price.py",), False), (("shop/price.py",), True), (("tests/test_vat.py",), True),
        (("shop/price.py",), False),
    ]  # fmt: skip


def test_a_plan_that_is_given_to_the_editor_was_not_typed(store: Store) -> None:
    sync(store, case("history"))
    uid = store.maintenance.rows("select uid from sessions order by started_at, uid")[0][0]
    events = list(store.sessions.events(uid))
    (given,) = [event for event in events if event.native == "architect"]
    assert given.view == "context"
    assert store.sessions.bodies(uid)[given.seq] == "1) Round\n   - in price.py\n\n2) Test"


def test_tokens_are_counted_as_they_are_written(store: Store) -> None:
    sync(store, case("history"))
    rows = store.maintenance.rows(
        "select model, sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),"
        " sum(cache_write_5m_tokens) from ledger group by model order by model"
    )
    sent, received = 1300 + 3000 + 300 + 500, 104 + 1200 + 20 + 10
    assert [tuple(row) for row in rows] == [
        (None, 100, 5, 0, 0), ("claude-sonnet-4-5", sent, received, 900, 1100),
        ("deepseek-chat", 1000, 20, 4000, 0),
    ]  # fmt: skip


def test_edits_that_are_not_whole_are_none() -> None:
    block = "a.py\n```\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n```\n"
    assert edits(block) == [("a.py", "old", "new")]
    assert edits("a.py\n```\n<<<<<<< SEARCH\nold\n" + block) == [("a.py", "old", "new")]
    assert edits("<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n") == []
    assert edits(block + "Now this:\n```\n<<<<<<< SEARCH\n=======\nmore\n>>>>>>> REPLACE\n") == [
        ("a.py", "old", "new"),
        ("a.py", "", "more"),
    ]


def test_repositories_are_found_below_a_root_but_not_in_folders_of_others(tmp_path: Path) -> None:
    for folder in ("a", "b/c", "node_modules/d", ".hidden/e"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".aider.chat.history.md").write_text(START)
    (tmp_path / "a/.aider.input.history").write_text("+x\n")
    (tmp_path / "a/README.md").write_text("# x\n")
    assert [Path(source.path).parent.name for source in ADAPTER.discover(tmp_path)] == ["a", "c"]
    (source,) = ADAPTER.discover(tmp_path / "a/.aider.chat.history.md")
    assert source.path == str(tmp_path / "a/.aider.chat.history.md")


def test_the_history_in_the_home_folder_is_found_and_told(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root may be a file."""
    path = write(tmp_path, START + user("one") + reply("1"))
    monkeypatch.setenv("AIDER_CHAT_HISTORY_FILE", str(path))
    assert not pipeline.sync(store, config.load(), agents=["aider"]).problems
    (row,) = [row for row in query.agents(store, config.load()) if row.name == "aider"]
    assert (row.sessions, [(root.path, root.exists) for root in row.roots]) == (
        1,
        [(str(path), True)],
    )
