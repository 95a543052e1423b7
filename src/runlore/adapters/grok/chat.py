"""`chat_history.jsonl` of a Grok Build session: the context of the model, in the layout of today or
in that of older versions.

It is rewritten after a compaction or a rewind, so a line is named by its content and not by its
place. No line has a time: all get that of the session's beginning.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from ..shared.fold import keep
from ..shared.pick import moment, pick
from ..shared.tools import key_values, test_counts, text_of
from .fold import CALLS, Call, GrokFold
from .lines import slim
from .results import exit_in, is_refusal, result_summary
from .texts import block_text, contents, is_text, listed, unwrap
from .tools import ACTIONS, ASKS, describe_named, identifier

STEERING = "interjection"
ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool_result"}
"""Today's types of the lines of the older layout, which is that of OpenAI's chat."""


class Chat(GrokFold):
    rank = 1

    def line(self, value: dict[str, Any]) -> None:
        kind = pick(value, "type", of=str) or ROLES.get(pick(value, "role", of=str) or "") or ""
        self.ts = moment(self.state.created / 1000 if self.state.created is not None else None)
        self.identify(self.own_id(value))
        handler = HANDLERS.get(kind) or HANDLERS.get(guess(value))
        if handler is not None:
            handler(self, value)
        else:
            body = slim(self.raw_text().encode("utf-8", "replace")).decode()
            self.emit("lifecycle", body, kind or "unknown", kind or "unknown record")

    def own_id(self, value: dict[str, Any]) -> str | None:
        """Return a name for a line that does not depend on its place: the id of a call or of a
        thought, or the number and the hash of a prompt."""
        calls = pick(value, "tool_calls", of=list) or []
        call = pick(calls[0], "id", of=str) if calls else None
        index = pick(value, "prompt_index", of=int)
        for word, name in (
            ("call", call),
            ("result", value.get("tool_call_id")),
            ("item", value.get("id")),
        ):
            if own := identifier(name):
                return f"{self.session()}/{word}/{own}"
        if index is None:
            return None
        stamp = blake2b(
            text_of(value.get("content")).encode("utf-8", "replace"), digest_size=8
        ).hexdigest()
        return f"{self.session()}/prompt/{index % (1 << 53)}/{stamp}"

    def system(self, value: dict[str, Any]) -> None:
        self.emit("lifecycle", content(value), "system", "system prompt", "system", view="context")

    def user(self, value: dict[str, Any]) -> None:
        reason = pick(value, "synthetic_reason", of=str)
        if interrupt := pick(value, "prior_turn_interrupt", of=str):
            self.emit(
                "human_intervention",
                "",
                f"interrupt/{interrupt}",
                f"the turn before was interrupted: {interrupt}",
                "user",
            )
        is_typed = reason == STEERING or (
            not reason and ("prompt_index" in value or not self.state.is_marked)
        )
        self.state.is_marked = self.state.is_marked or "prompt_index" in value
        native = f"user/{reason}" if reason else "user" if is_typed else "user/unnumbered"
        self.blocks(
            contents(value),
            native,
            is_typed,
            "summary" if reason == "compaction_meta" else "context",
        )

    def blocks(self, blocks: list[Any], native: str, is_typed: bool, view: str) -> None:
        """Add the blocks of a message. The first text that a person typed is the prompt, or without
        one the first picture; all others are its context."""
        split = [unwrap(block_text(block)) for block in blocks]
        texts = [n for n, block in enumerate(blocks) if is_text(block)]
        first = (
            next((n for n in texts if split[n][0].strip()), -1 if texts else 0) if is_typed else -1
        )
        for n, (typed, wrapped) in enumerate(split):
            if n == first:
                self.emit("user_msg", typed, native, None, "user")
            elif typed.strip():
                self.emit(
                    "lifecycle",
                    typed,
                    f"{native}/more" if is_typed else native,
                    None,
                    "user",
                    view=view,
                )
            elif wrapped:
                self.emit(
                    "lifecycle",
                    wrapped,
                    f"{native}/wrapper" if is_typed else native,
                    None,
                    "user",
                    view=view,
                )
        if not self.count:
            self.merge("empty")

    def assistant(self, value: dict[str, Any]) -> None:
        self.state.model = pick(value, "model_id", of=str) or self.state.model
        if thought := pick(value, "reasoning_content", of=str):
            self.emit("thinking", thought, "assistant/reasoning_content", None, "assistant")
        if (text := content(value)).strip():
            self.emit("assistant_msg", text, "assistant", None, "assistant")
        for call in pick(value, "tool_calls", of=list) or []:
            self.call(call)
        if not self.count:
            self.merge("empty")

    def call(self, call: Any) -> None:
        about = pick(call, "function", of=dict) or call
        name = pick(about, "name", of=str)
        if name is None:
            self.emit(
                "lifecycle", text_of(call), "assistant/tool_call", "unknown call", "assistant"
            )
            return
        described = describe_named(name, about.get("arguments"))
        call_id = identifier(call.get("id"))
        tool, action = described.tool[:200], described.action
        self.emit(
            described.kind, described.body, "tool_call", described.summary, "assistant", tool,
            call_id, action, files=described.files,
        )  # fmt: skip
        if call_id:
            is_test = described.kind == "test_run"
            remembered = Call(tool, action, is_test, tool in ASKS)
            keep(self.state.calls, call_id, remembered, CALLS)

    def tool_result(self, value: dict[str, Any]) -> None:
        call_id = identifier(value.get("tool_call_id"))
        call = self.state.calls.get(call_id) if call_id else None
        text = content(value)
        tests = test_counts(text) if call and call.is_test else None
        exit_code = exit_in(text) if call and call.action == "shell" else None
        kind = (
            "human_intervention"
            if is_refusal(text, exit_code)
            else "decision"
            if call and call.answers
            else "tool_result"
        )
        self.emit(
            kind, text, "tool_result", result_summary(text, exit_code, tests), "tool",
            call.tool if call else None, call_id,
            call.action if call else None, exit_code=exit_code, tests=tests,
            is_error=bool(exit_code),
        )  # fmt: skip
        for image in pick(value, "images", of=list) or []:
            self.emit(
                "lifecycle",
                block_text(image),
                "tool_result/image",
                None,
                "tool",
                call_id=call_id,
                view="context",
            )

    def reasoning(self, value: dict[str, Any]) -> None:
        text = "\n\n".join(block_text(part) for part in listed(value.get("summary")))
        if text.strip():
            self.emit("thinking", text, "reasoning", None, "assistant")
        else:
            self.merge("empty reasoning")

    def backend_call(self, value: dict[str, Any]) -> None:
        """Add a call of a tool that the service ran itself. Its result is not written."""
        about = pick(value, "kind", of=dict) or {}
        tool = pick(about, "tool_type", of=str) or "unknown"
        action = pick(about, "action", of=dict) or {}
        fields = action or {
            name: item for name, item in about.items() if name not in ("tool_type", "id", "status")
        }
        query = pick(action, "query", of=str) or pick(action, "url", of=str)
        call_id = identifier(about.get("id"))
        self.emit(
            "tool_call", key_values(fields), "backend_tool_call", query or tool, "assistant",
            tool[:200], call_id,
            ACTIONS.get(tool, "other"),
        )  # fmt: skip


def content(value: dict[str, Any]) -> str:
    return shown(contents(value))


def shown(blocks: list[Any]) -> str:
    return "\n".join(block_text(block) for block in blocks)


def guess(value: dict[str, Any]) -> str:
    """Return the type of a line without a known one, judged by its fields; "" if none fits."""
    if "tool_call_id" in value:
        return "tool_result"
    if "tool_calls" in value or "model_id" in value:
        return "assistant"
    return "user" if "prompt_index" in value or "synthetic_reason" in value else ""


HANDLERS = {
    "system": Chat.system,
    "user": Chat.user,
    "assistant": Chat.assistant,
    "tool_result": Chat.tool_result,
    "reasoning": Chat.reasoning,
    "backend_tool_call": Chat.backend_call,
}
