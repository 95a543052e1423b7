"""The files that lessons were rendered into (`render`), and since when: these are exposures.

A record says which lessons a file has from then on. It comes from looking at the file: after it was
written, and with every sync. So it also notices what an editor or git did to the file, and what a
process that was killed did not record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ..errors import ConfigError
from ..files.git import git_remote
from ..files.settings import read_text
from ..model import format_time, parse_time
from ..text.tokens import tokens
from . import record_file
from .render import find_block, find_lesson_ids

FILE_NAME = "rendered.jsonl"
"""In runlore's home."""
MAX_BYTES = 8 << 20
"""About twenty thousand changes."""
MAX_FILES = 200
"""Files that are looked at, those recorded last."""
MAX_NEIGHBOURS, MAX_NEIGHBOUR_BYTES = 100, 64 << 10
"""Other files of a folder that may refer to this one: number and size."""


class RenderedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lessons that a file has from `at` on; none if it has no more."""

    at: str
    file: str
    names: tuple[str, ...] = ()
    """The names by which agents find it in its folder: its own, that of a link to it, and that of a
    file that says `@` and its name."""
    repo: str = ""
    lessons: tuple[str, ...] = ()
    tokens: int = 0


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which a file had the same lessons. Without an end, it still has them."""

    file: RenderedFile
    since: datetime
    until: datetime | None = None


def record_files(
    home: Path, now: datetime, file: Path | None = None, *, is_coming: bool = False
) -> None:
    """Look at one file, or at all that were recorded before, and record what has changed.

    With `is_coming`, a file is recorded before lessons are written into it: if the process is
    killed in between, the next sync looks at it.
    """
    records = read_records(home)
    known = {record.file: record for record in records}
    latest = list(dict.fromkeys(record.file for record in reversed(records)))[:MAX_FILES]
    # Agents know their folder by its real path, whatever links lead there.
    for name in [os.path.join(os.path.realpath(file.parent), file.name)] if file else latest[::-1]:
        last = known.get(name)
        record = _look_at(Path(name), last, now)
        before = (last.lessons, last.names) if last else None if is_coming else ((), ())
        if record and (record.lessons, record.names) != before:
            record_file.append_record(home / FILE_NAME, record, MAX_BYTES)


def read_records(home: Path) -> list[RenderedFile]:
    """Return all records in their order."""
    decoder = msgspec.json.Decoder(RenderedFile)
    records = (
        record_file.decode_record(line, decoder)
        for line in record_file.read_lines(home / FILE_NAME, 2 * MAX_BYTES)
    )
    return [record for record in records if record and record_file.is_time(record.at)]


def iter_spans(records: Iterable[RenderedFile]) -> Iterator[Span]:
    """Yield from when to when each file had which lessons."""
    by_file: dict[str, list[RenderedFile]] = {}
    for record in records:
        by_file.setdefault(record.file, []).append(record)
    for of_file in by_file.values():
        for record, following in zip(of_file, [*of_file[1:], None], strict=True):
            if record.lessons:
                yield Span(
                    file=record,
                    since=parse_time(record.at),
                    until=parse_time(following.at) if following else None,
                )


def _look_at(file: Path, last: RenderedFile | None, now: datetime) -> RenderedFile | None:
    """Return the lessons of a file since it was last written; None if it cannot be read."""
    try:
        data, text = read_text(file)
        at = now if data is None else min(now, datetime.fromtimestamp(os.stat(file).st_mtime, UTC))
    except (ConfigError, OSError):
        return None
    lessons = find_lesson_ids(text)
    return RenderedFile(
        at=format_time(max(at, parse_time(last.at)) if last else at),
        file=str(file),
        names=_find_names(file) if lessons else (),
        repo=git_remote(file.parent) or "",
        lessons=lessons,
        tokens=tokens(find_block(text)),
    )


def _find_names(file: Path) -> tuple[str, ...]:
    """Return the names by which agents find a file in its folder."""
    names = {file.name}
    reference = re.compile(rf"(?<!\S)@(?:\./)?{re.escape(file.name)}(?![\w/])")
    try:
        with os.scandir(file.parent) as entries:
            neighbours = sorted(
                entry.path
                for entry in entries
                if entry.name.lower().endswith(".md") and entry.is_file()
            )
        for path in neighbours[:MAX_NEIGHBOURS]:
            is_same = os.path.samefile(path, file)
            if is_same or (
                os.path.getsize(path) <= MAX_NEIGHBOUR_BYTES
                and reference.search(Path(path).read_text("utf-8", "replace"))
            ):
                names.add(os.path.basename(path))
    except OSError:  # A file that cannot be read is not known to refer to this one.
        pass
    return tuple(sorted(names))
