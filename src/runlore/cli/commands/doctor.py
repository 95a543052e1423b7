"""Check the store, and repair what can be derived again.

Checks a sample, or everything with --full; nothing is changed without --repair. Whatever a repair
cannot rebuild from the store, the next sync derives again from the agents' files. Exit status 1 if
something is wrong. With --json an object: ok, checks, repairs, … (docs/json.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing

import click

from ... import config as settings
from ... import doctor
from ... import store as stores
from ...doctor import Check, Report
from ...text.words import count
from ..options import as_json
from ..output import Column, echo, note, one_line, paint, screen, wrap, write_json
from ..progress import Progress


@click.command(help=__doc__)
@click.option("--full", is_flag=True, help="Check everything, including slow checks.")
@click.option("--repair", is_flag=True, help="Repair everything that can be repaired.")
@as_json(Report, items="checks")
@click.pass_context
def command(ctx: click.Context, full: bool, repair: bool, is_json: bool) -> None:
    config = settings.load()
    # Says so when there is none: a doctor makes no store.
    stores.open_for_reading(config.store).close()
    with (
        closing(stores.open_store(config.store, read_only=not repair)) as store,
        Progress() as progress,
    ):
        report = doctor.examine(store, config, full=full, repair=repair, progress=progress.show)
    if is_json:
        write_json(report)
    else:
        show(report)
    ctx.exit(0 if report.ok else 1)


def show(report: Report) -> None:
    """Print a line for each check, its problems, and what to do about them."""
    show_checks(report)
    for text in report.repaired:
        note(f"repaired: {one_line(text)}")
    show_verdict(report)


def show_checks(report: Report) -> None:
    columns = [
        Column(
            "", [paint(sign(check.ok), "green" if check.ok else "red") for check in report.checks]
        ),
        Column("", [check.name for check in report.checks]),
        Column("", [looked_at(check) for check in report.checks], right=True),
    ]
    lines = zip(*(column.lines()[1:] for column in columns), strict=True)
    indent = len(sign(True)) + sum(column.width for column in columns[1:]) + 2 * len(columns)
    for cells, check in zip(lines, report.checks, strict=True):
        hanging(
            f"{'  '.join(cells)}  ",
            indent,
            "; ".join([describe(check), *map(one_line, check.notes)]),
        )
        for problem in check.problems:
            hanging("    ", 4, one_line(problem))
        if check.count > len(check.problems):
            echo(f"    and {check.count - len(check.problems):,} more")


def show_verdict(report: Report) -> None:
    if report.ok:
        is_whole = all(check.checked == check.of for check in report.checks)
        note(
            "the store is right"
            if is_whole
            else "the store is right, as far as a sample can tell; --full looks at everything"
        )
    else:
        note(
            paint(count(sum(check.count for check in report.checks), "problem"), "bold", sys.stderr)
        )
        for line in advice(report):
            note(f"  {one_line(line)}")


def hanging(head: str, indent: int, text: str) -> None:
    """The text behind its head; on a terminal as far as that goes, and then on lines of its own
    below where it began."""
    for n, line in enumerate(
        wrap(text, max(20, screen()[0] - indent)) if sys.stdout.isatty() else [text]
    ):
        echo(f"{' ' * indent if n else head}{line}".rstrip())


def advice(report: Report) -> Iterator[str]:
    if report.hopeless:
        yield f"{report.hopeless:,} cannot be repaired here; the lines above say why"
    if report.repaired and report.repairs:
        yield "`runlore sync` derives again what is marked; then look once more"
    for text, number in report.repairs.items() if not report.repaired else ():
        yield f"`runlore doctor --repair` would {text} ({number:,})"


def looked_at(check: Check) -> str:
    return (
        f"{check.checked:,}" if check.checked == check.of else f"{check.checked:,} of {check.of:,}"
    )


def describe(check: Check) -> str:
    """Return what the check is about, in a sentence."""
    about = " ".join((doctor.CHECKS[check.name].__doc__ or "").split()).removesuffix(".")
    return (
        about
        if check.ok
        else f"{count(check.count, 'problem')}. It should be: {about[:1].lower()}{about[1:]}"
    )


def sign(is_ok: bool) -> str:
    """A tick or a cross, in letters where the terminal has none."""
    mark, letters = ("✓", "ok") if is_ok else ("✗", "!!")
    try:
        mark.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return letters
    return mark
