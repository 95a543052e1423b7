"""Cursors: short texts that continue an answer, valid only for the same question. Nothing is
remembered between two calls.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any

import msgspec

from ...errors import RunloreError

MAX_LENGTH = 120
_FORM = b"runlore mcp cursor 1"
_CHECK = 6  # Bytes: who wants to forge one can as well ask the question.


class BadCursor(RunloreError):
    """A cursor that is damaged, or that was given for another question."""

    code = "bad_cursor"
    hint = (
        "ask again without a cursor, or with the one of the last answer and all other arguments as"
        " they were"
    )


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The item that comes next, the character of its text to begin at, and a hash of the item
    before it."""

    at: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)] = 0
    offset: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)] = 0
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)] = 0


def write(place: Place, question: Any) -> str:
    data = msgspec.msgpack.encode(place)
    return base64.urlsafe_b64encode(_check(data, question) + data).decode().rstrip("=")


def read(text: str, question: Any) -> Place:
    """Raises BadCursor."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        place = msgspec.msgpack.decode(raw[_CHECK:], type=Place)
    except (binascii.Error, ValueError):  # msgspec's errors are ValueErrors.
        raise BadCursor("the cursor is damaged") from None
    if raw[:_CHECK] != _check(raw[_CHECK:], question):
        raise BadCursor("the cursor belongs to another question")
    return place


def _check(data: bytes, question: Any) -> bytes:
    asked = msgspec.json.encode(question, order="sorted")
    return blake2b(data + b"\0" + asked, digest_size=_CHECK, key=_FORM).digest()


def hash_of(key: str) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=4).digest(), "little")


def resume(place: Place, keys: Sequence[str]) -> int:
    """Return the position to continue at. If the list has changed, that is behind the item shown
    last, if it is still there."""
    if place.at == 0 or (place.at <= len(keys) and hash_of(keys[place.at - 1]) == place.last):
        return place.at
    return next((n + 1 for n, key in enumerate(keys) if hash_of(key) == place.last), place.at)
