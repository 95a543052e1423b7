"""A table of a TOML file, put in and taken out by text edits. Everything else in the file stays as
it is.

tomllib reads the text before and after: an edit that changed more than its own table is refused.
Nothing here reads a file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any


def parse(text: str) -> dict[str, Any]:
    """Raises ValueError, which names the line."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def insert(text: str, path: Sequence[str], value: dict[str, Any]) -> tuple[str, str]:
    """The text with the table at its end, and the stretch that was put in. Raises ValueError when
    that cannot be: a table that is written within braces cannot be added to from outside."""
    eol = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else eol if text.endswith("\n") else eol * 2
    piece = gap + eol.join(_table(path, value)) + eol
    before, after = parse(text), parse(text + piece)
    if without(after, path) != before:
        raise ValueError(f"[{_header(path)}] cannot be put at the end of it")
    return text + piece, piece


def cut(text: str, path: Sequence[str]) -> str:
    """The text without the table and the tables in it. Raises ValueError when it is written in
    another way than with a header."""
    head = r"[ \t]*\[[ \t]*" + r"[ \t]*\.[ \t]*".join(
        f"""(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')""" for key in path
    )
    ours = re.compile(head + r"[ \t]*(?:\.[^\]\n]*)?\][ \t]*(?:#.*)?\s*$")
    kept: list[str] = []
    block: list[str] | None = None
    for line in text.splitlines(keepends=True):
        if re.match(r"[ \t]*\[", line) and not re.match(r"[ \t]*\[.*\][ \t]*,", line):
            is_ours = bool(ours.match(line))
            if block is not None and not is_ours:
                kept += _rest(block)
                block = None
            if is_ours and block is None:
                while kept and not kept[-1].strip():
                    kept.pop()
                block = []
        (kept if block is None else block).append(line)
    kept += _rest(block or [])
    after = "".join(kept)
    if parse(after) != without(parse(text), path):
        raise ValueError(
            f"{_header(path)} is not written as a table of its own; take it out by hand"
        )
    return after


def _rest(block: list[str]) -> list[str]:
    """The empty lines and comments at the end of a table: they are about what follows."""
    end = len(block)
    while end > 0 and (not block[end - 1].strip() or block[end - 1].lstrip().startswith("#")):
        end -= 1
    return block[end:]


def without(data: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the data without the value at the path, and without tables that this leaves empty."""
    key, *rest = path
    inner = data.get(key)
    left = without(inner, rest) if rest and isinstance(inner, dict) else None
    others = {name: value for name, value in data.items() if name != key}
    return {**others, key: left} if left else others


def _table(path: Sequence[str], value: dict[str, Any]) -> list[str]:
    """Plain values, then the tables in it."""
    plain = [
        f"{_key(name)} = {_plain(item)}"
        for name, item in value.items()
        if not isinstance(item, dict)
    ]
    lines = [f"[{_header(path)}]", *plain]
    for name, item in value.items():
        if isinstance(item, dict):
            lines += ["", *_table((*path, name), item)]
    return lines


def _header(path: Sequence[str]) -> str:
    return ".".join(map(_key, path))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _plain(name)


def _plain(value: Any) -> str:
    """A text, number or list of these, which TOML writes as JSON does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
