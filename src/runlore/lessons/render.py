"""Lessons as a block in a file that agents read (AGENTS.md and the like): put in, brought up to date, and taken out to the byte.

The block stands between two marks. What was put in is kept as text (a `Receipt` of `_settings`), so taking exactly that out gives the
file as it was; where somebody has changed it since, what stands between the marks goes. Nothing is written here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .._settings import Change, Receipt, missing_folders, read_text
from .._text import one_line, untagged
from ..errors import ConfigError
from . import Lesson

BEGIN = "<!-- runlore lessons: begin (`runlore lessons render` writes this; changes between the marks are lost) -->"
END = "<!-- runlore lessons: end -->"
PROBLEM, RESOLUTION = 300, 600
"""Characters: every session of every agent reads it."""
_TOLD = re.compile(r"^- .* \[([a-z0-9][a-z0-9-]{0,63})\]\r?$", re.MULTILINE)
_BLOCK = re.compile(r"<!-- runlore lessons: begin.*?<!-- runlore lessons: end -->", re.DOTALL)


def block(lessons: Sequence[Lesson]) -> str:
    """Without lessons there is none."""
    if not lessons:
        return ""
    lines = [BEGIN, "## Lessons from earlier sessions", ""]
    for lesson in lessons:
        where = ", ".join(scope for scope in (lesson.path, lesson.tool, lesson.agent) if scope)
        said = _plain(lesson.problem, PROBLEM), f" ({_plain(where, PROBLEM)})" if where else "", _plain(lesson.resolution, RESOLUTION)
        lines.append(f"- {said[0]}{said[1]}: {said[2]} [{lesson.id}]")
    return "\n".join([*lines, END])


def _plain(text: str, most: int) -> str:
    """On one line, cut, and with nothing in it that is a tag or a comment: the marks are ours, and `<path>` would not be seen."""
    line = untagged(one_line(text.replace("\n", " "))).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def block_in(text: str) -> str:
    """What stands between the marks, with them; nothing where there are none."""
    return "\n".join(found.group() for found in _BLOCK.finditer(text))


def lessons_in(text: str) -> tuple[str, ...]:
    """The ids of the lessons in the block of a file."""
    return tuple(dict.fromkeys(_TOLD.findall(block_in(text))))


def upsert(file: Path, made: str, receipt: Receipt | None) -> Change:
    """The file with this block in place of the one that is there, or at its end; without one when there are no lessons."""
    before, text = read_text(file)
    line_end = "\r\n" if "\r\n" in text else "\n"
    made = made.replace("\n", line_end)
    if not made:
        return remove(file, receipt)
    found = _found(file, text)
    if found is not None:
        after = text[: found.start()] + made + text[found.end() :]
        pieces = [piece.replace(found.group(), made) for piece in receipt.pieces] if receipt else []
        kept = Receipt(pieces=pieces, is_made=receipt.is_made, folders=receipt.folders) if receipt else None
        return Change(file=file, before=before, after=after.encode(), receipt=kept)
    gap = "" if not text else line_end if text.endswith("\n") else line_end * 2
    piece = f"{gap}{made}{line_end}"
    put = Receipt(pieces=[piece], is_made=before is None, folders=missing_folders(file) if before is None else [])
    return Change(file=file, before=before, after=(text + piece).encode(), receipt=put)


def remove(file: Path, receipt: Receipt | None) -> Change:
    before, text = read_text(file)
    found = _found(file, text)
    if before is None or found is None:
        return Change(file=file, before=before, after=before)
    piece = receipt.pieces[0] if receipt and receipt.pieces else ""
    after = text.replace(piece, "") if piece and text.count(piece) == 1 else text[: found.start()] + text[found.end() :].lstrip("\r\n")
    is_ours = bool(receipt and receipt.is_made and not after.strip())
    return Change(file=file, before=before, after=None if is_ours else after.encode(), receipt=receipt)


def _found(file: Path, text: str) -> re.Match[str] | None:
    found = list(_BLOCK.finditer(text))
    if len(found) > 1:
        raise ConfigError(f"{file} has {len(found)} blocks of lessons; leave one of them, and run it again")
    return found[0] if found else None
