"""The model's context: the events that the model saw at a given event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..model import CALL_KINDS, SessionEvent
from .branch import active

CONTEXT_KINDS = CALL_KINDS | {"user_msg", "assistant_msg", "thinking", "tool_result", "decision"}
"""The kinds that the model sees. It sees all others only where `view` says so, or as the answer to
a call."""


class ContextEvent(msgspec.Struct, frozen=True):
    """An event in the model's context.

    If `is_cleared`, the model saw that there was a result, but not its text.
    """

    event: SessionEvent
    is_cleared: bool = False


def model_context(events: Iterable[SessionEvent], at: int) -> list[ContextEvent]:
    """Return what was in the model's context when event `at` had happened, in order.

    That is the line that leads to `at`, with everything applied that the agent did to its context
    on it: the last compaction, cleared results, retracted messages. The events that a compaction
    lists come first, in the order of its list. A session's inline side chains are visible only from
    within.
    """
    # `at` is the latest of these events, so its line is the active one.
    line = active(event for event in events if event.seq <= at)
    if not line:
        return []
    here = line[-1]
    line = [
        event
        for event in line
        if event.is_sidechain == here.is_sidechain and event.session_uid == here.session_uid
    ]
    acts = [event for event in line if event.view in ("compact", "clear", "retract")]
    named = _index_native_ids(line) if acts else {}
    removed, cleared_at, compaction = _find_removed(line, acts, named)
    return [
        ContextEvent(
            event,
            not event.is_call
            and event.call_id is not None
            and event.seq < cleared_at.get(event.call_id, -1),
        )
        for event in _in_listed_order(line, named, compaction)
        if event.seq not in removed and _is_visible(event)
    ]


def _is_visible(event: SessionEvent) -> bool:
    is_answer = event.kind == "human_intervention" and event.call_id is not None
    return is_answer or event.kind in CONTEXT_KINDS or event.view in ("context", "summary")


def _in_listed_order(
    line: Sequence[SessionEvent],
    named: dict[str, list[SessionEvent]],
    compaction: SessionEvent | None,
) -> Iterable[SessionEvent]:
    """Return the line as a compaction arranges it: some agents move the instructions behind older
    prompts. A segment stays as it was."""
    if compaction is None or ".." in compaction.refs:
        return line
    listed = {event.seq: event for ref in compaction.refs for event in named.get(ref, ())}
    return [*listed.values(), *(event for event in line if event.seq not in listed)]


def _find_removed(
    line: Sequence[SessionEvent],
    acts: Sequence[SessionEvent],
    named: dict[str, list[SessionEvent]],
) -> tuple[set[int], dict[str, int], SessionEvent | None]:
    """Return the events that the agent removed from the context, when it cleared results, and the
    compaction that holds.

    The second value has the seq of the last clearing by call id.
    """
    removed: set[int] = set()
    cleared_at: dict[str, int] = {}
    compaction: SessionEvent | None = None
    for act in reversed(acts):  # An act that was itself taken back later has no effect.
        if act.view == "retract" and act.seq not in removed:
            removed.update(seq for seq in _resolve(act.refs, line, named) if seq < act.seq)
    for act in acts:
        if act.seq in removed:
            continue
        if act.view == "clear":
            cleared_at.update(dict.fromkeys(act.refs, act.seq))
        elif act.view == "compact":
            compaction = act
    if compaction is not None:
        exceptions = _resolve(compaction.refs, line, named)
        removed.update(
            event.seq
            for event in line
            if event.seq < compaction.seq and event.seq not in exceptions
        )
    return removed, cleared_at, compaction


def _index_native_ids(line: Sequence[SessionEvent]) -> dict[str, list[SessionEvent]]:
    """Return the events that a native id names.

    The id of a record names its further blocks (`id#1`) too.
    """
    named: dict[str, list[SessionEvent]] = {}
    for event in line:
        if event.native_id is not None:
            record, mark, block = event.native_id.rpartition("#")
            named.setdefault(event.native_id, []).append(event)
            if mark and block.isdigit():
                named.setdefault(record, []).append(event)
    return named


def _resolve(
    refs: Sequence[str], line: Sequence[SessionEvent], named: dict[str, list[SessionEvent]]
) -> set[int]:
    """Return the events that refs stand for.

    Refs are native ids, or `head, "..", tail` for all events from the tail up to the head. The
    results of the calls on that path belong to it, because those of parallel calls lie beside it.
    """
    seqs = {event.seq for ref in refs for event in named.get(ref, ())}
    segments = [(refs[n - 1], refs[n + 1]) for n in range(1, len(refs) - 1) if refs[n] == ".."]
    if not segments:
        return seqs
    by_seq = {event.seq: event for event in line}
    calls: set[str] = set()
    for head, tail in segments:
        if head not in named or tail not in named:
            continue
        event: SessionEvent | None = named[tail][-1]
        while event is not None and event.seq >= named[head][0].seq:
            seqs.add(event.seq)
            if event.is_call and event.call_id is not None:
                calls.add(event.call_id)
            event = None if event.parent_seq is None else by_seq.get(event.parent_seq)
    seqs.update(event.seq for event in line if event.call_id in calls)
    return seqs
