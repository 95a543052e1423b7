"""Choose the lessons that an agent is shown, withhold some for the trial, and record both.

The records are what `measure` compares: a file of lines that is only appended to. An agent waits
for its hooks, so no store is opened here, and little is imported.
"""

from __future__ import annotations

import json
from collections.abc import Container
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from ..config import Lessons
from ..text.clean import OWN, one_line, untagged
from ..text.tokens import tokens
from . import Lesson, describe_advice, record_file
from .rank import rank_lessons
from .shelf import Shelf
from .trial import read_trial

FILE_NAME = "delivered.jsonl"
"""In runlore's home."""
MAX_BYTES = 64 << 20
"""Records of about a hundred thousand sessions. Those older than a year may be deleted."""
TAIL_BYTES = 64 << 10
"""The end of the records, in which a session's own are looked for."""
Event = Literal["start", "fail", "request"]
MAX_WHEN_CHARS, MAX_DO_CHARS, MAX_SCOPE_CHARS = 240, 400, 80


class Delivered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delivery to a session at one moment: the lessons that it was shown, and those withheld."""

    at: str
    agent: str
    session: str
    """The agent's own id of it."""
    event: Event
    """At the start of the session, when a tool failed, or when the session asked."""
    lessons: tuple[str, ...] = ()
    """Those that it was shown."""
    withheld: tuple[str, ...] = ()
    """Those that fitted as well, and were withheld by the trial."""
    share: float = 0.0
    """The share of sessions from which lessons were withheld then; 0 if there was no trial."""
    unit: str = ""
    """The session that the trial decided for, if it is not this one but the root of its family."""
    fingerprint: str = ""
    repo: str = ""
    tokens: int = 0

    @property
    def uid(self) -> str:
        return f"{self.agent}:{self.session}"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The context for which lessons are chosen. Tool and file are known when a call has failed."""

    agent: str
    repo: str | None
    tool: str | None = None
    path: str | None = None


def choose_lessons(
    folder: Path,
    now: datetime,
    settings: Lessons,
    place: Place,
    *,
    fingerprint: str = "",
    command: str = "",
) -> list[Lesson]:
    """Return the lessons that may be shown there, best first.

    Given an error or the head of a command that failed, returns those on it; else all that fit the
    place.
    """
    # Files without these texts, as JSON writes them, need not be parsed.
    needles = [
        json.dumps(text, ensure_ascii=False)[1:-1].encode()
        for text in (fingerprint, command)
        if text
    ]
    lessons, _ = Shelf(folder).read(
        lambda data: b"approved" in data and (not needles or any(text in data for text in needles))
    )
    fitting = [
        one
        for one in lessons
        if one.is_ready(settings.deliver)
        and one.fits(agent=place.agent, repo=place.repo or "", path=place.path, tool=place.tool)
    ]
    return rank_lessons(
        [one for one in fitting if _is_about(one, fingerprint, command)],
        now,
        settings.half_life_days,
    )


def _is_about(lesson: Lesson, fingerprint: str, command: str) -> bool:
    """Return True for a lesson on this error or command; for every lesson if neither is given."""
    if not (fingerprint or command):
        return True
    return bool(fingerprint and fingerprint in lesson.fingerprints) or bool(
        command and lesson.kind == "retries" and lesson.about == command
    )


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Lessons that fit a session, as the trial divided them."""

    shown: list[Lesson]
    withheld: list[Lesson] = []
    share: float = 0.0


def divide_lessons(home: Path, settings: Lessons, lessons: list[Lesson], unit: str) -> Choice:
    """Divide the lessons that would be shown into those that are, and those that are withheld.

    `unit` is the uid of the session, or of the root of its family; where it is not known, nothing
    is withheld.
    """
    trial = read_trial(home, settings.withhold) if unit and lessons else None
    if trial is None:
        return Choice(shown=lessons)
    return Choice(
        shown=[one for one in lessons if not trial.withholds(one.id, unit)],
        withheld=[one for one in lessons if trial.withholds(one.id, unit)],
        share=trial.share,
    )


