"""Show all sessions in a browser, sync, and keep watching.

The page opens at once. The newest sessions are read first, and the page says how far it is.
Without any sessions, the demo is shown until an agent leaves one. Ctrl-C ends it. --host and its
token work as in `serve`. With --json an object when it answers (docs/json.md).
"""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial

import click

from ... import config as settings
from ... import query
from ... import store as stores
from ...config import Config
from ...errors import RunloreError, StoreBusy
from ...store import Filter
from ...sync.discover import find_sources
from ...sync.pipeline import Report
from ...web.reading import Reading
from ...web.serving import bind, serve, url_of
from ..options import as_json
from ..output import note, warn
from ..progress import Progress
from ..watching import alone
from ..watching import watch as go_on
from .demo import open_demo
from .serve import Address, announce, door_of, listen_options
from .sync import first_pass, open_for_sync, places, show_pass, summary, sync

MAX_STOP_S = 10
"""Seconds that the reading may take to end when the server ends."""


@click.command(help=__doc__)
@listen_options
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--no-sync", is_flag=True, help="Do not read what is new, and do not watch.")
@click.option("--once", is_flag=True, help="Read what is new, print the address and exit.")
@as_json(Address)
def command(
    host: str,
    port: int | None,
    names: tuple[str, ...],
    no_browser: bool,
    no_sync: bool,
    once: bool,
    is_json: bool,
) -> None:
    config = settings.load()
    settings.make_home(config.home)
    no_sync = no_sync or is_demo(config)
    if once and not no_sync:
        read(config)
    is_coming = not no_sync and not once and bool(find_sources(config).sources)
    leave = None if has_sessions(config) or is_coming else demo(config)
    door = door_of(host, names)
    with bind(host, port) as listening:
        url = url_of(listening)
        announce(url, door, is_json, once=once)
        if once:
            return
        opened = partial(show, url) if not no_browser and has_screen() else None
        if no_sync:
            serve(listening, door, opened)
            return
        reading = Reading(Progress())
        reader = threading.Thread(target=keep_reading, args=(config, reading, leave), daemon=True)
        reader.start()
        try:
            serve(listening, door, opened, reading)
        finally:
            if reading.state is not None:
                reading.stop()
                reader.join(MAX_STOP_S)


def read(config: Config) -> None:
    """One sync. That another one is at it is no reason not to show what there is."""
    try:
        with open_for_sync(config, dry_run=False) as store:
            report = first_pass(
                partial(sync, store, config, agents=(), roots=(), dry_run=False, workers=None)
            )
    except StoreBusy:
        note("another sync is running; showing what is stored")
        return
    for line in summary(report) if report.found else ():
        note(line)


def is_demo(config: Config) -> bool:
    """Return True for the store of `runlore demo`, which gets no sessions of people."""
    with closing(stores.open_store(config.store)) as store:
        return query.is_demo(store)


def has_sessions(config: Config) -> bool:
    with closing(stores.open_store(config.store)) as store:
        return store.sessions.count(Filter(parents_only=False)) > 0


def demo(config: Config) -> Callable[[], None]:
    """From now on everything in this process looks at a store of invented sessions, until what this
    returns is called."""
    home = config.home / "demo"
    made = Config(home=home, store=str(home / "runlore.db"))
    with open_demo(made):
        pass
    before = {name: os.environ.get(name) for name in ("RUNLORE_HOME", "RUNLORE_STORE")}
    os.environ["RUNLORE_HOME"], os.environ["RUNLORE_STORE"] = str(home), made.store
    note(
        "no agent has left a session here: this is the demo. `runlore sync --agent NAME --root"
        " FOLDER` looks elsewhere."
    )

    def leave() -> None:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})
        note("a session of yours was stored: from now on the page shows your own")

    return leave


def keep_reading(config: Config, reading: Reading, leave: Callable[[], None] | None = None) -> None:
    """Read what is new into the person's own store, the newest first, and go on watching.

    The first session that appears replaces the demo. Does nothing if another process does this.
    """

    def show_news(report: Report) -> None:
        nonlocal leave
        show_pass(report)
        if leave is not None and report.new_sessions:
            leave()
            leave = None

    try:
        with alone(config.home), open_for_sync(config, dry_run=False) as store:
            run = partial(sync, store, config, agents=(), roots=(), dry_run=False)
            read_newest_first(run, reading)
            if leave is None and not has_sessions(config):
                leave = demo(config)
            elif leave is not None and has_sessions(config):
                leave()
                leave = None
            reading.mark_done()
            go_on(partial(run, workers=0), places(config, (), ()), show_news)
    except StoreBusy:
        note("another `runlore` is watching; this one shows what it stores")
    except RunloreError as error:
        warn(f"reading ended: {error}; the page shows what is stored")
    except KeyboardInterrupt:  # What was committed stays.
        pass
    finally:
        reading.mark_done()


def read_newest_first(run: Callable[..., Report], reading: Reading) -> None:
    """One sync, shown by pages and the terminal. If another process is at it, that one reads."""
    try:
        report = run(progress=reading, is_newest_first=True)
    except StoreBusy:
        note("another sync is running; showing what is stored")
        return
    for line in summary(report) if report.found else ():
        note(line)


def has_screen() -> bool:
    """Return True if there is someone to open a browser for: not in a script, on a server or in a
    container."""
    if not sys.stderr.isatty():
        return False
    return (
        os.name == "nt"
        or sys.platform == "darwin"
        or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    )


def show(url: str) -> None:
    """Opens the browser beside us: some wait until theirs is closed."""

    def open_it() -> None:
        with suppress(webbrowser.Error, OSError):
            webbrowser.open(url)

    threading.Timer(0.3, open_it).start()
