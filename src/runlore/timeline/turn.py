"""Prompts with what followed them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..model import SessionEvent
from .branch import in_order
from .prompt import begins_turn, is_prompt


class Turn(msgspec.Struct, frozen=True):
    """A prompt and the events until the next one.

    Events before the first prompt are a turn without one.
    """

    prompt: SessionEvent | None
    events: list[SessionEvent]
    """The prompt is the first of them."""


def turns(events: Iterable[SessionEvent]) -> list[Turn]:
    """Return all events in turns, by seq.

    Rewound turns are included: pass `active(events)` to leave them out.
    """
    result: list[Turn] = []
    for event in in_order(events):
        if is_prompt(event):
            result.append(Turn(event, []))
        elif not result:
            result.append(Turn(None, []))
        result[-1].events.append(event)
    return result


def turn_numbers(events: Iterable[SessionEvent]) -> dict[int, int]:
    """Return the number of each turn of a session, by the seq of the event that begins it.

    There are as many as the session's cost says. Rewound turns count, because they were paid for;
    so pass all events, and a turn has the same number on every branch.
    """
    begun = (event.seq for event in in_order(events) if begins_turn(event))
    return {seq: number for number, seq in enumerate(begun, 1)}
