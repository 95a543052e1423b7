"""Search everything that was said and done, best sessions first.

\b
  word  begin*  '"a phrase"'  a OR b  -word      all of them, in a session
  agent: repo: cwd: branch: model: machine: author: session: after: before:
  tool: kind: is:error file:                                which events

Without words, the options choose sessions. For --json see docs/json.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, ClassVar

import click
import msgspec

from ... import query
from ... import search as engine
from ...answers import Answer
from ...config import Config
from ...errors import NotFound
from ...query import names as naming
from ...store import Filter, Store
from ...text.words import ago, count
from ..failures import Failure
from ..hits import (
    WHOLE_EVENT,
    ReferencedEvent,
    SessionWithEvents,
    event_lines,
    heads,
    session_fields,
)
from ..options import (
    _folder,
    as_json,
    filter_labels,
    is_paged,
    limit_option,
    no_pager,
    open_store,
    search_filters,
    skipped,
)
from ..output import fit, note, one_line, page, paint, screen, wrap, write_json

_EXCLUSION = re.compile(r"-(?!-|h$|n\d*$).", re.DOTALL)
_DASH = "\0"  # No argument can have one.

MORE = 5
"""Times as many as before: what -n is proposed for."""


class WrongQuery(Failure):
    """A query that cannot be answered: the options are right, so that how to use them is no
    help."""

    exit_code = 2


class SearchCommand(click.Command):
    """A command whose words may begin with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_exclusions(self, args))


def with_exclusions(command: click.Command, args: list[str]) -> list[str]:
    """Takes `-word` for a word and not for options of one letter each; behind `--` a word is what
    it is."""
    options = [
        param for param in command.params if isinstance(param, click.Option) and not param.is_flag
    ]
    takes_value = {name for option in options for name in option.opts}
    end = args.index("--") if "--" in args else len(args)
    before = ["", *args[:end]]
    words = [
        _DASH + word[1:] if _EXCLUSION.match(word) and last not in takes_value else word
        for last, word in pairwise(before)
    ]
    literal = [
        '"{}"'.format(word.replace('"', " ")) if word.startswith("-") else word
        for word in args[end + 1 :]
    ]
    return words + literal


class MatchingSession(SessionWithEvents, frozen=True, kw_only=True):
    """A session that matches."""

    PRESENTS: ClassVar = (engine.Hit,)

    score: float
    missing: list[str]
    why: dict[str, float]
    """What the score is made of."""


class MatchingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that matches, with its session."""

    PRESENTS: ClassVar = (ReferencedEvent,)

    uid: str
    ref: str
    seq: int
    kind: str
    ts: str | None
    tool: str | None
    is_error: bool
    snippet: str
    marks: list[tuple[int, int]]
    is_injected: bool


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a search besides its matches."""

    query: str
    total: int
    """Number of sessions in the index that match."""
    missing: list[str]
    """Words that no session has together with the others."""
    ignored: list[str]
    """Parts of the query that are no words."""
    hints: list[str]
    """Other readings of the query, and fields that exclude everything."""
    partial: bool
    """True if not everything was looked at."""
    damaged: bool
    """True if not every text could be read; `runlore doctor` says more."""
    seconds: float


class SessionMatches(Matches, frozen=True, kw_only=True):
    """The sessions that match, best first."""

    hits: list[MatchingSession]


class EventMatches(Matches, frozen=True, kw_only=True):
    """The events that match, without their sessions."""

    events: list[MatchingEvent]


