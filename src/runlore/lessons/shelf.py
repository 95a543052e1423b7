"""Lessons as files, one for each, that people can read, review and keep under version control.

A file is TOML between two lines of `+++`, then Markdown: when, do, avoid, and anything else that
somebody wrote there. Unknown fields survive. A file that cannot be read is reported and left alone.
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

from ..errors import Ambiguous, ModelError, NotFound
from ..files.locks import O_BINARY, lock
from ..files.settings import replace_file
from . import Lesson

MAX_FILE_BYTES = 256 << 10
"""Models read lessons, and a long one costs more than it helps."""
MAX_FILES = 5_000
FENCE = "+++"
WHEN, DO, AVOID, NOTES = "## When", "## Do", "## Avoid", "## Notes"

_BODY = ("when", "do", "avoid", "notes", "extra")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_HEADING = re.compile(r"\\*#")


class Broken(msgspec.Struct, frozen=True):
    """A file that cannot be read as a lesson, and why."""

    file: str
    reason: str


class Shelf:
    """A folder of lessons. It need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, has: Callable[[bytes], bool] = bool) -> tuple[list[Lesson], list[Broken]]:
        """Return the lessons by id, and the files that cannot be read.

        Files whose bytes `has` rejects are left out: looking into one costs little compared to
        parsing it.
        """
        lessons, broken = [], []
        for name in sorted(self._iter_names())[:MAX_FILES]:
            try:
                data = self._read_file(name)
                if has(data) or not data:
                    lessons.append(self._parse(name, data))
            except (ModelError, OSError) as error:
                broken.append(Broken(str(self.folder / f"{name}.md"), str(error)))
        return lessons, broken

    def get(self, name: str) -> Lesson:
        """Return the lesson with this id or the beginning of it.

        Raises NotFound, Ambiguous, ModelError.
        """
        matches = [one for one in self._iter_names() if one.startswith(name)] if name else []
        if name in matches:
            matches = [name]
        if len(matches) > 1:
            raise Ambiguous(
                f"{len(matches)} lessons begin with {name!r}; more of the id tells them apart"
            )
        if not matches:
            raise NotFound(f"there is no lesson {name!r}; `runlore lessons list --all` lists them")
        return self._parse(matches[0], self._read_file(matches[0]))

    def put(self, lesson: Lesson) -> None:
        """Write a lesson, whole or not at all."""
        check_name(lesson.id)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(
            self.folder / f"{lesson.id}.md", render_lesson(lesson).encode("utf-8", "replace")
        )

    def drop(self, name: str) -> None:
        """Delete a lesson, if it exists."""
        check_name(name)
        (self.folder / f"{name}.md").unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder from reading a lesson until it is written again.

        Waits for other processes. Otherwise what another process decided in between would be lost.
        """
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside the folder, which a team may keep under version control.
        descriptor = os.open(
            self.folder.with_name(f"{self.folder.name}.lock"),
            os.O_CREAT | os.O_RDWR | O_BINARY,
            0o600,
        )
        try:
            lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _iter_names(self) -> Iterator[str]:
        try:
            with os.scandir(self.folder) as entries:
                yield from (
                    entry.name[:-3]
                    for entry in entries
                    if entry.name.endswith(".md") and _NAME.fullmatch(entry.name[:-3])
                )
        except (FileNotFoundError, NotADirectoryError):
            return

    def _read_file(self, name: str) -> bytes:
        with open(self.folder / f"{name}.md", "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ModelError(f"it has more than {MAX_FILE_BYTES:,} bytes")
        return data

    def _parse(self, name: str, data: bytes) -> Lesson:
        try:
            lesson = parse_lesson(data.decode())
        except UnicodeDecodeError:
            raise ModelError("it is not UTF-8") from None
        if lesson.id != name:
            raise ModelError(f"its id is {lesson.id!r}, and its name another")
        return lesson


def check_name(name: str) -> None:
    """Raise ModelError for a text that is no id: ids are names of files."""
    if not _NAME.fullmatch(name):
        raise ModelError(f"{name!r} is no id of a lesson: small letters, digits and dashes")


def parse_lesson(text: str) -> Lesson:
    """Return the lesson of a file's text. Raises ModelError."""
    head, body = _split_front_matter(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    try:
        data = tomllib.loads(head)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ModelError(f"its front matter is no TOML: {error}") from None
    known = {
        name: value
        for name, value in data.items()
        if name in Lesson.__struct_fields__ and name not in _BODY
    }
    extra = {name: value for name, value in data.items() if name not in known}
    try:
        return msgspec.convert({**known, **_split_sections(body), "extra": extra}, Lesson)
    except msgspec.ValidationError as error:
        raise ModelError(str(error)) from None


def render_lesson(lesson: Lesson) -> str:
    """Return the text of a lesson's file, without fields that have their default value."""
    blank = Lesson(id="", when="", do="")
    lines = [FENCE]
    for name in Lesson.__struct_fields__:
        value = getattr(lesson, name)
        if name not in _BODY and (name in ("id", "status") or value != getattr(blank, name)):
            lines.append(f"{name} = {_render_toml(value)}")
    lines += [
        f"{_render_toml_key(name)} = {_render_toml(value)}" for name, value in lesson.extra.items()
    ]
    lines.append(FENCE)
    for heading, text in ((WHEN, lesson.when), (DO, lesson.do), (AVOID, lesson.avoid)):
        if text or heading != AVOID:
            lines += ["", heading, "", _escape_headings(text)]
    if lesson.notes:
        lines += ["", *([] if lesson.notes.startswith("#") else [NOTES, ""]), lesson.notes]
    return "\n".join(lines) + "\n"


def _split_front_matter(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE or FENCE not in (ends := [line.rstrip() for line in lines[1:]]):
        raise ModelError(f"it does not begin with front matter between two lines of {FENCE}")
    end = ends.index(FENCE) + 1
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])


def _split_sections(body: str) -> dict[str, str]:
    """Return when, do, avoid, and as notes the rest: other headings and what precedes them all."""
    sections: dict[str, list[str]] = {WHEN: [], DO: [], AVOID: [], "": []}
    here = ""
    for line in body.split("\n"):
        if line.rstrip() in (WHEN, DO, AVOID):
            here = line.rstrip()
            continue
        if line.startswith("#"):
            here = ""
        sections[here].append(
            line
            if here == ""
            else line[1:]
            if line.startswith("\\") and _HEADING.match(line)
            else line
        )
    names = {WHEN: "when", DO: "do", AVOID: "avoid", "": "notes"}
    return {names[heading]: "\n".join(lines).strip("\n") for heading, lines in sections.items()}


def _escape_headings(text: str) -> str:
    """Escape lines that would be taken for headings; reading removes the escape."""
    return "\n".join(
        f"\\{line}" if _HEADING.match(line) else line for line in text.strip("\n").split("\n")
    )


def _render_toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{_render_toml_key(name)} = {_render_toml(one)}" for name, one in value.items()
            )
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_render_toml, value)) + "]"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _render_toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _render_toml(name)
