"""Pure views of a list of events: which line is active, what the model saw, which result belongs to which call.

Nothing here reads a file or knows an agent's name, nothing is written back, and no event is ever dropped: a view says how
to look at what happened. Events may come in any order. One whose parent is not in the list is a root, and roots follow
each other: a resumed session, a compaction that starts a new chain, an agent that links nothing at all. All loops are flat
and linear but for sorting, so a chain of 100,000 events is as good as one of ten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter

import msgspec

from .retry import Kept, Recent
from ..model import CALL_KINDS, Cost, Session, SessionEvent, Usage

PAUSE = timedelta(minutes=10)
"""A longer silence is a break and not work. The same time makes a session quiet enough for its digest."""

SEEN_KINDS = CALL_KINDS | {"user_msg", "assistant_msg", "thinking", "tool_result", "decision"}
"""What the model sees. All other kinds are seen only where `view` says so, or as the answer to a call."""

_OUT_OF_ORDER = 8  # events that a result may stand in front of its call; one has been seen, parallel calls make it more
_ANSWERS = frozenset({"tool_result", "human_intervention", "decision", "error"})
_MAY_BE_PROMPT = frozenset({"user_msg", "human_intervention"})
_WITHOUT_ID = CALL_KINDS | {"tool_result"}
"""What is a call or a result also when no id says which."""


class Ordered(list[SessionEvent]):
    """Events by seq, for who asks several views about the same ones: none of them sorts again, and what one has found the others know."""

    @cached_property
    def prompts(self) -> list[SessionEvent]:
        return [event for event in self if event.kind in _MAY_BE_PROMPT and is_prompt(event)]  # A third of the time of asking all.

    @cached_property
    def failures(self) -> list[SessionEvent]:
        """Those that are reported as such."""
        return [event for event in self if event.is_error]

    @cached_property
    def starts(self) -> set[int]:
        """The prompts that begin an abandoned line. Most sessions have none, and that is soon told."""
        return _line_starts(self)

    @cached_property
    def lines(self) -> list[list[SessionEvent]]:
        """The active line first, then those that rewinds have left behind; nothing where there are none."""
        return _pick(self, branches(self)) if self.starts else []

    @property
    def own(self) -> Ordered:
        """Those that happened here: copies of another session's count there."""
        return self if self._own is None else self._own  # Remembered, it would refer to itself, and stay until someone looks for cycles.

    @property
    def main(self) -> Ordered:
        """Those of no inline side chain; all where all are of one, as in a subagent's session."""
        return self._main or self

    @cached_property
    def _own(self) -> Ordered | None:
        is_all = list(map(_origin, self)).count(None) == len(self)
        return None if is_all else Ordered([event for event in self if event.origin is None])

    @cached_property
    def _main(self) -> Ordered | None:
        return Ordered([event for event in self if not event.is_sidechain]) if any(map(_is_sidechain, self)) else None


_seq, _origin, _is_sidechain = attrgetter("seq"), attrgetter("origin"), attrgetter("is_sidechain")


def in_order(events: Iterable[SessionEvent]) -> Ordered:
    if isinstance(events, Ordered):
        return events
    found = Ordered(events)
    found.sort(key=_seq)
    return found


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a session: the active one, or what a rewind left behind. Each event is in exactly one."""

    seqs: tuple[int, ...]
    """In ascending order."""
    is_active: bool
    forked_at: int | None
    """The event that an abandoned line leaves its own line at; None for the active one."""

    @property
    def leaf(self) -> int:
        """The last event of the line."""
        return self.seqs[-1]


def branches(events: Iterable[SessionEvent]) -> list[Branch]:
    """All lines, the active one first, then the abandoned ones in the order they began. Without events there are none.

    A rewind shows as an event that two or more prompts follow directly. The prompt whose descendants hold the latest
    event goes on with its line, the others begin a line of their own; so it is also within an abandoned line. Anything
    else that follows the same event (the results of parallel calls) is part of the line. A session that was rewound to
    nothing has two prompts as roots, and roots are a sequence: both are active.
    """
    ordered = in_order(events)
    starts = ordered.starts
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
    return [Branch(seqs=tuple(seqs), is_active=n == 0, forked_at=forks[n]) for n, seqs in enumerate(lines) if seqs]


def active(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """The events that no rewind has left behind, by seq."""
    ordered = in_order(events)
    return ordered.lines[0] if ordered.lines else ordered


def abandoned(events: Iterable[SessionEvent]) -> list[list[SessionEvent]]:
    """What rewinds have left behind, one list for each abandoned line."""
    return in_order(events).lines[1:]


def is_prompt(event: SessionEvent) -> bool:
    """Whether this is what a person typed: a message, or a command like `/compact` or `!ls`.

    In a subagent's session (`is_sidechain`) it is what the agent above wrote in the person's place.
    """
    # An interrupt, a refusal or an answer is an intervention as well, but it does not begin anything.
    return event.kind == "user_msg" or (event.kind == "human_intervention" and event.call_id is None and _is_command(event))


def prompts(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Those that a person typed, in the order given."""
    return events.prompts if isinstance(events, Ordered) else [event for event in events if is_prompt(event)]


