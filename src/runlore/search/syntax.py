"""The query language. Pure: text in, `Query` out; nothing here knows a store's data."""

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
from ..text.words import TRY_TIMES, moment

MAX_WORDS = 32
"""Maximum number of words in a query: people paste whole stack traces. The answer lists the words
that were left out."""

MAX_PHRASE_TOKENS = 64
"""Maximum number of tokens of a phrase, such as a line of minified code."""

_SESSION_FIELDS = {
    "agent": "agent", "repo": "repo", "cwd": "cwd", "branch": "branch", "model": "model",
    "machine": "machine", "author": "author",
    "after": "since", "before": "until",
    "session": "name",
}  # fmt: skip
_FILTER_FIELDS = {**_SESSION_FIELDS, "outcome": "outcome", "quality": "quality"}
"""Also what a query cannot say, but an option can."""
INJECTED = "injected"
"""What a hit is called whose text the agent's program added; `kind:` takes it too."""
EVENT_FIELDS = frozenset({"tool", "kind", "is", "file"})
FIELDS = _SESSION_FIELDS.keys() | EVENT_FIELDS

# A dash excludes only when a word follows: people paste --options.
QUERY_PART = re.compile(r'(-(?=["\w]))?(?:([a-z]+):(?!//))?("[^"]*"?|\S+)', re.IGNORECASE)
TOKEN = re.compile(r"[^\W_]+")
_WILD = re.compile(r"[*?]")
_SIGNS_OF_NAME = re.compile(r"(?<=\w)(?:\+\++|#+)(?!\w)")
"""The signs of C++ or C#: the index has only the letter, which is another name."""


class QueryError(RunloreError):
    """A query that cannot be answered; the message says why, in one line."""

    code = "query"
    hint = "`runlore search --help` shows how words and fields are written"


