"""Recognize questions, and find the words in them that select sessions.

"Where did we fix the login?" wants the best answer there is: its words may have other endings, some
may be missing, and words like "where" and "did" select nothing. Two exact words want those words.
The form alone decides. Pure; nothing here knows a store.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from .stems import STOP_WORDS, forms_of, stem_of
from .syntax import TOKEN, Query, Term, parts_of, plain_term

MIN_WORDS, MIN_WORDS_UNMARKED = 3, 4
"""Words of a question that ends with a question mark, and of one that only begins like one."""

MIN_SENTENCE_WORDS = 6
"""Words of any other text that is meant as a sentence. Such text is pasted or remembered, so the
session may lack a word or two."""

_OPENINGS = frozenset(
    """
    who whom whose what when where which why how did do does is are was were can could should would
    has have had in find show tell
    """.split()
)
_RELATIVE = frozenset(
    "today yesterday last this day days week weeks month months year years ago".split()
)
"""Words that name a date relative to today."""
_ENDS = ("?", "？", "؟")
_AFFIX = re.compile(r"^\W+|(?:['’](?:s|re|ve|ll|d|m)|n['’]t)?\W*$", re.IGNORECASE)
"""What a question adds to a word: `gitsync's`, `(parser)`, `didn't`."""


class Clue(msgspec.Struct, frozen=True):
    """One thing that a question names."""

    text: str
    term: Term
    forms: frozenset[str] = frozenset()
    """Its forms in small letters, if it is a word of ASCII letters."""
    is_exact: bool = False
    """An identifier or a phrase: what is written exactly so counts more than a word."""
    is_part: bool = False
    """Not named by itself: a part of an identifier or of a date."""


def is_question(query: Query) -> bool:
    """Return True if the query has the form of a question or a sentence, and any word that selects
    sessions."""
    words = query.words
    if query.is_literal or len(words) < MIN_WORDS or not _content_words(words):
        return False
    if words[-1].endswith(_ENDS) or len(query.groups) >= MIN_SENTENCE_WORDS:
        return True
    return words[0].lower() in _OPENINGS and len(words) >= MIN_WORDS_UNMARKED


def find_clues(query: Query, dated: Collection[str] = ()) -> list[Clue]:
    """Return what a question names, in its order, without stop words; each once.

    Words in `dated` belong to a date. Those that a text may contain too count less, like parts of a
    name; those relative to today are left out.
    """
    clues: dict[str, Clue] = {}
    for group in query.groups:
        for clue in _clues_of(group[0]):
            word = clue.text.lower()
            if word in _RELATIVE and word in dated:
                continue
            is_part = clue.is_part or word in dated
            clues.setdefault(word, msgspec.structs.replace(clue, is_part=is_part))
    return list(clues.values())


def _content_words(words: Sequence[str]) -> list[str]:
    return [word for word in words if _AFFIX.sub("", word).lower() not in STOP_WORDS]


def _clues_of(term: Term) -> list[Clue]:
    if term.is_quoted:
        return [Clue(term.text, term, is_exact=True)]
    bare = _AFFIX.sub("", term.text)
    named = plain_term(bare)
    if named is None or bare.lower() in STOP_WORDS:
        return []
    if len(TOKEN.findall(bare)) > 1:
        parts = [
            msgspec.structs.replace(clue, is_part=True)
            for part in parts_of(named)
            for clue in _clues_of(part)
        ]
        return [Clue(bare, named, is_exact=True), *parts]
    if bare.isascii():
        is_name = any(map(str.isdigit, bare)) or any(map(str.isupper, bare[1:]))
        return [Clue(bare, named, forms_of(bare), is_exact=is_name)]
    stem = stem_of(bare)
    if stem is not None and (begin := plain_term(stem + "*")) is not None:
        return [Clue(bare, begin)]
    return [Clue(bare, named)]
