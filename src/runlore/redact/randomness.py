"""Tell values that were drawn at random from those that consist of words."""

import re
from collections import Counter
from math import log2

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""A word or a number in an identifier."""


def entropy(value: str) -> float:
    """Return the bits per character."""
    counts = Counter(value).values()
    return log2(len(value)) - sum(n * log2(n) for n in counts) / len(value)


# The commonest pairs of letters in English: nine of ten pairs in words and identifiers, one of four
# in random letters.
_PAIRS = frozenset(
    "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve"
    " co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no"
    " ct us ac ot il tr ly nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts"
    " mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev ld ry mp fe bl ab gh ty op wo"
    " sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc bu ei ov by rm ep tt oc fa ef cu rn sc gi"
    " da cr cl du ga qu ue ff ba ey ls va um pp up lu go".split()
)


def wordlike(value: str) -> bool:
    """Return True if a value consists of words, as identifiers, paths and names of tests do."""
    words = [word.lower() for word in WORD.findall(value) if word.isalpha()]
    letters = sum(map(len, words))
    pairs = [word[i : i + 2] for word in words for i in range(len(word) - 1)]
    if letters * 2 <= len(value) or letters < 2.6 * len(words):
        return False
    return sum(pair in _PAIRS for pair in pairs) >= 0.6 * len(pairs)
