"""Roo Code, and the task folders of Cline: what was shown, with usage in the requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Rule, Session, blocks, number, parse, read_json, texts

AGENT = "roo"
STORAGE = ".config/Code/User/globalStorage"
FOLDERS = (f"{STORAGE}/rooveterinaryinc.roo-cline",)
CALLS = ("tool", "command", "use_mcp_server", "browser_action_launch")
RESULTS = ("command_output", "mcp_server_response", "subtask_result", "browser_action_result")
WHOLE_PROMPTS_SINCE_MS = 1_761_955_200_000
"""From 3.29.5 on (2025-11-01) Roo Code counts what was cached as input too."""
RULES = (
    Rule(
        "the result that a task ends with is shown as its completion, not as a reply",
        lambda _, shown: Counts(replies=-shown["completion:completion_result"]),
    ),
)
PROMPTS = ("task", "user_feedback")


def count(root: Path, whole_since_ms: int = WHOLE_PROMPTS_SINCE_MS) -> Iterator[Session]:
    for folder in sorted(path for path in root.rglob("tasks/*") if path.is_dir()):
        yield from count_task(folder, whole_since_ms)


def count_task(folder: Path, whole_since_ms: int) -> Iterator[Session]:
    for name in ("ui_messages.json", "claude_messages.json"):
        rows = read_json(folder / name)
        if isinstance(rows, list) and any(row.get("type") in ("ask", "say") for row in rows):
            counts = _count(rows, whole_since_ms)
            history = read_json(folder / "api_conversation_history.json")
            if isinstance(history, list):
                counts.results = max(
                    counts.results + _count_refusals(history), _count_history(history).results
                )
            yield Session(folder / name, folder.name, counts)
            return
    for name in ("api_conversation_history.json", "claude_messages.json"):
        messages = read_json(folder / name)
        if isinstance(messages, list):
            yield Session(folder / name, folder.name, _count_history(messages))
            return


def _count(rows: list[JSON], whole_since_ms: int) -> Counts:
    counts = Counts()
    first, in_output = True, False
    for row in rows:
        kind, text = row.get("say") or row.get("ask"), row.get("text") or ""
        is_output = kind in RESULTS
        if kind in PROMPTS or (kind == "text" and first):
            counts.prompts += bool(text or row.get("images"))
        elif kind in ("text", "completion_result"):
            counts.replies += bool(text.strip())
        elif kind in CALLS:
            counts.calls += 1
        elif is_output:
            counts.results += not in_output
        elif kind == "api_req_started":
            is_whole = number(row.get("ts")) >= whole_since_ms
            _add_usage(counts, parse(text) or {}, is_whole)
        first, in_output = False, is_output
    return counts


def _add_usage(counts: Counts, usage: JSON, is_whole: bool) -> None:
    read, write = number(usage.get("cacheReads")), number(usage.get("cacheWrites"))
    into = number(usage.get("tokensIn"))
    if usage.get("apiProtocol") == "openai" or is_whole:
        into -= read + write
    counts.add_tokens(into, usage.get("tokensOut"), read, write)


def _count_refusals(messages: list[JSON]) -> int:
    """Count results that only the model was given: a person refused the call."""
    return sum(
        block.get("type") == "tool_result" and '"denied"' in str(block.get("content"))
        for message in messages
        for block in blocks(message.get("content"))
    )


def _count_history(messages: list[JSON]) -> Counts:
    counts = Counts()
    for message in messages:
        kinds = [block.get("type") for block in blocks(message.get("content"))]
        written = texts(message.get("content"))
        if message.get("role") == "user":
            counts.prompts += bool(written) and "tool_result" not in kinds
        elif message.get("role") == "assistant":
            counts.replies += len(written)
        counts.calls += kinds.count("tool_use")
        counts.results += kinds.count("tool_result")
    return counts
