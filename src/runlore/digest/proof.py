"""The proof that a call succeeded: its own exit code, the counts of tests, or words that only a
success has.

Silence proves nothing, and neither does the status of another program at the end of a pipe.
"""

from __future__ import annotations

import re

from . import Proof, Signature
from .attempts import Attempt

_END_CHARS = 3000
"""Characters at the end of an output in which a success is looked for."""


def find_proof(failed: Attempt, later: Attempt, body: str, error: Signature) -> Proof | None:
    """Return what proves that a later call succeeded; None if nothing does.

    `body` is the output of the later call. `failed` is the call that it repeats, with this error:
    only those parts of the later call count that it has in common with it.
    """
    if later.failed or later.result is None or _RUNNING.search(body[:400]):
        return None
    if later.action != "shell":
        return _find_proof_of_tool(failed)
    if _passed_tests(later, body):
        return "tests"
    if _has_own_status(failed, later):
        return "exit"
    return "output" if _says_success(body) or _was_accepted(later, body, error) else None


def _was_accepted(later: Attempt, body: str, error: Signature) -> bool:
    """Return True if a program that was not started or not loaded runs now: it prints something
    else.

    A pipe hides the exit code of a rejected command, and not the words of the shell or loader.
    """
    is_started = (is_rejected_by_shell(error) and _OF_SHELL.search(body) is None) or (
        fails_to_load(error) and _OF_LOADER.search(body) is None
    )
    return (
        is_started
        and later.result is not None
        and later.result.exit_code == 0
        and _WORD.search(body) is not None
    )


def is_rejected_by_shell(error: Signature) -> bool:
    """Return True for an error of the shell itself, which did not start the program."""
    return error.kind == "shell" and _OF_SHELL.search(error.template) is not None


_OF_SHELL = re.compile(
    r"(?i)command not found|no matches found|unmatched|bad substitution|parse error near"
)


def fails_to_load(error: Signature) -> bool:
    """Return True for an error of the loader: the program ended before its first line ran."""
    return error.kind == "exception" and _OF_LOADER.search(error.sample) is not None


_OF_LOADER = re.compile(
    r"\bNo module named\b|\bCannot find (?:module|package)\b|\bExport named .{1,80} not found\b"
    r"|\bdoes not provide an export named\b|\bERR_MODULE_NOT_FOUND\b"
    r"|\berror while loading shared libraries\b|\bcannot import name\b"
)
_WORD = re.compile(r"[^\W\d_]{2}")


_RUNNING = re.compile(
    r"(?i)process running with session|running in (?:the )?background|still running"
)
"""Commands that have not ended."""


def _find_proof_of_tool(failed: Attempt) -> Proof | None:
    """Return the proof of a tool that reports its failures: this time it reported none."""
    return "output" if failed.result is not None and failed.result.is_error else None


def _passed_tests(later: Attempt, body: str) -> bool:
    tests = later.result.tests if later.result else None
    if tests is not None:
        return bool(tests.passed) and not tests.failed
    end = body[-_END_CHARS:]
    return _TESTS_PASSED.search(end) is not None and _TESTS_FAILED.search(end) is None


_TESTS_PASSED = re.compile(
    r"(?m)^ok\s+\S+\s+(?:[\d.]+s|\(cached\))|^OK(?: \(\w[^)\n]{0,60}\))?$|^PASS$|^--- PASS: "
    r"|\b[1-9]\d{0,5} (?:tests? )?pass(?:ed|ing)\b|^test result: ok\."
)
_TESTS_FAILED = re.compile(
    r"(?m)^FAIL|^--- FAIL|\b[1-9]\d{0,5} (?:tests? )?(?:failed|failing|errors?)\b|^FAILED|^ERROR\b"
    r"|Traceback \(most recent|\[build failed\]"
)


def _has_own_status(failed: Attempt, later: Attempt) -> bool:
    """Return True if a good status is that of what had failed, and not of another part."""
    result = later.result
    if result is None or not (result.exit_code == 0 or _reports_failures(failed, later)):
        return False
    command = later.command
    shared = set(failed.command.heads) & set(command.heads) or set(command.heads[-1:])
    return bool(shared) and shared <= command.proven


def has_own_status(attempt: Attempt) -> bool:
    """Return True if the exit code of a command proves that all of its parts succeeded."""
    command = attempt.command
    is_fine = attempt.result is not None and attempt.result.exit_code == 0
    return is_fine and set(command.heads) <= command.proven


def _reports_failures(failed: Attempt, later: Attempt) -> bool:
    """Return True for a tool that reports no codes, but reported the failure: not so this time."""
    before, after = failed.result, later.result
    return (
        before is not None
        and after is not None
        and before.is_error
        and before.exit_code is None
        and after.exit_code is None
        and before.tool is not None
        and before.tool == after.tool
    )


def _says_success(body: str) -> bool:
    end = body[-_END_CHARS:]
    return _SUCCESS.search(end) is not None and _TROUBLE.search(end) is None


_SUCCESS = re.compile(
    r"(?im)^\W{0,4}(?:BUILD SUCCESS(?:FUL)?\b|build succeeded|compiled successfully|successfully"
    r" (?:installed|built|compiled|generated|created|updated|applied|rebased|merged)\b"
    r"|(?:webpack|next|vite|rollup|tsup|esbuild)?\W{0,4}(?:✓|✔|√) (?:built|compiled)\b"
    r"|all checks passed|success: no issues found|found 0 errors|0 errors?\b"
    r"|no (?:issues|errors|problems|lint errors) found"
    r"|finished `?\w{1,20}`? (?:profile|\[)|0 issues\.?$|checked \d{1,6} files? in .{1,20} no fixes"
    r"|successfully rebased and updated|fast-forward$|\[[\w./-]{1,100} [0-9a-f]{7,12}\] \S)"
    r"|^ {0,4}(?:\* \[new branch\]|[0-9a-f]{7,12}\.\.[0-9a-f]{7,12}) +\S+ -> \S+"
)
_TROUBLE = re.compile(
    r"(?im)\berror\b(?!s? (?:found|0)|s\b)|\bfail(?:ed|ure|ing)?\b(?!\W{1,3}0)|\bfatal\b|traceback"
    r"|timed out|timeout|syntax ?error|not found|denied|abort"
)
