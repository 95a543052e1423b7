"""The meaning of the records of a task: rows of the timeline, and messages that the model saw."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import msgspec

from ...model import to_units
from .. import LOST, Skip, Source
from ..shared.fold import keep, load
from ..shared.pick import number, pick
from ..shared.tools import key_values, text_of
from . import words
from .fold import CALLS, Call, ClineFold, State, time_at
from .paths import HISTORY

CARRY = 2
"""The layout of `Memory`; changed only together with the adapter's `version`."""
OPEN = 64  # Calls without a result that are remembered.
MODELS = 200  # Changes of the model that are remembered.

CALLED = frozenset({
    "tool", "command", "use_mcp_server", "browser_action", "browser_action_launch", "followup",
    "new_task", "use_subagents", "subagent",
    "report_bug",
})  # fmt: skip
CAME = {
    "command_output": "shell", "mcp_server_response": "mcp", "browser_action_result": "web",
    "subtask_result": "agent",
    "codebase_search_result": "search",
}  # fmt: skip
ERRORS = frozenset({
    "error", "diff_error", "clineignore_error", "rooignore_error", "command_permission_denied",
    "condense_context_error",
    "api_req_failed", "mistake_limit_reached",
})  # fmt: skip
RETRIES = frozenset(
    {"api_req_retried", "api_req_retry_delayed", "api_req_rate_limit_wait", "error_retry"}
)
PLANS = frozenset({"plan_mode_respond", "act_mode_respond", "plan_completion_result"})
ANSWERS = {"reasoning": "thinking", "completion_result": "completion"}
COMPACTIONS = frozenset({"condense_context", "compaction", "summarize_task", "condense"})
QUIET = frozenset(
    {
        "mcp_server_request_started",
        "completion_result",
        "text",
        "reasoning",
        "browser_action_result",
    }
)
"""Rows that say nothing when they are empty."""


class Memory(State):
    version: int = CARRY
    has_prompt: bool = False
    open: list[Call] = msgspec.field(default_factory=list)
    """Calls of the timeline whose result has not come."""
    uses: dict[str, Call] = msgspec.field(default_factory=dict)
    """Calls by the id that the model gave them."""
    models: list[tuple[int, str, str | None]] = msgspec.field(default_factory=list)
    """Since when which model was used, and whose it is."""


