"""Output to the terminal: clean text, colours, columns that line up, JSON, a pager.

Transcripts are hostile: whatever comes from one, or from a file's name, goes through `clean` or
`one_line` before it is printed, and through `write_json` when it is JSON.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain, islice
from typing import Any

import click
import msgspec

from ..store import SessionLine
from ..text.clean import clean as clean
from ..text.clean import encoded as encoded
from ..text.clean import one_line as one_line
from ..text.clean import safe_json as safe_json
from .selection import selection

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def replace_unknown_characters() -> None:
    """Show characters that the terminal's encoding lacks as `?`, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def echo(text: str = "") -> None:
    """A line of data."""
    sys.stdout.write(text + "\n")


def note(text: str = "") -> None:
    """A line for people, which is not data."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def warn(text: str) -> None:
    note(f"{paint('warning:', 'yellow', sys.stderr)} {text}")


def write_json(value: Any, form: str = "", *, in_a_line: bool = False) -> None:
    """Print the value as JSON: on one line for a program, indented for a person.

    Values that follow each other are one line each. `form` is the option that asked for another
    form of the answer, as the command declares it.
    """
    if (choice := selection()) is not None:
        from .selecting import select  # An answer that is printed whole does without it.

        value = select(value, choice, form, in_a_line=in_a_line)
    data = encoded(value)
    if sys.stdout.isatty() and not in_a_line:
        data = msgspec.json.format(data, indent=2)
    write_bytes(safe_json(data) + b"\n")


def write_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def paint(text: str, style: str, stream: Any = None) -> str:
    """The text in a style like `"bold red"`, when it goes to a terminal and colour is wanted."""
    if not text or not is_colored(stream or sys.stdout):
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def is_colored(stream: Any) -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def screen() -> tuple[int, int]:
    """Columns and lines of the terminal."""
    columns, lines = (
        int(value) if (value := os.environ.get(name, "")).isdecimal() else 0
        for name in ("COLUMNS", "LINES")
    )
    if not (columns and lines):
        try:
            size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
        except (OSError, ValueError):
            size = os.terminal_size((0, 0))
        columns, lines = columns or size.columns or 100, lines or size.lines or 24
    return columns, lines


def page(lines: Iterable[str], *, pager: bool = True) -> None:
    """Prints the lines, through the pager when they do not fit the screen."""
    rest = iter(lines)
    program = os.environ.get("PAGER", "less" if os.name == "posix" else "more").split()
    pager = pager and sys.stdout.isatty() and program not in ([], ["cat"])
    first = list(islice(rest, screen()[1])) if pager else []
    whole = (f"{line}\n" for line in chain(first, rest))
    if len(first) < screen()[1]:
        sys.stdout.writelines(whole)
        return
    if os.name == "posix":
        os.environ.setdefault("PAGER", "less")
        # Colours as they are, and what turns out to fit a screen stays on it.
        os.environ.setdefault("LESS", "FRX")
    sys.stdout.flush()
    click.echo_via_pager(whole, color=is_colored(sys.stdout) and shows_colors(program))


def shows_colors(pager: list[str]) -> bool:
    """Return True if this pager lets colours through. `less` does so only with an option, and
    otherwise prints the escape codes."""
    if os.path.basename(pager[0]) != "less":
        return True
    words = [*os.environ.get("LESS", "").split(), *pager[1:]]
    # A word of short options may stand without its dash in LESS, and long ones say it in full.
    return any(
        "raw-control-chars" in word.lower() if word.startswith("--") else "r" in word.lower()
        for word in words
    )


# ── columns ───────────────────────────────────────────────────────────────────────────────────────
def cells(text: str) -> int:
    """Return the number of columns that the text takes on a terminal."""
    return len(text) if _is_plain(text) else sum(map(_cells, text))


def _is_plain(text: str) -> bool:
    """Return True if each character certainly takes one column. Below U+0300 only the soft hyphen
    takes none."""
    return text.isascii() or (max(text) < "\u0300" and "\xad" not in text)


@cache
def _cells(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in ("Mn", "Me", "Cf") else 1


def fit(text: str, width: int) -> str:
    """The text in at most so many columns; where it is cut stands an ellipsis."""
    if _is_plain(text):
        return text if len(text) <= width else text[: width - 1] + "…"
    taken = room = 0
    for n, char in enumerate(text):
        taken += _cells(char)
        if taken < width:
            room = n + 1
        elif taken > width:
            return text[:room] + "…"
    return text


def pad(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def wrap(text: str, width: int) -> Iterator[str]:
    """The lines of the text, broken at spaces where they are too long for the width."""
    for line in text.split("\n"):
        while cells(line) > width:
            cut = len(fit(line, width + 1)) - 1
            space = line.rfind(" ", width // 2, cut + 1)
            yield line[: space if space > 0 else cut].rstrip()
            line = line[space + 1 if space > 0 else cut :]
        yield line


LEAVES_FIRST, LEAVES_LAST = -1, 9
"""Values of `leaves` for a column that goes first, and for one that goes last, even if it is the
same in every line."""


class Column:
    """A column of a table. One that may be left out on a narrow screen says how soon: 1 goes first,
    and before it those that say the same in every line."""

    def __init__(
        self,
        head: str,
        values: list[str],
        *,
        right: bool = False,
        max_width: int = 0,
        leaves: int = 0,
    ) -> None:
        self.head, self.right, self.leaves = head, right, leaves
        self.values = [fit(value, max_width) for value in values] if max_width else values
        # Then the built-in methods will do.
        self.is_plain = "".join(self.values).isascii()

    @cached_property
    def width(self) -> int:
        return max(map(len if self.is_plain else cells, (self.head, *self.values)))

    @property
    def rank(self) -> tuple[bool, int]:
        if self.leaves == LEAVES_FIRST:
            return False, self.leaves
        is_telling = self.leaves == LEAVES_LAST or len(self.values) < 2 or len(set(self.values)) > 1
        return is_telling, self.leaves

    def lines(self) -> list[str]:
        width, everything = self.width, (self.head, *self.values)
        if self.right:
            return [value.rjust(width) for value in everything]
        return (
            [value.ljust(width) for value in everything]
            if self.is_plain
            else [pad(value, width) for value in everything]
        )


def title_of(line: SessionLine) -> str:
    """The title of a session as lists have it: also that it is a subagent, or that little more is
    kept of it than this."""
    marks = "(evicted) " * bool(line.evicted_at) + "(subagent) " * (line.relation == "subagent")
    return f"{marks}{one_line(line.title) or '-'}"


def table(columns: list[Column], min_width: int = 32) -> list[str]:
    """Return aligned lines, the heads first.

    The last column gets what is left of the screen, but at least `min_width` columns of it.
    """
    *fixed, last = columns
    width = screen()[0]
    order = sorted((column for column in fixed if column.leaves), key=lambda column: column.rank)
    min_width = min(min_width, max(map(cells, last.values), default=0))
    while order and width - sum(column.width + 2 for column in fixed) < min_width:
        fixed.remove(order.pop(0))
    room = max(8, width - sum(column.width + 2 for column in fixed))
    last_lines = [fit(value, room) for value in (last.head, *last.values)]
    return [
        "  ".join(parts).rstrip()
        for parts in zip(*(column.lines() for column in fixed), last_lines, strict=True)
    ]
