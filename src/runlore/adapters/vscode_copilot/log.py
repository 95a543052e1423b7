"""The document of a session: as it is written, or replayed from a log of the changes to it. Touches
the disk, and writes nothing."""

from __future__ import annotations

from typing import Any

from ...errors import ReadError, Rejected
from ..shared.document import load_document
from ..shared.jsonl import MALFORMED, parse, read_up_to, values_of
from ..shared.pick import pick

MAX_LOG_BYTES = 512 << 20  # Bytes of a log. One that is larger than any session is named, not read.
MAX_LINES = 500_000  # Lines of one. They are all held at once.
FIRST, SET, PUSH, DELETE = range(4)
MAX_DEPTH = 32  # Names in the path of a change.


def load(path: str, is_quiet: bool = False) -> dict[str, Any]:
    """Return the document. Raises ReadError when there is none, or it is no session."""
    is_log = path.endswith(".jsonl")
    document = _replayed(path, is_quiet) if is_log else load_document(path)
    if document is None:
        return {}
    if not isinstance(document, dict) or not isinstance(document.get("requests"), list):
        raise ReadError(path, "not a session: it has no list of requests")
    return document if is_log else {**document, "strange": []}


def _replayed(path: str, is_quiet: bool) -> Any:
    """Return the document after all complete changes; None when not even its beginning is complete.
    Lines that are no change leave it as it is, and are listed in its field `strange`. The last line
    is complete without a newline if it is whole JSON and the log is quiet."""
    document: Any = None
    strange: list[tuple[int, Any]] = []
    *lines, rest = _load_log(path).split(b"\n")
    if is_quiet and values_of(rest):  # Else it is still being written.
        lines.append(rest)
    for line in lines:
        for value, text, _ in parse(line):
            if not isinstance(value, dict) or value is MALFORMED:
                strange.append((_requests(document), text))
            elif value.get("kind") == FIRST:
                document = value.get("v")
            elif not _apply(document, value):
                strange.append((_requests(document), value))
    if isinstance(document, dict):
        document["strange"] = strange
    if document is None and lines and strange:
        raise ReadError(path, "not a session: no line of it is its beginning")
    return document


def _load_log(path: str) -> bytes:
    """Return the content of a log. Raises ReadError if it is larger than any session."""
    with open(path, "rb") as file:
        data = read_up_to(MAX_LOG_BYTES + 1, file)
    if len(data) > MAX_LOG_BYTES:
        raise ReadError(path, f"larger than {MAX_LOG_BYTES >> 20} MB")
    if data.count(b"\n") > MAX_LINES:
        raise Rejected(path, f"more than {MAX_LINES:,} lines are no session")
    return data


def _requests(document: Any) -> int:
    """Return the number of requests so far, which is the place of a strange line of the log."""
    return len(pick(document, "requests", of=list) or [])


def _apply(document: Any, change: dict[str, Any]) -> bool:
    """Apply one change to the document; return False if that is not possible."""
    path = pick(change, "k", of=list)
    if not path or len(path) > MAX_DEPTH:
        return False
    holder = document
    for key in path[:-1]:
        if (holder := _at(holder, key)) is None:
            return False
    last, kind = path[-1], change.get("kind")
    if kind == PUSH:
        return _push(holder, last, change)
    if kind not in (SET, DELETE):
        return False
    if isinstance(holder, dict) and isinstance(last, str):
        if kind == SET and "v" in change:
            holder[last] = change["v"]
        else:
            holder.pop(last, None)
        return True
    if isinstance(holder, list) and isinstance(last, int) and 0 <= last <= len(holder):
        if kind == SET:
            holder[last : last + 1] = [change.get("v")]
        else:
            del holder[last : last + 1]
        return True
    return False


def _push(holder: Any, last: Any, change: dict[str, Any]) -> bool:
    """Add to the end of a list, which is cut first where the change says so."""
    items = _at(holder, last)
    if items is None and isinstance(holder, dict) and isinstance(last, str):
        items = holder[last] = []
    if not isinstance(items, list):
        return False
    length = pick(change, "i", of=int)
    if length is not None:
        if length < 0:
            return False
        del items[length:]
    items += pick(change, "v", of=list) or []
    return True


def _at(holder: Any, key: Any) -> Any:
    if isinstance(holder, dict) and isinstance(key, str):
        return holder.get(key)
    if isinstance(holder, list) and isinstance(key, int) and 0 <= key < len(holder):
        return holder[key]
    return None
