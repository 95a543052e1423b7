"""The meaning of the messages of mycode, those of format 5 and later ones: a fold. The package's
docstring lists the traps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage
from .. import Normalized, Record, Source
from ..runlore.messages import exit_of, result_text, shown
from ..runlore.usage import usage_of
from ..shared import calls
from ..shared.fold import load
from ..shared.jsonl import parse
from ..shared.pick import clean, identifier, number, pick, time_of
from ..shared.stream import Call, SessionFold, State
from ..shared.tools import one_line, text_of

CARRY = 1
"""The layout of `Chat`; changed only together with the adapter's `version`."""
SHOWN = 1000  # Messages that a rewind can go back to.
LAST_WITH_SUMMARY_PAIR = 5
UNTITLED = "New chat"
# Characters: a title of this length is the beginning of the first prompt, which is a better title.
CUT = 48
BLOCKS = frozenset({"text", "thinking", "image", "document", "tool_use", "tool_result"})
ROLES = frozenset({"user", "assistant", "compact", "rewind"})
ATTACHED = ("attachment", "skill_snapshot", "job")
"""Marks of texts that nobody typed."""
BY_PERSON = {
    "error: cancelled": "cancelled",
    "error: permission denied": "denied",
    "error: permission denied by user": "denied",
}
INTERRUPTED = "error: tool call was interrupted"
FINISHED = frozenset({"stop", "end_turn"})
ORDINARY = FINISHED | {"tool_use", "tool_calls"}
ACTIONS = {"read": "read", "write": "edit", "edit": "edit", "bash": "shell", "agent": "agent"}


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Chat(State):
    version: int = CARRY
    began: str | None = None
    """The time of the session's beginning, for messages without times."""
    has_pair: bool | None = None
    """True if a compaction leaves two messages in place of all others."""
    shown: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """The last messages of the list that an index counts in: the name and the number of events of
    each."""
    forgotten: int = 0
    """The number of messages before these."""


