"""VS Code Copilot Chat: a document of requests, or the log of its changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, number, read_json, read_lines

AGENT = "vscode_copilot"
FOLDERS = (".config/Code/User", ".config/Code - Insiders/User", ".config/VSCodium/User")


def count(root: Path) -> Iterator[Session]:
    for path in sorted((*root.rglob("*.json"), *root.rglob("*.jsonl"))):
        if not path.parent.name.lower().endswith("chatsessions"):
            continue
        if path.suffix == ".json" and path.with_suffix(".jsonl").exists():
            continue
        document = read_json(path) if path.suffix == ".json" else replay(read_lines(path))
        if isinstance(document, dict) and isinstance(document.get("requests"), list):
            yield Session(path, str(document.get("sessionId") or path.stem), _count(document))


def replay(records: Iterator[dict[str, JSON]]) -> JSON:
    """Return the document after all changes: 0 whole, 1 set, 2 push, 3 delete."""
    document: JSON = None
    for record in records:
        kind, keys, value = record.get("kind"), record.get("k") or [], record.get("v")
        if kind == 0:
            document = value
            continue
        *way, key = keys
        place = document
        for step in way:
            place = place[step]
        if kind == 1:
            place[key] = value
        elif kind == 2:
            items = place.setdefault(key, []) if isinstance(place, dict) else place[key]
            if "i" in record:
                del items[record["i"] :]
            items.extend(value or [])
        elif kind == 3:
            del place[key]
    return document


def _count(document: JSON) -> Counts:
    counts = Counts()
    for request in document["requests"]:
        counts.prompts += bool(get(request, "message", "text"))
        invoked: set[str] = set()
        in_text = False
        for part in request.get("response") or ():
            kind = get(part, "kind")
            if kind == "toolInvocationSerialized":
                invoked.add(_call_id(part.get("toolCallId")))
            is_text = kind is None and bool(str(get(part, "value") or "").strip("` \n"))
            counts.replies += is_text and not in_text
            in_text = (in_text or is_text) and kind in (None, "inlineReference")
        metadata = get(request, "result", "metadata") or {}
        named = {
            _call_id(call.get("id"))
            for part in metadata.get("toolCallRounds") or ()
            for call in get(part, "toolCalls") or ()
        }
        # Some versions shorten the list of rounds, some give calls another id there.
        counts.calls += len(invoked | named) if invoked & named else max(len(invoked), len(named))
        counts.results += len({_call_id(key) for key in metadata.get("toolCallResults") or ()})
        counts.add_tokens(
            number(request.get("promptTokens")) or metadata.get("promptTokens"),
            number(request.get("completionTokens")) or metadata.get("outputTokens"),
        )
    return counts


def _call_id(text: object) -> str:
    return str(text).split("__vscode")[0]
