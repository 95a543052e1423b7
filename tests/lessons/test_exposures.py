"""Which sessions were shown a lesson, in a file or on request, and what the trial decided."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runlore.lessons.deliver import Delivered
from runlore.lessons.exposures import (
    decisions_in,
    exposures_by_files,
    exposures_by_request,
    exposures_in,
)
from runlore.lessons.rendered_files import RenderedFile, iter_spans
from runlore.mine.values import Case
from runlore.model import Covers, Digest, RequestedLesson, format_time

START = datetime(2026, 3, 1, tzinfo=UTC)


def hour(n: float) -> str:
    return format_time(START + timedelta(hours=n))


def case(began: float = 5, **fields: Any) -> Case:
    digest = Digest(session_uid="toy:1", version=1, covers=Covers(0, "h"))
    given = {"cwd": "/w/shop", "repo": "acme/shop", "agent": "toy", **fields}
    return Case(uid="toy:1", digest=digest, began=hour(began), at=hour(began + 1), **given)


def rendered(
    at: float, *lessons: str, file: str = "/w/shop/AGENTS.md", repo: str = "acme/shop"
) -> RenderedFile:
    return RenderedFile(
        at=hour(at),
        file=file,
        names=(file.rpartition("/")[2],),
        repo=repo,
        lessons=lessons,
        tokens=7,
    )


def shown_to(one: Case, *notes: RenderedFile) -> list[str]:
    read = {"toy": ("AGENTS.md",)}
    return [
        exposure.lesson
        for exposure in exposures_by_files(
            iter_spans(notes), [one], lambda agent: read.get(agent, ())
        )
    ]


def test_a_session_is_shown_what_the_file_had_when_it_began() -> None:
    notes = rendered(1, "a", "b"), rendered(4, "b"), rendered(6)
    assert [shown_to(case(began), *notes) for began in (0.5, 1, 3, 4, 5, 6, 9)] == [
        [],
        ["a", "b"],
        ["a", "b"],
        ["b"],
        ["b"],
        [],
        [],
    ]
    assert shown_to(case(99), *notes[:2]) == ["b"]  # Until now.
    [exposure] = exposures_by_files(iter_spans(notes[1:]), [case()], lambda _: ("AGENTS.md",))
    assert (exposure.uid, exposure.way, exposure.at, exposure.tokens) == (
        "toy:1",
        "file",
        START + timedelta(hours=5),
        7,
    )


@pytest.mark.parametrize(
    ("fields", "is_shown"),
    [
        ({"cwd": "/w/shop/src/deep"}, True),
        ({"cwd": "/w/shop/"}, True),
        ({"cwd": "/w/shopping"}, False),
        ({"cwd": "/w"}, False),
        # A repository of its own below.
        ({"cwd": "/w/shop/vendor/lib", "repo": "other/lib"}, False),
        ({"cwd": ""}, False),  # Of another machine.
        ({"agent": "other"}, False),  # It reads another file.
        ({"is_subagent": True}, False),
    ],
)
def test_it_is_shown_where_its_agent_reads_the_file(fields: dict[str, Any], is_shown: bool) -> None:
    assert shown_to(case(**fields), rendered(1, "a")) == ["a"] * is_shown


def test_without_a_repository_only_the_very_folder_counts() -> None:
    alone = rendered(1, "a", repo="")
    assert shown_to(case(repo="shop"), alone) == ["a"]
    assert shown_to(case(cwd="/w/shop/x", repo="x"), alone) == []


def test_a_session_got_what_it_asked_for_and_its_subagents_answers_are_their_own() -> None:
    asked = msgspec.structs.replace(
        case().digest,
        requested_lessons=(
            RequestedLesson(lesson="a", seq=4, at=START, tokens=9),
            RequestedLesson(lesson="b", seq=8),
        ),
    )
    asking = msgspec.structs.replace(case(), digest=asked)
    assert [
        (one.lesson, one.way, one.at, one.tokens) for one in exposures_by_request([asking])
    ] == [
        ("a", "request", START, 9),
        ("b", "request", START + timedelta(hours=6), 0),
    ]
    subagent = msgspec.structs.replace(asking, is_subagent=True)
    assert list(exposures_by_request([subagent])) == []


def test_both_groups_are_in_the_records_and_what_was_shown_without_a_trial_is_in_none() -> None:
    records = [
        Delivered(
            at=hour(1), agent="toy", session="1", event="fail", lessons=("a",), withheld=("b",),
            share=0.2, tokens=7,
        ),
        Delivered(at=hour(2), agent="toy", session="2", event="start", lessons=("a",)),
    ]  # fmt: skip
    assert [
        (one.lesson, one.uid, one.is_withheld, one.event, one.share)
        for one in decisions_in(records)
    ] == [("a", "toy:1", False, "fail", 0.2), ("b", "toy:1", True, "fail", 0.2)]
    assert [(one.lesson, one.uid, one.way, one.tokens) for one in exposures_in(records)] == [
        ("a", "toy:1", "fail", 7),
        ("a", "toy:2", "start", 0),
    ]
