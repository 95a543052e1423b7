"""What a query means. Pure: text in, `Query` out; nothing here knows a store's data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

import msgspec

from ..errors import RunloreError
from ..model import CALL_KINDS, KINDS
from ..store import Filter, SegmentEvent
from ..store.words import CJK, blank_escapes, cjk_pairs
from ..text.words import moment

MOST_WORDS = 32
"""People paste whole stack traces. More words cost time and add nothing; the answer lists those
that were left out."""

MOST_PARTS = 64
"""Of a phrase: a line of minified code is cut there."""

_SESSION_FIELDS = {
    "agent": "agent", "repo": "repo", "cwd": "cwd", "branch": "branch", "model": "model",
    "after": "since", "before": "until",
    "session": "name",
}  # fmt: skip
EVENT_FIELDS = frozenset({"tool", "kind", "is", "file"})
FIELDS = _SESSION_FIELDS.keys() | EVENT_FIELDS

# A dash excludes only when a word follows: people paste --options.
PIECE = re.compile(r'(-(?=["\w]))?(?:([a-z]+):(?!//))?("[^"]*"?|\S+)', re.IGNORECASE)
TOKEN = re.compile(r"[^\W_]+")
_WILD = re.compile(r"[*?]")
_SIGNS_OF_NAME = re.compile(r"(?<=\w)(?:\+\++|#+)(?!\w)")
"""Of C++ or C#: the index has only the letter, and it is another name without them."""


class QueryError(RunloreError):
    """A query that cannot be answered; the message says why, in one line."""

    code = "query"
    hint = "`runlore search --help` shows how words and fields are written"


