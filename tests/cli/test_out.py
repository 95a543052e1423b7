"""What reaches the terminal."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runlore.cli.commands import doctor
from runlore.cli.output import (
    Column,
    cells,
    clean,
    encoded,
    fit,
    one_line,
    pad,
    page,
    paint,
    safe_json,
    table,
    wrap,
    write_json,
)
from runlore.doctor import Check, Report
from runlore.text.words import brief, duration

OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)
ANY = st.text(st.characters() | st.sampled_from("\x1b\x9b\x9d\x9c\x07[]0;m\r\n\t\u202e\ud800"))


@given(ANY)
def test_no_text_comes_out_with_anything_a_terminal_obeys(text: str) -> None:
    assert not OBEYED.search(clean(text))
    assert "\n" not in one_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs", "M"])))
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("hostile", "left"),
    [
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP+q544e\x1b\\x", "x"),
        ("\x9b31mred", "red"),
        ("\x1b]52;c;unended", "52;c;unended"),
        ("50%\r100%\r\ndone", "50%\n100%\ndone"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("\x1b(0qqq\x1bc", "qqq"),
        ("👩\u200d🚀", "👩\u200d🚀"),
    ],
)
def test_sequences_go_as_a_whole_and_the_text_stays(hostile: str, left: str) -> None:
    assert clean(hostile) == left


@pytest.mark.parametrize(
    "piece", ["\x1b[", "\x1b]", "\x9d", "\x1b[1", "\x1b]a", "\x1b \x1b", "a\x1b"]
)
def test_cleaning_takes_time_in_proportion(piece: str) -> None:
    began = time.process_time()
    clean(piece * 200_000)
    assert time.process_time() - began < 5  # a quadratic pattern would take hours


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_safe_json_means_the_same_and_holds_nothing_obeyed(text: str) -> None:
    data = safe_json(json.dumps({"a": text}, ensure_ascii=False).encode())
    assert json.loads(data) == {"a": text}
    assert not OBEYED.search(data.decode())


def test_nothing_that_can_be_printed_is_obeyed() -> None:
    assert not any(
        char.isprintable() for char in OBEYED.findall("".join(map(chr, range(sys.maxunicode + 1))))
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
@example({"it's": ['a "quote"', "back\\slash", "tab\t", "ü", "\u2028", "\ud800", 0.1, 1e300, -0.0]})
def test_json_means_what_was_written(value: object) -> None:
    assert json.loads(safe_json(encoded(value))) == value


@given(st.binary())
def test_damaged_json_comes_out_harmless(data: bytes) -> None:
    assert not OBEYED.search(safe_json(data).decode())


@given(st.text(st.characters(categories=["L", "N", "So"])), st.integers(2, 30))
def test_a_fitted_text_is_never_wider_than_asked(text: str, width: int) -> None:
    fitted = fit(text, width)
    assert cells(fitted) <= width
    assert fitted == text or (fitted.endswith("…") and text.startswith(fitted[:-1]))
    assert cells(pad(fitted, width)) == width


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert (cells("東京"), cells("e\u0301"), cells("abc")) == (4, 1, 3)
    assert fit("東京都庁", 5) == "東京…"


@given(st.text("ab 東\n", max_size=200), st.integers(4, 20))
def test_wrapping_loses_no_word(text: str, width: int) -> None:
    lines = list(wrap(text, width))
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_columns_leave_a_narrow_table_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def heads(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        columns = [
            Column("ID", ["x" * 8]),
            Column("A", ["a" * 10], leaves=2),
            Column("B", ["b" * 10], leaves=1),
            Column("TITLE", ["t" * 60]),
        ]
        lines = table(columns)
        assert max(map(len, lines)) <= width
        return lines[0].split()

    assert heads(100) == ["ID", "A", "B", "TITLE"]
    assert heads(60) == ["ID", "A", "TITLE"]
    assert heads(45) == ["ID", "TITLE"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of_five_lines(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In place of stdout. (Not a fixture: pytest sets stdout anew between setting up and running a
    test.)"""
    made = Terminal()
    monkeypatch.setattr("sys.stdout", made)
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PAGER", "more")
    return made


