"""The meaning of the records of Kimi CLI: its output, and the context of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..shared.fold import keep
from ..shared.pick import clean, identifier, moment, number, pick
from ..shared.tools import key_values, one_line, text_of
from . import words
from .arguments import is_whole, speaker_of
from .fold import SPEAKERS, LogFold, stamp

ROLES = frozenset({"user", "assistant", "tool", "_system_prompt", "_checkpoint", "_usage"})
QUIET = frozenset(
    {
        "StepBegin",
        "CompactionBegin",
        "MCPLoadingBegin",
        "MCPLoadingEnd",
        "HookTriggered",
        "HookRequest",
        "ToolCallRequest",
        "full_compaction.begin",
        "full_compaction.complete",
        "context.undone",
    }
)
"""Types of records that announce, request or repeat another record."""


class CliReader(LogFold):
    def take_up(self, is_timed: bool) -> bool:
        """Name the current record; return False if it was read before. The name of a record with a
        time does not contain the session, for a fork has the same record."""
        name = self.content_name() if is_timed else self.new_id()
        return self.admit(name)

    def shown(self, value: dict[str, Any], message: dict[str, Any]) -> None:
        """Add a message of the output of Kimi CLI."""
        seconds = value.get("timestamp")
        self.ts = (
            moment(seconds)
            if isinstance(seconds, int | float)
            and not isinstance(seconds, bool)
            and 0 < seconds < 1 << 40
            else None
        )
        if self.take_up(self.ts is not None):
            name, follows = self.native_id, self.parent
            self.dispatch(message)
            self.remember(name, follows)

    def dispatch(self, message: dict[str, Any]) -> None:
        word = pick(message, "type", of=str) or ""
        payload = pick(message, "payload", of=dict)
        handler = SHOWN.get(word) or SHOWN.get(
            next((kind for name, kind in PAYLOADS.items() if name in (payload or {})), "")
        )
        if word in QUIET:
            self.merge(word)
        elif handler is not None and payload is not None:
            handler(self, payload)
        else:
            self.unknown(word)

    def turn(self, payload: dict[str, Any]) -> None:
        self.prompt(payload.get("user_input"), "TurnBegin")

    def steer(self, payload: dict[str, Any]) -> None:
        self.prompt(payload.get("user_input"), "SteerInput")

    def ended(self, payload: dict[str, Any]) -> None:
        self.emit("completion", "", "TurnEnd", "turn ended", "system")

    def interrupted(self, payload: dict[str, Any]) -> None:
        self.emit("human_intervention", "", "StepInterrupted", "interrupted", "user")

    def retried(self, payload: dict[str, Any]) -> None:
        attempt = number(payload.get("next_attempt")) or "?"
        limit = number(payload.get("max_attempts")) or "?"
        self.emit(
            "retry",
            key_values(payload),
            "StepRetry",
            f"attempt {attempt} of {limit}: {one_line(text_of(payload.get('error_type')))}",
        )

    def spoken(self, payload: dict[str, Any]) -> None:
        self.part(payload, "ContentPart")
        if not self.count:
            self.merge("empty")

    def called(self, payload: dict[str, Any]) -> None:
        call = pick(payload, "function", of=dict) or {}
        given = call.get("arguments")
        is_complete = isinstance(given, str) and is_whole(given)
        keep(self.state.complete, stamp(self.speaker), is_complete, SPEAKERS)
        self.call(payload.get("id"), call.get("name"), given, "ToolCall")

    def rest(self, payload: dict[str, Any]) -> None:
        """Add the rest of a call's arguments. Nearly always it was moved into the call, and was
        read with it."""
        text = pick(payload, "arguments_part", of=str) or ""
        if text.strip(' "}]\n') and not self.state.complete.get(stamp(self.speaker)):
            self.emit("lifecycle", text, "ToolCallPart", None, "assistant")
        else:
            self.merge("ToolCallPart")

    def returned(self, payload: dict[str, Any]) -> None:
        value = pick(payload, "return_value", of=dict) or {}
        is_error = value.get("is_error") is True
        self.result(
            payload.get("tool_call_id"),
            words.shown(value.get("output")),
            pick(value, "message", of=str) or "",
            is_error,
            "ToolResult",
        )

    def status(self, payload: dict[str, Any]) -> None:
        used = words.usage(payload.get("token_usage"))
        if used is None:
            self.merge("StatusUpdate")
        else:
            self.used(used, "StatusUpdate", self.native_id, self.state.model)

    def approval(self, payload: dict[str, Any]) -> None:
        text = pick(payload, "description", of=str) or pick(payload, "action", of=str) or ""
        self.emit(
            "lifecycle",
            text,
            "ApprovalRequest",
            f"asks: {one_line(text)}",
            "assistant",
            call_id=identifier(payload.get("tool_call_id")),
        )

    def approved(self, payload: dict[str, Any]) -> None:
        answer, why = (
            pick(payload, "response", of=str) or "unknown",
            pick(payload, "feedback", of=str) or "",
        )
        kind = "human_intervention" if answer == "reject" else "decision"
        self.emit(
            kind,
            why,
            f"ApprovalResponse/{answer[:100]}",
            one_line(f"{answer[:100]}: {why}" if why else answer[:100]),
            "user",
        )

    def question(self, payload: dict[str, Any]) -> None:
        questions = [
            text_of(item.get("question"))
            for item in pick(payload, "questions", of=list) or []
            if isinstance(item, dict)
        ]
        self.emit(
            "lifecycle",
            "\n".join(questions),
            "QuestionRequest",
            None,
            "assistant",
            call_id=identifier(payload.get("tool_call_id")),
        )

    def hook(self, payload: dict[str, Any]) -> None:
        if payload.get("action") == "allow":
            self.merge("HookResolved")
            return
        why = text_of(payload.get("reason"))
        self.emit(
            "lifecycle",
            why,
            "HookResolved/block",
            one_line(f"hook of {text_of(payload.get('event'))} blocks: {why}"),
            "system",
        )

    def compacted(self, payload: dict[str, Any]) -> None:
        self.emit("lifecycle", "", "CompactionEnd", "compacted", view="compact")

    def notified(self, payload: dict[str, Any]) -> None:
        body = "\n".join(
            text for name in ("title", "body") if (text := pick(payload, name, of=str))
        )
        self.emit("lifecycle", body, "Notification", None, "system")

    def plan(self, payload: dict[str, Any]) -> None:
        path = pick(payload, "file_path", of=str)
        self.emit(
            "lifecycle",
            text_of(payload.get("content")),
            "PlanDisplay",
            None,
            "assistant",
            files=(path,) if path else (),
        )

    def side_question(self, payload: dict[str, Any]) -> None:
        """Add a question outside the conversation (`/btw`), or its answer."""
        failure, answer = pick(payload, "error", of=str), pick(payload, "response", of=str)
        text = failure or answer or shown_input(payload)
        self.emit("lifecycle", text, "Btw", None, is_error=failure is not None)

    def subagent(self, payload: dict[str, Any]) -> None:
        """Add a subagent's record, unless the subagent has a log of its own."""
        agent, event = (
            clean(pick(payload, "agent_id", of=str) or ""),
            pick(payload, "event", of=dict),
        )
        if event is None or agent in self.state.agents:
            self.merge("SubagentEvent")
            return
        self.is_below = True
        self.speaker += speaker_of(payload)
        self.dispatch(event)

    # The context of the model.

    def context(self, value: dict[str, Any]) -> None:
        """Add a message of the context."""
        if not self.take_up(is_timed=False):
            return
        name, follows = self.native_id, self.parent
        role = role_of(value)
        if role in ("_checkpoint", "_usage"):
            self.merge(role)
        elif role == "_system_prompt":
            self.emit(
                "lifecycle", words.shown(value.get("content")), role, "system prompt", "system"
            )
        else:
            self.add_message(value, role, "context")
        self.remember(name, follows)

    def add_message(self, message: dict[str, Any], role: str, native: str) -> None:
        """Add a message with all its parts."""
        content = message.get("content")
        if role == "user":
            self.add_prompt(content, native)
        elif role == "assistant":
            self.add_answer(message, native)
        elif role == "tool":
            text, is_error = words.answered(words.shown(content))
            own = message.get("tool_call_id", message.get("toolCallId"))
            self.result(own, text, "", is_error or message.get("isError") is True, f"{native}/tool")
        else:
            text, others = words.split_content(content)
            for part in filter(None, (text, *others)):
                self.emit("lifecycle", part, f"{native}/{role[:100]}", None, role[:100] or None)
        if not self.count and content is None and "tool_calls" not in message:
            self.unknown(role)
        elif not self.count:
            self.merge("empty")

    def add_prompt(self, content: Any, native: str) -> None:
        """Add a message with the role of the user, which the program may have written."""
        text, _ = words.split_content(content)
        if words.is_given(text) and not words.split_given(text)[0]:
            body = words.shown(content)
            self.emit("lifecycle", body, f"{native}/given", None, "user", view="context")
        else:
            self.prompt(content, f"{native}/user")

    def add_answer(self, message: dict[str, Any], native: str) -> None:
        """Add the parts of an answer, and its calls."""
        content = message.get("content")
        content = [{"text": content}] if isinstance(content, str) else content
        for part in content if isinstance(content, list) else []:
            self.part(part, f"{native}/assistant")
        calls = message.get("tool_calls", message.get("toolCalls"))
        for item in calls if isinstance(calls, list) else []:
            inner = pick(item, "function", of=dict) or (item if isinstance(item, dict) else {})
            args = inner.get("arguments", inner.get("args"))
            self.call(pick(item, "id", of=str), inner.get("name"), args, f"{native}/call")


