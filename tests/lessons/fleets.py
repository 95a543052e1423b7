"""Fleets of sessions with a lesson in a trial, whose effect is known.

Decisions are made by the trial as the hooks and the server make them, and recorded as they record
them. When a fleet drifts, the error goes away by itself; when it moves, work goes on in another
repository, in which the error is rarer.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from runlore.digest.errors import signature
from runlore.lessons import Lesson
from runlore.lessons.deliver import Delivered, Event
from runlore.lessons.exposures import decisions_in
from runlore.lessons.measure import Effect, measure_effects
from runlore.lessons.trial import Trial
from runlore.mine.values import Case
from runlore.model import Covers, Digest, ErrorSummary, Fix, format_time

Way = Literal["start", "fail", "request early", "request late"]
WAYS: tuple[Way, ...] = get_args(Way)

START = datetime(2026, 1, 1, tzinfo=UTC)
MET = signature("KeyError: 'user'")
assert MET is not None
ERROR = ErrorSummary(signature=MET, count=1, seqs=(30,))
LESSON = Lesson(
    id="abc",
    when="p",
    do="r",
    kind="error",
    fingerprint=MET.fingerprint,
    evidence=("toy:1#3",),
    sessions=3,
)
OVER = Fix(fingerprint=MET.fingerprint, failed_seq=30, fixed_seq=50, confidence=0.9)
STAYS = 0.6
"""Of the sessions that meet the error without the lesson, those that do not get over it."""
REQUESTS_EARLY, REQUESTS_MET, REQUESTS_OTHER = 0.5, 0.6, 0.1
"""The share of sessions that ask: at their start; later, with the error and without it."""
REPOSITORIES = {"shop": 1.0, "site": 0.5, "docs": 0.1}
"""How often the error occurs there, in parts of the usual rate."""


class Fleet:
    """Sessions since a lesson was approved, made until so many are in its trial.

    `left` is what is left of the error, or of its staying, in a session that was shown the lesson;
    1 is no effect. With `drifts`, the error falls to nothing by the end; with `moves`, work moves
    from the first repository to the last. Sessions outside the trial play no part and are left out.
    """

    def __init__(
        self,
        way: Way,
        seed: int,
        *,
        rate: float,
        left: float = 1.0,
        share: float = 0.2,
        number: int = 200,
        drifts: bool = False,
        moves: bool = False,
    ) -> None:
        self.way, self.rate, self.left, self.number = way, rate, left, number
        self.drifts, self.moves = drifts, moves
        self.trial = Trial(f"fleet {seed}".encode(), share)
        self.rng = random.Random(seed)
        self.cases: list[Case] = []
        self.records: list[Delivered] = []
        n = 0
        while len(self.records) < number and n < 200 * number:
            self._add_session(n)
            n += 1
        self.decisions = list(decisions_in(self.records))

    def _add_session(self, n: int) -> None:
        rng, uid = self.rng, f"toy:{n}"
        is_withheld = self.trial.withholds(LESSON.id, uid)
        left = 1.0 if is_withheld else self.left
        progress = min(1.0, len(self.records) / self.number)
        repo = self._find_repo(progress)
        is_first = self.way == "start" or (
            self.way == "request early" and rng.random() < REQUESTS_EARLY
        )
        rate = self.rate * REPOSITORIES[repo] * (1 - 0.95 * progress * self.drifts)
        is_met = rng.random() < rate * (left if is_first else 1)
        is_later = (self.way == "fail" and is_met) or (
            self.way == "request late"
            and rng.random() < (REQUESTS_MET if is_met else REQUESTS_OTHER)
        )
        stays = rng.random() < STAYS * (left if is_later else 1)
        if is_first or is_later:
            self._add_case(n, repo, is_met=is_met, is_over=is_met and not stays)
            self._add_record(n, repo, is_withheld)

    def _find_repo(self, progress: float) -> str:
        if not self.moves:
            return "shop"
        weights = (1 - progress, 0.3, progress)
        return self.rng.choices(list(REPOSITORIES), weights)[0]

    def _add_case(self, n: int, repo: str, *, is_met: bool, is_over: bool) -> None:
        digest = Digest(
            session_uid=f"toy:{n}",
            version=1,
            covers=Covers(99, "h"),
            errors=(ERROR,) if is_met else (),
            fixes=(OVER,) if is_over else (),
            retries=self.rng.randrange(1, 4) if is_met else 0,
            quality="real",
        )
        began, at = (
            format_time(START + timedelta(hours=n, minutes=minutes)) for minutes in (0, 50)
        )
        self.cases.append(
            Case(
                uid=f"toy:{n}", digest=digest, agent="toy", repo=repo, root=f"toy:{n}",
                cwd=f"/w/{repo}/src", began=began, at=at, usd=1.0 + is_met,
            )
        )  # fmt: skip

    def _add_record(self, n: int, repo: str, is_withheld: bool) -> None:
        events: dict[Way, Event] = {"start": "start", "fail": "fail"}
        self.records.append(
            Delivered(
                at=format_time(START + timedelta(hours=n, minutes=1)),
                agent="toy",
                session=str(n),
                event=events.get(self.way, "request"),
                lessons=() if is_withheld else (LESSON.id,),
                withheld=(LESSON.id,) if is_withheld else (),
                share=self.trial.share,
                repo=repo,
            )
        )

    def judge(self, number: int | None = None) -> Effect:
        """Return the effect when so many sessions were in the trial; all without a number."""
        number = len(self.records) if number is None else number
        [effect] = measure_effects([LESSON], self.decisions[:number], (), self.cases[:number])
        return effect

    def judge_often(self, every: int = 1) -> set[str]:
        """Return the verdicts that somebody has seen who looks whenever so many were added."""
        numbers = range(every, len(self.records) + 1, every)
        return {self.judge(number).verdict for number in numbers}
