"""The meaning of the messages of Cursor's command line, and of the lines of its transcripts: a role
and blocks of content."""

from __future__ import annotations

from typing import Any

from .. import Source
from ..shared.calls import build_result
from ..shared.fold import REFUSALS, decode, load
from ..shared.pick import clean, identifier, pick
from ..shared.stream import Call, SessionFold, State
from ..shared.tools import blob_reference, text_of
from . import words
from .bubbles import ABOVE

CARRY = 1
"""The layout of the state; changed only together with the adapter's `version`."""
HIDDEN = "[REDACTED]"
ENDS = {
    "success": "completion",
    "error": "error",
    "aborted": "human_intervention",
    "cancelled": "human_intervention",
}


class Reader(SessionFold[State]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        state = load(carry, State, CARRY)
        state.version = CARRY
        super().__init__(source, state)

    def session(self, named: str | None = None) -> str:
        """The folder of a database is named for its session, a transcript is itself."""
        own = (
            self.folder.replace("\\", "/").rpartition("/")[2] if self.file.endswith(".db") else None
        )
        return self.state.session or super().session(named or own)

    def sidecar(self, name: str, data: bytes) -> None:
        try:
            value = decode(data)
        except REFUSALS:
            return
        state = self.state
        if name == "meta":
            self.session(pick(value, "agentId", of=str))
            self.set_title(pick(value, "name", of=str), 2)
            model = value.get("lastUsedModel")
            state.model = (
                model if isinstance(model, str) else pick(model, "model", of=str) or state.model
            )
            above = next(
                (
                    id_
                    for word in ABOVE
                    if (id_ := clean(pick(value, "subagentInfo", word, of=str) or ""))
                ),
                None,
            )
            if above:
                state.parent, state.relation = self.uid(above), "subagent"
                state.call = identifier(pick(value, "subagentInfo", "toolCallId", of=str))
        else:
            self.set_title(pick(value, "title", of=str), 2)
            state.cwd = (pick(value, "cwd", of=str) or "")[:4096] or state.cwd

    # Records.

    def line(self, value: dict[str, Any]) -> None:
        name = identifier(value.get("id"))
        if name is not None:
            self.identify(f"{self.session()}/{name}")
        word, role = pick(value, "type", of=str), pick(value, "role", of=str)
        message = pick(value, "message", of=dict)
        message = value if message is None else message
        content, calls = message.get("content"), pick(message, "tool_calls", of=list) or []
        if content is None and not calls:
            self.note(value, word)
            return
        role = role or pick(message, "role", of=str) or "unknown"
        for block in blocks_of(content):
            self.block(block, role, message)
        for call in calls:
            given = pick(call, "function", of=dict) or {}
            call_id = call.get("id") if isinstance(call, dict) else None
            self.call(given.get("name"), given.get("arguments"), call_id)
        if not self.count:
            self.merge("empty")

    def note(self, value: dict[str, Any], word: str | None) -> None:
        if word == "turn_ended":
            status = pick(value, "status", of=str) or "unknown"
            kind = ENDS.get(status)
            self.emit(kind or "lifecycle", text_of(value.get("error")),
            f"turn_ended/{status}"[:200], f"turn ended: {status}", "system",
                      is_error=kind == "error")  # fmt: skip
        elif word == "error":
            self.emit("error", text_of(value.get("error")), "error", None, "system", is_error=True)
        else:
            self.unknown(word)

    def block(self, block: Any, role: str, message: Any) -> None:
        kind = pick(block, "type", of=str) or ""
        word = kind.replace("_", "-")
        if not isinstance(block, dict):
            self.say(text_of(block), role)
        elif word in ("tool-call", "tool-use"):
            name = block.get("toolName", block.get("name"))
            given = block.get("args", block.get("input"))
            self.call(name, given, block.get("toolCallId", block.get("id")))
        elif word == "tool-result":
            self.result(block, message)
        elif word in ("reasoning", "thinking"):
            self.think(block, kind)
        elif word == "redacted-reasoning":
            self.merge(kind)
        elif word == "image":
            self.image(block, role)
        elif word == "text" or "text" in block:
            self.say(text_of(block.get("text")), role)
        else:
            self.emit("lifecycle", text_of(block), kind[:200] or "block", None, role)

    def think(self, block: dict[str, Any], native: str) -> None:
        text = pick(block, "text", of=str) or pick(block, "thinking", of=str) or ""
        if text.strip():
            self.emit("thinking", text, native, None, "assistant")

    def image(self, block: dict[str, Any], role: str) -> None:
        data = pick(block, "image", of=str) or pick(block, "data", of=str)
        body = blob_reference(data) if data else text_of(block)
        self.emit("lifecycle", body, "image", None, role, view="context")

    def say(self, text: str, role: str) -> None:
        if not text.strip() or text.strip() == HIDDEN:
            self.merge("empty text")
        elif role == "user":
            self.prompt(text, words.typed(text))
        elif role == "assistant":
            self.emit("assistant_msg", text, "assistant", None, "assistant", model=self.state.model)
        else:
            self.emit("lifecycle", text, role[:200], None, role[:200], view="context")

    def prompt(self, text: str, typed: str) -> None:
        if typed.strip():
            self.emit("user_msg", typed, "user", None, "user")
            if not self.state.is_titled:
                self.set_title(typed, 1)
        elif words.OPEN in text:
            self.merge("empty text")
        else:
            self.emit("lifecycle", text, "user/context", None, "user", view="context")

    # Tools.

    def call(self, name: Any, given: Any, call: Any) -> None:
        found, call_id = words.call(name, given), identifier(call)
        self.emit_call(found, "tool-call", call_id)
        self.remember_call(call_id, found)

    def result(self, block: dict[str, Any], message: Any) -> None:
        call_id = identifier(block.get("toolCallId")) or identifier(block.get("tool_use_id"))
        found = words.call(block.get("toolName", block.get("name")), None)
        call = self.state.calls.get(call_id or "") or Call(found.tool, found.action)
        given = block.get("result", block.get("content"))
        text = (
            "\n".join(text_of(pick(item, "text", of=str) or item) for item in given)
            if isinstance(given, list)
            else words.shown(given)
        )
        is_error, is_refused, code = words.outcome(message, block, text, call.action)
        end = build_result(text, is_error, code, call.is_test)
        kind = (
            "human_intervention"
            if is_refused
            else "decision"
            if call.tool in words.ASKS
            else "tool_result"
        )
        self.emit(
            kind, text, "tool-result/refused" if is_refused else "tool-result", end.summary, "tool",
            call.tool, call_id, call.action,
            is_error=is_error and not is_refused, exit_code=end.exit_code, tests=end.tests,
        )  # fmt: skip


def blocks_of(content: Any) -> list[Any]:
    """Return the blocks of a message, whose content may be one text."""
    if isinstance(content, list):
        return content
    return [] if content is None else [{"type": "text", "text": content}]
