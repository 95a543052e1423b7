"""The meaning of the records of a session of the SDK: a head, messages of blocks, and the
summaries that replaced them when they became too many."""

from __future__ import annotations

from typing import Any

import msgspec

from ...model import to_units
from .. import Source
from ..shared.fold import keep, load
from ..shared.pick import pick, time_of
from . import words
from .fold import CALLS, Call, ClineFold, State, time_at
from .paths import MESSAGES

CARRY = 2
"""The layout of `Memory`; changed only together with the adapter's `version`."""
NOTICE = "<SYSTEM_NOTICE>"
HEAD = frozenset({"version", "updated_at", "agent", "sessionId", "origin", "taskType"})


class Memory(State):
    version: int = CARRY
    has_begun: bool = False
    uses: dict[str, Call] = msgspec.field(default_factory=dict)
    """Calls by the id that the model gave them."""


class Reader(ClineFold[Memory]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Memory, CARRY))

    def own_name(self) -> str:
        return self.file.removesuffix(MESSAGES)

    def about(self, name: str, value: dict[str, Any]) -> None:
        """The manifest of this session, or of the one above it."""
        state = self.state
        place = pick(value, "cwd", of=str) or pick(value, "workspace_root", of=str)
        state.cwd = place[:4096] if place else state.cwd
        state.branch = pick(value, "metadata", "git", "branch", of=str) or state.branch
        state.model = state.model or pick(value, "model", of=str)
        state.provider = state.provider or words.provider_of(value.get("provider"))
        if name != "manifest":
            return
        self.set_title(pick(value, "metadata", "title", of=str) or pick(value, "prompt", of=str), 2)
        if forked := pick(value, "metadata", "fork", "forkedFromSessionId", of=str):
            self.comes_from(forked, "fork")

    def line(self, value: dict[str, Any]) -> None:
        if "compaction" in value or "messages" in value:
            self.compaction(value)
        elif value.keys() & {"role", "content"}:
            self.message(value)
        elif value.keys() & HEAD:
            self.head(value)
        else:
            self.unknown(None)

    def head(self, value: dict[str, Any]) -> None:
        session = self.session(pick(value, "sessionId", of=str))
        above = pick(value, "origin", "parentThreadId", of=str) or (
            session.partition("__")[0] if "__" in session else ""
        )
        if above and above != session:
            self.comes_from(above, "subagent")
        if self.state.has_begun:
            self.merge("head")
            return
        self.state.has_begun = True
        self.native_id = f"{session}/start"
        self.emit("lifecycle", "", "session", "session started", "system")

    def compaction(self, value: dict[str, Any]) -> None:
        """Add a compaction, from the messages as the model saw them afterwards. Those that replace
        others become events; the others are in the session already."""
        if when := pick(value, "compaction", of=str):
            self.ts = time_of(when)
            self.identify(f"{self.session()}/compaction-{when}"[:300])
        messages = [
            message
            for message in pick(value, "messages", of=list) or []
            if isinstance(message, dict)
        ]
        kept = tuple(
            self.named(message)
            for message in messages
            if pick(message, "metadata", "kind", of=str) is None
        )
        self.emit(
            "lifecycle",
            "",
            "compaction",
            f"compacted to {len(messages)} messages",
            "system",
            view="compact",
            refs=kept[:1000],
        )
        for message in messages:
            notes = [
                pick(message, "metadata", "summary", of=str),
                *map(_notice, pick(message, "content", of=list) or []),
            ]
            for text in filter(None, notes):
                self.emit("lifecycle", text, "compaction/summary", role="system", view="summary")

    # Messages.

    def named(self, value: dict[str, Any]) -> str:
        """A name that a copy in another session has as well. The id of a result grows with every
        copy."""
        own = (pick(value, "id", of=str) or "").partition("_tool_")[0][:200]
        ts = pick(value, "ts", of=int)
        if not own and ts is None:
            return ""
        name = f"{own}/{ts}" if own and ts is not None else f"{self.session()}/{own or ts}"
        results = [
            use
            for block in _listed(value.get("content"))
            if (use := pick(block, "tool_use_id", of=str))
        ]
        return f"{name}/{results[0][:200]}" if results else name

    def message(self, value: dict[str, Any]) -> None:
        state = self.state
        self.ts = time_at(value)
        if name := self.named(value):
            self.identify(name)
        else:
            self.new_id()
        state.model = pick(value, "modelInfo", "id", of=str) or state.model
        state.provider = (
            words.provider_of(pick(value, "modelInfo", "provider", of=str)) or state.provider
        )
        is_notice = pick(value, "metadata", "kind", of=str) is not None
        for block in _listed(value.get("content")):
            self.block(block, pick(value, "role", of=str) or "", is_notice)
        self.tokens(value.get("metrics"))
        if not self.count:
            self.merge("empty")

    def block(self, block: Any, role: str, is_notice: bool) -> None:
        text = block if isinstance(block, str) else pick(block, "text", of=str)
        if text is not None:
            self.say(words.typed(text), role, is_notice)
        elif (thought := pick(block, "thinking", of=str)) is not None:
            self.emit("thinking", thought, "thinking", role="assistant", model=self.state.model)
        elif pick(block, "tool_use_id", of=str) is not None:
            self.build_result(block)
        elif isinstance(block, dict) and "input" in block:
            self.call(block)
        elif (path := pick(block, "path", of=str)) is not None:
            body = "\n".join(filter(None, (path, pick(block, "content", of=str))))
            self.emit("lifecycle", body, "file", path, role or None, view="context", files=(path,))
        else:
            self.emit(
                "lifecycle",
                words.without_images(words.shown(block)),
                pick(block, "type", of=str) or "unknown",
                None,
                role or None,
            )

    def say(self, text: str, role: str, is_notice: bool) -> None:
        if not text.strip():
            return
        if is_notice or text.startswith(NOTICE):
            self.emit("lifecycle", text, "notice", role=role or None, view="context")
        elif role == "assistant":
            self.emit("assistant_msg", text, "text", role="assistant", model=self.state.model)
        else:
            self.emit("user_msg", text, "text", role="user")
            if not self.state.is_titled:
                self.set_title(text, 1)

    def call(self, block: dict[str, Any]) -> None:
        found = words.describe(block.get("name"), block.get("input"))
        call_id = (pick(block, "id", of=str) or f"{self.native_id}#{self.count}")[:200]
        self.emit_call(found, "tool_use", call_id, model=self.state.model)
        keep(
            self.state.uses,
            call_id,
            Call(call_id, found.tool, found.action, found.kind == "test_run"),
            CALLS,
        )

    def build_result(self, block: dict[str, Any]) -> None:
        use = (pick(block, "tool_use_id", of=str) or "")[:200]
        call = self.state.uses.get(use)
        if call is None:
            found = words.describe(block.get("name"), None)
            call = Call(use, found.tool, found.action)
        came = words.result(
            block.get("content"),
            call.action,
            call.is_test,
            pick(block, "is_error", of=bool) or False,
        )
        kind, native = (
            ("human_intervention", "tool_result/denied")
            if came.is_denied
            else ("tool_result", "tool_result")
        )
        self.emit(
            kind, came.text, native, came.summary, "tool", call.tool, use, call.action,
            is_error=came.is_error, exit_code=came.exit_code,
            tests=came.tests,
        )  # fmt: skip

    def tokens(self, metrics: Any) -> None:
        """Add the tokens of the request that the message answers. Its prompt includes the cached
        tokens."""
        metrics = metrics if isinstance(metrics, dict) else {}
        counts = [
            metrics.get(word)
            for word in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
        ]
        used = words.usage(counts, is_whole=True)
        if not used.total:
            return
        cost = metrics.get("cost")
        summary = f"{used.total - used.output_tokens} tokens in, {used.output_tokens} out"
        event = self.emit(
            "lifecycle", "", "metrics", summary, "assistant", part="tokens", usage=used,
            tokens=used.total, model=self.state.model,
            extra={"cost_usd": cost} if to_units(cost) else {},
        )  # fmt: skip
        self.bill(self.native_id, used, event, cost)


def _notice(block: Any) -> str | None:
    """Return the text that the program put in place of what it took out of a message."""
    text = pick(block, "text", of=str)
    return text if text is not None and text.startswith(NOTICE) else None


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]
