"""Tool calls with their results."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from ..model import CALL_KINDS, SessionEvent
from .branch import in_order

MAX_OUT_OF_ORDER = 8
"""The number of events by which a result may precede its call. Parallel calls are written out of
order."""
_ANSWERS = frozenset({"tool_result", "human_intervention", "decision", "error"})
_PAIRED_WITHOUT_ID = CALL_KINDS | {"tool_result"}
"""The kinds that are a call or a result even without a call id."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call and its result.

    Either may be missing: the session was cut off, or is still running.
    """

    call: SessionEvent | None
    result: SessionEvent | None
    others: tuple[SessionEvent, ...] = ()
    """Further events with the same call id: a repeated call, a second result, a permission given in
    between."""

    @property
    def is_pending(self) -> bool:
        return self.result is None

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.is_error

    @property
    def duration_ms(self) -> int | None:
        """The recorded duration, or the time between call and result; None if unknown."""
        for event in (self.result, self.call):
            if event is not None and event.duration_ms is not None:
                return event.duration_ms
        if (
            self.call is None
            or self.result is None
            or self.call.ts is None
            or self.result.ts is None
        ):
            return None
        between = (self.result.ts - self.call.ts) // timedelta(milliseconds=1)
        return between if between >= 0 else None


def pairs(events: Iterable[SessionEvent]) -> list[ToolCall]:
    """Return every call with its result, in the order in which they begin.

    Results without a call stand alone. The result is the first later `tool_result` with the same
    call id, or one a few events earlier. If there is none, it is what was given in its place: a
    refusal, an answer, an error. A call id that is used again after its result begins a new pair,
    because some agents restart their ids in each turn.
    """
    grouping = _Grouping()
    for event in in_order(events):
        if event.call_id is not None:
            grouping.add(event, event.call_id)
        elif event.kind in _PAIRED_WITHOUT_ID:
            grouping.groups.append([event])
    return [_pair(group) for group in grouping.groups]


class _Grouping:
    """Events by the call that they belong to. A group begins with its call, if that is known."""

    def __init__(self) -> None:
        self.groups: list[list[SessionEvent]] = []
        self._latest: dict[str, list[SessionEvent]] = {}
        self._answered: set[str] = set()

    def add(self, event: SessionEvent, call_id: str) -> None:
        kind, group = event.kind, self._latest.get(call_id)
        is_call, is_answer = kind in CALL_KINDS, kind in _ANSWERS
        if group is None:
            if not (is_call or is_answer):
                return
            self._begin(event, call_id)
        elif is_call and not group[0].is_call and event.seq - group[0].seq <= MAX_OUT_OF_ORDER:
            group.insert(0, event)
        elif is_call and call_id in self._answered:
            self._begin(event, call_id)
        else:
            group.append(event)
        if is_answer:
            self._answered.add(call_id)

    def _begin(self, event: SessionEvent, call_id: str) -> None:
        self._latest[call_id] = [event]
        self.groups.append(self._latest[call_id])
        self._answered.discard(call_id)


def _pair(events: list[SessionEvent]) -> ToolCall:
    call = events[0] if events[0].kind in CALL_KINDS else None
    # Nearly all pairs.
    if call is not None and len(events) == 2 and events[1].kind == "tool_result":
        return ToolCall(call=call, result=events[1])
    answers = [event for event in events if event.kind in _ANSWERS]
    result = next(
        (event for event in answers if event.kind == "tool_result"), answers[0] if answers else None
    )
    return ToolCall(
        call=call,
        result=result,
        others=tuple(event for event in events if event is not call and event is not result),
    )
