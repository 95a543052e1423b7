"""Attacks on runlore that anyone can run again: bounded, seeded, on this machine alone.

One module for each kind of attack. `python -m bench.attack` runs all of them and prints one table;
`python -m bench.attack NAME` runs one. A module has `attack(scale, scratch)`, which yields a
`Result` for each case: `scale` is 1.0 for the whole attack, 0.1 for the tenth that CI runs, and
everything it writes goes into the folder `scratch`. The user's home is an empty folder meanwhile,
so nothing of theirs is read.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """What one case of an attack gave."""

    case: str  # what was done, as a reader would say it: "a sync killed while it writes"
    tried: int  # how many times
    held: int  # how many times runlore did what it must
    note: str = ""  # a figure, the first thing that did not hold, or why it was not tried

    def __post_init__(self) -> None:
        for count in (self.tried, self.held):
            if type(count) is not int:
                raise TypeError(f"{self.case}: {count!r} is no number of trials")
        if not 0 <= self.held <= self.tried:
            raise ValueError(f"{self.case}: {self.held} of {self.tried} cannot hold")
        if not self.tried and not self.note:
            raise ValueError(f"{self.case}: nothing was tried, and no reason is given")


def not_possible(case: str, why: str) -> Result:
    """Return the result of a case that cannot be tried on this machine."""
    return Result(case, 0, 0, f"not tried: {why}")