def role_of(message: dict[str, Any]) -> str:
    """Return the role of a message: its own, else one judged by its fields."""
    role = pick(message, "role", of=str) or ""
    if role in ROLES:
        return role
    if message.get("tool_call_id", message.get("toolCallId")):
        return "tool"
    parts = message.get("content")
    is_thought = (
        any(pick(part, "think", of=str) is not None for part in parts)
        if isinstance(parts, list)
        else False
    )
    return (
        "assistant" if is_thought or message.get("tool_calls") or message.get("toolCalls") else role
    )


def shown_input(payload: dict[str, Any]) -> str:
    return next(
        (
            text
            for name in ("question", "user_input", "input")
            if (text := words.shown(payload.get(name)))
        ),
        key_values(payload),
    )


Handler = Callable[[CliReader, dict[str, Any]], None]

SHOWN: dict[str, Handler] = {
    "TurnBegin": CliReader.turn,
    "SteerInput": CliReader.steer,
    "TurnEnd": CliReader.ended,
    "StepInterrupted": CliReader.interrupted,
    "StepRetry": CliReader.retried,
    "ContentPart": CliReader.spoken,
    "ToolCall": CliReader.called,
    "ToolCallPart": CliReader.rest,
    "ToolResult": CliReader.returned,
    "StatusUpdate": CliReader.status,
    "ApprovalRequest": CliReader.approval,
    "ApprovalResponse": CliReader.approved,
    "ApprovalRequestResolved": CliReader.approved,
    "QuestionRequest": CliReader.question,
    "HookResolved": CliReader.hook,
    "CompactionEnd": CliReader.compacted,
    "Notification": CliReader.notified,
    "PlanDisplay": CliReader.plan,
    "BtwBegin": CliReader.side_question,
    "BtwEnd": CliReader.side_question,
    "SubagentEvent": CliReader.subagent,
}
PAYLOADS = {"return_value": "ToolResult", "function": "ToolCall", "think": "ContentPart",
"text": "ContentPart", "user_input": "TurnBegin",
            "event": "SubagentEvent", "token_usage": "StatusUpdate"}  # fmt: skip
"""Fields that show the type of a message where that is missing or not known."""
