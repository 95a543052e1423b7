"""`updates.jsonl` of a Grok Build session: the meaning of each of its records. The package's
docstring lists the traps of the format."""

from __future__ import annotations

from typing import Any

from ... import model as api
from ..shared.fold import keep
from ..shared.pick import clean, moment, number, pick
from ..shared.tools import key_values, test_counts, text_of
from .fold import CALLS, TURNS, Call, GrokFold, is_uuid
from .lines import slim, without_bytes
from .results import exit_number, is_refusal, outcome_of, result_summary
from .texts import block_text, hook_line, is_tagged, is_text, summary_in, unwrap
from .tools import ASKS, Described, action_of, describe_call, identifier, tool_of
from .usage import TICK, bill_of, by_model, ticks_of, usage_of


class Updates(GrokFold):
    """The fold over `updates.jsonl`: one method for each type of update."""

    update: dict[str, Any]
    meta: dict[str, Any]

    def record(self, data: bytes) -> None:
        super().record(without_bytes(data) if b'"output"' in data else data)

    def line(self, value: dict[str, Any]) -> None:
        # Very old lines have no envelope.
        params = value["params"] if isinstance(value.get("params"), dict) else value
        self.update, self.meta = (
            pick(params, "update", of=dict) or {},
            pick(params, "_meta", of=dict) or {},
        )
        self.session(pick(params, "sessionId", of=str))
        self.when(value)
        self.identify(self.event_id())
        tag = pick(self.update, "sessionUpdate", of=str) or ""
        if len(tag) < MIN_TAG:
            tag = next((tag for field, tag in GUESSES.items() if field in self.update), tag)
        handler = HANDLERS.get(tag)
        if tag != "user_message_chunk":
            self.state.in_prompt = False
            self.state.opened = None if self.state.opened == UNNUMBERED else self.state.opened
        if handler is not None:
            handler(self, tag)
        else:
            body = slim(self.raw_text().encode("utf-8", "replace")).decode()
            self.emit("lifecycle", body, tag or "unknown", tag or "unknown record")

    def when(self, value: dict[str, Any]) -> None:
        ms = pick(self.meta, "agentTimestampMs", of=int)
        seconds = pick(value, "timestamp", of=int) or pick(value, "timestamp", of=float)
        self.ts = moment(ms / 1000 if ms is not None and abs(ms) < 1 << 53 else seconds)

    def event_id(self) -> str | None:
        native = pick(self.meta, "eventId", of=str)
        if not native or len(native) > 200:
            return None
        owner = native.rpartition("-")[0]
        # Written by hand: unique within its session, if at all.
        if owner != self.state.session and not is_uuid(owner):
            native = f"{self.state.session}/{native}"
        ms = pick(self.meta, "agentTimestampMs", of=int)
        return native if ms is None else f"{native}@{ms % (1 << 53)}"

    # Messages.

    def user(self, tag: str) -> None:
        """Add a block of a prompt: its first text was typed by a person, unless a mark shows
        otherwise."""
        state = self.state
        about = pick(self.update, "_meta", of=dict) or {}
        index = number(pick(about, "promptIndex", of=int))
        state.model = pick(about, "modelId", of=str) or state.model
        text = block_text(self.update.get("content"))
        typed, _ = unwrap(text)
        goes_on = (
            index == state.prompt if index is not None else state.in_prompt and state.prompt is None
        )
        is_hosted = any(value is True and "host" in name.lower() for name, value in about.items())
        if is_hosted:
            self.emit("lifecycle", text, f"{tag}/host", None, "user", view="context")
        elif index is None and state.is_marked:
            kind = "lifecycle" if is_tagged(text) else "human_intervention"
            self.emit(kind, text, f"{tag}/unnumbered", None, "user", view="context")
        elif goes_on or not typed.strip() or not is_text(self.update.get("content")):
            state.in_prompt = state.in_prompt or goes_on
            self.block("lifecycle", text, f"{tag}/more", index, goes_on, "context")
        else:
            self.prompt(typed, tag, index)

    def prompt(self, text: str, tag: str, index: int | None) -> None:
        """Add a typed prompt, which begins a turn. After a rewind it gets the same parent as the
        retracted turn."""
        state = self.state
        state.is_marked = state.is_marked or index is not None
        state.in_prompt, state.prompt, state.is_compacted = True, index, False
        self.block("user_msg", text, tag, index)

    def block(
        self,
        kind: str,
        text: str,
        native: str,
        index: int | None,
        goes_on: bool = False,
        view: str | None = None,
    ) -> None:
        """Add a part of a prompt; the first of them begins the turn, whatever it is."""
        state = self.state
        turn = UNNUMBERED if index is None else index
        is_first = not goes_on and turn != state.opened
        state.opened = turn
        if is_first and state.is_rewound:
            state.last, state.is_rewound, state.branch_at = state.branch_at, False, None
            self.parent = state.last
        before = state.last
        event = self.emit(kind, text, native, None, "user", view=view)
        if is_first:
            state.turns.append((before, event))
        if len(state.turns) > TURNS:
            del state.turns[0]
            state.forgotten += 1

    def agent(self, tag: str) -> None:
        text = block_text(self.update["content"]) if "content" in self.update else ""
        kind = "thinking" if tag == "agent_thought_chunk" else "assistant_msg"
        if text.strip():
            self.emit(kind, text, tag, None, "assistant")
        else:
            self.merge("empty")

    # Tools.

    def tool_call(self, tag: str) -> None:
        """Add a call. One without input is only announced: an update tells what it does, and is the
        call."""
        described = describe_call(self.update)
        call_id = identifier(self.update.get("toolCallId"))
        if call_id and self.update.get("rawInput") is None:
            tool = described.tool[:200]
            self.emit(
                "lifecycle", described.body, f"{tag}/announced", described.summary, "assistant",
                tool, call_id, described.action,
            )  # fmt: skip
            call = Call(tool, described.action, answers=tool in ASKS, is_announced=True)
            keep(self.state.calls, call_id, call, CALLS)
        else:
            self.call(described, call_id, tag)

    def call(self, described: Described, call_id: str | None, native: str) -> Call:
        tool = described.tool[:200]
        self.emit(
            described.kind, described.body, native, described.summary, "assistant", tool, call_id,
            described.action, files=described.files,
        )  # fmt: skip
        call = Call(
            tool, described.action, described.kind == "test_run", tool in ASKS,
            is_empty=not self.update.get("rawInput"),
        )  # fmt: skip
        if call_id:
            keep(self.state.calls, call_id, call, CALLS)
        return call

    def arguments(self, call: Call, call_id: str, tag: str) -> Call:
        """Add the arguments of a call that was shown without."""
        described = describe_call(self.update, call.tool)
        self.emit(
            "lifecycle", described.body, f"{tag}/input", described.summary, "assistant", call.tool,
            call_id, call.action, files=described.files,
        )  # fmt: skip
        call = Call(call.tool, call.action, described.kind == "test_run", call.answers)
        keep(self.state.calls, call_id, call, CALLS)
        return call

    def tool_call_update(self, tag: str) -> None:
        """Add the result of a call, or the call if its input was not known before."""
        status = pick(self.update, "status", of=str)
        call_id = identifier(self.update.get("toolCallId"))
        call = self.state.calls.get(call_id) if call_id else None
        is_over = status in ("completed", "failed")
        is_new = bool(self.update.get("rawInput")) and (call is None or call.is_announced)
        if is_new:
            described = describe_call(self.update, call.tool if call else None)
            call = self.call(described, call_id, tag)
        elif call and call_id and call.is_empty and self.update.get("rawInput"):
            is_new, call = True, self.arguments(call, call_id, tag)
        if is_over:
            self.result(call, call_id, f"{tag}/{status}")
        elif not is_new:
            self.merge(f"{tag}/{'call' if status is None else 'progress'}")

    def result(self, call: Call | None, call_id: str | None, native: str) -> None:
        outcome = outcome_of(self.update, self.files.get("log"))
        if call is None:
            tool, word = tool_of(self.update, {})
            call = Call(tool[:200], action_of(tool, word, self.update))
        tests = test_counts(outcome.text) if call.is_test else None
        is_refused = is_refusal(outcome.text, outcome.exit_code)
        is_answer = call.answers and not outcome.is_error
        self.emit(
            "human_intervention" if is_refused else "decision" if is_answer else "tool_result",
            outcome.text, native,
            result_summary(outcome.text, outcome.exit_code, tests), "tool", call.tool,
            call_id, call.action,
            is_error=outcome.is_error and not is_refused, exit_code=outcome.exit_code, tests=tests,
            cwd=outcome.cwd if outcome.cwd != self.state.cwd else None,
        )  # fmt: skip

    def plan(self, tag: str) -> None:
        entries = [
            entry
            for entry in pick(self.update, "entries", of=list) or []
            if isinstance(entry, dict)
        ][:1000]
        done = sum(entry.get("status") == "completed" for entry in entries)
        body = "\n".join(
            f"[{text_of(entry.get('status'))}] {text_of(entry.get('content'))}" for entry in entries
        )
        self.emit(
            "decision",
            body,
            tag,
            f"plan: {done} of {len(entries)} done",
            "assistant",
            action="plan",
        )

    # The end, the failure and the retraction of a turn.

    def turn_completed(self, tag: str) -> None:
        reason = pick(self.update, "stop_reason", of=str) or "unknown"
        result = pick(self.update, "agent_result", of=str) or ""
        kind = {"cancelled": "human_intervention", "error": "error", "refusal": "error"}.get(
            reason, "completion"
        )
        why = next(
            (
                text
                for name in CANCELS
                for about in (self.meta, self.update)
                if (text := pick(about, name, of=str))
            ),
            None,
        )
        summary = (
            f"turn ended: {reason}{f' ({why})' if why else ''}"
            if reason != "end_turn"
            else "turn finished"
        )
        body = result if reason != "end_turn" else ""  # The answer has the same text.
        usage = pick(self.update, "usage", of=dict)
        parts = by_model(usage) if usage else []
        for part in parts:
            self.bill(*part, is_one=len(parts) == 1)
        model, counts = parts[0] if parts else (None, None)
        self.emit(
            kind, body, f"{tag}/{reason}", summary, is_error=kind == "error",
            duration_ms=number(self.update.get("elapsed_ms")),
            **self.costs(model, counts, usage),
        )  # fmt: skip
        for model, counts in parts[1:]:
            self.emit(
                "lifecycle",
                "",
                f"{tag}/usage",
                f"also used: {model}",
                **self.costs(model, counts, usage),
            )

    def costs(
        self, model: str | None, counts: dict[str, Any] | None, usage: dict[str, Any] | None
    ) -> Any:
        if not counts or not usage:
            return {}
        used = usage_of(counts)
        return dict(
            usage=used,
            tokens=used.total,
            model=model or self.state.model,
            extra=bill_of(counts, usage),
        )

    def bill(self, model: str | None, counts: dict[str, Any], *, is_one: bool) -> None:
        """Add a turn to the ledger: a sum over its requests, with its invoice. A fork's copy has
        the same id."""
        state = self.state
        if not self.native_id:
            self.native_id = self.new_id()
        used, ticks = usage_of(counts), ticks_of(counts)
        if not used.total and not ticks:
            return
        call = api.Call(
            key=self.native_id if is_one else f"{self.native_id}/{model}",
            session_uid=self.uid(self.session()), ts=self.ts,
            provider="xai",
            model=(model or state.model or state.current or "")[:MAX_NAME] or None,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens, cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
            reasoning_tokens=used.reasoning_tokens, is_sidechain=state.relation == "subagent",
            is_sum=True,
            invoiced=None if ticks is None else ticks * TICK,
        )  # fmt: skip
        self.out.calls.append((call, self.native_id))

    def retry(self, tag: str) -> None:
        kind = pick(self.update, "type", of=str) or (
            "retrying" if tag.endswith("started") else "exhausted"
        )
        reason = next(
            (
                text
                for name in ("reason", "message", "error")
                if (text := text_of(self.update.get(name)))
            ),
            "",
        )
        attempt, limit = number(self.update.get("attempt")), number(self.update.get("max_retries"))
        tried = f"attempt {attempt} of {limit}: " if attempt is not None else ""
        native = f"{tag}/{kind}"
        is_again = kind == "retrying"
        self.emit(
            "retry" if is_again else "error", reason or key_values(self.update), native,
            tried + (reason or kind), is_error=True,
            duration_ms=number(self.update.get("delay_ms")),
        )  # fmt: skip

    def rewind(self, tag: str) -> None:
        """Add a rewind to before a turn. The events since then stay, on a branch that was left."""
        state = self.state
        target = pick(self.update, "target_prompt_index", of=int)
        place = -1 if target is None else target - state.forgotten
        refs: tuple[str, ...] = ()
        if 0 <= place < len(state.turns):
            before, first = state.turns[place]
            refs = (first, "..", state.last or first)
            del state.turns[place:]
            state.last, state.branch_at, state.is_rewound = before, before, True
            self.parent = before
            # The number of the turn is used again, for another prompt.
            state.prompt = state.opened = None
        self.emit(
            "human_intervention",
            "",
            tag,
            f"rewound to prompt {target}",
            "user",
            view="retract" if refs else None,
            refs=refs,
        )

    # Records of the program itself.

    def compaction(self, tag: str) -> None:
        """Add one of the two records of a compaction, its end and its checkpoint. The first that
        comes empties the context."""
        state = self.state
        before, after = (
            number(self.update.get("tokens_before")),
            number(self.update.get("tokens_after")),
        )
        done = (
            f"compacted from {before} to {after} tokens"
            if before is not None and after is not None
            else "compacted"
        )
        is_first, state.is_compacted = not state.is_compacted, not state.is_compacted
        self.emit("lifecycle", "", tag, done, view="compact" if is_first else None)
        if preview := pick(self.update, "summary_preview", of=str):
            self.emit(
                "lifecycle",
                preview,
                f"{tag}/preview",
                None,
                "user",
                view="summary" if is_first else None,
            )
        if summary := summary_in(self.files.get("checkpoint")):
            self.emit("lifecycle", summary, f"{tag}/summary", None, "user", view="summary")

    def hooks(self, tag: str) -> None:
        runs = [run for run in pick(self.update, "runs", of=list) or [] if isinstance(run, dict)][
            :100
        ]
        failed = [run for run in runs if pick(run, "status", "status", of=str) == "failed"]
        event = pick(self.update, "event_name", of=str) or "hook"
        lines = [hook_line(run) for run in runs]
        elapsed = [
            ms
            for run in runs
            if (ms := number(pick(run, "status", of=dict) and run["status"].get("elapsed_ms")))
            is not None
        ]
        self.emit(
            "error" if failed else "lifecycle", "\n".join(lines), tag,
            f"{event}: {hook_line(failed[0])}" if failed else f"{event}: {len(runs)} hooks",
            is_error=bool(failed),
            tool=pick(self.update, "tool_name", of=str),
            duration_ms=sum(elapsed) if elapsed else None,
        )  # fmt: skip

    def subagent(self, tag: str) -> None:
        """Add the start or the end of a subagent, which is a session of its own."""
        child = pick(self.update, "child_session_id", of=str) or pick(
            self.update, "subagent_id", of=str
        )
        status, error = pick(self.update, "status", of=str), pick(self.update, "error", of=str)
        about = pick(self.update, "description", of=str) or error or status or tag
        who = pick(self.update, "subagent_type", of=str) or "subagent"
        body = (
            pick(self.update, "output", of=str)
            or error
            or pick(self.update, "description", of=str)
            or ""
        )
        is_error = status == "failed"
        self.emit(
            "error" if is_error else "lifecycle", body, tag, f"{who}: {about}", action="agent",
            is_error=is_error,
            duration_ms=number(self.update.get("duration_ms")),
            model=pick(self.update, "model", of=str),
            refs=(self.uid(clean(child)),) if child and clean(child) else (),
        )  # fmt: skip

    def task(self, tag: str) -> None:
        """Add a command that runs in the background."""
        about = pick(self.update, "task_snapshot", of=dict) or self.update
        code = exit_number(about.get("exit_code"))
        command = pick(about, "command", of=str) or ""
        body = pick(about, "output", of=str) or pick(self.update, "event_text", of=str) or command
        summary = pick(about, "description", of=str) or command or tag
        self.emit(
            "lifecycle", body, tag, f"exit {code}: {summary}" if code else summary, action="shell",
            exit_code=code, is_error=bool(code),
            call_id=identifier(about.get("tool_call_id")),
        )  # fmt: skip

    def model_changed(self, tag: str) -> None:
        state = self.state
        model = pick(self.update, "model_id", of=str) or pick(self.update, "new_model_id", of=str)
        before, state.model = state.model, model or state.model
        is_own = tag == "model_auto_switched"
        self.emit(
            "lifecycle" if is_own else "decision", text_of(self.update.get("reason")), tag,
            f"model {before} → {model}" if before else f"model {model}", None if is_own else "user",
        )  # fmt: skip

    def titled(self, tag: str) -> None:
        is_manual = pick(self.meta, "x.ai/titleIsManual", of=bool) or False
        self.set_title(
            pick(self.update, "session_summary", of=str) or pick(self.update, "title", of=str),
            3 if is_manual else 2,
        )
        self.merge(tag)

    def interaction(self, tag: str) -> None:
        call_id = identifier(self.update.get("tool_call_id"))
        self.emit("human_intervention", "", tag, tag.replace("_", " "), "user", call_id=call_id)

    def mode(self, tag: str) -> None:
        mode = pick(self.update, "currentModeId", of=str) or pick(self.update, "modeId", of=str)
        self.emit("lifecycle", mode or self.raw_text(), tag, f"mode {mode}")

    def note(self, tag: str) -> None:
        """Add a record of the program as it is."""
        text = next(
            (text for name in TEXT_FIELDS if (text := pick(self.update, name, of=str))), None
        )
        fields = {
            name: value
            for name, value in self.update.items()
            if name not in ("sessionUpdate", "_meta")
        }
        self.emit(
            "lifecycle",
            text or key_values(fields),
            tag,
            f"{tag.replace('_', ' ')}: {text}" if text else tag.replace("_", " "),
        )

    def progress(self, tag: str) -> None:
        """Add a new state of a goal or a workflow, which is repeated every second."""
        phase = self.update.get("phase", self.update.get("current_phase"))
        state = f"{text_of(self.update.get('status'))}/{text_of(phase)}"[:100]
        if self.state.progress.get(tag) == state:
            self.merge(tag)
            return
        keep(self.state.progress, tag, state, len(PROGRESS))
        self.note(tag)

    def passed(self, tag: str) -> None:
        """Count a record that another one repeats when it is over."""
        self.merge(tag)


