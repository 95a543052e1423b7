"""The outline of a session: the blocks to show, in order. Their texts are read separately.

A block is one thing to show: a prompt, a reply, a call with its result. Readers show a session a
part at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from .. import query
from ..errors import NotFound
from ..model import CALL_KINDS, USD, Session, SessionEvent
from ..query import names as naming
from ..store import Filter, SessionLine, Store
from ..store.values import Family
from ..timeline import Branch, ToolCall, branches, is_prompt, pairs, turn_numbers, wall_clock_s

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

MAX_GAP_EVENTS = 40
"""Maximum gap between two events that are read together: reading a gap is cheaper than unpacking a
segment twice."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt and what followed, in figures. `usd` is None if no call of it has a price.

    Turns are numbered over the whole session, whatever branch is shown.
    """

    number: int
    seq: int
    calls: int
    errors: int
    tokens: int
    usd: float | None
    seconds: float


class LeftBranch(msgspec.Struct, frozen=True, gc=False):
    """A branch that was abandoned here: its number and its number of events."""

    branch: int
    events: int


class Block(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing to show."""

    form: Form
    event: SessionEvent
    call: ToolCall | None = None
    turn: Turn | None = None
    """Set for the prompt that begins a turn."""
    left: tuple[LeftBranch, ...] = ()
    below: tuple[str, ...] = ()
    """Uids of the subagents that a call started."""
    copied: int = 0
    """For the first of several events copied from another session: their number."""

    @property
    def seqs(self) -> list[int]:
        """The seqs of all events that are shown with it."""
        call = self.call
        shown = (
            [event.seq for event in (call.result, *call.others) if event is not None]
            if call
            else []
        )
        return [self.event.seq, *shown]


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """One branch of a session: its blocks, and its place among the other branches."""

    session: Session
    events: list[SessionEvent]
    """All events of the session, by seq."""
    branches: list[Branch]
    branch: int | None
    """The branch that is shown; None for everything that happened."""
    blocks: list[Block]
    turns: list[Turn]
    children: dict[str, SessionLine]
    names: dict[str, str]
    apart: list[SessionLine]
    """Subagents whose call is not known."""
    family: Family
    """Its figures with its subagents."""


def outline(store: Store, uid: str, branch: int | None = 0) -> Outline:
    """Return the outline of a session. Raises NotFound."""
    session = query.get(store, uid)
    events = store.sessions.events(uid)
    lines = branches(events)
    if branch is not None and branch >= max(1, len(lines)):
        known = "nothing was rewound" if len(lines) < 2 else f"the last is {len(lines) - 1}"
        raise NotFound(f"there is no branch {branch} of {uid}: {known}")
    shown = events if branch is None else events_on_branch(events, lines, branch)
    children = {
        child.uid: child
        for child in store.sessions.select(
            Filter(parent_uid=uid, parents_only=False), sort="started"
        )[::-1]
    }
    turns = build_turns(shown, store.ledger.spent(uid), turn_numbers(events))
    calls = pairs(shown)
    every_call = calls if len(shown) == len(events) else pairs(events)
    started = query.find_pairs(store, uid, every_call, children.values())
    below = query.by_call(started, children.values())
    placed = {uid for uids in below.values() for uid in uids}
    return Outline(
        session=session,
        events=events,
        branches=lines,
        branch=branch,
        blocks=build_blocks(shown, calls, lines if branch is not None else [], below, turns),
        turns=turns,
        children=children,
        names=naming.names(store, [uid, *filter(None, [session.parent_uid]), *children]),
        apart=[
            child
            for child in children.values()
            if child.relation == "subagent" and child.uid not in placed
        ],
        family=store.overview.family(uid),
    )


def events_on_branch(
    events: Sequence[SessionEvent], lines: Sequence[Branch], branch: int
) -> list[SessionEvent]:
    """Return the events of a branch, and of the branches that lead to it up to where it begins."""
    if not lines:
        return list(events)
    wanted: set[int] = set(lines[branch].seqs)
    at = lines[branch].forked_at
    while at is not None:
        above = next(line for line in lines if at in line.seqs)
        wanted.update(line_seq for line_seq in above.seqs if line_seq <= at)
        at = above.forked_at
    return [event for event in events if event.seq in wanted]


def build_blocks(
    shown: Sequence[SessionEvent],
    calls: Sequence[ToolCall],
    lines: Sequence[Branch],
    below: dict[int, tuple[str, ...]],
    turns: Sequence[Turn],
) -> list[Block]:
    """Return the blocks of these events. Results are shown with their call."""
    call_of: dict[int, ToolCall] = {}
    with_call: set[int] = set()
    for pair in calls:
        if pair.call is not None:
            call_of[pair.call.seq] = pair
            if pair.result is not None and belongs(pair.result):
                with_call.add(pair.result.seq)
            with_call.update(event.seq for event in pair.others if belongs(event))
    left: dict[int, list[LeftBranch]] = {}
    for number, line in enumerate(lines[1:], 1):
        if line.forked_at is not None:
            left.setdefault(line.forked_at, []).append(LeftBranch(number, len(line.seqs)))
    copied = _runs_of_copies(shown)
    turn_at = {turn.seq: turn for turn in turns}
    blocks = []
    for event in shown:
        if event.seq in with_call and not left.get(event.seq):
            continue
        blocks.append(
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
    return blocks


def form_of(event: SessionEvent) -> Form:
    """Return the form in which an event is shown."""
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
    """Return True if the event is shown with its call, not as a block of its own."""
    return event.kind in _BELONG


def _runs_of_copies(shown: Sequence[SessionEvent]) -> dict[int, int]:
    """Return the length of each run of copied events, by the seq of its first."""
    lengths: dict[int, int] = {}
    first: int | None = None
    for event in shown:
        if event.origin is None:
            first = None
        else:
            first = event.seq if first is None else first
            lengths[first] = lengths.get(first, 0) + 1
    return lengths


def build_turns(
    shown: Sequence[SessionEvent],
    spent: Iterable[tuple[int, int, int | None]],
    numbers: dict[int, int],
) -> list[Turn]:
    """Return every turn in figures. A call is charged to the turn in which it was made.

    `numbers` are those of `turn_numbers`.
    """
    grouped: list[list[SessionEvent]] = []
    turn_of: dict[int, int] = {}
    for event in shown:
        if event.seq in numbers:
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
            number=numbers[events[0].seq],
            seq=events[0].seq,
            calls=sum(event.kind in CALL_KINDS for event in events),
            errors=sum(
                event.origin is None and (event.is_error or event.kind == "error")
                for event in events
            ),
            tokens=tokens[place],
            usd=units[place] / USD if place in units else None,
            seconds=wall_clock_s(event.ts for event in events),
        )
        for place, events in enumerate(grouped)
    ]


def texts(store: Store, uid: str, blocks: Iterable[Block]) -> dict[int, str]:
    """Return the bodies of all events of these blocks, by seq."""
    return bodies_of(store, uid, (seq for block in blocks for seq in block.seqs))


def bodies_of(store: Store, uid: str, seqs: Iterable[int]) -> dict[int, str]:
    """Return the bodies of exactly these events, by seq."""
    wanted = sorted(set(seqs))
    bodies: dict[int, str] = {}
    start = 0
    for n in range(1, len(wanted) + 1):
        if n == len(wanted) or wanted[n] - wanted[n - 1] > MAX_GAP_EVENTS:
            bodies.update(store.sessions.bodies(uid, wanted[start], wanted[n - 1]))
            start = n
    keep = set(wanted)
    return {seq: body for seq, body in bodies.items() if seq in keep}
