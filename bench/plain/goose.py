"""goose: rows of messages with blocks, and a ledger of requests; before 1.10 JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, blocks, get, number, parse, read_lines, read_rows, texts

AGENT = "goose"
FOLDERS = (".local/share/goose/sessions",)


def count(root: Path) -> Iterator[Session]:
    path = root / "sessions.db"
    ids: set[str] = set()
    if path.exists():
        for row in read_rows(path, "select * from sessions"):
            ids.add(row["id"])
            yield Session(path, row["id"], _count_session(path, row))
    for path in sorted(root.glob("*.jsonl")):
        if path.stem not in ids:
            yield Session(path, path.stem, _count_lines(list(read_lines(path))))


def _count_session(path: Path, session: dict[str, JSON]) -> Counts:
    counts = Counts()
    id = session["id"]
    for row in read_rows(path, "select * from messages where session_id = ? order by id", id):
        metadata = parse(row.get("metadata_json")) or {}
        _add_message(counts, row["role"], parse(row["content_json"]), metadata)
    ledger = read_rows(path, "select * from usage_ledger where session_id = ?", id)
    for row in ledger or [
        {
            name: session.get(f"accumulated_{name}")
            for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        }
    ]:
        _add_usage(counts, row)
    return counts


def _count_lines(records: list[JSON]) -> Counts:
    counts = Counts()
    for record in records:
        if "role" in record:
            _add_message(counts, record["role"], record.get("content"), record.get("metadata"))
        elif "accumulated_input_tokens" in record:
            counts.add_tokens(
                record["accumulated_input_tokens"], record.get("accumulated_output_tokens")
            )
    return counts


def _add_message(counts: Counts, role: str, content: JSON, metadata: JSON) -> None:
    kinds = [block.get("type") for block in blocks(content)]
    is_shown = get(metadata, "userVisible") is not False
    is_note = get(metadata, "agentVisible") is False and not get(metadata, "inference")
    written = texts(content) if is_shown else []
    if role == "user":
        counts.prompts += bool(written) and not written[0].startswith("/")
    elif role == "assistant" and not is_note:
        counts.replies += len(written)
    counts.calls += kinds.count("toolRequest") + kinds.count("frontendToolRequest")
    counts.results += kinds.count("toolResponse")


def _add_usage(counts: Counts, row: dict[str, JSON]) -> None:
    read, write = number(row["cache_read_tokens"]), number(row["cache_write_tokens"])
    counts.add_tokens(number(row["input_tokens"]) - read - write, row["output_tokens"], read, write)
