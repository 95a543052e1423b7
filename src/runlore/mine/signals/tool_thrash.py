"""A tool that answers with the same error several times in a session: it is called wrongly."""

from __future__ import annotations

from collections.abc import Iterator

from ..loci import ToolErrorLocus
from ..values import Case, Fleet, Signal

MIN_ERRORS = 3


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for error in case.digest.errors:
        if error.count >= MIN_ERRORS and error.tool and error.action not in (None, "shell"):
            yield Signal(
                type="tool_thrash",
                polarity="problem",
                uid=case.uid,
                locus=ToolErrorLocus(
                    error.signature.fingerprint, action=str(error.action), tool=error.tool
                ),
                what=f"{error.tool}: {error.signature.template}",
                seqs=error.seqs[:MIN_ERRORS],
                magnitude=error.count,
            )
