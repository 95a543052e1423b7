"""Results of calls in Grok Build's transcripts: text, exit code, refusal, summary. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...model import Tests
from ..shared.pick import pick
from ..shared.tools import key_values, one_line, text_of
from .texts import block_text, contents

REFUSALS = ("User cancelled the execution for tool", "User rejected")
_EXIT = re.compile(r"(?:exit|exit code|Exit code):? (-?\d{1,9})\s*(?:\n|\Z)")


class Outcome(msgspec.Struct, gc=False):
    text: str
    is_error: bool
    exit_code: int | None
    cwd: str | None


def outcome_of(update: dict[str, Any], log: str | None) -> Outcome:
    """Return the result of a call. `log` is the whole output of a command, where the record has
    only a part of it."""
    raw = update.get("rawOutput")
    about = raw if isinstance(raw, dict) else {}
    exit_code = exit_number(about.get("exit_code", about.get("exitCode")))
    is_killed = about.get("timed_out") is True or bool(about.get("signal"))
    is_error = (
        pick(update, "status", of=str) == "failed"
        or bool(exit_code)
        or is_killed
        or _is_refused(about)
    )
    text = (
        log
        or pick(about, "output_for_prompt", of=str)
        or "\n".join(block_text(item) for item in contents(update))
    )
    return Outcome(
        text or _loose_text(raw), is_error, exit_code, pick(about, "current_dir", of=str)
    )


def exit_number(code: Any) -> int | None:
    return code if type(code) is int and abs(code) < 1 << 31 else None


def exit_in(text: str) -> int | None:
    """Return the exit code that comes before a command's output in the model's context."""
    match = _EXIT.match(text)
    return int(match[1]) if match else None


def is_refusal(text: str, exit_code: int | None) -> bool:
    """Return True if a person refused the call. The same words in a command's output do not
    count."""
    return exit_code is None and text.startswith(REFUSALS)


def result_summary(text: str, exit_code: int | None, tests: Tests | None) -> str:
    if tests is not None:
        counts = (("passed", tests.passed), ("failed", tests.failed), ("skipped", tests.skipped))
        return ", ".join(f"{count} {word}" for word, count in counts if count) or "no tests"
    line = one_line(text.removeprefix(f"exit: {exit_code}\n"))
    if not exit_code:
        return line
    return f"exit {exit_code}: {line}" if line else f"exit {exit_code}"


def _is_refused(about: dict[str, Any]) -> bool:
    """Return True if an edit was refused. A field of its result names its outcome: `EditsApplied`,
    or the reason why it was not possible."""
    if about.get("type") not in ("SearchReplace", "HashlineEdit", "ApplyPatch"):
        return False
    words = [name for name in about if name[:1].isupper()]
    return bool(words) and not any(
        "Applied" in word or "Created" in word or "Written" in word for word in words
    )


def _loose_text(raw: Any) -> str:
    """Return the output when no field is meant for reading. Bytes that are written as numbers are
    counted, never read: redaction cannot see secrets in them."""
    if not isinstance(raw, dict):
        return text_of(raw)
    plain = {
        name: f"[{len(value)} bytes]" if is_bytes(value) else value
        for name, value in raw.items()
        if name != "type"
    }
    texts = [
        plain[name]
        for name in ("output", "error", "message", "content")
        if isinstance(plain.get(name), str)
    ]
    return "\n".join(texts) if texts else key_values(plain)


def is_bytes(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(type(item) is int for item in value)
