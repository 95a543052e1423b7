"""Where runlore's own files are: all that a list or a report needs of the configuration, as long as there is no file of it.

`config` reads that file, which takes longer than a report.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

FILE = "config.toml"


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


def usual_store(env: Mapping[str, str] = os.environ) -> str:
    """Where the store is, unless the file says otherwise."""
    return env.get("RUNLORE_STORE") or os.path.join(home_folder(env), "runlore.db")