class Reader(SessionFold[Chat]):
    record_start = b'{"role":'

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Chat, CARRY))
        self.outputs: dict[str, str] = {}

    def session(self, named: str | None = None) -> str:
        if not self.state.session:
            self.state.session = clean(os.path.basename(self.folder)) or "unknown"
        return self.state.session

    # Sidecars.

    def sidecar(self, name: str, data: bytes) -> None:
        if name.startswith("output:"):
            self.outputs[name.removeprefix("output:")] = data.decode("utf-8", "replace")
            return
        about = next((value for value, _, _ in parse(data) if isinstance(value, dict)), {})
        state = self.state
        state.cwd = pick(about, "cwd", of=str) or state.cwd
        state.model = state.model or pick(about, "model", of=str)
        state.began = pick(about, "created_at", of=str) or state.began
        layout = number(about.get("message_format_version"))
        if layout is not None:
            state.has_pair = layout <= LAST_WITH_SUMMARY_PAIR
        title = pick(about, "title", of=str) or UNTITLED
        if title != UNTITLED and len(title) < CUT:
            self.set_title(title, 2)

    def end_record(self) -> None:
        self.outputs.clear()

    # Messages.

    def line(self, value: dict[str, Any]) -> None:
        state, meta = self.state, pick(value, "meta", of=dict) or {}
        key = blake2b(b"%s\n%s" % (state.anchor.encode(), self.stamp()), digest_size=8).hexdigest()
        state.anchor, self.native_id = key, f"{self.session()}/{key}"
        self.ts = time_of(meta.get("created_at"))
        role = role_of(value, meta)
        if state.has_pair is None and role in ("user", "assistant"):
            state.has_pair = self.ts is None
        if self.ts is None and state.records == 1:
            self.ts = time_of(state.began)
        if role == "rewind":
            self.rewind(meta)
            return
        if role == "compact":
            self.compact(value, meta)
        else:
            self.message(value, role, meta)
        if not self.count:
            self.merge("empty")
        self.show(
            key,
            2 if role == "compact" and state.has_pair else 1,
            is_all=role == "compact" and state.has_pair is True,
        )

    def show(self, key: str, times: int, is_all: bool) -> None:
        """Put the current message into the list, in place of all others or at its end."""
        state = self.state
        if is_all:
            state.shown, state.forgotten = [], 0
        state.shown += [(key, self.count)] * times
        if (over := len(state.shown) - SHOWN) > 0:
            del state.shown[:over]
            state.forgotten += over

    def message(self, value: dict[str, Any], role: str, meta: dict[str, Any]) -> None:
        content = value.get("content")
        if role == "assistant":
            self.state.model = pick(meta, "model", of=str) or self.state.model
        for block in content if isinstance(content, list) else [] if content is None else [content]:
            self.block(block, role, meta)
        if role == "assistant":
            self.ending(meta)
            self.used(meta)
        if not self.count and not isinstance(content, str | list):
            self.unknown(role)

    def block(self, block: Any, role: str, meta: dict[str, Any]) -> None:
        word = kind_of(block)
        if isinstance(block, str):
            self.say(block, role, meta, {})
        elif word == "text" and isinstance(block.get("text"), str):
            self.say(block["text"], role, meta, pick(block, "meta", of=dict) or {})
        elif word == "thinking" and isinstance(block.get("text"), str):
            if block["text"].strip():
                duration = number((pick(block, "meta", of=dict) or {}).get("duration_ms"))
                self.emit(
                    "thinking",
                    block["text"],
                    word,
                    None,
                    "assistant",
                    model=self.state.model,
                    duration_ms=duration,
                )
        elif word == "tool_use":
            self.call(block)
        elif word == "tool_result":
            self.result(block)
        elif word in ("image", "document"):
            self.emit(
                "lifecycle", shown(block), word, pick(block, "name", of=str), role, view="context"
            )
        else:
            self.emit(
                "lifecycle",
                text_of(block),
                word[:100] or "unknown block",
                word[:100] or "unknown block",
                role[:100] or None,
            )

    def say(self, text: str, role: str, meta: dict[str, Any], about: dict[str, Any]) -> None:
        if not text.strip():
            return
        mark = next((word for word in ATTACHED if about.get(word)), None)
        if role == "assistant":
            native = (
                "assistant/stop" if pick(meta, "stop_reason", of=str) in FINISHED else "assistant"
            )
            self.emit("assistant_msg", text, native, None, role, model=self.state.model)
        elif role != "user" or mark:
            self.emit(
                "lifecycle",
                text,
                f"{role[:100]}/{mark or 'text'}",
                None,
                role[:100] or None,
                view="context",
            )
        elif meta.get("steer") is True:
            self.emit("human_intervention", text, "user/steer", None, role, view="context")
        else:
            self.emit("user_msg", text, "user", None, role)
            if not self.state.is_titled:
                self.set_title(text, 1)

    def call(self, block: dict[str, Any]) -> None:
        name, given = pick(block, "name", of=str) or "unknown", block.get("input")
        action = "web" if name.startswith("web_") else calls.action_of(name, ACTIONS)
        about = pick(block, "meta", of=dict) or {}
        if about.get("invalid_input") is True:
            given = pick(about, "raw_arguments", of=str) or given
        call = calls.describe(name, given, action)
        call_id = identifier(block.get("id"))
        self.emit_call(call, "tool_use", call_id)
        self.remember_call(call_id, call)

    def result(self, block: dict[str, Any]) -> None:
        call_id = identifier(block.get("tool_use_id"))
        call = self.state.calls.get(call_id or "") or Call("unknown", "other")
        text = answer(block)
        code = exit_of(block, text) if call.action == "shell" else None
        came = calls.build_result(
            self.outputs.get(call_id or "", text), block.get("is_error") is True, code, call.is_test
        )
        by_person = BY_PERSON.get(text.strip()) if came.is_error else None
        native = (
            f"tool_result/{by_person}"
            if by_person
            else "tool_result/interrupted"
            if text == INTERRUPTED
            else "tool_result"
        )
        self.emit(
            "human_intervention" if by_person else "tool_result", came.text, native,
            by_person or came.summary, "tool", call.tool, call_id,
            call.action, is_error=not by_person and (came.is_error or bool(came.exit_code)),
            exit_code=came.exit_code, tests=came.tests,
        )  # fmt: skip

    def ending(self, meta: dict[str, Any]) -> None:
        """Add the end of an answer that did not end as usual. One that was cut off is not in the
        model's context any more."""
        reason, refs = (
            pick(meta, "stop_reason", of=str) or "",
            (self.native_id,) if self.count else (),
        )
        view = "retract" if refs else None
        if reason == "error":
            self.emit(
                "error",
                text_of(meta.get("error")),
                "assistant/error",
                None,
                "system",
                is_error=True,
                view=view,
                refs=refs,
            )
        elif reason == "cancelled":
            self.emit(
                "human_intervention",
                "",
                "assistant/cancelled",
                "interrupted",
                "user",
                view=view,
                refs=refs,
            )
        elif reason and reason not in ORDINARY:
            self.emit(
                "lifecycle",
                "",
                f"assistant/{reason[:100]}",
                f"stopped: {one_line(reason)[:100]}",
                "system",
            )

    # Changes to the list of messages.

    def compact(self, value: dict[str, Any], meta: dict[str, Any]) -> None:
        count, trigger = number(meta.get("compacted_count")), pick(meta, "trigger", of=str)
        summary = "compacted" if count is None else f"compacted {count} messages"
        native = f"compact/{trigger[:100]}" if trigger else "compact"
        self.emit("lifecycle", "", native, summary, "system", view="compact")
        content = value.get("content")
        texts = (
            [pick(block, "text", of=str) for block in content if block]
            if isinstance(content, list)
            else [text_of(content)]
        )
        text = next((text for text in texts if text is not None), text_of(content))
        if text.strip():
            self.emit("lifecycle", text, "compact/summary", None, "user", view="summary")
        self.used(meta)

    def rewind(self, meta: dict[str, Any]) -> None:
        """Add a rewind to before a message. The messages since then stay, on a branch that was
        left."""
        state, target = self.state, meta.get("rewind_to", 0)
        place = target - state.forgotten if type(target) is int else -1
        if not 0 <= place < len(state.shown) or (place == 0 and state.forgotten):
            self.emit(
                "human_intervention", "", "rewind", "a rewind that takes nothing back", "user"
            )
            return
        removed = [key for key, _ in state.shown[place:]]
        refs = (f"{self.session()}/{removed[0]}", "..", state.last or "")
        self.parent = follows = self.last_event(state.shown[:place])
        word = "message" if len(removed) == 1 else "messages"
        self.emit(
            "human_intervention",
            "",
            "rewind",
            f"rewound {len(removed)} {word}",
            "user",
            view="retract",
            refs=refs,
        )
        state.last = follows
        del state.shown[place:]

    def last_event(self, messages: list[tuple[str, int]]) -> str | None:
        """Return the native id of the last event of these messages; None when they have none."""
        for key, count in reversed(messages):
            if count:
                return f"{self.session()}/{key}" + (f"#{count - 1}" if count > 1 else "")
        return None

    # Tokens.

    def used(self, meta: dict[str, Any]) -> None:
        usage, model = pick(meta, "usage", of=dict), pick(meta, "model", of=str) or self.state.model
        used = (
            None if usage is None else usage_of(usage) if self.state.has_pair else tokens_of(usage)
        )
        if used is None or not used.total:
            return
        call = api.Call(
            key=self.native_id, session_uid=self.uid(self.session()), ts=self.ts,
            provider=pick(meta, "provider", of=str), model=model,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens, reasoning_tokens=used.reasoning_tokens,
        )  # fmt: skip
        self.out.calls.append((call, self.charge(used, model)))