MAX_NAME = 200  # Of a model.
UNNUMBERED = -1
# Letters of the type of a record. A shorter one, or none, is damage, and its fields decide.
MIN_TAG = 4
GUESSES = {
    "stop_reason": "turn_completed", "summary_preview": "auto_compact_completed",
    "checkpoint_file": "compaction_checkpoint",
    "target_prompt_index": "rewind_marker", "runs": "hook_execution",
}  # fmt: skip
CANCELS = ("cancellationCategory", "cancelTrigger")
PROGRESS = ("goal_updated", "workflow_updated")
TEXT_FIELDS = ("summary", "message", "error", "result", "objective", "reason", "text")
HANDLERS = {
    "user_message_chunk": Updates.user,
    **dict.fromkeys(("agent_message_chunk", "agent_thought_chunk"), Updates.agent),
    "tool_call": Updates.tool_call,
    "tool_call_update": Updates.tool_call_update,
    "plan": Updates.plan,
    "turn_completed": Updates.turn_completed,
    **dict.fromkeys(
        ("retry_state", "auto_recovery_started", "auto_recovery_exhausted"), Updates.retry
    ),
    "rewind_marker": Updates.rewind,
    **dict.fromkeys(("auto_compact_completed", "compaction_checkpoint"), Updates.compaction),
    "hook_execution": Updates.hooks,
    **dict.fromkeys(("subagent_spawned", "subagent_finished"), Updates.subagent),
    **dict.fromkeys(("task_backgrounded", "task_completed", "monitor_event"), Updates.task),
    **dict.fromkeys(("model_changed", "model_auto_switched"), Updates.model_changed),
    **dict.fromkeys(("session_summary_generated", "session_info_update"), Updates.titled),
    **dict.fromkeys(("pending_interaction", "interaction_resolved"), Updates.interaction),
    "current_mode_update": Updates.mode,
    **dict.fromkeys(PROGRESS, Updates.progress),
    **dict.fromkeys(
        """auto_compact_started auto_compact_failed auto_compact_cancelled auto_continue_completed
        session_recap diff_review image_compressed image_dropped memory_flush_completed
        memory_dream_completed memory_session_saved scheduled_task_created scheduled_task_fired
        scheduled_task_deleted hook_annotation""".split(),
        Updates.note,
    ),
    **dict.fromkeys(
        """available_commands_update usage_update subagent_progress tool_call_delta_chunk
        memory_flush_started memory_files hooks_changed plugins_changed relay_sync_status
        response_started response_completed reasoning_completed""".split(),
        Updates.passed,
    ),
}
