"""What went wrong in a session: every error once, with its fingerprint, a sample, how often it was seen and where.

Pure functions over events and their bodies as the store has them, that is without secrets. `attempts` decides what is an error,
`error_lines` which line of it matters, `templates` what of the line is left out; `families` brings near fingerprints together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model import SessionEvent, shorten
from . import ErrorSummary, Signature
from .attempts import Attempt, attempts_of
from .error_lines import find, plain
from .json_errors import line_of_json
from .signatures import sign

MOST_SEQS = 20


def errors(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[ErrorSummary]:
    """The errors of a timeline, in the order in which they were first seen."""
    return errors_in(attempts_of(events, bodies))


def signature(text: str) -> Signature | None:
    """Which error a text tells of, as it was pasted or printed; None for a text without a word."""
    line = line_of_json(text) or find(text) or plain(text, from_end=False)
    return sign(line) if line is not None else None


def signature_of_line(line: str) -> Signature | None:
    """Which error a line of a log tells of; None when it tells of none."""
    found = find(line)
    return sign(found) if found is not None else None


def errors_in(attempts: Iterable[Attempt]) -> list[ErrorSummary]:
    seen: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.signature is not None:
            seen.setdefault(attempt.signature.fingerprint, []).append(attempt)
    return [_error(of_one) for of_one in seen.values()]


def _error(attempts: list[Attempt]) -> ErrorSummary:
    first = attempts[0]
    assert first.signature is not None
    seqs = tuple(attempt.end_seq for attempt in attempts)
    event = first.call or first.result
    called = first.text if first.action == "shell" else next(iter(event.files), "") if event and event.files else ""
    return ErrorSummary(
        signature=first.signature,
        count=len(attempts),
        seqs=seqs if len(seqs) <= MOST_SEQS else (*seqs[: MOST_SEQS - 1], seqs[-1]),
        tool=event.tool if event else None,
        action=first.action,
        command=shorten(" ".join(called[:1000].split())) or None,
    )