class Seen(msgspec.Struct, frozen=True):
    """An event in the model's context. When `is_cleared`, the model saw that there was a result, but not its text."""

    event: SessionEvent
    is_cleared: bool = False


def seen_by_model(events: Iterable[SessionEvent], at: int) -> list[Seen]:
    """What was in the model's context when event `at` had happened, by seq.

    That is the line that leads to `at`, with everything applied that the agent did to its context on it: the last
    compaction, cleared results, retracted messages. A session's inline side chains are seen only from within.
    """
    line = active(event for event in events if event.seq <= at)  # `at` is the latest of these: its line is the active one
    if not line:
        return []
    here = line[-1]
    line = [event for event in line if event.is_sidechain == here.is_sidechain and event.session_uid == here.session_uid]
    left, cleared_at = _left_context(line)
    return [
        Seen(event, not event.is_call and event.call_id is not None and event.seq < cleared_at.get(event.call_id, -1))
        for event in line
        if event.seq not in left and _is_visible(event)
    ]


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call and its result. Either may be missing: the session was cut off, or is still at work."""

    call: SessionEvent | None
    result: SessionEvent | None
    others: tuple[SessionEvent, ...] = ()
    """Further events with the same call id: a call told twice, a second result, a permission given in between."""

    @property
    def is_pending(self) -> bool:
        return self.result is None

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.is_error

    @property
    def duration_ms(self) -> int | None:
        """As the agent says, or the time between the two; None when neither is known."""
        for event in (self.result, self.call):
            if event is not None and event.duration_ms is not None:
                return event.duration_ms
        if self.call is None or self.result is None or self.call.ts is None or self.result.ts is None:
            return None
        between = (self.result.ts - self.call.ts) // timedelta(milliseconds=1)
        return between if between >= 0 else None


def pairs(events: Iterable[SessionEvent]) -> list[ToolCall]:
    """Every call with its result, in the order in which they begin; results without a call stand on their own.

    The result is the first later `tool_result` with the same call id (a few events earlier will do: some agents write out
    of order); where there is none, what was said in its place: a refusal, an answer, an error. An id that is used again
    after its result begins a new pair: some agents count their calls anew in each turn.
    """
    found: list[list[SessionEvent]] = []  # each begins with its call, if that is known
    latest: dict[str, list[SessionEvent]] = {}
    answered: set[str] = set()
    for event in in_order(events):
        call_id, kind = event.call_id, event.kind
        if call_id is None:  # Half of all.
            if kind in _WITHOUT_ID:
                found.append([event])
            continue
        same = latest.get(call_id)
        if same is not None and kind == "tool_result":  # Half of the others.
            same.append(event)
            answered.add(call_id)
            continue
        is_call, is_answer = kind in CALL_KINDS, kind in _ANSWERS
        if same is None:
            is_new = is_call or is_answer
        elif is_call and not same[0].is_call and event.seq - same[0].seq <= _OUT_OF_ORDER:
            same.insert(0, event)
            is_new = False
        else:
            is_new = is_call and call_id in answered
            if not is_new:
                same.append(event)
        if is_new:
            found.append([event])
            latest[call_id] = found[-1]
            answered.discard(call_id)
        if is_answer:
            answered.add(call_id)
    return [_paired(group) for group in found]


class Turn(msgspec.Struct, frozen=True):
    """A prompt and what followed until the next one. What came before the first prompt is a turn without one."""

    prompt: SessionEvent | None
    events: list[SessionEvent]
    """The prompt is the first of them."""


def turns(events: Iterable[SessionEvent]) -> list[Turn]:
    """All events in turns, by seq. Rewound turns are among them: hand in `active(events)` to have the others only."""
    found: list[Turn] = []
    for event in in_order(events):
        if is_prompt(event):
            found.append(Turn(event, []))
        elif not found:
            found.append(Turn(None, []))
        found[-1].events.append(event)
    return found


class Node(msgspec.Struct, frozen=True):
    """A session in the tree of sessions, with its subagents below it."""

    session: Session
    children: list[Node]
    follows: str | None = None
    """The session that this one is a fork or a continuation of, whether or not it is in the list."""


def nest(sessions: Iterable[Session]) -> list[Node]:
    """Subagents under the session that started them, all else side by side, in the order given.

    A session whose parent is not in the list is a root. Where parents lead in a circle, one of them is made a root.
    """
    nodes = [Node(session, [], None if session.relation == "subagent" else session.parent_uid) for session in sessions]
    by_uid: dict[str, Node] = {}
    for node in nodes:
        by_uid.setdefault(node.session.session_uid, node)
    above = _parents(by_uid)
    roots: list[Node] = []
    for node in nodes:
        parent = above[node.session.session_uid]
        (roots if parent is None else by_uid[parent].children).append(node)
    return roots


def walk(nodes: Iterable[Node]) -> Iterator[tuple[int, Node]]:
    """Every node with its depth, each before its children: the order in which a list shows them."""
    rest = [(0, node) for node in nodes][::-1]
    while rest:
        depth, node = rest.pop()
        yield depth, node
        rest.extend((depth + 1, child) for child in reversed(node.children))


def _is_command(event: SessionEvent) -> bool:
    return (event.summary or "").startswith(("/", "!"))


def _line_starts(ordered: Ordered) -> set[int]:
    """Of several prompts that follow the same event, all but the one that went on."""
    alternatives = _alternatives(ordered)
    if not alternatives:
        return set()
    latest: dict[int, int] = {}
    for event in reversed(ordered):  # parents lie in front of their children, so this meets the children first
        last, parent = latest.setdefault(event.seq, event.seq), event.parent_seq
        if parent is not None and last > latest.get(parent, -1):
            latest[parent] = last
    return {seq for prompts in alternatives for seq in sorted(prompts, key=latest.__getitem__)[:-1]}


def _alternatives(ordered: Ordered) -> list[list[int]]:
    """The prompts that follow the same event, where there are several, the last one first."""
    counts = Counter([event.parent_seq for event in ordered.prompts if event.parent_seq is not None])
    shared = {seq for seq, count in counts.items() if count > 1}
    parents = {event.seq: event for event in ordered if event.seq in shared} if shared else {}
    found: dict[int, list[int]] = {}
    for event in reversed(ordered.prompts) if parents else ():
        parent = None if event.parent_seq is None else parents.get(event.parent_seq)
        if parent is None or event.is_sidechain != parent.is_sidechain:
            continue
        # Some agents hang every local command on the same note of theirs. To show too much is better than to hide a session.
        if not (parent.kind == "lifecycle" and _is_command(event)):
            found.setdefault(parent.seq, []).append(event.seq)
    return [seqs for seqs in found.values() if len(seqs) > 1]


def _pick(ordered: Sequence[SessionEvent], lines: Sequence[Branch]) -> list[list[SessionEvent]]:
    by_seq = {event.seq: event for event in ordered}
    return [[by_seq[seq] for seq in line.seqs] for line in lines]


def _paired(events: list[SessionEvent]) -> ToolCall:
    call = events[0] if events[0].kind in CALL_KINDS else None
    if call is not None and len(events) == 2 and events[1].kind == "tool_result":  # Nearly all.
        return ToolCall(call=call, result=events[1])
    answers = [event for event in events if event.kind in _ANSWERS]
    result = next((event for event in answers if event.kind == "tool_result"), answers[0] if answers else None)
    return ToolCall(call=call, result=result, others=tuple(event for event in events if event is not call and event is not result))


def _is_visible(event: SessionEvent) -> bool:
    is_answer = event.kind == "human_intervention" and event.call_id is not None
    return is_answer or event.kind in SEEN_KINDS or event.view in ("context", "summary")


def _left_context(line: Sequence[SessionEvent]) -> tuple[set[int], dict[str, int]]:
    """Which events of the line the agent took out of the context, and for each call id when its result was last cleared."""
    left: set[int] = set()
    cleared_at: dict[str, int] = {}
    compaction: SessionEvent | None = None
    acts = [event for event in line if event.view in ("compact", "clear", "retract")]
    named = _by_native_id(line) if acts else {}
    for act in reversed(acts):  # What was taken back later on does nothing any more.
        if act.view == "retract" and act.seq not in left:
            left.update(seq for seq in _resolve(act.refs, line, named) if seq < act.seq)
    for act in acts:
        if act.seq in left:
            continue
        if act.view == "clear":
            cleared_at.update(dict.fromkeys(act.refs, act.seq))
        elif act.view == "compact":
            compaction = act
    if compaction is not None:
        kept = _resolve(compaction.refs, line, named)
        left.update(event.seq for event in line if event.seq < compaction.seq and event.seq not in kept)
    return left, cleared_at


def _by_native_id(line: Sequence[SessionEvent]) -> dict[str, list[SessionEvent]]:
    """The events that an id names: a record's id, which its first event has, names those of its further blocks (`id#1`) too."""
    named: dict[str, list[SessionEvent]] = {}
    for event in line:
        if event.native_id is not None:
            record, mark, block = event.native_id.rpartition("#")
            named.setdefault(event.native_id, []).append(event)
            if mark and block.isdigit():
                named.setdefault(record, []).append(event)
    return named


