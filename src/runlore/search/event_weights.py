"""Weights that choose the events to show: words of people before output of tools."""

from __future__ import annotations

from collections.abc import Sequence

from ..store import SegmentEvent
from .text import EventHit

INJECTED_WEIGHT = 1e-6
"""Weight of an event with injected text: any other event with a word comes first."""

KIND_WEIGHTS = {"user_msg": 1.5, "assistant_msg": 1.2, "thinking": 1.0}
OTHER_WEIGHT = 0.8


def weight_of(event: SegmentEvent) -> float:
    """Return the weight of an event with a word of the query."""
    return INJECTED_WEIGHT if event.is_injected else KIND_WEIGHTS.get(event.kind, OTHER_WEIGHT)


def is_all_injected(events: Sequence[EventHit]) -> bool:
    """Return True if an answer has nothing but injected text."""
    return bool(events) and all(event.is_injected for event in events)
