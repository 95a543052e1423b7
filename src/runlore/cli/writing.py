"""Files that a command writes because it was asked to: `export`, `retro --html`, `backup`."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from ..errors import RunloreError
from .output import one_line


def check_target(file: Path, *, force: bool, is_json: bool) -> None:
    """Ask before a file is replaced, unless `force` is given.

    Raises RunloreError if nobody is there to ask, or if it is no file: a device or a pipe would be
    replaced by a file too.
    """
    try:
        mode = os.stat(file).st_mode
    except FileNotFoundError:
        return
    name = one_line(str(file))
    if not stat.S_ISREG(mode):
        raise RunloreError(f"{name}: is not a file; give the name of a file, or of a new one")
    if force:
        return
    if is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RunloreError(f"{name}: is there already; --force writes over it")
    click.confirm(f"{name} is there already. Replace it?", abort=True, err=True)


@contextmanager
def tidy_end() -> Iterator[None]:
    """Let the signals that end a program raise SystemExit inside, so that it removes its temporary
    files."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {
        number: signal.signal(number, _leave)
        for number in (getattr(signal, name) for name in names)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
