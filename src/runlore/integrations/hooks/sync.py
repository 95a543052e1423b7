"""The sync at the end of a session: one at a time for each agent, with a record of its result."""

from __future__ import annotations

import os
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec

from ... import config as settings
from ...config import Config
from ...errors import RunloreError, StoreBusy
from ...model import format_time
from ...store import Store, open_store
from ...sync import pipeline
from .end import DEBOUNCE_S, safe

BUSY_S, MAX_TRIES = 1.0, 300
"""Seconds between two attempts to get the lock of a sync, and the number of attempts."""

MAX_ERROR_CHARS = 500
"""Maximum length of an error that is recorded."""


def sync(agent: str) -> None:
    """Store what is new, after a moment and after a sync that is running.

    If another process already waits to sync this agent, return at once and leave it to that one.
    """
    if hasattr(os, "nice"):
        os.nice(10)
    home = Path(settings.home_folder())
    try:
        config = settings.load()
        settings.make_home(home)
        opened = open_store(config.store)
    except RunloreError as error:
        _record(home, agent, {"error": str(error)[:MAX_ERROR_CHARS]})
        raise
    with closing(opened) as store:
        for _ in range(MAX_TRIES):
            if not _wait(store, config.home / f"hooks-{safe(agent)}.lock"):
                return
            try:
                _sync(store, config, agent)
                return
            except StoreBusy:  # Another process was first.
                continue


def _wait(store: Store, path: Path) -> bool:
    """Return True when it is our turn, False if another process already waits for it."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    lock = apsw.Connection(str(path))
    try:
        try:
            lock.execute("begin exclusive")
        except apsw.BusyError:
            return False
        time.sleep(DEBOUNCE_S)
        for _ in range(MAX_TRIES):
            try:
                with store.sync_lock():
                    return True
            except StoreBusy:
                time.sleep(BUSY_S)
        return False
    finally:
        lock.close()


def _sync(store: Store, config: Config, agent: str) -> None:
    """Run a sync and record its result, because its output is not shown to anybody."""
    outcome: dict[str, object] = {}
    try:
        # A session has just ended.
        report = pipeline.sync(store, config, agents=[agent], quiet_s=0)
        outcome = {
            "sessions": report.sessions,
            "events": report.events,
            "problems": len(report.problems),
        }
    except StoreBusy:
        raise
    except Exception as error:  # `runlore hooks status` shows the error.
        outcome = {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]}
        raise
    finally:
        if outcome:
            _record(config.home, agent, outcome)


def _record(home: Path, agent: str, outcome: dict[str, object]) -> None:
    """Record the result of a sync; `runlore hooks status` and `runlore doctor` show it."""
    path = home / f"hooks-{safe(agent)}.json"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode({"at": format_time(datetime.now(UTC)), **outcome}))
