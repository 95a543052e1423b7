"""The lessons that a session got because it asked.

They are in the answers of our own tool, and so in the transcript. The transcript is the most
reliable record of it: the server cannot know which session asks, and a file of its own could be
lost and would have to be forgotten together with the session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ..model import RequestedLesson, SessionEvent, is_own
from ..text.tokens import tokens

MAX_LESSONS = 40
MAX_ANSWER_CHARS = 256 << 10
"""Characters of an answer that are looked at. Our own answers have at most half as many."""

# As text or as the structured form, both perhaps inside JSON, once or twice: then a line ends with
# a backslash and an n, and there are backslashes before each quote. Their number is bounded,
# because a text may consist of them.
_LESSON = re.compile(
    r"(?:^|\n|\\n)([a-z0-9][a-z0-9-]{0,63}) \(approved\): "
    r'|"id\\{0,3}": ?\\{0,3}"([a-z0-9][a-z0-9-]{0,63})\\{0,3}", ?\\{0,3}"status\\{0,3}":'
    r' ?\\{0,3}"approved\\{0,3}"'
)


def find_requested_lessons(
    events: Sequence[SessionEvent], bodies: Mapping[int, str]
) -> list[RequestedLesson]:
    """Return the lessons in the order of their first answer.

    Copies from another session count there.
    """
    lessons: dict[str, RequestedLesson] = {}
    for event in _iter_answers(events):
        body = bodies.get(event.seq, "")[:MAX_ANSWER_CHARS]
        cost = tokens(body)
        for lesson in dict.fromkeys(
            text or structured for text, structured in _LESSON.findall(body)
        ):
            known = lessons.get(lesson) or RequestedLesson(
                lesson=lesson, seq=event.seq, at=event.ts
            )
            lessons[lesson] = msgspec.structs.replace(known, tokens=known.tokens + cost)
    return list(lessons.values())


def _iter_answers(events: Sequence[SessionEvent]) -> Iterator[SessionEvent]:
    """Yield the results of calls of our own `lessons` tool."""
    tools = {
        tool
        for tool in {event.tool for event in events}
        if tool and is_own(tool) and tool.lower().endswith("lessons")
    }
    if not tools:
        return
    calls = {event.call_id for event in events if event.tool in tools} - {None}
    for event in events:
        if (
            event.kind == "tool_result"
            and event.origin is None
            and (event.tool in tools or event.call_id in calls)
        ):
            yield event
