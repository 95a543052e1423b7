"""What the records of Kimi CLI and Kimi Code mean: one method for each type. See `kimi.py` for the
traps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

from .. import Normalized, Record, Source
from ..shared.fold import keep, with_file_time, with_rank
from ..shared.pick import clean, identifier, moment, number, pick
from ..shared.stream import CALLS, Call
from ..shared.tools import key_values, one_line, text_of
from . import words
from .fold import PROMPTS, STEPS, LogFold
from .paths import WIRE


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    found = Reader(source, carry).run(records)
    # A context has no times.
    return (
        found
        if os.path.basename(source.path) == WIRE
        else with_rank(with_file_time(found, source), 1)
    )


class Reader(LogFold):
    def line(self, value: dict[str, Any]) -> None:
        message = pick(value, "message", of=dict)
        word = pick(value, "type", of=str) or ""
        if message is not None and "role" not in message and word == "":
            self.shown(value, message)
        elif word == "metadata":
            self.state.created = number(value.get("created_at"), 1 << 50) or 0
            self.merge("metadata")
        elif not word and value.keys() & {"role", "tool_calls", "tool_call_id"}:
            self.context(value)
        else:
            self.logged(value, word)

    def take_up(self, is_timed: bool) -> bool:
        """Names the current record. The session is no part of the name where there is a time: a
        fork has the same record."""
        name = self.content_name() if is_timed else self.new_id()
        return self.admit(name)

    # Kimi CLI.

    def shown(self, value: dict[str, Any], message: dict[str, Any]) -> None:
        """A message of Kimi CLI to what shows it."""
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
        attempt, most = (
            number(payload.get("next_attempt")) or "?",
            number(payload.get("max_attempts")) or "?",
        )
        self.emit(
            "retry",
            key_values(payload),
            "StepRetry",
            f"attempt {attempt} of {most}: {one_line(text_of(payload.get('error_type')))}",
        )

    def spoken(self, payload: dict[str, Any]) -> None:
        self.part(payload, "ContentPart")
        if not self.count:
            self.merge("empty")

    def called(self, payload: dict[str, Any]) -> None:
        call = pick(payload, "function", of=dict) or {}
        self.call(payload.get("id"), call.get("name"), call.get("arguments"), "ToolCall")

    def rest(self, payload: dict[str, Any]) -> None:
        """The rest of a call's arguments. Nearly always it was put where they begin."""
        text = pick(payload, "arguments_part", of=str) or ""
        if text.strip(' "}]\n'):
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
        asked = [
            text_of(item.get("question"))
            for item in pick(payload, "questions", of=list) or []
            if isinstance(item, dict)
        ]
        self.emit(
            "lifecycle",
            "\n".join(asked),
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

    def aside_question(self, payload: dict[str, Any]) -> None:
        """A question beside the conversation (`/btw`), or its answer."""
        failure, answer = pick(payload, "error", of=str), pick(payload, "response", of=str)
        text = failure or answer or shown_input(payload)
        self.emit("lifecycle", text, "Btw", None, is_error=failure is not None)

    def subagent(self, payload: dict[str, Any]) -> None:
        """What a subagent's log has as well, where there is one."""
        agent, event = (
            clean(pick(payload, "agent_id", of=str) or ""),
            pick(payload, "event", of=dict),
        )
        if event is None or agent in self.state.agents:
            self.merge("SubagentEvent")
            return
        self.is_below = True
        self.dispatch(event)

    # What the model saw.

    def context(self, value: dict[str, Any]) -> None:
        """A message as Kimi CLI gave it to the model."""
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
            self.said(value, role, "context")
        self.remember(name, follows)

    def said(self, message: dict[str, Any], role: str, native: str) -> None:
        """A message with all its parts."""
        content = message.get("content")
        if role == "user":
            text, _ = words.said(content)
            if words.is_given(text):
                self.emit(
                    "lifecycle",
                    words.shown(content),
                    f"{native}/given",
                    None,
                    "user",
                    view="context",
                )
            else:
                self.prompt(content, f"{native}/user")
        elif role == "assistant":
            for part in (
                content
                if isinstance(content, list)
                else [{"text": content}]
                if isinstance(content, str)
                else []
            ):
                self.part(part, f"{native}/assistant")
            calls = message.get("tool_calls", message.get("toolCalls"))
            for item in calls if isinstance(calls, list) else []:
                inner = pick(item, "function", of=dict) or (item if isinstance(item, dict) else {})
                self.call(
                    pick(item, "id", of=str),
                    inner.get("name"),
                    inner.get("arguments", inner.get("args")),
                    f"{native}/call",
                )
        elif role == "tool":
            text, is_error = words.answered(words.shown(content))
            own = message.get("tool_call_id", message.get("toolCallId"))
            self.result(own, text, "", is_error or message.get("isError") is True, f"{native}/tool")
        else:
            text, others = words.said(content)
            for part in (text, *others):
                if part:
                    self.emit("lifecycle", part, f"{native}/{role[:100]}", None, role[:100] or None)
        if not self.count and content is None and "tool_calls" not in message:
            self.unknown(role)
        elif not self.count:
            self.merge("empty")

    # Kimi Code.

    def logged(self, value: dict[str, Any], word: str) -> None:
        """A record of Kimi Code."""
        ms = number(value.get("time"), 1 << 50)
        self.ts = moment(ms / 1000 if ms else None)
        if self.state.is_taken_over and ms == self.state.created:
            self.merge("taken over")
        elif self.take_up(ms is not None):
            name, follows = self.native_id, self.parent
            handler = LOGGED.get(word) or LOGGED.get(
                next((kind for key, kind in RECORDS.items() if key in value), "")
            )
            if word not in LOGGED and (word.partition(".")[0] in BOOKKEEPING or word in QUIET):
                self.merge(word)
            elif handler is not None:
                handler(self, value)
            else:
                self.unknown(word)
            self.remember(name, follows)

    def typed(self, value: dict[str, Any]) -> None:
        """A prompt, which comes again when it is put into the context."""
        text, _ = words.said(value.get("input"))
        origin = pick(value, "origin", "kind", of=str) or "user"
        self.state.prompts = [*self.state.prompts[1 - PROMPTS :], stamp(text)]
        if origin == "user" or self.agent is not None:
            self.prompt(value.get("input"), pick(value, "type", of=str) or "turn.prompt")
        else:
            self.emit(
                "lifecycle", text, f"turn.prompt/{origin[:100]}", None, "user", view="context"
            )

    def appended(self, value: dict[str, Any]) -> None:
        message = pick(value, "message", of=dict) or {}
        role, origin = role_of(message), pick(message, "origin", "kind", of=str) or "user"
        text = words.shown(message.get("content"))
        own = stamp(words.said(message.get("content"))[0])
        if role == "user" and own in self.state.prompts:
            self.state.prompts.remove(own)
            self.merge("context.append_message")
        elif role == "user" and origin == "compaction_summary":
            self.emit(
                "lifecycle", text, "context.append_message/summary", None, "user", view="summary"
            )
        elif role == "user" and origin != "user":
            self.emit(
                "lifecycle",
                text,
                f"context.append_message/{origin[:100]}",
                None,
                "user",
                view="context",
            )
        else:
            self.said(message, role, "context.append_message")

    def loop(self, value: dict[str, Any]) -> None:
        event = pick(value, "event", of=dict) or {}
        word = pick(event, "type", of=str) or ""
        handler = LOOP.get(word) or LOOP.get(
            next((kind for name, kind in EVENTS.items() if name in event), "")
        )
        if handler is not None:
            handler(self, event)
        elif word == "step.begin":
            self.merge(word)
        else:
            self.unknown(word or "context.append_loop_event")

    def loop_part(self, event: dict[str, Any]) -> None:
        self.part(event.get("part"), "content.part")
        if not self.count:
            self.merge("empty")

    def loop_call(self, event: dict[str, Any]) -> None:
        self.call(event.get("toolCallId"), event.get("name"), event.get("args"), "tool.call")

    def loop_result(self, event: dict[str, Any]) -> None:
        result = event.get("result")
        output = result.get("output") if isinstance(result, dict) else result
        is_error = pick(result, "isError", of=bool) is True
        self.result(
            event.get("toolCallId"),
            words.shown(output) or ("" if output == [] else text_of(output)),
            "",
            is_error,
            "tool.result",
        )

    def loop_end(self, event: dict[str, Any]) -> None:
        used = words.usage(event.get("usage"))
        if used is None:
            self.merge("step.end")
            return
        self.state.steps = [*self.state.steps[1 - STEPS :], words.counted(used)]
        key = identifier(event.get("uuid")) or self.native_id
        reason = (pick(event, "finishReason", of=str) or "")[:100]
        self.used(used, f"step.end/{reason}" if reason else "step.end", key, self.state.model)

    def counted(self, value: dict[str, Any]) -> None:
        """What a step has said, or what was used beside the steps."""
        used = words.usage(value.get("usage"))
        if used is None or words.counted(used) in self.state.steps:
            if used is not None:
                self.state.steps.remove(words.counted(used))
            self.merge("usage.record")
            return
        model = (pick(value, "model", of=str) or "").rpartition("/")[2] or self.state.model
        self.used(used, "usage.record", self.native_id, model)

    def requested(self, value: dict[str, Any]) -> None:
        state = self.state
        state.model = pick(value, "model", of=str) or state.model
        state.provider = pick(value, "provider", of=str) or state.provider
        attempt = pick(value, "attempt", of=str)
        if attempt is None or attempt.startswith("1/"):
            self.merge("llm.request")
        else:
            self.emit("retry", "", "llm.request", f"attempt {one_line(attempt)[:100]}", "system")

    def cancelled(self, value: dict[str, Any]) -> None:
        self.emit("human_intervention", "", "turn.cancel", "interrupted", "user")

    def turn_ended(self, value: dict[str, Any]) -> None:
        reason = (pick(value, "reason", of=str) or "unknown")[:100]
        kind = {
            "completed": "completion",
            "cancelled": "human_intervention",
            "failed": "error",
            "error": "error",
        }.get(reason, "lifecycle")
        why = text_of(pick(value, "error", "message", of=str) or value.get("error"))
        self.emit(
            kind,
            why,
            f"turn.ended/{reason}",
            f"turn {reason}",
            "system",
            is_error=kind == "error",
            duration_ms=number(value.get("durationMs")),
        )

    def permitted(self, value: dict[str, Any]) -> None:
        decision = (pick(value, "result", "decision", of=str) or "unknown")[:100]
        kind = "decision" if decision == "approved" else "human_intervention"
        why = pick(value, "result", "feedback", of=str) or ""
        self.emit(
            kind, why, f"approval/{decision}",
            one_line(f"{decision}: {text_of(value.get('action'))}"), "user",
            pick(value, "toolName", of=str), identifier(value.get("toolCallId")),
        )  # fmt: skip
        if (call_id := identifier(value.get("toolCallId"))) and call_id not in self.state.calls:
            tool = pick(value, "toolName", of=str) or "unknown"
            keep(self.state.calls, call_id, Call(tool, words.describe(tool, None).action), CALLS)

    def asked(self, value: dict[str, Any]) -> None:
        """Something that a person has to say, or has said."""
        is_done = "response" in value
        word = "interaction.resolved" if is_done else "interaction.request"
        # There is a record of its own for what was decided.
        if pick(value, "kind", of=str) == "approval":
            self.merge(word)
            return
        text = text_of(value.get("response") if is_done else value.get("request"))
        self.emit(
            "decision" if is_done else "lifecycle",
            text,
            word,
            None,
            "user",
            call_id=identifier(value.get("toolCallId")),
        )

    def undone(self, value: dict[str, Any]) -> None:
        """A person took turns back. What comes next stands beside the first of them."""
        state, count = self.state, number(value.get("count")) or 1
        self.emit(
            "human_intervention",
            "",
            "context.undo",
            f"/undo of {count} turns" if count > 1 else "/undo",
            "user",
        )
        if count <= len(state.turns):
            _, state.last = state.turns[-count]
            state.turns = state.turns[:-count]

    def cleared(self, value: dict[str, Any]) -> None:
        self.emit("human_intervention", "", "context.clear", "/clear", "user", view="compact")

    def summarized(self, value: dict[str, Any]) -> None:
        before, after = number(value.get("tokensBefore")), number(value.get("tokensAfter"))
        note = (
            f"compacted from {before} to {after} tokens"
            if before is not None and after is not None
            else "compacted"
        )
        self.emit("lifecycle", "", "context.apply_compaction", note, view="compact")
        summary = value.get("summary")
        text = (
            summary
            if isinstance(summary, str)
            else pick(value, "contextSummary", of=str)
            or words.shown(pick(summary, "content", of=list))
        )
        if text:
            self.emit(
                "lifecycle", text, "context.apply_compaction/summary", None, "user", view="summary"
            )

    def configured(self, value: dict[str, Any]) -> None:
        """What was set: the folder, the model, the prompt of the program. Only another model, and
        the prompt, are worth telling."""
        state, before = self.state, self.state.model
        state.cwd = (
            state.cwd
            or pick(value, "cwd", of=str)
            or pick(value, "environmentDisclosure", "cwd", of=str)
        )
        model = (pick(value, "modelAlias", of=str) or "").rpartition("/")[2]
        state.model = model or before
        prompt = pick(value, "systemPrompt", of=str)
        if prompt:
            self.emit(
                "lifecycle",
                prompt,
                pick(value, "type", of=str) or "config.update",
                "system prompt",
                "system",
            )
        elif model and before not in (None, model):
            self.emit(
                "lifecycle", model, "config.update/model", f"model {before} → {model}", "user"
            )
        else:
            self.merge("config.update")

    def allowed(self, value: dict[str, Any]) -> None:
        mode, before = pick(value, "mode", of=str), self.state.mode
        self.state.mode = mode or before
        if mode is None or before in (None, mode):
            self.merge("permission.set_mode")
        else:
            self.emit(
                "human_intervention",
                mode,
                "permission.set_mode",
                f"permission mode {before} → {mode}",
                "user",
            )

    def told(self, value: dict[str, Any]) -> None:
        """What the program did, in its own words."""
        word = pick(value, "type", of=str) or "unknown"
        about = {
            name: item for name, item in value.items() if name not in ("type", "time", "agentId")
        }
        self.emit(
            "decision" if word == "plan_mode.exit" else "lifecycle",
            key_values(about),
            word,
            word,
            "system",
        )


def stamp(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()


def role_of(message: dict[str, Any]) -> str:
    """Whose a message is: as it says, or as it must be by what it holds."""
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


Handler = Callable[[Reader, dict[str, Any]], None]

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
"""What is begun, asked for or repeated by another record."""
BOOKKEEPING = frozenset(
    {"tools", "token_counting", "runtime", "staleGuard", "plugin", "llm", "cron", "agent"}
)
SHOWN: dict[str, Handler] = {
    "TurnBegin": Reader.turn,
    "SteerInput": Reader.steer,
    "TurnEnd": Reader.ended,
    "StepInterrupted": Reader.interrupted,
    "StepRetry": Reader.retried,
    "ContentPart": Reader.spoken,
    "ToolCall": Reader.called,
    "ToolCallPart": Reader.rest,
    "ToolResult": Reader.returned,
    "StatusUpdate": Reader.status,
    "ApprovalRequest": Reader.approval,
    "ApprovalResponse": Reader.approved,
    "ApprovalRequestResolved": Reader.approved,
    "QuestionRequest": Reader.question,
    "HookResolved": Reader.hook,
    "CompactionEnd": Reader.compacted,
    "Notification": Reader.notified,
    "PlanDisplay": Reader.plan,
    "BtwBegin": Reader.aside_question,
    "BtwEnd": Reader.aside_question,
    "SubagentEvent": Reader.subagent,
}
PAYLOADS = {"return_value": "ToolResult", "function": "ToolCall", "think": "ContentPart",
"text": "ContentPart", "user_input": "TurnBegin",
            "event": "SubagentEvent", "token_usage": "StatusUpdate"}  # fmt: skip
"""What tells the type of a message where that is missing or not known."""
LOGGED: dict[str, Handler] = {
    "turn.prompt": Reader.typed,
    "turn.steer": Reader.typed,
    "turn.cancel": Reader.cancelled,
    "turn.ended": Reader.turn_ended,
    "context.append_message": Reader.appended,
    "context.append_loop_event": Reader.loop,
    "context.undo": Reader.undone,
    "context.clear": Reader.cleared,
    "context.apply_compaction": Reader.summarized,
    "llm.request": Reader.requested,
    "usage.record": Reader.counted,
    "permission.record_approval_result": Reader.permitted,
    "permission.set_mode": Reader.allowed,
    "interaction.request": Reader.asked,
    "interaction.resolved": Reader.asked,
    "config.update": Reader.configured,
    "profile.bind": Reader.configured,
    **dict.fromkeys(
        ("plan_mode.enter", "plan_mode.exit", "plan_mode.cancel", "plan.revision", "goal.create",
        "goal.update", "task.started",
         "task.terminated", "forked", "full_compaction.cancel"), Reader.told,
    ),
}  # fmt: skip
RECORDS = {
    "input": "turn.prompt",
    "message": "context.append_message",
    "event": "context.append_loop_event",
    "compactedCount": "context.apply_compaction",
}
LOOP: dict[str, Handler] = {
    "content.part": Reader.loop_part,
    "tool.call": Reader.loop_call,
    "tool.result": Reader.loop_result,
    "step.end": Reader.loop_end,
}
EVENTS = {"part": "content.part", "args": "tool.call", "result": "tool.result", "usage": "step.end"}
