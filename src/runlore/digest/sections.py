"""The part of an output that is about one error, and the lines of code that it quotes.

A run may report several errors. The report on another error is no evidence for this one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import Signature
from .text import clean

_MAX_OUTPUT_CHARS = 20_000
"""Characters at each end of an output that are looked at."""
_MAX_LINES = 12
"""Lines before and after the line of an error that may belong to it."""
_MAX_TEST_LINES = 120
"""Lines of the report on one test."""
_ANCHOR_CHARS = 60
"""Characters by which the line of an error is recognized."""


def find_section(output: str, error: Signature, others: Sequence[Signature] = ()) -> str:
    """Return what an output says about an error: the lines around it, up to those about another.

    `others` are the other errors of the same output.
    """
    lines = _split(output)
    anchor, rest = _anchor(error), [_anchor(other) for other in others]
    plain = [" ".join(line.split()) for line in lines]
    at = next((n for n, line in enumerate(plain) if anchor in line), None)
    if at is None:
        return "\n".join([error.sample, *_find_report(lines, error)])
    borders = {n for n, line in enumerate(plain) if any(one in line for one in rest)}
    borders |= {n for n, line in enumerate(lines) if n != at and _BORDER.match(line)}
    last = min([at + _MAX_LINES, *(n for n in borders if n > at)])
    first = _find_begin(lines, at, borders) if error.kind != "compile" else at
    return "\n".join([*_find_report(lines, error), *lines[first:last]])


def _find_begin(lines: list[str], at: int, borders: set[int]) -> int:
    """Return the first line that belongs to the error at a line.

    Lines between the report on the error before and this one belong to the error before, unless
    its report ends with the line that begins a test.
    """
    before = max((n for n in borders if n < at), default=None)
    if before is None or lines[before].startswith("=== RUN"):
        return max(0, at - _MAX_LINES)
    return at


def find_source_lines(section: str) -> set[str]:
    """Return the lines of code that the report of an error quotes, without blanks around them."""
    lines = (_MARGIN.sub("", line).strip() for line in section.splitlines())
    return {line for line in lines if len(line) >= _MIN_CODE_CHARS and _CODE.search(line)}


def _split(output: str) -> list[str]:
    if len(output) > 2 * _MAX_OUTPUT_CHARS:
        output = f"{output[:_MAX_OUTPUT_CHARS]}\n{output[-_MAX_OUTPUT_CHARS:]}"
    return clean(output).splitlines()


def _anchor(error: Signature) -> str:
    return error.sample[:_ANCHOR_CHARS].rstrip("… ")


def _find_report(lines: list[str], error: Signature) -> list[str]:
    """Return the report on a failed test under its name, as in `____ test_load ____`."""
    match = _TEST_NAME.search(error.sample) if error.kind in ("test", "exception") else None
    if match is None:
        return []
    title = re.compile(rf"_{{3,}} (?:\S*\.)?{re.escape(match[1])} _{{3,}}")
    begin = next((n for n, line in enumerate(lines) if title.match(line)), None)
    if begin is None:
        return []
    body = lines[begin + 1 : begin + 1 + _MAX_TEST_LINES]
    end = next((n for n, line in enumerate(body) if _TITLE.match(line)), len(body))
    return body[:end]


_TEST_NAME = re.compile(r"::(\w+(?:\[[^\]]{1,80}\])?)(?=$|[\s)])")
_TITLE = re.compile(r"_{3,} .+ _{3,}\s*\Z|={4,} ")
_BORDER = re.compile(
    r"\s*--- (?:FAIL|PASS|SKIP)|=== RUN|\s*● |={4,} |_{3,} .+ _{3,}|FAILED \S+::|not ok "
)
"""The beginnings of lines that separate the reports on tests."""
_MARGIN = re.compile(r"\A\s*(?:[>E]\s+)?(?:>?\s*\d{1,6}\s*[|│:]\s?)?")
"""What stands before a quoted line: a mark, and its number."""
_MIN_CODE_CHARS = 6
_CODE = re.compile(r"[A-Za-z_]\w")
