"""Known-item search: finding a session by what it was about.

The sessions are trajectories of an agent that fixed GitHub issues (the folder `labelled/vorflux` of
the corpus): one JSON file each, with the task among its first entries. The task itself, and the
judges' calls that quote it, are left out. The title of the issue is the query, and the session that
worked on it is the one right answer. Used by bench/search.py and tests/test_known_item.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

_TITLE = re.compile(r"^#+ (?:Issue|Problem Statement)\s*\n\s*(.+)$", re.MULTILINE)


def stage(trajectories: Path, home: Path) -> dict[str, str]:
    """Write every trajectory into `home` as a transcript of Claude Code.

    Return the title of the issue by native session id.
    """
    folder = home / ".claude" / "projects" / "-code"
    folder.mkdir(parents=True, exist_ok=True)
    titles: dict[str, str] = {}
    for path in sorted(trajectories.glob("*.json")):
        trajectory = json.loads(path.read_bytes())
        title = next((_TITLE.search(message["content"]) for message in _prompts(trajectory)), None)
        if title is None:
            continue
        native = trajectory["session_id"]
        titles[native] = title[1].strip()
        lines = (
            json.dumps({**record, "sessionId": native, "cwd": "/code", "version": "2.1.0"})
            for record in _records(trajectory)
        )
        (folder / f"{native}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return titles


def mean_reciprocal_rank(
    titles: dict[str, str], search: Callable[[str], Iterable[str]]
) -> tuple[float, dict[str, int | None]]:
    """Return the mean of 1 / rank of the right session among the first ten, and each rank.

    Issues with the same title are one query.
    """
    ranks: dict[str, int | None] = {}
    wanted: dict[str, set[str]] = {}
    for native, title in titles.items():
        wanted.setdefault(title, set()).add(native)
    for title, natives in wanted.items():
        found = [uid.partition(":")[2] for uid in search(title)][:10]
        ranks[title] = next((at for at, native in enumerate(found, 1) if native in natives), None)
    return sum(1 / rank for rank in ranks.values() if rank) / max(1, len(ranks)), ranks


def _prompts(trajectory: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in trajectory["trajectory"]:
        yield from entry.get("task_prompt") or ()


def _records(trajectory: dict[str, Any]) -> Iterator[dict[str, Any]]:
    last: str | None = None
    for number, entry in enumerate(trajectory["trajectory"]):
        stamp = entry["timestamp"].replace(" ", "T")[:23] + "Z"
        for part, (role, block) in enumerate(_blocks(entry, f"toolu_{number}")):
            uuid = f"{trajectory['session_id']}-{number}-{part}"
            message: dict[str, Any] = {"role": role, "content": [block]}
            if role == "assistant":
                message |= {"id": f"msg_{uuid}", "type": "message", "model": "m"}
            yield {
                "type": role,
                "uuid": uuid,
                "parentUuid": last,
                "timestamp": stamp,
                "isSidechain": False,
                "message": message,
            }
            last = uuid


def _blocks(entry: dict[str, Any], call: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a reply, or a call and its result. Calls are recorded where they were carried out."""
    if entry["type"] == "llm_call":
        text = (entry.get("output") or {}).get("content")
        if isinstance(text, str) and text.strip():
            yield "assistant", {"type": "text", "text": text}
    elif entry["type"] == "tool_call":
        asked = entry.get("arguments")
        asked = asked if isinstance(asked, dict) else {"input": asked}
        yield "assistant", {"type": "tool_use", "id": call, "name": entry["tool"], "input": asked}
        result = entry.get("result")
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        yield "user", {"type": "tool_result", "tool_use_id": call, "content": text}
