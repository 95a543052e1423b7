"""Events in order, and the lines of a session: the active one, and those that rewinds left
behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from operator import attrgetter

import msgspec

from ..model import SessionEvent
from .prompt import MAYBE_PROMPT, is_command, is_prompt


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a session: the active one, or one that a rewind left behind.

    Each event is in exactly one.
    """

    seqs: tuple[int, ...]
    """In ascending order."""
    is_active: bool
    forked_at: int | None
    """The event where an abandoned line leaves its parent line; None for the active one."""

    @property
    def leaf(self) -> int:
        """The last event of the line."""
        return self.seqs[-1]


def branches(events: Iterable[SessionEvent]) -> list[Branch]:
    """Return all lines, the active one first, then the abandoned ones in the order they began.

    A rewind shows as an event that two or more prompts follow directly. The prompt whose
    descendants hold the latest event continues its line, the others begin a line of their own. The
    same holds within an abandoned line. Anything else that follows the same event (the results of
    parallel calls) is part of the line. A session that was rewound to nothing has two prompts as
    roots. Roots are a sequence, so both are active.
    """
    ordered = in_order(events)
    starts = ordered.line_starts
    line_of: dict[int, int] = {}
    lines: list[list[int]] = [[]]
    forks: list[int | None] = [None]
    for event in ordered:
        seq, parent = event.seq, event.parent_seq
        if seq in starts:
            line = len(lines)
            lines.append([])
            forks.append(parent)
        else:
            line = 0 if parent is None else line_of.get(parent, 0)
        line_of[seq] = line
        lines[line].append(seq)
    return [
        Branch(seqs=tuple(seqs), is_active=n == 0, forked_at=forks[n])
        for n, seqs in enumerate(lines)
        if seqs
    ]


def active(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return the events that no rewind has left behind, by seq."""
    ordered = in_order(events)
    return ordered.lines[0] if ordered.lines else ordered


def abandoned(events: Iterable[SessionEvent]) -> list[list[SessionEvent]]:
    """Return the events that rewinds have left behind, one list for each abandoned line."""
    return in_order(events).lines[1:]


class OrderedEvents(list[SessionEvent]):
    """Events by seq.

    A caller that needs several views builds this once: nothing is sorted or derived twice.
    """

    @cached_property
    def prompts(self) -> list[SessionEvent]:
        # The kind is compared first, because it rules out most events.
        return [event for event in self if event.kind in MAYBE_PROMPT and is_prompt(event)]

    @cached_property
    def failures(self) -> list[SessionEvent]:
        """The events that are reported as failures."""
        return [event for event in self if event.is_error]

    @cached_property
    def line_starts(self) -> set[int]:
        """The prompts that begin an abandoned line. Most sessions have none."""
        return _find_line_starts(self)

    @cached_property
    def lines(self) -> list[list[SessionEvent]]:
        """The active line first, then the abandoned ones; empty if nothing was abandoned."""
        if not self.line_starts:
            return []
        by_seq = {event.seq: event for event in self}
        return [[by_seq[seq] for seq in branch.seqs] for branch in branches(self)]

    @property
    def own(self) -> OrderedEvents:
        """The events that happened here. Copies of another session's events count there."""
        # Not cached as a whole: a list that refers to itself is freed only by the cycle collector.
        return self if self._own is None else self._own

    @property
    def main(self) -> OrderedEvents:
        """The events outside of inline side chains.

        If all events are in one, as in a subagent's session, it is all events.
        """
        return self._main or self

    @cached_property
    def _own(self) -> OrderedEvents | None:
        is_all = list(map(_origin, self)).count(None) == len(self)
        return None if is_all else OrderedEvents([event for event in self if event.origin is None])

    @cached_property
    def _main(self) -> OrderedEvents | None:
        if not any(map(_is_sidechain, self)):
            return None
        return OrderedEvents([event for event in self if not event.is_sidechain])


_seq, _origin, _is_sidechain = attrgetter("seq"), attrgetter("origin"), attrgetter("is_sidechain")


def in_order(events: Iterable[SessionEvent]) -> OrderedEvents:
    """Return the events by seq."""
    if isinstance(events, OrderedEvents):
        return events
    ordered = OrderedEvents(events)
    ordered.sort(key=_seq)
    return ordered


def prompts(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return the events that a person typed, in the order given."""
    return (
        events.prompts
        if isinstance(events, OrderedEvents)
        else [event for event in events if is_prompt(event)]
    )


def _find_line_starts(ordered: OrderedEvents) -> set[int]:
    """Return, of several prompts that follow the same event, all but the one that was continued."""
    alternatives = _find_alternatives(ordered)
    if not alternatives:
        return set()
    latest: dict[int, int] = {}
    # Parents come before their children, so this meets the children first.
    for event in reversed(ordered):
        last, parent = latest.setdefault(event.seq, event.seq), event.parent_seq
        if parent is not None and last > latest.get(parent, -1):
            latest[parent] = last
    return {seq for prompts in alternatives for seq in sorted(prompts, key=latest.__getitem__)[:-1]}


def _find_alternatives(ordered: OrderedEvents) -> list[list[int]]:
    """Return the prompts that follow the same event where there are several, the last one first."""
    counts = Counter(
        [event.parent_seq for event in ordered.prompts if event.parent_seq is not None]
    )
    shared = {seq for seq, count in counts.items() if count > 1}
    parents = {event.seq: event for event in ordered if event.seq in shared} if shared else {}
    groups: dict[int, list[int]] = {}
    for event in reversed(ordered.prompts) if parents else ():
        parent = None if event.parent_seq is None else parents.get(event.parent_seq)
        if parent is None or event.is_sidechain != parent.is_sidechain:
            continue
        # Some agents link all local commands to the same lifecycle event: these are not rewinds.
        # Showing too much is better than hiding a part of the session.
        if not (parent.kind == "lifecycle" and is_command(event)):
            groups.setdefault(parent.seq, []).append(event.seq)
    return [seqs for seqs in groups.values() if len(seqs) > 1]