class Term(msgspec.Struct, frozen=True):
    """One thing to find. The index is searched for all of its `phrases`."""

    text: str
    phrases: tuple[str, ...]
    is_prefix: bool = False
    needs_proof: bool = False
    """A phrase may span two events, or two appended parts: only the text proves it."""
    is_quoted: bool = False


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The events that count: of one of the tools, one of the kinds, one of the files."""

    tools: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_error: bool = False

    def matches(self, event: SegmentEvent) -> bool:
        if self.is_error and not event.is_error:
            return False
        if self.tools and (event.tool or "").lower() not in self.tools:
            return False
        if self.kinds and not any(_is_of_kind(event, kind) for kind in self.kinds):
            return False
        return not self.files or any(_names_file(wanted, event.files) for wanted in self.files)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed query: one term of each group of `groups`, in no event with a term of `without`."""

    groups: tuple[tuple[Term, ...], ...] = ()
    without: tuple[Term, ...] = ()
    sessions: tuple[tuple[Filter, ...], ...] = ()
    """Alternatives of filters, all of which must hold: a field that is given twice means either
    value."""
    events: EventFilter = EventFilter()
    ignored: tuple[str, ...] = ()
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The source of `sessions` and `events`, as given."""
    words: tuple[str, ...] = ()
    """What was written beside the fields, in its order."""
    labels: tuple[tuple[str, str], ...] = ()
    """Fields that were not written as fields, each with its own words, for messages."""

    @property
    def needs_proof(self) -> bool:
        return (
            bool(self.without)
            or self.events != EventFilter()
            or any(term.needs_proof for group in self.groups for term in group)
        )

    @property
    def is_literal(self) -> bool:
        """True if it says how words are to be looked for, or in which events."""
        return (
            bool(self.without)
            or self.events != EventFilter()
            or any(len(group) > 1 or group[0].is_prefix for group in self.groups)
        )

    @property
    def is_answerable(self) -> bool:
        """True if it says what to find, and not only what to leave out."""
        return bool(self.groups) or self.events != EventFilter() or not self.without

    def with_fields(
        self, fields: Iterable[tuple[str, Iterable[str]]], now: datetime | None = None
    ) -> Query:
        """Return the same words with other fields. Raises QueryError."""
        given = {name: tuple(values) for name, values in fields}
        return msgspec.structs.replace(
            self,
            fields=tuple(given.items()),
            sessions=_sessions(given, now or datetime.now(UTC)),
            events=_events(given),
        )

    def mapped(self, field: str, change: Callable[[str], str]) -> Query:
        """Return the query with the values of a field changed: only a face knows the folder of
        `cwd:.`."""
        if all(name != field for name, _ in self.fields):
            return self
        return self.with_fields(
            (name, map(change, values) if name == field else values) for name, values in self.fields
        )

    def narrowed(self, chosen: Filter, labels: Mapping[str, str] | None = None) -> Query:
        """Return the query limited to the sessions that a filter chooses.

        The filter is added as fields, so that advice can name the field that excludes everything.
        `labels` has the user's own words for fields of the filter, where these differ from the
        values. Raises QueryError if the query has one of the fields already.
        """
        given = {
            field: value.isoformat() if isinstance(value, datetime) else value
            for field, name in _FILTER_FIELDS.items()
            if (value := getattr(chosen, name)) is not None
        }
        if twice := sorted(given.keys() & dict(self.fields).keys()):
            raise QueryError(f"{twice[0]}: is both in the query and in the filters; give it once")
        fields = [*self.fields, *((name, (value,)) for name, value in given.items())]
        words = {field: (labels or {}).get(_FILTER_FIELDS[field]) for field in given}
        narrowed = self.with_fields(fields) if given else self
        return msgspec.structs.replace(
            narrowed, labels=tuple((field, text) for field, text in words.items() if text)
        )


def parse(text: str, now: datetime | None = None) -> Query:
    """Parse a query. Nearly any text is valid.

    Raises QueryError for a field with an invalid value, and for OR alone.
    """
    parser = _Parser()
    for minus, name, value in QUERY_PART.findall(_clean(text)):
        parser.add(minus, name, value)
    if parser.has_or and not (parser.groups or parser.without or parser.fields):
        raise QueryError("OR alone finds nothing; it stands between two words")
    terms = (*parser.without, *chain(*parser.groups))
    signs = {sign for term in terms for sign in _SIGNS_OF_NAME.findall(term.text)}
    words = Query(
        groups=tuple(parser.groups),
        without=tuple(parser.without),
        ignored=(*parser.ignored, *sorted(signs - set(parser.ignored))),
        words=tuple(parser.words),
    )
    return words.with_fields(parser.fields.items(), now) if parser.fields else words


class _Parser:
    """The parts of a query, added one after another."""

    def __init__(self) -> None:
        self.groups: list[tuple[Term, ...]] = []
        self.without: list[Term] = []
        self.ignored: list[str] = []
        self.fields: dict[str, list[str]] = {}
        self.words: list[str] = []
        self.has_or = False
        self._before: Term | None = None
        self._joins = self._is_repeated = False

    def add(self, minus: str, name: str, value: str) -> None:
        field, value = _field(minus, name, value)
        is_phrase = value.startswith('"')
        bare = value.strip('"') if is_phrase else value
        if value == "OR" and not minus and not field:
            self.has_or, self._joins = True, self._before is not None
            return
        term = None
        if field:
            self.fields.setdefault(field, []).append(bare)
        else:
            term = plain_term(bare, is_phrase=is_phrase)
            self.words.append(bare)
            self._add_term(term, value, is_excluded=bool(minus))
        self._before = None if field or minus else term or self._before
        self._joins = False

    def _add_term(self, term: Term | None, text: str, *, is_excluded: bool) -> None:
        if term is None or sum(map(len, self.groups)) + len(self.without) >= MAX_WORDS:
            self.ignored.append(_short(text))
        elif is_excluded:
            self.without.append(term)
        elif self._joins and self._before is not None:
            group = (self._before,) if self._is_repeated else self.groups.pop()
            self.groups.append((*group, term))
            self._is_repeated = False
        else:
            # A repeated word is no further group, unless it turns out to be the neighbour of an OR.
            self._is_repeated = (term,) in self.groups
            self.groups += [(term,)] * (not self._is_repeated)


def _field(minus: str, name: str, value: str) -> tuple[str, str]:
    """Return the field of a part of a query, or "", and its text. Pasted text has colons too."""
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
    """Return the parts of a word like `module.parse_http(url)`: its identifiers, or the parts of
    one."""
    if term.is_quoted or term.is_prefix or not term.text.isascii():
        return []
    names = re.findall(r"\w+", term.text)
    parts = names if len(names) > 1 else TOKEN.findall(term.text)
    terms = [plain_term(part) for part in parts[:MAX_WORDS]] if len(parts) > 1 else []
    return [part for part in terms if part is not None and len(part.text) > 1]


def phrases(text: str) -> tuple[str, ...]:
    """Return the phrases to look up in the index.

    Runs of Chinese, Japanese and Korean are indexed in pairs, so they are separate phrases.
    """
    parts: list[str] = []
    at = 0
    for run in CJK.finditer(text):
        parts += [
            text[at : run.start()],
            " ".join(pair.decode() for pair in cjk_pairs(run.group())),
        ]
        at = run.end()
    indexed = tuple(phrase for phrase in (*parts, text[at:]) if TOKEN.search(phrase))
    # A single CJK character is in the index only if it is alone or ends a run: the text must prove
    # it.
    return (
        tuple(phrase for phrase in indexed if not CJK.fullmatch(phrase) or len(phrase) > 1)
        or indexed
    )


def path_phrases(path: str) -> tuple[str, ...]:
    """Return the phrases for the end of a path; around * and ? only its whole words."""
    if not _WILD.search(path):
        return phrases(path)
    whole = [
        word
        for word in TOKEN.finditer(path)
        if not _WILD.search(path[max(0, word.start() - 1) : word.end() + 1])
    ]
    return tuple(phrase for word in whole for phrase in phrases(word.group()))


def kinds_of(kind: str) -> Sequence[str]:
    """Return the kinds that a word stands for: edits and test runs are calls as well, and injected
    text is a part of what has the kind `lifecycle`."""
    if kind == INJECTED:
        return ("lifecycle",)
    return sorted(CALL_KINDS) if kind == "tool_call" else (kind,)


def _is_of_kind(event: SegmentEvent, kind: str) -> bool:
    return event.is_injected if kind == INJECTED else event.kind in kinds_of(kind)


def _clean(text: str) -> str:
    """Return valid UTF-8 without escape sequences: arguments may hold any bytes, and people
    paste."""
    return blank_escapes(text.encode("utf-8", "replace")).decode().replace("\0", " ")


def plain_term(word: str, *, is_phrase: bool = False) -> Term | None:
    """Return the term for a word or phrase; None if there is no letter or digit in it."""
    is_prefix = word.endswith("*") and not is_phrase
    word = word.rstrip("*") if is_prefix else word
    tokens = [match.end() for match in TOKEN.finditer(word)]
    if not tokens:
        return None
    word = word[: tokens[MAX_PHRASE_TOKENS - 1]] if len(tokens) > MAX_PHRASE_TOKENS else word
    indexed = phrases(word)
    # One character: pairs begin with it.
    if all(len(phrase) == 1 and CJK.fullmatch(phrase) for phrase in indexed):
        is_prefix = True
    # The marks of kinds and tools in the index are in no text.
    whole, tokens_of_phrases = (
        TOKEN.findall(word),
        [token for phrase in indexed for token in TOKEN.findall(phrase)],
    )
    needs_proof = (
        len(tokens_of_phrases) > 1
        or tokens_of_phrases != whole
        or any(token.lower().startswith("zq") for token in whole)
    )
    return Term(word, indexed, is_prefix, needs_proof, is_phrase)


def _sessions(fields: Mapping[str, Sequence[str]], now: datetime) -> tuple[tuple[Filter, ...], ...]:
    filters: list[tuple[Filter, ...]] = []
    for field, name in _FILTER_FIELDS.items():
        values = list(fields.get(field, ()))
        if field == "session":
            values = [value.partition("#")[0] or value for value in values]
        given: list[Any] = (
            [_when(field, value, now) for value in values]
            if field in ("after", "before")
            else values
        )
        if given:
            filters.append(tuple(Filter(parents_only=False, **{name: value}) for value in given))
    return tuple(filters)


def _when(field: str, text: str, now: datetime) -> datetime:
    try:
        return moment(text, now)
    except (RunloreError, OverflowError, ValueError, OSError):
        # Years out of the range of the system's calendar.
        raise QueryError(f"{field}:{_short(text)} is not a time: {TRY_TIMES}") from None


def _events(fields: Mapping[str, Sequence[str]]) -> EventFilter:
    states = {state.lower() for state in fields.get("is", ())}
    if states - {"error"}:
        raise QueryError(
            f"is:{_short(min(states - {'error'}))} is not understood; there is is:error"
        )
    kinds = tuple(kind.lower() for kind in fields.get("kind", ()))
    known = {*KINDS, INJECTED}
    if unknown := set(kinds) - known:
        raise QueryError(
            f"there is no kind {_short(min(unknown))!r}; there are: {', '.join(sorted(known))}"
        )
    return EventFilter(
        tools=tuple(tool.lower() for tool in fields.get("tool", ())),
        kinds=kinds,
        files=tuple(fields.get("file", ())),
        is_error="error" in states,
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"


def _names_file(wanted: str, files: Sequence[str]) -> bool:
    """Return True if a file ends with the given path, by whole names; * and ? are wildcards."""
    end = "/" + wanted.replace("\\", "/").lower().lstrip("/")
    paths = [f"/{file.lower()}".replace("\\", "/") for file in files]
    if not _WILD.search(end):
        return any(path.endswith(end) for path in paths)
    pattern = "*" + end.replace("[", "[[]")  # Folders of some web frameworks have such names.
    return any(fnmatchcase(path, pattern) for path in paths)
