"""Reports of a code host (GitHub, GitLab) in the output of its command line: checks that passed or
failed, and pull requests that were merged.

Pure functions over a command and its output. A report that is cut, still running or not understood
says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Result = Literal["pass", "fail"]

_MAX_CHARS = 200_000
_LOOKS_AT_CHECKS = re.compile(
    r"\bgh(?<!\wgh)\s+(?:pr\s+(?:checks|view|status)|run\s+(?:watch|view))\b"
    r"|\bglab(?<!\wglab)\s+(?:ci|pipeline)\s+(?:status|view|get)\b"
)
_EXITS_BY_RESULT = re.compile(
    r"\bgh\s+pr\s+checks\b|\bgh\s+run\s+(?:watch|view)\b[^|;&\n]*--exit-status\b"
)
"""Commands whose exit code is 0 only if all checks passed."""
_OF_RUN = re.compile(r"\bgh\s+run\b")
_TABLE = re.compile(r"^[^\t\n]+\t(pass|fail|pending|skipping|cancel)\t", re.MULTILINE)
"""A line of `gh pr checks`."""
_SUMMARY = re.compile(r"\bhas already completed with '(\w+)'|^([✓X]) \S.* · \d{5,}", re.MULTILINE)
"""The line of `gh run watch` or `gh run view` that names the run."""
_CONCLUSION = re.compile(r'\\?"(?:conclusion|bucket|state)\\?"\s*:\s*\\?"([A-Za-z_]*)\\?"')
_ROLLUP = ("statusCheckRollup", "bucket", "conclusion")
_GOOD = frozenset({"success", "pass", "neutral", "skipped", "skipping"})
_BAD = frozenset({"failure", "fail", "timed_out", "startup_failure", "error"})
_IGNORED = frozenset({"open", "merged", "closed", "completed"})
"""States of a pull request or of a job, which stand beside the conclusions."""

_MERGES = re.compile(r"\b(?:gh\s+pr|glab\s+mr)\s+merge\b([^|;&\n]*)")
_MERGES_BY_API = re.compile(r"\bgh\s+api\b[^|;&\n]*/pulls/(\d{1,9})/merge\b")
_MERGED_BY_API = re.compile(r'"merged"\s*:\s*true')
_VIEWS = re.compile(r"\b(?:gh\s+pr|glab\s+mr)\s+(?:view|status|list)\b([^|;&\n]*)")
_MERGED_NOW = re.compile(r"(?:[Mm]erged|Merged PR|Merged pull request)\b[^\n]{0,60}?#(\d{1,9})\b")
_MERGED_STATE = re.compile(r'\\?"state\\?"\s*:\s*\\?"MERGED\\?"|^state:\s+MERGED$', re.MULTILINE)
_NUMBER = re.compile(r"(?:^|[\s#/])(\d{1,9})\b")
_ADDRESS = re.compile(r"/(?:pull|merge_requests)/(\d{1,9})\b")


def may_report(command: str) -> bool:
    """Return True if a command may be one of a code host's command line; a fast check."""
    return "gh" in command or "glab" in command


def read_checks(command: str, output: str, exit_code: int | None, is_cut: bool) -> Result | None:
    """Return how the checks of CI ended, by a command that asks the code host about them.

    `is_cut` means that the exit code may be another program's, and that lines may be missing: then
    only a failure counts.
    """
    if not _LOOKS_AT_CHECKS.search(command):
        return None
    if exit_code == 0 and not is_cut and _EXITS_BY_RESULT.search(command):
        return None if "no checks" in output else "pass"
    words = set(_iter_results(command, output[:_MAX_CHARS]))
    if words & _BAD:
        return "fail"
    has_passed = words <= _GOOD and not words.isdisjoint({"success", "pass"})
    return "pass" if has_passed and not is_cut else None


def _iter_results(command: str, output: str) -> Iterator[str]:
    """Yield the result of each check in lower case, as the output names it."""
    yield from _TABLE.findall(output)
    if _OF_RUN.search(command):
        for word, mark in _SUMMARY.findall(output)[-1:]:
            yield word or ("success" if mark == "✓" else "failure")
    if any(name in command for name in _ROLLUP):
        for word in map(str.lower, _CONCLUSION.findall(output)):
            if word not in _IGNORED:
                yield word or "pending"


def find_merged(
    command: str, output: str, exit_code: int | None, is_cut: bool, own: frozenset[str]
) -> str | None:
    """Return the number of a pull request that was merged, "" if it has none in the command.

    `own` are the numbers of the pull requests that the session opened. Others are somebody else's,
    unless the session itself merged them.
    """
    merge = _MERGES.search(command)
    if merge is not None and "--auto" not in merge[1] and "--disable-auto" not in merge[1]:
        reported = _MERGED_NOW.search(output[:_MAX_CHARS])
        if reported is not None:
            return reported[1]
        if exit_code == 0 and not is_cut:
            return _number_in(merge[1])
    call = _MERGES_BY_API.search(command)
    if call is not None and _MERGED_BY_API.search(output[:_MAX_CHARS]):
        return call[1]
    view = _VIEWS.search(command)
    if view is not None and _MERGED_STATE.search(output[:_MAX_CHARS]):
        number = _number_in(view[1])
        return number if number in own or (not number and own) else None
    return None


def pull_request_number(address: str) -> str:
    """Return the number in the address of a pull request."""
    match = _ADDRESS.search(address)
    return match[1] if match else ""


def named_pull_request(command: str) -> str:
    """Return the number of the pull request that a command asks about; "" for the branch's own."""
    match = re.search(r"\b(?:gh\s+pr|glab\s+mr)\s+\w+\b([^|;&\n]*)", command)
    return _number_in(match[1]) if match else ""


def _number_in(words: str) -> str:
    match = _NUMBER.search(words.partition("--")[0]) or _ADDRESS.search(words)
    return match[1] if match else ""
