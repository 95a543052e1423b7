"""The forms of a word: `organized` also means `organizes` and `organization`.

Two words are forms of each other if Snowball's stemmer gives them one stem. The index has whole
words alone, so the forms are made: every ending is tried, and what has the same stem is looked up.
Words that are in no text cost a look into the index each. A word in another script is looked up as
the beginning that its stem is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from snowballstemmer import stemmer

MIN_CHARS, MAX_CHARS = 3, 24
"""Characters of a word that has other forms."""

STOP_WORDS = frozenset(
    """
    a about above after again all also am an and another any are aren as ask asked asks at be
    because been before being below between both but by can come could couldn did didn do does doesn
    doing don down during each either else ever every few for from further get gets getting give go
    going gone got had hadn happen happened happens has hasn have haven having he her here hers him
    his how i if in instead into is isn it its itself just know ll made make makes many me mean
    might more most much must my myself no nor not of off on once one only or other our ours out
    over own please re same say says session sessions shall she should shouldn show so some such
    tell than that the their theirs them then there these they thing things this those through to
    too under until up us use used using ve very want was wasn way we were weren what when where
    which while who whom whose why will with without won would wouldn you your yours yourself
    """.split()
)
"""Words of a question that select no sessions."""

_ENDINGS = (
    "", "s", "es", "ed", "er", "ers", "ing", "ings", "ion", "ions", "ation", "ations", "or", "ors",
    "ly", "al", "ally", "ate", "ated", "ates", "ating", "able", "ment", "ments", "ity", "ive",
    "ize", "ized", "izing", "ization", "ance", "ful",
)  # fmt: skip
"""The endings of words that share a stem: with those below, nine of ten forms in 3,800 families of
words of real sessions."""
_ENDINGS_OF_E = ("", "s", "d", "r", "rs", "ly", "ful", "ment", "ments")
_ENDINGS_OF_Y = ("", "s", "ing")
_ENDINGS_OF_DOUBLE = ("ed", "er", "ers", "ing", "ings")

_IRREGULAR = """
    begin began begun|break broke broken|bring brought|build built|buy bought|catch caught
    choose chose chosen|cut cutting|draw drew drawn|drive drove driven|eat ate eaten|fall fell
    fallen|feel felt|fight fought|find found|fly flew flown|forget forgot forgotten|freeze froze
    frozen|go went gone goes going|grow grew grown|hear heard|hide hid hidden|hold held|keep kept
    know knew known|lead led|learn learnt|leave left|lose lost|make made|meet met|pay paid
    read reading|ride rode ridden|ring rang rung|rise rose risen|run ran|see saw seen|sell sold
    send sent|shake shook shaken|sing sang sung|sit sat|sleep slept|speak spoke spoken|spend spent
    stand stood|steal stole stolen|swim swam swum|take took taken|teach taught|tell told|think
    thought|throw threw thrown|understand understood|wake woke woken|wear wore worn|win won|write
    wrote written|child children|man men|woman women|person people|index indices indexes
    analysis analyses|mouse mice|foot feet|life lives|wife wives"""

_SCRIPTS = (
    ("Ѐ", "ӿ", "russian"), ("Ͱ", "Ͽ", "greek"), ("؀", "ۿ", "arabic"), ("ऀ", "ॿ", "hindi"),
    ("԰", "֏", "armenian"), ("஀", "௿", "tamil"),
)  # fmt: skip
"""The first and last character of a script, and a language that is written in it. Others have no
stemmer, or, as the Latin script, too many languages to tell from a word."""


@lru_cache(4096)
def forms_of(word: str) -> frozenset[str]:
    """Return a word in small letters and its forms, for words of ASCII letters."""
    word = word.lower()
    if not (word.isascii() and word.isalpha() and len(word) <= MAX_CHARS):
        return frozenset((word,))
    stem_word = _stem("english")
    stem = stem_word(word)
    irregular = _families().get(word) or _families().get(stem, frozenset())
    if len(word) < MIN_CHARS:
        return irregular | {word}
    forms = (base + ending for base, endings in _bases(stem) for ending in endings)
    regular = {form for form in forms if len(form) >= MIN_CHARS and stem_word(form) == stem}
    return irregular | regular | {word}


def stem_of(word: str) -> str | None:
    """Return the beginning that the forms of a word in another script share; None without one."""
    for first, last, language in _SCRIPTS:
        if all(first <= letter <= last for letter in word):
            stem = _stem(language)(word.lower())
            return stem if len(stem) >= MIN_CHARS and word.lower().startswith(stem) else None
    return None


def _bases(stem: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what endings are added to, and the endings: run and runn, cas and case, happi and
    happy."""
    whole = stem.removesuffix("e")
    yield whole, _ENDINGS
    yield whole + "e", _ENDINGS_OF_E
    if stem.endswith("i"):
        yield stem[:-1] + "y", _ENDINGS_OF_Y
    elif stem[-1:] not in "aeiouyw":
        yield stem + stem[-1:], _ENDINGS_OF_DOUBLE


@cache
def _stem(language: str) -> Callable[[str], str]:
    stem: Callable[[str], str] = stemmer(language).stemWord
    return stem


@cache
def _families() -> dict[str, frozenset[str]]:
    """Return the forms of the words that have irregular ones."""
    groups = [group.split() for line in _IRREGULAR.splitlines() for group in line.split("|")]
    return {word: frozenset(group) for group in groups for word in group}
