"""Copy the store to a file, also while it is in use.

The copy is a consistent snapshot, is checked, and is readable by you alone. To restore it, delete
the -wal and -shm files of the old store first, then put the copy in its place; or name the copy in
RUNLORE_STORE. It contains none of the files beside the store: config.toml, redact.key, live
sessions, lessons, and the record of the sessions that were shown them. With --json an object
(docs/json.md).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
import msgspec

from ...errors import StoreError
from ...text.words import duration, size
from ..options import as_json, open_store
from ..output import note, one_line, write_json
from ..progress import Progress
from ..writing import check_target, tidy_end


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the store."""

    path: str
    size: int
    """In bytes."""
    seconds: float


@click.command(help=__doc__)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite an existing file without asking.")
@as_json(Backup)
def command(file: Path, force: bool, is_json: bool) -> None:
    began = time.monotonic()
    with open_store() as (store, _), Progress() as progress:
        if is_store_itself(file, store.url):
            raise StoreError(f"{file}: this is the store itself")
        check_target(file, force=force, is_json=is_json)
        with tidy_end():
            store.backup(file, lambda done, total: progress.show("pages", done, total))
    seconds, length = time.monotonic() - began, file.stat().st_size
    if is_json:
        write_json(Backup(path=str(file.absolute()), size=length, seconds=round(seconds, 3)))
    else:
        note(
            f"copied {size(length)} to {one_line(str(file))} in {duration(seconds)}, and checked it"
        )


def is_store_itself(file: Path, url: str) -> bool:
    return (
        "://" not in url
        and os.path.exists(file)
        and os.path.samefile(file, os.path.expanduser(url))
    )
