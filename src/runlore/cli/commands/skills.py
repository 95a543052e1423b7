"""Show how often skills pass, for each model.

Of the live sessions that agents log themselves. An invocation counts once for
each model that tried it, with the result of that model's last attempt. The rate
is of all that were not skipped, also of those whose result is unknown. With
--json an array of rates; with --history an object with what was tried
(docs/json.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import click
import msgspec

from ... import config as settings
from ...answers import Answer
from ...errors import ModelError, ReadError
from ...live import SessionStore
from ...live.importers import read_skills
from ...live.skills import Rate, SkillEntry, entries_of, format_history, pass_rates, window_of
from ...text.words import brief, count, short
from ..live_choice import resolve
from ..options import as_json
from ..output import Column, clean, echo, note, one_line, paint, table, warn, write_json


class SkillHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The skills that a session tried."""

    session: str
    text: str
    """For a next prompt."""
    entries: list[SkillEntry]


@click.command(help=__doc__)
@click.option("--skill", metavar="GLOB", help="Only these skills.")
@click.option("--model", metavar="GLOB", help="Only these models.")
@click.option("--window", metavar="Nh|Nd", help="Only attempts of the last hours or days: 24h, 7d.")
@click.option(
    "--history", metavar="SESSION", help="Print what a session tried, as text for the next prompt."
)
@click.option("--exclude-phase", metavar="PHASE", help="Leave this phase out of the history.")
@click.option(
    "--old",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Read old skill logs instead: a file, or a folder of them.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the live sessions (~/.runlore/live).",
)
@as_json(list[Rate], items="", forms={"--history": Answer(SkillHistory, items="entries")})
def command(
    skill: str | None,
    model: str | None,
    window: str | None,
    history: str | None,
    exclude_phase: str | None,
    old: Path | None,
    folder: Path | None,
    is_json: bool,
) -> None:
    if window is not None:
        check(window)
    store = SessionStore(folder if folder is not None else settings.load().home / "live")
    if history is not None:
        tell_history(store, history, exclude_phase, is_json)
        return
    now = datetime.now(UTC)
    entries = read_old(old) if old is not None else entries_of(store, window, now=now)
    rates = [
        rate
        for rate in pass_rates(entries, window, now=now)
        if fits(rate.skill, skill) and fits(rate.model, model)
    ]
    if is_json:
        write_json(rates)
    elif rates:
        show(rates)
    else:
        note(
            "no skill was run; an agent logs one with `session.skill(name)`"
            if window is None
            else f"no skill was run within {window}"
        )


def check(window: str) -> None:
    try:
        window_of(window)
    except ModelError as error:
        raise click.BadParameter(str(error), param_hint="--window") from None


def fits(name: str | None, pattern: str | None) -> bool:
    return pattern is None or fnmatchcase(name or "", pattern)


def read_old(path: Path) -> Iterator[SkillEntry]:
    problems = 0
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        try:
            found = read_skills(file)
        except ReadError as error:
            warn(one_line(str(error)))
            continue
        problems += len(found.problems)
        yield from found.entries
    if problems:
        warn(f"{count(problems, 'line')} could not be read, or not be believed, as written")


def tell_history(store: SessionStore, name: str, exclude_phase: str | None, is_json: bool) -> None:
    name = resolve(store, name)
    with store.open(name, readonly=True) as session:
        entries = (
            session.skills.entries() if is_json else list(session.skills.view().entries.values())
        )
    text = format_history(entries, exclude_phase)
    if is_json:
        write_json(SkillHistory(session=name, text=text, entries=entries), "--history")
    elif text:
        echo(clean(text))
    else:
        note(f"{one_line(name)} ran no skill")


def show(rates: list[Rate]) -> None:
    names = [
        Column("SKILL", [one_line(rate.skill) for rate in rates], max_width=32),
        Column("MODEL", [one_line(rate.model) or "-" for rate in rates], max_width=32),
    ]
    head, *lines = table([*names, *outcome_columns(rates), *cost_columns(rates)])
    echo(paint(head, "dim"))
    echo("\n".join(lines))


def outcome_columns(rates: list[Rate]) -> list[Column]:
    return [
        Column(
            "RATE", ["-" if rate.rate is None else f"{rate.rate:.0%}" for rate in rates], right=True
        ),
        Column("PASS", [str(rate.passed) for rate in rates], right=True),
        Column("FAIL", [str(rate.failed) for rate in rates], right=True),
        Column("SKIP", [str(rate.skipped or "") for rate in rates], right=True, leaves=3),
        Column("OPEN", [str(rate.running or "") for rate in rates], right=True, leaves=4),
        Column("UNKNOWN", [str(rate.unknown or "") for rate in rates], right=True, leaves=1),
        Column("VERIFIED", [str(rate.verified) for rate in rates], right=True, leaves=7),
    ]


def cost_columns(rates: list[Rate]) -> list[Column]:
    return [
        Column("TRIES", [str(rate.attempts) for rate in rates], right=True, leaves=5),
        Column(
            "TOKENS",
            [short(rate.tokens) if rate.tokens else "" for rate in rates],
            right=True,
            leaves=2,
        ),
        Column("USD", [money(rate.usd) for rate in rates], right=True, leaves=6),
        Column("TIME", [brief(rate.duration_ms / 1000) for rate in rates], right=True),
    ]


def money(usd: float | None) -> str:
    """Return the amount to the cent, or to a hundredth of a cent if it is below one."""
    return "" if usd is None else f"{usd:.2f}" if usd >= 0.01 or not usd else f"{usd:.4f}"
