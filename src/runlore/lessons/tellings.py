"""Which sessions were told a lesson, by which way: from the notes of hooks, from what the sessions asked for themselves, and from the files
that lessons stand in. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Literal

import msgspec

from ..mine import Case
from ..model import parse_time
from .deliver import Delivered
from .standing import Span

Way = Literal["start", "fail", "asked", "file"]
"""By a hook at the start or when a tool failed; because it asked our server; in a file that its agent reads."""


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    lesson: str
    uid: str
    way: Way
    at: datetime
    repo: str = ""
    tokens: int = 0
    """Of all that was told there."""
    seq: int = 0
    """Of the event where it was asked for."""


def by_hooks(notes: Iterable[Delivered]) -> Iterator[Telling]:
    for note in notes:
        for name in note.lessons:
            way: Way = "start" if note.event == "start" else "fail"
            yield Telling(lesson=name, uid=note.uid, way=way, at=parse_time(note.at), repo=note.repo, tokens=note.tokens)


def by_asking(cases: Iterable[Case]) -> Iterator[Telling]:
    """What a subagent asked for it knows alone: the session that counts was told nothing."""
    for case in cases:
        for told in () if case.is_subagent else case.digest.told:
            at = told.at or (parse_time(case.at) if case.at else None)
            if at:
                repo = case.repo or ""
                yield Telling(lesson=told.lesson, uid=case.uid, way="asked", at=at, repo=repo, tokens=told.tokens, seq=told.seq)


def by_files(spans: Iterable[Span], cases: Iterable[Case], instructions: Callable[[str], tuple[str, ...]]) -> Iterator[Telling]:
    """Sessions that began while lessons stood in a file that their agent reads there. `instructions` are the names of an agent's."""
    by_repo: dict[str, list[tuple[datetime, str, Case]]] = {}
    for case in cases:
        if case.began and case.cwd and not case.is_subagent:
            by_repo.setdefault(case.repo or "", []).append((parse_time(case.began), _plain(case.cwd), case))
    every = [one for of_repo in by_repo.values() for one in of_repo]
    for span in spans:
        folder, names = _plain(os.path.dirname(span.note.file)), set(span.note.names)
        for began, cwd, case in by_repo.get(span.note.repo, ()) if span.note.repo else every:
            # Agents look in the folder that they are started in, and above it up to the root of the repository.
            is_there = cwd == folder or (bool(span.note.repo) and cwd.startswith(f"{folder}/"))
            is_then = span.since <= began and (span.until is None or began < span.until)
            if is_there and is_then and not names.isdisjoint(instructions(case.agent)):
                for name in span.note.lessons:
                    yield Telling(lesson=name, uid=case.uid, way="file", at=began, repo=case.repo or "", tokens=span.note.tokens)


def _plain(path: str) -> str:
    return os.path.normcase(path).replace("\\", "/").rstrip("/")
