"""Running totals of events: turns, errors, retries, tokens and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

import msgspec

from ..model import CALL_KINDS, Cost, SessionEvent, Usage
from ..text.titles import is_small_talk
from .branch import in_order
from .prompt import begins_turn
from .retry import RecentCall, RecentCalls

PAUSE = timedelta(minutes=10)
"""A longer silence is a break and not work. After the same time a session is quiet enough for its
digest."""


class Tally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Running totals of one stream of a session.

    A sync stores them, so that the next one reads only what is new. **Adding in pieces equals
    adding at once**, wherever the stream is cut. Rewound events count, because they were paid for.
    A copy (`origin`) was counted where it happened; here it is only one of `events`, and may supply
    the first prompt. `copied_until` and `origins` say what the stream has copies of.
    """

    events: int = 0
    copies: int = 0
    errors: int = 0
    turns: int = 0
    """Messages of people, without those of an agent to its subagent."""
    retries: int = 0
    usage: Usage = Usage()
    wall_clock_s: float = 0.0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    last_seq: int = -1
    first_prompt: str | None = None
    """The first that is more than a greeting."""
    kinds: dict[str, int] = msgspec.field(default_factory=dict)
    recent_calls: tuple[RecentCall, ...] = ()
    """The last calls, oldest first: one of the next calls may repeat one that failed."""
    copied_until: datetime | None = None
    """The time of the latest copy."""
    origins: tuple[str, ...] = ()
    """The sessions that its copies are from, the one of the last copy at the end."""

    def add(self, events: Iterable[SessionEvent]) -> Tally:
        """Return the totals with these events, which follow those added before."""
        total = _Total(self)
        for event in events:
            total.add(event)
        return total.to_tally()

    def alone(self) -> Tally:
        """Return the totals of a session that has no other stream."""
        wall_clock_s = self.wall_clock_s
        if self.started_at is not None and self.ended_at is not None:
            wall_clock_s = min(wall_clock_s, (self.ended_at - self.started_at).total_seconds())
        return msgspec.structs.replace(
            self, wall_clock_s=wall_clock_s, first_prompt=self.first_prompt or None, recent_calls=()
        )

    @property
    def reached_at(self) -> datetime | None:
        """The time of the latest event, copies included."""
        times = [time for time in (self.ended_at, self.copied_until) if time is not None]
        return max(times, default=None)

    @property
    def cost(self) -> Cost:
        """The cost of a session, without a price."""
        return Cost(
            **msgspec.structs.asdict(self.usage),
            wall_clock_s=self.wall_clock_s,
            turns=self.turns,
            retries=self.retries,
        )


