"""Read the documents of a task or a session as one list of records, in the order of events.

A record that a later one repeats more completely is marked as `told`: it is counted as read, and
gives no event.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from ...errors import ReadError
from .. import Source
from ..shared.document import load_document
from ..shared.jsonl import read_small, to_json
from ..shared.pick import milliseconds, pick
from .paths import HISTORY, MESSAGES, paths_of
from .words import around_in, loads, results_in, spoken

MAX_SIDECAR_BYTES = 16 << 20  # Bytes of a file that says something of many tasks.
OUTPUTS = frozenset(
    {
        "command_output",
        "mcp_server_response",
        "browser_action_result",
        "subtask_result",
        "codebase_search_result",
    }
)
"""Rows with what came of a call, which its result says as well."""
REQUESTS = frozenset({"api_req_started", "api_req_finished", "deleted_api_reqs", "subagent_usage"})
"""Rows whose text holds tokens and cost."""
PROOF = 200  # Characters at the end of an output that must be in the result.


def items(source: Source) -> list[Any]:
    """The records of a source. Raises ReadError when a document is no whole JSON: it is being
    written, and is read again."""
    if source.path.endswith(MESSAGES):
        return _session(source)
    documents = [_list(path) for path in paths_of(source)]
    is_alone = len(documents) == 1
    if source.path.endswith(HISTORY):
        return _history([_parted(message) for message in documents[0]])
    return _once([_opened(item, is_alone) for item in _task(*documents)])


def _list(path: str) -> list[Any]:
    value = load_document(path)
    if not isinstance(value, list):
        raise ReadError(path, "not a task: it is no list of messages")
    return value


def _session(source: Source) -> list[Any]:
    """The head of the document, its messages, and what was made of them when they became too
    many."""
    value = load_document(source.path)
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        raise ReadError(source.path, "not a session: it has no list of messages")
    head = {word: item for word, item in value.items() if word not in ("messages", "system_prompt")}
    items: list[Any] = list(messages)
    for compaction in _compactions(source, value.get("sessionId")):
        when = milliseconds(compaction["compaction"]) or 0
        later = (n for n, item in enumerate(items) if (pick(item, "ts", of=int) or 0) > when > 0)
        items.insert(next(later, len(items)), compaction)
    return [head, *items]


def _compactions(source: Source, session: Any) -> Iterator[Any]:
    for path in paths_of(source)[1:]:
        value = _small(path)
        messages = pick(value, "messages", of=list)
        if messages is not None and value.get("sessionId") == session:
            yield {"compaction": value.get("updated_at"), "messages": messages}


# A task.


def _history(messages: list[Any]) -> list[Any]:
    return [{"history": n, "message": message} for n, message in enumerate(messages)]


def _parted(message: Any) -> Any:
    """A message whose texts are taken apart: calls and results that stand in them are blocks of
    their own."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return message
    return {
        **message,
        "content": [
            part for block in content for part in _parts(block, message.get("role") == "assistant")
        ],
    }


def _parts(block: Any, is_answer: bool) -> list[Any]:
    text = pick(block, "text", of=str)
    if text is None:
        return [block]
    if is_answer:
        return [
            {"type": "xml", "name": tool, "input": given or said}
            if tool
            else {**block, "text": said}
            for tool, said, given in spoken(text)
        ]
    results = results_in(text)
    return [{"type": "result", "tool": tool, "text": came} for tool, came in results] or [block]


def _task(rows: list[Any], messages: list[Any] | None = None) -> list[Any]:
    rows = list(_joined(_without_stages(rows)))
    if not messages:
        return rows
    before: dict[int, list[Any]] = {}
    for place, item in zip(_places(rows, messages), _history(messages), strict=True):
        before.setdefault(place, []).append(item)
    return [item for n in range(len(rows) + 1) for item in (*before.get(n, ()), *rows[n : n + 1])]


def _without_stages(rows: list[Any]) -> Iterator[Any]:
    """A row that is a stage of the next one, or of another with the same time, is told by that."""
    last = {
        row["ts"]: n
        for n, row in enumerate(rows)
        if isinstance(row, dict) and isinstance(row.get("ts"), int)
    }
    for n, row in enumerate(rows):
        if pick(row, "partial", of=bool):
            later = rows[n + 1] if n + 1 < len(rows) else None
            is_same = _word(later) == _word(row) and (pick(later, "text", of=str) or "").startswith(
                pick(row, "text", of=str) or "\0"
            )
            end = last.get(pick(row, "ts", of=int) or -1, n)
            if is_same or (end != n and _word(rows[end]) == _word(row)):
                row = {**row, "told": True}
        yield row


