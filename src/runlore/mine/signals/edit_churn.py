"""A file that is changed over and over in one session."""

from __future__ import annotations

from collections.abc import Iterator

from ..commands import short_path
from ..loci import FileLocus
from ..values import Case, Fleet, Signal

MIN_CHANGES = 10
"""One idea takes three or four changes; ten are several ideas about the same lines."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for path, count in case.digest.edits.items():
        if count >= MIN_CHANGES:
            yield Signal(
                type="edit_churn",
                polarity="problem",
                uid=case.uid,
                locus=FileLocus(short_path(path)),
                what=f"{short_path(path)} is changed over and over in one session",
                magnitude=count,
                is_local=True,
            )
