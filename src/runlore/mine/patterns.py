"""What recurs: signals of one type and about the same thing, in at least two sessions that have nothing to do with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from . import Case, Signal, signals
from ._cluster import Pattern, examples_of, similar, trend_of

FEWEST_SIGNALS, FEWEST_SESSIONS = 2, 2


def find(cases: Iterable[Case], *, fewest_signals: int = FEWEST_SIGNALS, fewest_sessions: int = FEWEST_SESSIONS) -> list[Pattern]:
    """Every pattern, the one with the most evidence first. The same whatever the order of the cases."""
    by_uid = {case.uid: case for case in cases}
    groups: dict[tuple[str, str, str], list[Signal]] = {}
    for signal in signals(by_uid[uid] for uid in sorted(by_uid)):
        repo = by_uid[signal.uid].repo or "" if signal.is_local else ""
        groups.setdefault((signal.type, repo, signal.locus), []).append(signal)
    work = [case.at for case in by_uid.values() if case.is_work and not case.is_subagent]
    found = []
    for (type_, repo, locus), same in _together(groups).items():
        roots = {by_uid[signal.uid].root for signal in same}
        if len(same) >= fewest_signals and len(roots) >= fewest_sessions:
            found.append(_pattern(type_, repo, locus, same, roots, by_uid, work))
    return sorted(found, key=lambda pattern: (-pattern.is_wide, -pattern.sessions, -pattern.signals, pattern.id))


def _together(groups: dict[tuple[str, str, str], list[Signal]]) -> dict[tuple[str, str, str], list[Signal]]:
    """Corrections that say the same in other words become one group."""
    said = {locus: same for (type_, _, locus), same in groups.items() if type_ == "correction"}
    home = similar(said)
    joined: dict[tuple[str, str, str], list[Signal]] = {}
    for (type_, repo, locus), same in groups.items():
        joined.setdefault((type_, repo, home[locus] if type_ == "correction" else locus), []).extend(same)
    return joined


def _pattern(
    type_: str, repo: str, locus: str, same: list[Signal], roots: set[str], cases: dict[str, Case], work: list[str]
) -> Pattern:  # fmt: skip
    of = [cases[signal.uid] for signal in same]
    times = sorted(case.at for case in of if case.at)
    spent = {signal.uid: signal.usd for signal in same}
    loudest = max(same, key=lambda signal: (signal.magnitude, cases[signal.uid].at, signal.uid))
    return Pattern(
        id=blake2b(f"{type_}\0{repo}\0{locus}".encode("utf-8", "replace"), digest_size=6).hexdigest(),
        type=type_,
        polarity=loudest.polarity,
        what=loudest.what,
        locus=locus,
        repo=repo or None,
        signals=len(same),
        sessions=len(roots),
        uids=tuple(sorted({signal.uid for signal in same})),
        repos=tuple(sorted({case.repo for case in of if case.repo})),
        agents=tuple(sorted({case.agent for case in of})),
        usd=round(sum(spent.values()), 6),
        magnitude=round(sum(signal.magnitude for signal in same) / len(same), 3),
        first_at=times[0] if times else "",
        last_at=times[-1] if times else "",
        months=dict(sorted(Counter(at[:7] for at in times).items())),
        # Of what is mostly seen in sessions without a time nobody knows how it goes.
        trend=trend_of(times if 2 * len(times) >= len(of) else (), work),
        examples=examples_of(same, cases),
    )
