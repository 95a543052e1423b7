"""`sync --watch`: a pass whenever something was written, and one every ten minutes in case that was not noticed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

import watchfiles

from ..errors import StoreBusy
from ..pipeline import Report
from ._out import note
from ._words import count

DEBOUNCE_MS, STEP_MS = 100, 50
"""Agents write a turn in bursts: so long is waited for its end, and so long for silence."""
LOOK_MS = 2000
"""How often we look for folders that were not there yet."""
PASS_S = 600


def watch(sync: Callable[[], Report], places: Iterable[str], tell: Callable[[Report], None]) -> None:
    """Goes on until it is interrupted, which is how it is meant to end."""
    places = list(places)
    due = time.monotonic() + PASS_S
    try:
        note(f"watching {count(len(present(places)), 'folder')}; Ctrl-C ends it")
        while True:
            there = present(places)
            for changed in changes(there):
                is_other = present(places) != there
                if changed or is_other or time.monotonic() >= due:
                    due = time.monotonic() + PASS_S
                    run(sync, tell)
                if is_other:
                    break
    except KeyboardInterrupt:
        return


def changes(there: list[str]) -> Iterator[bool]:
    """Whether something was written below these folders, time and again."""
    if not there:
        time.sleep(LOOK_MS / 1000)
        yield False
        return
    for changed in watchfiles.watch(
        *there, watch_filter=None, debounce=DEBOUNCE_MS, step=STEP_MS, rust_timeout=LOOK_MS, yield_on_timeout=True
    ):
        yield bool(changed)


def run(sync: Callable[[], Report], tell: Callable[[Report], None]) -> None:
    try:
        report = sync()
    except StoreBusy:
        return  # Another sync is at it: what it does not see, the next pass does.
    if report.found.keys() - {"unchanged"} or report.problems:
        tell(report)


def present(places: list[str]) -> list[str]:
    return [place for place in places if os.path.exists(place)]
