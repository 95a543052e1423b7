"""What several attacks need: a home, processes to kill, stores to compare, and a count of trials.

Nothing here knows what is attacked.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.attack import Result
from runlore import doctor
from runlore.config import Config
from runlore.store import CallFilter, Filter, Store, open_store

FIXTURES = Path(__file__).parents[2] / "tests" / "adapters" / "fixtures"
MAX_NOTE_CHARS = 240
OWN_TIMES = (
    "discovered_at",
    "ingested_at",
    "analyzed_at",
    "evicted_at",
    "source_missing_at",
    "git_at",
)
"""Fields of a session that say when runlore did something, which differs between two runs."""
MAX_WAIT_S = 120.0
"""How long a process may take that is not killed. Longer is a hang."""


class Failed(Exception):
    """Something did not hold."""


def require(holds: object, otherwise: str) -> None:
    """Raise Failed with the text unless something holds."""
    if not holds:
        raise Failed(otherwise)


def times(whole: int, scale: float) -> int:
    """Return how often to try at this scale, at least once."""
    return max(1, round(whole * scale))


class Score:
    """Counts the trials of a case, and keeps the first thing that did not hold."""

    def __init__(self, case: str) -> None:
        self.case = case
        self.tried = self.held = 0
        self.problem = ""

    @contextmanager
    def trial(self, name: object) -> Iterator[None]:
        """One trial, named so that it can be repeated. It holds unless something is raised."""
        self.tried += 1
        try:
            yield
        # Whatever the code under attack raises is a finding, and the next trial goes on.
        except Exception as error:
            text = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
            self.problem = self.problem or f"trial {name}: {text}"
            if os.environ.get("ATTACK_DEBUG"):
                print(f"{self.case}: trial {name}: {text}", file=sys.stderr)
        else:
            self.held += 1

    def result(self, note: str = "") -> Result:
        return Result(self.case, self.tried, self.held, self.problem[:MAX_NOTE_CHARS] or note)


# ── a home ────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def own_home(folder: Path) -> Iterator[None]:
    """Make a folder the user's home, for this process and those that it starts."""
    before = dict(os.environ)
    os.environ.update(home_environment(folder))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def home_environment(folder: Path) -> dict[str, str]:
    """Return the variables that lead programs to this home."""
    places = {
        "HOME": "",
        "USERPROFILE": "",
        "RUNLORE_HOME": ".runlore",
        "XDG_CONFIG_HOME": ".config",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
        "XDG_CACHE_HOME": ".cache",
    }
    return {name: str(folder / place) for name, place in places.items()} | {"NO_COLOR": "1"}


def make_config(home: Path, store: str = "") -> Config:
    """Return settings with runlore's own files in `home`, which is made."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Config(home=home, store=store or str(home / "runlore.db"))


# ── processes ─────────────────────────────────────────────────────────────────────────────────────


def can_fork() -> bool:
    """Return True where a process can be forked and killed: on Linux and macOS."""
    return hasattr(os, "fork")


def fork(work: Callable[[], object]) -> int:
    """Start a process that does the work and ends: with 0, or with 1 if the work raised."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setpgid(0, 0)  # Its own workers are killed with it, if they have to be.
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1) if os.environ.get("ATTACK_DEBUG") else (0, 1, 2):
            os.dup2(quiet, stream)
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        if os.environ.get("ATTACK_DEBUG"):
            sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def wait(pid: int, seconds: float = MAX_WAIT_S) -> int:
    """Wait for a process and return its status. Raises Failed if it hangs, and ends it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise Failed(f"no end after {seconds:.0f} s")


def run_whole(work: Callable[[], object]) -> float:
    """Do the work in a process of its own, and return its seconds. Raises Failed if it failed."""
    began = time.monotonic()
    status = wait(fork(work))
    require(status == 0, f"a run that nothing disturbed ended with status {status}")
    return time.monotonic() - began


def kill_after(pid: int, seconds: float) -> bool:
    """Kill a process after a while. Return True if it was still running."""
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(min(rest, 0.005))
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def next_limit(seconds: float, is_killed: bool) -> float:
    """Return the longest time to wait before the next kill: less if the process was faster, more
    if it was not, because a machine is not always equally busy."""
    return seconds * (1.1 if is_killed else 0.8)


# ── stores ────────────────────────────────────────────────────────────────────────────────────────


def read_content(url: str) -> dict[str, Any]:
    """Return all that a store has, but for times of our own and places inside of it."""
    with closing(open_store(url, read_only=True)) as store:
        every = Filter(parents_only=False)
        digests = {
            digest.session_uid: msgspec.structs.replace(digest, made_at=None)
            for digest in store.digests.iter(every)
        }
        sums = {total.keys: total for total in store.ledger.sum(["model", "repo"], CallFilter())}
        return {"sessions": _read_sessions(store), "digests": digests, "calls": sums}


def _read_sessions(store: Store) -> dict[str, Any]:
    sessions = {}
    for line in store.sessions.select(Filter(parents_only=False)):
        session = store.sessions.get(line.uid)
        require(session is not None, f"{line.uid} is listed and cannot be read")
        assert session is not None
        facts = msgspec.structs.replace(session, **dict.fromkeys(OWN_TIMES))
        events = [
            msgspec.structs.replace(event, payload_ref=None)
            for event in store.sessions.events(line.uid)
        ]
        marks = [getattr(session, name) is not None for name in OWN_TIMES]
        sessions[line.uid] = (facts, marks, events, store.sessions.bodies(line.uid))
    return sessions


def find_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the first difference of two contents in words; empty if there is none."""
    for part in one:
        lost = sorted(map(str, one[part].keys() - other[part].keys()))
        more = sorted(map(str, other[part].keys() - one[part].keys()))
        if lost or more:
            return f"{part}: {lost[:3]} lost, {more[:3]} more"
        for key in one[part]:
            if one[part][key] != other[part][key]:
                return f"{part} of {key} differ"
    return ""


def find_problems(config: Config, url: str = "") -> list[str]:
    """Return what the doctor finds wrong in a store, looking at everything."""
    with closing(open_store(url or config.store, read_only=True)) as store:
        report = doctor.examine(store, config, full=True)
    return [f"{check.name}: {text}" for check in report.checks for text in check.problems]


def copy_store(source: Path, target: Path) -> None:
    """Copy a store that nobody has open, with the files beside it."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for end in ("", "-wal", "-shm"):
        if (beside := source.with_name(source.name + end)).exists():
            shutil.copyfile(beside, target.with_name(target.name + end))
            target.with_name(target.name + end).chmod(0o600)
