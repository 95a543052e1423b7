"""The agent's own words about an error: its cause, or that it is unrelated to the work.

Only what the agent wrote between the failure and the success counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..model import Moment, SessionEvent, Signature
from ..text.clean import one_line
from .families import identifying_words
from .text import truncate

MAX_CAUSE_CHARS = 300
_MAX_READ_CHARS = 4000
_MIN_WORDS = 5
"""A shorter sentence says too little."""


def find_cause(
    words: Iterable[SessionEvent], bodies: Mapping[int, str], error: Signature
) -> Moment | None:
    """Return the first sentence that says what caused an error, of what the agent wrote.

    A sentence that names the error comes before one that only sounds like a cause.
    """
    names = frozenset(word for word in identifying_words(error.template) if len(word) > 3) - _PLAIN
    best: tuple[int, Moment] | None = None
    for event in words:
        for sentence in _split_sentences(bodies.get(event.seq) or event.summary or ""):
            score = _rate(sentence, names)
            if score and (best is None or score > best[0]):
                best = score, Moment(event.seq, truncate(sentence, MAX_CAUSE_CHARS))
    return best[1] if best else None


def is_disowned(words: Iterable[SessionEvent], bodies: Mapping[int, str]) -> bool:
    """Return True if the agent calls an error older than its work, not related to it, or flaky."""
    return any(
        _DISOWNS.search((bodies.get(event.seq) or event.summary or "")[:_MAX_READ_CHARS])
        for event in words
    )


def _rate(sentence: str, names: frozenset[str]) -> int:
    """Return how well a sentence explains an error; 0 if it does not."""
    low = sentence.lower()
    if len(low.split()) < _MIN_WORDS or low.endswith("?") or _PLANS.match(low):
        return 0
    named = len(names & set(_WORDS.findall(low)))
    if _BLAMES.match(low) and not _STILL.search(low):
        return 3 + min(named, 3)
    return 1 + min(named, 3) if _EXPLAINS.search(low) and named >= 2 else 0


def _split_sentences(text: str) -> list[str]:
    text = _CODE.sub(" ", text[:_MAX_READ_CHARS])
    return [
        sentence
        for part in _ENDS.split(text)
        if (sentence := one_line(_MARKUP.sub("", part)).strip(" -#>*:"))
    ]


_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_MARKUP = re.compile(r"\*\*|^\s*(?:[-*#>]+|\d+\.)\s+")
_WORDS = re.compile(r"[a-z_][\w.-]*")
_PLAIN = frozenset(
    "that this with from have must were they them then than when what which file files test tests"
    " failed error none found does been only used line type code could should would".split()
)
"""Words that tell no error from another."""
_PLANS = re.compile(
    r"(?:let me|let's|i'll|i will|i'm|i am|we're|we'll|now (?:let|i)|next|checking|running|maybe"
    r"|perhaps|all |both |done|great|perfect|fixed)\b"
)
_BLAMES = re.compile(
    r"(?:(?:so|ah|ok|okay|right|yes|good|i see|found it|got it)[,:.—– -]*)*"
    r"(?:(?:the|this|that|our|my) (?:\w+ ){0,3}?"
    r"(?:issue|problem|error|failure|bug|cause|reason|culprit|mistake)s?\b.{0,60}?"
    r"\b(?:is|was|are|were|comes?|came|stems?|means?|happen(?:s|ed)?|occur(?:s|red)?)\b"
    r"|(?:it|this|that)(?:'s| is| was| fail(?:s|ed))? because\b|(?:the )?root cause\b"
    r"|i (?:forgot|missed|misnamed|mistyped)\b)"
)
_STILL = re.compile(r"\bstill (?:getting|there|fail|see)|\b(?:fixed|resolved|gone)\b")
"""What says that an error is there, or no longer there, and not why."""
_EXPLAINS = re.compile(
    r"\b(?:because|due to|caused by|turns out|needs? to be|expects?|requires?"
    r"|(?:doesn't|does not) (?:exist|support|have|accept)|isn't|is not|is missing|is empty"
    r"|conflicts?(?: with)?|already)\b"
)
_DISOWNS = re.compile(
    r"(?i)\bpre-?existing\b|\b(?:not|un) ?-?related to (?:my|our|this|these|the)\b|\bunrelated\b"
    r"|\bnot (?:caused by|from|due to) (?:my|our|this|these)\b|\bflak(?:y|e|iness)\b"
    r"|\balso fails? on (?:main|master|the base)\b|\bfails? (?:the same )?(?:without|before) my\b"
)
