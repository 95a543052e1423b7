"""What is looked at of a body: at most its beginning and its end, as lines that are safe to print.

Bodies come from anywhere and may be hostile or enormous, so nothing here takes longer for a larger one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import re2

HEAD, TAIL = 2 << 10, 5 << 10
"""Characters. What went wrong is told first by compilers and last by everything else."""
LONGEST_LINE = 600

_ESCAPES = re.compile(r"\x1b\[[0-9;:?<=>]{0,40}[ -/]{0,4}[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)?|\x1b[ -/]?[0-~]|\x1b")
CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-" "\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"  # As Python and RE2 both read it.
_CONTROLS = re.compile(CONTROLS)
_PRINTABLE = bytes([9, 10, *range(32, 127)])
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")


def window(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text that say something, or those of its beginning and those of its end."""
    if len(text) <= HEAD + TAIL:
        return _lines_of(safe(text)), []
    head, tail = text[:HEAD], text[-TAIL:]
    end, start = head.rfind("\n"), tail.find("\n")
    return _lines_of(safe(head[:end] if end > 0 else head)), _lines_of(safe(tail[start + 1 :]))


def safe(text: str) -> str:
    """The text without what a terminal would obey; of a line that was written over, what it was last."""
    # Nearly all texts are fine, and these are ways to see that without looking for what is not.
    if not text.encode().translate(None, _PRINTABLE) if text.isascii() else text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        if "\r" in text:  # A progress line is what it was last.
            text = "\n".join([line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")])
    text = _CONTROLS.sub("", text)
    return whole(text)


def whole(text: str) -> str:
    """The text without halves of characters, which JSON may hold and no database takes."""
    return text if text.isascii() else _LONE_SURROGATES.sub("\ufffd", text)


def _lines_of(text: str) -> list[str]:
    """Each without blanks at its end, and not longer than anyone reads."""
    if text.isascii():  # The other way takes twice as long.
        lines = list(filter(None, text.split("\n")))
        if " \n" in text or "\t\n" in text or text[-1:] in (" ", "\t"):
            lines = [line for one in lines if (line := one.rstrip())]
    else:
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        if " \n" in text or "\t\n" in text or text[-1:].isspace():
            lines = [line.rstrip() for line in lines]
    if len(text) > LONGEST_LINE and max(map(len, lines), default=0) > LONGEST_LINE:
        lines = [line[:LONGEST_LINE].rstrip() for line in lines]
    return lines


def cut(text: str, length: int) -> str:
    """The text in at most this many characters, with a mark when something is missing."""
    return text if len(text) <= length else text[: length - 1] + "…"


def finder(patterns: Iterable[str]) -> Callable[[str], list[int]]:
    """A function that gives the numbers of the RE2 patterns that occur in a text. All are looked for in one pass, without telling
    where they are: that takes a tenth of the time of a search."""
    found = re2.Set.SearchSet()
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return lambda text: found.Match(text.encode("utf-8", "replace")) or []
