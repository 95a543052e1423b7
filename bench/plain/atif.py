"""ATIF: a document of steps, with metrics for each or for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, number, read_json, texts

AGENT = "atif"
FOLDERS = (".local/share/devin/cli/transcripts",)


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob("*.json")):
        document = read_json(path)
        if str(get(document, "schema_version")).startswith("ATIF"):
            yield from _sessions(path, document)


def _sessions(path: Path, document: JSON) -> Iterator[Session]:
    id = str(document.get("trajectory_id") or document.get("session_id") or path.stem)
    yield Session(path, id, _count(document))
    for child in document.get("subagent_trajectories") or ():
        yield from _sessions(path, child)


def _count(document: JSON) -> Counts:
    counts = Counts()
    for step in document.get("steps") or ():
        if step.get("is_copied_context"):
            continue
        written = bool(texts(step.get("message")))
        counts.prompts += step.get("source") == "user" and written
        counts.replies += step.get("source") == "agent" and written
        counts.calls += len(step.get("tool_calls") or ())
        counts.results += len(get(step, "observation", "results") or ())
        _add(counts, step.get("metrics"), "prompt_tokens", "completion_tokens", "cached_tokens")
    if not counts.input + counts.output + counts.cache_read:
        names = ("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens")
        _add(counts, document.get("final_metrics"), *names)
    return counts


def _add(counts: Counts, metrics: JSON, into: str, out: str, cached: str) -> None:
    if isinstance(metrics, dict):
        read = number(metrics.get(cached))
        counts.add_tokens(number(metrics.get(into)) - read, metrics.get(out), read)
