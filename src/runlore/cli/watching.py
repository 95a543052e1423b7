"""`sync --watch`: a pass whenever something was written, and one every ten minutes in case that was
not noticed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import watchfiles

from ..adapters import QUIET_S
from ..errors import StoreBusy, StoreError
from ..sync.pipeline import Report
from ..text.words import count
from .output import note

DEBOUNCE_MS, STEP_MS = 100, 50
"""Agents write a turn in bursts: so long is waited for its end, and so long for silence."""
LOOK_MS = 2000
"""Interval of the search for folders that did not exist yet."""
PASS_S = 600
NEWS_PASS_S = QUIET_S + LOOK_MS / 1000
"""Time between a pass that read something and the next one. By then a last line without a newline
counts as a record."""

Problems = Collection[tuple[str, str]]


def watch(
    sync: Callable[[], Report],
    places: Iterable[str],
    tell: Callable[[Report], None],
    known: Problems = (),
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Goes on until it is interrupted, which is how it is meant to end. Problems that are known are
    told already."""
    places, known = list(places), set(known)
    due = clock() + PASS_S
    try:
        there = present(places)
        note(
            "watching"
            f" {count(len(there), 'folder') if there else 'for the first folder of an agent'};"
            " Ctrl-C ends it"
        )
        while True:
            there = present(places)
            # Changes between the last pass and the beginning of watching are not reported.
            is_first = bool(there)
            for changed in changes(there):
                is_other = present(places) != there
                has_news = changed or is_first or is_other
                if has_news or clock() >= due:
                    is_first = False
                    due = clock() + (NEWS_PASS_S if has_news else PASS_S)
                    run(sync, tell, known)
                if is_other:
                    break
    except KeyboardInterrupt:
        return


def changes(there: list[str]) -> Iterator[bool]:
    """Yield again and again, True if something was written below these folders since."""
    if not there:
        time.sleep(LOOK_MS / 1000)
        yield False
        return
    for changed in watchfiles.watch(
        *there,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
    ):
        yield bool(changed)


def run(
    sync: Callable[[], Report], tell: Callable[[Report], None], known: set[tuple[str, str]]
) -> None:
    """One pass, told when it found something."""
    try:
        report = sync()
    except StoreBusy:
        return  # Another sync is at it: what it does not see, the next pass does.
    if has_news(report, known):
        tell(report)
    known.clear()
    known.update(report.problems)


def has_news(report: Report, known: Problems = ()) -> bool:
    """Return True if a source changed or a problem is new."""
    return bool(
        report.found.keys() - {"unchanged", "unreadable", "set aside"}
        or set(report.problems).difference(known)
    )


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Held by the one that watches. Raises StoreBusy; let go by the system when its process dies.

    A lock of its own: that of a sync is held only while one runs, and one that watches is mostly
    idle."""
    path = home / "watch.lock"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        lock = apsw.Connection(str(path))
    except (OSError, apsw.Error) as error:
        raise StoreError(f"{path}: {error}") from None
    with closing(lock):
        try:
            lock.execute("begin exclusive")
        except apsw.BusyError:
            raise StoreBusy(
                "another `runlore sync --watch` is running; this one has nothing to do"
            ) from None
        yield


def present(places: list[str]) -> list[str]:
    return [place for place in places if os.path.exists(place)]
