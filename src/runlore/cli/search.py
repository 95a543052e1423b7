"""Search all that was said and done, the best sessions first.

\b
  word  begin*  '"a phrase"'  a OR b  -word      all of them, in a session
  agent: repo: cwd: branch: model: after: before: session:  which sessions
  tool: kind: is:error file:                                which events

Behind -- a word may begin with a dash. With --json an object: query, total,
missing (words), ignored, partial, seconds, and hits: sessions as `ls` gives
them, with score, missing and events (ref, seq, kind, tool, ts, is_error,
snippet, marks: where the words are in it); with --events, events and no hits.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import click

from .. import query
from .. import search as engine
from ..config import Config
from ..store import Filter, Store
from ._hits import event_data, event_lines, heads, session_data
from ._options import as_json, open_store
from ._out import fit, note, one_line, page, paint, screen, write_json
from ._words import ago, count

_EXCLUSION = re.compile(r"-(?!-|h$|n\d*$).", re.DOTALL)
_DASH = "\0"  # No argument can have one.


class WithExclusions(click.Command):
    """Takes `-word` for a word and not for options of one letter each; behind `--` a word is what it is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {name for param in self.params if isinstance(param, click.Option) and not param.is_flag for name in param.opts}
        end = args.index("--") if "--" in args else len(args)
        before = ["", *args[:end]]
        words = [_DASH + word[1:] if _EXCLUSION.match(word) and last not in takes_value else word for last, word in pairwise(before)]
        literal = ['"{}"'.format(word.replace('"', " ")) if word.startswith("-") else word for word in args[end + 1 :]]
        return super().parse_args(ctx, words + literal)


@click.command(cls=WithExclusions, help=__doc__)
@click.argument("words", nargs=-1, metavar="WORD...")
@click.option("-n", "--limit", type=click.IntRange(1), default=10, metavar="N", help="At most so many sessions, or events (10).")
@click.option("--sort", type=click.Choice(["relevance", "newest"]), default="relevance", help="What comes first.")
@click.option("--events", "is_flat", is_flag=True, help="Events alone, not under their sessions.")
@click.option("--regex", metavar="PATTERN", help="Look through all texts, newest first.")
@as_json
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], limit: int, sort: str, is_flat: bool, regex: str | None, is_json: bool) -> None:
    text = " ".join(words).replace(_DASH, "-").strip()
    if not text and regex is None:
        raise click.UsageError("give words to search for")
    with open_store() as (store, config):
        try:
            if regex is None:
                answer = engine.search(store, text, limit=limit, sort=sort)
            else:
                answer = engine.regex(store, regex, limit=limit, fields=text)
        except engine.QueryError as error:
            raise click.UsageError(one_line(str(error))) from None
        if is_json:
            write_json(as_data(" ".join(filter(None, (regex, text))), answer, limit, is_flat))
        elif answer.hits:
            page(as_lines(store, answer, limit, is_flat), pager=not ctx.find_root().params["no_pager"])
            explain(answer, limit, is_flat, is_exact=not engine.parse(text).needs_proof)
        else:
            explain_nothing(store, config, answer, is_regex=regex is not None)
    if not answer.hits:
        ctx.exit(1)


def as_data(text: str, answer: engine.Answer, limit: int, is_flat: bool) -> dict[str, Any]:
    about = {
        "query": text,
        "total": answer.total,
        "missing": answer.missing,
        "ignored": answer.ignored,
        "partial": answer.is_partial,
        "seconds": round(answer.seconds, 4),
    }
    if is_flat:
        return {**about, "events": [{"uid": hit.session.uid, **event_data(hit.session.uid, event)} for hit, event in flat(answer, limit)]}
    hits = [
        {
            **session_data(hit.session),
            "score": hit.score,
            "missing": hit.missing,
            "events": [event_data(hit.session.uid, event) for event in hit.events],
        }
        for hit in answer.hits
    ]
    return {**about, "hits": hits}


def as_lines(store: Store, answer: engine.Answer, limit: int, is_flat: bool) -> list[str]:
    sessions = [hit.session for hit in answer.hits]
    names = query.short_ids(store, sessions)
    if is_flat:
        name_of = {session.uid: name for session, name in zip(sessions, names, strict=True)}
        chosen = flat(answer, limit)
        return list(event_lines([f"{name_of[hit.session.uid]}#{event.seq}" for hit, event in chosen], [event for _, event in chosen]))
    lines: list[str] = []
    for hit, name, head in zip(answer.hits, names, heads(sessions, names), strict=True):
        lines += [""] * bool(lines)
        lines.append(head)
        if hit.missing:
            lines.append(paint(fit(f"  without {', '.join(map(one_line, hit.missing))}", screen()[0]), "dim"))
        lines += event_lines([f"{name}#{event.seq}" for event in hit.events], hit.events)
    return lines


def flat(answer: engine.Answer, limit: int) -> Sequence[tuple[engine.Hit, engine.EventHit]]:
    """The events of all sessions, as many as were asked for."""
    return [(hit, event) for hit in answer.hits for event in hit.events][:limit]


# ── what is said beside it ───────────────────────────────────────────────────────────────────────────────────────────
def explain(answer: engine.Answer, limit: int, is_flat: bool, *, is_exact: bool) -> None:
    """What a person must know to judge the answer. `is_exact` when the total is not only an upper bound."""
    said = list(caveats(answer))
    if is_flat and sum(len(hit.events) for hit in answer.hits) > limit:
        said.append(f"the best {count(limit, 'event')}; -n shows more")
    elif answer.total > len(answer.hits) >= limit and not is_flat:
        said.append(f"{len(answer.hits)} of {'' if is_exact else 'up to '}{count(answer.total, 'session')}; -n shows more")
    for line in said:
        note(paint(line, "dim", sys.stderr))


def explain_nothing(store: Store, config: Config, answer: engine.Answer, *, is_regex: bool) -> None:
    """What to try instead."""
    if not store.count(Filter(parents_only=False)):
        note("the store is empty; run `runlore sync`, or `runlore demo` for something to look at")
        return
    note("nothing found")
    for line in caveats(answer):
        note(line)
    note("(?i) finds capitals too" if is_regex else "try fewer words, begin* for all words that begin so, or --regex")
    synced = query.last_sync(config)
    if synced is not None and (now := datetime.now(UTC)) - synced > timedelta(hours=1):
        note(f"the last sync was {ago(synced, now)}; `runlore sync` reads what is new")


def caveats(answer: engine.Answer) -> Iterator[str]:
    if answer.missing:
        yield f"no session has all words; missing: {', '.join(map(one_line, answer.missing))}"
    if answer.ignored:
        yield f"not words, and ignored: {' '.join(map(one_line, answer.ignored))}"
    if answer.is_partial:
        yield "not everything was looked at; -n, a rarer word or a narrower filter finds more"
