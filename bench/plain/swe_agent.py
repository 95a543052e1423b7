"""SWE-agent: a document of steps, each with a thought, an action and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from .values import JSON, Counts, Session, get, read_json

AGENT = "swe_agent"
FOLDERS = ("SWE-agent/trajectories",)


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob("*.traj")):
        document = read_json(path)
        if isinstance(document, dict):
            yield Session(path, path.stem, _count(document))


def _count(document: JSON) -> Counts:
    """Count a run; its thoughts are thinking. Several attempts are steps of one session."""
    counts = Counts()
    attempts = document.get("attempts") or [document]
    for attempt in attempts:
        steps = attempt.get("trajectory") or ()
        history = [item for item in attempt.get("history") or () if not item.get("is_demo")]
        counts.prompts = counts.prompts or any(item.get("role") == "user" for item in history)
        for step in steps:
            action = str(step.get("action") or "").strip()
            if action and not action.startswith("exit_"):  # With these the program ends the run.
                counts.calls += 1
                counts.results += 1
        if not steps:
            roles = [item.get("role") for item in history]
            replies = [item for item in history if item.get("role") == "assistant"]
            counts.calls += sum(len(item.get("tool_calls") or [0]) for item in replies)
            turns = pairwise(roles)
            counts.results += sum(a == "assistant" and b != "assistant" for a, b in turns)
        stats = get(attempt, "info", "model_stats") or {}
        counts.add_tokens(stats.get("tokens_sent"), stats.get("tokens_received"))
    return counts