def render_lessons(lessons: list[Lesson], limit: int, max_tokens: int) -> tuple[str, list[Lesson]]:
    """Return the text that shows as many of the lessons as fit, and which these are.

    Each is quoted as data.
    """
    while lessons := lessons[:limit]:
        lines = [
            f"- {quote(one.when, MAX_WHEN_CHARS)}{_render_scope(one)}:"
            f" {quote(describe_advice(one), MAX_DO_CHARS)} [{one.id}]"
            for one in lessons
        ]
        # The heading states its own cost: three digits are reserved for that.
        cost = tokens("\n".join([_render_heading(len(lessons), 888), *lines]))
        if cost <= max_tokens:
            return "\n".join([_render_heading(len(lessons), cost), *lines]), lessons
        limit = len(lessons) - 1
    return "", []


def _render_scope(lesson: Lesson) -> str:
    """Return the part of the scope that is unknown when a session starts."""
    scope = [scope for scope in (lesson.path, lesson.tool) if scope]
    return f" (only for {quote(', '.join(scope), MAX_SCOPE_CHARS)})" if scope else ""


def _render_heading(number: int, cost: int) -> str:
    lessons = "1 lesson" if number == 1 else f"{number} lessons"
    return f"{OWN} {lessons} from earlier sessions, approved by the user (about {cost} tokens):"


def quote(text: str, max_chars: int) -> str:
    """Return a text in quotes, on one line and cut, without quotes or tags inside."""
    line = untagged(
        "".join(char if char.isprintable() else " " for char in one_line(text.replace("\n", " ⏎ ")))
    ).replace('"', "'")
    return f'"{line}"' if len(line) <= max_chars else f'"{line[: max_chars - 1]}…"'


# ── records ──────────────────────────────────────────────────────────────────────────────────────
def record_delivery(
    home: Path,
    text: str,
    now: datetime,
    *,
    agent: str,
    session: str,
    repo: str,
    lessons: tuple[str, ...] = (),
    withheld: tuple[str, ...] = (),
    share: float = 0.0,
    unit: str = "",
    fingerprint: str = "",
    event: Event | None = None,
) -> None:
    """Record what a session was shown, and what was withheld from it.

    With a fingerprint, and unless an event is named, that was when a tool failed.
    """
    uid = f"{agent}:{session}"
    delivered = Delivered(
        at=now.isoformat(),
        agent=agent,
        session=session,
        event=event or ("fail" if fingerprint else "start"),
        lessons=lessons,
        withheld=withheld,
        share=share,
        unit=unit if unit != uid else "",
        fingerprint=fingerprint,
        repo=repo,
        tokens=tokens(text),
    )
    record_file.append_record(home / FILE_NAME, delivered, MAX_BYTES)


def find_unit(home: Path, uid: str) -> str:
    """Return the session that the trial decided for when this one was last shown something.

    Empty if there is no record of it: a family is decided by its root only if that was known at
    the first decision, so that all decisions for a session are the same.
    """
    units = [one.unit or uid for one in _read(home, TAIL_BYTES) if one.uid == uid and one.share]
    return units[-1] if units else ""


def was_delivered(home: Path, agent: str, session: str, fingerprint: str) -> bool:
    """Return True if this session was shown something on this error recently: once is enough."""
    records = _read(home, TAIL_BYTES)
    return any(
        (one.agent, one.session, one.fingerprint) == (agent, session, fingerprint)
        for one in records
    )


def read_records(home: Path) -> list[Delivered]:
    """Return all records that can be read."""
    return [record for record in _read(home, MAX_BYTES * 2) if record_file.is_time(record.at)]


def forget(home: Path, uids: Container[str]) -> None:
    """Overwrite the records of these sessions, and those that name them as root, with blanks.

    They are overwritten in place, because hooks go on appending: a new file would lose their lines.
    """
    try:
        with open(home / FILE_NAME, "r+b") as file:
            offset = 0
            for line in file.read(MAX_BYTES * 2).split(b"\n"):
                record = record_file.decode_record(line, _decoder())
                if record and (record.uid in uids or record.unit in uids):
                    file.seek(offset)
                    file.write(b" " * len(line))
                offset += len(line) + 1
    except FileNotFoundError:
        return


def _read(home: Path, max_bytes: int) -> list[Delivered]:
    lines = record_file.read_lines(home / FILE_NAME, max_bytes)
    return [record for line in lines if (record := record_file.decode_record(line, _decoder()))]


@cache
def _decoder() -> msgspec.json.Decoder[Delivered]:
    return msgspec.json.Decoder(Delivered)
