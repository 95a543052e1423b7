"""Claude Code: JSON lines; a message is spread over several, and each repeats its usage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, blocks, get, number, read_lines, starts, texts

AGENT = "claude"
FOLDERS = (".claude/projects",)
NOT_PROMPTS = (
    "[Request interrupted by user", "<command-name>", "<command-message>", "<command-args>",
    "<local-command-", "<bash-stdout>", "<bash-stderr>", "Caveat: The messages",
    "<task-notification>", "<teammate-message", "This session is being continued from",
    "Stop hook feedback:", "<user-memory-input>",
)  # fmt: skip
INJECTED = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics)>.*?</\1>", re.DOTALL
)
ARGUMENTS = re.compile(r"<command-args>\s*[^\s<]")
"""A slash command with words for the model; without them it is none of the prompts."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_input_tokens")


def count(root: Path) -> Iterator[Session]:
    """Count files, the oldest first: it pays for a request that others copied."""
    paths = [path for path in root.rglob("*.jsonl") if path.name != "journal.jsonl"]
    billed: set[str] = set()
    for path in sorted(paths, key=lambda path: (_begin(path), path)):
        yield Session(path, path.stem, count_records(path, billed))


def _begin(path: Path) -> str:
    times = (str(record.get("timestamp") or "") for record in read_lines(path))
    return next(filter(None, times), "")


def count_records(path: Path, billed: set[str]) -> Counts:
    counts = Counts()
    copies: set[str] = set()
    calls: set[str] = set()
    results: set[str] = set()
    requests: dict[str, dict[str, int]] = {}
    for at, record in enumerate(_records(path)):
        message = record.get("message")
        kind = record.get("type") or get(message, "role")
        uuid = record.get("uuid") or f"line {at}"
        if get(record, "attachment", "type") == "queued_command":
            _add_queued(record["attachment"], counts)
        if not isinstance(message, dict) or uuid in copies:
            continue
        copies.add(uuid)
        if kind == "assistant":
            _add_assistant(record, message, counts, calls)
            _note_usage(requests, message, str(message.get("id") or uuid))
        elif kind == "user":
            _add_user(record, message, counts)
        for at, block in enumerate(blocks(message.get("content"))):
            if block.get("type") in ("tool_result", "web_search_tool_result"):
                results.add(block.get("tool_use_id") or f"{uuid}/{at}")
    counts.calls, counts.results = len(calls), len(results)
    for key, usage in requests.items():
        if key not in billed:
            counts.add_tokens(*usage.values())
    billed.update(key for key in requests if not key.startswith("line "))
    return counts


def _records(path: Path) -> Iterator[JSON]:
    """Yield the records, and those of subagents that have no file and are mirrored here."""
    for record in read_lines(path):
        data = record.get("data")
        if record.get("type") != "progress" or get(data, "type") != "agent_progress":
            yield record
            continue
        agent = f"agent-{get(data, 'agentId')}.jsonl"
        folder = path.with_suffix("") / "subagents"
        if not (folder / agent).exists() and not path.with_name(agent).exists():
            yield get(data, "message") or {}


def _add_assistant(record: JSON, message: JSON, counts: Counts, calls: set[str]) -> None:
    for at, block in enumerate(blocks(message.get("content"))):
        if block.get("type") in ("tool_use", "server_tool_use"):
            calls.add(block.get("id") or f"{record.get('uuid')}/{at}")
    if message.get("model") != "<synthetic>" and not record.get("isApiErrorMessage"):
        counts.replies += len(texts(message.get("content")))


def _add_user(record: JSON, message: JSON, counts: Counts) -> None:
    content = blocks(message.get("content"))
    if any(block.get("type") == "tool_result" for block in content):
        return
    if record.get("isMeta") or record.get("isCompactSummary"):
        return
    if get(record, "origin", "kind") == "task-notification":
        return
    _add_prompt(content, counts)


def _add_queued(attachment: JSON, counts: Counts) -> None:
    """Count what a person wrote while the agent was at work."""
    if attachment.get("commandMode") in (None, "prompt"):
        _add_prompt(blocks(attachment.get("prompt")), counts)


def _add_prompt(content: list[dict[str, JSON]], counts: Counts) -> None:
    written = [INJECTED.sub("", text).strip() for text in texts(content)]
    if any(starts(text, NOT_PROMPTS) for text in written):
        counts.prompts += any(ARGUMENTS.search(text) for text in written)
        return
    has_picture = any(block.get("type") in ("image", "document") for block in content)
    counts.prompts += any(written) or has_picture


def _note_usage(requests: dict[str, dict[str, int]], message: JSON, key: str) -> None:
    """Keep the largest of each figure: output grows while a message streams."""
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return
    known = requests.setdefault(key, dict.fromkeys((*TOKENS, "write"), 0))
    for name in TOKENS:
        known[name] = max(known[name], number(usage.get(name)))
    parts = usage.get("cache_creation")
    split = sum(map(number, parts.values())) if isinstance(parts, dict) else 0
    known["write"] = max(known["write"], split, number(usage.get("cache_creation_input_tokens")))
    for at, part in enumerate(usage.get("iterations") or ()):
        if get(part, "type") == "advisor_message":
            _note_usage(requests, {"usage": part}, f"{key}/{at}")
