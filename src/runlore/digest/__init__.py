"""The digest of a session: what stays when its bulk is gone, derived by rules from its events.

Everything in here is a pure function of a timeline: nothing reads a file, opens a database, calls a
model or knows an agent's name. Start reading in `session`, which builds a whole digest. `attempts`
pairs calls with how they ended, `errors` lists what went wrong, `fixes` what is proven to have made
it go away, `outcome` how the session ended, `quality` what kind of session it was. `join` adds a
digest of new events to one of events that have left. The values themselves are in `runlore.model`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .. import model
from ..model import (
    FINGERPRINT_VERSION,
    MIN_SHOWN_CONFIDENCE,
    ErrorSummary,
    Fix,
    FixKind,
    Proof,
    Signature,
    Step,
)

__all__ = [
    "FINGERPRINT_VERSION",
    "MIN_SHOWN_CONFIDENCE",
    "QUALITY_VERSION",
    "ErrorSummary",
    "Fix",
    "FixKind",
    "Outcome",
    "Proof",
    "Quality",
    "Signature",
    "Step",
]


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a session, with the evidence."""

    verdict: model.Outcome
    by: model.OutcomeBy = ""
    """The kind of evidence. With `unknown` it is the one that was looked at and did not suffice."""
    evidence: tuple[int, ...] = ()
    """The events that prove it, by seq."""
    reason: str = ""
    """The evidence in a few words, none of them quoted from the session."""

    @property
    def level(self) -> model.OutcomeLevel:
        """How the outcome is known."""
        return "unknown" if self.verdict == "unknown" else model.level_of(self.by)


QUALITY_VERSION = 1
"""The version of the rules behind a quality class."""

Quality = Literal["real", "trivial", "automated", "one_shot", "subagent"]
"""The kind of a session: real work of a person with an agent; hardly anything; run by a program;
one prompt with little behind it; work for another session. Lessons are learned from the first kind
by default."""
