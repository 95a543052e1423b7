"""The errors of a session: every error once, with its fingerprint and its occurrences.

Pure functions over events and their bodies as the store has them, that is without secrets.
`attempts` decides what is an error, `error_lines` chooses the line that matters, `templates` masks
the variable parts of the line; `families` brings similar fingerprints together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model import SessionEvent
from . import ErrorSummary, Signature
from .attempts import Attempt, find_attempts
from .error_lines import find_error_line, pick_plain_line
from .json_errors import find_json_error
from .signatures import build_signature
from .text import truncate

MAX_SEQS = 20
MAX_COMMAND_CHARS = 1000
"""Characters of a command that are kept, enough to compare it with another."""


def errors(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[ErrorSummary]:
    """Return the errors of a timeline, in the order of their first occurrence."""
    return summarize_errors(find_attempts(events, bodies))


def signature(text: str) -> Signature | None:
    """Return the signature of an error in a pasted or printed text; None if it has no word."""
    line = find_json_error(text) or find_error_line(text) or pick_plain_line(text, from_end=False)
    return build_signature(line) if line is not None else None


def signature_of_line(line: str) -> Signature | None:
    """Return the signature of an error in a line of a log; None if it holds no error."""
    error_line = find_error_line(line)
    return build_signature(error_line) if error_line is not None else None


def summarize_errors(attempts: Iterable[Attempt]) -> list[ErrorSummary]:
    """Return one summary for each fingerprint among the attempts."""
    by_fingerprint: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.signature is not None:
            by_fingerprint.setdefault(attempt.signature.fingerprint, []).append(attempt)
    return [_summarize(group) for group in by_fingerprint.values()]


def _summarize(attempts: list[Attempt]) -> ErrorSummary:
    first = attempts[0]
    assert first.signature is not None
    seqs = tuple(attempt.end_seq for attempt in attempts)
    event = first.call or first.result
    called = (
        first.text
        if first.action == "shell"
        else next(iter(event.files), "")
        if event and event.files
        else ""
    )
    return ErrorSummary(
        signature=first.signature,
        count=len(attempts),
        seqs=seqs if len(seqs) <= MAX_SEQS else (*seqs[: MAX_SEQS - 1], seqs[-1]),
        tool=event.tool if event else None,
        action=first.action,
        command=truncate(" ".join(called[: 2 * MAX_COMMAND_CHARS].split()), MAX_COMMAND_CHARS)
        or None,
    )
