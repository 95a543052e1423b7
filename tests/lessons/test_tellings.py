"""Which sessions were told a lesson by a file that it stands in, or because they asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runlore.lessons.standing import Standing, spans
from runlore.lessons.tellings import by_asking, by_files
from runlore.mine import Case
from runlore.model import Covers, Digest, RequestedLesson, format_time

START = datetime(2026, 3, 1, tzinfo=UTC)


def hour(n: float) -> str:
    return format_time(START + timedelta(hours=n))


def case(began: float = 5, **fields: Any) -> Case:
    digest = Digest(session_uid="toy:1", version=1, covers=Covers(0, "h"))
    given = {"cwd": "/w/shop", "repo": "acme/shop", "agent": "toy", **fields}
    return Case(uid="toy:1", digest=digest, began=hour(began), at=hour(began + 1), **given)


def stood(at: float, *lessons: str, file: str = "/w/shop/AGENTS.md", repo: str = "acme/shop") -> Standing:
    return Standing(at=hour(at), file=file, names=(file.rpartition("/")[2],), repo=repo, lessons=lessons, tokens=7)


def told(one: Case, *notes: Standing) -> list[str]:
    read = {"toy": ("AGENTS.md",)}
    return [telling.lesson for telling in by_files(spans(notes), [one], lambda agent: read.get(agent, ()))]


def test_a_session_is_told_what_stood_there_when_it_began() -> None:
    notes = stood(1, "a", "b"), stood(4, "b"), stood(6)
    assert [told(case(began), *notes) for began in (0.5, 1, 3, 4, 5, 6, 9)] == [[], ["a", "b"], ["a", "b"], ["b"], ["b"], [], []]
    assert told(case(99), *notes[:2]) == ["b"]  # Until now.
    [telling] = by_files(spans(notes[1:]), [case()], lambda _: ("AGENTS.md",))
    assert (telling.uid, telling.way, telling.at, telling.repo, telling.tokens) == (
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
        ({"cwd": "/w/shop/vendor/lib", "repo": "other/lib"}, False),  # A repository of its own below.
        ({"cwd": ""}, False),  # Of another machine.
        ({"agent": "other"}, False),  # It reads another file.
        ({"is_subagent": True}, False),
    ],
)
def test_it_is_told_where_its_agent_reads_the_file(fields: dict[str, Any], is_told: bool) -> None:
    assert told(case(**fields), stood(1, "a")) == ["a"] * is_told


def test_without_a_repository_only_the_very_folder_counts() -> None:
    alone = stood(1, "a", repo="")
    assert told(case(repo="shop"), alone) == ["a"]
    assert told(case(cwd="/w/shop/x", repo="x"), alone) == []


def test_who_asked_was_told_and_what_a_subagent_asked_for_it_knows_alone() -> None:
    asked = msgspec.structs.replace(
        case().digest, told=(RequestedLesson(lesson="a", seq=4, at=START, tokens=9), RequestedLesson(lesson="b", seq=8))
    )
    found = list(by_asking([msgspec.structs.replace(case(), digest=asked)]))
    assert [(one.lesson, one.way, one.at, one.seq, one.tokens) for one in found] == [
        ("a", "asked", START, 4, 9),
        ("b", "asked", START + timedelta(hours=6), 8, 0),
    ]
    assert list(by_asking([msgspec.structs.replace(case(), digest=asked, is_subagent=True)])) == []
