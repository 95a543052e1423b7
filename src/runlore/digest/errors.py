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
from .error_lines import find_error_line, find_error_lines, pick_plain_line
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
    return next(iter(signatures(text)), None)


def signatures(text: str) -> list[Signature]:
    """Return the signatures of all errors in a pasted or printed text: each failed test is one."""
    line = find_json_error(text)
    lines = [line] if line is not None else find_error_lines(text)
    if not lines and (line := pick_plain_line(text, from_end=False)) is not None:
        lines = [line]
    return list({one.fingerprint: one for one in map(build_signature, lines)}.values())


def signature_of_line(line: str) -> Signature | None:
    """Return the signature of an error in a line of a log; None if it holds no error."""
    error_line = find_error_line(line)
    return build_signature(error_line) if error_line is not None else None


def summarize_errors(attempts: Iterable[Attempt]) -> list[ErrorSummary]:
    """Return one summary for each fingerprint among the attempts."""
    by_fingerprint: dict[str, tuple[Signature, list[Attempt]]] = {}
    for attempt in attempts:
        for one in attempt.signatures:
            by_fingerprint.setdefault(one.fingerprint, (one, []))[1].append(attempt)
    return [_summarize(one, group) for one, group in by_fingerprint.values()]


def _summarize(signature: Signature, attempts: list[Attempt]) -> ErrorSummary:
    first = attempts[0]
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
        signature=signature,
        count=len(attempts),
        seqs=seqs if len(seqs) <= MAX_SEQS else (*seqs[: MAX_SEQS - 1], seqs[-1]),
        tool=event.tool if event else None,
        action=first.action,
        command=truncate(" ".join(called[: 2 * MAX_COMMAND_CHARS].split()), MAX_COMMAND_CHARS)
        or None,
    )
