"""The attempts behind one message, as `usage.iterations` lists them.

The figures of a message are those of the attempts that gave its answer. Others were billed as well
and stand in the list alone: what an adviser was asked, what a model refused before another one
answered, what a compaction on the server took.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from .lines import CacheCreation, Counts, Iteration, Tokens
from .words import tokens

ADVICE, COMPACTION, FALLBACK, MESSAGE = (
    "advisor_message",
    "compaction",
    "fallback_message",
    "message",
)

Extra = tuple[str, Iteration]
"""An attempt that is billed beside the message: what its key ends with, and its figures."""


def split_attempts(counts: Counts, model: str | None) -> tuple[Counts, list[Extra]]:
    """Return the figures of a message, and the attempts that are not in them.

    `model` is the one that gave the answer.
    """
    listed = counts.iterations
    if not listed:
        return counts, []
    numbered = list(enumerate(listed))
    advice = [(f"adviser-{n}", part) for n, part in numbered if part.type == ADVICE]
    attempts = [(n, part) for n, part in numbered if part.type != ADVICE]
    given = tokens(counts)
    if not attempts or _total([part for _, part in attempts]) == given:
        return counts, advice
    others = {n for n, _ in _others(attempts, model)}
    own = [part for n, part in attempts if n not in others]
    if others and tokens(attempts[-1][1]) == given:
        own = [attempts[-1][1]]  # Only the last attempt is in the message's own figures.
    extra = [(f"attempt-{n}", part) for n, part in attempts if not any(part is one for one in own)]
    return _at_least(counts, own), advice + extra


def _others(
    attempts: Sequence[tuple[int, Iteration]], model: str | None
) -> list[tuple[int, Iteration]]:
    """Return the attempts that did not give the answer."""
    has_fallback = any(part.type == FALLBACK for _, part in attempts)
    return [
        (n, part)
        for n, part in attempts
        if part.type == COMPACTION
        or (has_fallback and part.type == MESSAGE)
        or (part.model is not None and part.model != model)
    ]


def _at_least(counts: Counts, own: Sequence[Iteration]) -> Counts:
    """Return the figures of a message, which are no less than the sum of its own attempts."""
    given, found = tokens(counts), _total(own)
    if all(one >= other for one, other in zip(given, found, strict=True)):
        return counts
    split = [part.cache_creation for part in own if part.cache_creation]
    return replace(
        counts,
        input_tokens=max(given[0], found[0]),
        output_tokens=max(given[1], found[1]),
        cache_read_input_tokens=max(given[2], found[2]),
        cache_creation_input_tokens=max(given[3], found[3]),
        cache_creation=counts.cache_creation
        if given[3] >= found[3]
        else CacheCreation(
            sum(part.ephemeral_5m_input_tokens or 0 for part in split),
            sum(part.ephemeral_1h_input_tokens or 0 for part in split),
        ),
    )


def _total(parts: Sequence[Iteration]) -> Tokens:
    found = [tokens(part) for part in parts]
    return (
        sum(one[0] for one in found),
        sum(one[1] for one in found),
        sum(one[2] for one in found),
        sum(one[3] for one in found),
    )
