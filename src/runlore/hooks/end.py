"""What happens at the end of a session: a sync of that agent is started (`sync.py`), and goes on alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from ..config import home_folder
from . import MAX_CALL_BYTES, PYTHON

DEBOUNCE_S = 2.0
"""So long a sync waits for an agent to finish writing, and for other ends of sessions."""


def start_sync(agent: str) -> None:
    """A sync of this agent that goes on alone. One that was started just now is still waiting, and will see this session as well."""
    home = home_folder()
    mark = os.path.join(home, f"hooks-{safe(agent)}.mark")
    try:
        if 0 <= time.time() - os.stat(mark).st_mtime < DEBOUNCE_S:
            return
        os.utime(mark)
    except OSError:
        if os.path.isdir(home):
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o600))
    # Its own session, and no handle of ours: it outlives the agent, which would otherwise wait for it. It stays in no folder of the user's.
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
    """The name as a part of a file's. Raises ValueError for one that leads elsewhere."""
    if not agent.replace("_", "").replace("-", "").isalnum():
        raise ValueError(agent)
    return agent


def background_python() -> str:
    """This interpreter; on Windows the one that opens no window."""
    quiet = os.path.join(os.path.dirname(sys.executable), "pythonw.exe")
    return quiet if os.name == "nt" and os.path.exists(quiet) else sys.executable


def last_sync(agent: str) -> dict[str, object] | None:
    """The note of the last sync that a hook started."""
    try:
        with open(os.path.join(home_folder(), f"hooks-{safe(agent)}.json"), "rb") as file:
            outcome = json.loads(file.read(MAX_CALL_BYTES))
    except (OSError, ValueError):
        return None
    return outcome if isinstance(outcome, dict) else None
