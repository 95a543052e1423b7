"""Start a sync of the agent (`sync.py`) in the background at the end of a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from ...config import home_folder
from . import MAX_CALL_BYTES, PYTHON

DEBOUNCE_S = 2.0
"""Seconds that a sync waits for the agent to finish writing, and for other sessions to end."""


def start_sync(agent: str) -> None:
    """Start a sync of this agent in the background, unless one was started just now.

    That one is still waiting and will include this session.
    """
    home = home_folder()
    mark = os.path.join(home, f"hooks-{safe(agent)}.mark")
    try:
        if 0 <= time.time() - os.stat(mark).st_mtime < DEBOUNCE_S:
            return
        os.utime(mark)
    except OSError:
        if os.path.isdir(home):
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o600))
    # The sync outlives the agent, so it gets its own process session and none of our handles:
    # otherwise the agent would wait for it. It does not run in a folder of the user's project.
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
    subprocess.Popen(
        [background_python(), *PYTHON, "-m", "runlore", "hooks", "run", "sync", agent],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=os.path.expanduser("~"),
        env={**os.environ, "RUNLORE_HOME": home},
        start_new_session=True,
        creationflags=flags,
    )


def safe(agent: str) -> str:
    """Return an agent's name for use in a file name. Raises ValueError if it is not safe there."""
    if not agent.replace("_", "").replace("-", "").isalnum():
        raise ValueError(agent)
    return agent


def background_python() -> str:
    """Return this interpreter; on Windows the one that opens no window."""
    quiet = os.path.join(os.path.dirname(sys.executable), "pythonw.exe")
    return quiet if os.name == "nt" and os.path.exists(quiet) else sys.executable


def last_sync(agent: str) -> dict[str, object] | None:
    """Return the record of the last sync that a hook started."""
    try:
        with open(os.path.join(home_folder(), f"hooks-{safe(agent)}.json"), "rb") as file:
            outcome = json.loads(file.read(MAX_CALL_BYTES))
    except (OSError, ValueError):
        return None
    return outcome if isinstance(outcome, dict) else None
