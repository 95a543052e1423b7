"""Secrets that are still stored: what today's rules would redact, and where it stands.

Every text of a store is looked at: columns, texts of events, native records, digests, carries,
the words of the index, and the files beside the store. The secrets themselves are not part of the
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from ..redact.engine import Redactor
from ..store import Store

Step = Callable[[str, int, int], None]
"""Called with the name of what is looked at, the number done, and of how many."""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """A place with text that the current rules would redact."""

    place: str
    """The table of the store, `bodies` for the texts of events, `index` for the words of its
    index, or the path of a file."""
    field: str
    """The column, or the number of a line."""
    kind: str
    """The rule that matches."""
    session: str | None = None
    event: int | None = None
    source: str | None = None
    """The path of the source that a native record or a carry belongs to."""


class _Table(msgspec.Struct, frozen=True):
    """The columns of a table to look at, and how its rows name their owner and their event."""

    name: str
    columns: tuple[str, ...]
    owner: str = "session"
    event: str = "null"


_SESSION_TABLES = (
    _Table(
        "sessions",
        (
            *("uid", "native_session_id", "title", "repo", "domain", "cwd", "git_branch", "model"),
            *("outcome_evidence", "git_note", "quality", "task_ref", "name", "tags", "note"),
            "extra",
        ),
        owner="number",
    ),
    _Table("events", ("tool", "native_id", "call_id", "summary", "rest"), event="seq"),
    _Table("digests", ("body",)),
    _Table("errors", ("name", "template", "sample", "tool", "how"), event="first_seq"),
    _Table("streams", ("facts", "tally")),
    _Table("calls", ("key", "request_id", "superseded"), event="seq"),
)
_SOURCE_TABLES = (
    _Table("sources", ("carry", "merged", "problem"), owner="number"),
    _Table("records", ("body",), owner="source"),
    _Table("skips", ("reason",), owner="source"),
)
_MODELS = _Table("models", ("provider", "model", "tier", "region"), owner="number")


def find_leftovers(
    store: Store, home: Path, redactor: Redactor, step: Step | None = None
) -> Iterator[Leftover]:
    """Yield the places in a store, and in the files beside it, that hold a secret."""
    rows = store.maintenance.rows
    sessions = rows("select number, uid from sessions order by number")
    for done, (number, uid) in enumerate(sessions, 1):
        for table in _SESSION_TABLES:
            for event, field, kind in _in_rows(store, table, number, redactor):
                yield Leftover(place=table.name, field=field, kind=kind, session=uid, event=event)
        # Each by itself, as it was redacted: a segment has no marks between its texts.
        for seq, body in store.sessions.bodies(uid).items():
            for kind in _kinds(body, redactor):
                yield Leftover(place="bodies", field="text", kind=kind, session=uid, event=seq)
        if step:
            step("sessions", done, len(sessions))
    sources = rows("select number, path from sources order by number")
    for done, (number, path) in enumerate(sources, 1):
        for table in _SOURCE_TABLES:
            for _, field, kind in _in_rows(store, table, number, redactor):
                yield Leftover(place=table.name, field=field, kind=kind, source=path)
        if step:
            step("sources", done, len(sources))
    for (number,) in rows("select number from models"):
        for _, field, kind in _in_rows(store, _MODELS, number, redactor):
            yield Leftover(place="models", field=field, kind=kind)
    for word in store.index.words():
        for kind in _kinds(word, redactor):
            yield Leftover(place="index", field="word", kind=kind)
    yield from _in_files(home, redactor, step)


def _in_rows(
    store: Store, table: _Table, owner: int, redactor: Redactor
) -> Iterator[tuple[int | None, str, str]]:
    """Yield event, column and kind of what is left in the rows of one session or source."""
    columns = ", ".join(f'"{name}"' for name in table.columns)
    sql = f"select {table.event}, {columns} from {table.name} where {table.owner} = ?"
    for event, *values in store.maintenance.rows(sql, (owner,)):
        for field, value in zip(table.columns, values, strict=True):
            yield from ((event, field, kind) for kind in _kinds(value, redactor))


def _in_files(home: Path, redactor: Redactor, step: Step | None) -> Iterator[Leftover]:
    """Look at lessons, at the logs of what was delivered, and at live sessions.

    Logs of live sessions are not redacted, because their agents read back what they wrote.
    """
    files = sorted(
        [*home.glob("*.jsonl"), *(home / "lessons").rglob("*"), *(home / "live").rglob("*")]
    )
    for done, file in enumerate(files, 1):
        if file.is_file() and not file.is_symlink():
            yield from _in_file(file, redactor)
        if step:
            step("files", done, len(files))


def _in_file(file: Path, redactor: Redactor) -> Iterator[Leftover]:
    """Look at each line of a file, and then at all of it: a key has several lines."""
    text = file.read_bytes().decode("utf-8", "replace")
    in_lines = set[str]()
    for number, line in enumerate(text.splitlines(), 1):
        for kind in _kinds(line, redactor):
            in_lines.add(kind)
            yield Leftover(place=str(file), field=f"line {number}", kind=kind)
    for kind in _kinds(text, redactor):
        if kind not in in_lines:
            yield Leftover(place=str(file), field="text", kind=kind)


def _kinds(value: Any, redactor: Redactor) -> list[str]:
    """Return the rules that match in a stored value, however it is packed."""
    redactor.hits.clear()
    redactor.value(_unpacked(value))
    return sorted(redactor.hits)


def _unpacked(value: Any) -> Any:
    """Return a stored value as JSON: decompressed, and its texts decoded."""
    if isinstance(value, (list, tuple)):
        return [_unpacked(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _unpacked(item) for name, item in value.items()}
    if isinstance(value, str):
        return _as_json(value)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return None
    data = bytes(value)
    if data.startswith(zstandard.FRAME_HEADER):
        return _unpacked(zstandard.ZstdDecompressor().decompressobj().decompress(data))
    try:
        packed = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        packed = None
    is_packed = isinstance(packed, (list, dict))
    return _unpacked(packed if is_packed else data.decode("utf-8", "replace"))


def _as_json(text: str) -> Any:
    """Return what a text says if it is a JSON object or array, as native records are."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
