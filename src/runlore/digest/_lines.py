"""The line that matters: of all that a failing command or tool printed, the one that says what is wrong.

A body is compared with the forms in which programs tell of errors, most telling first: the exception and not the traceback's header,
the compiler's first error, the failing test, the shell's message. Nothing here knows an agent; all is bounded.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

import re2

from ._clean import finder, window
from ._forms import FORMS, FRAME, LAST_COUNTS, Line, bare, python, with_test


def find(body: str) -> Line | None:
    """The line that matters, or None for a body in which nothing tells of an error."""
    head, tail = window(body)
    lines = _unframed(head)
    middle = len(lines)
    lines += tail
    if not lines:
        return None
    if has_frames(body) and (line := python(lines)) is not None:
        return with_test(line, lines)
    # Most bodies have few of the words of any form, so these are found first, in one pass of an automaton: 10 times as fast.
    everything = "\n" + "\n".join(lines).lower() + "\n"
    lowered = everything[1:-1].split("\n")
    asked: dict[int, list[str]] = {}
    for number in _find_words(everything):
        word, ranks = _WORDS[number]
        for rank in ranks:
            asked.setdefault(rank, []).append(word)
    starts = [0, *accumulate([len(low) + 1 for low in lowered])]
    harmless: dict[int, bool] = {}
    for rank in sorted(asked):
        form = FORMS[rank][1]
        for n in _lines_with(asked[rank], everything, starts, middle, from_end=form in LAST_COUNTS):
            if n not in harmless:
                harmless[n] = _is_harmless(lines[n], lowered[n])
            if not harmless[n] and (line := form(lines, n)) is not None:
                return with_test(line, lines) if line.kind == "exception" else line
    return None


def has_frames(body: str) -> bool:
    """Whether a body has a traceback in it."""
    return "Traceback (most recent" in body or FRAME in body


def may_tell(text: str) -> bool:
    """False when nothing in a text can be part of a line that tells of an error, but for a traceback."""
    return bool(_find_words(f"\n{text.lower()}\n"))


def _lines_with(words: list[str], everything: str, starts: list[int], middle: int, *, from_end: bool) -> list[int]:
    """The lines that have one of these words, as they come, or the last one first. Where only both ends of a body are seen, those of its
    end are always turned round, so that it makes no difference where it was cut."""
    if len(starts) <= 4:
        return list(range(len(starts) - 1))[:: -1 if from_end else 1]
    found: set[int] = set()
    for word in words:
        at = everything.find(word)
        for _ in range(MOST_TRIED):
            if at < 0:
                break
            n = bisect_right(starts, at)
            found.add(n - 1)
            at = everything.find(word, starts[n])
        if middle < len(starts) - 1:
            at = everything.rfind(word)
            for _ in range(MOST_TRIED):
                n = bisect_right(starts, at) - 1
                if at < 0 or n < middle:
                    break
                found.add(n)
                at = everything.rfind(word, 0, starts[n] + 1)
    order = sorted(found)
    if from_end:
        return order[::-1][:MOST_TRIED]
    cut = bisect_left(order, middle)
    return order[:cut][:MOST_TRIED] + order[cut:][::-1][:MOST_TRIED]


def plain(body: str, *, from_end: bool) -> Line | None:
    """A line of a body that is known to be of a failure, though nothing in it says so."""
    head, tail = window(body)
    lines = _unframed(head) + tail
    said = [line for line in (reversed(lines) if from_end else lines) if _WORDY.search(line) and not _NUMBERED.match(line)]
    return Line("text", bare(said[0]), said[0].strip()) if said else None


_WORDY = re.compile(r"[^\W\d_]{2}")


# What a tool puts around the output of a program: a status, a few fields, a word that says that the output follows, tags.
_STATUS = re.compile(
    r"(?:(?:Process )?(?:exited|finished|completed)? ?(?:with )?(?:exit|return)? ?(?:code|status):? -?\d{1,10}"
    r"|Exit code:? -?\d{1,10})\.?\Z",
    re.I,
)
_FIELD = re.compile(r"[A-Z][\w ]{1,30}:? [\w.:/-]{1,60}(?: (?:seconds?|ms|s|tokens?|lines?|bytes?))?\Z")
_OUTPUT = re.compile(r"(?:Output|Stdout|Stderr|STDOUT|STDERR|Result)(?: \([^)]{1,40}\))?:\Z")
_TAG = re.compile(r"\s*</?[a-z][\w-]{1,40}>")
_END_TAG = re.compile(r"</[a-z][\w-]{1,40}>\s*\Z")


def _unframed(lines: list[str]) -> list[str]:
    if not lines:
        return lines
    first = 0
    if "ode" in lines[0] or ":" in lines[0]:  # Exit code 1, or the first of some fields
        for n, line in enumerate(lines[:8]):
            if line[-1] == ":" and _OUTPUT.match(line):
                first = n + 1
                break
            if not (_FIELD.match(line) or _STATUS.match(line)):
                break
        if first == 0 and _STATUS.match(lines[0]):
            first = 1
    lines = lines[first:]
    if lines and lines[0].startswith("<") and (tag := _TAG.match(lines[0])):
        lines[0] = lines[0][tag.end() :]
    if lines and lines[-1].endswith(">"):
        lines[-1] = _END_TAG.sub("", lines[-1])
    return [line for line in lines if line]


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
    r"|\b(?:errors?|failures?|failed|warnings?)[\"']?\s*[:=]\s*(?:0\b|\[\]|null\b|none\b|false\b)"
)
_tells_nothing = finder([_NOTHING])


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
    if ("pass" in low or "ok" in low or first in "✓✔√") and _PASSED.match(low):
        return True
    if ":" in line.partition(" ")[0][:-1] and _SEARCHED.match(line):  # a line that a search has found
        return True
    if "warning" in low and _WARNING.search(low):
        return True
    if not _tells_nothing(low):
        return False
    rest = re.sub(_NOTHING, "", low)  # "0 errors", and nothing else that went wrong
    return "error" not in rest and "fail" not in rest


_WORDS = [
    (word, tuple(rank for rank, (words, _) in enumerate(FORMS) if word in words))
    for word in sorted({word for words, _ in FORMS for word in words})
]
_find_words = finder(re2.escape(word) for word, _ in _WORDS)
