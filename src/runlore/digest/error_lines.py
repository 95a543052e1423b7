"""The error line: of all that a failing command or tool printed, the line that says what is wrong.

A body is compared with the forms in which programs report errors, most specific first: the
exception and not the traceback's header, the compiler's first error, the failing test, the shell's
message. Nothing here knows an agent, and all work is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import re2

from .error_forms import (
    FORMS,
    FRAME,
    LAST_COUNTS,
    PROOF,
    PROVING,
    ErrorLine,
    Form,
    add_test_name,
    drop_repeated_tests,
    find_compiler_error,
    find_python_exception,
    find_test_failure,
    strip_prefix,
)
from .text import CONTROLS, HEAD_CHARS, TAIL_CHARS, build_finder, clean, join_wrapped, split_lines

NEAR_END, END = 1500, 4000
"""Characters at the end of an output where a program reports its failure, without and with blanks
after it."""


MAX_ERRORS = 10
"""The number of errors that are taken from one result."""


def find_error_lines(body: str, *, proof: bool = False) -> list[ErrorLine]:
    """Return the error line of a body, and after it those of its other failed tests, compiler
    errors or exceptions of tests. Empty if nothing in it reports an error.

    With `proof` only the forms that may prove an error are tried.
    """
    head, tail = split_lines(body)
    lines = join_wrapped(_strip_frame(head))
    middle = len(lines)
    lines += join_wrapped(tail)
    first = _find_first(body, lines, middle, proof=proof)
    if first is None:
        return []
    if first.kind not in _SEVERAL:
        return [first]
    others = (form(lines, n) for form in _SEVERAL[first.kind] for n in range(len(lines)))
    found = {first.message: first}
    for line in others:
        if line is not None and not _is_harmless(line.text, line.text.lower()):
            found.setdefault(line.message, line)
    errors = list(found.values())
    return (drop_repeated_tests(errors) if first.kind == "test" else errors)[:MAX_ERRORS]


def find_error_line(body: str, *, proof: bool = False) -> ErrorLine | None:
    """Return the error line of a body, or None if nothing in it reports an error."""
    return next(iter(find_error_lines(body, proof=proof)), None)


def _find_first(body: str, lines: list[str], middle: int, *, proof: bool) -> ErrorLine | None:
    """Return the line that says most, of lines without a frame."""
    if not lines:
        return None
    joined = "\n".join(lines)
    if (
        FRAME in joined
        and has_traceback(body)
        and (line := find_python_exception(lines)) is not None
    ):
        return add_test_name(line, lines)
    for form, candidates in _iter_forms(f"\n{joined.lower()}\n", len(lines), middle, proof=proof):
        for n in candidates:
            # Few lines match a form, so the slower check comes second.
            if (line := form(lines, n)) is not None and not _is_harmless(
                lines[n], lines[n].lower()
            ):
                return add_test_name(line, lines) if line.kind == "exception" else line
    return None


_SEVERAL: dict[str, tuple[Form, ...]] = {
    "test": (find_test_failure,),
    "compile": (find_compiler_error,),
}
"""The forms of which each match in a result is an error of its own."""


def _iter_forms(
    everything: str, count: int, middle: int, *, proof: bool
) -> Iterator[tuple[Form, Iterable[int]]]:
    """Yield the forms that may match, most specific first, each with the lines to try it on.

    Most bodies have few of the words of any form, so all words are searched for in one pass.
    """
    words_present = _find_words(everything)
    ranks = 0
    for number in words_present:
        ranks |= _RANKS[number]
    if proof:
        ranks &= _PROVING
    while ranks:
        rank = ranks & -ranks  # The lowest bit is the most specific form.
        ranks ^= rank
        form = FORMS[rank.bit_length() - 1][1]
        if count <= MAX_TRIED_ALL:
            yield form, range(count - 1, -1, -1) if form in LAST_COUNTS else range(count)
        else:
            words = [_WORDS[number] for number in words_present if _RANKS[number] & rank]
            yield (
                form,
                (_last_lines_with if form in LAST_COUNTS else _lines_with)(
                    words, everything, count, middle
                ),
            )


def has_traceback(body: str) -> bool:
    """Return True if a body has a Python traceback in it."""
    return "Traceback (most recent" in body or FRAME in body


def may_hold_proof(body: str) -> bool:
    """Return False if nothing near the end of a body can prove an error. This decides most
    bodies."""
    end = body[-END:].rstrip()[-NEAR_END:]
    matches = _find_proof(f"\n{end}\n")
    if _UNSAFE in matches:  # Few bodies need to be cleaned.
        matches = _find_proof(f"\n{clean(end)}\n")
    return bool(matches) or (len(body) > NEAR_END and _may_show_frames(body))


def _may_show_frames(body: str) -> bool:
    """Return False if the part of a body that is looked at has no frame of a traceback."""
    head, tail = body[:HEAD_CHARS], body[-TAIL_CHARS:]
    # With colours in it, a frame is recognized only after cleaning.
    return (
        FRAME in tail
        or FRAME in head
        or (("\x1b" in tail or "\x1b" in head) and has_traceback(body))
    )


def _lines_with(words: list[str], everything: str, count: int, middle: int) -> Iterator[int]:
    """Yield the lines that have one of these words, lazily.

    The first is often the last that is needed. Of a body that was cut in the middle, the lines of
    its end come in reverse order, so that it makes no difference where it was cut.
    """
    nexts, size = [everything.find(word) for word in words], len(everything)
    n, last = -1, 0
    for _ in range(MAX_TRIED):
        at = min(nexts)
        # The number of a line is the number of line breaks before it.
        n += everything.count("\n", last, at + 1)
        if at == size or n >= middle:
            break
        yield n
        last = everything.find("\n", at + 1)
        for i, was in enumerate(nexts):
            if was < last:
                at = everything.find(words[i], last)
                nexts[i] = at if at >= 0 else size  # Past the end if it does not occur any more.
    yield from _from_end(words, everything, count, middle)


def _last_lines_with(words: list[str], everything: str, count: int, middle: int) -> Iterator[int]:
    """Yield the same lines, the last one first."""
    left = MAX_TRIED
    for n in _from_end(words, everything, count, middle):
        yield n
        left -= 1
    numbers: set[int] = set()
    for word in words if left else ():
        at = everything.find(word)
        for _ in range(MAX_TRIED):
            if at < 0 or (n := _line_at(everything, at)) >= middle:
                break
            numbers.add(n)
            at = everything.find(word, everything.find("\n", at + 1))
    yield from sorted(numbers, reverse=True)[:left]


def _from_end(words: list[str], everything: str, count: int, middle: int) -> Iterator[int]:
    """Yield the lines after the middle that have one of these words, the last one first."""
    if middle == count:
        return
    lasts = [everything.rfind(word) for word in words]
    n, begin = count, len(everything)
    for _ in range(MAX_TRIED):
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


def pick_plain_line(body: str, *, from_end: bool) -> ErrorLine | None:
    """Return a line of the body of a failure in which nothing reports an error."""
    head, tail = split_lines(body)
    lines = _strip_frame(head) + tail
    ordered = reversed(lines) if from_end else lines
    line = next(
        (
            line
            for line in ordered
            if _WORDY.search(line) and not _begins_harmlessly(line.lstrip()[:1], line, line.lower())
        ),
        None,
    )
    return ErrorLine("text", strip_prefix(line), line.strip()) if line is not None else None


_WORDY = re.compile(r"[^\W\d_]{2}")


def count_lines(body: str) -> int:
    """Return the number of lines of an output, without the frame that a tool put around it."""
    head, tail = split_lines(body)
    return len(_strip_frame(head)) + len(tail)


# The frame that a tool puts around the output of a program: a status, a few fields, a word that
# announces the output, tags.
_STATUS = re.compile(
    r"(?:(?:Process )?(?:exited|finished|completed)? ?(?:with )?(?:exit|return)? ?(?:code|status):?"
    r" -?\d{1,10}"
    r"|Exit code:? -?\d{1,10})\.?\Z",
    re.I,
)
_FIELD = re.compile(
    r"[A-Z][\w ]{1,30}:? [\w.:/-]{1,60}(?: (?:seconds?|ms|s|tokens?|lines?|bytes?))?\Z"
)
MAX_FIELD_CHARS = 101  # No longer text can match either pattern.
_OUTPUT = re.compile(r"(?:Output|Stdout|Stderr|STDOUT|STDERR|Result)(?: \([^)]{1,40}\))?:\Z")
_TAG = re.compile(r"\s*</?[a-z][\w-]{1,40}>")
_END_STATUS = re.compile(
    r"(?i)[\[<(](?:exit(?: ?code)?:? -?\d{1,10}|rerun: \w{1,20}"
    r"|shellid: .{0,60}exit code \d{1,5})[\])>]\Z"
)
_END_TAG = re.compile(r"</[a-z][\w-]{1,40}>\s*\Z")


# The same as fields with names: `Command: make`, `Directory: (root)`, `Output: …`, `Error: (none)`,
# `Exit Code: 2`.
_NAMED_OUTPUT = re.compile(r"(?:Output|Stdout|Stderr|Error): (?=\S)")
_NAMED_OTHER = re.compile(
    r"(?:Command|Directory|Exit Code|Signal|Background PIDs|Process Group PGID):"
    r" |(?:Output|Stdout|Stderr|Error): \((?:empty|none)\)\Z"
)


def _strip_field_names(lines: list[str]) -> list[str]:
    """Return the output among named fields. A command may have several lines."""
    first = next((n for n, line in enumerate(lines) if line.startswith("Directory: ")), 0)
    return [
        _NAMED_OUTPUT.sub("", line, count=1)
        for line in lines[first:]
        if not _NAMED_OTHER.match(line)
    ]


def _strip_frame(lines: list[str]) -> list[str]:
    """Return the output without the frame that the tool put around it."""
    if not lines:
        return lines
    if lines[0].startswith("Command: "):
        return _strip_field_names(lines)
    lines = lines[_count_header_lines(lines) :]
    if lines and lines[0].startswith("<") and (tag := _TAG.match(lines[0])):
        lines[0] = lines[0][tag.end() :]
    if lines and lines[-1].endswith(">"):
        lines[-1] = _END_TAG.sub("", lines[-1])
    while lines and lines[-1][:1] in ("[", "<", "(") and _END_STATUS.match(lines[-1]):
        lines = lines[:-1]
    return list(filter(None, lines))


def _count_header_lines(lines: list[str]) -> int:
    """Return the number of lines before the output: fields up to `Output:`, or a status alone."""
    if "ode" not in lines[0] and ":" not in lines[0]:  # Neither `Exit code 1` nor a field.
        return 0
    for n, line in enumerate(lines[:8]):
        if line[-1] == ":" and _OUTPUT.match(line):
            return n + 1
        if not (len(line) <= MAX_FIELD_CHARS and (_FIELD.match(line) or _STATUS.match(line))):
            break
    return int(len(lines[0]) <= MAX_FIELD_CHARS and _STATUS.match(lines[0]) is not None)


MAX_TRIED_ALL = 3
"""With at most this many lines, a form looks at all of them."""
MAX_TRIED = 25
"""The number of lines at each end that a form looks at."""
_NUMBERED = re.compile(r"\s*\d{1,7}(?:[\t→|│]|\s*[|│]|[:-](?!\d)\s*\S)")
_FIELD_OF_JSON = re.compile(r"\s*\"(?!error|message|stderr|detail|exception)[\w-]{1,60}\":\s")
_SEARCH_MATCH = re.compile(
    r"[^\s:]{1,300}\.[^\s:.]{1,8}[:-]\d{1,7}[:-](?!\d{1,7}[: ])(?:\S|\s{2,}\S)"
)
_NOTE = re.compile(
    r"\s*(?:npm |yarn |pip"
    r" )?\[?(?:warning|warn|info|note|hint|debug|help|tip|notice|deprecated"
    r"|deprecationwarning)\b[:\]! ]"
)
_NOTE_BEGINS = frozenset("[npywihdt")
_PASSED = re.compile(
    r"\s*(?:[✓✔√] |ok \d|ok\s{2,}\S|--- pass:|.{1,300}(?: passed(?:\s*\[\s*\d{1,3}%\])?|\.\.\."
    r" ok)\Z)"
)
_WARNING = re.compile(r"[:\d)] ?-? warning\b[: ]")
_NOTHING = (
    r"(?:^|[^\w.])(?:0|no|zero|without(?: any)?) (?:type |lint(?:ing)? |syntax |fatal |new )?"
    r"(?:errors?|failures?|failed|failing|problems?|issues?|warnings?|conflicts?)\b"
    r"|\b(?:errors?|failures?|failed|warnings?)[\"']?\s*[:=]\s*(?:0\b|\[\]|null\b|\(?none\b"
    r"|false\b)"
)
_NOTHING_AT_ALL = re.compile(_NOTHING)
_find_nothing = build_finder([_NOTHING])


def _may_report_nothing(low: str) -> bool:
    """Return False for half of all lines, which saves the slow pattern."""
    return (
        "0" in low
        or "no " in low
        or "none" in low
        or "null" in low
        or "[]" in low
        or "false" in low
        or "without " in low
        or "zero " in low
    )


def _is_harmless(line: str, low: str) -> bool:
    """Return True for a line that looks like an error and is none. `low` is the line in lower
    case."""
    first = low.lstrip()[:1]  # Most lines begin with a letter, which saves most patterns.
    return (
        _begins_harmlessly(first, line, low)
        or (
            (first in "✓✔√o-" or " passed" in low or "... ok" in low)
            and _PASSED.match(low) is not None
        )
        or _is_search_match(line)
        or ("warning" in low and _WARNING.search(low) is not None)
        # A command that would print it, and not its output.
        or "| echo " in low
        or "& echo " in low
        or "; echo " in low
        or _reports_nothing(low)
    )


def _begins_harmlessly(first: str, line: str, low: str) -> bool:
    """Return True for a numbered line of a file, a field of JSON, or a note."""
    if first.isdigit():
        return _NUMBERED.match(line) is not None
    if first == '"':
        return _FIELD_OF_JSON.match(low) is not None
    return low.lstrip().startswith(_ABOUT_OTHERS) or (
        first in _NOTE_BEGINS and _NOTE.match(low) is not None
    )


_ABOUT_OTHERS = (
    "see ",
    "hint: see ",
    "exception ignored in",
    "the above exception was",
    "during handling of the above",
)
"""The beginnings of lines that only refer to a message."""


def _is_search_match(line: str) -> bool:
    """Return True for a line that a search in files printed."""
    colon = line.find(":")
    return (
        0 < colon < len(line) - 1
        and " " not in line[: colon + 2]
        and _SEARCH_MATCH.match(line) is not None
    )


def _reports_nothing(low: str) -> bool:
    """Return True for "0 errors" and the like, if nothing else went wrong."""
    if not (_may_report_nothing(low) and _find_nothing(low)):
        return False
    rest = _NOTHING_AT_ALL.sub("", low)
    return "error" not in rest and "fail" not in rest


_WORDS = sorted({word for words, _ in FORMS for word in words})
_RANKS = [
    sum(1 << rank for rank, (words, _) in enumerate(FORMS) if word in words) for word in _WORDS
]
"""The forms that each word belongs to, as bits."""
_find_words = build_finder(re2.escape(word) for word in _WORDS)
_LAST_PROVING = max(rank for rank, (_, form) in enumerate(FORMS) if form in PROVING)
_PROVING = (2 << _LAST_PROVING) - 1
"""The forms up to the last that may give a strong line. A form between them that gives a weak line
still comes first."""
_UNSAFE = 1
_find_proof = build_finder([f"{PROOF}|{re2.escape(FRAME)}", CONTROLS])
