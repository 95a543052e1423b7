"""What the attacks with hostile sources share: homes made of fixtures, and measured syncs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runlore.testing import Fixture, iter_fixtures

FIXTURES = Path(__file__).parents[2] / "tests" / "adapters" / "fixtures"
LONG_AGO_S = 1_750_000_000  # Nobody writes to these files any more, so all of them is read.
MAX_RUN_S = 300  # A sync that takes longer than this hangs.


@dataclass(frozen=True)
class Run:
    """A sync that was measured."""

    cpu_s: float
    peak_mb: int
    """Of the process that took the most memory."""
    code: int
    problems: tuple[tuple[str, str], ...]
    output: str

    @property
    def set_aside(self) -> set[str]:
        """Paths of the sources that are not tried again unless they change."""
        return {path for path, reason in self.problems if reason.startswith("set aside")}

    @property
    def figures(self) -> str:
        return f"{self.cpu_s:.1f} s, {self.peak_mb} MB"


def choose_fixtures(scale: float, is_wanted: Callable[[Fixture], bool]) -> list[Fixture]:
    """Return a fixture of each agent that has one as it is wanted, or of a share of the agents."""
    first: dict[str, Fixture] = {}
    for fixture in iter_fixtures(FIXTURES):
        if fixture.agent not in first and is_wanted(fixture):
            first[fixture.agent] = fixture
    step = max(1, round(1 / scale))
    return list(first.values())[::step]


def files_of(fixture: Fixture, root: Path) -> list[Path]:
    """Return the files that are sources of an agent."""
    paths = (Path(source.path) for source in fixture.adapter.discover(root))
    return sorted({path for path in paths if path.is_file()})


def copy_root(fixture: Fixture, folder: Path) -> Path:
    """Copy what the agent of a fixture left behind, as of long ago."""
    root = Path(shutil.copytree(fixture.root, folder))
    for path in root.rglob("*"):
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return root


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))


def configure(home: Path, roots: dict[str, list[Path]]) -> None:
    """Have runlore look for these agents in these folders."""
    (home / ".runlore").mkdir(parents=True, exist_ok=True)
    lines = [
        f"[sources.{agent}]\nroots = {json.dumps([str(folder) for folder in folders])}"
        for agent, folders in roots.items()
    ]
    (home / ".runlore" / "config.toml").write_text("\n".join(lines) + "\n")


MEASURE = """
import json, os, resource, subprocess, sys
max_bytes, file, *command = sys.argv[1:]
if int(max_bytes):
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = int(max_bytes) if hard < 0 else min(int(max_bytes), hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with open(file, "wb") as output:
    process = subprocess.Popen(command, stdout=output, stderr=output)
    _, status, used = os.wait4(process.pid, 0)
peak = used.ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)
code = os.waitstatus_to_exitcode(status)
print(json.dumps([used.ru_utime + used.ru_stime, peak, code]))
"""
"""A small program between this one and the sync: the system counts what a process had before it
became another program."""


def run_sync(home: Path, agents: Sequence[str], max_bytes: int = 0) -> Run:
    """Sync these agents, each process with at most so much address space, and measure it."""
    output = home / "output"
    command = [sys.executable, "-c", MEASURE, str(max_bytes), str(output)]
    command += [sys.executable, "-m", "runlore", "sync", "--json"]
    command += [word for agent in agents for word in ("--agent", agent)]
    path = os.environ.get("PATH", "")
    env = {"HOME": str(home), "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, start_new_session=True)
    timer = threading.Timer(MAX_RUN_S, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    figures, _ = process.communicate()
    timer.cancel()
    cpu_s, peak_mb, code = json.loads(figures or b"[0, 0, -9]")
    text = output.read_text("utf-8", "replace") if output.exists() else ""
    return Run(cpu_s=cpu_s, peak_mb=peak_mb, code=code, problems=_problems(text), output=text)


def _problems(text: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple((path, reason) for path, reason in json.loads(text)["problems"])
    except (ValueError, KeyError, TypeError):
        return ()


def sessions_of(home: Path) -> set[str]:
    """Return the uids of all sessions that are stored."""
    from contextlib import closing

    from runlore.store import Filter, open_store

    with closing(open_store(str(home / ".runlore" / "runlore.db"), read_only=True)) as store:
        return set(store.sessions.uids(Filter(parents_only=False)))


def why_not() -> str | None:
    """Return why these attacks cannot run here; None if they can."""
    return None if hasattr(os, "wait4") else "needs a system that says what a process used"
