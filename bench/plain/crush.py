"""Crush: messages with parts, in a database for each project. Tokens of requests are not kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import Counts, Session, get, parse, read_json, read_rows

AGENT = "crush"
FOLDERS = (".local/share/crush",)


def count(root: Path) -> Iterator[Session]:
    projects = get(read_json(root / "projects.json"), "projects") or ()
    folders = [root, *(Path(project["data_dir"]) for project in projects)]
    for folder in folders:
        yield from count_database(folder / "crush.db")


def count_database(path: Path) -> Iterator[Session]:
    for session in read_rows(path, "select id from sessions"):
        if session["id"].startswith("title-"):  # Made to find a title.
            continue
        rows = read_rows(path, "select * from messages where session_id = ?", session["id"])
        counts = Counts()
        for row in rows:
            parts = [part for part in parse(row["parts"]) or () if isinstance(part, dict)]
            kinds = [part.get("type") for part in parts]
            written = sum(
                part.get("type") == "text" and bool(get(part, "data", "text")) for part in parts
            )
            counts.prompts += row["role"] == "user" and bool(written)
            is_summary = row.get("is_summary_message")
            counts.replies += written if row["role"] == "assistant" and not is_summary else 0
            counts.calls += kinds.count("tool_call") + kinds.count("shell_command")
            counts.results += kinds.count("tool_result") + kinds.count("shell_command")
        yield Session(path, session["id"], counts)
