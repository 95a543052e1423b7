"""What is shown of a session, and what belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from runlore import config as settings
from runlore.errors import NotFound
from runlore.export.outline import bodies_of, outline, texts
from runlore.store import Store, open_store
from runlore.sync import pipeline
from tests.toy import Toy, line


@pytest.fixture
def store(home: Path, toy: Toy) -> Iterator[Store]:
    root = home / ".toy"
    root.mkdir()
    (root / "beta.jsonl").write_bytes(
        line(s="beta", id="b1", text="write a poem", at=100)
        + line(s="beta", id="b2", up="b1", kind="assistant_msg", text="About what?", at=101)
        + line(s="beta", id="b3", up="b2", text="about rain", at=102)
        + line(s="beta", id="b4", up="b3", kind="assistant_msg", text="Drip, drop.", at=103)
        + line(s="beta", id="b5", up="b2", text="about snow", at=104)
        + line(
            s="beta",
            id="b6",
            up="b5",
            kind="tool_call",
            text="snow --white",
            call="c1",
            tool="Bash",
            at=105,
        )
        + line(
            s="beta",
            id="b7",
            up="b6",
            kind="tool_result",
            text="cold",
            call="c1",
            error=True,
            at=106,
        )
        + line(s="beta", id="b8", up="b7", kind="assistant_msg", text="White, light.", at=107)
    )
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as made:
        pipeline.sync(made, config)
        yield made


def shown(store: Store, branch: int | None) -> list[tuple[str, int]]:
    return [(block.form, block.event.seq) for block in outline(store, "toy:beta", branch).blocks]


def test_the_line_that_went_on_is_shown_with_a_mark_where_another_was_left(store: Store) -> None:
    found = outline(store, "toy:beta")
    assert shown(store, 0) == [
        ("prompt", 0),
        ("reply", 1),
        ("prompt", 4),
        ("call", 5),
        ("reply", 7),
    ]
    assert [(left.branch, left.events) for block in found.blocks for left in block.left] == [(1, 2)]


def test_a_line_that_was_left_is_shown_with_what_led_to_it(store: Store) -> None:
    assert shown(store, 1) == [("prompt", 0), ("reply", 1), ("prompt", 2), ("reply", 3)]


def test_everything_can_be_shown(store: Store) -> None:
    assert [seq for _, seq in shown(store, None)] == [0, 1, 2, 3, 4, 5, 7]


def test_a_branch_that_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="the last is 1"):
        outline(store, "toy:beta", 2)


def test_a_result_is_shown_with_its_call(store: Store) -> None:
    call = outline(store, "toy:beta").blocks[3]
    assert call.seqs == [5, 6]
    assert texts(store, "toy:beta", [call]) == {5: "snow --white", 6: "cold"}


def test_turns_say_what_happened_in_them(store: Store) -> None:
    turns = outline(store, "toy:beta").turns
    assert [(turn.number, turn.seq, turn.calls, turn.errors, turn.seconds) for turn in turns] == [
        (1, 0, 0, 0, 1.0),
        (3, 4, 1, 1, 3.0),  # The second was rewound: it counts, and is on another branch.
    ]
    assert [turn.number for turn in outline(store, "toy:beta", None).turns] == [1, 2, 3]


def test_texts_are_those_asked_for_and_no_others(store: Store) -> None:
    assert bodies_of(store, "toy:beta", [7, 0, 99]) == {0: "write a poem", 7: "White, light."}
    assert bodies_of(store, "toy:beta", []) == {}
