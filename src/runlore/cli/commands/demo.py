"""Make a small store from invented sessions, to try runlore.

Nothing of yours is read or changed. With --json an object (docs/json.md).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from shutil import which

import click
import msgspec

from ... import config as settings
from ... import query
from ... import store as stores
from ...errors import RunloreError
from ...store import Filter, Store
from ...sync import pipeline
from ..options import as_json
from ..output import echo, note, write_json
from . import ls

PACKAGED = Path(__file__).parents[1] / "demo"


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """A store to look around in."""

    home: str
    store: str
    sessions: int
    events: int


@click.command(help=__doc__)
@click.option(
    "--home",
    type=click.Path(file_okay=False),
    help="Folder for it (demo/ in runlore's own folder).",
)
@as_json(Demo)
def command(home: str | None, is_json: bool) -> None:
    own = settings.load()
    folder = Path(home).expanduser().absolute() if home else own.home / "demo"
    config = settings.Config(home=folder, store=str(folder / "runlore.db"))
    if folder == own.home or config.store == os.path.expanduser(own.store):
        raise RunloreError(f"{folder} holds your own store; give the demo a folder of its own")
    with open_demo(config) as store:
        if is_json:
            lines = store.sessions.select(Filter(parents_only=False))
            events = sum(line.events for line in lines)
            write_json(
                Demo(home=str(folder), store=config.store, sessions=len(lines), events=events)
            )
            return
        echo("\n".join(ls.as_table(store, store.sessions.select(Filter()), is_whole=True)))
    suggest(folder, config.store)


@contextmanager
def open_demo(config: settings.Config) -> Iterator[Store]:
    """Open the demo's store, with all of its sessions.

    Raises RunloreError if it holds sessions that are not the demo's.
    """
    settings.make_home(config.home)
    with closing(stores.open_store(config.store)) as store:
        paths = list(store.sources.by_path())
        is_other = not store.sources.are_below(query.DEMO_SOURCES)
    if is_other:
        raise RunloreError(
            f"{config.home} holds a store of real sessions; give the demo a folder of its own"
        )
    # Otherwise the sources of a moved or removed installation would stay in the store.
    if any(not path.startswith(f"{PACKAGED}{os.sep}") for path in paths):
        remove_store(config.store)
    with closing(stores.open_store(config.store)) as store:
        fill(store, config)
        yield store


def fill(store: Store, config: settings.Config) -> None:
    """Store the demo's sessions: one folder for each agent, named for its adapter."""
    for place in sorted(PACKAGED.glob("*/root")):
        pipeline.sync(store, config, agents=[place.parent.name], roots=[str(place)])


def remove_store(path: str) -> None:
    """Remove the file of a store. Its log goes first: a log left alone would be replayed."""
    for end in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            os.remove(path + end)


def suggest(folder: Path, store: str) -> None:
    # A store named in the environment would win over the folder.
    name, value = (
        ("RUNLORE_STORE", store)
        if os.environ.get("RUNLORE_STORE")
        else ("RUNLORE_HOME", str(folder))
    )
    before = os.environ.get(name, "")
    if os.name == "nt":
        begin, end = f"set {name}={value}", f"set {name}={before}"
    else:
        begin, end = (
            f"export {name}={shlex.quote(value)}",
            f"export {name}={shlex.quote(before)}" if before else f"unset {name}",
        )
    note("\nTry next:")
    note(f"  {begin}")
    program = (
        sys.argv[0]
        if os.path.basename(sys.argv[0]) == "runlore" and which("runlore") is None
        else "runlore"
    )
    for words in (
        "show latest:shop-api",
        "show latest:shop-api --context 20",
        "search ModuleNotFoundError",
        "ls --errors",
    ):
        note(f"  {shlex.quote(program)} {words}")
    note(f"`{end}` leads back to your own sessions.")
