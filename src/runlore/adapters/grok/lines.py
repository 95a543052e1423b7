"""Lines of Grok Build's files as bytes: without data that is no text, and the names in them.
Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..shared.pick import pick
from ..shared.tools import blob_reference, without_base64

_BYTES = re.compile(rb'"output"\s*:\s*\[')
_DATA_URL = re.compile(rb'"data:[^",;]{0,100};base64,([A-Za-z0-9+/\\]{256,}={0,2})"')


def slim(line: bytes) -> bytes:
    """Return a line in which data that is no text is replaced by short references."""
    line = without_bytes(line) if b'"output"' in line else line
    line = without_data_urls(line) if b";base64," in line else line
    return without_base64(line) if b'"data"' in line else line


def without_bytes(line: bytes) -> bytes:
    """Return a line in which outputs that are repeated as a list of bytes are replaced by their
    length."""
    parts: list[bytes] = []
    done = 0
    for match in _BYTES.finditer(line):
        end = line.find(b"]", match.end())
        numbers = line[match.end() : end]
        # Not by a pattern, which is much slower: these lists are half of a file.
        if end > 0 and numbers.strip() and not numbers.translate(None, b"0123456789, \t"):
            parts += [line[done : match.end() - 1], b'"[%d bytes]"' % (numbers.count(b",") + 1)]
            done = end + 1
    return b"".join([*parts, line[done:]]) if parts else line


def without_data_urls(line: bytes) -> bytes:
    return _DATA_URL.sub(
        lambda match: b'"%s"' % blob_reference(match[1].replace(b"\\", b"")).encode(), line
    )


def update_in(line: bytes) -> dict[str, Any]:
    """Return the update of a line; empty when the line is damaged."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return pick(value, "params", "update", of=dict) or pick(value, "update", of=dict) or {}


def file_name(path: str | None) -> str | None:
    """Return the last part of a path of any system, if it can only be the name of a file."""
    name = (path or "").replace("\\", "/").rpartition("/")[2]
    return name if name.strip(".") and len(name) < 250 and name.isprintable() else None