class _Total:
    """A tally that changes while events are added to it."""

    def __init__(self, tally: Tally) -> None:
        self.events, self.copies, self.errors = tally.events, tally.copies, tally.errors
        self.turns, self.retries = tally.turns, tally.retries
        self.wall_clock_s, self.started_at, self.ended_at = (
            tally.wall_clock_s,
            tally.started_at,
            tally.ended_at,
        )
        self.last_seq, self.first_prompt, self.kinds = (
            tally.last_seq,
            tally.first_prompt,
            dict(tally.kinds),
        )
        self.recent, self.usages = RecentCalls(tally.recent_calls), [tally.usage]
        self.copied_until, self.origins = tally.copied_until, dict.fromkeys(tally.origins)

    def add(self, event: SessionEvent) -> None:
        kind = event.kind
        self.events += 1
        if event.seq > self.last_seq:
            self.last_seq = event.seq
        if kind == "user_msg" and not self.first_prompt and not is_small_talk(event.summary or ""):
            self.first_prompt = event.summary
        if event.origin is not None:
            self._add_copy(event.origin, event.ts)
            return
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if event.ts is not None:
            self._add_time(event.ts)
        if event.usage is not None:
            self.usages.append(event.usage)
        if kind in CALL_KINDS:
            self.retries += self.recent.add(event)
        elif kind == "user_msg":
            self.turns += begins_turn(event)
        elif kind == "retry":
            self.retries += 1
        if event.is_error:
            self.errors += 1
            if kind not in CALL_KINDS:
                self.recent.mark_failed(event.call_id)
        elif kind == "error":
            self.errors += 1

    def _add_copy(self, origin: str, ts: datetime | None) -> None:
        self.copies += 1
        if uid := origin.rpartition("#")[0]:  # The original may have been forgotten.
            self.origins.pop(uid, None)
            self.origins[uid] = None
        if ts is not None and (self.copied_until is None or ts > self.copied_until):
            self.copied_until = ts

    def _add_time(self, ts: datetime) -> None:
        if self.ended_at is None or self.started_at is None:
            self.started_at = self.ended_at = ts
        elif ts > self.ended_at:
            gap = ts - self.ended_at
            if gap <= PAUSE:
                self.wall_clock_s += gap.total_seconds()
            self.ended_at = ts
        elif ts < self.started_at:
            self.started_at = ts

    def to_tally(self) -> Tally:
        return Tally(
            events=self.events,
            copies=self.copies,
            errors=self.errors,
            turns=self.turns,
            retries=self.retries,
            usage=_sum_usage(self.usages),
            wall_clock_s=self.wall_clock_s,
            started_at=self.started_at,
            ended_at=self.ended_at,
            last_seq=self.last_seq,
            first_prompt=self.first_prompt,
            kinds=self.kinds,
            recent_calls=self.recent.snapshot(),
            copied_until=self.copied_until,
            origins=tuple(self.origins),
        )


def merge(tallies: Iterable[Tally]) -> Tally:
    """Return the totals of a session from those of its streams, in their order.

    The result is not a base for `add`, because it has no last calls.
    """
    parts = list(tallies)
    if len(parts) == 1:
        return parts[0].alone()
    started_at = min(
        (part.started_at for part in parts if part.started_at is not None), default=None
    )
    ended_at = max((part.ended_at for part in parts if part.ended_at is not None), default=None)
    wall_clock_s = sum(part.wall_clock_s for part in parts)
    if started_at is not None and ended_at is not None:
        # Streams that were written at the same time share their minutes.
        wall_clock_s = min(wall_clock_s, (ended_at - started_at).total_seconds())
    counts = {
        name: sum(map(attrgetter(name), parts))
        for name in ("events", "copies", "errors", "turns", "retries")
    }
    return Tally(
        **counts,
        usage=_sum_usage([part.usage for part in parts]),
        wall_clock_s=wall_clock_s,
        started_at=started_at,
        ended_at=ended_at,
        last_seq=max((part.last_seq for part in parts), default=-1),
        first_prompt=next((part.first_prompt for part in parts if part.first_prompt), None),
        kinds=dict(sum((Counter(part.kinds) for part in parts), Counter())),
        copied_until=max(
            (part.copied_until for part in parts if part.copied_until is not None), default=None
        ),
        origins=tuple(dict.fromkeys(uid for part in parts for uid in part.origins)),
    )


def cost_of(events: Iterable[SessionEvent]) -> Cost:
    """Return the cost of all events, including abandoned lines."""
    return Tally().add(in_order(events)).cost


def retries(events: Iterable[SessionEvent]) -> int:
    """Return the number of retries.

    These are retries that the agent recorded, and calls that repeat one of the last few that failed
    (same tool, words and files).
    """
    return Tally().add(in_order(events)).retries


def wall_clock_s(times: Iterable[datetime | None]) -> float:
    """Return the seconds at work: the steps between times in the order given, without pauses.

    Parallel tools write out of order. A time before an earlier one counts 0, and the step after it
    is taken from the latest so far. Taking it from the previous one would count the same time
    twice.
    """
    total, latest = 0.0, None
    for time in times:
        if time is None or (latest is not None and time <= latest):
            continue
        if latest is not None and time - latest <= PAUSE:
            total += (time - latest).total_seconds()
        latest = time
    return total


def _sum_usage(usages: Sequence[Usage]) -> Usage:
    return Usage(**{name: sum(map(attrgetter(name), usages)) for name in Usage.__struct_fields__})