def test_only_what_does_not_fit_the_screen_is_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of_five_lines(monkeypatch)
    paged: list[str] = []

    def pager(text: Iterable[str], color: bool | None = None) -> None:
        paged.extend(text)

    monkeypatch.setattr("click.echo_via_pager", pager)
    page(["line"] * 4)
    page(["line"] * 9, pager=False)
    assert (terminal.getvalue(), paged) == ("line\n" * 13, [])
    page(f"line {n}" for n in range(6))
    assert paged == [f"line {n}\n" for n in range(6)]


@pytest.mark.skipif(os.name != "posix", reason="other systems have their own pager")
@pytest.mark.parametrize(
    ("pager", "less", "colour"),
    [(None, None, True), ("less", None, True), ("less", "-iM", False), ("less -R", "-iM", True),
    ("less", "--RAW-CONTROL-CHARS", True),
     ("/usr/bin/less", "FRX", True), ("most", None, True)],
)  # fmt: skip
def test_colours_go_to_a_pager_that_shows_them(
    monkeypatch: pytest.MonkeyPatch, pager: str | None, less: str | None, colour: bool
) -> None:
    terminal_of_five_lines(monkeypatch)
    colours: list[bool | None] = []
    monkeypatch.setattr("click.echo_via_pager", lambda text, color=None: colours.append(color))
    for name, value in (("PAGER", pager), ("LESS", less)):
        monkeypatch.setenv(name, "")  # So that it is put back afterwards.
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    page(["line"] * 9)
    assert colours == [colour]
    assert os.environ["LESS"] == (less or "FRX")


@pytest.mark.parametrize("pager", ["", " ", "cat"])
def test_who_wants_no_pager_gets_none(monkeypatch: pytest.MonkeyPatch, pager: str) -> None:
    terminal = terminal_of_five_lines(monkeypatch)
    monkeypatch.setenv("PAGER", pager)
    page(["line"] * 9)
    assert terminal.getvalue() == "line\n" * 9


def test_of_several_json_values_each_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of_five_lines(monkeypatch)
    written = io.BytesIO()
    monkeypatch.setattr(terminal, "buffer", written, raising=False)
    write_json({"a": [1, 2]})
    write_json({"a": [1, 2]}, in_a_line=True)
    assert written.getvalue() == b'{\n  "a": [\n    1,\n    2\n  ]\n}\n{"a":[1,2]}\n'


def test_a_column_that_says_the_same_in_every_line_leaves_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    columns = [
        Column("ID", ["x" * 8, "y" * 8]),
        Column("SAME", ["a" * 10] * 2, leaves=8),
        Column("OTHER", ["b" * 10, "c" * 10], leaves=1),
        Column("TITLE", ["t" * 60] * 2),
    ]
    assert table(columns)[0].split() == ["ID", "OTHER", "TITLE"]


def test_an_hour_and_more_is_told_in_hours() -> None:
    assert [brief(minutes * 60) for minutes in (12, 59, 60, 68, 185)] == [
        "12m",
        "59m",
        "1h00",
        "1h08",
        "3h05",
    ]
    assert [duration(minutes * 60) for minutes in (12, 59, 60, 68, 185)] == [
        "12 min",
        "59 min",
        "1 h 00",
        "1 h 08",
        "3 h 05",
    ]


def test_the_doctor_keeps_to_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of_five_lines(monkeypatch)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    problem = "a path that is so long that it does not fit a line of this screen"
    checks = [
        Check(name="file", ok=True, checked=1, of=1),
        Check(name="bodies", ok=False, checked=2, of=9, count=1, problems=[problem]),
    ]
    doctor.show(Report(ok=False, checks=checks))
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 50
    assert " ".join(" ".join(lines).split()).endswith(problem)


def test_colour_is_for_terminals_whose_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_of_five_lines(monkeypatch)
    assert paint("x", "bold red") == "\x1b[1;31mx\x1b[0m"
    assert paint("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "red") == "x"
