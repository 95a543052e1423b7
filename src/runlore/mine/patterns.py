"""Group signals into patterns: the same thing in at least two independent sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from ..model import Trend
from .loci import WordsLocus
from .signals import iter_signals
from .similarity import group_similar
from .values import Case, Pattern, Signal

MIN_SIGNALS, MIN_SESSIONS = 2, 2
MAX_EXAMPLES = 5
MIN_SESSIONS_FOR_TREND = 8


class _Key(NamedTuple):
    """The common properties of the signals of one pattern."""

    type: str
    repo: str
    locus_key: str


_Groups = dict[_Key, list[Signal]]


def find_patterns(
    cases: Iterable[Case], *, min_signals: int = MIN_SIGNALS, min_sessions: int = MIN_SESSIONS
) -> list[Pattern]:
    """Return every pattern, the one with the most evidence first.

    The order of the cases does not matter.
    """
    by_uid = {case.uid: case for case in cases}
    groups: _Groups = {}
    for signal in iter_signals(by_uid[uid] for uid in sorted(by_uid)):
        repo = by_uid[signal.uid].repo or "" if signal.is_local else ""
        groups.setdefault(_Key(signal.type, repo, signal.locus.key), []).append(signal)
    work_times = [case.at for case in by_uid.values() if case.is_work and not case.is_subagent]
    patterns = []
    for key, signals in _merge_similar(groups).items():
        tasks = {by_uid[signal.uid].evidence_key for signal in signals}
        if len(signals) >= min_signals and len(tasks) >= min_sessions:
            patterns.append(_build_pattern(key, signals, tasks, by_uid, work_times))
    return sorted(
        patterns,
        key=lambda pattern: (-pattern.is_wide, -pattern.sessions, -pattern.signals, pattern.id),
    )


def _merge_similar(groups: _Groups) -> _Groups:
    """Merge groups whose loci are sets of similar words."""
    words: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
    for key, signals in groups.items():
        if isinstance(locus := signals[0].locus, WordsLocus):
            words.setdefault((key.type, key.repo), {})[key.locus_key] = locus.words
    heads = {
        (type_, repo): group_similar(
            of_type, {name: len(groups[_Key(type_, repo, name)]) for name in of_type}
        )
        for (type_, repo), of_type in words.items()
    }
    merged: _Groups = {}
    for key, signals in groups.items():
        head_of = heads.get((key.type, key.repo), {})
        merged.setdefault(
            key._replace(locus_key=head_of.get(key.locus_key, key.locus_key)), []
        ).extend(signals)
    return merged


def _build_pattern(
    key: _Key,
    signals: list[Signal],
    tasks: set[str],
    by_uid: Mapping[str, Case],
    work_times: Sequence[str],
) -> Pattern:
    cases = [by_uid[signal.uid] for signal in signals]
    times = sorted(case.at for case in cases if case.at)
    usd_by_session = {signal.uid: signal.usd for signal in signals}

    def strength(signal: Signal) -> tuple[float, str, str]:
        return signal.magnitude, by_uid[signal.uid].at, signal.uid

    strongest = max(signals, key=strength)
    return Pattern(
        id=blake2b("\0".join(key).encode("utf-8", "replace"), digest_size=6).hexdigest(),
        type=key.type,
        polarity=strongest.polarity,
        what=strongest.what,
        # Similar loci were merged: the pattern has the one that it is named by.
        locus=max(
            (signal for signal in signals if signal.locus.key == key.locus_key), key=strength
        ).locus,
        repo=key.repo or None,
        signals=len(signals),
        sessions=len(tasks),
        uids=tuple(sorted({signal.uid for signal in signals})),
        repos=tuple(sorted({case.repo for case in cases if case.repo})),
        agents=tuple(sorted({case.agent for case in cases})),
        usd=round(sum(usd_by_session.values()), 6),
        magnitude=round(sum(signal.magnitude for signal in signals) / len(signals), 3),
        first_at=times[0] if times else "",
        last_at=times[-1] if times else "",
        months=dict(sorted(Counter(at[:7] for at in times).items())),
        # If most sessions have no time, the trend of the others says little.
        trend=_find_trend(times if 2 * len(times) >= len(cases) else (), work_times),
        examples=_pick_examples(signals, by_uid),
    )


def _find_trend(times: Sequence[str], work_times: Sequence[str]) -> Trend:
    """Return how a pattern develops, relative to how much was worked.

    Compares its share among the newer half of the sessions with its share among the older half.
    Sessions without a time are left out.
    """
    ordered = sorted(at for at in work_times if at)
    if len(ordered) < MIN_SESSIONS_FOR_TREND or not times:
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


def _pick_examples(signals: Iterable[Signal], by_uid: Mapping[str, Case]) -> tuple[str, ...]:
    """Return the newest signals as uid#seq, one for each session."""
    newest = sorted(signals, key=lambda signal: (by_uid[signal.uid].at, signal.uid), reverse=True)
    examples: dict[str, str] = {}
    for signal in newest:
        examples.setdefault(
            signal.uid, f"{signal.uid}#{signal.seqs[0]}" if signal.seqs else signal.uid
        )
    return tuple(examples.values())[:MAX_EXAMPLES]
