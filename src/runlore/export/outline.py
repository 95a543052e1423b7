"""What there is to show of a session, in which order, and what belongs together. Its texts are
asked for apart, a few at a time.

A block is one thing to show: a prompt, a reply, a call with its result. A session of 20,000 events
is outlined in 0.4 s, and shown a part at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Literal

import msgspec

from .. import naming, query
from ..errors import NotFound
from ..model import CALL_KINDS, USD, Session, SessionEvent, parse_time
from ..store import Filter, SessionLine, Store
from ..timeline import Branch, ToolCall, branches, is_prompt, pairs, wall_clock_s

Form = Literal[
    "prompt",
    "reply",
    "thought",
    "call",
    "person",
    "error",
    "result",
    "compact",
    "summary",
    "cleared",
    "note",
]

NEAR = 40
"""Events between two that are read at once: to unpack a segment twice takes longer than to read
what lies between."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt and what followed, in figures. `usd` is None when no call of it has a price."""

    number: int
    seq: int
    calls: int
    errors: int
    tokens: int
    usd: float | None
    seconds: float


class Left(msgspec.Struct, frozen=True, gc=False):
    """A line that was left behind here: its number, and how many events it has."""

    branch: int
    events: int


class Block(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing to show."""

    form: Form
    event: SessionEvent
    call: ToolCall | None = None
    turn: Turn | None = None
    """Of the prompt that begins one."""
    left: tuple[Left, ...] = ()
    below: tuple[str, ...] = ()
    """The uids of the subagents that a call started."""
    copied: int = 0
    """Of the first event that was copied from another session: how many follow that were."""

    @property
    def seqs(self) -> list[int]:
        """Of all events that are shown with it."""
        call = self.call
        shown = (
            [event.seq for event in (call.result, *call.others) if event is not None]
            if call
            else []
        )
        return [self.event.seq, *shown]


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a session: what is shown of it, and where it stands among the others."""

    session: Session
    events: list[SessionEvent]
    """All of the session, by seq."""
    branches: list[Branch]
    branch: int | None
    """The line that is shown; None: all that happened."""
    blocks: list[Block]
    turns: list[Turn]
    children: dict[str, SessionLine]
    names: dict[str, str]
    apart: list[SessionLine]
    """Subagents that no call is known to have started."""


def outline(store: Store, uid: str, branch: int | None = 0) -> Outline:
    """Raises NotFound."""
    session = query.get(store, uid)
    events = store.sessions.events(uid)
    lines = branches(events)
    if branch is not None and branch >= max(1, len(lines)):
        known = "nothing was rewound" if len(lines) < 2 else f"the last is {len(lines) - 1}"
        raise NotFound(f"there is no branch {branch} of {uid}: {known}")
    shown = events if branch is None else on_line(events, lines, branch)
    children = {
        child.uid: child
        for child in store.sessions.select(
            Filter(parent_uid=uid, parents_only=False), sort="started"
        )[::-1]
    }
    turns = turns_of(shown, store.ledger.spent(uid))
    calls = pairs(shown)
    below = started_by(calls if len(shown) == len(events) else pairs(events), children)
    placed = {uid for uids in below.values() for uid in uids}
    return Outline(
        session=session,
        events=events,
        branches=lines,
        branch=branch,
        blocks=blocks_of(shown, calls, lines if branch is not None else [], below, turns),
        turns=turns,
        children=children,
        names=naming.names(store, [uid, *filter(None, [session.parent_uid]), *children]),
        apart=[
            child
            for child in children.values()
            if child.relation == "subagent" and child.uid not in placed
        ],
    )


def on_line(
    events: Sequence[SessionEvent], lines: Sequence[Branch], branch: int
) -> list[SessionEvent]:
    """The events of a line, and of the lines that lead to it as far as they do."""
    if not lines:
        return list(events)
    wanted: set[int] = set(lines[branch].seqs)
    at = lines[branch].forked_at
    while at is not None:
        above = next(line for line in lines if at in line.seqs)
        wanted.update(line_seq for line_seq in above.seqs if line_seq <= at)
        at = above.forked_at
    return [event for event in events if event.seq in wanted]


def started_by(
    calls: Sequence[ToolCall], children: dict[str, SessionLine]
) -> dict[int, tuple[str, ...]]:
    """By the seq of a call the subagents that it started: those that its result names. Some agents
    name none: then a subagent goes with the first call for one, that has none yet, during which it
    began. `children` are in the order in which they began."""
    found: dict[int, tuple[str, ...]] = {}
    free: list[tuple[datetime, datetime | None, int]] = []
    for pair in calls:
        call, result = pair.call, pair.result
        if call is None:
            continue
        named = tuple(uid for uid in result.refs if uid in children) if result is not None else ()
        if named:
            found[call.seq] = named
        elif call.action == "agent" and call.ts is not None:
            free.append((call.ts, result.ts if result is not None else None, call.seq))
    placed = {uid for uids in found.values() for uid in uids}
    coming, going = deque(sorted(free, key=itemgetter(0, 2))), deque[tuple[datetime | None, int]]()
    for child in children.values() if free else ():
        if child.relation != "subagent" or child.uid in placed or child.started_at is None:
            continue
        began = parse_time(child.started_at)
        while coming and coming[0][0] <= began:
            going.append(coming.popleft()[1:])
        while going and (ended := going[0][0]) is not None and ended < began:
            going.popleft()
        if going:
            found[going.popleft()[1]] = (child.uid,)
    return found


def blocks_of(
    shown: Sequence[SessionEvent],
    calls: Sequence[ToolCall],
    lines: Sequence[Branch],
    below: dict[int, tuple[str, ...]],
    turns: Sequence[Turn],
) -> list[Block]:
    """What is shown of these events. What belongs to a call is shown with the call."""
    call_of: dict[int, ToolCall] = {}
    with_call: set[int] = set()
    for pair in calls:
        if pair.call is not None:
            call_of[pair.call.seq] = pair
            if pair.result is not None and belongs(pair.result):
                with_call.add(pair.result.seq)
            with_call.update(event.seq for event in pair.others if belongs(event))
    left: dict[int, list[Left]] = {}
    for number, line in enumerate(lines[1:], 1):
        if line.forked_at is not None:
            left.setdefault(line.forked_at, []).append(Left(number, len(line.seqs)))
    copied = _runs_of_copies(shown)
    turn_at = {turn.seq: turn for turn in turns}
    found = []
    for event in shown:
        if event.seq in with_call and not left.get(event.seq):
            continue
        found.append(
            Block(
                form=form_of(event),
                event=event,
                call=call_of.get(event.seq),
                turn=turn_at.get(event.seq),
                left=tuple(left.get(event.seq, ())),
                below=below.get(event.seq, ()),
                copied=copied.get(event.seq, 0),
            )
        )
    return found


def form_of(event: SessionEvent) -> Form:
    """How an event is shown."""
    if event.kind in CALL_KINDS:
        return "call"
    if is_prompt(event):
        return "prompt"
    if event.view == "compact":
        return "compact"
    if event.view == "summary":
        return "summary"
    if event.view in ("clear", "retract"):
        return "cleared"
    if event.kind in ("error", "retry") or event.is_error:
        return "error"
    return _FORMS.get(event.kind, "note")


_FORMS: dict[str, Form] = {
    "assistant_msg": "reply",
    "thinking": "thought",
    "human_intervention": "person",
    "tool_result": "result",
    "decision": "result",
    "completion": "result",
}


_BELONG = frozenset({"tool_result", "decision", "human_intervention", "error"})


def belongs(event: SessionEvent) -> bool:
    """Whether it is shown with its call. A message that merely names the call stands for itself."""
    return event.kind in _BELONG


def _runs_of_copies(shown: Sequence[SessionEvent]) -> dict[int, int]:
    """By the first event of each run of copies how many there are."""
    found: dict[int, int] = {}
    first: int | None = None
    for event in shown:
        if event.origin is None:
            first = None
        else:
            first = event.seq if first is None else first
            found[first] = found.get(first, 0) + 1
    return found


def turns_of(
    shown: Sequence[SessionEvent], spent: Iterable[tuple[int, int, int | None]]
) -> list[Turn]:
    """Every turn in figures: calls are charged to the turn in which they were made."""
    grouped: list[list[SessionEvent]] = []
    turn_of: dict[int, int] = {}
    for event in shown:
        if is_prompt(event):
            grouped.append([])
        if grouped:
            grouped[-1].append(event)
            turn_of[event.seq] = len(grouped) - 1
    tokens = [0] * len(grouped)
    units: dict[int, int] = {}
    for seq, total, usd in spent:
        at = turn_of.get(seq)
        if at is None:
            continue
        tokens[at] += total
        if usd is not None:
            units[at] = units.get(at, 0) + usd
    return [
        Turn(
            number=number + 1,
            seq=events[0].seq,
            calls=sum(event.kind in CALL_KINDS for event in events),
            errors=sum(event.is_error or event.kind == "error" for event in events),
            tokens=tokens[number],
            usd=units[number] / USD if number in units else None,
            seconds=wall_clock_s(event.ts for event in events),
        )
        for number, events in enumerate(grouped)
    ]


def texts(store: Store, uid: str, blocks: Iterable[Block]) -> dict[int, str]:
    """The bodies of all that is shown with these blocks, by seq."""
    return bodies_of(store, uid, (seq for block in blocks for seq in block.seqs))


def bodies_of(store: Store, uid: str, seqs: Iterable[int]) -> dict[int, str]:
    """The bodies of these events, and of no others."""
    wanted = sorted(set(seqs))
    found: dict[int, str] = {}
    start = 0
    for n in range(1, len(wanted) + 1):
        if n == len(wanted) or wanted[n] - wanted[n - 1] > NEAR:
            found.update(store.sessions.bodies(uid, wanted[start], wanted[n - 1]))
            start = n
    keep = set(wanted)
    return {seq: body for seq, body in found.items() if seq in keep}
