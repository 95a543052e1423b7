"""A history as records: the start of a session, a prompt, a reply, lines of the program. Knows
Markdown, and where each record begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

STARTED = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_TYPED = re.compile(r"# (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\Z")
_MARKED = re.compile(rb"^(?:####|>)(?: [^\n]*)?  \r?$", re.MULTILINE)
STATEMENT = (
    "Tokens: ", "Applied edit to ", "Creating empty file ", "Did not apply edit to ",
    "Skipping edits to ", "Running ", "Retrying in ",
    "Commit ", "^C ", "All chat history cleared", "All files dropped and chat history cleared",
)  # fmt: skip
"""How lines of the program begin that tell of something."""
QUESTION = re.compile(r"\?.*\[\w+\]:?\s*(\w*)\Z|\?.*\(Y\)es.*:\s*(\w*)\Z")
FAILED = re.compile(
    r"The LLM did not conform to the edit format|# ?\d+ SEARCH/REPLACE blocks? failed to"
    r" match|litellm\.\w+|The API provider|\w+Error: "
)
_SEARCH = re.compile(r"<{5,9} SEARCH.*\Z")
_DIVIDER = re.compile(r"={5,9}\s*\Z")
_REPLACE = re.compile(r">{5,9} REPLACE\s*\Z")
THOUGHT, ANSWER = "► **THINKING**", "► **ANSWER**"
MAX_QUESTION = 600  # Characters.
MAX_EDITS = 200  # Of one reply.
MAX_TIMES = 50  # Of the same words: `y`, `/add` and the like were typed hundreds of times.

Content = dict[str, Any]


def split_history(
    data: bytes, head: bytes, is_end: bool, is_stale: bool
) -> Iterator[tuple[int, int, Content]]:
    """Yield the start, the end and the content of each part. `head` is the beginning of the file,
    which shows how lines are marked. The last part may still grow, unless it is of a kind that is
    written at once, or nothing is written any more."""
    lines = data.split(b"\n")
    if lines[-1] and not (is_end and is_stale):
        lines[-1] = b""  # There is more of it.
    texts = [line.decode("utf-8", "replace").removesuffix("\r") for line in lines]
    offset = begin = 0
    kind, held = "", list[str]()
    kinds = _iter_kinds(texts, is_marked=_MARKED.search(head) is not None)
    for line, text, (line_kind, is_start) in zip(lines, texts, kinds, strict=True):
        if is_start:
            if kind:
                yield begin, offset, _content(kind, held)
            kind, held, begin = line_kind, [], offset
        held.append(text)
        offset += len(line) + 1
    if kind and is_end and (is_stale or _is_closed(kind, texts)):
        yield begin, len(data), _content(kind, held)


def _iter_kinds(texts: list[str], is_marked: bool) -> Iterator[tuple[str, bool]]:
    """Yield the kind of each line, and True where a part begins with the line."""
    kind, before, is_code = "", "", False
    for line, after in zip(texts, [*texts[1:], ""], strict=True):
        last, kind = kind, _kind(line, before, after, kind, is_marked, is_code)
        is_code = (is_code != line.lstrip().startswith(("```", "~~~~"))) and kind == "assistant"
        is_new = kind != last or kind == "start" or (kind == "user" and not before.strip())
        yield kind, is_new and bool(line.strip())
        before = line


def _is_closed(kind: str, texts: list[str]) -> bool:
    """Return True if the last part is complete: of a kind that is written at once, or a reply that
    blank lines follow."""
    if kind == "assistant":
        return not any(text.strip() for text in texts[-2:])
    return kind in ("user", "start")


def _kind(line: str, before: str, after: str, kind: str, is_marked: bool, is_code: bool) -> str:
    """Return the kind of a line. A blank line has that of the line before it."""
    if not line.strip():
        return kind
    is_apart = not before.strip()
    if STARTED.match(line) and is_apart:
        return "start"
    if is_marked:
        return _marked_kind(line, can_be_user=is_apart or kind in ("user", "tool"))
    return "assistant" if is_code else _bare_kind(line, after, kind, is_apart)


def _marked_kind(line: str, can_be_user: bool) -> str:
    """Return the kind of a line in a file whose prompts and program lines end with two spaces."""
    if not line.endswith("  "):
        return "assistant"
    if line.startswith("#### ") and can_be_user:
        return "user"
    return "tool" if line.startswith(">") else "assistant"


def _bare_kind(line: str, after: str, kind: str, is_apart: bool) -> str:
    """Return the kind of a line in a file without such ends: a reply may quote and have headings of
    its own."""
    if line.startswith("#### ") and (is_apart or kind in ("user", "tool")):
        can_be = kind != "assistant" or not after.strip() or after.startswith((">", "####"))
        return "user" if can_be else "assistant"
    return "tool" if line.startswith(">") and (is_apart or kind == "tool") else "assistant"


def _content(kind: str, lines: list[str]) -> Content:
    text = "\n".join(lines).strip("\n")
    if kind == "start":
        found = STARTED.match(lines[0]) if lines else None
        return {"said": kind, "text": text.strip(), "at": _moment(found[1]) if found else None}
    if kind == "user":
        said = [
            line.removeprefix("####").removeprefix(" ").rstrip() for line in lines if line.strip()
        ]
        return {"said": kind, "text": "\n".join(said).strip("\n")}
    if kind == "tool":
        return {
            "said": kind,
            "lines": _grouped([line.removeprefix(">").strip() for line in lines if line.strip()]),
        }
    return _reply(text.rstrip())


def _reply(text: str) -> Content:
    """A reply, what was thought before it, and the edits in it."""
    said, more = text, {}
    if text.lstrip("-\n ").startswith(THOUGHT):
        thought, _, said = text.partition(ANSWER)
        more = {"thought": thought.partition(THOUGHT)[2].rstrip("-\n ").strip()}
    changes = [{"path": path, "old": old, "new": new} for path, old, new in edits(said)]
    return {
        "said": "assistant",
        "text": said.strip("\n"),
        **more,
        **({"edits": changes} if changes else {}),
    }


def is_question(line: str) -> bool:
    """Return True if a person was asked, and has answered. No question is long."""
    return len(line) <= MAX_QUESTION and QUESTION.search(line) is not None


def _grouped(lines: list[str]) -> list[str]:
    """Each line that tells of something, and those between two of them as one text."""
    found: list[str] = []
    is_open = False
    for line in lines:
        is_telling = (
            line.startswith(STATEMENT) or FAILED.match(line) is not None or is_question(line)
        )
        if is_open and not is_telling:
            found[-1] += f"\n{line}"
        else:
            found.append(line)
        is_open = not is_telling
    return found


def typed(data: bytes) -> dict[str, list[str]]:
    """Return the times at which each text was typed."""
    found: dict[str, list[str]] = {}
    when, words = None, list[str]()
    for line in [*data.decode("utf-8", "replace").split("\n"), "#"]:
        if line.startswith("+"):
            words.append(line[1:].rstrip())
            continue
        if when and words:
            times = found.setdefault("\n".join(words).strip("\n"), [])
            if len(times) < MAX_TIMES:
                times.append(when)
        match = _TYPED.match(line)
        when, words = (_moment(match[1]) if match else None), []
    return found


def _moment(text: str) -> str | None:
    """A time of this machine's as one of UTC."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def edits(text: str) -> list[tuple[str, str, str]]:
    """The path, what is removed and what is added, of every block of a reply that says so. The path
    stands before the fence; a block without one is about the file of the block before it."""
    found: list[tuple[str, str, str]] = []
    path, before = "", ["", ""]
    old: list[str] | None = None
    new: list[str] | None = None
    for line in text.split("\n") if "SEARCH" in text else []:
        if _SEARCH.match(line):
            old, new = [], None
            path = _path_in(before[0]) or path
        elif old is not None and new is None and _DIVIDER.match(line):
            new = []
        elif old is not None and new is not None and _REPLACE.match(line):
            if path and len(found) < MAX_EDITS:
                found.append((path, "\n".join(old), "\n".join(new)))
            old = new = None
        elif new is not None:
            new.append(line)
        elif old is not None:
            old.append(line)
        before = [before[1], line]
    return found


def _path_in(line: str) -> str | None:
    """Return the path that stands before a fence; None if the line is prose."""
    path = line.strip().strip("*#`").strip()
    return path if ("." in path or "/" in path) and not path.endswith(":") else None
