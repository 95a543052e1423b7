"""A file that is changed over and over in one session."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal
from ._words import place

FROM = 10
"""Changes. Those of one thought come in threes and fours; ten are several thoughts about the same lines."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for path, count in case.digest.edits.items():
        if count >= FROM:
            yield Signal(
                type="edit_churn",
                polarity="problem",
                uid=case.uid,
                locus=place(path),
                what=f"{place(path)} is changed over and over in one session",
                magnitude=count,
                is_local=True,
            )
