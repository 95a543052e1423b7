"""A record as a row, and back."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC
from typing import Any

import msgspec

from ...errors import LogError
from ...model import LogRecord

COLUMNS = "seq, id, ts, type, key, epoch, payload::text"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def record_of(row: Any) -> LogRecord:
    """Return the record in a row with these columns."""
    seq, id, ts, type, key, epoch, text = row
    type, key = from_column(type), None if key is None else from_column(key)
    try:
        payload = _decode(text)
    except ValueError:  # A lone surrogate, or something else that a strict reader refuses.
        payload = json.loads(text)
    return LogRecord(
        seq=seq, id=id, ts=ts.astimezone(UTC), type=type, key=key, epoch=epoch, payload=payload
    )


def text_of(type: str, payload: dict[str, Any]) -> str:
    """Return the payload as JSON. Raises LogError for one that JSON cannot hold."""
    try:
        return msgspec.json.encode(payload).decode()
    except UnicodeEncodeError:  # A lone surrogate has no UTF-8: it is escaped.
        return json.dumps(msgspec.to_builtins(payload, str_keys=True), separators=(",", ":"))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LogError(f"a {type} record cannot be written as JSON: {error}") from None


def to_column(text: str) -> str:
    """Return a text as a column can hold it: NUL and lone surrogates are written as in JSON."""
    if text[:1] != '"' and "\0" not in text:
        with suppress(UnicodeEncodeError):
            text.encode()
            return text
    return json.dumps(text)


def from_column(text: str) -> str:
    return str(json.loads(text)) if text[:1] == '"' else text
