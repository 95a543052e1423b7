"""Signals of several sessions, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..model import Trend
from . import Case, Polarity, Signal

SIMILAR = 0.6
"""Of the words of two corrections, the share that both have."""
EXAMPLES = 5


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """The same thing, seen in several sessions. `id` stays the same as long as it is about the same."""

    id: str
    type: str
    polarity: Polarity
    what: str
    locus: str
    repo: str | None
    """Where it is about one repository."""
    signals: int
    sessions: int
    """Pieces of evidence: sessions that do not go back to the same one."""
    uids: tuple[str, ...]
    repos: tuple[str, ...]
    agents: tuple[str, ...]
    usd: float
    magnitude: float
    first_at: str
    last_at: str
    months: dict[str, int]
    """Signals by month: when it appeared, and when it stopped."""
    trend: Trend
    examples: tuple[str, ...]
    """As uid#seq."""

    @property
    def is_wide(self) -> bool:
        """Whether several agents meet it: then it is not one agent's way."""
        return len(self.agents) > 1


def similar(groups: Mapping[str, Sequence[Signal]]) -> dict[str, str]:
    """By locus, the locus of the group that it belongs to: texts that have most words in common, the most frequent first."""
    order = sorted(groups, key=lambda locus: (-len(groups[locus]), locus))
    words = {locus: frozenset(locus.split()) for locus in order}
    by_word: dict[str, list[str]] = {}
    home: dict[str, str] = {}
    for locus in order:
        near = {other for word in words[locus] for other in by_word.get(word, ())}
        best = max(near, key=lambda other: (alike(words[locus], words[other]), other), default=None)
        if best is not None and alike(words[locus], words[best]) >= SIMILAR:
            home[locus] = best
            continue
        home[locus] = locus
        for word in words[locus]:
            by_word.setdefault(word, []).append(locus)
    return home


def alike(one: frozenset[str], other: frozenset[str]) -> float:
    """Of the words that either has, the share that both have."""
    return len(one & other) / len(one | other)


def trend_of(times: Sequence[str], all_times: Sequence[str]) -> Trend:
    """How a pattern goes, beside how much was worked: its share among the newer half of the sessions, and among the older. Sessions whose
    time is not known say nothing about it."""
    ordered = sorted(at for at in all_times if at)
    if len(ordered) < 8 or not times:
        return "steady"
    middle, newest = ordered[len(ordered) // 2], ordered[-max(3, len(ordered) // 5)]
    old = sum(at < middle for at in times) / max(1, sum(at < middle for at in ordered))
    new = sum(at >= middle for at in times) / max(1, sum(at >= middle for at in ordered))
    if max(times) < newest and new < old:
        return "stopped"
    if not old and new:
        return "new"
    if new >= 1.5 * old:
        return "rising"
    return "falling" if old >= 1.5 * new else "steady"


def examples_of(signals: Iterable[Signal], cases: Mapping[str, Case]) -> tuple[str, ...]:
    """The newest, one for each session."""
    newest = sorted(signals, key=lambda signal: (cases[signal.uid].at, signal.uid), reverse=True)
    found: dict[str, str] = {}
    for signal in newest:
        found.setdefault(signal.uid, f"{signal.uid}#{signal.seqs[0]}" if signal.seqs else signal.uid)
    return tuple(found.values())[:EXAMPLES]
