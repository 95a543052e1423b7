"""Messages of git, of web services and of other tools, and lines that only have an error word."""

from __future__ import annotations

import re

from ..text import build_finder
from .line import ErrorLine

_WORDY = re.compile(r"[^\W\d_]{2}")
_GIT = re.compile(
    r"\s?!? ?\[(?:remote )?rejected\]\s{1,20}(?:\S{1,200} -> \S{1,200} )?(\(.{3,200}\))|(CONFLICT"
    r" \([\w/ ]{3,40}\)): |(fatal: .{3,})"
    r"|(error: could not apply) |(?:remote: )?(error: (?:GH\d|pathspec|Your local|could not"
    r" (?!compile)|cannot|The following|You have"
    r"|Pulling|src refspec|Signing).{3,})"
)
_speaks_http = build_finder(
    [
        r"(?i)\bHTTP(?:/[\d.]{1,3})?[ :]{1,2}(?:error |status )?[45]\d\d\b|\bstatus(?: code)?["
        r" :=]{1,3}[45]\d\d\b"
        r"|\bapi error[ :(]{1,3}[45]\d\d\b",
        r"(?i)\b(?:returned error|error)[: ]{1,2}[45]\d\d\b|^[45]\d\d"
        r" [A-Z]|\brate.?limit|\boverloaded\b|\bcontext (?:length|window)"
        r"|\busage limit|hit your limit",
        (
            r"(?i)\bECONN[A-Z]+|\bETIMEDOUT|\bENOTFOUND|could not resolve host|connection"
            r" (?:refused|reset|timed out)"
        ),
    ]
)
_SAYS_ERROR = re.compile(
    r"(?i)(?:\s{0,4}(?:[✗✕✖×❌] )?(?:\[?[\w@./:-]{1,60}[\]:] ){0,2}(?:\w{1,30}"
    r" )?\[?(?:fatal|error|err!|exception)\b[\]:! ]"
    r"|\S{1,60}: \*{3,4} |\s{0,4}[✗✕✖×❌] )(?P<message>.{2,})"
)
_WRAPPER_WORDS = (
    "exited with code", "exited with status", "exited with error", "command failed", "elifecycle",
    "some errors were emitted",
    "aborting due to", "could not compile",
    "task failed", "lint failed", "failed to push some refs", "test failed", "tests failed",
    "[build failed]", "for more information",
    "process completed with",
    "script failed", "build error occurred", "npm err! code", "npm err! errno", "npm err! path",
    "npm err! command",
    "npm err! a complete log",
)  # fmt: skip
_WRAPPER = re.compile(
    r"(?:\W*(?:error|fail(?:ed|ure)?)\W*\Z|fail\b|.{0,200}?(?:error \d{1,3}\Z|found \d{1,6}"
    r" errors?\b|\W*\d{1,6} (?:errors?|failures?"
    r"|failed|problems?)\b|build failed\b.{0,3}\Z))"
)
ERROR_WORDS = (
    "error", "exception", "fail", "fatal", "panic", "not found", "no such", "denied", "cannot",
    "can't", "couldn't", "could not",
    "unable", "undefined", "unknown", "invalid",
    "unexpected", "unrecognized", "refus", "reject", "timed out", "timeout", "abort", "missing",
    "conflict", "not recognized",
    "no match", "not ", "doesn't", "don't", "didn't",
    "isn't", "wasn't", "haven't", "hasn't", "must", "no rule", "already exists", "already in use",
    "already used", "already claimed",
    "expired", "exceed", "require", "blocked",
    "interrupt", "violat", "limit", "out of memory", "ignored by", "has been", "nothing to",
)  # fmt: skip


def _is_wrapper(low: str) -> bool:
    """Return True for a line that only reports that something inside has failed."""
    for word in _WRAPPER_WORDS:
        if word in low:
            return True
    return ("error" in low or "fail" in low or "problem" in low) and _WRAPPER.match(low) is not None


def _has_error_word(low: str) -> bool:
    for word in ERROR_WORDS:
        at = low.find(word)
        if at == 0 or (at > 0 and not low[at - 1].isalnum()):
            return True
    return False


def find_git_error(lines: list[str], n: int) -> ErrorLine | None:
    match = _GIT.match(lines[n])
    if match is None:
        return None
    rejected, conflict, fatal, unapplied, error = match.groups()
    if error and error.startswith(_SIGNING) and (cause := _find_cause_below(lines, n)):
        return ErrorLine("git", cause, cause, is_strong=True)
    if rejected:
        return ErrorLine("git", f"push rejected {rejected}", lines[n].strip(), is_strong=True)
    if conflict:
        return ErrorLine("git", conflict, lines[n].strip(), is_strong=True)
    return ErrorLine("git", fatal or unapplied or error, lines[n].strip(), is_strong=True)


_SIGNING = "error: Signing file "


def _find_cause_below(lines: list[str], n: int) -> str:
    """Return what the program that signs says below the line that only names a file."""
    below = lines[n + 1].strip() if n + 1 < len(lines) else ""
    return "" if below.startswith("fatal: ") else below


def find_http_error(lines: list[str], n: int) -> ErrorLine | None:
    return (
        ErrorLine("http", strip_prefix(lines[n]), lines[n].strip())
        if len(lines) < 60 and _speaks_http(lines[n][:200])
        else None
    )


def find_error_message(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    match = _SAYS_ERROR.match(line)
    if match is None or not _WORDY.search(match["message"]) or _is_wrapper(line.lower()):
        return None
    return ErrorLine("message", strip_prefix(line), line.strip())


def find_error_word(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    low = line.lower()
    if len(line) > 300 or not _has_error_word(low) or _is_wrapper(low):
        return None
    if line.endswith(_CODE_ENDS) or (n and _FRAME in lines[n - 1][:40]):
        return None
    if line.endswith(":") and len(line.split()) <= _MAX_TITLE_WORDS and n + 1 < len(lines):
        line = lines[n + 1]  # The title of a message.
    return ErrorLine("message", strip_prefix(line), line.strip())


_MAX_TITLE_WORDS = 3
_CODE_ENDS = ("(", "{", ";", "[")
_FRAME = '  File "'


def find_wrapper(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    low = line.lower()
    return (
        ErrorLine("message", strip_prefix(line), line.strip())
        if _is_wrapper(low) and _WORDY.search(_ONLY_FAILED.sub("", low))
        else None
    )


_ONLY_FAILED = re.compile(r"\b(?:error|fail(?:ed|ure)?|exit)\b")


PREFIX = re.compile(
    r"(?:\[[\w:./ -]{1,40}\] |[✗✕✖×❌●] |\S{1,80}\.\w{1,5}:\d{1,7}(?::\d{1,7})?:?"
    r" |\d{4}-\d\d-\d\d[T ][\d:.,]{5,18}Z? ){1,3}"
)


def strip_prefix(line: str) -> str:
    """Return a line without the marks, times and places that may stand before its message."""
    line = line.strip()
    if '\\"' in line:  # JSON within a text
        line = line.replace("\\n", " ").replace("\\", "")
    match = PREFIX.match(line)
    return line[match.end() :] or line if match else line
