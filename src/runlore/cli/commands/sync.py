"""Store everything the agents have written since the last sync.

Only what is new is read; the agents' own files are never changed. With --json an object: found,
sessions, events, problems, … (docs/json.md). With --watch one such line for each pass that found
something.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import click

from ... import adapters, query
from ... import config as settings
from ... import store as stores
from ...answers import Answer
from ...errors import ConfigError, RunloreError
from ...query.leaks import describe_kind
from ...sync import pipeline
from ...sync.discover import find_roots
from ...sync.pipeline import Report
from ...text.words import count, duration, size
from ..options import AgentName, as_json
from ..output import note, one_line, paint, warn, write_json
from ..progress import Progress

MAX_LINES = 10
"""Maximum number of problems and reasons in the summary; --json has all."""

ABSENT = "  (not there)"
MAX_PLACES = 8
"""With more places than this, only those that exist are shown."""


@click.command(help=__doc__)
@click.option(
    "--agent", "agents", multiple=True, type=AgentName(), help="Only this agent. May be repeated."
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True),
    help="Look here instead; needs --agent. May be repeated.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Keep running, and store new records as they are written. Ctrl-C ends it.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be read without storing it.")
@click.option(
    "--workers",
    type=click.IntRange(0),
    metavar="N",
    help="Number of reading processes; 0 reads in this one.",
)
@click.option(
    "--verbose",
    "-v",
    "is_verbose",
    is_flag=True,
    help="Also count records that were merged, copied or not understood.",
)
@as_json(Report, items="problems", forms={"--watch": Answer(Report, is_stream=True)})
def command(
    agents: tuple[str, ...],
    roots: tuple[str, ...],
    watch: bool,
    dry_run: bool,
    workers: int | None,
    is_verbose: bool,
    is_json: bool,
) -> None:
    if watch and dry_run:
        raise click.UsageError("--watch and --dry-run do not go together")
    # Many agents write lines of JSON: each would take all of them for its own.
    if roots and not agents:
        raise click.UsageError("--root needs --agent: say whose sessions are there")
    config = settings.load()
    warn_of_strangers(config)
    with open_for_sync(config, dry_run) as store:
        if query.is_demo(store):
            raise RunloreError(DEMO)
        run = partial(
            sync, store, config, agents=agents, roots=roots, dry_run=dry_run, workers=workers
        )
        if watch:
            from .. import watching  # It brings watchfiles, which an ordinary sync does without.

            with watching.alone(config.home):
                report = first_pass(run)
                if not is_json:
                    show(report, config, agents, roots, is_verbose)
                elif watching.has_news(report):
                    show_json(report)
                watching.watch(
                    run,
                    places(config, agents, roots),
                    show_json if is_json else partial(show_pass, is_verbose=is_verbose),
                    report.problems,
                )
            return
        report = first_pass(run)
        if is_json:
            write_json(report)
        else:
            show(report, config, agents, roots, is_verbose)


def warn_of_strangers(config: settings.Config) -> None:
    """Settings for an agent that there is not would be obeyed by nobody."""
    for name in config.sources.keys() - set(adapters.names()):
        file = config.home / settings.FILE
        warn(
            f"{file}: [sources.{one_line(name)}] is about no agent that runlore reads; there are:"
            f" {', '.join(adapters.names())}"
        )


def first_pass(run: Callable[..., Report]) -> Report:
    """A sync with a progress bar. One that is interrupted says what that means."""
    try:
        return run(progress=Progress())
    except KeyboardInterrupt:
        note("stopped; what was committed stays, `runlore sync` goes on from there")
        raise


def show(
    report: Report,
    config: settings.Config,
    agents: tuple[str, ...],
    roots: tuple[str, ...],
    is_verbose: bool,
) -> None:
    for line in summary(report, is_verbose) if report.found else troubles(report):
        note(line)
    if not report.found:
        explain_nothing(config, agents, roots)


def sync(
    store: stores.Store,
    config: settings.Config,
    *,
    agents: Sequence[str],
    roots: Sequence[str],
    dry_run: bool,
    **how: Any,
) -> Report:
    """Run a sync. One of all agents is noted in a file: its time is that of the sync, its content
    the number of sources that could not be read."""
    try:
        report = pipeline.sync(store, config, agents=agents, roots=roots, dry_run=dry_run, **how)
    except ConfigError as error:
        # These are looked at when they are first used, far from their file.
        if str(error).startswith("redact.rules"):
            raise ConfigError(f"{config.home / settings.FILE}: {error}") from None
        raise
    if not (agents or roots or dry_run):
        mark = os.open(query.synced_mark(config), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(mark, "w", encoding="ascii") as file:
            file.write(f"{len(report.problems)}\n" if report.problems else "")
        os.utime(query.synced_mark(config))  # An empty file that stays empty may keep its time.
    return report


DEMO = (
    "this store has the invented sessions of the demo, and gets none of yours;"
    " `unset RUNLORE_HOME` (and RUNLORE_STORE) leads back to your own"
)


@contextmanager
def open_for_sync(config: settings.Config, dry_run: bool) -> Iterator[stores.Store]:
    """The store to write to. A dry run only reads it, and makes none."""
    if not dry_run:
        settings.make_home(config.home)
        with closing(stores.open_store(config.store)) as store:
            yield store
    elif "://" in config.store or os.path.exists(os.path.expanduser(config.store)):
        with closing(stores.open_for_reading(config.store)) as store:
            yield store
    else:
        with (
            TemporaryDirectory() as folder,
            closing(stores.open_store(os.path.join(folder, "empty.db"))) as store,
        ):
            yield store


def places(config: settings.Config, agents: tuple[str, ...], roots: tuple[str, ...]) -> list[str]:
    """All folders that a sync looks in, whether or not they are there."""
    names = agents or tuple(
        name
        for name in adapters.names()
        if name not in config.sources or config.sources[name].enabled
    )
    found = [
        str(root) for name in names for root, _ in find_roots(config, adapters.get(name), roots)
    ]
    return list(dict.fromkeys(found))


def explain_nothing(
    config: settings.Config, agents: tuple[str, ...], roots: tuple[str, ...]
) -> None:
    told = [(place, what_is(place)) for place in places(config, agents, roots)]
    note("found no sessions. Looked in:")
    some = (
        told if len(told) <= MAX_PLACES else [(place, why) for place, why in told if why != ABSENT]
    )
    for place, why in some:
        note(f"  {one_line(place)}{why}")
    if absent := len(told) - len(some):
        note(
            f"  {count(absent, 'folder')} that {'is' if absent == 1 else 'are'} not there; `runlore"
            " agents` has the list"
        )
    note(
        "`runlore sync --agent NAME --root FOLDER` looks elsewhere; `runlore demo` makes a small"
        " store to look at."
    )


def what_is(place: str) -> str:
    """Why nothing could be found there, when that is why."""
    try:
        os.scandir(place).close()
    except FileNotFoundError:
        return ABSENT
    except NotADirectoryError:
        return "  (not a folder)"
    except OSError:
        return "  (not readable)"
    return ""


# ── the summary ───────────────────────────────────────────────────────────────────────────────────
def summary(report: Report, is_verbose: bool = False) -> Iterator[str]:
    """Yield a few lines on what was done; with `is_verbose`, also on how records were read."""
    found = report.found
    if not found.keys() - {"unchanged", "set aside"} and not report.problems:
        yield f"nothing new in {count(sum(found.values()), 'source')} ({duration(report.seconds)})"
        if aside := found.get("set aside"):
            yield f"set aside: {count(aside, 'source')} (`runlore doctor` says why)"
        # By rules that are newer than it.
        yield from counted("secrets redacted in what was stored before", by_kind(report.redacted))
        return
    words = [
        f"{number:,} {word}{' (their sessions stay)' if word == 'missing' else ''}"
        for word, number in found.items()
    ]
    yield f"sources: {', '.join(words)}"
    if report.dry_run:
        yield f"would read {size(report.size)}; nothing was stored"
        return
    if report.events:
        speed = f", {size(report.size / report.seconds)}/s" if report.seconds > 0.5 else ""
        what = (
            f"{count(report.events, 'event')} of {how_many(report)} ({report.new_sessions:,} new)"
        )
        yield paint(
            f"stored: {what} from {size(report.size)} in {duration(report.seconds)}{speed}",
            "bold",
            sys.stderr,
        )
    beside = {
        f"{count(report.excluded, 'source')} excluded in config.toml": report.excluded,
        f"{count(report.forgotten, 'event')} of forgotten sessions": report.forgotten,
    }
    if told := [text for text, number in beside.items() if number]:
        yield f"not counted: {', '.join(told)}"
    if is_verbose:
        yield from details(report)
    yield from counted("secrets redacted", by_kind(report.redacted))
    yield from troubles(report)


def details(report: Report) -> Iterator[str]:
    """Return what became of records that gave no event of their own."""
    if report.merged:
        yield f"merged into other events: {count(report.merged, 'record')}"
    if report.copies:
        yield f"copies of events stored elsewhere: {report.copies:,}"
    yield from counted("not understood, kept as they are", report.skipped)


def troubles(report: Report) -> Iterator[str]:
    if report.problems:
        yield paint(
            f"could not be read: {count(len(report.problems), 'source')}", "red", sys.stderr
        )
        yield from (
            f"  {one_line(path)}: {one_line(reason)}"
            for path, reason in report.problems[:MAX_LINES]
        )
        yield from rest(len(report.problems))


def how_many(report: Report) -> str:
    """The sessions, and apart from them the subagents, as a listing has them."""
    subagents: int = report.subagents
    own = count(report.sessions - subagents, "session")
    return f"{own} and {count(subagents, 'subagent')}" if subagents else own


def by_kind(secrets: dict[str, int]) -> dict[str, int]:
    return {describe_kind(kind): number for kind, number in secrets.items()}


def counted(title: str, counts: dict[str, int]) -> Iterator[str]:
    if not counts:
        return
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = [f"{number:,} × {one_line(word)[:80]}" for word, number in ordered[:MAX_LINES]]
    yield f"{title}: {', '.join([*words, *(line.strip() for line in rest(len(ordered)))])}"


def rest(number: int) -> Iterator[str]:
    if number > MAX_LINES:
        yield f"  and {number - MAX_LINES:,} more (--json lists them)"


def show_pass(report: Report, *, is_verbose: bool = False) -> None:
    words = ", ".join(
        f"{number} {word}" for word, number in report.found.items() if word != "unchanged"
    )
    now = time.strftime("%H:%M:%S")
    stored = (
        f"{count(report.events, 'event')} of {how_many(report)}"
        if report.events
        else "nothing to store"
    )
    note(f"{now}  {words or 'nothing new'}: {stored} in {duration(report.seconds)}")
    for line in details(report) if is_verbose else ():
        note(f"          {line}")
    for path, reason in report.problems[:MAX_LINES]:
        note(f"          {one_line(path)}: {one_line(reason)}")


def show_json(report: Report) -> None:
    write_json(report, "--watch", in_a_line=True)
    sys.stdout.flush()
