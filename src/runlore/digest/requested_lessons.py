"""The lessons that a session was given because it asked: they stand in the answers of our own tool, and so in the transcript.

That is the surest note of it there is. The server cannot tell which session asks; and a note of its own would be one more file, which
could be lost, and would have to be forgotten with the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ..budget import tokens
from ..model import RequestedLesson, SessionEvent, is_own

MOST_TOLD = 40
"""Lessons. Who asks for more reads none of them."""
LARGEST = 256 << 10
"""Characters of an answer that are looked at: ours have at most half as many."""

# As text, or as the structured form, either of them perhaps inside JSON, once or twice: then a line ends with a backslash and an n, and
# there are some before each quote. Their number is bounded, for a text may have nothing else.
_NAMED = re.compile(
    r"(?:^|\n|\\n)([a-z0-9][a-z0-9-]{0,63}) \(approved\): "
    r'|"id\\{0,3}": ?\\{0,3}"([a-z0-9][a-z0-9-]{0,63})\\{0,3}", ?\\{0,3}"status\\{0,3}": ?\\{0,3}"approved\\{0,3}"'
)


def told_in(events: Sequence[SessionEvent], bodies: Mapping[int, str]) -> list[RequestedLesson]:
    """In the order in which they were first told. What was copied from another session was told there."""
    tools = {tool for tool in {event.tool for event in events} if tool and is_own(tool) and tool.lower().endswith("lessons")}
    if not tools:
        return []
    calls = {event.call_id for event in events if event.tool in tools} - {None}
    found: dict[str, RequestedLesson] = {}
    for event in events:
        if event.kind == "tool_result" and event.origin is None and (event.tool in tools or event.call_id in calls):
            body = bodies.get(event.seq, "")[:LARGEST]
            cost = tokens(body)
            for lesson in dict.fromkeys(text or form for text, form in _NAMED.findall(body)):
                known = found.get(lesson) or RequestedLesson(lesson=lesson, seq=event.seq, at=event.ts)
                found[lesson] = msgspec.structs.replace(known, tokens=known.tokens + cost)
    return list(found.values())
