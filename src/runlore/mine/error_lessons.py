"""The lesson on an error, drafted from all patterns with its fingerprint.

Several miners report errors: one that recurs, one that was fixed, one that a tool keeps answering
with, a flaky test. What they know of the same error becomes one lesson, so they share this
`draft()`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..text.clean import one_line
from .drafts import Draft, Group, hash_id, only_one
from .ends import (
    RETRY_KEY,
    End,
    count_evidence,
    describe_common_fix,
    find_common_ends,
    find_error_ends,
)
from .loci import ErrorLocus, FlakyTestLocus, ToolErrorLocus
from .values import Pattern

RUN_AGAIN = (
    "Run it again before you change anything: it has passed then, with nothing done in between."
)


def find_ends(group: Group) -> list[End]:
    """Return how the error ended in each session that shows one of the patterns."""
    return find_error_ends(group.patterns[0].locus.error, group.cases)


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    """Propose what ended the error in most sessions; None if nothing did in enough of them."""
    patterns = group.patterns
    common = find_common_ends(_usable_ends(patterns, ends), group.min_sessions)
    if not common:
        return None
    fingerprint, key = patterns[0].locus.error, common[0].key
    agents = sorted({agent for pattern in patterns for agent in pattern.agents})
    tool_error = next(
        (pattern.locus for pattern in patterns if isinstance(pattern.locus, ToolErrorLocus)), None
    )
    return Draft(
        id=hash_id(fingerprint, key),
        kind="flaky" if key == RETRY_KEY else "error",
        when=_describe_problem(patterns),
        do=describe_common_fix(common) if common[0].fix else RUN_AGAIN,
        repo=only_one(sorted({repo for pattern in patterns for repo in pattern.repos})),
        # Tools belong to an agent: the name of one means nothing to another.
        agent=only_one(agents) if tool_error else "",
        tool=one_line(tool_error.tool) if tool_error and len(agents) == 1 else "",
        fingerprint=fingerprint,
        key=key,
        signals=max(pattern.signals for pattern in patterns),
        last_at=max(pattern.last_at for pattern in patterns),
        **count_evidence(common, ends),
    )


def _usable_ends(patterns: Sequence[Pattern], ends: Sequence[End]) -> list[End]:
    """Return the ends that a lesson may propose. Only a flaky test is worth a plain retry."""
    is_flaky = any(isinstance(pattern.locus, FlakyTestLocus) for pattern in patterns)
    return [end for end in ends if end.key != RETRY_KEY or is_flaky]


def _describe_problem(patterns: Sequence[Pattern]) -> str:
    """Return the error in the words of the plainest pattern, which is that of a recurring error."""
    plainest = max(patterns, key=lambda pattern: (_is_recurring_error(pattern), pattern.sessions))
    locus = plainest.locus
    return one_line(locus.template if isinstance(locus, ErrorLocus) else plainest.what)


def _is_recurring_error(pattern: Pattern) -> bool:
    return isinstance(pattern.locus, ErrorLocus) and pattern.polarity == "problem"
