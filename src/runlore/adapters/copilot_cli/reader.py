"""The meaning of Copilot CLI's records: one method for each type of record."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from .. import Normalized, Record, Source
from ..shared.fold import keep, with_rank
from ..shared.pick import clean, moment, number, pick, time_of
from ..shared.tools import key_values, one_line, text_of, title_line
from . import is_log, words
from .fold import AGENTS, UUID
from .timeline import Timeline

QUIET = frozenset(
    {
        "assistant.turn_start", "assistant.intent", "assistant.idle", "session.idle",
        "session.usage_checkpoint", "session.usage_info",
        "session.compaction_start", "permission.requested", "hook.start", "hook.progress",
        "tool.execution_progress",
        "tool.execution_partial_result", "assistant.message_start", "assistant.message_delta",
        "assistant.reasoning_delta",
        "assistant.tool_call_delta", "assistant.streaming_delta", "pending_messages.modified",
        "session.tools_updated",
        "session.background_tasks_changed", "session.skills_loaded", "session.mcp_servers_loaded",
        "commands.changed",
        "capabilities.changed", "session.todos_changed", "model.call_finished",
        "session.mode_notice_delivered",
    }
)  # fmt: skip
"""What the program tells of its own progress, and what another record says better."""


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return with_rank(Reader(source, carry).run(records), 0 if is_log(source.path) else 1)


class Reader(Timeline):
    """All records of a log."""

    # Records.

    def line(self, value: dict[str, Any]) -> None:
        data = pick(value, "data", of=dict)
        word = pick(value, "type", of=str) or ""
        self.session(self.session_name(value, data, word))
        native, ts = pick(value, "id", of=str), value.get("timestamp")
        if native is not None and data is not None:
            self.identify(self.named(native))
        self.ts = time_of(ts) or moment((number(ts, 1 << 50) or 0) / 1000 or None)
        if data is None:
            self.document(value)
            return
        if word == "subagent.started":
            self.note_agent(value, data)
        self.agent = self.speaker(value, data, word)
        self.parent = self.stream().last
        self.handle(word, data)
        self.agent = None

    def session_name(
        self, value: dict[str, Any], data: dict[str, Any] | None, word: str
    ) -> str | None:
        """Return the session of a record: the file's own name, or the one that its beginning
        names."""
        own = self.own_name()
        if UUID.match(own):
            return own
        if word not in ("session.start", "") and "session_id" not in value:
            return None
        return (
            pick(data, "sessionId", of=str)
            or pick(value, "session_id", of=str)
            or pick(value, "sessionId", of=str)
        )

    def note_agent(self, value: dict[str, Any], data: dict[str, Any]) -> None:
        """Remember the call that started a subagent."""
        agent, call = pick(value, "agentId", of=str), pick(data, "toolCallId", of=str)
        if agent and call:
            keep(self.state.started, agent[:200], call[:200], AGENTS)

    def handle(self, word: str, data: dict[str, Any]) -> None:
        """Add the events of a record by its type, or by the fields that it has."""
        handler = HANDLERS.get(word) or HANDLERS.get(guess(data))
        if word in QUIET:
            self.merge(word)
        elif handler is not None:
            handler(self, data)
        else:
            text = key_values(data)
            summary = f"{word}: {one_line(text)}" if word else None
            self.emit("lifecycle", text, word[:200] or "unknown", summary)

    def speaker(self, value: dict[str, Any], data: dict[str, Any], word: str) -> str | None:
        """The call that started the subagent which speaks here; None for the session itself."""
        if word.startswith(("session.", "subagent.")):
            return None
        name = pick(value, "agentId", of=str)
        call = pick(data, "parentToolCallId", of=str) or (
            self.state.started.get(name, name) if name else None
        )
        return clean(call) or None if call else None

    def tell(
        self,
        data: dict[str, Any],
        native: str,
        kind: str = "lifecycle",
        role: str | None = "system",
        **more: Any,
    ) -> None:
        """A record whose message is its text."""
        text = (
            pick(data, "message", of=str)
            or pick(data, "content", of=str)
            or pick(data, "summary", of=str)
        )
        self.emit(kind, text if text is not None else key_values(data), native, None, role, **more)

    # The session.

    def start(self, data: dict[str, Any]) -> None:
        state = self.state
        self.place(data)
        state.model = pick(data, "selectedModel", of=str) or state.model
        if above := clean(pick(data, "detachedFromSpawningParentSessionId", of=str) or ""):
            state.parent, state.relation = self.uid(above), "continuation"
        version = pick(data, "copilotVersion", of=str)
        self.emit(
            "lifecycle",
            "",
            "session.start",
            f"session started, version {version}" if version else "session started",
            "system",
        )
        state.has_begun = True

    def place(self, data: dict[str, Any]) -> str | None:
        """Note the folder from here on. The session belongs to the folder where it began."""
        state, context = self.state, pick(data, "context", of=dict) or data
        here = (pick(context, "cwd", of=str) or "")[:4096] or None
        state.cwd = state.cwd or here
        state.branch = (pick(context, "branch", of=str) or "")[:200] or state.branch
        state.repo = state.repo or (pick(context, "repository", of=str) or "")[:200] or None
        return here

    def resume(self, data: dict[str, Any]) -> None:
        self.place(data)
        self.state.model = pick(data, "selectedModel", of=str) or self.state.model
        self.emit("lifecycle", "", "session.resume", "session resumed", "system")

    def moved(self, data: dict[str, Any]) -> None:
        here = self.place(data)
        self.emit(
            "lifecycle",
            key_values(data),
            "session.context_changed",
            None,
            "system",
            cwd=here,
            git_branch=self.state.branch,
        )

    def model_changed(self, data: dict[str, Any]) -> None:
        model, before = pick(data, "newModel", of=str), self.state.model
        self.state.model = model or before
        self.emit(
            "lifecycle",
            key_values(data),
            "session.model_change",
            f"model {before or '?'} → {model or '?'}",
            "system",
        )

    def mode_changed(self, data: dict[str, Any]) -> None:
        self.emit("human_intervention", key_values(data), "session.mode_changed", None, "user")

    def permissions_changed(self, data: dict[str, Any]) -> None:
        self.emit(
            "human_intervention", key_values(data), "session.permissions_changed", None, "user"
        )

    def titled(self, data: dict[str, Any]) -> None:
        if not self.state.has_title:
            self.set_title(pick(data, "title", of=str), 2)
        self.merge("session.title_changed")

    def failed(self, data: dict[str, Any]) -> None:
        text = (
            pick(data, "message", of=str) or pick(data, "errorMessage", of=str) or key_values(data)
        )
        self.emit("error", text, "session.error", None, "system", is_error=True)

    def warned(self, data: dict[str, Any]) -> None:
        self.tell(data, "session.warning", "error")

    def informed(self, data: dict[str, Any]) -> None:
        self.tell(data, "session.info")

    def file_changed(self, data: dict[str, Any]) -> None:
        path = pick(data, "path", of=str)
        self.emit(
            "lifecycle",
            key_values(data),
            "session.workspace_file_changed",
            None,
            "system",
            files=(path,) if path else (),
        )

    def aborted(self, data: dict[str, Any]) -> None:
        reason = pick(data, "reason", of=str)
        self.emit(
            "human_intervention",
            reason or "",
            "abort",
            f"interrupted: {reason}" if reason else "interrupted",
            "user",
        )

    def done(self, data: dict[str, Any]) -> None:
        self.tell(data, "session.task_complete", "completion", "assistant")

    # The context.

    def compacted(self, data: dict[str, Any]) -> None:
        if data.get("success") is False:
            self.emit(
                "error",
                text_of(data.get("error")) or key_values(data),
                "session.compaction_complete",
                None,
                "system",
                is_error=True,
            )
            return
        before = number(data.get("preCompactionTokens"))
        self.emit(
            "lifecycle",
            "",
            "session.compaction_complete",
            f"compacted {before} tokens" if before else "compacted",
            view="compact",
        )
        if text := text_of(data.get("summaryContent")):
            self.emit(
                "lifecycle",
                text,
                "session.compaction_complete/summary",
                None,
                "user",
                view="summary",
            )

    def cleared(self, data: dict[str, Any]) -> None:
        self.emit(
            "lifecycle",
            key_values(data),
            "session.context_cleared",
            "context cleared",
            "user",
            view="compact",
        )

    def truncated(self, data: dict[str, Any]) -> None:
        removed = number(data.get("messagesRemovedDuringTruncation"))
        self.emit(
            "lifecycle",
            key_values(data),
            "session.truncation",
            f"{removed} messages left out" if removed else "truncated",
            "system",
        )

    def instructed(self, data: dict[str, Any]) -> None:
        self.tell(data, "system.message", view="context")

    def notified(self, data: dict[str, Any]) -> None:
        code = number((pick(data, "kind", of=dict) or {}).get("exitCode"), 1 << 31)
        self.tell(data, "system.notification", view="context", exit_code=code)

    def skill(self, data: dict[str, Any]) -> None:
        name, path = pick(data, "name", of=str), pick(data, "path", of=str)
        text = pick(data, "content", of=str) or key_values(data)
        self.emit(
            "lifecycle",
            text,
            "skill.invoked",
            f"skill {name}" if name else None,
            view="context",
            files=(path,) if path else (),
        )

    def hooked(self, data: dict[str, Any]) -> None:
        """A hook that had nothing to say is no news."""
        kind = pick(data, "hookType", of=str) or "hook"
        if data.get("success") is False or data.get("error"):
            text = (
                pick(data, "error", "message", of=str)
                or text_of(data.get("error"))
                or key_values(data)
            )
            self.emit(
                "error", text, "hook.end", f"{kind}: {one_line(text)}", "system", is_error=True
            )
        elif output := data.get("output"):
            self.emit(
                "lifecycle",
                text_of(output),
                "hook.end",
                f"{kind}: {one_line(text_of(output))}",
                "system",
            )
        else:
            self.merge("hook.end")

    # What people and the model say.

    def prompt(self, data: dict[str, Any]) -> None:
        typed, sent = pick(data, "content", of=str), pick(data, "transformedContent", of=str)
        text = typed if typed is not None else sent if sent is not None else key_values(data)
        source, is_more = pick(data, "source", of=str), data.get("isAutopilotContinuation") is True
        if not text.strip():
            self.merge("empty prompt")
        elif self.agent is None and (is_more or source not in (None, "", "user")):
            native = f"user.message/{source or 'autopilot'}"[:200]
            self.emit("lifecycle", text, native, None, "user", view="context")
        else:
            self.typed_prompt(text, pick(data, "delivery", of=str))
        if sent is not None and (more := words.around(sent)):
            self.emit("lifecycle", more, "user.message/context", None, "user", view="context")
        for attachment in pick(data, "attachments", of=list) or []:
            text, path = words.attached(attachment)
            files = (path,) if path else ()
            self.emit("lifecycle", text, "attachment", None, "user", view="context", files=files)

    def typed_prompt(self, text: str, delivery: str | None) -> None:
        """Add a prompt of a person, or of the agent that started this one, and take it as a
        title."""
        is_late = delivery in ("steering", "queued")
        native = f"user.message/{delivery}" if is_late else "user.message"
        self.emit("user_msg", text, native, None, "user")
        if self.agent is not None:
            self.touched[self.agent] = self.touched.get(self.agent) or title_line(text, 1)
        elif not self.state.is_titled:
            self.set_title(text, 1)

    def message(self, data: dict[str, Any]) -> None:
        stream = self.stream()
        model = pick(data, "model", of=str)
        stream.model = model or stream.model
        if thought := pick(data, "reasoningText", of=str):
            self.think(thought, "assistant.message/reasoning")
        if text := text_of(data.get("content")):
            self.emit("assistant_msg", text, "assistant.message", None, "assistant", model=model)
        requests = pick(data, "toolRequests", of=list) or []
        for request in requests:
            self.call(request, pick(request, "name", of=str), pick(request, "toolCallId", of=str))
        stream.is_busy = bool(requests)
        if not self.count and not requests and not thought:
            self.merge("empty")
        self.count_output(data, model)

    def reasoned(self, data: dict[str, Any]) -> None:
        self.think(pick(data, "content", of=str) or key_values(data), "assistant.reasoning")

    def think(self, thought: str, native: str) -> None:
        """Some versions write the same text before its message and in it."""
        stamp = blake2b(thought.encode("utf-8", "replace"), digest_size=8).digest()
        if stamp == self.state.thought:
            self.merge("told before")
            return
        self.state.thought = stamp
        self.emit("thinking", thought, native, None, "assistant")

    def turned(self, data: dict[str, Any]) -> None:
        """A turn is one request; the last one asks for no tools."""
        stream = self.stream()
        if not stream.is_busy and stream.last is not None:
            self.emit("completion", "", "assistant.turn_end", "turn ended", "assistant")
        else:
            self.merge("assistant.turn_end")

    # Tools.

    def executed(self, data: dict[str, Any]) -> None:
        """A call as it is carried out; the message that asked for it has told of it before."""
        self.call(data, data.get("toolName"), pick(data, "toolCallId", of=str))

    def requested(self, data: dict[str, Any]) -> None:
        """A person ran a tool."""
        self.call(data, data.get("toolName"), pick(data, "toolCallId", of=str), "user")

    def completed(self, data: dict[str, Any]) -> None:
        call_id, text = pick(data, "toolCallId", of=str), words.result_text(data)
        code = number(pick(data, "shellExecution", "exitCode", of=int), 1 << 31)
        code = (
            code
            if code is not None or self.called(call_id).action != "shell"
            else words.exit_of(text)
        )
        is_refused = pick(data, "error", "code", of=str) in words.REFUSED
        self.result(
            call_id, text, data.get("success") is False and not is_refused, code, is_refused
        )

    def permitted(self, data: dict[str, Any]) -> None:
        """Denials tell themselves in the result of the call; what was allowed is seen by its being
        done."""
        kind = pick(data, "result", "kind", of=str) or "unknown"
        if kind.startswith("approved"):
            self.merge("permission.completed")
        else:
            self.emit(
                "lifecycle", key_values(data), "permission.completed", f"permission: {kind}", "user"
            )

    # Subagents.

    def delegated(self, data: dict[str, Any]) -> None:
        call = clean(pick(data, "toolCallId", of=str) or "")
        name = pick(data, "agentDisplayName", of=str) or pick(data, "agentName", of=str)
        if call:
            self.known(call).name = name[:200] if name else None
        self.about_agent(data, "subagent.started", call, f"subagent started: {name or '?'}")

    def returned(self, data: dict[str, Any]) -> None:
        call, took = clean(pick(data, "toolCallId", of=str) or ""), number(data.get("durationMs"))
        self.about_agent(data, "subagent.completed", call, "subagent ended", duration_ms=took)

    def broken(self, data: dict[str, Any]) -> None:
        call, text = clean(pick(data, "toolCallId", of=str) or ""), pick(data, "error", of=str)
        self.about_agent(
            data, "subagent.failed", call, f"subagent failed: {one_line(text or '')}", is_error=True
        )

    def about_agent(
        self, data: dict[str, Any], native: str, call: str, summary: str, **more: Any
    ) -> None:
        refs = (self.uid(f"{self.session()}/agent-{call}"),) if call else ()
        kind = "error" if more.get("is_error") else "lifecycle"
        self.emit(
            kind,
            key_values(data),
            native,
            summary,
            "system",
            call_id=call or None,
            action="agent",
            refs=refs,
            **more,
        )


def guess(data: dict[str, Any]) -> str:
    """Return the type that a record must have when its own is missing or not known."""
    if data.keys() & {"toolRequests", "reasoningText", "messageId"}:
        return "assistant.message"
    if data.keys() & {"transformedContent", "attachments"}:
        return "user.message"
    if "summaryContent" in data:
        return "session.compaction_complete"
    return "session.import_legacy" if "legacySession" in data else ""


HANDLERS = {
    "session.start": Reader.start,
    "session.resume": Reader.resume,
    "session.context_changed": Reader.moved,
    "session.model_change": Reader.model_changed,
    "session.mode_changed": Reader.mode_changed,
    "session.permissions_changed": Reader.permissions_changed,
    "session.title_changed": Reader.titled,
    "session.error": Reader.failed,
    "model.call_failure": Reader.failed,
    "session.warning": Reader.warned,
    "session.info": Reader.informed,
    "session.workspace_file_changed": Reader.file_changed,
    "session.task_complete": Reader.done,
    "session.compaction_complete": Reader.compacted,
    "session.context_cleared": Reader.cleared,
    "session.truncation": Reader.truncated,
    "session.shutdown": Reader.ended,
    "session.import_legacy": Reader.imported,
    "user.message": Reader.prompt,
    "assistant.message": Reader.message,
    "assistant.reasoning": Reader.reasoned,
    "assistant.turn_end": Reader.turned,
    "assistant.usage": Reader.used,
    "tool.user_requested": Reader.requested,
    "tool.execution_start": Reader.executed,
    "tool.execution_complete": Reader.completed,
    "permission.completed": Reader.permitted,
    "subagent.started": Reader.delegated,
    "subagent.completed": Reader.returned,
    "subagent.failed": Reader.broken,
    "hook.end": Reader.hooked,
    "skill.invoked": Reader.skill,
    "system.message": Reader.instructed,
    "system.notification": Reader.notified,
    "abort": Reader.aborted,
}