class Task(ClineFold[Memory]):
    def __init__(
        self, source: Source, carry: bytes | None, whole_prompts_since: datetime | None
    ) -> None:
        super().__init__(source, load(carry, Memory, CARRY))
        self.since = whole_prompts_since
        self.is_alone = os.path.basename(source.path) == HISTORY
        """Whether there is no timeline."""

    def own_name(self) -> str:
        return os.path.basename(self.folder)

    def about(self, name: str, value: dict[str, Any]) -> None:
        state = self.state
        if name == "metadata":
            self.set_title(pick(value, "title", of=str), 2)
            state.models = []
            for item in (pick(value, "model_usage", of=list) or [])[-MODELS:]:
                ts, model = (
                    number(pick(item, "ts", of=int), 1 << 50),
                    pick(item, "model_id", of=str),
                )
                if ts is not None and model:
                    state.models.append(
                        (ts, model[:200], words.provider_of(item.get("model_provider_id")))
                    )
            return
        self.set_title(pick(value, "task", of=str), 1)
        place = pick(value, "cwdOnTaskInitialization", of=str) or pick(value, "workspace", of=str)
        state.cwd = place[:4096] if place else state.cwd
        state.model = state.model or pick(value, "modelId", of=str)
        if above := pick(value, "parentTaskId", of=str):
            self.comes_from(above, "subagent")

    def line(self, value: dict[str, Any]) -> None:
        if "history" in value or "message" in value:
            message = value.get("message")
            if not isinstance(message, dict) or not message.keys() & {"role", "content"}:
                self.unknown("history")
            elif self.is_alone:
                self.message(message)
            else:
                self.add_results(message)
        elif value.get("told") is True:
            self.merge("told by what follows")
        else:
            self.row(value)

    # The timeline.

    def row(self, value: dict[str, Any]) -> None:
        word = pick(value, "say", of=str) or pick(value, "ask", of=str) or ""
        text = pick(value, "text", of=str) or ""
        self.when(value)
        if isinstance(info := value.get("info"), dict):
            self.request(info, word, value)
            return
        if (ts := pick(value, "ts", of=int)) is not None:
            # A row grows while it is written. What it says belongs to its name, so that the whole
            # is not taken for the beginning.
            self.identify(f"{self.session()}/{ts}-{words.stamp(word + text)}")
        if reasoning := pick(value, "reasoning", of=str):
            self.emit(
                "thinking",
                reasoning,
                "reasoning",
                role="assistant",
                part="reasoning",
                model=self.state.model,
            )
        body = "\n".join([text, *words.pictures(value.get("images"))]).strip()
        self.add_row(value, word, body)
        if not self.count:
            self.merge(word if word in QUIET else "empty")

    def when(self, value: dict[str, Any]) -> None:
        state = self.state
        self.ts = time_at(value)
        ts = pick(value, "ts", of=int) or 0
        if found := [model for model in state.models if model[0] <= ts]:
            _, state.model, state.provider = found[-1]
        state.model = pick(value, "modelInfo", "modelId", of=str) or state.model
        state.provider = (
            words.provider_of(pick(value, "modelInfo", "providerId", of=str)) or state.provider
        )

    def add_row(self, value: dict[str, Any], word: str, body: str) -> None:
        state = self.state
        if isinstance(condensed := value.get("contextCondense"), dict) or word in COMPACTIONS:
            self.compaction(
                condensed if isinstance(condensed, dict) else {}, word or "condense_context", body
            )
        elif word in ("task", "user_feedback") or (word == "text" and not state.has_prompt):
            self.prompt(body, word)
        elif word == "text" or word in PLANS:
            self.say(body, word)
        elif word in CALLED:
            self.call(word, value)
        elif word in ANSWERS or word in CAME:
            if body:
                self.add_answer(word, body)
        elif not self.add_notice(word, body):
            self.add_other(value, word, body)

    def add_answer(self, word: str, body: str) -> None:
        """Add a thought, the result of the task, or the result of a call."""
        if word in ANSWERS:
            self.emit(ANSWERS[word], body, word, role="assistant", model=self.state.model)
            return
        call = next((call for call in self.state.open if call.action == CAME[word]), None)
        self.build_result(call or Call(self.native_id, word, CAME[word]), body, word)

    def add_notice(self, word: str, body: str) -> bool:
        """Add what happened to a request or an edit; return False for another row."""
        if word == "user_feedback_diff":
            found = words.describe("appliedDiff", words.loads(body))
            self.emit(
                "human_intervention", found.body, word, found.summary, "user", files=found.files
            )
        elif word in ERRORS:
            self.emit("error", body or word, word, role="system", is_error=True)
        elif word in RETRIES:
            why = pick(words.loads(body), "errorMessage", of=str) or body
            self.emit("retry", body, word, why or "the request is tried again", "system")
        elif word == "task_progress":
            self.emit("decision", body, word, role="assistant", action="plan")
        else:
            return False
        return True

    def add_other(self, value: dict[str, Any], word: str, body: str) -> None:
        if "role" in value and "content" in value:
            self.message(value)
        elif word:
            self.event(value, word, body)
        elif body or not self.count:
            self.emit(
                "lifecycle", body or self.raw_text(), "unknown", None if body else "unknown record"
            )

    def event(self, value: dict[str, Any], word: str, body: str) -> None:
        """Add something that happened to the task."""
        mark = pick(value, "lastCheckpointHash", of=str) or body
        if word.startswith("checkpoint_"):
            self.emit("lifecycle", mark, word, f"checkpoint {mark[:12]}".strip(), "system")
        elif word == "resume_task":
            self.emit("lifecycle", body, word, "the task was interrupted, and is resumed", "system")
        elif body or word not in QUIET:
            self.emit("lifecycle", body, word, body or word.replace("_", " "), "system")

    def prompt(self, body: str, word: str) -> None:
        if not body:
            return
        self.emit("user_msg", body, word, role="user")
        self.state.has_prompt = True
        if not self.state.is_titled:
            self.set_title(body, 1)

    def say(self, body: str, word: str) -> None:
        value = words.loads(body)
        if isinstance(value, dict) and word in PLANS:
            chosen = pick(value, "selected", of=str)
            body = "\n".join(
                filter(
                    None,
                    (
                        pick(value, "response", of=str) or key_values(value),
                        f"selected: {chosen}" if chosen else "",
                    ),
                )
            )
        if body:
            self.emit("assistant_msg", body, word, role="assistant", model=self.state.model)

    def compaction(self, condensed: dict[str, Any], word: str, body: str) -> None:
        """Add a compaction: a summary replaces the earlier messages in the model's context."""
        before, after = (
            pick(condensed, "prevContextTokens", of=int),
            pick(condensed, "newContextTokens", of=int),
        )
        summary = f"compacted: {before} to {after} tokens" if before and after else "compacted"
        cost = condensed.get("cost")
        extra = {"cost_usd": cost} if to_units(cost) else {}
        self.emit("lifecycle", "", word, summary, "system", view="compact", extra=extra)
        if text := pick(condensed, "summary", of=str) or body:
            self.emit(
                "lifecycle", text, f"{word}/summary", role="system", part="summary", view="summary"
            )

    # Calls and results.

    def call(self, word: str, value: dict[str, Any]) -> None:
        text = pick(value, "text", of=str) or ""
        given: Any = {"command": text} if word == "command" else words.loads(text)
        if not isinstance(given, dict):
            given = {
                (
                    "question"
                    if word == "followup"
                    else "url"
                    if word.startswith("browser")
                    else "text"
                ): text
            }
        name = pick(given, "tool", of=str) or word if word == "tool" else word
        found = words.describe(name, {key: item for key, item in given.items() if key != "tool"})
        if not text.strip():
            return
        if not self.native_id:
            self.new_id()
        native = f"{pick(value, 'type', of=str) or 'say'}/{word}"
        self.emit_call(found, native, self.native_id, model=self.state.model)
        if name not in words.ASKS:
            self.state.open.append(
                Call(self.native_id, found.tool, found.action, found.kind == "test_run")
            )
            del self.state.open[:-OPEN]

    def build_result(
        self, call: Call, content: Any, native: str, is_error: bool = False, part: str | None = None
    ) -> None:
        """Add the result of a call."""
        found = words.result(content, call.action, call.is_test, is_error)
        kind, state = "tool_result", self.state
        if found.is_denied:
            kind, native = "human_intervention", f"{native}/denied"
        self.emit(
            kind, found.text, native, found.summary, "tool", call.tool, call.id, call.action, part,
            is_error=found.is_error,
            exit_code=found.exit_code, tests=found.tests,
        )  # fmt: skip
        state.open = [other for other in state.open if other.id != call.id]

    def match(self, tool: str, instead: str) -> Call:
        """The open call that a result is of: the first that does what this tool does, or the first
        when no tool is named."""
        action = words.ACTIONS.get(tool) or "other"
        return next(
            (call for call in self.state.open if not tool or call.action == action),
            Call(instead, tool or "unknown", action),
        )

    # Requests.

    def request(self, info: dict[str, Any], word: str, value: dict[str, Any]) -> None:
        ts = pick(value, "ts", of=int)
        self.identify(f"{self.session()}/{ts}") if ts is not None else self.new_id()
        key = self.native_id
        self.state.model = pick(info, "request", "model", of=str) or self.state.model
        self.place(pick(info, "request", of=str) or "")
        self.request_results(pick(value, "results", of=list) or [], key)
        self.tokens(info, word or "api_req_started", key)
        self.ending(info)
        if not self.count:
            self.merge(word or "request")

    def request_results(self, results: list[Any], key: str) -> None:
        """Add the results that a request sends. The calls before it have then all ended."""
        for n, item in enumerate(results):
            tool = pick(item, "tool", of=str) or ""
            text = pick(item, "text", of=str) or text_of(item)
            if tool not in words.ASKS:
                self.build_result(
                    self.match(tool, f"{key}#result{n}"), text, "request", part=f"result{n}"
                )
        if results:
            self.state.open.clear()

    def ending(self, info: dict[str, Any]) -> None:
        """Add the end of a request that a person cancelled, or that failed."""
        reason = pick(info, "cancelReason", of=str)
        if reason == "user_cancelled":
            summary = "the request was cancelled"
            self.emit("human_intervention", "", "cancelled", summary, "user", part="cancelled")
        elif reason:
            text = pick(info, "streamingFailedMessage", of=str) or reason
            self.emit("error", text, reason, role="system", part="failed", is_error=True)

    def place(self, text: str) -> None:
        """Note the task's folder and model, when nothing else tells them."""
        if self.state.cwd is None:
            self.state.cwd = words.folder_in(text)
        if self.state.model is None:
            self.state.model = words.model_in(text)

    def tokens(self, info: dict[str, Any], word: str, key: str) -> None:
        """Add the tokens of a request. They are known after the request was read, so they are an
        event of their own."""
        state, cost = self.state, info.get("cost")
        counts = [info.get(name) for name in ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")]
        used = words.usage(counts, self.is_whole(info))
        if not used.total:
            return
        if word == "deleted_api_reqs":
            self.emit(
                "lifecycle",
                key_values(info),
                word,
                f"requests of {used.total} tokens were deleted",
                "user",
                part="tokens",
            )
            self.out.skips.append(Skip(self.offset, f"{used.total} {LOST}"))
            return
        prompt = used.total - used.output_tokens
        event = self.emit(
            "lifecycle", "", word, f"{prompt} tokens in, {used.output_tokens} out", "assistant",
            part="tokens", usage=used,
            tokens=used.total, model=state.model,
            extra={"cost_usd": cost} if to_units(cost) else {},
        )  # fmt: skip
        self.bill(
            key,
            used,
            event,
            cost,
            is_invoiced=state.provider in words.BILLERS,
            is_sum=word == "subagent_usage",
        )

    def is_whole(self, info: dict[str, Any]) -> bool:
        """Return True if the tokens of the prompt include the cached ones."""
        if self.since is None:
            return self.state.provider in words.WITH_CACHE
        is_early = self.ts is not None and self.ts < self.since
        return not (is_early and pick(info, "apiProtocol", of=str) == "anthropic")

    # What the model saw.

    def add_results(self, message: dict[str, Any]) -> None:
        """A message beside the timeline: only the results of calls are not in that."""
        self.ts = time_at(message)
        blocks = _blocks(message)
        for block in blocks:
            if (use := pick(block, "id", of=str)) and "input" in block:
                found = words.describe(block.get("name"), block.get("input"))
                keep(self.state.uses, use[:200], Call(use[:200], found.tool, found.action), CALLS)
        if pick(message, "role", of=str) != "assistant":
            self.results(message, blocks)
        if not self.count:
            self.merge("history")

    def results(self, message: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
        texts = "\n\n".join(text for block in blocks if (text := pick(block, "text", of=str)))
        self.place(texts)
        ts, has_any = pick(message, "ts", of=int), False
        for block in blocks:
            use = pick(block, "tool_use_id", of=str)
            if use is None:
                continue
            has_any = True
            known = self.state.uses.get(use[:200])
            if known is not None and known.tool in words.ASKS:
                continue
            self.identify(f"{self.session()}/result-{use[:200]}")
            call = self.match(known.tool if known else "", use[:200])
            self.build_result(
                call,
                block.get("content"),
                "tool_result",
                pick(block, "is_error", of=bool) or False,
                part="result",
            )
        for n, (tool, text) in enumerate(words.results_in(texts)):
            has_any = True
            if tool not in words.ASKS:
                self.identify(
                    f"{self.session()}/result-{words.stamp(text) if ts is None else f'{ts}-{n}'}"
                )
                self.build_result(self.match(tool, self.native_id), text, "result", part="result")
        if has_any:
            self.state.open.clear()

    def message(self, message: dict[str, Any]) -> None:
        """A message where there is no timeline: all that it says."""
        ts = pick(message, "ts", of=int)
        self.when(message)
        if ts is not None:
            self.identify(f"{self.session()}/{ts}")
        blocks = _blocks(message)
        if _is_answer(message, blocks):
            for block in blocks:
                self.answered(block)
            tokens = pick(message, "metrics", "tokens", of=dict) or {}
            info = {
                "tokensIn": tokens.get("prompt"),
                "tokensOut": tokens.get("completion"),
                "cacheReads": tokens.get("cached"),
            }
            if not self.native_id:
                self.new_id()
            self.tokens(
                info | {"cost": pick(message, "metrics", "cost", of=float)},
                "metrics",
                self.native_id,
            )
        else:
            for block in blocks:
                self.add_user_block(block)
        if not self.count:
            self.merge("empty")

    def answered(self, block: dict[str, Any]) -> None:
        model = self.state.model
        if (thought := pick(block, "thinking", of=str)) is not None:
            self.emit("thinking", thought, "thinking", role="assistant", model=model)
        elif (text := pick(block, "text", of=str)) is not None:
            self.emit("assistant_msg", text, "text", role="assistant", model=model)
        elif "input" in block:
            self.add_call(block.get("name"), block.get("input"), pick(block, "id", of=str))
        else:
            self.emit(
                "lifecycle",
                text_of(block),
                pick(block, "type", of=str) or "unknown",
                "unknown block",
                "assistant",
            )

    def add_call(self, name: Any, given: Any, use: str | None) -> None:
        """A call as the model made it."""
        if name == "attempt_completion" and (text := pick(given, "result", of=str)):
            self.emit(
                "completion", text, "attempt_completion", role="assistant", model=self.state.model
            )
            return
        found = words.describe(name, given)
        call_id = use[:200] if use else f"{self.native_id or self.session()}#{self.count}"
        self.emit_call(found, "tool_use", call_id)
        call = Call(call_id, found.tool, found.action, found.kind == "test_run")
        keep(self.state.uses, call_id, call, CALLS)
        self.state.open.append(call)
        del self.state.open[:-OPEN]

    def add_user_block(self, block: dict[str, Any]) -> None:
        state, text = self.state, pick(block, "text", of=str)
        if (use := pick(block, "tool_use_id", of=str)) is not None:
            call = state.uses.get(use[:200]) or Call(use[:200], "unknown", "other")
            self.build_result(
                call, block.get("content"), "tool_result", pick(block, "is_error", of=bool) or False
            )
        elif text is not None and "tool" in block:
            self.build_result(
                self.match(pick(block, "tool", of=str) or "", f"{self.native_id}#{self.count}"),
                text,
                "result",
            )
        elif text is None:
            self.emit(
                "lifecycle",
                words.without_images(words.shown(block)),
                pick(block, "type", of=str) or "unknown",
                None,
                "user",
            )
        elif text.lstrip().startswith("<environment_details>"):
            self.place(text)
            self.emit(
                "lifecycle", text, "environment_details", "environment", "user", view="context"
            )
        else:
            self.prompt(words.typed(text), "text")


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [
        item if isinstance(item, dict) else {"type": "text", "text": text_of(item)}
        for item in items
    ]


def _is_answer(message: dict[str, Any], blocks: list[dict[str, Any]]) -> bool:
    role = pick(message, "role", of=str)
    if role in ("assistant", "user"):
        return role == "assistant"
    return bool(message.keys() & {"modelInfo", "metrics"}) or any(
        block.keys() & {"thinking", "input"} for block in blocks
    )
