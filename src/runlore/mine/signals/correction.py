"""The same correction by a person, perhaps in other words, in several tasks, in any language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...digest.errors import signature
from ...text.clean import clean, one_line
from ..drafts import Draft, Group, only_one
from ..ends import End
from ..intervals import wilson_interval
from ..loci import WordsLocus
from ..similarity import MIN_SIMILARITY, word_similarity
from ..topic_words import find_topic_words
from ..values import Case, Fleet, Signal

KIND = "correction"

MIN_WORDS = 2
"""Words that say what a correction is about. With fewer, `no, wrong` would be a lesson."""
MAX_CHARS = 240
"""A longer message is a task of its own, and no correction that could be passed on."""
PASTED_KINDS = frozenset({"exception", "compile", "test", "shell", "git", "http", "json"})
"""Kinds of errors. A message with one of these is a log that somebody pasted."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for moment in case.digest.corrections:
        words = find_topic_words(moment.text)
        if len(words) >= MIN_WORDS and not is_pasted(moment.text):
            yield Signal(
                type="correction",
                polarity="problem",
                uid=case.uid,
                locus=WordsLocus(words),
                what=moment.text,
                seqs=(moment.seq,),
            )


def draft(group: Group, _: Sequence[End]) -> Draft | None:
    """Propose the correction in the person's own words."""
    pattern = group.pattern
    # Without a repository nobody can tell where it applies.
    if pattern.sessions < group.min_sessions or not pattern.repos:
        return None
    repo = only_one(pattern.repos)
    return Draft(
        id=pattern.id,
        kind=KIND,
        when=(
            f"Before work{f' in {repo}' if repo else ''} is called done: people had to say this in"
            f" {pattern.sessions} tasks."
        ),
        do=one_line(clean(pattern.what)),
        repo=repo,
        evidence=pattern.examples,
        signals=pattern.signals,
        sessions=pattern.sessions,
        helped=pattern.sessions,
        confidence=round(wilson_interval(pattern.sessions, pattern.sessions)[0], 3),
        last_at=pattern.last_at,
    )


def is_pasted(text: str) -> bool:
    """Return True for a message that shows something instead of saying it."""
    found = signature(text)
    return (
        len(text) > MAX_CHARS or "://" in text or (found is not None and found.kind in PASTED_KINDS)
    )


def recurred(about: str, case: Case) -> bool:
    """Return True if a person gave the same correction in this session."""
    words = find_topic_words(about)
    given = (find_topic_words(moment.text) for moment in case.digest.corrections)
    return any(bool(words) and word_similarity(words, other) >= MIN_SIMILARITY for other in given)
