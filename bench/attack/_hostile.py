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


def run_sync(home: Path, agents: Sequence[str], max_bytes: int | None = None) -> Run:
    """Sync these agents, each process with at most so much address space, and measure it."""
    command = [sys.executable, "-m", "runlore", "sync", "--json"]
    command += [word for agent in agents for word in ("--agent", agent)]
    env = {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with open(home / "output", "w+b") as output:
        process = subprocess.Popen(
            command,
            env=env,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=(lambda: _limit_memory(max_bytes)) if max_bytes else None,
        )
        timer = threading.Timer(MAX_RUN_S, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Run(
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss // unit,
        code=process.returncode,
        problems=_problems(text),
        output=text,
    )


def _limit_memory(max_bytes: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))


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
