"""What the counts have in common: their value, and tolerant readers of foreign files."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

JSON = Any
"""Foreign data, of any shape."""


@dataclass
class Counts:
    """How much of everything a session has. Tokens are in buckets that do not overlap."""

    prompts: int = 0
    """Messages that a person wrote (in a subagent: its task), without slash commands."""
    replies: int = 0
    """Texts of the model, thinking excluded."""
    calls: int = 0
    results: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def add_tokens(
        self, input: object, output: object, cache_read: object = 0, cache_write: object = 0
    ) -> None:
        """Add a request; `input` is without what came from a cache or went into one."""
        self.input += max(0, number(input))
        self.output += number(output)
        self.cache_read += number(cache_read)
        self.cache_write += number(cache_write)

    def is_empty(self) -> bool:
        return self == Counts()

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in NAMES))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) - getattr(other, name) for name in NAMES))


NAMES = tuple(field.name for field in fields(Counts))
TOKENS = ("input", "output", "cache_read", "cache_write")


class Session(NamedTuple):
    """A session of an agent: its file or database, its own id, and what it holds."""

    path: Path
    id: str
    counts: Counts


class Rule(NamedTuple):
    """A reason why runlore shows another figure: one sentence, and what it adds to the count.

    A difference is explained only if the sum comes out. `shift` is given the session and how often
    each `kind:native` occurs in what runlore shows of it.
    """

    why: str
    shift: Callable[[Session, Counter[str]], Counts]
    is_fault: bool = False
    """true if the plain count is right, and runlore is not."""
    in_usage: Callable[[Session], Counts] | None = None
    """What it adds to the tokens in `runlore usage`; nothing if not given."""


def number(value: object) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def read_json(path: Path) -> JSON:
    """Return the document, or None if there is none that can be read."""
    try:
        return json.loads(path.read_text("utf-8", errors="replace"), strict=False)
    except (OSError, ValueError):
        return None


def read_lines(path: Path) -> Iterator[dict[str, JSON]]:
    """Yield the objects of a file of JSON lines, two on one line too; the rest is left out.

    A last line without a line feed counts if it is whole: no file here is still being written.
    """
    decoder = json.JSONDecoder(strict=False)
    with path.open("rb") as file:
        for raw in file:
            text = raw.decode("utf-8", errors="replace").strip("\ufeff \t\r\n")
            at = 0
            while at < len(text):
                try:
                    value, at = decoder.raw_decode(text, at)
                except ValueError:
                    break
                if isinstance(value, dict):
                    yield value


def read_rows(path: Path, sql: str, *values: object) -> list[dict[str, JSON]]:
    """Return the rows of a query, of a copy of the database so that its log is read too."""
    if not path.is_file():
        return []
    with tempfile.TemporaryDirectory() as folder:
        for end in ("", "-wal"):
            if (part := path.with_name(path.name + end)).exists():
                shutil.copyfile(part, Path(folder) / ("db" + end))
        with closing(sqlite3.connect(Path(folder) / "db")) as database:
            database.row_factory = sqlite3.Row
            database.text_factory = lambda data: data.decode("utf-8", errors="replace")
            try:
                return [dict(row) for row in database.execute(sql, values)]
            except sqlite3.DatabaseError:
                return []


def parse(text: object) -> JSON:
    """Return what a text that should be JSON holds; None if it is not."""
    if not isinstance(text, str | bytes):
        return text
    try:
        return json.loads(text, strict=False)
    except ValueError:
        return None


def blocks(content: JSON) -> list[dict[str, JSON]]:
    """Return content as a list of blocks; a bare text is one of type `text`."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {"type": "text", "text": block} if isinstance(block, str) else block
        for block in content or ()
        if isinstance(block, str | dict)
    ]


def texts(content: JSON) -> list[str]:
    """Return the texts of blocks that are not blank."""
    return [
        block["text"]
        for block in blocks(content)
        if block.get("type", "text") in ("text", "input_text", "output_text")
        and isinstance(block.get("text"), str)
        and block["text"].strip()
    ]


def get(value: JSON, *keys: str | int) -> JSON:
    """Return what lies at a path of keys, or None."""
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def starts(text: str, prefixes: Iterable[str]) -> bool:
    return text.lstrip().startswith(tuple(prefixes))
