"""Which sessions were shown a lesson in a file that their agent reads, or because they asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runlore.lessons.exposures import exposures_by_files, exposures_by_request
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
    assert (exposure.uid, exposure.way, exposure.at, exposure.repo, exposure.tokens) == (
        "toy:1",
        "file",
        START + timedelta(hours=5),
        "acme/shop",
        7,
    )


@pytest.mark.parametrize(
    ("fields", "is_told"),
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
def test_it_is_told_where_its_agent_reads_the_file(fields: dict[str, Any], is_told: bool) -> None:
    assert shown_to(case(**fields), rendered(1, "a")) == ["a"] * is_told


def test_without_a_repository_only_the_very_folder_counts() -> None:
    alone = rendered(1, "a", repo="")
    assert shown_to(case(repo="shop"), alone) == ["a"]
    assert shown_to(case(cwd="/w/shop/x", repo="x"), alone) == []


def test_who_asked_was_told_and_what_a_subagent_asked_for_it_knows_alone() -> None:
    asked = msgspec.structs.replace(
        case().digest,
        requested_lessons=(
            RequestedLesson(lesson="a", seq=4, at=START, tokens=9),
            RequestedLesson(lesson="b", seq=8),
        ),
    )
    found = list(exposures_by_request([msgspec.structs.replace(case(), digest=asked)]))
    assert [(one.lesson, one.way, one.at, one.seq, one.tokens) for one in found] == [
        ("a", "asked", START, 4, 9),
        ("b", "asked", START + timedelta(hours=6), 8, 0),
    ]
    assert (
        list(
            exposures_by_request([msgspec.structs.replace(case(), digest=asked, is_subagent=True)])
        )
        == []
    )
