"""Fleets of sessions that are shown a lesson in one way, with a known effect.

The lesson is made after some sessions, as soon as three have met the error, and shown from then on.
A session that asks for it has most often met the error. When a fleet shifts, work moves to a
repository in which the error is rare; when it drifts, the error goes away by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

import msgspec

from runlore.digest.errors import signature
from runlore.lessons import Lesson
from runlore.lessons.deliver import Delivered
from runlore.lessons.exposures import (
    Exposure,
    exposures_by_files,
    exposures_by_hooks,
    exposures_by_request,
)
from runlore.lessons.measure import Effect, measure_effects
from runlore.lessons.rendered_files import RenderedFile, Span
from runlore.mine.values import Case
from runlore.model import Covers, Digest, ErrorSummary, Fix, RequestedLesson, format_time

Way = Literal["start", "fail", "file", "asked early", "asked late"]
WAYS: tuple[Way, ...] = get_args(Way)

START = datetime(2026, 1, 1, tzinfo=UTC)
MET = signature("KeyError: 'user'")
assert MET is not None
ERROR = ErrorSummary(signature=MET, count=1, seqs=(30,))
LESSON = Lesson(
    id="abc",
    problem="p",
    resolution="r",
    kind="error",
    fingerprint=MET.fingerprint,
    evidence=("toy:1#3",),
    sessions=3,
)
OVER = Fix(fingerprint=MET.fingerprint, failed_seq=30, fixed_seq=50, confidence=0.9)
STAYS = 0.6
"""Of the sessions that meet the error and are told nothing, those that do not get over it."""
ASKS, ASKS_ANYWAY = 0.6, 0.1
"""Of the sessions that have met the error, and of the others, those that ask then."""
ASKS_EARLY = 0.5
RARE = 0.2
"""How often the error comes in the other repository, beside the one."""


class Fleet:
    """`left` is what is left of the error, or of its staying, once a session is told; 1 is no
    effect."""

    def __init__(
        self,
        way: Way,
        seed: int,
        *,
        rate: float,
        left: float,
        earlier: int,
        later: int,
        shifts: bool = False,
        drifts: float = 0,
    ) -> None:
        """`drifts` is how much less of the error there is at the end than at the beginning, in
        parts of what is usual."""
        self.way, self.rate, self.left = way, rate, left
        self.drifts, self.number = drifts, earlier + later
        self.rng = random.Random(seed)
        self.before: list[Case] = []
        while (
            len(self.before) < earlier or sum(bool(case.digest.errors) for case in self.before) < 3
        ):
            self.before.append(self._session(len(self.before), 0.8 if shifts else 1.0))
        self.lesson = msgspec.structs.replace(LESSON, made_at=self.before[-1].at)
        self.later = [
            self._session(len(self.before) + n, 0.2 if shifts else 1.0, is_after=True)
            for n in range(later)
        ]

    def _session(self, n: int, here: float, *, is_after: bool = False) -> Case:
        """The n-th; with this share of all in the one repository."""
        rng, left = self.rng, self.left if is_after else 1.0
        is_here = rng.random() < here
        asks = is_after and self.way == "asked early" and rng.random() < ASKS_EARLY
        is_warned = is_after and (asks or self.way in ("start", "file"))
        rate = self.rate * max(0.0, 1 + self.drifts * (0.5 - n / self.number))
        is_met = rng.random() < rate * (1 if is_here else RARE) * (left if is_warned else 1)
        if is_after and self.way == "asked late":
            asks = rng.random() < (ASKS if is_met else ASKS_ANYWAY)
        stays = rng.random() < STAYS * (left if asks or self.way == "fail" else 1)
        seq = 10 if self.way == "asked early" else 40
        digest = Digest(
            session_uid=f"toy:{n}",
            version=1,
            covers=Covers(99, "h"),
            errors=(ERROR,) if is_met else (),
            fixes=(OVER,) if is_met and not stays else (),
            requested_lessons=(
                (
                    RequestedLesson(
                        lesson="abc", seq=seq, at=START + timedelta(hours=n, minutes=seq)
                    ),
                )
                if asks
                else ()
            ),
            quality="real",
        )
        repo = "shop" if is_here else "site"
        began, at = (
            format_time(START + timedelta(hours=n, minutes=minutes)) for minutes in (0, 50)
        )
        return Case(
            uid=f"toy:{n}",
            digest=digest,
            agent="toy",
            repo=repo,
            root=f"toy:{n}",
            cwd=f"/w/{repo}/src",
            began=began,
            at=at,
        )

    def judged(self, number: int) -> Effect | None:
        """When so many more sessions have been there; None as long as none was told."""
        later = self.later[:number]
        found = measure_effects([self.lesson], self._exposures(later), [*self.before, *later])
        return found[0] if found else None

    def _exposures(self, later: list[Case]) -> Iterator[Exposure]:
        if self.way == "file":
            notes = [
                RenderedFile(
                    at=self.lesson.made_at,
                    file=f"/w/{repo}/A.md",
                    names=("A.md",),
                    repo=repo,
                    lessons=("abc",),
                )
                for repo in ("shop", "site")
            ]
            return exposures_by_files(
                [Span(file=note, since=datetime.fromisoformat(note.at)) for note in notes],
                later,
                lambda _: ("A.md",),
            )
        if self.way in ("start", "fail"):
            told = [case for case in later if self.way == "start" or case.digest.errors]
            return exposures_by_hooks(
                Delivered(
                    at=case.began,
                    agent="toy",
                    session=case.uid[4:],
                    event=self.way,
                    lessons=("abc",),
                    repo=case.repo or "",
                )
                for case in told
            )
        return exposures_by_request(later)
