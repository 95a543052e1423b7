"""Exposures: which lessons were shown to which sessions, and how; and the decisions of the trial.

Pure. Exposures come from the records of hooks and of our server, from what sessions asked our
server for, and from the instruction files that lessons were rendered into.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Literal

import msgspec

from ..mine.values import Case
from ..model import parse_time
from .deliver import Delivered, Event
from .rendered_files import Span

Way = Literal["start", "fail", "request", "file"]
"""By a hook at the start or when a tool failed; because the session asked our server; in a file
that its agent reads."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the trial withheld a lesson from a session that it fitted."""

    lesson: str
    uid: str
    is_withheld: bool
    event: Event
    at: datetime
    share: float
    """The share of sessions from which lessons were withheld at the time."""


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson that was shown to a session."""

    lesson: str
    uid: str
    way: Way
    at: datetime
    tokens: int = 0
    """Tokens of everything that was shown with it."""


def decisions_in(records: Iterable[Delivered]) -> Iterator[Decision]:
    """Yield the decisions of the trial. Lessons that were shown without a trial are left out."""
    for record in records:
        for lesson in (*record.lessons, *record.withheld) if record.share else ():
            yield Decision(
                lesson=lesson,
                uid=record.uid,
                is_withheld=lesson in record.withheld,
                event=record.event,
                at=parse_time(record.at),
                share=record.share,
            )


def exposures_in(records: Iterable[Delivered]) -> Iterator[Exposure]:
    for record in records:
        for lesson in record.lessons:
            yield Exposure(
                lesson=lesson,
                uid=record.uid,
                way=record.event,
                at=parse_time(record.at),
                tokens=record.tokens,
            )


def exposures_by_request(cases: Iterable[Case]) -> Iterator[Exposure]:
    """Yield the lessons that sessions got from our server, as their transcripts have it.

    The server itself knows only some of these sessions. Lessons that a subagent asked for are left
    out, because its parent session has not read them.
    """
    for case in cases:
        for answer in () if case.is_subagent else case.digest.requested_lessons:
            at = answer.at or (parse_time(case.at) if case.at else None)
            if at:
                yield Exposure(
                    lesson=answer.lesson,
                    uid=case.uid,
                    way="request",
                    at=at,
                    tokens=answer.tokens,
                )


def exposures_by_files(
    spans: Iterable[Span],
    cases: Iterable[Case],
    instruction_names: Callable[[str], tuple[str, ...]],
) -> Iterator[Exposure]:
    """Yield the sessions that began while lessons were in a file that their agent reads.

    `instruction_names` returns the names of an agent's instruction files.
    """
    by_repo = _group_by_repo(cases)
    every = [one for of_repo in by_repo.values() for one in of_repo]
    for span in spans:
        file, folder = span.file, _normalize(os.path.dirname(span.file.file))
        for began, cwd, case in by_repo.get(file.repo, ()) if file.repo else every:
            is_read = not set(file.names).isdisjoint(instruction_names(case.agent))
            if is_read and _is_within(span, began) and _finds_file(cwd, folder, file.repo):
                for lesson in file.lessons:
                    yield Exposure(
                        lesson=lesson,
                        uid=case.uid,
                        way="file",
                        at=began,
                        tokens=file.tokens,
                    )


def _group_by_repo(cases: Iterable[Case]) -> dict[str, list[tuple[datetime, str, Case]]]:
    """Return the start, the folder and the case of each session, by repository."""
    by_repo: dict[str, list[tuple[datetime, str, Case]]] = {}
    for case in cases:
        if case.began and case.cwd and not case.is_subagent:
            start = (parse_time(case.began), _normalize(case.cwd), case)
            by_repo.setdefault(case.repo or "", []).append(start)
    return by_repo


def _is_within(span: Span, began: datetime) -> bool:
    return span.since <= began and (span.until is None or began < span.until)


def _finds_file(cwd: str, folder: str, repo: str) -> bool:
    """Return True if an agent that was started in `cwd` reads an instruction file in `folder`.

    Agents look in the folder they are started in, and above it up to the root of the repository.
    """
    return cwd == folder or (bool(repo) and cwd.startswith(f"{folder}/"))


def _normalize(path: str) -> str:
    return os.path.normcase(path).replace("\\", "/").rstrip("/")
