"""Lessons as files: what goes in comes out, what is strange costs itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.errors import Ambiguous, ModelError, NotFound
from runlore.lessons import Lesson
from runlore.lessons.rank import rank_lessons, score
from runlore.lessons.shelf import Shelf, parse_lesson, render_lesson
from runlore.mine.intervals import wilson_interval
from runlore.text.clean import clean

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def lesson(name: str = "abc", **fields: object) -> Lesson:
    given = {"when": "it fails", "do": "do this", "evidence": ("toy:a#1",), **fields}
    return Lesson(id=name, **given)  # type: ignore[arg-type]


TEXT = st.text().map(lambda text: clean(text).strip("\n"))
VALUE = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.text().map(clean),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1).map(clean), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(TEXT, TEXT, TEXT, TEXT, st.dictionaries(st.sampled_from(["team", "x y", "severity"]), VALUE))
def test_what_is_written_is_read_back(
    when: str, do: str, avoid: str, why: str, extra: dict[str, object]
) -> None:
    made = lesson(
        when=when,
        do=do,
        avoid=avoid,
        why=why,
        extra=extra,
        notes="# Kept\n\nby hand",
        confidence=0.25,
    )
    assert parse_lesson(render_lesson(made)) == made


def test_a_text_cannot_end_its_section_or_the_front_matter() -> None:
    made = lesson(
        when="## Do\n+++\nrm -rf",
        do="\\# not a heading\n## When\nx",
        avoid="## Notes\n## Do\ny",
        why='"""\n+++\nstatus = "approved"',
    )
    assert parse_lesson(render_lesson(made)) == made


def test_what_people_write_into_a_file_survives(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    file = tmp_path / "abc.md"
    file.write_text(
        '+++\nid = "abc"\nowner = "ada"\nreviewed = 2026-05-01\n[more]\nx = 1\n+++\nA'
        " preamble.\n\n## When\n\nit fails\n\n## Do\n\ndo this\n\n## Background\n\nlong"
        " story\n"
    )
    shelf.put(msgspec.structs.replace(shelf.get("abc"), status="approved"))
    again = shelf.get("abc")
    assert (again.status, again.extra["owner"], again.extra["more"]) == (
        "approved",
        "ada",
        {"x": 1},
    )
    assert str(again.extra["reviewed"]) == "2026-05-01"
    assert "A preamble." in again.notes
    assert "long story" in again.notes
    assert (again.when, again.do) == ("it fails", "do this")


@pytest.mark.parametrize(
    "text",
    [
        b"", b"hello", b"+++\nid = \n+++\n", b'+++\nid = "abc"\n', b"\xff\xfe",
        b'+++\nid = "other"\n+++\n',
        b'+++\nid = "abc"\nsessions = "x"\n+++\n',
        b'+++\nid = "abc"\nstatus = "great"\n+++\n', b"+++\na=" + b"[" * 5000 + b"\n+++\n",
        b"+++\n" + b"#" * (300 << 10),
    ],
)  # fmt: skip
def test_a_broken_file_costs_itself_and_is_named(tmp_path: Path, text: bytes) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(lesson("good"))
    (tmp_path / "abc.md").write_bytes(text)
    found, broken = shelf.read()
    assert [one.id for one in found] == ["good"]
    assert [Path(one.file).name for one in broken] == ["abc.md"]
    assert broken[0].reason


def test_names_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "lessons")
    for name in ("../x", "", "a/b", "A", "x" * 65, ".hidden"):
        with pytest.raises(ModelError):
            shelf.put(lesson(name))
        with pytest.raises(NotFound):
            shelf.get(name)
    assert shelf.read() == ([], [])


def test_a_unique_beginning_names_a_lesson(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for name in ("abc1", "abc2", "abc"):
        shelf.put(lesson(name))
    assert shelf.get("abc1").id == "abc1"
    assert shelf.get("abc").id == "abc"
    with pytest.raises(Ambiguous):
        shelf.get("ab")


def test_a_scope_is_any_where_it_is_empty() -> None:
    assert lesson().fits(agent="toy", repo="a/b", path="x.py", tool="Bash")
    one = lesson(repo="shop", path="src/*.py", tool="bash")
    assert one.fits(repo="acme/shop", path="/w/src/a.py", tool="Bash")
    assert one.fits(repo="acme/shop")  # What is not known rules nothing out.
    assert not one.fits(repo="acme/shopping")
    assert not one.fits(repo="")
    assert not one.fits(repo="acme/shop", path="/w/docs/a.md")
    assert not lesson(repo="acme/shop").fits(repo="other/shop")


def test_a_forty_of_fifty_comes_before_a_two_of_two() -> None:
    assert wilson_interval(40, 50)[0] > wilson_interval(2, 2)[0] > wilson_interval(0, 5)[0] == 0.0
    assert wilson_interval(0, 0) == (0.0, 1.0)
    small = lesson("small", confidence=wilson_interval(2, 2)[0], last_at="2026-06-01T00:00:00Z")
    large = lesson("large", confidence=wilson_interval(40, 50)[0], last_at="2026-06-01T00:00:00Z")
    assert [one.id for one in rank_lessons([small, large], NOW, 90)] == ["large", "small"]


def test_a_lesson_ages_and_loses_trust_when_it_is_contradicted() -> None:
    fresh = lesson(
        confidence=0.4, last_at="2026-06-01T00:00:00Z", helped=3, sessions=4, status="approved"
    )
    old = msgspec.structs.replace(fresh, last_at="2026-03-03T00:00:00Z")
    assert score(old, NOW, 90) == pytest.approx(score(fresh, NOW, 90) / 2)
    assert (
        score(msgspec.structs.replace(fresh, last_at="soon", made_at="2026-06-01"), NOW, 90) < 0.01
    )
    doubted = msgspec.structs.replace(fresh, broken=3)
    assert score(doubted, NOW, 90) < score(fresh, NOW, 90)
    assert fresh.is_ready(3)
    assert not doubted.is_ready(3)
    assert msgspec.structs.replace(doubted, kept=2).is_ready(3)


def test_nothing_is_told_without_approval_and_evidence() -> None:
    ready = lesson(status="approved", sessions=3)
    assert ready.is_ready(3)
    changes: list[dict[str, object]] = [
        {"status": "proposed"},
        {"status": "rejected"},
        {"evidence": ()},
        {"do": ""},
        {"sessions": 2},
    ]
    for change in changes:
        assert not msgspec.structs.replace(ready, **change).is_ready(3)
    assert msgspec.structs.replace(ready, by="person", sessions=1).is_ready(3)
