"""The difference between a call that failed and one that worked, for reading.

Calls differ by words; of an edit the part is shown that touches what the error names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

from .shell_commands import strip_plumbing
from .text import clean, truncate

MAX_CALL_CHARS = 1000
MAX_CHANGE_LINES = 24
MAX_CHANGE_CHARS = 1500
_MAX_WORDS = 400
_MAX_WORD_CHARS = 120
_MAX_EDIT_LINES = 4
"""Lines shown of each of two edits, of which only one could be made."""
_CONTEXT = 2
"""Words around a difference that are shown with it."""


def to_line(text: str) -> str:
    """Return a call on one line, in at most `MAX_CALL_CHARS` characters."""
    return truncate(" ".join(clean(text[: 4 * MAX_CALL_CHARS]).split()), MAX_CALL_CHARS)


def split_words(call: str) -> list[str]:
    """Return the words of a call without what is done with its output. A quoted text is one."""
    return _CALL_WORDS.findall(strip_plumbing(call[: 4 * MAX_CALL_CHARS]))[:_MAX_WORDS]


_CALL_WORDS = re.compile(r"(?:[^\s'\"]|\"(?:[^\"\\]|\\.){0,3000}\"|'[^']{0,3000}'|['\"])+")


def likeness(before: str, after: str) -> float:
    """Return the share of equal words of two calls, quoted text included, from 0 to 1."""
    mine, other = (
        strip_plumbing(call[: 4 * MAX_CALL_CHARS]).split()[:_MAX_WORDS] for call in (before, after)
    )
    return SequenceMatcher(None, mine, other, autojunk=False).ratio()


def changed_words(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the words of the first call that the second does not have there, and the reverse."""
    mine, other = split_words(before), split_words(after)
    removed: list[str] = []
    added: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, mine, other, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += mine[i:j]
            added += other[k:m]
    return removed, added


def diff_calls(before: str, after: str) -> str:
    """Return the words that differ, as lines that begin with `-` and `+`, with a little context."""
    mine, other = split_words(before), split_words(after)
    lines: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, mine, other, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lead, rest = mine[max(0, i - _CONTEXT) : i], mine[j : j + _CONTEXT]
        for sign, words in (("-", mine[i:j]), ("+", other[k:m])):
            if words or not (j > i and m > k):
                shown = (truncate(word, _MAX_WORD_CHARS) for word in (*lead, *words, *rest))
                lines.append(f"{sign} {' '.join(shown)}".rstrip())
    return _bound(lines)


def diff_edits(before: str, after: str) -> str:
    """Return the lines that only one of two edits of a file has, those of the first one as `-`."""
    mine, other = (
        [edit.partition("\n")[0].strip(), *(line[1:].strip() for line in _edit_lines(edit))]
        for edit in (before, after)
    )
    lines = []
    for sign, only in (
        ("-", [line for line in mine if line and line not in other]),
        ("+", [line for line in other if line and line not in mine]),
    ):
        lines += [f"{sign} {line}" for line in only[:_MAX_EDIT_LINES]]
        lines += [f"{sign} …"] if len(only) > _MAX_EDIT_LINES else []
    return _bound(lines)


def _edit_lines(edit: str) -> list[str]:
    return [line for hunk in _split_hunks(clean(edit)) for line in hunk]


def rate_edit(diff: str, names: set[str], quoted: set[str]) -> tuple[int, int, bool]:
    """Return how much an edit has to do with an error: how many of the names that the error quotes
    it changes, how many of all its names (what is removed counts twice), and if it does more than
    add something new or import it."""
    removed = {name for line in _changed(diff, "-") for name in _NAMES.findall(line)}
    added = {name for line in _changed(diff, "+") for name in _NAMES.findall(line)}
    lines = [line for line in (*_changed(diff, "-"), *_changed(diff, "+")) if line.strip()]
    is_import = all(_IMPORT.match(line) for line in lines)
    return (
        len(quoted & (removed | added)),
        2 * len(names & removed) + len(names & (added - removed)),
        bool(removed) and not is_import,
    )


_IMPORT = re.compile(
    r"\s*(?:import\b|from\s|#include|use\s|require|[\w.]*\s*\"[\w./@-]+\"$|[)(]$|\w+,?$)"
)


def _changed(diff: str, sign: str) -> list[str]:
    return [line[1:] for line in diff.splitlines() if line[:1] == sign]


def pick_hunk(diff: str, words: Iterable[str]) -> str:
    """Return the part of an edit that touches most of these words, else its first part.

    The lines begin with `-`, `+` or a blank; the name of the file is left out.
    """
    wanted = {word for word in words if len(word) > 2}
    hunks = [hunk for hunk in _split_hunks(clean(diff)) if any(map(_is_changed, hunk))]
    if not hunks:
        return ""
    best = max(hunks, key=lambda hunk: _count_words(hunk, wanted))
    return _bound(_near_changes(best, wanted))


def _split_hunks(diff: str) -> list[list[str]]:
    hunks: list[list[str]] = [[]]
    for line in diff.splitlines():
        if line.startswith("@@"):
            hunks.append([])
        elif line[:1] in ("+", "-", " ", "") and not line.startswith(("+++ ", "--- ")):
            hunks[-1].append(line.rstrip())
    return hunks


def _is_changed(line: str) -> bool:
    return line[:1] in ("+", "-")


def _count_words(lines: Iterable[str], wanted: set[str]) -> int:
    present = {word for line in lines if _is_changed(line) for word in _NAMES.findall(line)}
    return len(present & wanted)


_NAMES = re.compile(r"[A-Za-z_$][\w$]*")


def _near_changes(lines: list[str], wanted: set[str]) -> list[str]:
    """Return the changed lines around the first that has a wanted word, with a line of context."""
    changed = [n for n, line in enumerate(lines) if _is_changed(line)]
    named = [n for n in changed if wanted & set(_NAMES.findall(lines[n]))]
    start = max(0, (named or changed)[0] - 3)
    if len(changed) <= MAX_CHANGE_LINES:
        start = max(0, changed[0] - 1)
    shown = lines[start : changed[-1] + 2]
    return shown[1:] if shown and not shown[0].strip() else shown


def _bound(lines: list[str]) -> str:
    text = "\n".join(truncate(line, 300) for line in lines[:MAX_CHANGE_LINES])
    return truncate(text + ("\n…" if len(lines) > MAX_CHANGE_LINES else ""), MAX_CHANGE_CHARS)
