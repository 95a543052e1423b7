"""The meaning of the bubbles of Cursor's editor: messages, thoughts, calls and results. One record
is one bubble."""

from __future__ import annotations

from typing import Any

from ... import model as api
from ...model import Usage
from .. import Source
from ..shared.calls import Described, build_result, opened
from ..shared.fold import REFUSALS, decode, load
from ..shared.pick import clean, identifier, number, pick
from ..shared.stream import MultiSessionFold, MultiState
from ..shared.tools import text_of
from . import words
from .paths import path_in

CARRY = 1
"""The layout of `Editor`; changed only together with the adapter's `version`."""
USER, ANSWER = 1, 2  # The types of a bubble.


class Editor(MultiState):
    version: int = CARRY


class Reader(MultiSessionFold[Editor]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Editor, CARRY))

    def sidecar(self, name: str, data: bytes) -> None:
        try:
            value = decode(data)
        except REFUSALS:
            return
        state = self.state
        if name == "workspace":
            state.cwd = path_in(pick(value, "folder", of=str)) or state.cwd
            return
        self.session(pick(value, "composerId", of=str))
        self.set_title(pick(value, "name", of=str), 2)
        state.cwd = path_in(value.get("folder")) or state.cwd
        state.branch = (pick(value, "branch", of=str) or "")[:200] or state.branch
        state.model = pick(value, "model", of=str) or state.model
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

    # Records.

    def line(self, value: dict[str, Any]) -> None:
        self.turn_to(value.get("session"))
        self.set_current_title(pick(value, "title", of=str), 2)
        bubble = pick(value, "bubble", of=dict)
        is_left = value.get("left") is True
        self.parent = None if is_left else self.parent
        name = identifier(value.get("id"))
        if name is not None:
            self.identify(f"{self.current()}/{name}")
        last = self.stream().last
        if bubble is None:
            self.unknown("bubble")
        else:
            self.bubble(bubble, value.get("at"))
        if value.get("aborted") is True:
            self.emit("human_intervention", "", "status/aborted", "interrupted", "user", part=7)
        if is_left:  # What was taken back is no part of what follows.
            self.stream().last = last
        self.named = None

    def bubble(self, bubble: dict[str, Any], at: Any) -> None:
        state, timing = self.state, pick(bubble, "timingInfo", of=dict) or {}
        self.ts = words.time_at(
            bubble.get("createdAt"), bubble.get("timestamp"), timing.get("clientStartTime"),
            timing.get("clientRpcSendTime"), at,
        )  # fmt: skip
        model = pick(bubble, "modelInfo", "modelName", of=str) or pick(bubble, "modelType", of=str)
        self.stream().model = model or self.stream().model
        state.cwd = (
            state.cwd
            or path_in(pick(bubble, "workspaceProjectDir", of=str))
            or _first(bubble.get("workspaceUris"))
        )
        tool, text = pick(bubble, "toolFormerData", of=dict), text_in(bubble)
        kind = bubble.get("type")
        self.compacted(pick(bubble, "conversationSummary", of=dict))
        if kind in (USER, "user"):
            self.prompt(bubble, text)
        else:
            self.answer(bubble, text, kind in (ANSWER, "ai") or "type" not in bubble)
        if tool is not None and tool.keys() & {
            "name",
            "tool",
            "toolCallId",
            "rawArgs",
            "params",
            "result",
        }:
            self.tool(tool)
        self.failed(bubble.get("errorDetails"))
        if not self.count:
            self.merge("empty")
        self.used(bubble)

    def compacted(self, summary: dict[str, Any] | None) -> None:
        """Add a compaction: a summary replaces the earlier messages in the model's context."""
        if summary is None:
            return
        self.emit(
            "lifecycle", "", "conversationSummary", "compacted", "system", part=8, view="compact"
        )
        if text := pick(summary, "summary", of=str):
            self.emit(
                "lifecycle",
                text,
                "conversationSummary/summary",
                None,
                "user",
                part=9,
                view="summary",
            )

    def prompt(self, bubble: dict[str, Any], text: str) -> None:
        if text.strip():
            self.emit("user_msg", text, "bubble/user", None, "user", part=0)
            self.set_current_title(text, 1)
        files = selected(bubble)
        if files:
            self.emit(
                "lifecycle",
                "\n".join(files),
                "context",
                None,
                "user",
                part=5,
                view="context",
                files=files,
            )

    def answer(self, bubble: dict[str, Any], text: str, is_answer: bool) -> None:
        thought = pick(bubble, "thinking", "text", of=str) or pick(bubble, "thinking", of=str)
        if thought and thought.strip():
            self.emit(
                "thinking",
                thought,
                "thinking",
                None,
                "assistant",
                part=1,
                duration_ms=number(bubble.get("thinkingDurationMs")),
            )
        if text.strip() and is_answer:
            self.emit(
                "assistant_msg",
                text,
                "bubble/assistant",
                None,
                "assistant",
                part=0,
                model=self.stream().model,
            )
        elif text.strip():
            self.emit(
                "lifecycle",
                text,
                f"bubble/{text_of(bubble.get('type'))}"[:200],
                None,
                "system",
                part=0,
            )

    # Tools.

    def tool(self, tool: dict[str, Any]) -> None:
        result = opened(tool.get("result"))
        given = opened(tool.get("rawArgs")) or opened(tool.get("params"))
        call = words.call(tool.get("name"), given, words.diff_of(result))
        child = clean(pick(tool, "additionalData", "subagentComposerId", of=str) or "")
        self.emit(
            call.kind, call.body, "toolFormerData", call.summary, "assistant", call.tool,
            identifier(tool.get("toolCallId")), call.action, part=2,
            files=call.files, refs=(self.uid(child),) if child else (),
        )  # fmt: skip
        is_refused = words.is_refused(tool, result)
        if result is not None or tool.get("error") is not None or is_refused:
            self.tool_result(tool, call, result, is_refused)

    def tool_result(
        self, tool: dict[str, Any], call: Described, result: Any, is_refused: bool
    ) -> None:
        error = words.error_of(tool.get("error"))
        text = result_text(result) or error or ""
        code = pick(result, "exitCode", of=int)
        is_error = words.is_failed(tool) or error is not None or bool(code)
        end = build_result(text, is_error and not is_refused, code, call.kind == "test_run")
        kind = "decision" if call.tool in words.ASKS else "tool_result"
        native, summary = "toolFormerData/result", end.summary or None
        if is_refused:
            kind, native = "human_intervention", "toolFormerData/refused"
            summary = summary or "refused"
        self.emit(
            kind, text, native, summary, "tool",
            call.tool, identifier(tool.get("toolCallId")), call.action, part=3,
            is_error=end.is_error, exit_code=end.exit_code, tests=end.tests,
        )  # fmt: skip

    def failed(self, details: Any) -> None:
        details = opened(details)
        if not details:
            return
        text = next(
            (
                text
                for name in ("message", "error", "detail")
                if (text := pick(details, name, of=str))
            ),
            None,
        ) or text_of(details)
        again = number((details if isinstance(details, dict) else {}).get("retryAttempt"))
        if again:
            self.emit("retry", "", "errorDetails/retry", f"attempt {again}", "system", part=6)
        self.emit("error", text, "errorDetails", None, "system", part=4, is_error=True)

    # Tokens.

    def used(self, bubble: dict[str, Any]) -> None:
        """Add the tokens of a request, which are nearly always zero."""
        counts = pick(bubble, "tokenCount", of=dict) or {}
        used = Usage(
            input_tokens=number(counts.get("inputTokens")) or 0,
            output_tokens=number(counts.get("outputTokens")) or 0,
        )
        if not used.total:
            return
        model = self.stream().model
        event = self.charge(used, model)
        call = api.Call(
            key=self.native_id or self.new_id(), session_uid=self.uid(self.current()),
            ts=self.ts, model=model,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            is_sidechain=self.stream().relation == "subagent",
        )  # fmt: skip
        self.out.calls.append((call, event))


