"""The meaning of the spans of a trace of Visual Studio's Copilot. The package's docstring lists the
traps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from .. import Normalized, Record, Source
from ..shared.calls import action_of, build_result, describe, opened
from ..shared.fold import load
from ..shared.pick import identifier, moment, number, pick
from ..shared.stream import MultiSessionFold, MultiState
from ..shared.tools import key_values, text_of

CARRY = 1
"""The layout of `Trace`; changed only together with the adapter's `version`."""
ACTIONS = {
    **dict.fromkeys(
        ("run_command_in_terminal", "run_build", "run_tests", "get_output_window_logs"), "shell"
    ),
    **dict.fromkeys(("get_file", "get_files_in_project", "get_projects_in_solution"), "read"),
    **dict.fromkeys(
        ("apply_patch", "create_file", "edit_file", "replace_string_in_file", "remove_file"), "edit"
    ),
    **dict.fromkeys(
        ("code_search", "file_search", "get_errors", "find_symbol", "get_symbols_by_name"), "search"
    ),
    "get_web_pages": "web",
}
KNOWN = (
    "gen_ai.conversation.id",
    "gen_ai.operation.name",
    "virtual_parent.genai",
    "gen_ai.provider.name",
    "gen_ai.agent.name",
)
FAILED = 2  # The status of a span that ended with an error.


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Trace(MultiState):
    version: int = CARRY


class Reader(MultiSessionFold[Trace]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Trace, CARRY))

    def line(self, value: dict[str, Any]) -> None:
        raw, events = self.raw, 0
        for span in spans(value):
            self.begin(raw)
            self.span(span)
            events += self.count
        self.count = events
        if not events:
            self.unknown(None)

    def span(self, span: dict[str, Any]) -> None:
        given = attributes(span)
        self.turn_to(given.get("gen_ai.conversation.id"))
        name = "/".join(
            id_ for word in ("traceId", "spanId") if (id_ := identifier(span.get(word)))
        )
        if name:
            self.identify(f"{self.current()}/{name}")
        start, end = (
            number(_int(span.get(word)), 1 << 62)
            for word in ("startTimeUnixNano", "endTimeUnixNano")
        )
        self.ts = at(start)
        duration_ms = (end - start) // 1_000_000 if start and end and end >= start else None
        model = (
            text_of(given.get("gen_ai.response.model") or given.get("gen_ai.request.model"))[:200]
            or None
        )
        self.stream().model = model or self.stream().model
        if "gen_ai.tool.name" in given or "gen_ai.tool.call.id" in given:
            self.tool(span, given, end, duration_ms)
        else:
            self.operation(span, given, duration_ms)
        self.named = None

    def tool(
        self, span: dict[str, Any], given: dict[str, Any], end: int | None, duration_ms: int | None
    ) -> None:
        name, call_id = given.get("gen_ai.tool.name"), identifier(given.get("gen_ai.tool.call.id"))
        args = opened(given.get("gen_ai.tool.call.arguments"))
        patch = pick(args, "patch", of=str)
        call = describe(name, patch if patch else args, action_of(str(name), ACTIONS))
        kind = "test_run" if name == "run_tests" else call.kind
        self.emit(
            kind,
            call.body,
            "execute_tool",
            call.summary,
            "assistant",
            call.tool,
            call_id,
            call.action,
            part=0,
            files=call.files,
        )
        self.ts = at(end) or self.ts
        result = given.get("gen_ai.tool.call.result")
        is_error = pick(span, "status", "code", of=int) == FAILED
        if result is None and not is_error:
            return
        text = text_of(result) or text_of(pick(span, "status", "message", of=str))
        done = build_result(text, is_error, None, kind == "test_run")
        self.emit(
            "tool_result", text, "execute_tool/result", done.summary, "tool", call.tool, call_id,
            call.action, part=1, is_error=is_error,
            tests=done.tests, duration_ms=duration_ms,
        )  # fmt: skip

    def operation(
        self, span: dict[str, Any], given: dict[str, Any], duration_ms: int | None
    ) -> None:
        word = (
            text_of(given.get("gen_ai.operation.name"))
            or text_of(span.get("name")).partition(" ")[0]
            or "span"
        )
        body = key_values({name: value for name, value in given.items() if name not in KNOWN})
        is_error = pick(span, "status", "code", of=int) == FAILED
        message = pick(span, "status", "message", of=str)
        body = "\n".join(text for text in (message, body) if text)
        kind = "error" if is_error else "lifecycle"
        model = self.stream().model
        summary = text_of(span.get("name")) or word
        self.emit(
            kind,
            body,
            word[:200],
            summary,
            "assistant",
            part=0,
            is_error=is_error,
            duration_ms=duration_ms,
            model=model,
        )


def spans(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of a line."""
    for resource in pick(value, "resourceSpans", of=list) or []:
        for scope in pick(resource, "scopeSpans", of=list) or []:
            yield from (
                span for span in pick(scope, "spans", of=list) or [] if isinstance(span, dict)
            )


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span by name. Each is written as a name, and a value with its
    type."""
    values: dict[str, Any] = {}
    for item in pick(span, "attributes", of=list) or []:
        name, value = (
            pick(item, "key", of=str),
            item.get("value") if isinstance(item, dict) else None,
        )
        if name:
            values[name] = next(iter(value.values()), None) if isinstance(value, dict) else value
    return values


def at(ns: int | None) -> datetime | None:
    """Return a time that is written in nanoseconds since 1970."""
    return moment(ns / 1e9) if ns else None


def _int(value: Any) -> Any:
    """Return a number that may be written as a text, as large ones are."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value
