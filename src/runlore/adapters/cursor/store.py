"""A session of Cursor's command line: a database of blobs, which are messages, or nodes that name
others. The root names all there are."""

from __future__ import annotations

import json
from binascii import Error, unhexlify
from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from ..shared.jsonl import has_too_many_values, to_json
from ..shared.pick import pick
from ..shared.sqlite import columns, reading

MAX_NODES = 200_000
MAX_DEPTH = 64  # Nodes below each other.
MESSAGE, TREE = 1, 2  # The fields of a node that name others.
_STARTS = (b'{"id":', b'{"role":', b'{"type":', b'{"content":')


def load(path: str) -> tuple[dict[str, Any], list[bytes]]:
    """Return the facts about the session, and its messages in their order."""
    with reading(path) as db:
        if not columns(db, "blobs"):
            return {}, []
        about = _meta(db) if columns(db, "meta") else {}
        root = pick(about, "latestRootBlobId", of=str)
        names = list(_walk(db, root)) if root else []
        # The root is not there: all that is a message, in the order in which it was written.
        if not names:
            names = [name for (name,) in db.execute("select id from blobs order by rowid")]
        found: dict[str, int] = {}
        records = []
        for name in names:
            value = _message(_blob(db, name))
            if value is not None:
                again = found.get(name, 0)
                found[name] = again + 1
                records.append(
                    to_json({"id": f"{name[:32]}~{again}" if again else name[:32], **value})
                )
        return about, records


def _meta(db: apsw.Connection) -> dict[str, Any]:
    row = db.execute("select value from meta where key = '0'").fetchone()
    try:
        value = msgspec.json.decode(unhexlify(row[0])) if row else None
    except (Error, ValueError, TypeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _blob(db: apsw.Connection, name: str) -> bytes:
    row = db.execute("select cast(data as blob) from blobs where id = ?", (name,)).fetchone()
    return row[0] if row and isinstance(row[0], bytes) else b""


def _walk(db: apsw.Connection, root: str) -> Iterator[str]:
    """The messages below a node, from left to right. Names that are not there are passed over."""
    pending: list[tuple[str, int]] = [(root, 0)]
    for _ in range(MAX_NODES):
        if not pending:
            return
        name, depth = pending.pop()
        data = _blob(db, name)
        if not data:
            continue
        if _message(data) is not None:
            yield name
        elif depth < MAX_DEPTH:
            pending += [(below, depth + 1) for below in reversed(_names(data))]


def _names(data: bytes) -> list[str]:
    """The blobs that a node names: a protobuf message with hashes in its first two fields."""
    names, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        field, kind = tag >> 3, tag & 7
        if kind == 2:
            length, at = _varint(data, at)
            if field in (MESSAGE, TREE) and length == 32 and at + length <= len(data):
                names.append(data[at : at + length].hex())
            at += length
        elif kind == 0:
            _, at = _varint(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            break  # No protobuf.
    return names


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at


def _message(data: bytes) -> dict[str, Any] | None:
    """The message that a blob is or holds; None for a node."""
    starts = [at for mark in _STARTS if (at := data.find(mark)) >= 0]
    start = 0 if data[:1] == b"{" else min(starts, default=-1)
    if start < 0 or has_too_many_values(data):
        return None
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(
            data[start:].decode("utf-8", "replace")
        )
    except (ValueError, RecursionError):
        return None
    return (
        {name: item for name, item in value.items() if name != "id"}
        if isinstance(value, dict) and "role" in value
        else None
    )
