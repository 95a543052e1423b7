"""What the records of a live session log mean: one method for each type of record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from .. import Normalized, Record, Source
from ..shared.fold import keep
from ..shared.tools import one_line, test_counts, text_of
from . import words
from .fold import CALLS, REWINDS, SKILLS, LogFold
from .lines import Call, is_on, path


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Reader(LogFold):
    """The meaning of records, one method for each type."""

    def message(self, kind: str, payload: dict[str, Any]) -> None:
        self.is_node = True
        state = self.state
        about = payload.get("meta")
        meta: Mapping[str, Any] = about if isinstance(about, dict) else {}
        role = payload["role"] if isinstance(payload.get("role"), str) else None
        model = next(
            (
                name
                for name in (payload.get("model"), meta.get("model"))
                if isinstance(name, str) and name
            ),
            None,
        )
        state.model = model or state.model
        self.spend(payload.get("usage"), payload)
        if self.usage is None:
            self.spend(meta.get("usage"), meta)
        state.has_usage = state.has_usage or self.usage is not None
        is_synthetic = meta.get("synthetic") is True
        blocks = list(words.blocks_of(payload.get("content")))
        for n, (native, block) in enumerate(blocks):
            if not isinstance(block, dict):
                self.emit("lifecycle", text_of(block), native, role=role)
            elif native == "tool_use":
                self.tool_use(block)
            elif native == "tool_result":
                self.tool_result(block, role)
            elif native in ("image", "document"):
                is_alone = (
                    n == 0
                    and role == "user"
                    and all(other in ("image", "document") for other, _ in blocks)
                )
                self.context(
                    words.shown(block), native, role, is_said=is_alone and not is_synthetic
                )
            elif native in ("text", "thinking") and (text := words.text_in(block)) is not None:
                self.say(text, native, role, is_synthetic)
            else:
                self.emit("lifecycle", text_of(block), native, role=role)
        if not blocks:
            self.emit(
                "lifecycle", text_of(payload), kind, f"{role or 'message'} without content", role
            )

    def say(self, text: str, native: str, role: str | None, is_synthetic: bool) -> None:
        if native == "thinking":
            self.emit("thinking", text, native, role=role)
        elif role == "assistant":
            self.emit("assistant_msg", text, native, role=role)
        elif role == "user" and not is_synthetic:
            self.emit("user_msg", text, native, role=role)
            if not self.state.is_titled and text.strip():
                self.state.is_titled = True
                self.set_title(text, 1)
        else:
            self.context(text, native, role)

    def context(self, text: str, native: str, role: str | None, *, is_said: bool = False) -> None:
        """Add text that the model is given and nobody wrote: a system prompt, a reminder, a picture
        beside a prompt."""
        self.emit(
            "user_msg" if is_said else "lifecycle",
            text,
            native,
            role=role,
            view=None if is_said else "context",
        )

    def partial(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a message that is still coming in, or was cut off. What comes next is more of it, or
        the whole, so no text is added twice."""
        self.is_node = True
        texts = [
            words.text_in(block)
            for _, block in words.blocks_of(payload.get("content"))
            if isinstance(block, dict)
        ]
        self.emit("lifecycle", "\n".join([text for text in texts if text]), kind, role="assistant")

    def tool_use(self, block: dict[str, Any]) -> None:
        tool = block["name"] if isinstance(block.get("name"), str) and block["name"] else "unknown"
        call = words.describe_call(tool, block.get("input"))
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
        text = self.whole(block, words.result_text(block))
        exit_code = words.exit_of(block, text)
        self.emit(
            "tool_result", text, "tool_result", role=role, call_id=call_id,
            tool=call.tool if call else None,
            action=call.action if call else None,
            is_error=block.get("is_error") is True or bool(exit_code), exit_code=exit_code,
            tests=test_counts(text) if call and call.is_test else None,
        )  # fmt: skip

    def whole(self, block: dict[str, Any], text: str) -> str:
        """The whole of an output that was put away, where its file was found."""
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
        """Add a compaction: a summary replaces what it covers. Messages after the covered part
        stay."""
        self.is_node = True
        upto = payload.get("upto")
        here = path(self.state, self.state.last)
        kept = [
            name
            for seq, name in self.state.nodes
            if type(upto) is int and seq > upto and is_on(seq, here)
        ]
        self.spend(payload.get("usage"), payload)
        self.emit("lifecycle", "", kind, "compacted", view="compact", refs=tuple(kept))
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
        self.emit("lifecycle", text_of(payload), kind, "session begun")

    def titled(self, kind: str, payload: dict[str, Any]) -> None:
        title = _text(payload, "title")
        self.emit("lifecycle", title or text_of(payload), kind)
        if title:
            self.state.is_titled = True
            self.set_title(title, 3)

    def trace(self, origin: Any) -> None:
        """Note where a fork comes from. What it took along is older than it is."""
        if not isinstance(origin, dict):
            return
        name = _text(origin, "session")
        if name and name.isprintable() and name == name.strip() and name != self.native:
            self.state.parent, self.state.relation = f"{self.agent_name}:{name}", "fork"
            self.state.forked_at = self.ts

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

    def tool_finished(self, kind: str, payload: dict[str, Any]) -> None:
        text = self.whole(payload, words.result_text(payload))
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
            "error", error or text_of(payload), kind, error or "the run failed", is_error=True
        )

    def problem(self, kind: str, payload: dict[str, Any]) -> None:
        told, body = _noted(payload, "description")
        self.emit("error", body, kind, told, is_error=True)

    def decided(self, kind: str, payload: dict[str, Any]) -> None:
        told, body = _noted(payload, "decision", "intent", "description")
        self.emit("decision", body, kind, told)

    def completed(self, kind: str, payload: dict[str, Any]) -> None:
        self.emit("completion", text_of(payload.get("output")), kind, "the run completed")

    def checkpoint(self, kind: str, payload: dict[str, Any]) -> None:
        """The buffer that it saves was told by the records before it."""
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
        self.emit(
            "lifecycle", "", kind, words.attempt_line(payload, "began"), tool=self.skill(payload)
        )

    def attempt_finished(self, kind: str, payload: dict[str, Any]) -> None:
        """Add the result of an attempt, and each check as its command and that command's result."""
        found = words.attempt_of(payload)
        if not self.state.has_usage:  # Else the messages have told it.
            self.usage = words.usage_of(payload.get("usage"))
        has_raised = found.error is not None
        self.emit(
            "error" if has_raised else "lifecycle", found.body, f"{kind}/{found.word}",
            words.attempt_line(payload, found.word),
            tool=self.skill(payload), is_error=has_raised, model=_text(payload, "model"),
            duration_ms=words.milliseconds(payload.get("duration_ms")),
        )  # fmt: skip
        for n, check in enumerate(found.checks):
            self.check(
                check, f"{_text(payload, 'run') or 'run'}/{text_of(payload.get('attempt'))}/{n}"
            )

    def check(self, check: Any, call_id: str) -> None:
        told = words.check_of(check)
        if told is None:
            self.emit("lifecycle", text_of(check), "check")
            return
        call = words.describe_call("shell", {"command": told.command}) if told.command else None
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
        self.emit(
            "tool_result" if call else "lifecycle", told.detail, "check", told.summary,
            call_id=call_id if call else None,
            tool="shell" if call else None, action="shell" if call else None,
            is_error=told.passed is False, exit_code=told.exit_code,
            tests=test_counts(told.detail) if call and call.kind == "test_run" else None,
        )  # fmt: skip

    def skill_finished(self, kind: str, payload: dict[str, Any]) -> None:
        status = _text(payload, "final_status") or "unknown"
        error = _text(payload, "error")
        body = "\n".join([text for text in (_text(payload, "message"), error) if text])
        skill = self.skill(payload)
        self.emit(
            "error" if error else "lifecycle", body, f"{kind}/{one_line(status)}",
            f"skill {skill}: {status}", tool=skill,
            is_error=words.is_failure(status),
            duration_ms=words.milliseconds(payload.get("duration_ms")),
        )  # fmt: skip

    def skill_entry(self, kind: str, payload: dict[str, Any]) -> None:
        """A whole invocation at once: as if it had been told step by step."""
        self.skill_started("skill.started", payload)
        attempts = payload.get("attempts")
        for attempt in attempts if isinstance(attempts, list) else []:
            told = attempt if isinstance(attempt, dict) else {"output_summary": text_of(attempt)}
            self.attempt_finished(
                "skill.attempt_finished",
                {**told, "run": payload.get("id"), "skill": payload.get("skill")},
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
        "title": titled,
        "tool_started": tool_started,
        "tool_finished": tool_finished,
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


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    return value if isinstance(value, str) and value else None


def _noted(payload: Mapping[str, Any], *names: str) -> tuple[str | None, str]:
    """Return the text of a note: the first of these fields that has one, and the whole note. A note
    that is nothing but a text is that text."""
    what = payload.get("what")
    if not isinstance(what, dict):
        return None, text_of(what if what is not None else payload)
    told = next((text for name in names if (text := _text(what, name))), None)
    return told, told if told is not None and len(what) == 1 else text_of(what)
