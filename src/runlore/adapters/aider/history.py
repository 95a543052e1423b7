"""A history as records: the start of a session, a prompt, a reply, lines of the program. Knows
Markdown, and where each record begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

STARTED = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_TYPED = re.compile(r"# (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\Z")
_STARTS = re.compile(
    rb"\n[ \t\r]*\n(?=# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*?$)", re.MULTILINE
)
"""A blank line, behind which a session begins."""
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
_THINKING = re.compile(r"\A[-\s]*(?:► \*\*THINKING\*\*|\*\*► THINKING\*\*)")
_ANSWER = re.compile(r"(?:► \*\*ANSWER\*\*|\*\*► ANSWER\*\*)")
_OPEN, _CLOSE = "<thinking-content-", "</thinking-content-"
_TAGGED = re.compile(
    r"<(thinking-content-\w{1,64})>(.*?)(?:</\1>|\Z)|\A\s*<think>(.*?)</think>", re.DOTALL
)
_TAG_END = re.compile(r"\A(.*?)</thinking-content-\w{1,64}>", re.DOTALL)
MAX_QUESTION = 600  # Characters.
MAX_EDITS = 200  # Of one reply.
CHUNK_BYTES = 1 << 20  # That are searched together for the start of a session.
MAX_LINE_BYTES = 1 << 16
MAX_START_BYTES = 100  # Of the line that starts a session.
MAX_TIMES = 50  # Of the same words: `y`, `/add` and the like were typed hundreds of times.

Content = dict[str, Any]


class Marks(msgspec.Struct):
    """Whether the prompts and the program's lines of a session end with two spaces, as the program
    writes them. Editors and formatters remove these, some from prompts only. None as long as there
    is no such line."""

    prompts: bool | None = None
    program: bool | None = None

    def see(self, line: str) -> None:
        """Take in a line: the first one of its kind is the program's or a person's."""
        if self.prompts is None and line.startswith("#### "):
            self.prompts = line.endswith("  ")
        elif self.program is None and line.startswith(">"):
            self.program = line.endswith("  ")

    @property
    def is_formatted(self) -> bool:
        """True if a formatter went over the text: it takes spaces from headings, leaves them in
        quotes, and puts a blank line between the lines of a prompt."""
        return self.program is True and self.prompts is False


def marks_at(file: IO[bytes], end: int) -> Marks:
    """Return how lines are marked in the session that the text before this offset belongs to."""
    marks, begin = Marks(), session_start(file, end)
    file.seek(begin)
    while begin < end and None in (marks.prompts, marks.program):
        line = file.readline(min(end - begin, MAX_LINE_BYTES))
        if not line:
            break
        begin += len(line)
        marks.see(line.decode("utf-8", "replace").rstrip("\r\n"))
    return marks


def part_start(file: IO[bytes], end: int) -> int:
    """Return where the part begins that ends at this offset."""
    session = session_start(file, end)
    file.seek(session)
    # What a line is may depend on the next one.
    data = file.read(end - session + MAX_LINE_BYTES)
    parts = split_history(data, Marks(), is_end=True, is_stale=True)
    return session + max((begin for begin, _, _ in parts if session + begin < end), default=0)


def session_start(file: IO[bytes], end: int) -> int:
    """Return where the last session before this offset begins."""
    while end > 0:
        begin = max(0, end - CHUNK_BYTES)
        file.seek(begin)
        # A file begins like the text behind a blank line.
        before = b"" if begin else b"\n\n"
        starts = [found.end() for found in _STARTS.finditer(before + file.read(end - begin))]
        if starts:
            return begin + starts[-1] - len(before)
        # The line may lie across the border.
        end = begin + MAX_START_BYTES if begin and end > begin + MAX_START_BYTES else begin
    return 0


def split_history(
    data: bytes, marks: Marks, is_end: bool, is_stale: bool
) -> Iterator[tuple[int, int, Content]]:
    """Yield the start, the end and the content of each part. `marks` says how lines are marked in
    the session that goes on here. The last part may still grow, unless it is of a kind that is
    written at once, or nothing is written any more."""
    lines = data.split(b"\n")
    if lines[-1] and not (is_end and is_stale):
        lines[-1] = b""  # There is more of it.
    texts = [line.decode("utf-8", "replace").removesuffix("\r") for line in lines]
    offset = begin = 0
    kind, held = "", list[str]()
    kinds = _iter_kinds(texts, marks)
    for line, text, (line_kind, is_start) in zip(lines, texts, kinds, strict=True):
        if is_start:
            if kind:
                yield begin, offset, _content(kind, held)
            kind, held, begin = line_kind, [], offset
        held.append(text)
        offset += len(line) + 1
    if kind and is_end and (is_stale or _is_closed(kind, texts)):
        yield begin, len(data), _content(kind, held)


def _iter_kinds(texts: list[str], marks: Marks) -> Iterator[tuple[str, bool]]:
    """Yield the kind of each line, and True where a part begins with the line."""
    kind, before, is_code, is_thought = "", "", False, False
    for line, after in zip(texts, [*texts[1:], ""], strict=True):
        last, is_apart = kind, not before.strip()
        if STARTED.match(line) and is_apart:
            kind, marks = "start", Marks()
        elif line.strip():  # A blank line has the kind of the line before it.
            marks.see(line)
            kind = _kind(line, after, kind, marks, is_apart, is_code or is_thought)
        is_code = (is_code != line.lstrip().startswith(("```", "~~~~"))) and kind == "assistant"
        is_thought = (is_thought or _OPEN in line) and _CLOSE not in line and kind == "assistant"
        is_next = kind == "user" and is_apart and not marks.is_formatted
        yield kind, (kind != last or kind == "start" or is_next) and bool(line.strip())
        before = line


def _is_closed(kind: str, texts: list[str]) -> bool:
    """Return True if the last part is complete: of a kind that is written at once, or a reply that
    blank lines follow."""
    if kind == "assistant":
        return not any(text.strip() for text in texts[-2:])
    return kind in ("user", "start")


def _kind(line: str, after: str, kind: str, marks: Marks, is_apart: bool, is_inside: bool) -> str:
    """Return the kind of a line. A reply may quote and have headings of its own: where lines of
    this sort are marked, only a marked one is not the reply's. `is_inside` is True within code or
    thoughts."""
    is_marked = line.endswith("  ")
    if line.startswith("#### ") and (is_apart or kind in ("user", "tool")):
        if marks.prompts:
            return "user" if is_marked else "assistant"
        return "user" if not is_inside and _can_ask(after, kind, marks) else "assistant"
    if line.startswith(">"):
        is_program = is_marked if marks.program else not is_inside and (is_apart or kind == "tool")
        return "tool" if is_program else "assistant"
    return "assistant"


def _can_ask(after: str, kind: str, marks: Marks) -> bool:
    """Return True if an unmarked heading can be a prompt. The program ends every reply with a line
    of its own; where these cannot be told from quotes, a heading of a reply that stands alone
    passes for a prompt."""
    if kind != "assistant":
        return True
    return not marks.program and (not after.strip() or after.startswith((">", "####")))


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
    thought, said = split_thought(text)
    changes = [{"path": path, "old": old, "new": new} for path, old, new in edits(said)]
    return {
        "said": "assistant",
        "text": said.strip("\n"),
        **({"thought": thought} if thought else {}),
        **({"edits": changes} if changes else {}),
    }


def split_thought(text: str) -> tuple[str, str]:
    """Return what the model thought, and what it said: written under headings or, in the raw form
    that some versions keep, in tags."""
    if found := _THINKING.match(text):
        thought, *answer = _ANSWER.split(text[found.end() :], maxsplit=1)
        return thought.rstrip("-\n ").strip(), "".join(answer)
    thoughts: list[str] = []

    def take(found: re.Match[str]) -> str:
        thoughts.append(next(group for group in found.groups()[::-1] if group is not None).strip())
        return ""

    said = _TAGGED.sub(take, text)
    said = _TAG_END.sub(take, said)  # Its beginning may be missing.
    return "\n\n".join(filter(None, thoughts)), said


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
