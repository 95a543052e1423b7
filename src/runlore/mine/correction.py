"""What people have to say again and again: the same correction, in other words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import Case, Fleet, Signal

_WORD = re.compile(r"[^\W_]{2,}")
_EMPTY = frozenset(
    "the to of and or in on at is are was be it its this that with for from as by an you your we our i me my no not don dont do does did"
    " please just again instead use used using should must have has had will would can could but so if then there here what why how all"
    " any some more also still only wrong stop actually never always".split()
)
FEWEST = 2
"""Words that say what it is about. With fewer, `no, wrong` would be a lesson."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for moment in case.digest.corrections:
        about = words_of(moment.text)
        if len(about) >= FEWEST:
            yield Signal(
                type="correction",
                polarity="problem",
                uid=case.uid,
                locus=" ".join(sorted(about)),
                what=moment.text,
                seqs=(moment.seq,),
            )


def words_of(text: str) -> frozenset[str]:
    """The words that say what a correction is about."""
    return frozenset(word for word in _WORD.findall(text.lower()) if word not in _EMPTY and not word.isdecimal())
