"""What an agent is told at the start of a session and when a tool fails, and a note of it, so that its effect can be measured.

Hooks are in a hurry: no store is asked here, and little is imported. The note is a file of lines that is only appended to.
"""

from __future__ import annotations

import json
from collections.abc import Container
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from .._text import OWN, one_line, untagged
from ..budget import tokens
from ..config import Lessons
from . import Lesson, _notes
from .rank import ranked
from .shelf import Shelf

NOTES = "delivered.jsonl"
"""In runlore's home."""
LARGEST = 64 << 20
"""Of the notes, in bytes: a hundred thousand sessions. What is older than a year says little about today, and may be deleted."""
TAIL = 64 << 10
"""Of the notes, looked at to see what this session was told already."""
PROBLEM, RESOLUTION, SCOPE = 160, 400, 80


class Delivered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That a session was told something."""

    at: str
    agent: str
    session: str
    """The agent's own id of it."""
    event: str
    """start, fail"""
    lessons: tuple[str, ...] = ()
    fingerprint: str = ""
    repo: str = ""
    tokens: int = 0

    @property
    def uid(self) -> str:
        return f"{self.agent}:{self.session}"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where lessons are asked for. Which tool and file it is about is known when one has failed."""

    agent: str
    repo: str | None
    tool: str | None = None
    path: str | None = None


def chosen(
    folder: Path, now: datetime, wanted: Lessons, place: Place, *, fingerprint: str = "", command: str = ""
) -> list[Lesson]:  # fmt: skip
    """The lessons that may be told there, the best first: at a start those that fit the repository, at a failure those on this error, or on
    this command."""
    said = [json.dumps(text, ensure_ascii=False)[1:-1].encode() for text in (fingerprint, command) if text]  # As it stands in a file.
    found, _ = Shelf(folder).read(lambda data: b"approved" in data and (not said or any(text in data for text in said)))
    there = [
        one
        for one in found
        if one.is_ready(wanted.deliver) and one.fits(agent=place.agent, repo=place.repo or "", path=place.path, tool=place.tool)
    ]
    return ranked([one for one in there if _is_about(one, fingerprint, command)], now, wanted.half_life_days)


def _is_about(lesson: Lesson, fingerprint: str, command: str) -> bool:
    """Asked about nothing, every lesson is meant."""
    if not (fingerprint or command):
        return True
    return bool(fingerprint and lesson.fingerprint == fingerprint) or bool(command and lesson.kind == "retries" and lesson.about == command)


def text_of(lessons: list[Lesson], most: int, max_tokens: int) -> tuple[str, list[Lesson]]:
    """What is said of as many of them as have room, with what it costs, and which they are. Each is quoted: it is data."""
    while lessons := lessons[:most]:
        lines = [f"- {quoted(one.problem, PROBLEM)}{_where(one)}: {quoted(one.resolution, RESOLUTION)} [{one.id}]" for one in lessons]
        # The figure is in the line that it counts: three digits are reckoned with.
        cost = tokens("\n".join([_head(len(lessons), 888), *lines]))
        if cost <= max_tokens:
            return "\n".join([_head(len(lessons), cost), *lines]), lessons
        most = len(lessons) - 1
    return "", []


def _where(lesson: Lesson) -> str:
    """What a session that has just begun cannot know of itself."""
    scope = [scope for scope in (lesson.path, lesson.tool) if scope]
    return f" (only for {quoted(', '.join(scope), SCOPE)})" if scope else ""


def _head(number: int, cost: int) -> str:
    many = "1 lesson" if number == 1 else f"{number} lessons"
    return f"{OWN} {many} from earlier sessions, approved by the user (about {cost} tokens):"


def quoted(text: str, most: int) -> str:
    """In quotes and on one line, cut, and with nothing inside that a reader might take for their end or for a tag."""
    line = untagged("".join(char if char.isprintable() else " " for char in one_line(text.replace("\n", " ⏎ ")))).replace('"', "'")
    return f'"{line}"' if len(line) <= most else f'"{line[: most - 1]}…"'


# ── what was told ────────────────────────────────────────────────────────────────────────────────────────────────────
def note(
    home: Path, text: str, now: datetime, *, agent: str, session: str, repo: str, lessons: tuple[str, ...] = (), fingerprint: str = ""
) -> None:  # fmt: skip
    """What is about an error was told when a tool failed."""
    told = Delivered(
        at=now.isoformat(),
        agent=agent,
        session=session,
        event="fail" if fingerprint else "start",
        lessons=lessons,
        fingerprint=fingerprint,
        repo=repo,
        tokens=tokens(text),
    )
    _notes.append(home / NOTES, told, LARGEST)


def is_told(home: Path, agent: str, session: str, fingerprint: str) -> bool:
    """Whether this session was told of this error just before: once is enough."""
    return any((one.agent, one.session, one.fingerprint) == (agent, session, fingerprint) for one in _lines(home, TAIL))


def read(home: Path) -> list[Delivered]:
    """All notes. A line that is damaged costs itself."""
    return [note for note in _lines(home, LARGEST * 2) if _notes.is_time(note.at)]


def forget(home: Path, uids: Container[str]) -> None:
    """Blanks the notes on these sessions, each where it stands: hooks go on appending, and a file written anew would lose their lines."""
    try:
        with open(home / NOTES, "r+b") as file:
            place = 0
            for line in file.read(LARGEST * 2).split(b"\n"):
                note = _notes.decoded(line, _decoder())
                if note and note.uid in uids:
                    file.seek(place)
                    file.write(b" " * len(line))
                place += len(line) + 1
    except FileNotFoundError:
        return


def _lines(home: Path, most: int) -> list[Delivered]:
    return [note for line in _notes.lines(home / NOTES, most) if (note := _notes.decoded(line, _decoder()))]


@cache
def _decoder() -> msgspec.json.Decoder[Delivered]:
    return msgspec.json.Decoder(Delivered)
