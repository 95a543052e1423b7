"""The meaning of the records of Kimi Code, one method for each type, and the choice between the
records of both programs. The traps are in the package's docstring."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from .. import Normalized, Record, Source
from ..shared.fold import keep, with_file_time, with_rank
from ..shared.pick import identifier, moment, number, pick
from ..shared.stream import CALLS, Call
from ..shared.tools import key_values, one_line, text_of
from . import words
from .cli import QUIET, CliReader, role_of
from .fold import PROMPTS, STEPS, stamp
from .paths import WIRE


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    normalized = Reader(source, carry).run(records)
    if os.path.basename(source.path) == WIRE:
        return normalized
    return with_rank(with_file_time(normalized, source), 1)  # A context has no times.


class Reader(CliReader):
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

    def logged(self, value: dict[str, Any], word: str) -> None:
        """Add a record of Kimi Code."""
        ms = number(value.get("time"), 1 << 50)
        self.ts = moment(ms / 1000 if ms else None)
        if self.state.is_imported and ms == self.state.created:
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
        """Add a prompt, which is repeated when it is put into the context."""
        text, _ = words.split_content(value.get("input"))
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
        own = stamp(words.split_content(message.get("content"))[0])
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
            self.add_message(message, role, "context.append_message")

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
        """Add usage outside the steps, or count the repetition of a step's usage."""
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

    def interaction(self, value: dict[str, Any]) -> None:
        """Add a question to a person, or the answer."""
        is_done = "response" in value
        word = "interaction.resolved" if is_done else "interaction.request"
        # The decision has a record of its own.
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
        """Add an undo of turns. The next record gets the same parent as the first of them."""
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
        """Take in the folder, the model and the prompt of the program. Only a change of the model
        and the prompt are events."""
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

    def note(self, value: dict[str, Any]) -> None:
        """Add a record of the program as it is."""
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


Handler = Callable[[Reader, dict[str, Any]], None]

BOOKKEEPING = frozenset(
    {"tools", "token_counting", "runtime", "staleGuard", "plugin", "llm", "cron", "agent"}
)
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
    "interaction.request": Reader.interaction,
    "interaction.resolved": Reader.interaction,
    "config.update": Reader.configured,
    "profile.bind": Reader.configured,
    **dict.fromkeys(
        ("plan_mode.enter", "plan_mode.exit", "plan_mode.cancel", "plan.revision", "goal.create",
        "goal.update", "task.started",
         "task.terminated", "forked", "full_compaction.cancel"), Reader.note,
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
