"""Families of similar fingerprints: a second stage, for lists and questions, never for identity.

A fingerprint is exact and permanent. Its family depends on which other errors there are, so
families are computed from the distinct templates whenever they are needed. The order of the
templates makes no difference, and errors of different names never share a family.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from . import Signature
from .templates import NAMING_BEFORE, PLACEHOLDER, build_key

MIN_VALUES = 4
"""The number of values of one word, all else being equal, that make it a variable. In quotes, right
after `=`, or where a variable is known already, 2 suffice."""
MIN_LIKENESS = 0.8
"""The share of equal words from which two templates are merged."""
MIN_WORDS = 2
"""Words that must stay in common. Without it anything could be merged with anything."""
MAX_ROUNDS = 6

_Form = tuple[str, ...]


def families(signatures: Iterable[Signature]) -> dict[str, str]:
    """Return for each fingerprint the template of its family.

    `<*>` stands for what differs between the members.
    """
    by_name: dict[str, dict[str, _Form]] = defaultdict(dict)
    for signature in signatures:
        by_name[signature.name][signature.fingerprint] = words_of(build_key(signature.template))
    templates_of: dict[str, str] = {}
    for forms in by_name.values():
        family_of = group(set(forms.values()))
        templates_of.update(
            (fingerprint, _text(family_of[form])) for fingerprint, form in forms.items()
        )
    return templates_of


def identifying_words(template: str) -> frozenset[str]:
    """Return the words of a template that identify the error, without what varies."""
    return frozenset(
        word.strip("'\"`").lower()
        for word in words_of(build_key(template))
        if _is_word(word) and _is_constant(word)
    )


def words_of(text: str) -> _Form:
    """Return the words, the punctuation and the blanks of a text. Joined they give the text
    again."""
    return tuple(_WORDS.findall(text))


_WORDS = re.compile(
    r"<\*>|\s+|'[^\s'\"`]+'|\"[^\s'\"`]+\"|`[^\s'\"`]+`"
    r"|[=:,;()\[\]{}\"'`|]|[^\s=:,;()\[\]{}\"'`|]+"
)
"""A word in quotes is one, because a value in its place may be masked with them."""


def _text(form: _Form) -> str:
    return re.sub(r"<\*>(?:[,;]? ?<\*>)+", PLACEHOLDER, "".join(form))


def group(forms: set[_Form]) -> dict[_Form, _Form]:
    """Return the form that each becomes.

    The result is the same for any order of the forms, and for forms that are grouped already.
    """
    now = {form: form for form in forms}
    for _ in range(MAX_ROUNDS):
        step = _leave_one_out(set(now.values()))
        if not any(before != after for before, after in step.items()):
            break
        now = {form: step[current] for form, current in now.items()}
    step = _merge_alike(set(now.values()))
    return {form: step[current] for form, current in now.items()}


def _leave_one_out(forms: set[_Form]) -> dict[_Form, _Form]:
    """Turn a word into a variable where enough forms differ in it alone."""
    values: _Values = defaultdict(set)
    for form in forms:
        for n, word in enumerate(form):
            if n and _is_word(word):
                values[_without(form, n)].add(word)
    return {form: _leave_out_variable(form, values) for form in forms}


_Values = dict[tuple[int, _Form], set[str]]
"""The words that stand at a place of forms which are equal apart from it."""


def _without(form: _Form, n: int) -> tuple[int, _Form]:
    return n, (*form[:n], "", *form[n + 1 :])


def _leave_out_variable(form: _Form, values: _Values) -> _Form:
    """Return a form with its variable words left out, as long as enough others remain."""
    new = list(form)
    constant = sum(map(_is_constant, form))
    for n in range(1, len(form)):
        if constant > MIN_WORDS and _is_variable(form, n, values):
            new[n] = PLACEHOLDER
            constant -= 1
    return tuple(new)


def _is_variable(form: _Form, n: int, values: _Values) -> bool:
    if not _is_word(form[n]) or form[n] == PLACEHOLDER or _is_identity(form, n):
        return False
    variants = values[_without(form, n)]
    is_value = PLACEHOLDER in variants or _follows_equals(form, n) or _is_quoted(form, n)
    return len(variants) >= (2 if is_value else MIN_VALUES)


def _merge_alike(forms: set[_Form]) -> dict[_Form, _Form]:
    """Merge forms of the same length and beginning that differ in few words.

    Sorted, so that the order of input does not matter.
    """
    clusters: dict[tuple[int, str], list[list[_Form]]] = defaultdict(list)
    templates: dict[tuple[int, str], list[_Form]] = defaultdict(list)
    for form in sorted(forms):
        key = len(form), form[0] if form else ""
        best, at = 0.0, -1
        for n, template in enumerate(templates[key]):
            likeness = _likeness(form, template)
            if likeness > best:
                best, at = likeness, n
        if at >= 0 and best >= MIN_LIKENESS:
            merged = tuple(
                a if a == b else PLACEHOLDER for a, b in zip(form, templates[key][at], strict=True)
            )
            if sum(map(_is_constant, merged)) >= MIN_WORDS:
                templates[key][at] = merged
                clusters[key][at].append(form)
                continue
        templates[key].append(form)
        clusters[key].append([form])
    return {
        form: templates[key][n]
        for key, groups in clusters.items()
        for n, members in enumerate(groups)
        for form in members
    }


def _likeness(form: _Form, template: _Form) -> float:
    """Return the share of equal words. Punctuation does not count, and must be equal."""
    same = words = 0
    for n, (a, b) in enumerate(zip(form, template, strict=True)):
        if _is_word(a) != _is_word(b) or (not _is_word(a) and a != b):
            return 0.0
        if a != b and _is_identity(form, n):
            return 0.0
        if _is_word(a):
            words += 1
            same += a == b
    return same / words if words else 0.0


def _is_word(word: str) -> bool:
    return (
        word == PLACEHOLDER
        or (len(word) > 1 and word[0] in "'\"`")
        or (len(word) > 0 and word[0] not in "=:,;()[]{}\"'`|" and not word.isspace())
    )


def _is_constant(word: str) -> bool:
    return word != PLACEHOLDER and any(map(str.isalpha, word))


def _is_quoted(form: _Form, n: int) -> bool:
    return len(form[n]) > 1 and form[n][0] in "'\"`"


def _is_identity(form: _Form, n: int) -> bool:
    """Return True for a word that tells two errors apart: a code that was not masked, or the name
    of what is missing or unknown."""
    return form[n].isdigit() or NAMING_BEFORE.search("".join(form[:n])) is not None


def _follows_equals(form: _Form, n: int) -> bool:
    return form[n - 1] == "="
