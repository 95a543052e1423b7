"""Failed tests, by the reports of test runners.

An exception is the same with and without a test runner; failed assertions differ by their test.
"""

from __future__ import annotations

import re
from itertools import takewhile

from .line import ErrorLine
from .messages import PREFIX

_ASSERTIONS = frozenset(
    {
        "AssertionError",
        "Failed",
        "AssertionFailedError",
        "ComparisonFailure",
        "ExpectationNotMetError",
        "TestFailure",
    }
)
_TEST_NAMES = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (
            "::",
            (
                r"(?:FAILED|ERROR) (\S{1,300}?\.py(?:::[^\s\[]{1,200}){1,4})(?:\[.{0,200}?\])?(?: -"
                r" |\s*\Z)"
            ),
        ),
        ("::", r"(\S{1,300}?\.py(?:::[^\s\[]{1,200}){1,4})(?:\[.{0,200}?\])? (?:FAILED|ERROR)\b"),
        (
            "___",
            (
                r"_{3,40} ((?:ERROR \w+ \w+ (?:of )?)?[A-Za-z_][\w.]{2,200})(?:\[.{0,100}\])?"
                r" _{3,40}\Z"
            ),
        ),
        (": ", r"(?:FAIL|ERROR): (\w{1,200} \([\w.]{1,200}\))"),
        ("--- FAIL: ", r"\s*--- FAIL: (\S{1,200})"),
        ("FAILED", r"test (\S{1,300}) \.\.\. FAILED\Z"),
        ("(fail) ", r"\s*\(fail\) (.{1,300}?)(?: \[[\d.]+ ?m?s\])?\Z"),
        ("● ", r"\s{0,4}● (.{3,300}? › .{1,300}?|Test suite failed to run)\Z"),
        (" > ", r"\s*FAIL\s{1,4}(\S{1,200} > .{1,300}?)(?: \[|\Z)"),
        ("not ok ", r"not ok \d{1,6} - (.{1,300}?)\Z"),
        ("rspec ", r"rspec (\S{1,200}) # "),
        ("", r"\s*(?:✗|✕|✖) (.{3,300}?[^.])(?: \([\d.]+ ?m?s\)| \[[\d.]+ ?m?s\]| \d+ ?ms)?\Z"),
        ("ERROR", r"(?:\[ERROR\]\s{1,4}|\s{2,4})(\w{1,100}(?:Test|Tests|IT)\.\w{1,100}):\d{1,6} "),
        ("FAILED: ", r"\s*FAILED: (\w[\w.: ]{1,200}?)\Z"),
    )
)
_TEST_BEGINS = frozenset("FE_-t(●nr✗✕✖")
"""The first characters of those lines that contain neither `.py::` nor `ERROR`."""
_FOLDERS = re.compile(r"\S*/(?=[\w.-]+\.\w+)")


def find_test_failure(lines: list[str], n: int) -> ErrorLine | None:
    line = PREFIX.sub("", lines[n], count=1) if lines[n].startswith("[") else lines[n]
    # This rules out most lines: a log may have `::` in every one of them.
    if line.lstrip()[:1] not in _TEST_BEGINS and ".py::" not in line and "ERROR" not in line:
        return None
    for word, pattern in _TEST_NAMES:
        if word in line and (match := pattern.match(line)):
            name = _FOLDERS.sub("", match[1]) if "/" in match[1] else match[1]
            return ErrorLine(
                "test",
                f"failed test: {name}",
                line.strip(),
                detail=_find_reason(lines, n, match),
                # Below `PASSES` there are headings of passed tests.
                is_strong=word != "___",
            )
    if package := _GO_PACKAGE.match(line):
        return ErrorLine("test", f"failed package: {package[1]}", line.strip(), is_strong=True)
    return None


_GO_PACKAGE = re.compile(r"FAIL\s{1,4}(\S{1,300})\s{1,4}(?:\[build failed\]|[\d.]+s)\Z")
_SAYS_WHY = re.compile(
    r"(?i)\s{2,}(?:\S{1,100}:\d{1,6}: |E\s+|(?=Error|Expect|Assert|Received|panic|\w+Error))"
    r"(.{4,300})"
)


def _find_reason(lines: list[str], n: int, match: re.Match[str]) -> str:
    """Return why a test failed: what stands in its line or below it, and with `go test -v` what it
    printed before."""
    if "--- FAIL: " in match[0] and any(_GO_RUNS.match(line) for line in lines[:n]):
        return _find_go_reason(lines[:n], match[1])
    return _find_assertion(match.string[match.end() :], lines[n + 1 : n + 4])


def _find_go_reason(above: list[str], test: str) -> str:
    """Return the last message that a test printed while it ran."""
    for n in range(len(above) - 1, -1, -1):
        runs = _GO_RUNS.match(above[n])
        if runs is None or runs[1] != test:
            continue
        printed = list(takewhile(lambda line: not _GO_MARKS.match(line), above[n + 1 :]))
        if reason := _find_assertion("", printed[::-1]):
            return reason
    return ""


_GO_RUNS = re.compile(r"=== (?:RUN|NAME|CONT)\s+(\S+)\Z")
_GO_MARKS = re.compile(r"=== |\s*--- ")


def _find_assertion(rest: str, below: list[str]) -> str:
    """Return what a failed test expected: after its name, or in the lines below it."""
    if len(rest.strip(" -.:()[]")) > 8 and not rest.lstrip().startswith(("[", "(")):
        return rest.strip(" -:")
    for line in below:
        if match := _SAYS_WHY.match(line):
            return match[1].strip()
    return ""


def drop_repeated_tests(tests: list[ErrorLine]) -> list[ErrorLine]:
    """Return failed tests without those that stand for others: the heading of a test that a summary
    names with its file, the parent of a subtest, the package of a test."""
    names = [test.message.removeprefix("failed test: ") for test in tests]
    has_files = any(".py::" in name for name in names)

    def stands_for_others(name: str) -> bool:
        return (
            (has_files and ".py::" not in name)
            or any(other.startswith(f"{name}/") for other in names)
            or name.startswith("failed package: ")
        )

    kept = [test for test, name in zip(tests, names, strict=True) if not stands_for_others(name)]
    return kept or tests


def add_test_name(line: ErrorLine, lines: list[str]) -> ErrorLine:
    """Add the name of the test to a failed assertion, which says little without it.

    The name is near the end.
    """
    if line.name.rpartition(".")[2] not in _ASSERTIONS:
        return line
    for n in range(len(lines) - 1, -1, -1):
        if (test := find_test_failure(lines, n)) is not None:
            return ErrorLine(
                "test",
                test.message,
                f"{line.text} ({test.message.removeprefix('failed test: ')})",
                detail=test.detail or line.message,
                is_strong=True,
            )
    return line
