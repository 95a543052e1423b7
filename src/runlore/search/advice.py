"""What to tell someone whose query found nothing, or may have been meant in another way.

`remarks` looks at the query alone, `blame` asks the store which of its fields is the one too many.
Neither is part of a search: a face asks when it has someone to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise

import msgspec

from ..store import Store
from .ranked import SENTENCE, allowed, search
from .syntax import EVENT_FIELDS, FIELDS, PIECE, TOKEN, Query

COUNTED = 50
"""So many sessions are counted of what a query without one of its fields would find; then there are
"or more"."""

TYPED, MOST_REMARKS = 1000, 4
"""Characters that are looked at, and remarks on them: people also paste logs, in which much looks
like a field."""

LONG = 200
"""Characters of a value that are repeated: most paths are shorter."""

ALIKE = 0.75
"""How near a name must be to a field's: `tol` is tool (0.86), `mode` model (0.89), and `node`
nothing (0.67)."""

_ELSEWHERE = {
    "project": "repo", "repository": "repo", "role": "kind", "type": "kind", "dir": "cwd",
    "folder": "cwd", "path": "file",
    "since": "after", "until": "before", "date": "after", "flavor": "agent", "source": "agent",
    "id": "session", "uid": "session",
}  # fmt: skip
"""What other programs call our fields."""

_Piece = tuple[str, str, str]


# ── of the query alone ────────────────────────────────────────────────────────────────────────────
def remarks(text: str) -> list[str]:
    """What in the query was taken for words and looks like something else, one line each."""
    nothing = ("", "", "")
    pieces: list[_Piece] = [nothing, *PIECE.findall(text[:TYPED]), nothing]
    found = dict.fromkeys(
        said for before, piece, after in _threes(pieces) if (said := _remark(before, piece, after))
    )
    return list(found)[:MOST_REMARKS]


def _threes(pieces: Sequence[_Piece]) -> Iterator[tuple[_Piece, _Piece, _Piece]]:
    for (before, piece), (_, after) in pairwise(pairwise(pieces)):
        yield before, piece, after


def _remark(before: _Piece, piece: _Piece, after: _Piece) -> str:
    minus, name, value = piece
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


def _is_word(piece: _Piece) -> bool:
    minus, name, value = piece
    return not minus and name.lower() not in FIELDS and TOKEN.search(value) is not None


def _no_field(name: str, value: str) -> str:
    if value.startswith(":"):  # Names like std::vector.
        return ""
    meant = _ELSEWHERE.get(name)
    if meant is None:
        meant = next(iter(get_close_matches(name[:20], sorted(FIELDS), 1, ALIKE)), None)
    return f"{name}: is no field; did you mean {meant}:?" if meant else ""


# ── of what is stored ─────────────────────────────────────────────────────────────────────────────
def blame(store: Store, query: Query, *, is_words: bool = True) -> list[str]:
    """Which fields choose nothing, and how much there would be without them; when all choose
    something, without which of them there would be something. One line each.

    That needs a search for each field, and is left out when the words are not all there is: beside
    a pattern.
    """
    idle = [name for name, _ in query.fields if _chooses_nothing(store, query, name)]
    said = [
        f"no {'event' if name in EVENT_FIELDS else 'session'} matches {_label(query, name)}"
        for name in idle
    ]
    if not is_words:
        return said
    less = [_without(query, idle)] if idle else list(_relaxed(query))
    found = [(left_out, number) for left_out, rest in less if (number := _found(store, rest))]
    if (
        not found
        and len(query.fields) + bool(query.without) > 1
        and (number := _found(store, Query(groups=query.groups)))
    ):
        found = [(" ".join(left_out for left_out, _ in _relaxed(query)), number)]
    return said + [f"without {left_out} there {number}" for left_out, number in found]


def _chooses_nothing(store: Store, query: Query, name: str) -> bool:
    alone = Query().with_fields(field for field in query.fields if field[0] == name)
    if name not in EVENT_FIELDS:
        return not allowed(store, alone)
    answer = search(store, alone, limit=1)
    return not (answer.hits or answer.is_partial or answer.is_damaged)


def _relaxed(query: Query) -> Iterator[tuple[str, Query]]:
    """The query without one of its fields, or without what it excludes, and what that is."""
    for name, _ in query.fields:
        yield _without(query, [name])
    if query.without:
        excluded = " ".join(f"-{_quoted(term.text)}" for term in query.without)
        yield excluded, msgspec.structs.replace(query, without=())


def _without(query: Query, names: Sequence[str]) -> tuple[str, Query]:
    rest = query.with_fields(field for field in query.fields if field[0] not in names)
    return " ".join(_label(query, name) for name in names), rest


def _found(store: Store, query: Query) -> str:
    """How many sessions have all that is asked for, as the end of a sentence; nothing when none
    has."""
    if not query.is_answerable or not (query.groups or query.fields):
        return ""
    answer = search(store, query, limit=COUNTED)
    if not answer.hits or (answer.missing and len(query.groups) < SENTENCE):
        return ""
    number = len(answer.hits) if query.needs_proof else answer.total
    more = " or more" if query.needs_proof and (number >= COUNTED or answer.is_partial) else ""
    return f"is 1 session{more}" if number == 1 else f"are {number:,} sessions{more}"


def _label(query: Query, name: str) -> str:
    return " ".join(f"{name}:{_quoted(value)}" for value in dict(query.fields)[name])


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= LONG else line[: LONG - 1] + "…"
    return f'"{line}"' if " " in line or not line else line
