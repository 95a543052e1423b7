"""Where runlore's own files are: all that a list or a report needs of the configuration, as long as there is no file of it.

`config` reads that file, which takes longer than a report.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

FILE = "config.toml"

SYNCED = "synced"
"""The file whose time is that of the last whole sync of this machine: touching it is all that an idle sync writes. It is empty
unless that sync found something that could not be read."""

FRESH_S = 86_400
"""Transcripts that a sync so long ago could have read are stored, however old they are."""


def home_folder(env: Mapping[str, str] = os.environ) -> str:
    return os.path.abspath(os.path.expanduser(env.get("RUNLORE_HOME") or "~/.runlore"))


def has_config(env: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a file to read, or something in its place that only `config` can tell about."""
    try:
        os.stat(os.path.join(home_folder(env), FILE))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def is_fresh(now_s: float) -> bool:
    """Whether the last sync is no longer ago than that, and could read everything."""
    try:
        mark = os.stat(os.path.join(home_folder(), SYNCED))
    except OSError:
        return False
    return mark.st_size == 0 and now_s - mark.st_mtime < FRESH_S


def usual_store(env: Mapping[str, str] = os.environ) -> str:
    """Where the store is, unless the file says otherwise."""
    return env.get("RUNLORE_STORE") or os.path.join(home_folder(env), "runlore.db")
