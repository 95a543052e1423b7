"""Hints for a query that matched nothing, or may have been meant in another way.

`remarks` looks at the query alone. `blame` searches the store for the field that excludes
everything. Neither is part of a search: the faces call them when they have someone to show them to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise

import msgspec

from ..store import Store
from .fields import allowed
from .ranked import SENTENCE_WORDS, search
from .syntax import EVENT_FIELDS, FIELDS, QUERY_PART, TOKEN, Query

MAX_COUNTED = 50
"""Maximum number of sessions that are counted for a query with fewer fields; beyond it the hint
says "or more"."""

MAX_REMARK_CHARS, MAX_REMARKS = 1000, 4
"""Maximum number of characters that are checked, and of remarks: in pasted logs much looks like a
field."""

MAX_VALUE_CHARS = 200
"""Maximum length of a value in a hint; most paths are shorter."""

MIN_SIMILARITY = 0.75
"""Minimum similarity of a name to a field: `tol` matches tool (0.86), `mode` model (0.89), and
`node` nothing (0.67)."""

_SYNONYMS = {
    "project": "repo", "repository": "repo", "role": "kind", "type": "kind", "dir": "cwd",
    "folder": "cwd", "path": "file",
    "since": "after", "until": "before", "date": "after", "flavor": "agent", "source": "agent",
    "id": "session", "uid": "session",
}  # fmt: skip
"""Names of our fields in other programs."""

_Part = tuple[str, str, str]


# ── from the query alone ──────────────────────────────────────────────────────────────────────────
def remarks(text: str) -> list[str]:
    """Return remarks on parts of the query that were read as words but look like something else."""
    nothing = ("", "", "")
    parts: list[_Part] = [nothing, *QUERY_PART.findall(text[:MAX_REMARK_CHARS]), nothing]
    unique = dict.fromkeys(
        remark
        for before, part, after in _with_neighbours(parts)
        if (remark := _remark(before, part, after))
    )
    return list(unique)[:MAX_REMARKS]


def _with_neighbours(parts: Sequence[_Part]) -> Iterator[tuple[_Part, _Part, _Part]]:
    for (before, part), (_, after) in pairwise(pairwise(parts)):
        yield before, part, after


def _remark(before: _Part, part: _Part, after: _Part) -> str:
    minus, name, value = part
    if name:
        return "" if name.lower() in FIELDS else _no_field(name.lower(), value)
    if minus or value not in ("OR", "AND", "NOT"):
        return ""
    if value == "OR":
        is_between = all(_is_word(beside) or beside[2] == "OR" for beside in (before, after))
        return (
            ""
            if is_between
            else (
                "OR joins two words, and is ignored elsewhere; a field that is given twice means"
                " either"
            )
        )
    if value == "AND":
        return "AND is looked for as a word; leave it out: every word must be there"
    return f"NOT is looked for as a word; use -{after[2]}" if _is_word(after) else ""


def _is_word(part: _Part) -> bool:
    minus, name, value = part
    return not minus and name.lower() not in FIELDS and TOKEN.search(value) is not None


def _no_field(name: str, value: str) -> str:
    if value.startswith(":"):  # Names like std::vector.
        return ""
    meant = _SYNONYMS.get(name)
    if meant is None:
        meant = next(iter(get_close_matches(name[:20], sorted(FIELDS), 1, MIN_SIMILARITY)), None)
    return f"{name}: is no field; did you mean {meant}:?" if meant else ""


# ── from the store ────────────────────────────────────────────────────────────────────────────────
def blame(store: Store, query: Query, *, is_words: bool = True) -> list[str]:
    """Return the fields that match nothing, and the number of matches without them, one line each.

    If every field matches something, the lines name the fields whose removal would bring matches.
    This needs a search for each field. It is left out if `is_words` is False, because a pattern
    belongs to the query too.
    """
    idle = [names for names in _units(query) if _chooses_nothing(store, query, names)]
    lines = [
        f"no {'event' if names[0] in EVENT_FIELDS else 'session'} matches {_label(query, names)}"
        for names in idle
    ]
    if not is_words:
        return lines
    less = [_without(query, idle)] if idle else list(_relaxed(query))
    matches = [
        (left_out, number) for left_out, rest in less if (number := _count_matches(store, rest))
    ]
    if (
        not matches
        and len(query.fields) + bool(query.without) > 1
        and (number := _count_matches(store, Query(groups=query.groups)))
    ):
        matches = [(" ".join(left_out for left_out, _ in _relaxed(query)), number)]
    return lines + [f"without {left_out} there {number}" for left_out, number in matches]


def _units(query: Query) -> list[list[str]]:
    """Return the names of the fields, together those that one option set, as --on sets two."""
    labels = dict(query.labels)
    units: dict[str, list[str]] = {}
    for name, _ in query.fields:
        units.setdefault(labels.get(name, name), []).append(name)
    return list(units.values())


def _chooses_nothing(store: Store, query: Query, names: Sequence[str]) -> bool:
    alone = Query().with_fields(field for field in query.fields if field[0] in names)
    if names[0] not in EVENT_FIELDS:
        return not allowed(store, alone)
    answer = search(store, alone, limit=1)
    return not (answer.hits or answer.is_partial or answer.is_damaged)


def _relaxed(query: Query) -> Iterator[tuple[str, Query]]:
    """Yield the query without one of its fields, or without its exclusions, after the omitted
    text."""
    for names in _units(query):
        yield _without(query, [names])
    if query.without:
        excluded = " ".join(f"-{_quoted(term.text)}" for term in query.without)
        yield excluded, msgspec.structs.replace(query, without=())


def _without(query: Query, units: Sequence[Sequence[str]]) -> tuple[str, Query]:
    omitted = {name for names in units for name in names}
    rest = query.with_fields(field for field in query.fields if field[0] not in omitted)
    return " ".join(_label(query, names) for names in units), rest


def _count_matches(store: Store, query: Query) -> str:
    """Return the number of sessions that match, as the end of a sentence; empty without any."""
    if not query.is_answerable or not (query.groups or query.fields):
        return ""
    answer = search(store, query, limit=MAX_COUNTED)
    if not answer.hits or (answer.missing and len(query.groups) < SENTENCE_WORDS):
        return ""
    number = len(answer.hits) if query.needs_proof else answer.total
    more = " or more" if query.needs_proof and (number >= MAX_COUNTED or answer.is_partial) else ""
    return f"is 1 session{more}" if number == 1 else f"are {number:,} sessions{more}"


def _label(query: Query, names: Sequence[str]) -> str:
    """Return fields as they were written: those of one option by its own words."""
    name = names[0]
    if written := dict(query.labels).get(name):
        return _short(written)
    return " ".join(f"{name}:{_quoted(value)}" for value in dict(query.fields)[name])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_VALUE_CHARS else line[: MAX_VALUE_CHARS - 1] + "…"


def _quoted(text: str) -> str:
    line = _short(text)
    return f'"{line}"' if " " in line or not line else line
