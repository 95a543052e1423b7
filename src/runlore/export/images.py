"""Pictures of a session.

The text of an event names a picture by its hash. The picture itself is in the agent's native
record, as long as that is stored.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from .. import query
from ..errors import NotFound
from ..store import Store

NAMED = re.compile(r"\[image (image/[a-z]+) [^\]]{1,40} sha256:([0-9a-f]{16})\]")
"""The reference to a picture in the text of an event."""
KINDS = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""Formats that a browser draws and cannot execute, by their first bytes."""
MAX_IMAGE_CHARS = 20_000_000
MAX_DEPTH = 100


class Image(msgspec.Struct, frozen=True):
    kind: str
    data: bytes


def named(text: str) -> list[str]:
    """Return the hashes of the pictures that a text refers to."""
    return [sha for kind, sha in NAMED.findall(text) if kind in KINDS.values()]


def image(store: Store, uid: str, seq: int, sha: str) -> Image:
    """Return a picture of an event by its hash. Raises NotFound when it is not stored."""
    for record in query.raw_records(store, uid, seq):
        try:
            value = json.loads(record)
        except (ValueError, RecursionError):
            continue
        for text in _texts(value):
            picture = _decoded(text)
            if (
                picture is not None
                and sha256(picture.data).hexdigest().startswith(sha)
                and len(sha) >= 16
            ):
                return picture
    raise NotFound(f"no picture {sha!r} is kept with {uid}#{seq}")


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= 64:
            yield value
    elif depth < MAX_DEPTH and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner, depth + 1)


def _decoded(text: str) -> Image | None:
    if text.startswith("data:"):
        text = text.partition(",")[2]
    if len(text) > MAX_IMAGE_CHARS:
        return None
    try:
        begin = b64decode(text[:64])
        kind = next((kind for magic, kind in KINDS.items() if begin.startswith(magic)), None)
        return Image(kind, b64decode(text)) if kind else None
    except (Error, ValueError):
        return None
