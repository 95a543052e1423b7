"""A session as lines of JSON: the session first, then its events with their texts.

The field names are those of docs/json.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import SessionEvent
from ..text.clean import encoded, safe_json
from .selection import Selection


def jsonl(selection: Selection) -> Iterator[str]:
    """Yield one line for the session and one for each event."""
    yield _line({"type": "session", **_clean_block(selection.outline.session.to_dict(), selection)})
    for blocks, bodies in selection.parts():
        events: dict[int, SessionEvent] = {}
        for block in blocks:
            shown = [block.event, *((block.call.result, *block.call.others) if block.call else ())]
            events.update((event.seq, event) for event in shown if event is not None)
        for seq in sorted(events):
            yield _line(
                {
                    "type": "event",
                    **_clean_block(events[seq].to_dict(), selection),
                    "body": bodies.get(seq, ""),
                }
            )


def _clean_block(data: dict[str, Any], selection: Selection) -> dict[str, Any]:
    """Redact the fields that hold text of people or tools, such as titles, summaries and
    folders."""
    return {
        name: _clean(value, selection) if name in _WORDS else value for name, value in data.items()
    }


def _clean(value: Any, selection: Selection, depth: int = 0) -> Any:
    """Redact every text inside a value. Values nested deeper than _MAX_DEPTH are left out."""
    if isinstance(value, str):
        return selection.clean(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth >= _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {name: _clean(inner, selection, depth + 1) for name, inner in value.items()}
    return [_clean(inner, selection, depth + 1) for inner in value]


_MAX_DEPTH = 50
_WORDS = frozenset(
    {
        "title",
        "summary",
        "repo",
        "cwd",
        "git_branch",
        "source_path",
        "outcome_evidence",
        "task_ref",
        "name",
        "note",
        "tags",
        "files",
        "extra",
    }
)


def _line(data: dict[str, Any]) -> str:
    return safe_json(encoded(data)).decode() + "\n"
