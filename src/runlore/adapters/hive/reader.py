"""The meaning of the records of hive's sessions: a fold. The package's docstring lists the traps;
`documents.py` builds the records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage
from .. import Normalized, Record, Source
from ..shared import calls
from ..shared.fold import keep, load
from ..shared.pick import clean, identifier, number, pick, time_of
from ..shared.stream import CALLS, Call, Entries, EntryFold
from ..shared.tools import key_values, one_line, text_of

CARRY = 1
"""The layout of `Run`; changed only together with the adapter's `version`."""
ACTIONS = {
    **dict.fromkeys(("execute_command_tool", "execute_command", "bash", "terminal_exec"), "shell"),
    **dict.fromkeys(("read_file", "view_file", "pdf_read"), "read"),
    **dict.fromkeys(("write_file", "edit_file", "apply_patch", "hashline_edit"), "edit"),
    **dict.fromkeys(("search_files", "grep_search", "list_dir", "list_directory"), "search"),
    **dict.fromkeys(("web_search", "web_scrape", "exa_search"), "web"),
}
NOT_TYPED = ("is_system_reminder", "is_system_nudge", "is_transition_marker", "is_trigger")
"""Marks of messages with the role of the user that no user wrote."""
JUDGE = "[Judge feedback]"
QUIET = frozenset(
    {
        "node_loop_started",
        "node_loop_iteration",
        "node_loop_completed",
        "client_input_committed",
        "loop_state_changed",
    }
)
"""Events that only show that the loop goes on."""
LOOSE = 1000  # The first number of calls without an id, so that they do not use another's name.
NODE = frozenset({"id", "timestamp", "node_id"})


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Run(Entries):
    version: int = CARRY
    again: dict[str, str] = msgspec.field(default_factory=dict)
    """The suffixes of the names of calls whose id another call had before."""


