"""Show which sessions contained secrets, but not the secrets.

They were removed before anything was stored, but the agents' own files have
them: revoke each one. The same six digits mean the same secret. --check
searches the store, and the files beside it, for text that the present rules
would redact; exit status 1 if there is any. --json prints an array.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import click
import msgspec

from ...answers import Answer
from ...doctor.leftovers import Leftover, find_leftovers
from ...query.leaks import Leak, describe_kind, leaks
from ...redact.engine import Redactor, rules_from_config
from ...store import Filter, SessionLine
from ...text.words import count
from ..options import as_json, filters, is_paged, no_pager, open_store
from ..output import echo, note, one_line, page, write_json
from ..progress import Progress
from .ls import count_subagents, explain_nothing

SHOWN = 3


class SessionLeak(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets of one kind in one session."""

    PRESENTS: ClassVar = (Leak, SessionLine)

    uid: str
    agent: str
    title: str | None
    source_path: str | None
    source_missing_at: str | None
    kind: str
    count: int
    secrets: tuple[str, ...]
    """A keyed hash of each, the same wherever the secret stands."""
    events: tuple[int, ...]


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Look for secrets that are still stored.")
@filters
@no_pager
@as_json(list[SessionLeak], items="", forms={"--check": Answer(list[Leftover], items="")})
@click.pass_context
def command(ctx: click.Context, check: bool, chosen: Filter, is_json: bool) -> None:
    if check and chosen != Filter():
        raise click.UsageError("--check searches the whole store; leave the filters out")
    if check:
        ctx.exit(check_store(is_json))
    with open_store() as (store, _):
        found = leaks(store, chosen)
        total = store.sessions.count(chosen)
        more = count_subagents(store, chosen, total)
        if is_json:
            write_json([as_answer(leak) for leak in found])
        if not total:
            explain_nothing(store, chosen, is_json)
    if found and not is_json:
        show(ctx, found, more)
    elif total and not is_json:
        note(f"no secret was found in {count(total, 'session')}{more}")


def check_store(is_json: bool) -> int:
    """Print what is left in the store, and return the exit status."""
    with open_store() as (store, setting), Progress() as progress:
        # Nothing is stored, so any key will do.
        redactor = Redactor(bytes(32), rules_from_config(setting.redact.rules))
        left = list(find_leftovers(store, setting.home, redactor, progress.show))
    if is_json:
        write_json(left)
    for one in () if is_json else left:
        echo(describe_leftover(one))
    if not is_json:
        note(
            f"{count(len(left), 'place')} with a secret: `runlore sync` applies changed rules to"
            " what is stored, `runlore forget SESSION` removes a session"
            if left
            else "no secret is left"
        )
    return 1 if left else 0


def describe_leftover(one: Leftover) -> str:
    owner = one.session or one.source or ""
    event = "" if one.event is None else f"#{one.event}"
    return one_line(f"{describe_kind(one.kind):21} {one.place}.{one.field}  {owner}{event}")


def show(ctx: click.Context, found: list[Leak], more: str) -> None:
    page(as_lines(found), pager=is_paged(ctx))
    kinds = Counter(dict.fromkeys(sorted({leak.kind for leak in found}), 0))
    for leak in found:
        kinds[leak.kind] += leak.count
    # One secret may match two rules.
    different = {one for leak in found for one in leak.hashes}
    parts = ", ".join(f"{number} × {describe_kind(kind)}" for kind, number in kinds.most_common())
    note(
        f"{count(len(different), 'different secret')} in"
        f" {count(len({leak.line.uid for leak in found}), 'session')}{more}: {parts}"
    )


def as_answer(leak: Leak) -> SessionLeak:
    line = leak.line
    return SessionLeak(
        uid=line.uid,
        agent=line.agent,
        title=line.title,
        source_path=line.source_path,
        source_missing_at=line.source_missing_at,
        kind=leak.kind,
        count=leak.count,
        secrets=leak.hashes,
        events=leak.events,
    )


def as_lines(found: list[Leak]) -> list[str]:
    lines: list[str] = []
    last = None
    for leak in found:
        line = leak.line
        if line.uid != last:
            last = line.uid
            gone = "  (gone)" if line.source_missing_at else ""
            lines.append(
                f"{line.uid}  {(line.ended_at or '')[:10]}  {one_line(line.title or '')[:60]}"
            )
            lines.append(f"  {one_line(line.source_path or '')}{gone}")
        where = " ".join(f"#{seq}" for seq in leak.events[:SHOWN])
        more = " …" if len(leak.events) > SHOWN else ""
        secrets = " ".join(leak.hashes[:SHOWN])
        lines.append(
            f"  {leak.count:>4} × {describe_kind(leak.kind):21} {secrets}  at {where}{more}"
        )
    return lines
