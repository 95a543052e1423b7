"""The `grok` of superagent-ai: messages of the AI SDK in a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import Counts, Session, blocks, parse, read_rows, texts

AGENT = "grok_cli"
FOLDERS = (".grok",)


def count(root: Path) -> Iterator[Session]:
    path = root / "grok.db"
    if not path.exists():
        return
    for session in read_rows(path, "select id from sessions"):
        counts = Counts()
        for row in read_rows(path, "select * from messages where session_id = ?", session["id"]):
            content = (parse(row["message_json"]) or {}).get("content")
            kinds = [block.get("type") for block in blocks(content)]
            summary = any(text.startswith("[Context checkpoint") for text in texts(content))
            counts.prompts += row["role"] == "user" and bool(texts(content)) and not summary
            counts.replies += len(texts(content)) if row["role"] == "assistant" else 0
            counts.calls += kinds.count("tool-call")
            counts.results += kinds.count("tool-result")
        usage = "select * from usage_events where session_id = ?"
        for row in read_rows(path, usage, session["id"]):
            counts.add_tokens(row["input_tokens"], row["output_tokens"])
        yield Session(path, session["id"], counts)
