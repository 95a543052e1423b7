"""The line that matters: of all that a failing command or tool printed, the one that says what is wrong.

A body is compared with the forms in which programs tell of errors, most telling first: the exception and not the traceback's header,
the compiler's first error, the failing test, the shell's message. Nothing here knows an agent; all is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import re2

from .error_forms import FORMS, FRAME, LAST_COUNTS, PROOF, PROVING, Line, bare, python, with_test
from .text import CONTROLS, HEAD, TAIL, finder, safe, window

NEAR_END, END = 1500, 4000
"""Characters: where a program that failed says so, and the same with blanks after it."""


def find(body: str, *, proof: bool = False) -> Line | None:
    """The line that matters, or None for a body in which nothing tells of an error. As `proof` only a strong one will do: where none of
    the forms that give one is there, the others are not tried."""
    head, tail = window(body)
    lines = _unframed(head)
    middle = len(lines)
    lines += tail
    if not lines:
        return None
    joined = "\n".join(lines)
    if FRAME in joined and has_frames(body) and (line := python(lines)) is not None:
        return with_test(line, lines)
    # Most bodies have few of the words of any form, so these are found first, in one pass of an automaton: 10 times as fast.
    everything = f"\n{joined.lower()}\n"
    found = _find_words(everything)
    ranks = 0
    for number in found:
        ranks |= _RANKS[number]
    if proof:
        ranks &= _PROVING
    count = len(lines)
    while ranks:
        rank = ranks & -ranks  # The lowest: most bodies are done after two or three.
        ranks ^= rank
        form = FORMS[rank.bit_length() - 1][1]
        tried: Iterable[int]
        if count <= FEW:
            tried = range(count - 1, -1, -1) if form in LAST_COUNTS else range(count)
        else:
            words = [_WORDS[number] for number in found if _RANKS[number] & rank]
            tried = (_last_lines_with if form in LAST_COUNTS else _lines_with)(words, everything, count, middle)
        for n in tried:
            # Few lines have a form, so this is asked before what takes longer.
            if (line := form(lines, n)) is not None and not _is_harmless(lines[n], lines[n].lower()):
                return with_test(line, lines) if line.kind == "exception" else line
    return None


def has_frames(body: str) -> bool:
    """Whether a body has a traceback in it."""
    return "Traceback (most recent" in body or FRAME in body


def may_prove(body: str) -> bool:
    """False when nothing near the end of a body can be part of a line that proves an error. Most bodies are told so by this alone."""
    end = body[-END:].rstrip()[-NEAR_END:]
    found = _find_proof(f"\n{end}\n")
    if _UNSAFE in found:  # Few have something to be cleaned of, and one look tells which.
        found = _find_proof(f"\n{safe(end)}\n")
    return bool(found) or (len(body) > NEAR_END and _may_show_frames(body))


def _may_show_frames(body: str) -> bool:
    """False when no frame of a traceback is in what is looked at of a body."""
    head, tail = body[:HEAD], body[-TAIL:]
    # Where it has colours in it, it is one only without them.
    return FRAME in tail or FRAME in head or (("\x1b" in tail or "\x1b" in head) and has_frames(body))


def _lines_with(words: list[str], everything: str, count: int, middle: int) -> Iterator[int]:
    """The lines that have one of these words, as they come. Where only both ends of a body are seen, those of its end are turned round,
    so that it makes no difference where it was cut. One is looked for when it is asked for: the first is often the last."""
    nexts, size = [everything.find(word) for word in words], len(everything)
    n, last = -1, 0
    for _ in range(MOST_TRIED):
        at = min(nexts)
        n += everything.count("\n", last, at + 1)  # A line is known by the line breaks in front of it.
        if at == size or n >= middle:
            break
        yield n
        last = everything.find("\n", at + 1)
        for i, was in enumerate(nexts):
            if was < last:
                at = everything.find(words[i], last)
                nexts[i] = at if at >= 0 else size  # Behind everything when it is not there any more.
    yield from _from_end(words, everything, count, middle)


def _last_lines_with(words: list[str], everything: str, count: int, middle: int) -> Iterator[int]:
    """The same, the last one first."""
    left = MOST_TRIED
    for n in _from_end(words, everything, count, middle):
        yield n
        left -= 1
    found: set[int] = set()
    for word in words if left else ():
        at = everything.find(word)
        for _ in range(MOST_TRIED):
            if at < 0 or (n := _line_at(everything, at)) >= middle:
                break
            found.add(n)
            at = everything.find(word, everything.find("\n", at + 1))
    yield from sorted(found, reverse=True)[:left]


def _from_end(words: list[str], everything: str, count: int, middle: int) -> Iterator[int]:
    """The lines with one of these words behind the middle, the last one first."""
    if middle == count:
        return
    lasts = [everything.rfind(word) for word in words]
    n, begin = count, len(everything)
    for _ in range(MOST_TRIED):
        at = max(lasts)
        n -= everything.count("\n", at + 1, begin)
        if at < 0 or n < middle:
            return
        yield n
        begin = everything.rfind("\n", 0, at + 1)
        n -= 1
        for i, was in enumerate(lasts):
            if was >= begin:
                lasts[i] = everything.rfind(words[i], 0, begin + 1)


def _line_at(everything: str, at: int) -> int:
    return everything.count("\n", 0, at + 1) - 1


def plain(body: str, *, from_end: bool) -> Line | None:
    """A line of a body that is known to be of a failure, though nothing in it says so."""
    head, tail = window(body)
    lines = _unframed(head) + tail
    ordered = reversed(lines) if from_end else lines
    said = next((line for line in ordered if _WORDY.search(line) and not _NUMBERED.match(line)), None)
    return Line("text", bare(said), said.strip()) if said is not None else None


_WORDY = re.compile(r"[^\W\d_]{2}")


# What a tool puts around the output of a program: a status, a few fields, a word that says that the output follows, tags.
_STATUS = re.compile(
    r"(?:(?:Process )?(?:exited|finished|completed)? ?(?:with )?(?:exit|return)? ?(?:code|status):? -?\d{1,10}"
    r"|Exit code:? -?\d{1,10})\.?\Z",
    re.I,
)
_FIELD = re.compile(r"[A-Z][\w ]{1,30}:? [\w.:/-]{1,60}(?: (?:seconds?|ms|s|tokens?|lines?|bytes?))?\Z")
LONGEST_FIELD = 101  # The longest text that either finds.
_OUTPUT = re.compile(r"(?:Output|Stdout|Stderr|STDOUT|STDERR|Result)(?: \([^)]{1,40}\))?:\Z")
_TAG = re.compile(r"\s*</?[a-z][\w-]{1,40}>")
_END_TAG = re.compile(r"</[a-z][\w-]{1,40}>\s*\Z")


# The same as fields with names: `Command: make`, `Directory: (root)`, `Output: …`, `Error: (none)`, `Exit Code: 2`.
_NAMED_OUTPUT = re.compile(r"(?:Output|Stdout|Stderr|Error): (?=\S)")
_NAMED_OTHER = re.compile(
    r"(?:Command|Directory|Exit Code|Signal|Background PIDs|Process Group PGID): |(?:Output|Stdout|Stderr|Error): \((?:empty|none)\)\Z"
)


def _unnamed(lines: list[str]) -> list[str]:
    """What was printed, of fields with names. A command may be of several lines."""
    first = next((n for n, line in enumerate(lines) if line.startswith("Directory: ")), 0)
    return [_NAMED_OUTPUT.sub("", line, count=1) for line in lines[first:] if not _NAMED_OTHER.match(line)]


def _unframed(lines: list[str]) -> list[str]:
    if not lines:
        return lines
    if lines[0].startswith("Command: "):
        return _unnamed(lines)
    first = 0
    if "ode" in lines[0] or ":" in lines[0]:  # Exit code 1, or the first of some fields
        for n, line in enumerate(lines[:8]):
            if line[-1] == ":" and _OUTPUT.match(line):
                first = n + 1
                break
            if not (len(line) <= LONGEST_FIELD and (_FIELD.match(line) or _STATUS.match(line))):
                break
        if first == 0 and len(lines[0]) <= LONGEST_FIELD and _STATUS.match(lines[0]):
            first = 1
    lines = lines[first:]
    if lines and lines[0].startswith("<") and (tag := _TAG.match(lines[0])):
        lines[0] = lines[0][tag.end() :]
    if lines and lines[-1].endswith(">"):
        lines[-1] = _END_TAG.sub("", lines[-1])
    return list(filter(None, lines))


FEW = 3  # Lines that are all looked at.
MOST_TRIED = 25
"""Lines that a form looks at, of each end: what matters is not the fiftieth of its kind."""
_NUMBERED = re.compile(r"\s*\d{1,7}(?:[\t→|│]|\s*[|│]|[:-](?!\d)\s*\S)")
_FIELD_OF_JSON = re.compile(r"\s*\"(?!error|message|stderr|detail|exception)[\w-]{1,60}\":\s")
_SEARCHED = re.compile(r"[^\s:]{1,300}\.[^\s:.]{1,8}[:-]\d{1,7}[:-](?!\d{1,7}[: ])(?:\S|\s{2,}\S)")
_NOTE = re.compile(
    r"\s*(?:npm |yarn |pip )?\[?(?:warning|warn|info|note|hint|debug|help|tip|notice|deprecated|deprecationwarning)\b[:\]! ]"
)
_NOTE_BEGINS = frozenset("[npywihdt")
_PASSED = re.compile(r"\s*(?:[✓✔√] |ok \d|ok\s{2,}\S|--- pass:|.{1,300}(?: passed(?:\s*\[\s*\d{1,3}%\])?|\.\.\. ok)\Z)")
_WARNING = re.compile(r"[:\d)] ?-? warning\b[: ]")
_NOTHING = (
    r"(?:^|[^\w.])(?:0|no|zero|without(?: any)?) (?:type |lint(?:ing)? |syntax |fatal |new )?"
    r"(?:errors?|failures?|failed|failing|problems?|issues?|warnings?|conflicts?)\b"
    r"|\b(?:errors?|failures?|failed|warnings?)[\"']?\s*[:=]\s*(?:0\b|\[\]|null\b|\(?none\b|false\b)"
)
_NOTHING_AT_ALL = re.compile(_NOTHING)
_tells_nothing = finder([_NOTHING])


def _may_tell_nothing(low: str) -> bool:
    """A quick look that saves a slow one, at half of all lines."""
    return (
        "0" in low or "no " in low or "none" in low or "null" in low or "[]" in low or "false" in low or "without " in low or "zero " in low
    )


def _is_harmless(line: str, low: str) -> bool:
    first = low.lstrip()[:1]  # Asked first, for most lines begin with a word, and patterns take longer.
    if first.isdigit():
        if _NUMBERED.match(line):  # a line of a file that was listed
            return True
    elif first == '"':
        if _FIELD_OF_JSON.match(low):
            return True
    elif first in _NOTE_BEGINS and _NOTE.match(low):
        return True
    if (first in "✓✔√o-" or " passed" in low or "... ok" in low) and _PASSED.match(low):
        return True
    colon = line.find(":")
    if 0 < colon < len(line) - 1 and " " not in line[: colon + 2] and _SEARCHED.match(line):  # a line that a search has found
        return True
    if "warning" in low and _WARNING.search(low):
        return True
    if "| echo " in low or "& echo " in low or "; echo " in low:  # a command that would say so, and not what it said
        return True
    if not (_may_tell_nothing(low) and _tells_nothing(low)):
        return False
    rest = _NOTHING_AT_ALL.sub("", low)  # "0 errors", and nothing else that went wrong
    return "error" not in rest and "fail" not in rest


_WORDS = sorted({word for words, _ in FORMS for word in words})
_RANKS = [sum(1 << rank for rank, (words, _) in enumerate(FORMS) if word in words) for word in _WORDS]
"""The forms that a word belongs to, as bits."""
_find_words = finder(re2.escape(word) for word in _WORDS)
_LAST_PROVING = max(rank for rank, (_, form) in enumerate(FORMS) if form in PROVING)
_PROVING = (2 << _LAST_PROVING) - 1
"""The forms up to the last that gives a strong line: one between them that gives a weak one still comes first."""
_UNSAFE = 1
_find_proof = finder([f"{PROOF}|{re2.escape(FRAME)}", CONTROLS])
