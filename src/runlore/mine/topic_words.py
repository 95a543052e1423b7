"""The words that say what a text is about, in any language.

Words that hold a sentence together are left out: those of a few languages by list, in others by
their length. Chinese, Japanese and Korean are written without blanks or with few, so pairs of
characters stand for their words.
"""

from __future__ import annotations

import re

MIN_CHARS = 3

_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_STOP_WORDS = frozenset(
    # English
    "the to of and or in on at is are was be it its this that with for from as by an you your we"
    " our me my no not don dont do does did please just again instead use used using should must"
    " have has had will would can could but so if then there here what why how all any some"
    " now out one more also still only wrong stop actually never always want need make sure"
    " like get let"
    # German
    " der die das den dem des ein eine einen einem und oder aber nicht kein keine ist sind war hat"
    " haben ich du wir ihr sie mir mich bitte noch mal nochmal auch nur schon doch mit von für auf"
    " aus bei zum zur wie was warum wenn dann soll sollst muss musst kannst immer nie wieder statt"
    " nein falsch hatte gesagt meinte wollte"
    # French, Spanish, Portuguese, Italian
    " les des une est pas que qui dans pour sur avec vous nous mais encore toujours jamais faut"
    " non faux voulais dit demandé"
    " los las una por para con sin pero que como este esta eso siempre nunca otra vez favor debes"
    " dije quería"
    " uma não mas você isso isto sempre nunca favor deve"
    " gli una per con non che del della sono sempre mai ancora favore deve"
    # Dutch, Russian
    " het een van met voor niet maar ook nog weer altijd nooit moet"
    " это что как для или его она они мне тебя вас снова опять всегда никогда надо нужно".split()
)


def find_topic_words(text: str) -> frozenset[str]:
    """Return the words that say what a text is about."""
    words: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if _IS_CJK.match(word):
            words.update(word[n : n + 2] for n in range(max(1, len(word) - 1)))
        elif len(word) >= MIN_CHARS and word not in _STOP_WORDS and not word.isdecimal():
            words.add(word)
    return frozenset(words)