SAME, TEXTS = ("richText", "initText", "delegate"), ("rawArgs", "params", "result", "error")
ABOVE = ("parentComposerId", "parentAgentId", "rootParentAgentId")


def result_text(result: Any) -> str:
    """Return a result for reading, without the parts that are read elsewhere."""
    if isinstance(result, dict):
        result = {word: item for word, item in result.items() if word not in ("diff", "rejected")}
    return words.shown(result or None)


def text_in(bubble: dict[str, Any]) -> str:
    """Return the text of a bubble, which versions have named differently."""
    return next(
        (
            text
            for name in ("text", "rawText", "content", "message")
            if isinstance(text := bubble.get(name), str) and text
        ),
        "",
    )


def selected(bubble: dict[str, Any]) -> tuple[str, ...]:
    """The files that a person sent along."""
    context = pick(bubble, "context", of=dict) or bubble
    found = [path for path in pick(bubble, "relevantFiles", of=list) or [] if isinstance(path, str)]
    for name in (
        "fileSelections",
        "folderSelections",
        "selections",
        "selectedImages",
        "attachedCodeChunks",
        "terminalFiles",
    ):
        for item in pick(context, name, of=list) or pick(bubble, name, of=list) or []:
            path = path_in(pick(item, "uri", of=dict)) or path_in(pick(item, "path", of=str))
            found += [path] if path else []
    return tuple(dict.fromkeys(found))[:100]


def _first(uris: Any) -> str | None:
    return path_in(uris[0]) if isinstance(uris, list) and uris else None


def slim(bubble: dict[str, Any]) -> dict[str, Any]:
    """A bubble without what is empty, and what is the same text in another form; with what is JSON
    in a text as what it says."""
    kept = {
        name: item
        for name, item in bubble.items()
        if item not in (None, "", [], {}, False) and name not in SAME
    }
    kept |= {
        name: _value(kept[name]) for name in ("conversationSummary", "errorDetails") if name in kept
    }
    tool = kept.get("toolFormerData")
    if isinstance(tool, dict):
        kept["toolFormerData"] = {
            name: _value(item) if name in TEXTS else item for name, item in tool.items()
        }
    return kept


def _value(item: Any) -> Any:
    try:
        return decode(item) if isinstance(item, str) else item
    except REFUSALS:
        return item
