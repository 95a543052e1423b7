"""A session as lines of JSON: the session first, then its events with their texts, in the names of
docs/json.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import SessionEvent
from ..text.clean import encoded, safe_json
from .taking import Taken


def jsonl(taken: Taken) -> Iterator[str]:
    """A line for each."""
    yield _line({"type": "session", **_cleaned(taken.outline.session.to_dict(), taken)})
    for blocks, bodies in taken.parts():
        events: dict[int, SessionEvent] = {}
        for block in blocks:
            shown = [block.event, *((block.call.result, *block.call.others) if block.call else ())]
            events.update((event.seq, event) for event in shown if event is not None)
        for seq in sorted(events):
            yield _line(
                {
                    "type": "event",
                    **_cleaned(events[seq].to_dict(), taken),
                    "body": bodies.get(seq, ""),
                }
            )


def _cleaned(data: dict[str, Any], taken: Taken) -> dict[str, Any]:
    """Titles, summaries, folders and marks are people's words as well."""
    return {name: _clean(value, taken) if name in _WORDS else value for name, value in data.items()}


def _clean(value: Any, taken: Taken, depth: int = 0) -> Any:
    """Every text in it. What lies deeper than anything that is read with care is left out."""
    if isinstance(value, str):
        return taken.clean(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth >= _DEEPEST:
        return None
    if isinstance(value, dict):
        return {name: _clean(inner, taken, depth + 1) for name, inner in value.items()}
    return [_clean(inner, taken, depth + 1) for inner in value]


_DEEPEST = 50
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
