"""Recognition of prompts: the events that a person typed."""

from __future__ import annotations

from ..model import SessionEvent

MAYBE_PROMPT = frozenset({"user_msg", "human_intervention"})
"""The kinds of which an event may be a prompt."""


def is_prompt(event: SessionEvent) -> bool:
    """Return True for what a person typed: a message, or a command like `/compact` or `!ls`.

    In a subagent's session (`is_sidechain`) it is what the calling agent wrote in the person's
    place.
    """
    # An interrupt, a refusal or an answer is an intervention as well, but it does not begin
    # anything.
    return event.kind == "user_msg" or (
        event.kind == "human_intervention" and event.call_id is None and is_command(event)
    )


def begins_turn(event: SessionEvent) -> bool:
    """Return True for a message of a person that begins a turn of this session.

    A turn counts once: not again in a session that has a copy of it, and not in that of a subagent,
    where the calling agent wrote it. A command is no turn.
    """
    return (
        event.kind == "user_msg"
        and event.origin is None
        and not event.is_sidechain
        and event.role in ("user", None)
    )


def is_command(event: SessionEvent) -> bool:
    """Return True for a slash command or a shell line that was typed at the agent's prompt."""
    return (event.summary or "").startswith(("/", "!"))