def _resolve(refs: Sequence[str], line: Sequence[SessionEvent], named: dict[str, list[SessionEvent]]) -> set[int]:
    """The events that refs stand for: native ids, or `head, "..", tail` for all on the way up from the tail to the head.

    The results of the calls on that way belong to it: those of parallel calls lie beside it.
    """
    found = {event.seq for ref in refs for event in named.get(ref, ())}
    segments = [(refs[n - 1], refs[n + 1]) for n in range(1, len(refs) - 1) if refs[n] == ".."]
    if not segments:
        return found
    by_seq = {event.seq: event for event in line}
    calls: set[str] = set()
    for head, tail in segments:
        if head not in named or tail not in named:
            continue
        event: SessionEvent | None = named[tail][-1]
        while event is not None and event.seq >= named[head][0].seq:
            found.add(event.seq)
            if event.is_call and event.call_id is not None:
                calls.add(event.call_id)
            event = None if event.parent_seq is None else by_seq.get(event.parent_seq)
    found.update(event.seq for event in line if event.call_id in calls)
    return found


def _parents(by_uid: dict[str, Node]) -> dict[str, str | None]:
    """For each session the one that it stands below, without circles."""
    above: dict[str, str | None] = {}
    for uid, node in by_uid.items():
        parent = node.session.parent_uid
        above[uid] = parent if node.session.relation == "subagent" and parent in by_uid else None
    checked: set[str] = set()
    for uid in above:
        path: set[str] = set()
        here: str | None = uid
        while here is not None and here not in checked and here not in path:
            path.add(here)
            here = above[here]
        if here in path:
            above[here] = None
        checked |= path
    return above


