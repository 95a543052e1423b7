"""The store as a whole: activity by day, common values, and the agents whose sessions it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from itertools import islice

import msgspec

from .. import adapters
from ..adapters import Adapter
from ..config import Config
from ..store import FORGOTTEN, Filter, Store
from ..store.values import AgentTotals
from .freshness import last_sync

FACETS = {
    "agent": "flavor",
    "repo": "repo",
    "branch": "git_branch",
    "model": "model",
    "outcome": "outcome",
    "quality": "quality",
    "machine": "machine",
    "author": "author",
}
"""Properties by which sessions can be chosen, each with its column."""

MAX_SOURCES, MAX_RECORDS, MAX_RECORD_BYTES = 5, 20, 20_000
"""Limits for finding an agent's version: its newest sources, the first records of each, and the
first bytes of each record."""

_VERSION = rb'version"\s*:\s*(?!null|true|false)"?([0-9A-Za-z][0-9A-Za-z.+-]{0,23})'
_VERSIONS = (
    re.compile(rb'"(?:cli_?|copilot_?|client_?|agent_?)' + _VERSION, re.IGNORECASE),
    re.compile(rb'"(?:(?:message_)?format_?|schema_?|protocol_?)?' + _VERSION, re.IGNORECASE),
)
"""The version of the agent, else one that may be it or the version of its format."""


class Day(msgspec.Struct, frozen=True, gc=False):
    """Sessions that began on a day, without subagents, and the prompts and errors in them."""

    sessions: int
    turns: int
    errors: int


def activity(store: Store, since: datetime, day_of: Callable[[datetime], date]) -> dict[date, Day]:
    """Return the sessions that began on each day since then.

    `day_of` gives the local day of a moment. It is called once for each hour with sessions.
    """
    days: dict[date, Day] = {}
    for hour in store.overview.hours(since):
        # Half past, because some zones are half an hour off.
        day = day_of(hour.start + timedelta(minutes=30))
        before = days.get(day, Day(0, 0, 0))
        days[day] = Day(
            before.sessions + hour.sessions,
            before.turns + hour.turns,
            before.errors + hour.errors,
        )
    return days


Matches = Callable[[Filter], set[int] | None]
"""Returns the sessions that a search finds among those that a filter chooses; None for all."""


def facets(
    store: Store, limit: int = 50, chosen: Filter | None = None, matches: Matches | None = None
) -> dict[str, list[tuple[str, int]]]:
    """Return the most common values of each of FACETS, with their number of sessions.

    A count is the number of sessions that remain if this value is chosen in addition to the other
    filters (`chosen`, `matches`).
    """
    found: dict[Filter, set[int] | None] = {}
    answer = {}
    for name in FACETS:
        others = _with(chosen or Filter(), name, None)
        if matches is not None and others not in found:
            found[others] = matches(others)
        answer[name] = _facet(store, name, others, found.get(others), limit)
    return answer


def _facet(
    store: Store, name: str, others: Filter, within: set[int] | None, limit: int
) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for value, number in store.overview.count_values(FACETS[name], others, within):
        # A session without a machine was run on this one.
        known = value or (store.own_machine if name == "machine" else None)
        if known is not None:
            counts[known] = counts.get(known, 0) + number
    # Cut before counting again: there may be thousands of branches, and each count is a query.
    shown = dict(_by_count(counts)[:limit])
    if name in _PATTERNS:
        words = [value.lower() for value in counts]
        for value in [value for value in shown if _is_ambiguous(value, words, name)]:
            numbers = store.sessions.numbers(_with(others, name, value))
            shown[value] = len(numbers if within is None else numbers & within)
    return _by_count(shown)


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _with(chosen: Filter, name: str, value: str | None) -> Filter:
    return Filter(**{**chosen._asdict(), name: value})


_PATTERNS = ("repo", "branch", "model")
"""Facets whose filters are patterns: a value also matches longer names that contain it."""


def _is_ambiguous(value: str, words: Iterable[str], name: str) -> bool:
    """Return True if choosing a value may show other sessions than those that have just it.

    `words` are all values in lower case.
    """
    word = value.lower()
    if any(sign in word for sign in "*?["):
        return True
    if name == "repo":
        return sum(other.endswith(word) for other in words) > 1
    return sum(word in other for other in words) > 1


# ── agents ────────────────────────────────────────────────────────────────────────────────────────
class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A folder in which an agent's sessions are looked for."""

    path: str
    exists: bool
    machine: str | None


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be read: where its sessions are looked for, and how much is stored."""

    name: str
    label: str
    enabled: bool
    roots: list[Root]
    keeps_days: int | None
    """The days after which the agent deletes its transcripts."""
    lacks: list[str]
    """Facts that its files never have."""
    sources: int
    sessions: int
    not_understood: int
    """The number of its sources that could not be read, if no session of it is stored."""
    source_bytes: int
    last_sync: datetime | None
    version_seen: str | None = None
    """The version of the agent or of its format, from the newest of its sources."""

    @property
    def is_there(self) -> bool:
        return any(root.exists for root in self.roots)


def agents(store: Store | None, config: Config) -> list[AgentFacts]:
    """Return every installed adapter, with what is stored of its sessions if there is a store."""
    totals = store.overview.agents() if store else {}
    facts = []
    for name in adapters.names():
        adapter, setting = adapters.get(name), config.sources.get(name)
        stored = totals.get(name, AgentTotals(0, 0, 0))
        facts.append(
            AgentFacts(
                name=name,
                label=adapter.label,
                enabled=setting is None or setting.enabled,
                roots=_roots_of(config, adapter),
                keeps_days=adapter.keeps_days,
                lacks=list(adapter.lacks),
                sources=stored.sources,
                sessions=stored.sessions,
                not_understood=(
                    _count_unread(store, config, name) if store and not stored.sessions else 0
                ),
                source_bytes=stored.source_bytes,
                last_sync=last_sync(config) if stored.sources else None,
                version_seen=_find_version(store, name) if store and stored.sources else None,
            )
        )
    return facts


def _count_unread(store: Store, config: Config, agent: str) -> int:
    """Return the number of sources that are there and that no sync could read."""
    harmless = (None, FORGOTTEN, config.exclude.mark)
    states = store.sources.by_path(agent).values()
    return sum(state.problem not in harmless and state.missing_at is None for state in states)


def _roots_of(config: Config, adapter: Adapter) -> list[Root]:
    return [
        Root(path=str(root), exists=root.exists(), machine=machine)
        for root, machine in config.roots_of(adapter.name, adapter.find_roots)
    ]


def _find_version(store: Store, agent: str) -> str | None:
    """Return the version of an agent, or of its format, from the first records of its sources.

    None if no record has one, or if the records are not stored.
    """
    for number in store.overview.newest_sources(agent, MAX_SOURCES):
        # With its sidecars: some agents write their version there.
        texts = [
            record.data[:MAX_RECORD_BYTES]
            for record in islice(store.sources.records(number), MAX_RECORDS)
        ]
        for pattern in _VERSIONS:
            for text in texts:
                if match := pattern.search(text):
                    return match[1].decode("ascii")
    return None
