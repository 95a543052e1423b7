"""Lessons as files, one for each, in a form that people read, review and keep under version control.

A file is TOML between two lines of `+++`, then Markdown: the problem, what to do, and whatever else somebody wrote there. What is not
known survives. A file that cannot be read costs itself: it is named, and left alone.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from .._os import O_BINARY, lock
from .._settings import replace_file
from ..errors import Ambiguous, ModelError, NotFound
from . import Lesson

LARGEST = 256 << 10
"""Of a file, in bytes. Lessons are read by models, whom a long one costs more than it helps."""
MOST = 5_000
"""Files that are read."""
FENCE = "+++"
PROBLEM, RESOLUTION, NOTES = "## Problem", "## What to do", "## Notes"

_BODY = ("problem", "resolution", "notes", "extra")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_HEADING = re.compile(r"\\*#")


class Broken(msgspec.Struct, frozen=True):
    """A file that is no lesson, and why."""

    file: str
    reason: str


class Shelf:
    """A folder of lessons. It need not be there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, has: Callable[[bytes], bool] = bool) -> tuple[list[Lesson], list[Broken]]:
        """All that can be read, by id, and what cannot. Files of which `has` says no are left out: a look into one costs little beside
        understanding it."""
        found, broken = [], []
        for name in sorted(self._names())[:MOST]:
            try:
                data = self._data(name)
                if has(data) or not data:
                    found.append(self._lesson(name, data))
            except (ModelError, OSError) as error:
                broken.append(Broken(str(self.folder / f"{name}.md"), str(error)))
        return found, broken

    def get(self, name: str) -> Lesson:
        """The lesson with this id, or whose id begins so. Raises NotFound, Ambiguous, ModelError."""
        fits = [one for one in self._names() if one.startswith(name)] if name else []
        if name in fits:
            fits = [name]
        if len(fits) > 1:
            raise Ambiguous(f"{len(fits)} lessons begin with {name!r}; more of the id tells them apart")
        if not fits:
            raise NotFound(f"there is no lesson {name!r}; `runlore lessons list --all` lists them")
        return self._load(fits[0])

    def put(self, lesson: Lesson) -> None:
        """Writes it, whole or not at all."""
        check_name(lesson.id)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.folder / f"{lesson.id}.md", text_of(lesson).encode("utf-8", "replace"))

    def drop(self, name: str) -> None:
        """Takes it away. One that is gone already is no error."""
        check_name(name)
        (self.folder / f"{name}.md").unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Held from reading a lesson until it is written again: what another process decided in between would be lost. Waits for it."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside the folder, which a team may keep under version control.
        place = os.open(self.folder.with_name(f"{self.folder.name}.lock"), os.O_CREAT | os.O_RDWR | O_BINARY, 0o600)
        try:
            lock(place)
            yield
        finally:
            os.close(place)

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.folder) as entries:
                yield from (entry.name[:-3] for entry in entries if entry.name.endswith(".md") and _NAME.fullmatch(entry.name[:-3]))
        except (FileNotFoundError, NotADirectoryError):
            return

    def _load(self, name: str) -> Lesson:
        return self._lesson(name, self._data(name))

    def _data(self, name: str) -> bytes:
        with open(self.folder / f"{name}.md", "rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ModelError(f"it has more than {LARGEST:,} bytes")
        return data

    def _lesson(self, name: str, data: bytes) -> Lesson:
        try:
            lesson = lesson_of(data.decode())
        except UnicodeDecodeError:
            raise ModelError("it is not UTF-8") from None
        if lesson.id != name:
            raise ModelError(f"its id is {lesson.id!r}, and its name another")
        return lesson


def check_name(name: str) -> None:
    """Raises ModelError for an id that is none: it names a file."""
    if not _NAME.fullmatch(name):
        raise ModelError(f"{name!r} is no id of a lesson: small letters, digits and dashes")


def lesson_of(text: str) -> Lesson:
    """Raises ModelError."""
    head, body = _parts(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    try:
        data = tomllib.loads(head)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ModelError(f"its front matter is no TOML: {error}") from None
    known = {name: value for name, value in data.items() if name in Lesson.__struct_fields__ and name not in _BODY}
    extra = {name: value for name, value in data.items() if name not in known}
    problem, resolution, notes = _sections(body)
    try:
        return msgspec.convert({**known, "problem": problem, "resolution": resolution, "notes": notes, "extra": extra}, Lesson)
    except msgspec.ValidationError as error:
        raise ModelError(str(error)) from None


def text_of(lesson: Lesson) -> str:
    """The file. What says nothing is left out of the front matter."""
    blank = Lesson(id="", problem="", resolution="")
    lines = [FENCE]
    for name in Lesson.__struct_fields__:
        value = getattr(lesson, name)
        if name not in _BODY and (name in ("id", "status") or value != getattr(blank, name)):
            lines.append(f"{name} = {_toml(value)}")
    lines += [f"{_toml_key(name)} = {_toml(value)}" for name, value in lesson.extra.items()]
    lines += [FENCE, "", PROBLEM, "", _escaped(lesson.problem), "", RESOLUTION, "", _escaped(lesson.resolution)]
    if lesson.notes:
        lines += ["", *([] if lesson.notes.startswith("#") else [NOTES, ""]), lesson.notes]
    return "\n".join(lines) + "\n"


def _parts(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE or FENCE not in (ends := [line.rstrip() for line in lines[1:]]):
        raise ModelError(f"it does not begin with front matter between two lines of {FENCE}")
    end = ends.index(FENCE) + 1
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])


def _sections(body: str) -> tuple[str, str, str]:
    """The problem, what to do, and the rest: from the next heading on, and what stands before the first."""
    found: dict[str, list[str]] = {PROBLEM: [], RESOLUTION: [], "": []}
    here = ""
    for line in body.split("\n"):
        if line.rstrip() in (PROBLEM, RESOLUTION):
            here = line.rstrip()
            continue
        if line.startswith("#"):
            here = ""
        found[here].append(line if here == "" else line[1:] if line.startswith("\\") and _HEADING.match(line) else line)
    problem, resolution, notes = ("\n".join(found[name]).strip("\n") for name in (PROBLEM, RESOLUTION, ""))
    return problem, resolution, notes


def _escaped(text: str) -> str:
    """A line that would be taken for a heading is marked, and read back without the mark."""
    return "\n".join(f"\\{line}" if _HEADING.match(line) else line for line in text.strip("\n").split("\n"))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(name)} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)
