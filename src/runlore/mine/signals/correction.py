"""The same correction by a person, perhaps in other words, in several sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...text.clean import clean
from ..advice import shorten
from ..drafts import Draft, Group, only_one
from ..ends import End
from ..intervals import wilson_interval
from ..loci import WordsLocus
from ..similarity import MIN_SIMILARITY, word_similarity
from ..values import Case, Fleet, Signal

ADVICE = "write this down where agents look: `runlore lessons` proposes it"
KIND = "correction"

_WORD = re.compile(r"[^\W_]{2,}")
_STOP_WORDS = frozenset(
    "the to of and or in on at is are was be it its this that with for from as by an you your we"
    " our i me my no not don dont do does did please just again instead use used using should must"
    " have has had will would can could but so if then there here what why how all any some more"
    " also still only wrong stop actually never always".split()
)
MIN_WORDS = 2
"""Words that say what a correction is about. With fewer, `no, wrong` would be a lesson."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for moment in case.digest.corrections:
        words = find_topic_words(moment.text)
        if len(words) >= MIN_WORDS:
            yield Signal(
                type="correction",
                polarity="problem",
                uid=case.uid,
                locus=WordsLocus(words),
                what=moment.text,
                seqs=(moment.seq,),
            )


def draft(group: Group, _: Sequence[End]) -> Draft:
    """Propose the correction in the person's own words."""
    pattern = group.pattern
    return Draft(
        id=pattern.id,
        kind=KIND,
        when=f"People had to say this in {pattern.sessions} sessions.",
        do=shorten(clean(pattern.what)),
        repo=only_one(pattern.repos),
        evidence=pattern.examples,
        signals=pattern.signals,
        sessions=pattern.sessions,
        helped=pattern.sessions,
        confidence=round(wilson_interval(pattern.sessions, pattern.sessions)[0], 3),
        last_at=pattern.last_at,
    )


def recurred(about: str, case: Case) -> bool:
    """Return True if a person gave the same correction in this session."""
    words = find_topic_words(about)
    given = (find_topic_words(moment.text) for moment in case.digest.corrections)
    return any(bool(words) and word_similarity(words, other) >= MIN_SIMILARITY for other in given)


def find_topic_words(text: str) -> frozenset[str]:
    """Return the words that say what a correction is about."""
    return frozenset(
        word
        for word in _WORD.findall(text.lower())
        if word not in _STOP_WORDS and not word.isdecimal()
    )
