"""Sessions that outgrow the model's context more than once."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal

FROM = 2
"""Compactions. One is a long session; with the second, what was said at first is known only from a summary of a summary."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    if case.digest.compactions >= FROM:
        yield Signal(
            type="context_pressure",
            polarity="problem",
            uid=case.uid,
            locus="context",
            what="the context is compacted more than once in a session",
            magnitude=case.digest.compactions,
            usd=case.usd,
            is_local=True,
        )
