"""Texts that say the same in other words, recognised by the words they share."""

from __future__ import annotations

from collections.abc import Mapping

MIN_SIMILARITY = 0.6
"""Share of common words from which on two texts say the same."""


MIN_SHARED_WORDS = 4
"""Words from which on a short text may be a part of a longer one that says the same."""


def word_similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words that two texts have in common.

    If they have enough, it is the share of the shorter text: people say the same at different
    length.
    """
    shared = len(one & other)
    return shared / (min(len(one), len(other)) if shared >= MIN_SHARED_WORDS else len(one | other))


def group_similar(words: Mapping[str, frozenset[str]], counts: Mapping[str, int]) -> dict[str, str]:
    """Return, for each key, the key of the group it belongs to.

    `words` are the words of each key, `counts` how often it occurs. The most frequent keys become
    the heads of groups; a key joins the head it is most similar to, if it is similar enough.
    """
    order = sorted(words, key=lambda key: (-counts[key], key))
    heads_by_word: dict[str, list[str]] = {}
    head_of: dict[str, str] = {}
    for key in order:
        near = {head for word in words[key] for head in heads_by_word.get(word, ())}
        best = max(
            near, key=lambda head: (word_similarity(words[key], words[head]), head), default=None
        )
        if best is not None and word_similarity(words[key], words[best]) >= MIN_SIMILARITY:
            head_of[key] = best
            continue
        head_of[key] = key
        for word in words[key]:
            heads_by_word.setdefault(word, []).append(key)
    return head_of
