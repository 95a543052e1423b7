"""GitHub Copilot in Visual Studio: traces of OpenTelemetry; spans name models and tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, read_lines

AGENT = "visualstudio_copilot"
FOLDERS = (".cache/VSGitHubCopilotLogs/traces",)


def count(root: Path) -> Iterator[Session]:
    sessions: dict[str, tuple[Path, list[JSON]]] = {}
    for path in sorted(root.rglob("*_traces.jsonl")):
        for record in read_lines(path):
            for span in _spans(record):
                named = _attributes(span)
                id = named.get("gen_ai.conversation.id")
                if id:
                    sessions.setdefault(id, (path, []))[1].append((span, named))
    for id, (path, spans) in sessions.items():
        yield Session(path, id, _count(spans))


def _spans(record: JSON) -> Iterator[JSON]:
    for resource in record.get("resourceSpans") or ():
        for scope in resource.get("scopeSpans") or ():
            yield from (span for span in scope.get("spans") or () if isinstance(span, dict))


def _attributes(span: JSON) -> dict[str, JSON]:
    return {
        item["key"]: next(iter((get(item, "value") or {}).values()), None)
        for item in span.get("attributes") or ()
        if isinstance(item, dict)
    }


def _count(spans: list[JSON]) -> Counts:
    counts = Counts()
    for _, named in spans:
        operation = named.get("gen_ai.operation.name")
        if operation == "execute_tool":
            counts.calls += 1
            counts.results += 1  # A span is written when it has ended.
        elif operation == "chat":
            counts.add_tokens(
                int(named.get("gen_ai.usage.input_tokens") or 0),
                int(named.get("gen_ai.usage.output_tokens") or 0),
            )
    return counts
