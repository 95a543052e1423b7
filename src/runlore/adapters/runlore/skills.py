"""Attempts and checks of skills in a live session log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..shared.tools import text_of
from .usage import MAX_COUNT

_FAILURES = frozenset({"fail", "failed", "failure", "error"})


class Attempt(msgspec.Struct):
    """An attempt for reading. `word` is verified, failed or unchecked."""

    body: str
    error: str | None
    word: str
    checks: list[Any]


def attempt_of(payload: Mapping[str, Any]) -> Attempt:
    error = payload.get("error")
    texts = [payload.get(name) for name in ("output_summary", "runner_output", "feedback", "error")]
    listed = payload.get("checks")
    checks = listed if isinstance(listed, list) else []
    verdicts = [
        check.get("passed")
        for check in checks
        if isinstance(check, dict) and isinstance(check.get("passed"), bool)
    ]
    word = "unchecked" if not verdicts else "verified" if all(verdicts) else "failed"
    body = "\n".join([text for text in texts if isinstance(text, str) and text])
    return Attempt(body, error if isinstance(error, str) and error else None, word, checks)


def attempt_line(payload: Mapping[str, Any], word: str) -> str:
    model = payload.get("model")
    by = f" by {model}" if isinstance(model, str) and model else ""
    return f"attempt {text_of(payload.get('attempt'))}{by}: {word}"


class Check(msgspec.Struct):
    command: str | None
    passed: bool | None
    exit_code: int | None
    detail: str
    summary: str

    @property
    def is_meant_to_fail(self) -> bool:
        """True if it passed because its command failed: the red phase of a test."""
        return self.passed is True and bool(self.exit_code)


def check_of(check: Any) -> Check | None:
    """Return a check of an attempt; None if the value is no check."""
    if not isinstance(check, dict):
        return None
    command, detail = check.get("command"), check.get("detail")
    code = (
        check["exit_code"]
        if type(check.get("exit_code")) is int and abs(check["exit_code"]) < 1 << 31
        else None
    )
    passed = check["passed"] if isinstance(check.get("passed"), bool) else None
    word = "not known" if passed is None else "passed" if passed else "failed"
    if passed and code:
        word = f"passed with exit code {code}"
    return Check(
        command=command if isinstance(command, str) and command else None,
        passed=passed,
        exit_code=code,
        detail=detail if isinstance(detail, str) else "",
        summary=f"by {text_of(check.get('by'))}: {word}",
    )


def is_failure(status: str) -> bool:
    return status.strip().lower() in _FAILURES


def milliseconds(value: Any) -> int | None:
    return (
        int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
        else None
    )