@click.command(cls=SearchCommand, help=__doc__)
@click.argument("words", nargs=-1, metavar="[WORD]...")
@limit_option("sessions or events", 10)
@click.option(
    "--sort",
    type=click.Choice(["relevance", "newest"]),
    default="relevance",
    metavar="KEY",
    help="Order of the results: relevance, newest.",
)
@search_filters
@click.option("--events", "is_flat", is_flag=True, help="List events, not sessions.")
@click.option("--explain", is_flag=True, help="Explain the rank of each session.")
@click.option(
    "--regex", metavar="PATTERN", help="Search all texts for a regular expression, newest first."
)
@no_pager
@as_json(
    SessionMatches,
    items="hits",
    whole=WHOLE_EVENT,
    forms={"--events": Answer(EventMatches, items="events", whole=WHOLE_EVENT)},
)
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    limit: int,
    sort: str,
    chosen: Filter,
    is_flat: bool,
    explain: bool,
    regex: str | None,
    is_json: bool,
) -> None:
    text = " ".join(words).replace(_DASH, "-").strip()
    if not text and regex is None and chosen == Filter(parents_only=False):
        raise click.UsageError("give words to search for")
    limit += skipped()
    with open_store() as (store, config):
        try:
            asked = engine.parse(text).mapped("cwd", _folder).narrowed(chosen, filter_labels())
            answer = ask(store, asked, regex, limit, sort)
            # The best of each session first, then more.
            if is_flat and 0 < sum(len(hit.events) for hit in answer.hits) < limit:
                answer = ask(store, asked, regex, limit, sort, events=limit + 1)
        except engine.QueryError as error:
            raise WrongQuery(one_line(str(error)), error.code, error.hint) from None
        hints = advise(store, text, asked, regex, answer)
        if is_json:
            write_json(
                as_answer(" ".join(filter(None, (regex, text))), answer, hints, limit, is_flat),
                "--events" * is_flat,
            )
        elif answer.hits:
            page(as_lines(store, answer, limit, is_flat, explain), pager=is_paged(ctx))
            for line in (
                *caveats(answer, asked),
                *hints,
                *more_of(answer, asked, regex, limit, is_flat),
            ):
                note(paint(line, "dim", sys.stderr))
        else:
            explain_nothing(store, config, answer, asked, regex, hints)
    if not answer.hits:
        ctx.exit(1)


def ask(
    store: Store, asked: engine.Query, regex: str | None, limit: int, sort: str, **more: int
) -> engine.Answer:
    if regex is None:
        return engine.search(store, asked, limit=limit, sort=sort, **more)
    return engine.regex(store, regex, limit=limit, fields=asked, **more)


def as_answer(
    text: str, answer: engine.Answer, hints: list[str], limit: int, is_flat: bool
) -> Matches:
    about: dict[str, Any] = {
        "query": text,
        "total": answer.total,
        "missing": answer.missing,
        "ignored": answer.ignored,
        "hints": hints,
        "partial": answer.is_partial,
        "damaged": answer.is_damaged,
        "seconds": round(answer.seconds, 4),
    }
    if is_flat:
        events = [
            MatchingEvent(
                uid=hit.session.uid,
                ref=f"{hit.session.uid}#{event.seq}",
                **msgspec.structs.asdict(event),
            )
            for hit, event in flat(answer, limit)
        ]
        return EventMatches(**about, events=events)
    hits = [
        MatchingSession(
            **session_fields(hit.session, hit.events),
            score=hit.score,
            missing=hit.missing,
            why=hit.why,
        )
        for hit in answer.hits
    ]
    return SessionMatches(**about, hits=hits)


def as_lines(
    store: Store, answer: engine.Answer, limit: int, is_flat: bool, explain: bool
) -> list[str]:
    sessions = [hit.session for hit in answer.hits]
    names = naming.short_ids(store, sessions)
    if is_flat:
        name_of = {session.uid: name for session, name in zip(sessions, names, strict=True)}
        chosen = flat(answer, limit)
        return list(
            event_lines(
                [f"{name_of[hit.session.uid]}#{event.seq}" for hit, event in chosen],
                [event for _, event in chosen],
            )
        )
    lines: list[str] = []
    for hit, name, head in zip(answer.hits, names, heads(sessions, names), strict=True):
        lines += [""] * bool(lines)
        lines.append(head)
        if hit.missing:
            lines.append(
                paint(fit(f"  without {', '.join(map(one_line, hit.missing))}", screen()[0]), "dim")
            )
        if explain:
            lines += [
                paint(f"  {part}", "dim") for part in wrap(explain_score(hit), screen()[0] - 2)
            ]
        lines += event_lines([f"{name}#{event.seq}" for event in hit.events], hit.events)
    return lines


