"""A command that takes minutes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...text.clean import one_line
from ..commands import command_head
from ..drafts import Draft, Group
from ..ends import End
from ..loci import CommandLocus
from ..values import Case, Fleet, Signal

ADVICE = "run a part of it, cache it, or let it run in the background"
KIND = "slow"

MIN_TOTAL_S = 300.0
"""Five minutes of one session in which nothing else happens."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    by_head: dict[str, list[tuple[float, int]]] = {}
    for slow in case.digest.slow:
        by_head.setdefault(command_head(slow.command), []).append((slow.seconds, slow.seq))
    for head, times in by_head.items():
        total = sum(seconds for seconds, _ in times)
        if total >= MIN_TOTAL_S:
            yield Signal(
                type="slow_step",
                polarity="problem",
                uid=case.uid,
                locus=CommandLocus(head),
                what=f"`{head}` takes minutes",
                seqs=(max(times)[1],),
                magnitude=total,
                is_local=True,
            )


def draft(group: Group, _: Sequence[End]) -> Draft:
    """Propose to allow the time it takes.

    Nothing counts as having helped: only durations are known.
    """
    pattern = group.pattern
    head = pattern.locus.key
    times = sorted(
        slow.seconds / slow.count
        for case in group.cases
        for slow in case.digest.slow
        if command_head(slow.command) == head
    )
    usual, longest = (
        max(1, round(seconds / 60)) for seconds in (times[len(times) // 2], times[-1])
    )
    return Draft(
        id=pattern.id,
        kind=KIND,
        about=head,
        when=one_line(pattern.what),
        do=(
            f"One run takes about {usual} min, at most {longest} were seen: allow that much, or let"
            " it run in the background."
        ),
        repo=pattern.repo or "",
        evidence=pattern.examples,
        signals=pattern.signals,
        sessions=pattern.sessions,
        last_at=pattern.last_at,
    )
