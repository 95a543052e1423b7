"""What reaches the terminal: clean text, colour where it is wanted, columns that line up, JSON, a pager.

Transcripts are hostile: whatever comes from one, or from a file's name, goes through `clean` or `one_line` before it is
printed, and through `write_json` when it is JSON.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain, islice
from typing import Any

# Sequences first, so that their parameters go along. A string (OSC, DCS, …) that is not ended on its line loses only its
# introducer: what follows stays to be read. No part of the pattern can run past the next introducer: it is linear.
# Patterns stay text until they are first used: compiling them would cost every command 4 ms.
_HOSTILE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])(?:[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c))?"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # C0 but for tab and newline, DEL, C1
    r"|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"  # which way text runs, and where a line ends
    r"|[\U000e0000-\U000e007f]"  # tags: text that cannot be seen
    r"|[\ud800-\udfff]"
)
_UNSAFE_IN_JSON = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def clean(text: str) -> str:
    """The text without anything that a terminal would obey: no escape or control character but tab and newline."""
    if text.isprintable():
        return text
    return re.sub(_HOSTILE, "", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str | None) -> str:
    """The clean text on one line."""
    if not text or text.isprintable():
        return text or ""
    return " ".join(clean(text).split())


def safe_json(data: bytes) -> bytes:
    """The same JSON, with the characters escaped that a terminal would obey. Damaged JSON comes out harmless as well."""
    text = data.decode("utf-8", "replace")
    is_whole = "\ufffd" not in text
    # What is left without the plain characters is little, and soon searched. Of damaged bytes the rest could fall together.
    if is_whole and not re.search(_UNSAFE_IN_JSON, data.translate(None, _PLAIN).decode()):
        return data
    return re.sub(_UNSAFE_IN_JSON, _escape, text).encode()


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


def settle_streams() -> None:
    """A character that the terminal's encoding does not have is shown as `?`, rather than ending the program."""
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


def write_json(value: Any) -> None:
    """The value as JSON: one line for a program, indented for a person."""
    import msgspec

    data = msgspec.json.encode(value)
    if sys.stdout.isatty():
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
    """Columns and lines. `shutil` knows as well, but takes 5 ms to import."""
    columns, lines = (int(value) if (value := os.environ.get(name, "")).isdecimal() else 0 for name in ("COLUMNS", "LINES"))
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
    pager = pager and sys.stdout.isatty()
    first = list(islice(rest, screen()[1])) if pager else []
    whole = (f"{line}\n" for line in chain(first, rest))
    if len(first) < screen()[1]:
        sys.stdout.writelines(whole)
        return
    import click

    if os.name == "posix":
        os.environ.setdefault("PAGER", "less -FRX")
    sys.stdout.flush()
    click.echo_via_pager(whole, color=is_colored(sys.stdout))


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def cells(text: str) -> int:
    """How many columns the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


@cache
def _cells(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in ("Mn", "Me", "Cf") else 1


def fit(text: str, width: int) -> str:
    """The text in at most so many columns; where it is cut stands an ellipsis."""
    if text.isascii():
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


class Column:
    """A column of a table. One that may be left out on a narrow screen says how soon: 1 goes first."""

    def __init__(self, head: str, values: list[str], *, right: bool = False, most: int = 0, leaves: int = 0) -> None:
        self.head, self.right, self.leaves = head, right, leaves
        self.values = [fit(value, most) for value in values] if most else values
        self.is_plain = "".join(self.values).isascii()  # Then the built-in methods will do: a third of the time.

    @cached_property
    def width(self) -> int:
        return max(map(len if self.is_plain else cells, (self.head, *self.values)))

    def lines(self) -> list[str]:
        width, everything = self.width, (self.head, *self.values)
        if self.right:
            return [value.rjust(width) for value in everything]
        return [value.ljust(width) for value in everything] if self.is_plain else [pad(value, width) for value in everything]


def table(columns: list[Column], least: int = 32) -> list[str]:
    """Aligned lines, the heads first. The last column gets what is left of the screen, but at least so much of it."""
    *fixed, last = columns
    width = screen()[0]
    order = sorted((column for column in fixed if column.leaves), key=lambda column: column.leaves)
    least = min(least, max(map(len, last.values), default=0))
    while order and width - sum(column.width + 2 for column in fixed) < least:
        fixed.remove(order.pop(0))
    room = max(8, width - sum(column.width + 2 for column in fixed))
    last_lines = [fit(value, room) for value in (last.head, *last.values)]
    return ["  ".join(parts).rstrip() for parts in zip(*(column.lines() for column in fixed), last_lines, strict=True)]
