"""What a query means. Pure: text in, `Query` out; nothing here knows a store's data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..errors import RunloreError
from ..model import CALL_KINDS
from ..query import moment
from ..store import Filter, SegmentEvent
from ..store.words import CJK, cjk_pairs

MOST_WORDS = 32
"""People paste whole stack traces. More words cost time and add nothing; the answer lists those that were left out."""

MOST_PARTS = 64
"""Of a phrase: a line of minified code is cut there."""

_SESSION_FIELDS = {
    "agent": "agent", "repo": "repo", "cwd": "cwd", "branch": "branch", "model": "model", "after": "since", "before": "until",
    "session": "name",
}  # fmt: skip
_EVENT_FIELDS = {"tool", "kind", "is", "file"}
_FIELDS = _SESSION_FIELDS.keys() | _EVENT_FIELDS

# A dash excludes only when a word follows: people paste --options.
_PIECE = re.compile(r'(-(?=["\w]))?(?:([a-z]+):(?!//))?("[^"]*"?|\S+)', re.IGNORECASE)
TOKEN = re.compile(r"[^\W_]+")


class QueryError(RunloreError):
    """A query that cannot be answered; the message says why, in one line."""


class Term(msgspec.Struct, frozen=True):
    """One thing to find. `phrases` are what the index is asked for: all of them must be there."""

    text: str
    phrases: tuple[str, ...]
    is_prefix: bool = False
    needs_proof: bool = False
    """A phrase may lie across two events, or across what was appended: the text itself must show it."""
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
    """A query as it was understood: all of `groups`, one of the terms in each; in no event that has one of `without`."""

    groups: tuple[tuple[Term, ...], ...] = ()
    without: tuple[Term, ...] = ()
    sessions: tuple[tuple[Filter, ...], ...] = ()
    """Sessions that one filter of each chooses: a field that is given twice means either."""
    events: Chosen = Chosen()
    ignored: tuple[str, ...] = ()

    @property
    def needs_proof(self) -> bool:
        return bool(self.without) or self.events != Chosen() or any(term.needs_proof for group in self.groups for term in group)


def parse(text: str, now: datetime | None = None) -> Query:
    """What a query means. Any text is one; raises QueryError only for a field whose value makes no sense."""
    groups: list[tuple[Term, ...]] = []
    without: list[Term] = []
    ignored: list[str] = []
    fields: dict[str, list[str]] = {}
    joins = False
    for minus, name, value in _PIECE.findall(_clean(text)):
        field = name.lower()
        if name and field not in _FIELDS:
            value, field = f"{name}:{value}", ""
        bare = value.strip('"') if value.startswith('"') else value
        if field and minus:
            raise QueryError(f"-{name}: is not understood; only words can be excluded")
        if field:
            fields.setdefault(field, []).append(bare)
        elif value == "OR" and not minus:
            joins = bool(groups)
            continue
        elif (term := _term(bare, is_phrase=value.startswith('"'))) is None or len(groups) + len(without) >= MOST_WORDS:
            ignored.append(_short(value))
        elif minus:
            without.append(term)
        elif joins:
            groups[-1] = (*groups[-1], term)
        elif (term,) not in groups:
            groups.append((term,))
        joins = False
    return Query(
        groups=tuple(groups),
        without=tuple(without),
        sessions=_sessions(fields, now or datetime.now(UTC)),
        events=_events(fields),
        ignored=tuple(ignored),
    )


def parts_of(term: Term) -> list[Term]:
    """What a word like `module.parse_http(url)` is made of: its identifiers, or the parts of the only one."""
    if term.is_quoted or term.is_prefix or not term.text.isascii():
        return []
    names = re.findall(r"\w+", term.text)
    parts = names if len(names) > 1 else TOKEN.findall(term.text)
    found = [_term(part, is_phrase=False) for part in parts[:MOST_WORDS]] if len(parts) > 1 else []
    return [part for part in found if part is not None and len(part.text) > 1]


def phrases(text: str) -> tuple[str, ...]:
    """What to ask the index for: runs of Chinese, Japanese and Korean are there in pairs, so they are asked for apart."""
    found: list[str] = []
    at = 0
    for run in CJK.finditer(text):
        found += [text[at : run.start()], " ".join(pair.decode() for pair in cjk_pairs(run.group()))]
        at = run.end()
    return tuple(phrase for phrase in (*found, text[at:]) if TOKEN.search(phrase))


def kinds_of(kind: str) -> Sequence[str]:
    """The kinds that a word stands for: edits and test runs are calls as well."""
    return sorted(CALL_KINDS) if kind == "tool_call" else (kind,)


def _clean(text: str) -> str:
    """As UTF-8 can say it: an argument of a command line may hold bytes that are none."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _term(word: str, *, is_phrase: bool) -> Term | None:
    is_prefix = word.endswith("*") and not is_phrase
    word = word.rstrip("*") if is_prefix else word
    tokens = [match.end() for match in TOKEN.finditer(word)]
    if not tokens:
        return None
    word = word[: tokens[MOST_PARTS - 1]] if len(tokens) > MOST_PARTS else word
    asked = phrases(word)
    if len(asked) == 1 and len(asked[0]) == 1 and CJK.fullmatch(asked[0]):  # One character: pairs begin with it.
        is_prefix = True
    # Words with which the index marks kinds and tools are in no text.
    is_mark = any(token.lower().startswith("zq") for token in TOKEN.findall(word))
    needs_proof = is_mark or sum(len(TOKEN.findall(phrase)) for phrase in asked) > 1
    return Term(word, asked, is_prefix, needs_proof, is_phrase)


def _sessions(fields: dict[str, list[str]], now: datetime) -> tuple[tuple[Filter, ...], ...]:
    found: list[tuple[Filter, ...]] = []
    for field, name in _SESSION_FIELDS.items():
        values = [value for value in fields.get(field, ()) if value]
        if field == "session":
            values = [value.partition("#")[0] for value in values]
        given: list[Any] = [_when(field, value, now) for value in values] if field in ("after", "before") else values
        if given:
            found.append(tuple(Filter(parents_only=False, **{name: value}) for value in given))
    return tuple(found)


def _when(field: str, text: str, now: datetime) -> datetime:
    try:
        return moment(text, now)
    except (RunloreError, OverflowError, ValueError, OSError):  # Years that no calendar of the system reaches.
        raise QueryError(f"{field}:{_short(text)} is not a time: try 7d, 24h, yesterday or 2026-03-14") from None


def _events(fields: dict[str, list[str]]) -> Chosen:
    states = {state.lower() for state in fields.get("is", ())}
    if states - {"error"}:
        raise QueryError(f"is:{_short(min(states - {'error'}))} is not understood; there is is:error")
    return Chosen(
        tools=tuple(tool.lower() for tool in fields.get("tool", ()) if tool),
        kinds=tuple(kind.lower() for kind in fields.get("kind", ()) if kind),
        files=tuple(file for file in fields.get("file", ()) if file),
        is_error="error" in states,
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"


def _names_file(wanted: str, files: Sequence[str]) -> bool:
    """A path as people give one: its end, whole names at a time."""
    end = "/" + wanted.replace("\\", "/").lower().lstrip("/")
    return any(f"/{file.lower()}".replace("\\", "/").endswith(end) for file in files)
