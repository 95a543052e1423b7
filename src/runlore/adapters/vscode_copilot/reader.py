"""The meaning of the records of a chat session of VS Code: one method for each kind of record."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage, to_units
from .. import Normalized, Record, Source
from ..shared.calls import action_of, build_result, describe
from ..shared.fold import REFUSALS, decode, load
from ..shared.pick import identifier, moment, number, pick
from ..shared.stream import SessionFold, State
from ..shared.tools import one_line, text_of
from . import words

CARRY = 1
"""The layout of `Chat`; changed only together with the adapter's `version`."""
EDITED = 100  # Files of a request that are remembered as changed.
FAILED, CANCELLED = 3, 2  # States of a request.
CREDIT_USD = 0.01
"""What a credit costs. The totals of Copilot CLI, which have credits and tokens, are exactly the
list prices at this rate."""
QUIET = frozenset(
    {
        "undoStop",
        "mcpServersStarting",
        "prepareToolInvocation",
        "codeblockUri",
        "codeCitation",
        "reference",
        "toolPreparation",
    }
)
"""Parts of an answer that only its drawing needs."""
QUESTIONS = frozenset(
    {"confirmation", "elicitation", "elicitationSerialized", "elicitation2", "questionCarousel"}
)
"""Parts in which a person is asked something."""


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Chat(State):
    version: int = CARRY
    context: bytes = b""
    """A hash of the last text about the workspace, which is sent with every request."""
    edited: list[str] = msgspec.field(default_factory=list)
    """The files that calls of this request have changed."""


