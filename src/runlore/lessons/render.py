"""Lessons as a block in a file that agents read, such as AGENTS.md: add, update and remove it.

The block is enclosed in two marks. The added text is stored as a `Receipt`, so that removing it
restores the file to the byte. If somebody has changed the block since, everything
between the marks is removed. Nothing is written here: the functions return a `Change`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError
from ..files.settings import Change, Receipt, missing_folders, read_text
from ..text.clean import one_line, untagged
from . import Lesson, describe_advice

BEGIN = (
    "<!-- runlore lessons: begin (`runlore lessons render` writes this; changes between the marks"
    " are lost) -->"
)
END = "<!-- runlore lessons: end -->"
MAX_WHEN_CHARS, MAX_DO_CHARS = 300, 600
"""Every session of every agent reads the block, so it has to be short."""
_LESSON = re.compile(r"^- .* \[([a-z0-9][a-z0-9-]{0,63})\]\r?$", re.MULTILINE)
_BLOCK = re.compile(r"<!-- runlore lessons: begin.*?<!-- runlore lessons: end -->", re.DOTALL)


def render_block(lessons: Sequence[Lesson]) -> str:
    """Return the block; an empty text without lessons."""
    if not lessons:
        return ""
    lines = [BEGIN, "## Lessons from earlier sessions", ""]
    for lesson in lessons:
        where = ", ".join(scope for scope in (lesson.path, lesson.tool, lesson.agent) if scope)
        when = _plain_text(lesson.when, MAX_WHEN_CHARS)
        do = _plain_text(describe_advice(lesson), MAX_DO_CHARS)
        scope = f" ({_plain_text(where, MAX_WHEN_CHARS)})" if where else ""
        lines.append(f"- {when}{scope}: {do} [{lesson.id}]")
    return "\n".join([*lines, END])


def _plain_text(text: str, max_chars: int) -> str:
    """Return a text on one line, cut, without tags and comments.

    The marks are comments, and Markdown would hide `<path>`.
    """
    line = untagged(one_line(text.replace("\n", " "))).strip()
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def find_block(text: str) -> str:
    """Return the block of a file with its marks; an empty text if there is none."""
    return "\n".join(match.group() for match in _BLOCK.finditer(text))


def find_lesson_ids(text: str) -> tuple[str, ...]:
    """Return the ids of the lessons in the block of a file."""
    return tuple(dict.fromkeys(_LESSON.findall(find_block(text))))


def upsert(file: Path, block: str, receipt: Receipt | None) -> Change:
    """Return the change that replaces the block of a file, or adds it at the end.

    An empty block removes the one that is there.
    """
    before, text = read_text(file)
    line_end = "\r\n" if "\r\n" in text else "\n"
    block = block.replace("\n", line_end)
    if not block:
        return remove(file, receipt)
    match = _match_block(file, text)
    if match is not None:
        after = text[: match.start()] + block + text[match.end() :]
        pieces = (
            [piece.replace(match.group(), block) for piece in receipt.pieces] if receipt else []
        )
        updated = (
            Receipt(pieces=pieces, is_made=receipt.is_made, folders=receipt.folders)
            if receipt
            else None
        )
        return Change(file=file, before=before, after=after.encode(), receipt=updated)
    gap = "" if not text else line_end if text.endswith("\n") else line_end * 2
    piece = f"{gap}{block}{line_end}"
    added = Receipt(
        pieces=[piece],
        is_made=before is None,
        folders=missing_folders(file) if before is None else [],
    )
    return Change(file=file, before=before, after=(text + piece).encode(), receipt=added)


def remove(file: Path, receipt: Receipt | None) -> Change:
    """Return the change that removes the block, or the file if it is ours and has nothing else."""
    before, text = read_text(file)
    match = _match_block(file, text)
    if before is None or match is None:
        return Change(file=file, before=before, after=before)
    piece = receipt.pieces[0] if receipt and receipt.pieces else ""
    after = (
        text.replace(piece, "")
        if piece and text.count(piece) == 1
        else text[: match.start()] + text[match.end() :].lstrip("\r\n")
    )
    is_ours = bool(receipt and receipt.is_made and not after.strip())
    return Change(
        file=file, before=before, after=None if is_ours else after.encode(), receipt=receipt
    )


def _match_block(file: Path, text: str) -> re.Match[str] | None:
    matches = list(_BLOCK.finditer(text))
    if len(matches) > 1:
        raise ConfigError(
            f"{file} has {len(matches)} blocks of lessons; leave one of them, and run it again"
        )
    return matches[0] if matches else None
