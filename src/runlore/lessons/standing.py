"""The files that lessons stand in (`render`), and from when to when they do, so that their effect can be measured.

A note says that from then on these lessons stand in this file. It comes from looking at the file: after it was written, and with every
sync, so it also tells what an editor or git did to it, and what a process that was killed in between did not come to note.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from .._git import git_remote
from .._settings import read_text
from ..budget import tokens
from ..errors import ConfigError
from ..model import format_time, parse_time
from . import _notes
from .render import block_in, lessons_in

NOTES = "rendered.jsonl"
"""In runlore's home."""
LARGEST = 8 << 20
"""Of the notes, in bytes: twenty thousand changes."""
MOST = 200
"""Files that are looked at, of those that were noted last."""
BESIDE, SHORT = 100, 64 << 10
"""Other files of a folder that may name this one, and their size in bytes: who refers to another file says little else."""


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """From `at` on these lessons stand in this file; when there are none, none do any more."""

    at: str
    file: str
    names: tuple[str, ...] = ()
    """Under which agents find it in its folder: its own, that of a link to it, and that of a file which says `@` and its name."""
    repo: str = ""
    lessons: tuple[str, ...] = ()
    tokens: int = 0


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """That lessons stood in a file from one time to another; without an end, until now."""

    note: Standing
    since: datetime
    until: datetime | None = None


def look(home: Path, now: datetime, file: Path | None = None, *, is_coming: bool = False) -> None:
    """Notes what stands in this file, or in all that were noted before, where it is not what was noted last. A file in which lessons are
    about to stand is noted before it is written: killed in between, the next sync looks at it."""
    notes = read(home)
    known = {note.file: note for note in notes}
    latest = list(dict.fromkeys(note.file for note in reversed(notes)))[:MOST]
    # By the folder's own name: agents know the one that they are in by that, whatever links lead there.
    for name in [os.path.join(os.path.realpath(file.parent), file.name)] if file else latest[::-1]:
        last = known.get(name)
        note = _seen(Path(name), last, now)
        was = (last.lessons, last.names) if last else None if is_coming else ((), ())
        if note and (note.lessons, note.names) != was:
            _notes.append(home / NOTES, note, LARGEST)


def read(home: Path) -> list[Standing]:
    """All notes, in their order."""
    decoder = msgspec.json.Decoder(Standing)
    found = (_notes.decoded(line, decoder) for line in _notes.lines(home / NOTES, 2 * LARGEST))
    return [note for note in found if note and _notes.is_time(note.at)]


def spans(notes: Iterable[Standing]) -> Iterator[Span]:
    """When which lessons stood where."""
    by_file: dict[str, list[Standing]] = {}
    for note in notes:
        by_file.setdefault(note.file, []).append(note)
    for of_file in by_file.values():
        for note, following in zip(of_file, [*of_file[1:], None], strict=True):
            if note.lessons:
                yield Span(note=note, since=parse_time(note.at), until=parse_time(following.at) if following else None)


def _seen(file: Path, last: Standing | None, now: datetime) -> Standing | None:
    """What stands in a file, or None when that cannot be told. It has been like that since it was last written."""
    try:
        data, text = read_text(file)
        at = now if data is None else min(now, datetime.fromtimestamp(os.stat(file).st_mtime, UTC))
    except (ConfigError, OSError):
        return None
    told = lessons_in(text)
    return Standing(
        at=format_time(max(at, parse_time(last.at)) if last else at),
        file=str(file),
        names=_names(file) if told else (),
        repo=git_remote(file.parent) or "",
        lessons=told,
        tokens=tokens(block_in(text)),
    )


def _names(file: Path) -> tuple[str, ...]:
    found = {file.name}
    refers = re.compile(rf"(?<!\S)@(?:\./)?{re.escape(file.name)}(?![\w/])")
    try:
        with os.scandir(file.parent) as entries:
            beside = sorted(entry.path for entry in entries if entry.name.lower().endswith(".md") and entry.is_file())[:BESIDE]
        for path in beside:
            if os.path.samefile(path, file) or (os.path.getsize(path) <= SHORT and refers.search(Path(path).read_text("utf-8", "replace"))):
                found.add(os.path.basename(path))
    except OSError:  # Whatever cannot be looked at is not known to refer to it.
        pass
    return tuple(sorted(found))