class Reader(SessionFold[Chat]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Chat, CARRY))

    # The session.

    def sidecar(self, name: str, data: bytes) -> None:
        try:
            value = decode(data)
        except REFUSALS:
            return
        if name == "session":
            self.session(pick(value, "sessionId", of=str))
            self.set_title(pick(value, "customTitle", of=str), 2)
        else:
            folder = words.place(pick(value, "folder", of=str))
            file = words.place(
                pick(value, "workspace", of=str) or pick(value, "configuration", of=str)
            )
            self.state.cwd = folder or (file.rpartition("/")[0] if file else None) or self.state.cwd

    # Records.

    def line(self, value: dict[str, Any]) -> None:
        request, n = identifier(value.get("request")), value.get("n")
        kind = pick(value, "kind", of=str) or "unknown"
        if request is not None:
            own = request if request.startswith("request_") else f"{self.session()}/{request}"
            self.identify(f"{own}/{n if isinstance(n, int) else kind}")
        self.ts = at(value.get("timestamp"))
        handler = HANDLERS.get(kind) or HANDLERS.get(guess(value))
        if handler is not None:
            handler(self, value)
        elif kind in QUIET:
            self.merge(kind)
        else:
            self.other(value, kind)

    def prompt(self, value: dict[str, Any]) -> None:
        state, text = self.state, text_of(value.get("text"))
        state.model = words.model_of(value.get("model")) or state.model
        state.edited = []
        command = pick(value, "command", of=str)
        typed = f"/{command} {text}".strip() if command else text
        if typed.strip():
            self.emit("user_msg", typed, "message", None, "user", part=0)
            if not state.is_titled:
                self.set_title(typed, 1)
        else:
            self.merge("empty prompt")
        self.surroundings(pick(value, "global", of=str), 1)
        if context := pick(value, "context", of=str):
            self.emit(
                "lifecycle", context, "renderedUserMessage", None, "user", part=2, view="context"
            )
        for n, item in enumerate(pick(value, "variables", of=list) or []):
            path = pick(item, "path", of=str)
            body = "\n".join(
                part
                for part in (pick(item, "name", of=str), path, pick(item, "text", of=str))
                if part
            )
            self.emit(
                "lifecycle",
                body,
                "variable",
                None,
                "user",
                part=10 + n,
                view="context",
                files=(path,) if path else (),
            )

    def surroundings(self, text: str | None, part: int) -> None:
        stamp = blake2b(text.encode("utf-8", "replace"), digest_size=8).digest() if text else b""
        if text and stamp != self.state.context:
            self.state.context = stamp
            self.emit(
                "lifecycle", text, "renderedGlobalContext", None, "user", part=part, view="context"
            )

    def text(self, value: dict[str, Any]) -> None:
        text = text_of(value.get("text"))
        base = words.place(pick(value, "base", of=str))
        self.state.cwd = self.state.cwd or (base.rstrip("/") or None if base else None)
        if words.is_fence(text):
            self.merge("empty text")
        else:
            self.emit("assistant_msg", text, "markdown", None, "assistant", model=self.state.model)

    def thinking(self, value: dict[str, Any]) -> None:
        text = words.text_in(value.get("part"))
        if text.strip():
            self.emit("thinking", text, "thinking", None, "assistant")
        else:
            self.merge("empty thinking")

    def edits(self, value: dict[str, Any]) -> None:
        """Add a change to a file. It is no second edit where a call made the same change."""
        part = pick(value, "part", of=dict) or {}
        path, native = words.path_of(part) or "", pick(value, "kind", of=str) or "textEditGroup"
        kind = "lifecycle" if _plain(path) in self.state.edited else "edit"
        body = "\n".join(text for text in (path, words.added(part)) if text) or text_of(
            value.get("part")
        )
        files = (path,) if path else ()
        self.emit(kind, body, native, path or None, "assistant", action="edit", files=files)

    def other(self, value: dict[str, Any], kind: str) -> None:
        part = value.get("part", value.get("value", value))
        text = words.rest_of(part)
        if kind in QUESTIONS:
            answer = pick(part, "state", of=str) or (
                "used" if pick(part, "isUsed", of=bool) else None
            )
            self.emit(
                "human_intervention",
                text,
                kind,
                f"{answer}: {one_line(text)}" if answer else None,
                "user",
            )
        elif kind == "warning":
            self.emit("error", text, kind, None, "system")
        else:
            self.emit("lifecycle", text, kind[:200], None, "system")

    # Tools.

    def call(self, value: dict[str, Any]) -> None:
        part = pick(value, "part", of=dict) or {}
        tool = self.tool_of(value, part)
        call_id = identifier(value.get("id")) or identifier(part.get("toolCallId"))
        self.retry(value, tool)
        terminal = pick(part, "toolSpecificData", of=dict) or {}
        given = words.arguments(tool, value.get("arguments", words.terminal_arguments(terminal)))
        is_mcp = pick(part, "source", of=str) == "mcp"
        action = "mcp" if is_mcp else action_of(tool, words.ACTIONS)
        message = words.message_of(part)
        described = describe(tool, given if given else message, action)
        kind = "test_run" if tool == "runTests" else described.kind
        summary = described.summary if given else one_line(message) or described.summary
        cwd = words.path_of(terminal.get("cwd"))
        self.emit(
            kind, described.body, "toolInvocation", summary, "assistant", described.tool, call_id,
            described.action, part=0, files=described.files,
            cwd=cwd if cwd != self.state.cwd else None,
        )  # fmt: skip
        if described.kind == "edit":
            self.state.edited = [*self.state.edited, *map(_plain, described.files)][-EDITED:]
        self.result(value, part, tool, action, call_id, kind == "test_run")

    def retry(self, value: dict[str, Any], tool: str) -> None:
        """Add the retry of a call whose arguments the model had to write again."""
        attempts = number(value.get("retry"))
        if attempts and attempts > 0:
            summary = f"attempt {attempts + 1} at the arguments of {tool}"
            self.emit("retry", "", "toolInputRetry", summary, "system", part=3)

    def tool_of(self, value: dict[str, Any], part: dict[str, Any]) -> str:
        shown = pick(part, "toolId", of=str)
        name = pick(value, "name", of=str) or words.SHOWN.get(shown or "") or shown or "unknown"
        return name[:200]

    def result(
        self,
        value: dict[str, Any],
        part: dict[str, Any],
        tool: str,
        action: str,
        call_id: str | None,
        is_test: bool,
    ) -> None:
        confirmed = part.get("isConfirmed")
        way = confirmed if isinstance(confirmed, bool) else pick(confirmed, "type", of=int)
        state = pick(part, "toolSpecificData", "terminalCommandState", of=dict) or {}
        text = pick(value, "result", of=str)
        text = text if text is not None else words.output_of(part)
        self.ts = at(state.get("timestamp")) or self.ts
        if way is False or (way in (words.DENIED, words.SKIPPED) and way is not True):
            word = "skipped" if way == words.SKIPPED else "refused"
            self.emit(
                "human_intervention",
                text or "",
                f"toolInvocation/{word}",
                word,
                "user",
                tool,
                call_id,
                action,
                part=1,
            )
            return
        if text is None:
            return
        code = pick(state, "exitCode", of=int)
        code = words.exit_of(text) if code is None and action == "shell" else code
        is_error = pick(part, "resultDetails", "isError", of=bool) is True
        result = build_result(text, is_error or bool(code), code, is_test)
        self.emit(
            "decision" if tool in words.ASKS else "tool_result", text, "toolResult", result.summary,
            "tool", tool, call_id, action, part=1,
            is_error=result.is_error, exit_code=result.exit_code, tests=result.tests,
            duration_ms=number(state.get("duration")),
        )  # fmt: skip

    # The end of a request.

    def ended(self, value: dict[str, Any]) -> None:
        state, elapsed_ms = number(value.get("state")), number(value.get("elapsed"))
        started = number(value.get("started"), 1 << 50)
        self.ts = at(value.get("completed")) or (
            at(started + elapsed_ms) if started and elapsed_ms else None
        )
        message = pick(value, "error", "message", of=str) or text_of(value.get("error"))
        if value.get("canceled") is True or state == CANCELLED:
            self.emit(
                "human_intervention",
                message,
                "request/cancelled",
                "interrupted",
                "user",
                duration_ms=elapsed_ms,
            )
        elif message or state == FAILED:
            self.emit(
                "error",
                message or "the request failed",
                "request/failed",
                None,
                "system",
                is_error=True,
                duration_ms=elapsed_ms,
            )
        elif value.get("open") is True:
            self.emit("lifecycle", "", "request/open", "never finished", "system")
        else:
            self.emit(
                "completion",
                "",
                "request/complete",
                "answered",
                "assistant",
                duration_ms=elapsed_ms,
            )
        self.used(value)
        if (vote := value.get("vote")) is not None:
            self.emit(
                "human_intervention",
                text_of(vote),
                "vote",
                "voted " + ("up" if vote == 1 else "down"),
                "user",
                part=5,
            )

    def used(self, value: dict[str, Any]) -> None:
        """Add the usage of a request: the output of all rounds, and the prompt of the last one. The
        other prompts are not written."""
        used = Usage(
            input_tokens=number(value.get("input")) or 0,
            output_tokens=number(value.get("output")) or 0,
        )
        paid = value.get("credits")
        invoiced = (
            to_units(paid * CREDIT_USD)
            if isinstance(paid, int | float) and number(paid) is not None
            else None
        )
        if not used.total and not invoiced:
            return
        model = words.model_of(value.get("model")) or self.state.model
        event = self.charge(used, model)
        call = api.Call(
            key=self.native_id, session_uid=self.uid(self.session()), ts=self.ts, model=model,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens, is_sum=(number(value.get("rounds")) or 0) > 1,
            invoiced=invoiced or None,
        )  # fmt: skip
        self.out.calls.append((call, event))

    def strange_one(self, value: dict[str, Any]) -> None:
        text = text_of(value.get("value"))
        self.strange(text, "not a request, or a change to nothing", "strange")


def at(ms: Any) -> datetime | None:
    """Return a time that is written in milliseconds since 1970."""
    since_1970 = number(ms, 1 << 50)
    return moment(since_1970 / 1000) if since_1970 else None


def _plain(path: str) -> str:
    """Return a path as it is compared: the same one is written in several ways."""
    return path.replace("\\", "/").lstrip("/").lower()


def guess(value: dict[str, Any]) -> str:
    """Return the kind of a record without a known one, judged by its fields; "" if none fits."""
    if value.keys() & {"variables", "context", "global", "mode"}:
        return "prompt"
    if value.keys() & {"arguments", "name", "result"} or "toolCallId" in (
        pick(value, "part", of=dict) or {}
    ):
        return "call"
    if value.keys() & {"started", "completed", "elapsed", "rounds"}:
        return "end"
    return "text" if "text" in value else ""


HANDLERS = {
    "prompt": Reader.prompt,
    "text": Reader.text,
    "thinking": Reader.thinking,
    "call": Reader.call,
    "textEditGroup": Reader.edits,
    "notebookEditGroup": Reader.edits,
    "workspaceEdit": Reader.edits,
    "end": Reader.ended,
    "strange": Reader.strange_one,
}
