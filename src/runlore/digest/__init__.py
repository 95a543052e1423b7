"""What a session leaves behind when its bulk is gone: values that follow by rules from its events.

Everything in here is a pure function of a timeline: nothing reads a file, opens a database, calls a model or knows an agent's name.
`errors` says what went wrong, `fixes` what made it go away, `outcome` how it ended, `quality` what kind of session it was.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .. import model
from ..model import FINGERPRINT_VERSION, MIN_SHOWN_CONFIDENCE, ErrorSummary, Fix, FixKind, Signature, Step

__all__ = [
    "FINGERPRINT_VERSION", "OUTCOME_VERSION", "QUALITY_VERSION", "MIN_SHOWN_CONFIDENCE", "ErrorSummary", "Fix", "FixKind", "Level", "Outcome", "Quality",
    "Signature", "Step",
]  # fmt: skip

OUTCOME_VERSION = 2
"""Of the rules behind an outcome."""

Level = Literal["test", "end", "exit", "shipped", "said", "errors", "interrupted", "silent", "none"]
"""What an outcome rests on, strongest first: the last run of tests; how the run ended, as its program tells; the exit codes of the last
commands; a commit or a pull request; the user's last words; errors that never went away; an interruption; a prompt without a reply."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a session ended, and what says so."""

    verdict: model.Outcome
    level: Level = "none"
    """Of the evidence. With `unknown` it is the strongest that was looked at and did not suffice."""
    confidence: float = 0.0
    """How often a verdict of this kind was right where the truth is known, and rather less; see `bench/outcome.py`. 0 for `unknown`."""
    evidence: tuple[int, ...] = ()
    """The events that say so, by seq."""
    reason: str = ""
    """The same in a few words, none of them out of the session."""


QUALITY_VERSION = 1
"""Of the rules behind a quality class."""

Quality = Literal["real", "trivial", "automated", "one_shot", "subagent"]
"""What kind of session it was: real work of a person with an agent; hardly anything; run by a program; one prompt with little behind it;
or work that another session asked for. What is learned from sessions is learned from the first kind, unless asked otherwise."""
