"""aider: one Markdown file for each repository; a session begins with a heading of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .values import Counts, Session

AGENT = "aider"
FOLDERS = ("",)
START = re.compile(r"^# aider chat started at .*$", re.MULTILINE)
TOKENS = re.compile(
    r"^> Tokens: ([\d.]+[kM]?) sent"
    r"(?:, ([\d.]+[kM]?) cache write)?(?:, ([\d.]+[kM]?) cache hit)?"
    r", ([\d.]+[kM]?) received"
)


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob(".aider.chat.history.md")):
        text = path.read_text("utf-8", errors="replace")
        starts = list(START.finditer(text))
        before = text[: starts[0].start()] if starts else text
        yield Session(path, "before", _count(before.split("\n")))
        ends = [*(start.start() for start in starts[1:]), None]
        for start, end in zip(starts, ends, strict=True):
            id = re.sub(r"\D", "", start[0])
            yield Session(path, id, _count(text[start.end() : end].split("\n")))


def _count(lines: list[str]) -> Counts:
    """Count runs of lines: `> ` is the program, `#### ` a person unless a reply goes on there."""
    counts = Counts()
    kind, fenced = "", False
    for line in filter(str.strip, lines):
        now = "reply"
        if line.startswith("#### ") and not fenced and kind != "reply":
            now = "prompt"
        elif line.startswith(">") and not fenced:
            now = "program"
            _add_line(counts, line)
        elif line.startswith("```"):
            fenced = not fenced
        if now == "prompt" and kind != "prompt":
            counts.prompts += not line.startswith("#### /")
        counts.replies += now == "reply" and kind != "reply"
        kind = now
    return counts


def _add_line(counts: Counts, line: str) -> None:
    if tokens := TOKENS.match(line):
        sent, write, read, received = (_amount(text) for text in tokens.groups())
        counts.add_tokens(sent - write - read, received, read, write)
    elif line.startswith(("> Running ", "> Applied edit to ", "> Creating empty file ")):
        counts.calls += 1


def _amount(text: str | None) -> int:
    if not text:
        return 0
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1], 1)
    return round(float(text.rstrip("kM")) * factor)
