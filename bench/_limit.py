"""The minimum time of one core of this machine for the bytes of a first sync.

Run as a separate program.

    python bench/_limit.py HOME

Prints JSON: seconds to read every transcript, to decode every line with msgspec, to compress the
bytes with zstd level 1, and to put the text into an FTS5 index with apsw. Nothing is stored,
linked, redacted or written to disk. Any store of sessions does all of this and more, so the sum is
a lower bound for one process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import zstandard

SEGMENT = 64_000


class Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    input: msgspec.Raw = msgspec.Raw()
    content: Any = None


class Message(msgspec.Struct):
    content: str | list[Block] | None = None


class Line(msgspec.Struct):
    type: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    message: Message | None = None


def main() -> None:
    decoder, compressor, total = msgspec.json.Decoder(Line), zstandard.ZstdCompressor(level=1), 0
    database = apsw.Connection(":memory:")
    database.execute(
        "create virtual table words using fts5(text, content='', contentless_delete=1)"
    )
    database.execute("insert into words(words, rank) values('hashsize', 16777216)")
    database.execute("begin")
    files = sorted(Path(sys.argv[1]).rglob("*.jsonl"))
    clock = Clock()
    for path in files:
        data = path.read_bytes()
        total += len(data)
        clock.lap("read_s")
        lines = list(decoded(decoder, data))
        clock.lap("decode_s")
        for at in range(0, len(data), SEGMENT):
            compressor.compress(data[at : at + SEGMENT])
        clock.lap("zstd_s")
        database.executemany(
            "insert into words(text) values(?)", ((segment,) for segment in segments(lines))
        )
        clock.lap("index_s")
    database.execute("commit")
    clock.lap("index_s")
    print(json.dumps({"bytes": total, **clock.laps}))


class Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self.last
        self.last = now


def decoded(decoder: msgspec.json.Decoder[Line], data: bytes) -> Iterator[Line]:
    for line in data.split(b"\n"):
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError:  # blank, cut off or of another shape
            continue


def segments(lines: list[Line]) -> list[str]:
    found: list[str] = []
    part: list[str] = []
    size = 0
    for line in lines:
        for text in texts(line):
            part.append(text)
            size += len(text)
            if size > SEGMENT:
                found.append("\n".join(part))
                part, size = [], 0
    return [*found, "\n".join(part)] if part else found


def texts(line: Line) -> list[str]:
    content = line.message.content if line.message else None
    if isinstance(content, str):
        return [content]
    found: list[str] = []
    for block in content or ():
        found += [text for text in (block.text, block.thinking) if text]
        if bytes(block.input):
            found.append(bytes(block.input).decode(errors="replace"))
        if isinstance(block.content, str):
            found.append(block.content)
        elif isinstance(block.content, list):
            found += [
                part["text"]
                for part in block.content
                if isinstance(part, dict) and isinstance(part.get("text"), str)
            ]
    return found


if __name__ == "__main__":
    main()
