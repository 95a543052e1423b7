"""Tokens of a run of the program: what its messages told, and what is left of its totals. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...model import Usage


class Counts(msgspec.Struct, array_like=True, gc=False):
    """Tokens, added up."""

    input: int = 0
    output: int = 0
    read: int = 0
    written: int = 0
    thought: int = 0

    def plus(self, used: Usage) -> Counts:
        other = counts_of(used)
        return Counts(
            *(
                a + b
                for a, b in zip(
                    msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True
                )
            )
        )

    def minus(self, other: Counts) -> Counts:
        return Counts(
            *(
                max(0, a - b)
                for a, b in zip(
                    msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True
                )
            )
        )

    def usage(self) -> Usage:
        return Usage(
            input_tokens=self.input, output_tokens=self.output, cache_read_tokens=self.read,
            cache_write_tokens=self.written,
            reasoning_tokens=self.thought,
        )  # fmt: skip


def counts_of(used: Usage) -> Counts:
    return Counts(
        used.input_tokens,
        used.output_tokens,
        used.cache_read_tokens,
        used.cache_write_tokens,
        used.reasoning_tokens,
    )


def unaccounted(
    told: Mapping[str, Counts], run: Mapping[str, Counts], before: Mapping[str, Counts]
) -> dict[str, Counts]:
    """Return what the totals at the end of a run have beyond what was counted in it, by model. In
    some versions the totals include earlier runs. The messages tell which it is, as they have the
    output of each."""
    output, own = (sum(counts.output for counts in part.values()) for part in (told, run))
    all_runs = own + sum(counts.output for counts in before.values())
    is_whole = bool(before) and abs(output - all_runs) < abs(output - own)
    left = {}
    for name, counts in told.items():
        known = run.get(name, Counts())
        left[name] = counts.minus(
            known.plus(before[name].usage()) if is_whole and name in before else known
        )
    return left
