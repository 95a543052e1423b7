"""A tool that refuses the same call several times in one session: the agent does not know how it wants to be called."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal

FROM = 3
SHELL = "shell"


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for error in case.digest.errors:
        if error.count >= FROM and error.tool and error.action not in (None, SHELL):
            yield Signal(
                type="tool_thrash",
                polarity="problem",
                uid=case.uid,
                locus=f"{error.action}\0{error.signature.fingerprint}",
                what=f"{error.tool}: {error.signature.template}",
                seqs=error.seqs[:FROM],
                magnitude=error.count,
            )
