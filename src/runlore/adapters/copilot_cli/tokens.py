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


UNNAMED = ""
"""The name under which the tokens of messages are counted that do not say which model wrote
them."""


def unaccounted(
    told: Mapping[str, Counts], run: Mapping[str, Counts], before: Mapping[str, Counts]
) -> tuple[dict[str, Counts], dict[str, Counts]]:
    """Return what the totals at the end of a run have beyond what was counted in it, and what was
    counted, both by model. In some versions the totals include earlier runs. The messages tell
    which it is, as they have the output of each."""
    output, own = (sum(counts.output for counts in part.values()) for part in (told, run))
    all_runs = own + sum(counts.output for counts in before.values())
    is_whole = bool(before) and abs(output - all_runs) < abs(output - own)
    earlier = before if is_whole else {}
    counted = _with_names(told, run, earlier)
    left = {
        name: counts.minus(counted.get(name, Counts()).plus(earlier.get(name, Counts()).usage()))
        for name, counts in told.items()
    }
    return left, counted


def _with_names(
    told: Mapping[str, Counts], run: Mapping[str, Counts], earlier: Mapping[str, Counts]
) -> dict[str, Counts]:
    """Return what was counted, with the part without a model given to those whose totals have room
    for it, the largest first."""
    named = {name: counts for name, counts in run.items() if name != UNNAMED}
    rest = run.get(UNNAMED, Counts())
    rooms = {
        name: counts.output - named.get(name, Counts()).output - earlier.get(name, Counts()).output
        for name, counts in told.items()
    }
    for name in sorted(rooms, key=lambda name: (-rooms[name], name)):
        is_last = len(rooms) == 1
        part = rest if is_last else Counts(output=max(0, min(rest.output, rooms[name])))
        named[name] = named.get(name, Counts()).plus(part.usage())
        rest = rest.minus(part)
    return named | ({UNNAMED: rest} if rest != Counts() else {})
