"""The quality of a session: real work, trivial, automated, one-shot, or a subagent's.

A pure function over events. The limits are the user's (`[quality]` in config.toml). The author of a
prompt is not recorded. A program is recognized by the pace at which it answers, by prompts that
read like a system prompt, or by the user's own configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta

from ..config import Quality as Limits
from ..model import Relation, SessionEvent, is_own
from ..timeline import active, in_order, prompts
from . import Quality

LONG_PROMPT = 60
"""Words. People who begin with a role write little more than that; programs continue with a page of
rules."""
DEFAULT = Limits()
MIN_GAPS = 3
"""Fewer gaps may be prompts that a person typed while the agent was at work."""
_ROLE = re.compile(
    r"(?:you are|you're|act as|your (?:task|job|role) is) (?:a|an|the|to)\b", re.IGNORECASE
)


def quality(events: Iterable[SessionEvent], bodies: Mapping[int, str], relation: (
    Relation | None
) = None, limits: Limits = DEFAULT) -> Quality:  # fmt: skip
    """Return the class of a session.

    With the relation `subagent` it is a subagent's, whatever it holds.
    """
    if relation == "subagent":
        return "subagent"
    line = active(in_order(events).own)
    if line and all(event.is_sidechain for event in line):
        return "subagent"
    typed = [event for event in prompts(line) if not event.is_sidechain]
    if _is_automated(typed, line, bodies, limits):
        return "automated"
    if len(typed) <= 1:
        calls = [event for event in line if event.is_call and not is_own(event.tool)]
        if len(calls) < limits.trivial_calls and not any(event.kind == "edit" for event in calls):
            return "trivial"
        if len(calls) <= limits.one_shot_calls:
            return "one_shot"
    return "real"


def _is_automated(
    prompts: list[SessionEvent], line: list[SessionEvent], bodies: Mapping[int, str], limits: Limits
) -> bool:
    if not prompts:
        return False
    first = bodies.get(prompts[0].seq, prompts[0].summary or "").strip()
    if limits.is_automated(first):
        return True
    if len(prompts) == 1:
        return (
            _ROLE.match(first) is not None and len(first.split(maxsplit=LONG_PROMPT)) > LONG_PROMPT
        )
    return _is_too_fast(prompts, line, timedelta(seconds=limits.pace_s))


def _is_too_fast(prompts: list[SessionEvent], line: list[SessionEvent], pace: timedelta) -> bool:
    """Return True if every prompt but the first came sooner after the agent than anyone types."""
    starts = {event.seq for event in prompts[1:]}
    if len(starts) < MIN_GAPS:
        return False
    last = None
    for event in line:
        if event.seq in starts:
            if event.ts is None or last is None or not timedelta(0) <= event.ts - last < pace:
                return False
        elif event.role in ("assistant", "tool"):
            last = event.ts or last
    return True
