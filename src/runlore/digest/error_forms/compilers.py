"""Errors of compilers, linkers and linters: the first error, without its place.

A code is part of the name of the error.
"""

from __future__ import annotations

import re

from .line import ErrorLine

_PLACE = (
    r"(?:\S{0,200}?[\w)\]}.-]\.[A-Za-z]{1,10}|<stdin>|<string>)"
    r"(?::\d{1,7}(?:[:.]\d{1,7})?|\(\d{1,7}(?:,\d{1,7})?\)|:\[\d{1,7}(?:,\d{1,7})?\])"
)
_COMPILE = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (
            "rror",
            (
                rf"(?:.{{0,80}}? )??{_PLACE}\s?[:-]{{0,2}} ?(?:fatal )?[eE]rror"
                r" ?(?:(TS\d{3,6}|[A-Z]{1,6}\d{2,6}))?:? (.*)"
            ),
        ),
        ("error[", r"(?:.{0,60}?: )?error\[([A-Z]\d{2,5})\]: (.*)"),
        ("error ", r"(?:.{0,60}?[: ])?error (TS\d{3,6}|[A-Z]{1,6}\d{3,6}): (.*)"),
        ("/", rf"{_PLACE} ([a-z]+/[\w/-]{{3,80}})(.*)"),
        (
            " error",
            r"\s{0,6}\d{1,6}:\d{1,6}\s{1,4}error()\s{1,4}(.{5,300}?)(?:\s{2,}[\w@/-]{3,60})?\Z",
        ),
        (".", rf"(?:\.{{1,2}}/|#)?{_PLACE}: ()((?!warning|note|info)[\w`'\"].{{3,}})"),
    )
)
_WITH_PLACE = frozenset({0, 3, 5})
_MAY_BE_PLACE = re.compile(r":\d|\(\d|:\[")
_LINK = re.compile(
    r"(?:.{0,200}: )?(undefined reference to|duplicate symbol|Undefined symbols? for"
    r" architecture|ld: symbol\(s\) not found"
    r"|multiple definition of) ?(.*)"
)


def find_compiler_error(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    has_place = _MAY_BE_PLACE.search(line) is not None
    for number, (word, pattern) in enumerate(_COMPILE):
        if (
            word in line
            and (has_place or number not in _WITH_PLACE)
            and (match := pattern.match(line))
        ):
            code, message = match[1] or "", match[2].strip(" ━─═")
            if number == len(_COMPILE) - 1 and not _is_of_compiler(lines, n):
                return None
            return ErrorLine(
                "compile", f"{code} {message}".strip(), line.strip(), code, is_strong=number < 3
            )
    if ("ymbol" in line or "undefined ref" in line or "multiple def" in line) and (
        match := _LINK.match(line)
    ):
        return ErrorLine("compile", f"{match[1]} {match[2]}".strip(), line.strip(), is_strong=True)
    return None


_LINTED = re.compile(rf"(?:{_PLACE}: )?([A-Z]{{1,6}}\d{{2,5}}):? (?:\[\*\] )?(.{{5,}})")


def find_lint_error(lines: list[str], n: int) -> ErrorLine | None:
    """Return a finding like `file.py:1:2: F401 …`, or a code with an arrow to its place below."""
    line = lines[n - 1] if n and lines[n].lstrip().startswith("--> ") else lines[n]
    match = _LINTED.match(line)
    return ErrorLine("compile", f"{match[1]} {match[2]}", line.strip(), match[1]) if match else None


def _is_of_compiler(lines: list[str], n: int) -> bool:
    """Return True for a compiler's line that does not call itself an error.

    It looks like `file.go:1:2: undefined: x`, and so do the matches of a search. It must follow a
    `# package` line, or be a sentence about code.
    """
    above = lines[n - 1] if n else ""
    return above.startswith(("# ", "vet: ")) or bool(_ABOUT_CODE.search(lines[n]))


_ABOUT_CODE = re.compile(
    r": (?:undefined: |undefined name |cannot use |cannot find |not enough arguments|too many"
    r" arguments|syntax error|missing return"
    r"|declared and not used|imported and not used"
    r"|.{0,80} (?:redeclared in this block|declared and not used|imported and not used|is not a"
    r" type|undefined \(type|is not in std)"
    r"|invalid (?:operation|argument|syntax)"
    r"|no required module provides package|expected .{1,60}, found |unknown field |assignment"
    r" mismatch|multiple-value |unreachable code"
    r"|undeclared name)"
)