def role_of(value: dict[str, Any], meta: dict[str, Any]) -> str:
    """Return the role of a message: its own, else one judged by its metadata."""
    role = pick(value, "role", of=str) or ""
    if role in ROLES:
        return role
    if "rewind_to" in meta:
        return "rewind"
    if meta.keys() & {"compacted_count", "trigger"}:
        return "compact"
    if meta.keys() & {"stop_reason", "usage", "model", "provider"}:
        return "assistant"
    return role or "user"


def kind_of(block: Any) -> str:
    """Return the type of a block: its own, else one judged by its fields."""
    word = pick(block, "type", of=str) or ""
    if word in BLOCKS or not isinstance(block, dict):
        return word
    guesses = (
        ("tool_use_id", "tool_result"),
        ("input", "tool_use"),
        ("data", "image"),
        ("text", "text"),
    )
    return next((kind for name, kind in guesses if name in block), word)


def answer(block: dict[str, Any]) -> str:
    """Return the text of a result, as the model was given it."""
    texts = (pick(block, word, of=str) for word in ("output", "model_text", "display_text"))
    return next((text for text in texts if text is not None), None) or result_text(block)


def tokens_of(usage: dict[str, Any]) -> Usage:
    """Return the usage of a request after format 5: the tokens of the cache are a part of its
    input."""
    words = (
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    )
    given, out, read, wrote, thought = (number(usage.get(word)) or 0 for word in words)
    return Usage(
        input_tokens=max(0, given - read - wrote), output_tokens=out, cache_read_tokens=read,
        cache_write_tokens=wrote,
        reasoning_tokens=min(thought, out),
    )  # fmt: skip