class Tally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Running totals of one stream of a session: what a sync keeps, so that the next one reads only what is new.

    **Adding in pieces equals adding at once**, wherever the stream is cut. Rewound events count: they were paid for. A
    copy (`origin`) was counted where it happened; here it is one of `events`, and may give the first prompt.
    """

    events: int = 0
    copies: int = 0
    errors: int = 0
    turns: int = 0
    """Messages of people; what an agent wrote to its subagent is none."""
    retries: int = 0
    usage: Usage = Usage()
    wall_clock_s: float = 0.0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    last_seq: int = -1
    first_prompt: str | None = None
    kinds: dict[str, int] = msgspec.field(default_factory=dict)
    recent_calls: tuple[Kept, ...] = ()
    """The last calls, oldest first: one of the next may repeat one that failed."""

    def add(self, events: Iterable[SessionEvent]) -> Tally:
        """The totals with these events, which follow those added before."""
        # Every event of a sync passes here, hence one loop over local variables: 0.5 µs for an event.
        count, copies, errors, prompts, retries = self.events, self.copies, self.errors, self.turns, self.retries
        wall_clock_s, started_at, ended_at = self.wall_clock_s, self.started_at, self.ended_at
        last_seq, first_prompt, kinds = self.last_seq, self.first_prompt, dict(self.kinds)
        recent, usages = Recent(self.recent_calls), [self.usage]
        for event in events:
            count += 1
            kind = event.kind
            if event.seq > last_seq:
                last_seq = event.seq
            if kind == "user_msg" and not first_prompt:
                first_prompt = event.summary
            if event.origin is not None:
                copies += 1
                continue

            kinds[kind] = kinds.get(kind, 0) + 1
            ts = event.ts
            if ts is not None:
                if ended_at is None or started_at is None:
                    started_at = ended_at = ts
                elif ts > ended_at:
                    gap = ts - ended_at
                    if gap <= PAUSE:
                        wall_clock_s += gap.total_seconds()
                    ended_at = ts
                elif ts < started_at:
                    started_at = ts
            if event.usage is not None:
                usages.append(event.usage)

            if kind in CALL_KINDS:
                retries += recent.is_repeated_by(event)
            elif kind == "user_msg":
                prompts += not event.is_sidechain and event.role in ("user", None)
            elif kind == "retry":
                retries += 1
            if event.is_error:
                errors += 1
                if kind not in CALL_KINDS:
                    recent.mark_failed(event.call_id)
            elif kind == "error":
                errors += 1
        return Tally(
            events=count,
            copies=copies,
            errors=errors,
            turns=prompts,
            retries=retries,
            usage=_sum_usage(usages),
            wall_clock_s=wall_clock_s,
            started_at=started_at,
            ended_at=ended_at,
            last_seq=last_seq,
            first_prompt=first_prompt,
            kinds=kinds,
            recent_calls=recent.kept(),
        )

    def alone(self) -> Tally:
        """As the totals of a session that has no other stream."""
        wall_clock_s = self.wall_clock_s
        if self.started_at is not None and self.ended_at is not None:
            wall_clock_s = min(wall_clock_s, (self.ended_at - self.started_at).total_seconds())
        return msgspec.structs.replace(self, wall_clock_s=wall_clock_s, first_prompt=self.first_prompt or None, recent_calls=())

    @property
    def cost(self) -> Cost:
        """As a session carries it; prices are not known here."""
        return Cost(**msgspec.structs.asdict(self.usage), wall_clock_s=self.wall_clock_s, turns=self.turns, retries=self.retries)


def merge(tallies: Iterable[Tally]) -> Tally:
    """The totals of a session from those of its streams, in their order. Nothing can be added to it: it has no last call."""
    parts = list(tallies)
    if len(parts) == 1:
        return parts[0].alone()
    started_at = min((part.started_at for part in parts if part.started_at is not None), default=None)
    ended_at = max((part.ended_at for part in parts if part.ended_at is not None), default=None)
    wall_clock_s = sum(part.wall_clock_s for part in parts)
    if started_at is not None and ended_at is not None:
        # Streams that were written at the same time share their minutes.
        wall_clock_s = min(wall_clock_s, (ended_at - started_at).total_seconds())
    return Tally(
        events=sum(part.events for part in parts),
        copies=sum(part.copies for part in parts),
        errors=sum(part.errors for part in parts),
        turns=sum(part.turns for part in parts),
        retries=sum(part.retries for part in parts),
        usage=_sum_usage([part.usage for part in parts]),
        wall_clock_s=wall_clock_s,
        started_at=started_at,
        ended_at=ended_at,
        last_seq=max((part.last_seq for part in parts), default=-1),
        first_prompt=next((part.first_prompt for part in parts if part.first_prompt), None),
        kinds=dict(sum((Counter(part.kinds) for part in parts), Counter())),
    )


def cost_of(events: Iterable[SessionEvent]) -> Cost:
    """What all of them took, abandoned lines included."""
    return Tally().add(in_order(events)).cost


def retries(events: Iterable[SessionEvent]) -> int:
    """Retries that the agent told of, and calls that repeat one of the last few that failed (same tool, words and files)."""
    return Tally().add(in_order(events)).retries


def repeats(events: Iterable[SessionEvent]) -> list[int]:
    """The events that `retries` counts, by seq."""
    found: list[int] = []
    recent = Recent()
    for event in in_order(events):
        kind = event.kind
        if event.origin is not None:
            continue
        if kind == "retry" or (kind in CALL_KINDS and recent.is_repeated_by(event)):
            found.append(event.seq)
        if event.is_error and kind not in CALL_KINDS:
            recent.mark_failed(event.call_id)
    return found


def wall_clock_s(times: Iterable[datetime | None]) -> float:
    """Seconds at work: the steps from one time to the next, in the order given, without pauses.

    Parallel tools write out of order, so a time that lies before an earlier one counts 0 and the step after it is taken
    from the latest so far. (Taken from the one before, a real session came out 1.7 times as long as it was.)
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
