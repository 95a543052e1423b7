"""Changes of files with lessons are recorded once each, whoever made them; looking at a file
records nothing."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runlore.lessons import Lesson, rendered_files
from runlore.lessons.render import BEGIN, END, render_block
from runlore.lessons.rendered_files import (
    FILE_NAME,
    MAX_BYTES,
    iter_spans,
    read_records,
    record_files,
)
from runlore.model import parse_time
from tests.projects import checkout

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of a project; its parent is runlore's home."""
    return checkout(tmp_path / "shop")


def put(file: Path, *ids: str, at: datetime = NOW) -> None:
    lessons = [Lesson(id=name, when="it [fails]", do="do this\n- or [that]") for name in ids]
    file.write_text(f"# Mine\n- not [ours]\n\n{render_block(lessons)}\n- nor [this]\n")
    os.utime(file, (at.timestamp(), at.timestamp()))


def noted(home: Path) -> list[tuple[str, ...]]:
    return [note.lessons for note in read_records(home)]


def test_what_stands_in_a_file_is_noted_when_it_is_another(place: Path) -> None:
    home, file = place.parent, place / "AGENTS.md"
    put(file, "abc", "d-1")
    for _ in range(2):
        record_files(home, NOW, file)
    [note] = read_records(home)
    assert (note.file, note.names, note.repo, note.lessons) == (
        os.path.realpath(file),
        ("AGENTS.md",),
        "acme/shop",
        ("abc", "d-1"),
    )
    assert (parse_time(note.at), note.tokens > 20) == (NOW, True)
    put(file, "d-1", at=NOW + timedelta(hours=1))
    record_files(home, NOW + timedelta(hours=2))
    file.write_text("# Mine\n")
    record_files(home, NOW + timedelta(hours=3))
    file.unlink()
    record_files(home, NOW + timedelta(hours=4))
    put(file, "abc")
    record_files(home, NOW + timedelta(hours=5))
    assert noted(home) == [("abc", "d-1"), ("d-1",), (), ("abc",)]
    first, second, third = iter_spans(read_records(home))
    assert (first.since, first.until, second.since) == (
        NOW,
        NOW + timedelta(hours=1),
        NOW + timedelta(hours=1),
    )
    # Never before what was noted last.
    assert (third.since >= NOW + timedelta(hours=2), third.until) == (True, None)
    if os.name != "nt":
        assert (home / FILE_NAME).stat().st_mode & 0o077 == 0


def test_a_file_that_was_about_to_be_written_is_looked_at_by_the_next_sync(place: Path) -> None:
    home, file = place.parent, place / "AGENTS.md"
    record_files(home, NOW, file)
    assert not (home / FILE_NAME).exists()
    record_files(home, NOW - timedelta(hours=1), file, is_coming=True)
    put(file, "abc")  # And killed.
    record_files(home, NOW + timedelta(hours=1))
    [span] = iter_spans(read_records(home))
    assert (span.file.lessons, span.since) == (("abc",), NOW)


def test_a_file_is_known_by_the_names_that_lead_to_it(place: Path) -> None:
    home, file = place.parent, place / "AGENTS.md"
    put(file, "abc")
    (place / "CLAUDE.md").write_text("See @AGENTS.md.\n")
    (place / "OTHER.md").write_text("mail me@AGENTS.md, or @docs/AGENTS.md, @AGENTS.mdx\n")
    if os.name != "nt":
        (place / "GEMINI.md").symlink_to("AGENTS.md")
        (place / "gone.md").symlink_to("nowhere")
    record_files(home, NOW, file)
    assert set(read_records(home)[-1].names) == {"AGENTS.md", "CLAUDE.md"} | (
        {"GEMINI.md"} if os.name != "nt" else set()
    )
    (place / "CLAUDE.md").unlink()
    record_files(home, NOW)
    assert (len(read_records(home)), "CLAUDE.md" in read_records(home)[-1].names) == (2, False)


def test_what_cannot_be_read_changes_nothing_and_a_damaged_note_costs_itself(place: Path) -> None:
    home, file = place.parent, place / "AGENTS.md"
    put(file, "abc")
    record_files(home, NOW, file)
    file.write_bytes(b"\xff\xfe")
    record_files(home, NOW)
    file.unlink()
    file.mkdir()
    record_files(home, NOW)
    with open(home / FILE_NAME, "ab") as notes:
        notes.write(b'{"at": "yesterday", "file": "x"}\n{"at"\n\xff\n')
    assert noted(home) == [("abc",)]


def test_of_many_files_those_are_looked_at_that_were_noted_last(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendered_files, "MAX_FILES", 2)
    home, files = place.parent, [place / name for name in ("A.md", "B.md", "C.md", "A.md")]
    for n, file in enumerate(files):
        put(file, f"abc{n}")
        record_files(home, NOW, file)
    for file in files:
        put(file, "new")
    record_files(home, NOW)
    assert [(Path(note.file).name, note.lessons) for note in read_records(home)[len(files) :]] == [
        ("C.md", ("new",)),
        ("A.md", ("new",)),
    ]


def test_the_notes_do_not_grow_without_end(place: Path) -> None:
    home, file = place.parent, place / "AGENTS.md"
    (home / FILE_NAME).write_bytes(b" " * MAX_BYTES)
    put(file, "abc")
    record_files(home, NOW, file)
    assert (home / FILE_NAME).stat().st_size == MAX_BYTES


def test_lessons_are_read_out_of_their_block_alone(place: Path) -> None:
    home, file = place.parent, place / "AGENTS.md"
    file.write_text(
        f"- x [no1]\r\n{BEGIN}\r\n- one: do [this] [a-1]\r\n- no id\r\nx [no2]\r\n- two"
        f" [b2]\r\n{END}\r\n- x [no3]\r\n",
        newline="",
    )
    record_files(home, NOW, file)
    assert noted(home) == [("a-1", "b2")]
