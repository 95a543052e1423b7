"""Sessions made of calls and what came back."""

from typing import Any

from runlore.model import SessionEvent

UID = "toy:1"


def session(*turns: tuple[str, str, dict[str, Any]]) -> tuple[list[SessionEvent], dict[int, str]]:
    """Calls with their results: (what was called, what came back, fields of the result; `action`,
    `kind` and `path` are the call's)."""
    events: list[SessionEvent] = []
    bodies: dict[int, str] = {}
    for n, (called, came_back, fields) in enumerate(turns):
        fields = dict(fields)
        action, kind = fields.pop("action", "shell"), fields.pop("kind", "tool_call")
        files = tuple(fields.pop("files", ()))
        events.append(
            SessionEvent(
                session_uid=UID,
                seq=2 * n,
                kind=kind,
                call_id=str(n),
                tool=action.title(),
                action=action,
                files=files,
                summary=called[:50],
            )
        )
        events.append(
            SessionEvent(
                session_uid=UID,
                seq=2 * n + 1,
                kind="tool_result",
                call_id=str(n),
                action=action,
                **fields,
            )
        )
        bodies[2 * n], bodies[2 * n + 1] = called, came_back
    return events, bodies