def explain_score(hit: engine.Hit) -> str:
    parts = [f"{name} {value:.2f}" for name, value in hit.why.items() if value >= 0.005]
    return f"score {hit.score:.2f} = {' + '.join(parts)}" if parts else "newest first, no score"


def flat(answer: engine.Answer, limit: int) -> Sequence[tuple[engine.Hit, engine.EventHit]]:
    """The events of all sessions, as many as were asked for."""
    return [(hit, event) for hit in answer.hits for event in hit.events][:limit]


# ── what is said beside it ────────────────────────────────────────────────────────────────────────
def advise(
    store: Store, text: str, asked: engine.Query, regex: str | None, answer: engine.Answer
) -> list[str]:
    """Return hints: other readings of the query, and the field that excludes all matches."""
    said = engine.remarks(text)
    if not answer.hits or answer.missing:
        said += engine.blame(store, asked, is_words=regex is None)
    return [one_line(line) for line in said]


def caveats(answer: engine.Answer, asked: engine.Query) -> Iterator[str]:
    """Yield the limits of this answer that a person needs to judge it."""
    missing = ", ".join(map(one_line, answer.missing))
    if missing and answer.hits:
        yield (
            f"no session{' that the fields choose' if asked.fields else ''} has all words; missing:"
            f" {missing}"
        )
    elif missing:
        yield f"no session has {'any of: ' if len(answer.missing) > 1 else ''}{missing}"
    if answer.ignored:
        has_signs = any(not re.search(r"\w", word) for word in answer.ignored)
        ignored = " ".join(map(one_line, answer.ignored))
        yield f"not words, and ignored: {ignored}{'; --regex finds signs' if has_signs else ''}"
    if answer.is_damaged:
        yield "the store is damaged, and not all of its texts can be read; run `runlore doctor`"
    if answer.is_partial:
        yield (
            f"not everything was looked at; {'a rarer word or ' * bool(asked.groups)}a narrower"
            " filter finds more"
        )


def more_of(
    answer: engine.Answer, asked: engine.Query, regex: str | None, limit: int, is_flat: bool
) -> Iterator[str]:
    """Yield how much of the answer is shown, and how to see the rest."""
    shown, more = len(answer.hits), limit * MORE
    if is_flat and sum(len(hit.events) for hit in answer.hits) > limit:
        yield f"the best {count(limit, 'event')}; -n {more} shows more"
    elif regex is not None and answer.is_partial:
        yield f"the newest {count(shown, 'session')}; -n {more} looks further"
    elif answer.total > shown >= limit and not is_flat:
        rest = f"-n {answer.total} shows all" if answer.total <= more else f"-n {more} shows more"
        if asked.needs_proof:  # Only the index was asked about the others.
            yield (
                f"{shown} of at most {count(answer.total, 'session')} (only those shown were"
                f" checked for phrases and filters); {rest}"
            )
        else:
            yield f"{shown} of {count(answer.total, 'session')}; {rest}"


def explain_nothing(
    store: Store,
    config: Config,
    answer: engine.Answer,
    asked: engine.Query,
    regex: str | None,
    hints: Sequence[str],
) -> None:
    """Print what to try if nothing matches."""
    if query.is_empty(store):
        raise NotFound(query.EMPTY)
    note("nothing found")
    for line in (*caveats(answer, asked), *hints):
        note(line)
    if regex is not None:
        note("(?i) finds capitals too")
    elif asked.groups and not hints:
        note(
            f"try {'fewer words, ' * (len(asked.groups) > 1)}begin* for all words that begin so, or"
            " --regex"
        )
    synced = query.last_sync(config)
    if synced is not None and (now := datetime.now(UTC)) - synced > timedelta(hours=1):
        note(f"the last sync was {ago(synced, now)}; `runlore sync` reads what is new")
