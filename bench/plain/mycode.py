"""mycode: JSON lines of messages with blocks; a rewind takes nothing away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Rule, Session, blocks, get, number, read_lines, texts

AGENT = "mycode"
FOLDERS = (".mycode/sessions",)
RULES = (
    Rule(
        "what a person says while the agent works is shown as an intervention",
        lambda _, shown: Counts(prompts=-shown["human_intervention:user/steer"]),
    ),
)


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob("messages.jsonl")):
        yield Session(path, path.parent.name, _count(list(read_lines(path))))


def _count(records: list[JSON]) -> Counts:
    counts = Counts()
    for record in records:
        content = blocks(record.get("content"))
        kinds = [block.get("type") for block in content]
        if record.get("role") == "user":
            own = [
                block
                for block in content
                if not set(block.get("meta") or ()) & {"attachment", "skill_snapshot", "job"}
            ]
            counts.prompts += bool(texts(own))
        elif record.get("role") == "assistant":
            counts.replies += len(texts(content))
        counts.calls += kinds.count("tool_use")
        counts.results += kinds.count("tool_result")
        _add_usage(counts, get(record, "meta", "usage") or {})
    return counts


def _add_usage(counts: Counts, usage: JSON) -> None:
    """Input includes what was cached; 0.3 has the names of OpenAI."""
    details = usage.get("prompt_tokens_details") or {}
    read = number(usage.get("cache_read_tokens") or details.get("cached_tokens"))
    write = number(usage.get("cache_write_tokens") or details.get("cache_write_tokens"))
    into = number(usage.get("input_tokens") or usage.get("prompt_tokens"))
    out = usage.get("output_tokens") or usage.get("completion_tokens")
    counts.add_tokens(into - read - write, out, read, write)