def _joined(rows: Iterator[Any]) -> Iterator[Any]:
    """Pieces of one output as one row."""
    held: dict[str, Any] | None = None
    for row in rows:
        is_piece = (
            isinstance(row, dict)
            and _word(row) == "command_output"
            and isinstance(row.get("text", ""), str)
        )
        if is_piece and held is not None:
            text = "\n".join(text for text in (held.get("text"), row.get("text")) if text)
            held = {**held, "text": text, "rows": held.get("rows", 1) + 1}
            continue
        if held is not None:
            yield held
        held = row if is_piece else None
        if not is_piece:
            yield row
    if held is not None:
        yield held


def _opened(row: Any, is_alone: bool) -> Any:
    """Return a request whose text is decoded to fields, so that a damaged one costs only itself.

    If the task has no history, the results of calls are extracted from the text of the request.
    """
    if (
        not isinstance(row, dict)
        or _word(row) not in REQUESTS
        or not isinstance(info := loads(row.get("text")), dict)
    ):
        return row
    row = {word: item for word, item in row.items() if word != "text"} | {"info": info}
    request = pick(info, "request", of=str)
    if request is None or not is_alone or not (results := results_in(request)):
        return row
    info["request"] = "\n".join(around_in(request))
    return row | {"results": [{"tool": tool, "text": text} for tool, text in results]}


def _word(row: Any) -> str | None:
    return pick(row, "say", of=str) or pick(row, "ask", of=str)


def _places(rows: list[Any], messages: list[Any]) -> list[int]:
    """For every message the row that it comes before. Rows say how many messages there were, or
    both have times; otherwise each request is a message of the user, and what was answered comes
    before the next one."""
    counts = [
        count if (count := pick(row, "conversationHistoryIndex", of=int)) is not None else -1
        for row in rows
    ]
    times = [pick(row, "ts", of=int) or 0 for row in rows]
    is_counted = any("conversationHistoryIndex" in row for row in rows if isinstance(row, dict))
    requests = [n for n, row in enumerate(rows) if _word(row) == "api_req_started"]
    places: list[int] = []
    place = users = 0
    for n, message in enumerate(messages):
        ts = pick(message, "ts", of=int)
        is_user = pick(message, "role", of=str) == "user"
        if is_counted:
            found = next((row for row in range(place, len(rows)) if counts[row] >= n), len(rows))
        elif ts is not None:
            found = next((row for row in range(place, len(rows)) if times[row] > ts), len(rows))
        elif is_user:
            found = requests[users] + 1 if users < len(requests) else len(rows)
        else:
            found = requests[users] if users < len(requests) else len(rows)
        users += is_user
        place = max(place, found)
        places.append(place)
    return places


def _once(items: list[Any]) -> list[Any]:
    """An output that the next results repeat is told by them."""
    said = ""
    for n in reversed(range(len(items))):
        item = items[n]
        if pick(item, "message", "role", of=str) == "user":
            said = _squeezed(to_json(item["message"].get("content")).decode())
        elif results := pick(item, "results", of=list):
            said = _squeezed(to_json(results).decode())
        elif _word(item) in OUTPUTS:
            text = _squeezed(to_json(pick(item, "text", of=str) or "").decode()[1:-1])
            items[n] = {**item, "told": True} if text and text[-PROOF:] in said else item
    return items


def _squeezed(text: str) -> str:
    """Without what is written differently in one text and in a text in a text."""
    return "".join(text.replace("\\n", "").replace("\\r", "").replace("\\", "").split())


# What stands elsewhere.


def read_sidecars(source: Source) -> Iterator[tuple[str, bytes]]:
    folder, name = os.path.split(source.path)
    if name.endswith(MESSAGES):
        for stem in dict.fromkeys((name.removesuffix(MESSAGES), os.path.basename(folder))):
            if isinstance(value := _small(os.path.join(folder, f"{stem}.json")), dict):
                yield "manifest" if f"{stem}{MESSAGES}" == name else "above", to_json(value)
        return
    if isinstance(value := _small(os.path.join(folder, "task_metadata.json")), dict):
        yield (
            "metadata",
            to_json({word: value[word] for word in ("title", "model_usage") if word in value}),
        )
    item = _small(os.path.join(folder, "history_item.json"))
    if not isinstance(item, dict):
        item = _known(os.path.join(folder, "..", "..", "state", "taskHistory.json")).get(
            os.path.basename(folder)
        )
    if item is not None:
        yield "item", to_json(item)


def _small(path: str) -> Any:
    try:
        return msgspec.json.decode(read_small(path, MAX_SIDECAR_BYTES) or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _known(path: str) -> dict[str, Any]:
    """Return the facts about all tasks, by task."""
    try:
        stat = os.stat(path)
    except OSError:
        return {}
    return _items(path, (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=2)
def _items(path: str, _: tuple[int, int]) -> dict[str, Any]:
    """Every task of a first sync asks for the same file, which is another one when its time or its
    size is."""
    value = _small(path)
    items = value if isinstance(value, list) else []
    return {
        item["id"]: item
        for item in items
        if isinstance(item, dict) and isinstance(item.get("id"), str)
    }
