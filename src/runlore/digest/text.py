"""The part of a body that is looked at: its beginning and its end, as lines that are safe to print.

Bodies come from anywhere and may be hostile or enormous, so the work here does not grow with their
size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import re2

HEAD_CHARS, TAIL_CHARS = 2 << 10, 5 << 10
"""Compilers report what went wrong first, everything else last."""
MAX_LINE_CHARS = 600

CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-" "\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
"""Control characters, as a pattern that Python and RE2 both understand."""
_CONTROLS = re.compile(CONTROLS)
_ESCAPES = re.compile(
    r"\x1b\[[0-9;:?<=>]{0,40}[ -/]{0,4}[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)?|\x1b["
    r" -/]?[0-~]|\x1b"
)
_PRINTABLE = bytes([9, 10, *range(32, 127)])
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")


def split_lines(text: str) -> tuple[list[str], list[str]]:
    """Return all lines of a text that are not blank, and an empty list.

    Of a long text, those of its beginning and of its end.
    """
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return _to_lines(clean(text)), []
    head, tail = text[:HEAD_CHARS], text[-TAIL_CHARS:]
    end, start = head.rfind("\n"), tail.find("\n")
    return _to_lines(clean(head[:end] if end > 0 else head)), _to_lines(clean(tail[start + 1 :]))


def join_wrapped(lines: list[str]) -> list[str]:
    """Return lines of which those are joined that a terminal cut in the middle of a word.

    Such a line is as long as the terminal is wide, and no line is longer than that. A width that is
    not usual must have cut several lines.
    """
    width = max(map(len, lines), default=0)
    if width < min(_WIDTHS):
        return lines
    goes_on = {n for n in range(1, len(lines)) if _is_cut(lines[n - 1], lines[n], width)}
    if width not in _WIDTHS and len(goes_on) < _MIN_CUTS:
        return lines
    joined: list[str] = []
    for n, line in enumerate(lines):
        if n in goes_on:
            joined[-1] += line
        else:
            joined.append(line)
    return joined


def _is_cut(line: str, following: str, width: int) -> bool:
    return (
        len(line) == width
        and line[-1].isalnum()
        and _GOES_ON.match(following) is not None
        and _OWN_PLACE.match(following) is None
    )


_WIDTHS = frozenset({80, 100, 120, 132, 160, 200})
"""Usual widths of terminals."""
_MIN_CUTS = 2
_GOES_ON = re.compile(r"[a-z0-9]")
_OWN_PLACE = re.compile(r"\S{1,200}[:(]\d|\S{1,60}: ")
"""The beginning of a message that stands for itself, like `a.go:3: …` or `ld: …`."""


def clean(text: str) -> str:
    """Return the text without terminal control.

    Of a line that was overwritten, its last state is kept.
    """
    if _is_clean(text):
        return text
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        if "\r" in text:  # A progress line.
            text = "\n".join([line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")])
    text = _CONTROLS.sub("", text)
    return replace_surrogates(text)


def _is_clean(text: str) -> bool:
    """Return True for nearly all texts, much faster than by searching for what must not be
    there."""
    if text.isascii():
        return not text.encode().translate(None, _PRINTABLE)
    return text.replace("\n", "").replace("\t", "").isprintable()


def replace_surrogates(text: str) -> str:
    """Return the text without halves of characters, which JSON may hold and no database accepts."""
    return text if text.isascii() else _LONE_SURROGATES.sub("\ufffd", text)


def _to_lines(text: str) -> list[str]:
    """Return the lines that are not blank, stripped at their end and cut to a readable length."""
    if text.isascii():
        lines = list(filter(None, text.split("\n")))
        if " \n" in text or "\t\n" in text or text[-1:] in (" ", "\t"):
            lines = [line for one in lines if (line := one.rstrip())]
    else:
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        if " \n" in text or "\t\n" in text or text[-1:].isspace():
            lines = [line.rstrip() for line in lines]
    if len(text) > MAX_LINE_CHARS and max(map(len, lines), default=0) > MAX_LINE_CHARS:
        lines = [line[:MAX_LINE_CHARS].rstrip() for line in lines]
    return lines


def truncate(text: str, max_chars: int) -> str:
    """Return the text in at most this many characters, with a mark if something is missing."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def build_finder(patterns: Iterable[str]) -> Callable[[str], list[int]]:
    """Return a function that returns the numbers of the RE2 patterns that occur in a text.

    All patterns are searched for in one pass, which is fast because it does not locate the matches.
    """
    patterns_set = re2.Set.SearchSet()
    for pattern in patterns:
        patterns_set.Add(pattern)
    patterns_set.Compile()
    return lambda text: patterns_set.Match(text.encode("utf-8", "replace")) or []