class Reader(EntryFold[Run]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Run, CARRY))
        self.node, self.visit = "", tuple[str, ...]()

    def session(self, named: str | None = None) -> str:
        if not self.state.session:
            self.state.session = (
                clean(self.file) or clean(os.path.basename(self.folder)) or "unknown"
            )
        return self.state.session

    def line(self, value: dict[str, Any]) -> None:
        self.ts, self.node = time_of(value.get("at")), (pick(value, "node", of=str) or "")[:200]
        visit = number(value.get("visit"), 1 << 40)
        self.visit = (f"visit-{visit}",) if visit else ()
        for word, handler in HANDLERS.items():
            if isinstance(about := value.get(word), dict):
                handler(self, about)
                return
            if about is not None:
                self.strange(text_of(about), f"{word} that is no object", word)
                return
        if "damaged" in value:
            self.strange(text_of(value["damaged"]), "not JSON", "damaged")
        else:
            self.unknown(None)

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        # A name must not depend on the records before: these may be compacted away.
        self.state.anchor = ""

    def called(self, *names: Any) -> None:
        """Name the current record by its own fields, when it has them all."""
        if all(isinstance(name, str | int) and name != "" for name in names):
            self.identify(f"{self.session()}/{'/'.join(clean(str(name)) for name in names)}")

    # The run.

    def about(self, meta: dict[str, Any]) -> None:
        """Add a queen's session, and the session that it was forked from."""
        self.called("meta")
        if (origin := clean(pick(meta, "forked_from", of=str) or "")) and origin != self.session():
            self.state.parent, self.state.relation = self.uid(origin), "fork"
        # Only fields that do not change: the phase does.
        fields: dict[str, Any] = {
            word: meta[word] for word in ("queen_id", "created_at") if word in meta
        }
        self.emit(
            "lifecycle",
            key_values(fields),
            "meta.json",
            f"session of {one_line(text_of(meta.get('queen_id'))) or 'a worker'}",
        )

    def started(self, state: dict[str, Any]) -> None:
        self.called("started")
        agent = one_line(pick(state, "agent_id", of=str) or "") or "an agent"
        self.emit("lifecycle", key_values(state), "state/started", f"run of {agent} started")

    def prompt(self, meta: dict[str, Any]) -> None:
        self.called("prompt", self.node or "-")
        self.emit(
            "lifecycle",
            text_of(meta.get("system_prompt")),
            "system_prompt",
            f"prompt of {self.node or 'the session'}",
            "system",
        )

    def ended(self, state: dict[str, Any]) -> None:
        """Add the status of the run, and its result."""
        status = one_line(pick(state, "status", of=str) or "")[:100] or "unknown"
        self.called("state", status)
        about = {
            word: value for word, value in state.items() if word not in ("result", "session_id")
        }
        self.emit("lifecycle", key_values(about), f"state/{status}", f"run {status}")
        result = pick(state, "result", of=dict)
        if result is None:
            return
        error, output = pick(result, "error", of=str), text_of(result.get("output") or None)
        if error:
            self.emit("error", error, f"result/{status}", None, "system", is_error=True)
        elif status == "completed" or result.get("success") is True:
            self.emit(
                "completion", output, f"result/{status}", one_line(output) or "completed", "system"
            )
        elif output:
            self.emit("lifecycle", output, f"result/{status}", None, "system")

    def summary(self, summary: dict[str, Any]) -> None:
        self.ts = None
        self.called("summary")
        word = one_line(text_of(summary.get("status")))[:100] or "unknown"
        self.emit("lifecycle", key_values(summary), "summary.json", f"run {word}")

    def checkpoint(self, value: dict[str, Any]) -> None:
        """Add a checkpoint with its buffer."""
        self.called("checkpoint", identifier(value.get("checkpoint_id")))
        kind = one_line(pick(value, "checkpoint_type", of=str) or "")[:100] or "unknown"
        summary = pick(value, "description", of=str) or f"checkpoint at {self.node}"
        self.emit("lifecycle", key_values(value), f"checkpoint/{kind}", summary)

    def decision(self, value: dict[str, Any]) -> None:
        """Add a decision with its options and reasons. Its result may be added to the same record
        later."""
        self.called("decision", identifier(value.get("id")))
        chosen = pick(value, "chosen_option", "description", of=str)
        options = [
            option for option in pick(value, "options", of=list) or [] if isinstance(option, dict)
        ]
        for option in options:
            if chosen is None and option.get("id") == value.get("chosen_option_id"):
                chosen = pick(option, "description", of=str)
        intent = pick(value, "intent", of=str) or "decision"
        fields = {
            word: item
            for word, item in value.items()
            if word not in NODE | {"chosen_option"} and item not in (None, [], {})
        }
        kind = one_line(pick(value, "decision_type", of=str) or "")[:100] or "unknown"
        self.emit(
            "decision",
            key_values(fields),
            f"decision/{kind}",
            f"{intent}: {chosen}" if chosen else intent,
            "assistant",
        )

    def problem(self, value: dict[str, Any]) -> None:
        self.called("problem", identifier(value.get("id")))
        fields = {
            word: item for word, item in value.items() if word not in NODE and item is not None
        }
        severity = one_line(pick(value, "severity", of=str) or "")[:100] or "unknown"
        self.emit(
            "error",
            key_values(fields),
            f"problem/{severity}",
            pick(value, "description", of=str),
            "system",
            is_error=True,
        )

    def result(self, value: dict[str, Any]) -> None:
        """Add the end of a node."""
        self.called(
            "node",
            self.node or "-",
            text_of(value.get("attempt")),
            identifier(value.get("exit_status")) or "-",
            *self.visit,
        )
        word = one_line(pick(value, "exit_status", of=str) or "")[:100] or "unknown"
        fields = {name: item for name, item in value.items() if item not in (None, "", [])}
        self.emit(
            "lifecycle",
            key_values(fields),
            f"node/{word}",
            f"{self.node or 'node'}: {pick(value, 'error', of=str) or word}",
            is_error=value.get("success") is False,
            duration_ms=number(value.get("latency_ms")),
        )

    # Messages.

    def part(self, part: dict[str, Any]) -> None:
        is_partial = part.get("is_partial") is True
        seq = number(part.get("seq"), 1 << 60)
        if seq is not None:
            self.called(self.node or "-", "partial" if is_partial else "part", seq)
        for block in pick(part, "thinking_blocks", of=list) or []:
            self.think(block)
        role, text = role_of(part), spoken(part.get("content"))
        if role == "tool":
            self.answer(part.get("tool_use_id"), text, part.get("is_error") is True, "tool")
        elif text.strip():
            self.say(role, text, part, is_partial)
        self.requested(part.get("tool_calls"))
        if not self.count and "content" not in part:
            self.unknown(role)
        elif not self.count:
            self.merge("empty")

    def think(self, block: Any) -> None:
        thought = pick(block, "thinking", of=str)
        text = text_of(block) if thought is None else thought
        if thought is None or text.strip():
            self.emit("thinking", text, "thinking", None, "assistant", model=self.state.model)

    def requested(self, given: Any) -> None:
        """Add the calls of a message."""
        for call in given if isinstance(given, list) else [] if given is None else [given]:
            function = pick(call, "function", of=dict) or {}
            args = function.get("arguments", call)
            self.call(pick(call, "id", of=str), function.get("name"), args, "tool_calls")

    def say(self, role: str, text: str, part: dict[str, Any], is_partial: bool) -> None:
        mark = next((word for word in NOT_TYPED if part.get(word)), None)
        if role == "assistant":
            native = (
                "assistant/partial"
                if is_partial
                else "assistant/truncated"
                if part.get("truncated") is True
                else "assistant"
            )
            self.emit("assistant_msg", text, native, None, role, model=self.state.model)
        elif role != "user" or mark or text.startswith(JUDGE):
            self.emit(
                "lifecycle",
                text,
                f"{role[:100]}/{mark or 'text'}",
                None,
                role[:100] or None,
                view="context",
            )
        else:
            self.emit(
                "user_msg",
                text,
                "user/client_input" if part.get("is_client_input") is True else "user",
                None,
                role,
            )
            if not self.state.is_titled:
                self.set_title(text, 1)

    def call(self, id_: str | None, name: Any, given: Any, native: str) -> None:
        """Add a call, which has the same name in messages, logs and events."""
        name = name if isinstance(name, str) and name else "unknown"
        call = calls.describe(name, given, calls.action_of(name, ACTIONS))
        own, call_id = self.native_id, identifier(id_)
        if call_id:
            name = f"{self.session()}/{self.node or '-'}/call/{call_id}"
            if name in self.state.calls:
                keep(self.state.again, name, f"~{own.rpartition('/')[2]}", CALLS)
            self.native_id = name + self.state.again.get(name, "")
            self.remember_call(name, call)
        self.emit_call(call, native, call_id, part=0 if call_id else LOOSE + self.count)
        self.native_id = own

    def answer(self, id_: Any, text: str, is_error: bool, native: str) -> None:
        own, call_id = self.native_id, identifier(id_)
        name = f"{self.session()}/{self.node or '-'}/call/{call_id}"
        call = self.state.calls.get(name) or Call("unknown", "other")
        came = calls.build_result(text, is_error, None, call.is_test)
        if call_id:
            self.native_id = f"{name}{self.state.again.get(name, '')}/result"
        self.emit(
            "tool_result", came.text, native, came.summary, "tool", call.tool, call_id, call.action,
            0 if call_id else LOOSE + self.count,
            is_error=is_error, tests=came.tests,
        )  # fmt: skip
        self.native_id = own

    # The log of tools.

    def step(self, step: dict[str, Any]) -> None:
        """Add a turn of a node's loop: calls that no message has, the model's text, the verdict of
        the judge, and usage."""
        self.called(self.node or "-", "step", text_of(step.get("step_index")), *self.visit)
        for call in pick(step, "tool_calls", of=list) or []:
            self.logged_call(call)
        index = one_line(text_of(step.get("step_index")))
        self.emit(
            "lifecycle",
            text_of(step.get("llm_text")),
            "step",
            f"step {index} of {self.node or 'the session'}",
            "assistant",
            part=0,
            duration_ms=number(step.get("latency_ms")),
        )
        if self.room >= 0:
            self.used_by_step(step)
        feedback = text_of(step.get("verdict_feedback"))
        verdict = pick(step, "verdict", of=str) or ""
        if feedback or verdict not in ("", "CONTINUE"):
            self.verdict(verdict, feedback, part=1)
        if error := text_of(step.get("error") or None):
            trace = text_of(step.get("stacktrace") or None)
            body = f"{error}\n{trace}" if trace else error
            self.emit("error", body, "step/error", error, "system", part=2, is_error=True)

    def logged_call(self, call: Any) -> None:
        """Add a call of the log of tools, with the fields that no message has."""
        if not isinstance(call, dict):
            summary, part = "a call that cannot be read", LOOSE + self.count
            self.emit("lifecycle", text_of(call), "tool_logs", summary, part=part)
            return
        id_ = pick(call, "tool_use_id", of=str)
        if "tool_input" in call:
            self.call(id_, call.get("tool_name"), call["tool_input"], "tool_logs")
        if "result" in call:
            self.answer(id_, text_of(call["result"]), call.get("is_error") is True, "tool_logs")

    def used_by_step(self, step: dict[str, Any]) -> None:
        """Add the usage of a step to its event, which is the last one."""
        used = Usage(
            input_tokens=number(step.get("input_tokens")) or 0,
            output_tokens=number(step.get("output_tokens")) or 0,
        )
        if used.total:
            event = self.out.events[-1]
            self.out.events[-1] = msgspec.structs.replace(event, usage=used, tokens=used.total)
            self.bill(event.native_id or "", used, None)

    def verdict(self, verdict: str, feedback: str, part: int = 0) -> None:
        kind = {"RETRY": "retry", "ESCALATE": "human_intervention"}.get(
            verdict.upper(), "lifecycle"
        )
        word = one_line(verdict)[:100] or "unknown"
        self.emit(
            kind,
            feedback,
            f"verdict/{word}",
            one_line(feedback) or f"judge: {word}",
            "system",
            part=part,
        )

    def bill(self, event: str, used: Usage, model: str | None) -> None:
        call = api.Call(
            key=event, session_uid=self.uid(self.session()), ts=self.ts, model=model,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens, cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
        )  # fmt: skip
        self.out.calls.append((call, event))

    # Events.

    def event(self, event: dict[str, Any]) -> None:
        word, data = pick(event, "type", of=str) or "", pick(event, "data", of=dict) or {}
        id_ = pick(data, "tool_use_id", of=str)
        self.called("event", self.content_name())
        if word in QUIET:
            self.merge(word)
        elif word == "client_input_received":
            self.say(
                "user", text_of(data.get("content")), {"is_client_input": True}, is_partial=False
            )
        elif word == "tool_call_started" or "tool_input" in data:
            self.call(id_, data.get("tool_name"), data.get("tool_input"), word)
        elif word == "tool_call_completed":
            self.answer(id_, text_of(data.get("result")), data.get("is_error") is True, word)
        elif word == "llm_turn_complete" or "input_tokens" in data:
            self.turn(data)
        elif word == "judge_verdict":
            self.verdict(pick(data, "action", of=str) or "", text_of(data.get("feedback")))
        else:
            self.happened(word, data)
        if not self.count and word not in QUIET:
            self.merge(word[:100] or "event")

    def happened(self, word: str, data: dict[str, Any]) -> None:
        native, body = word[:100] or "event", key_values(data)
        error = pick(data, "error", of=str)
        origin = clean(pick(data, "from_session_id", of=str) or "")
        if (
            word == "session_forked"
            and origin
            and pick(data, "new_session_id", of=str) == self.session()
        ):
            self.state.parent, self.state.relation = self.uid(origin), "fork"
        if word == "node_retry":
            self.emit("retry", body, native, error, "system")
        elif word in ("execution_failed", "worker_failed", "node_tool_doom_loop", "node_stalled"):
            self.emit("error", body, native, error or native, "system", is_error=True)
        elif word in ("execution_completed", "worker_completed"):
            self.emit("completion", body, native, native, "system")
        elif word == "escalation_requested" or (
            word == "execution_paused" and data.get("reason") == "user_stopped"
        ):
            self.emit("human_intervention", body, native, native, "user")
        else:
            self.emit("lifecycle", body, native, native)

    def turn(self, data: dict[str, Any]) -> None:
        model, reason = (
            pick(data, "model", of=str) or self.state.model,
            one_line(text_of(data.get("stop_reason")))[:100],
        )
        self.state.model = model
        words = ("input_tokens", "output_tokens", "cached_tokens", "cache_creation_tokens")
        given, out, read, wrote = (number(data.get(word)) or 0 for word in words)
        used = Usage(
            input_tokens=max(0, given - read - wrote), output_tokens=out,
            cache_read_tokens=min(read, given),
            cache_write_tokens=min(wrote, max(0, given - read)),
        )  # fmt: skip
        event = self.emit(
            "lifecycle",
            "",
            "llm_turn_complete",
            f"turn ended: {reason or 'unknown'}",
            "system",
            model=model,
        )
        if used.total:
            self.charge(used, model)
            self.bill(event, used, model)


def role_of(part: dict[str, Any]) -> str:
    """Return the role of a message: its own, else one judged by its fields."""
    role = pick(part, "role", of=str) or ""
    if role in ("user", "assistant", "tool"):
        return role
    if part.get("tool_use_id"):
        return "tool"
    return (
        "assistant"
        if part.keys() & {"tool_calls", "thinking_blocks", "truncated"}
        else role or "user"
    )


def spoken(content: Any) -> str:
    if not isinstance(content, list):
        return text_of(content)
    return "\n".join(
        text if (text := pick(block, "text", of=str)) is not None else text_of(block)
        for block in content
    )


Handler = Callable[[Reader, dict[str, Any]], None]

HANDLERS: dict[str, Handler] = {
    "session": Reader.about,
    "started": Reader.started,
    "prompt": Reader.prompt,
    "part": Reader.part,
    "event": Reader.event,
    "step": Reader.step,
    "result": Reader.result,
    "checkpoint": Reader.checkpoint,
    "decision": Reader.decision,
    "problem": Reader.problem,
    "summary": Reader.summary,
    "ended": Reader.ended,
}