class Term(msgspec.Struct, frozen=True):
    """One thing to find. `phrases` are what the index is asked for: all of them must be there."""

    text: str
    phrases: tuple[str, ...]
    is_prefix: bool = False
    needs_proof: bool = False
    """A phrase may lie across two events, or across what was appended: the text itself must show
    it."""
    is_quoted: bool = False


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Which events count: one of the tools, one of the kinds, one of the files."""

    tools: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_error: bool = False

    def takes(self, event: SegmentEvent) -> bool:
        if self.is_error and not event.is_error:
            return False
        if self.tools and (event.tool or "").lower() not in self.tools:
            return False
        if self.kinds and not any(event.kind in kinds_of(kind) for kind in self.kinds):
            return False
        return not self.files or any(_names_file(wanted, event.files) for wanted in self.files)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query as it was understood: all of `groups`, one of the terms in each; in no event that has
    one of `without`."""

    groups: tuple[tuple[Term, ...], ...] = ()
    without: tuple[Term, ...] = ()
    sessions: tuple[tuple[Filter, ...], ...] = ()
    """Sessions that one filter of each chooses: a field that is given twice means either."""
    events: Chosen = Chosen()
    ignored: tuple[str, ...] = ()
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What `sessions` and `events` were made of, as it was given."""

    @property
    def needs_proof(self) -> bool:
        return (
            bool(self.without)
            or self.events != Chosen()
            or any(term.needs_proof for group in self.groups for term in group)
        )

    @property
    def is_answerable(self) -> bool:
        """Whether it says what to find, and not only what to leave out."""
        return bool(self.groups) or self.events != Chosen() or not self.without

    def with_fields(
        self, fields: Iterable[tuple[str, Iterable[str]]], now: datetime | None = None
    ) -> Query:
        """The same words with other fields. Raises QueryError."""
        given = {name: tuple(values) for name, values in fields}
        return msgspec.structs.replace(
            self,
            fields=tuple(given.items()),
            sessions=_sessions(given, now or datetime.now(UTC)),
            events=_events(given),
        )

    def mapped(self, field: str, change: Callable[[str], str]) -> Query:
        """The same with the values of a field changed: a face knows where `cwd:.` is."""
        if all(name != field for name, _ in self.fields):
            return self
        return self.with_fields(
            (name, map(change, values) if name == field else values) for name, values in self.fields
        )


def parse(text: str, now: datetime | None = None) -> Query:
    """What a query means. Nearly any text is one; raises QueryError for a field whose value makes
    no sense, and for OR alone."""
    groups: list[tuple[Term, ...]] = []
    without: list[Term] = []
    ignored: list[str] = []
    fields: dict[str, list[str]] = {}
    before: Term | None = None
    joins = is_again = is_or = False
    for minus, name, value in PIECE.findall(_clean(text)):
        field, value = _field(minus, name, value)
        bare = value.strip('"') if value.startswith('"') else value
        if value == "OR" and not minus and not field:
            is_or, joins = True, before is not None
            continue
        term = None if field else _term(bare, is_phrase=value.startswith('"'))
        if field:
            fields.setdefault(field, []).append(bare)
        elif term is None or sum(map(len, groups)) + len(without) >= MOST_WORDS:
            ignored.append(_short(value))
        elif minus:
            without.append(term)
        elif joins and before is not None:
            group = (before,) if is_again else groups.pop()
            groups.append((*group, term))
            is_again = False
        else:
            # Then it is no further word, unless it turns out to be the neighbour of an OR.
            is_again = (term,) in groups
            groups += [(term,)] * (not is_again)
        before = None if field or minus else term or before
        joins = False
    if is_or and not (groups or without or fields):
        raise QueryError("OR alone finds nothing; it stands between two words")
    named = {
        sign for term in (*without, *chain(*groups)) for sign in _SIGNS_OF_NAME.findall(term.text)
    }
    ignored += sorted(named - set(ignored))
    words = Query(groups=tuple(groups), without=tuple(without), ignored=tuple(ignored))
    return words.with_fields(fields.items(), now) if fields else words


def _field(minus: str, name: str, value: str) -> tuple[str, str]:
    """The field that a piece of a query is for, or "", and its text. A colon is also in what people
    paste."""
    field = name.lower()
    is_empty = not name and value[-1:] == ":" and value[:-1].lower() in FIELDS
    if minus and (is_empty or field in FIELDS):
        raise QueryError(f"-{name or value[:-1]}: is not understood; only words can be excluded")
    if is_empty or (field in FIELDS and not value.strip('"')):
        raise QueryError(
            f"{name or value[:-1]}: has no value; give one without a space between, or"
            f' "{name or value[:-1]}" for the word'
        )
    return (field, value) if field in FIELDS or not name else ("", f"{name}:{value}")


def parts_of(term: Term) -> list[Term]:
    """What a word like `module.parse_http(url)` is made of: its identifiers, or the parts of the
    only one."""
    if term.is_quoted or term.is_prefix or not term.text.isascii():
        return []
    names = re.findall(r"\w+", term.text)
    parts = names if len(names) > 1 else TOKEN.findall(term.text)
    found = [_term(part, is_phrase=False) for part in parts[:MOST_WORDS]] if len(parts) > 1 else []
    return [part for part in found if part is not None and len(part.text) > 1]


def phrases(text: str) -> tuple[str, ...]:
    """What to ask the index for: runs of Chinese, Japanese and Korean are there in pairs, so they
    are asked for apart."""
    found: list[str] = []
    at = 0
    for run in CJK.finditer(text):
        found += [
            text[at : run.start()],
            " ".join(pair.decode() for pair in cjk_pairs(run.group())),
        ]
        at = run.end()
    asked = tuple(phrase for phrase in (*found, text[at:]) if TOKEN.search(phrase))
    # One character alone is in the index only where it stands alone or ends a run, so it is left to
    # the proof.
    return (
        tuple(phrase for phrase in asked if not CJK.fullmatch(phrase) or len(phrase) > 1) or asked
    )


def path_phrases(path: str) -> tuple[str, ...]:
    """The same for the end of a path: around * and ? only the words that are there as a whole."""
    if not _WILD.search(path):
        return phrases(path)
    whole = [
        word
        for word in TOKEN.finditer(path)
        if not _WILD.search(path[max(0, word.start() - 1) : word.end() + 1])
    ]
    return tuple(asked for word in whole for asked in phrases(word.group()))


def kinds_of(kind: str) -> Sequence[str]:
    """The kinds that a word stands for: edits and test runs are calls as well."""
    return sorted(CALL_KINDS) if kind == "tool_call" else (kind,)


def _clean(text: str) -> str:
    """As UTF-8 can say it, without colours: an argument of a command line may hold any bytes,
    people paste what they see."""
    return blank_escapes(text.encode("utf-8", "replace")).decode().replace("\0", " ")


def _term(word: str, *, is_phrase: bool) -> Term | None:
    is_prefix = word.endswith("*") and not is_phrase
    word = word.rstrip("*") if is_prefix else word
    tokens = [match.end() for match in TOKEN.finditer(word)]
    if not tokens:
        return None
    word = word[: tokens[MOST_PARTS - 1]] if len(tokens) > MOST_PARTS else word
    asked = phrases(word)
    # One character: pairs begin with it.
    if all(len(phrase) == 1 and CJK.fullmatch(phrase) for phrase in asked):
        is_prefix = True
    # Words with which the index marks kinds and tools are in no text.
    whole, found = (
        TOKEN.findall(word),
        [token for phrase in asked for token in TOKEN.findall(phrase)],
    )
    needs_proof = (
        len(found) > 1 or found != whole or any(token.lower().startswith("zq") for token in whole)
    )
    return Term(word, asked, is_prefix, needs_proof, is_phrase)


def _sessions(fields: Mapping[str, Sequence[str]], now: datetime) -> tuple[tuple[Filter, ...], ...]:
    found: list[tuple[Filter, ...]] = []
    for field, name in _SESSION_FIELDS.items():
        values = list(fields.get(field, ()))
        if field == "session":
            values = [value.partition("#")[0] or value for value in values]
        given: list[Any] = (
            [_when(field, value, now) for value in values]
            if field in ("after", "before")
            else values
        )
        if given:
            found.append(tuple(Filter(parents_only=False, **{name: value}) for value in given))
    return tuple(found)


def _when(field: str, text: str, now: datetime) -> datetime:
    try:
        return moment(text, now)
    except (RunloreError, OverflowError, ValueError, OSError):
        # Years that no calendar of the system reaches.
        raise QueryError(
            f"{field}:{_short(text)} is not a time: try 7d, 24h, yesterday or 2026-03-14"
        ) from None


def _events(fields: Mapping[str, Sequence[str]]) -> Chosen:
    states = {state.lower() for state in fields.get("is", ())}
    if states - {"error"}:
        raise QueryError(
            f"is:{_short(min(states - {'error'}))} is not understood; there is is:error"
        )
    kinds = tuple(kind.lower() for kind in fields.get("kind", ()))
    if unknown := set(kinds) - KINDS:
        raise QueryError(
            f"there is no kind {_short(min(unknown))!r}; there are: {', '.join(sorted(KINDS))}"
        )
    return Chosen(
        tools=tuple(tool.lower() for tool in fields.get("tool", ())),
        kinds=kinds,
        files=tuple(fields.get("file", ())),
        is_error="error" in states,
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"


def _names_file(wanted: str, files: Sequence[str]) -> bool:
    """A path as people give one: its end, whole names at a time; * and ? stand for any
    characters."""
    end = "/" + wanted.replace("\\", "/").lower().lstrip("/")
    paths = [f"/{file.lower()}".replace("\\", "/") for file in files]
    if not _WILD.search(end):
        return any(path.endswith(end) for path in paths)
    pattern = "*" + end.replace("[", "[[]")  # Folders of some web frameworks have such names.
    return any(fnmatchcase(path, pattern) for path in paths)
