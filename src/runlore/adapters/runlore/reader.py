"""The meaning of the records of a live session log: one method for each type of record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from .. import Normalized, Record, Source
from ..shared.fold import keep
from ..shared.pick import pick
from ..shared.tools import one_line, test_counts, text_of
from .calls import describe_call
from .fold import CALLS, REWINDS, SKILLS, LogFold
from .lines import Call, is_on, path
from .messages import blocks_of, exit_of, headline, result_text, shown, text_in
from .skills import attempt_line, attempt_of, check_of, is_failure, milliseconds
from .usage import usage_of


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


ATTACHMENTS = ("image", "document")


class Reader(LogFold):
    """The fold that knows what the records mean."""

    def message(self, kind: str, payload: dict[str, Any]) -> None:
        self.is_node = True
        about = payload.get("meta")
        meta: Mapping[str, Any] = about if isinstance(about, dict) else {}
        role = pick(payload, "role", of=str)
        self.state.model = _text(payload, "model") or _text(meta, "model") or self.state.model
        self.spend(payload.get("usage"), payload)
        if self.usage is None:
            self.spend(meta.get("usage"), meta)
        self.state.has_usage = self.state.has_usage or self.usage is not None
        is_typed = role == "user" and meta.get("synthetic") is not True
        blocks = list(blocks_of(payload.get("content")))
        is_attached = all(native in ATTACHMENTS for native, _ in blocks)
        for n, (native, block) in enumerate(blocks):
            # A picture is a prompt of its own only where nothing else is in the message.
            is_prompt = is_typed and (native not in ATTACHMENTS or (n == 0 and is_attached))
            self.block(native, block, role, is_prompt)
        if not blocks:
            self.emit(
                "lifecycle", text_of(payload), kind, f"{role or 'message'} without content", role
            )

    def block(self, native: str, block: Any, role: str | None, is_prompt: bool) -> None:
        """Add a block of a message."""
        if not isinstance(block, dict):
            self.emit("lifecycle", text_of(block), native, role=role)
        elif native == "tool_use":
            self.tool_use(block)
        elif native == "tool_result":
            self.tool_result(block, role)
        elif native in ATTACHMENTS:
            self.context(shown(block), native, role, is_prompt=is_prompt)
        elif native in ("text", "thinking") and (text := text_in(block)) is not None:
            self.say(text, native, role, is_prompt)
        else:
            self.emit("lifecycle", text_of(block), native, role=role)

    def say(self, text: str, native: str, role: str | None, is_prompt: bool) -> None:
        if native == "thinking":
            self.emit("thinking", text, native, role=role)
        elif role == "assistant":
            self.emit("assistant_msg", text, native, role=role)
        elif is_prompt:
            self.emit("user_msg", text, native, role=role)
            if not self.state.is_titled:
                self.state.is_titled = self.set_title(text, 1)
        else:
            self.context(text, native, role)

    def context(self, text: str, native: str, role: str | None, *, is_prompt: bool = False) -> None:
        """Add a text for the model that nobody typed: a system prompt, a reminder, a picture beside
        a prompt."""
        self.emit(
            "user_msg" if is_prompt else "lifecycle",
            text,
            native,
            role=role,
            view=None if is_prompt else "context",
        )

    def partial(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a message that is not complete. The next record has more of it, or all of it, so this
        one is no message of its own."""
        self.is_node = True
        # A piece of a stream, or all that has arrived so far.
        content = payload.get("delta") or payload.get("content")
        texts = [text_in(block) for _, block in blocks_of(content) if isinstance(block, dict)]
        self.emit("lifecycle", "\n".join([text for text in texts if text]), kind, role="assistant")

    def tool_use(self, block: dict[str, Any]) -> None:
        tool = block["name"] if isinstance(block.get("name"), str) and block["name"] else "unknown"
        call = describe_call(tool, block.get("input"))
        call_id = _text(block, "id")
        self.emit(
            call.kind,
            call.body,
            "tool_use",
            call.summary,
            "assistant",
            tool=tool,
            call_id=call_id,
            action=call.action,
            files=call.files,
        )
        if call_id:
            keep(self.state.calls, call_id, Call(tool, call.action, call.kind == "test_run"), CALLS)

    def tool_result(self, block: dict[str, Any], role: str | None) -> None:
        call_id = _text(block, "tool_use_id")
        call = self.state.calls.pop(call_id, None) if call_id else None
        text = self.whole(block, result_text(block))
        exit_code = exit_of(block, text)
        self.emit(
            "tool_result", text, "tool_result", role=role, call_id=call_id,
            tool=call.tool if call else None,
            action=call.action if call else None,
            is_error=block.get("is_error") is True or bool(exit_code), exit_code=exit_code,
            tests=test_counts(text) if call and call.is_test else None,
        )  # fmt: skip

    def whole(self, block: dict[str, Any], text: str) -> str:
        """Return the whole of an output that is in a file of its own, else the given text."""
        ref = next(
            (ref for ref in (block.get("output"), block.get("whole")) if isinstance(ref, dict)), {}
        )
        name = ref.get("sha256")
        return self.outputs.get(name, text) if isinstance(name, str) else text

    def rewind(self, kind: str, payload: dict[str, Any]) -> None:
        state = self.state
        seq = payload.get("seq")
        self.emit(
            "lifecycle",
            text_of(payload),
            kind,
            "back to the beginning" if seq == -1 else f"back to record {text_of(seq)}",
        )
        if type(seq) is int and -1 <= seq < state.last:
            state.redo = [*state.redo[1 - REWINDS :], state.last - 1]
            self.go_to(seq)

    def redo(self, kind: str, payload: dict[str, Any]) -> None:
        self.emit("lifecycle", text_of(payload), kind, "forward again")
        if self.state.redo:
            self.go_to(self.state.redo.pop())

    def compact(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a compaction: the summary replaces the covered part, and later messages stay in the
        context."""
        self.is_node = True
        upto = payload.get("upto")
        here = path(self.state, self.state.last)
        names = [
            name
            for seq, name in self.state.nodes
            if type(upto) is int and seq > upto and is_on(seq, here)
        ]
        self.spend(payload.get("usage"), payload)
        self.emit("lifecycle", "", kind, "compacted", view="compact", refs=tuple(names))
        summary = payload.get("summary")
        self.emit(
            "lifecycle",
            summary if isinstance(summary, str) else text_of(payload),
            "summary",
            role="user",
            view="summary",
        )

    def clear(self, kind: str, payload: dict[str, Any]) -> None:
        self.is_node = True
        self.emit("lifecycle", text_of(payload) if payload else "", kind, "cleared", view="compact")

    # The session.

    def session(self, kind: str, payload: dict[str, Any]) -> None:
        state = self.state
        state.cwd, state.model = (
            _text(payload, "cwd") or state.cwd,
            _text(payload, "model") or state.model,
        )
        state.branch = _text(payload, "git_branch") or state.branch
        if title := _text(payload, "title"):
            state.is_titled = True
            self.set_title(title, 2)
        self.trace(payload.get("origin"))
        if name := self.other_session(_text(payload, "parent")):
            self.state.parent, self.state.relation = self.uid(name), "subagent"
            self.state.parent_call = _text(payload, "call")
        self.emit("lifecycle", text_of(payload), kind, "session begun")

    def meta(self, kind: str, payload: dict[str, Any]) -> None:
        self.state.cwd = _text(payload, "cwd") or self.state.cwd
        self.state.model = _text(payload, "model") or self.state.model
        self.emit("lifecycle", text_of(payload), kind, "metadata changed")

    def titled(self, kind: str, payload: dict[str, Any]) -> None:
        title = _text(payload, "title")
        self.emit("lifecycle", title or text_of(payload), kind)
        if title:
            self.state.is_titled = True
            self.set_title(title, 3)

    def trace(self, origin: Any) -> None:
        """Note the session that a fork comes from. Records older than the fork are copies."""
        if not isinstance(origin, dict):
            return
        if name := self.other_session(_text(origin, "session")):
            self.state.parent, self.state.relation = self.uid(name), "fork"
            self.state.forked_at = self.ts

    def other_session(self, name: str | None) -> str | None:
        """Return the id if it can be that of another session."""
        is_id = name and name.isprintable() and name == name.strip() and name != self.native
        return name if is_id else None

    # Tools, the run, skills.

    def tool_started(self, kind: str, payload: dict[str, Any]) -> None:
        name = _text(payload, "name") or "a tool"
        body = text_of(payload.get("args", payload.get("input")))
        self.emit(
            "lifecycle",
            body,
            kind,
            f"{name} began",
            tool=_text(payload, "name"),
            call_id=_text(payload, "call_id"),
        )

    def tool_decided(self, kind: str, payload: dict[str, Any]) -> None:
        word = "approved" if payload.get("approved") is True else "refused"
        by = _text(payload, "by")
        summary = f"{word} by {by}" if by else word
        body = text_of(payload.get("payload")) if "payload" in payload else ""
        self.emit("lifecycle", body, kind, summary, call_id=_text(payload, "call_id"))

    def model_finished(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a request to a model whose usage is in no message."""
        self.state.model = _text(payload, "model") or self.state.model
        self.spend(payload.get("usage"), payload)
        self.state.has_usage = self.state.has_usage or self.usage is not None
        duration = milliseconds(payload.get("duration_ms"))
        self.emit("lifecycle", "", kind, "model request", duration_ms=duration)

    def tool_finished(self, kind: str, payload: dict[str, Any]) -> None:
        text = self.whole(payload, result_text(payload))
        self.emit(
            "lifecycle",
            text,
            kind,
            None,
            call_id=_text(payload, "call_id"),
            is_error=payload.get("is_error") is True,
        )

    def failed(self, kind: str, payload: dict[str, Any]) -> None:
        error = _text(payload, "error")
        self.emit(
            "error",
            error or text_of(payload),
            kind,
            error or "the run failed",
            action="run:fail",
            is_error=True,
        )

    def changed_status(self, kind: str, payload: dict[str, Any]) -> None:
        """Add that a run was started, resumed, paused or cancelled."""
        self.emit(
            "lifecycle", text_of(payload), kind, headline(kind, payload), action=_STATUSES[kind]
        )

    def problem(self, kind: str, payload: dict[str, Any]) -> None:
        summary, body = _note(payload, "description")
        self.emit("error", body, kind, summary, is_error=True)

    def decided(self, kind: str, payload: dict[str, Any]) -> None:
        summary, body = _note(payload, "decision", "intent", "description")
        self.emit("decision", body, kind, summary)

    def completed(self, kind: str, payload: dict[str, Any]) -> None:
        is_failed = payload.get("quality") == "failed"
        self.emit(
            "completion",
            text_of(payload.get("output")),
            kind,
            "the run completed" + " in failure" * is_failed,
            action="run:fail" if is_failed else "run:complete",
        )

    def checkpoint(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a checkpoint without the buffer that it saves, which earlier records hold."""
        about = {
            name: value for name, value in payload.items() if name not in ("whole", "set", "delete")
        }
        self.emit(
            "lifecycle",
            text_of(about),
            kind,
            f"checkpoint {_text(payload, 'id') or ''} at {_text(payload, 'node') or 'no node'}",
        )

    def beat(self, kind: str, payload: dict[str, Any]) -> None:
        self.merge(kind)

    def skill_started(self, kind: str, payload: dict[str, Any]) -> None:
        skill, run = _text(payload, "skill") or "unknown", _text(payload, "run")
        if run:
            keep(self.state.skills, run, skill, SKILLS)
        phase = _text(payload, "phase")
        self.emit(
            "lifecycle",
            text_of(payload.get("input")),
            kind,
            f"skill {skill}{f', {phase}' if phase else ''} began",
            tool=skill,
        )

    def attempt_started(self, kind: str, payload: dict[str, Any]) -> None:
        self.emit("lifecycle", "", kind, attempt_line(payload, "began"), tool=self.skill(payload))

    def attempt_finished(self, kind: str, payload: dict[str, Any]) -> None:
        """Add the result of an attempt, and each check as a command and its result."""
        attempt = attempt_of(payload)
        if not self.state.has_usage:  # Else the messages have it.
            self.usage = usage_of(payload.get("usage"))
        has_raised = attempt.error is not None
        self.emit(
            "error" if has_raised else "lifecycle", attempt.body, f"{kind}/{attempt.word}",
            attempt_line(payload, attempt.word),
            tool=self.skill(payload), is_error=has_raised, model=_text(payload, "model"),
            duration_ms=milliseconds(payload.get("duration_ms")),
        )  # fmt: skip
        for n, check in enumerate(attempt.checks):
            self.check(
                check, f"{_text(payload, 'run') or 'run'}/{text_of(payload.get('attempt'))}/{n}"
            )

    def check(self, given: Any, call_id: str) -> None:
        check = check_of(given)
        if check is None:
            self.emit("lifecycle", text_of(given), "check")
            return
        call = describe_call("shell", {"command": check.command}) if check.command else None
        if call is not None:
            self.emit(
                call.kind,
                call.body,
                "check",
                call.summary,
                tool="shell",
                call_id=call_id,
                action="shell",
            )
        # A command that was meant to fail has no result of its own: it would be an error.
        is_result = call is not None and not check.is_meant_to_fail
        self.emit(
            "tool_result" if is_result else "lifecycle", check.detail, "check", check.summary,
            call_id=call_id if is_result else None,
            tool="shell" if is_result else None, action="shell" if is_result else None,
            is_error=check.passed is False, exit_code=check.exit_code,
            tests=test_counts(check.detail)
            if is_result and call and call.kind == "test_run" else None,
        )  # fmt: skip

    def skill_finished(self, kind: str, payload: dict[str, Any]) -> None:
        status = _text(payload, "final_status") or "unknown"
        error = _text(payload, "error")
        body = "\n".join([text for text in (_text(payload, "message"), error) if text])
        skill = self.skill(payload)
        self.emit(
            "error" if error else "lifecycle", body, f"{kind}/{one_line(status)}",
            f"skill {skill}: {status}", tool=skill,
            is_error=is_failure(status),
            duration_ms=milliseconds(payload.get("duration_ms")),
        )  # fmt: skip

    def skill_entry(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a whole invocation that is one record, like one of several records."""
        self.skill_started("skill.started", payload)
        attempts = payload.get("attempts")
        for attempt in attempts if isinstance(attempts, list) else []:
            fields = attempt if isinstance(attempt, dict) else {"output_summary": text_of(attempt)}
            self.attempt_finished(
                "skill.attempt_finished",
                {**fields, "run": payload.get("id"), "skill": payload.get("skill")},
            )
        self.skill_finished("skill.finished", payload)

    def skill(self, payload: dict[str, Any]) -> str:
        return _text(payload, "skill") or self.state.skills.get(
            _text(payload, "run") or "", "unknown"
        )

    handlers: ClassVar[Mapping[str, Callable[[Any, str, dict[str, Any]], None]]] = {
        "message": message,
        "partial": partial,
        "compact": compact,
        "clear": clear,
        "rewind": rewind,
        "redo": redo,
        "session": session,
        "meta": meta,
        "title": titled,
        "tool_started": tool_started,
        "tool_decided": tool_decided,
        "tool_finished": tool_finished,
        "model_started": beat,
        "model_finished": model_finished,
        "state.started": changed_status,
        "state.resumed": changed_status,
        "state.paused": changed_status,
        "state.cancelled": changed_status,
        "state.failed": failed,
        "state.recovered": failed,
        "state.problem": problem,
        "state.decision": decided,
        "state.completed": completed,
        "state.heartbeat": beat,
        "checkpoint": checkpoint,
        "skill.started": skill_started,
        "skill.attempt_started": attempt_started,
        "skill.attempt_finished": attempt_finished,
        "skill.finished": skill_finished,
        "skill.entry": skill_entry,
    }


_STATUSES = {
    "state.started": "run:resume",
    "state.resumed": "run:resume",
    "state.paused": "run:pause",
    "state.cancelled": "run:cancel",
}


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    return value if isinstance(value, str) and value else None


def _note(payload: Mapping[str, Any], *names: str) -> tuple[str | None, str]:
    """Return the summary of a note, which is the first of these fields with a text, and its body. A
    note with no other field is that text."""
    what = payload.get("what")
    if not isinstance(what, dict):
        return None, text_of(what if what is not None else payload)
    summary = next((text for name in names if (text := _text(what, name))), None)
    return summary, summary if summary is not None and len(what) == 1 else text_of(what)
