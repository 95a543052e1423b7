"""The meaning of the records of iFlow CLI. The package's docstring lists the traps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import Normalized, Record, Source
from ..gemini_cli import words
from ..shared.fold import load
from ..shared.pick import identifier, pick, time_of
from ..shared.stream import Call, Entries, EntryFold
from ..shared.tools import one_line, text_of

CARRY = 1
"""The layout of `Entries` here; changed only together with the adapter's `version`."""


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Chat(Entries):
    version: int = CARRY


class Reader(EntryFold[Chat]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Chat, CARRY))
        self.is_sidechain = False

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        self.is_sidechain = False

    def line(self, value: dict[str, Any]) -> None:
        state = self.state
        session = self.session(pick(value, "sessionId", of=str))
        own = identifier(value.get("uuid"))
        if not self.admit(
            own if own and len(own) >= 32 else f"{session}/{own or self.content_name()}"
        ):
            return
        name = self.native_id
        if "parentUuid" in value:
            above = identifier(value["parentUuid"])
            self.parent = self.last_of(above) if above else None
        follows = self.parent
        self.ts = time_of(value.get("timestamp"))
        self.is_sidechain = value.get("isSidechain") is True
        state.cwd = state.cwd or pick(value, "cwd", of=str)
        state.branch = pick(value, "gitBranch", of=str) or state.branch
        message = pick(value, "message", of=dict) or {}
        word = pick(value, "type", of=str) or ""
        role = (
            word
            if word in ("user", "assistant")
            else pick(message, "role", of=str) or guess(message)
        )
        if role in ("user", "assistant") and "content" in message:
            self.message(message, role)
        else:
            self.unknown(word)
        self.remember(name, follows)

    def emit(self, *args: Any, **more: Any) -> str:
        if self.is_sidechain:
            more["is_sidechain"] = True
        return super().emit(*args, **more)

    def message(self, message: dict[str, Any], role: str) -> None:
        self.state.model = pick(message, "model", of=str) or self.state.model
        content = message.get("content")
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            self.block(block, role)
        if not self.count:
            self.merge("told before" if isinstance(content, list) and content else "empty")

    def block(self, block: Any, role: str) -> None:
        word = pick(block, "type", of=str) or ""
        text = pick(block, "text", of=str)
        if isinstance(block, dict) and (word == "tool_use" or "input" in block):
            self.call(block)
        elif isinstance(block, dict) and (word == "tool_result" or "tool_use_id" in block):
            self.result(block)
        elif text is None:
            self.emit(
                "lifecycle",
                text_of(block),
                word[:100] or "unknown block",
                word[:100] or "unknown block",
                role,
            )
        elif not text.strip():
            return
        elif role == "assistant":
            self.emit("assistant_msg", text, "assistant", None, role, model=self.state.model)
        elif words.is_wrapped(text):
            self.emit("lifecycle", text, "user/context", None, role, view="context")
        else:
            self.emit("user_msg", text, "user", None, role)
            if not self.state.is_titled:
                self.set_title(text, 1)

    def call(self, block: dict[str, Any]) -> None:
        call_id = identifier(block.get("id"))
        if call_id in self.state.calls:
            return
        call = words.describe(block.get("name"), block.get("input"))
        self.emit_call(call, "tool_use", call_id)
        self.remember_call(call_id, call)

    def result(self, block: dict[str, Any]) -> None:
        call_id = identifier(block.get("tool_use_id"))
        content = block.get("content")
        parts = content.get("responseParts", content) if isinstance(content, dict) else content
        named = pick(parts, "functionResponse", "name", of=str)
        call = self.state.calls.get(call_id or "") or Call(
            named or "unknown", words.describe(named, None).action
        )
        display = content.get("resultDisplay") if isinstance(content, dict) else None
        status = "error" if block.get("is_error") is True else None
        came = words.result(words.listed(parts), display, status, call.action, call.is_test)
        self.emit(
            "tool_result", came.text, "tool_result", came.summary or one_line(came.text), "tool",
            call.tool, call_id, call.action,
            is_error=came.is_error, exit_code=came.exit_code, tests=came.tests,
        )  # fmt: skip
        self.remind(came.reminders, call_id)


def guess(message: dict[str, Any]) -> str:
    """Return the role of a message without one, judged by its fields; "" if none fits."""
    return "assistant" if message.keys() & {"model", "usage", "stop_reason"} else ""
