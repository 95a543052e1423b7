"""A full disk: a small file system in memory where that is possible (as root on Linux), else a
limit on the size of files.

Whatever needs room fails with one clear line and breaks nothing. What is stored can still be read.
When there is room again, the next sync ends with what an undisturbed one gives.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.attack import Result, not_possible
from bench.attack._transcripts import AGENTS, change_home, make_home, own_roots
from bench.attack._trials import (
    Failed,
    Score,
    can_fork,
    copy_store,
    find_difference,
    find_problems,
    home_environment,
    make_config,
    read_content,
    require,
    run_whole,
    times,
)
from bench.attack.kills import sync_in_parts
from runlore.errors import LogError
from runlore.live import LiveSession, SessionStore

SYNCS, APPENDS, COMMANDS = 40, 100, 40
DISK_BYTES = 24 << 20


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Fill a disk while runlore writes to it."""
    if not can_fork():
        yield not_possible("a full disk", "this system cannot fork")
        return
    (scratch / "disk").mkdir()
    with small_disk(scratch / "disk") as disk:
        trials = DiskTrials(disk, scratch)
        yield trials.sync(times(SYNCS, scale))
        yield trials.read(times(COMMANDS, scale))
        yield trials.write(times(COMMANDS, scale))
        yield trials.append(times(APPENDS, scale))


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """Mount a small file system, or limit the size of files where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        yield SmallFiles(folder)
        return
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


class Disk:
    """A small file system."""

    kind = "a small disk"
    full = re.compile(r"disk is full|no space left|no room", re.IGNORECASE)
    """What an error must say when there is no room."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, free: int) -> None:
        """Leave so many bytes free."""
        self.clear()
        room = shutil.disk_usage(self.folder).free - free
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, room // 4096 * 4096))

    def clear(self) -> None:
        self._filler.unlink(missing_ok=True)


class SmallFiles(Disk):
    """A folder in which files can grow only so far, for this process and those it starts."""

    kind = "a limit on the size of files"
    full = re.compile(r"too large|disk I/O error|disk is full", re.IGNORECASE)

    def fill(self, free: int) -> None:
        sizes = [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]
        self._set_limit(max(sizes, default=0) + free)

    def clear(self) -> None:
        self._set_limit(resource.RLIM_INFINITY)

    def _set_limit(self, limit: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))


class DiskTrials:
    """Commands on a store that lies on a small disk."""

    def __init__(self, disk: Disk, scratch: Path) -> None:
        self.disk, self.agents = disk, scratch / "agents"
        self.home = disk.folder / ".runlore"
        self.base = make_config(scratch / "base")
        make_home(self.agents, seed=5)
        run_whole(lambda: sync_in_parts(self.base, self.agents))
        self.before = read_content(self.base.store)
        change_home(self.agents)
        whole = make_config(scratch / "whole")
        copy_store(Path(self.base.store), Path(whole.store))
        shutil.copy(self.base.home / "redact.key", whole.home)
        run_whole(lambda: sync_in_parts(whole, self.agents))
        self.after, self.problems = read_content(whole.store), set(find_problems(whole))
        self.need = Path(whole.store).stat().st_size

    def sync(self, count: int) -> Result:
        score, rng = Score("a sync on a disk that becomes full"), random.Random("sync")
        failed = 0
        for _ in range(count):
            free = rng.randrange(self.need)
            with score.trial(f"{score.tried} with {free >> 10} KB free"):
                self._begin()
                self.disk.fill(free)
                status, error = self._sync()
                failed += status != 0
                require(status == 0 or self._is_clear(error), f"says {error[-150:]!r}")
                self._check_store()
                self.disk.clear()
                status, error = self._sync()
                require(status == 0, f"with room again it says {error[-150:]!r}")
                wrong = find_difference(self.after, read_content(str(self.home / "runlore.db")))
                require(not wrong, f"with room again {wrong}")
        return score.result(f"{self.disk.kind}; {failed} ran out of room")

    def read(self, count: int) -> Result:
        score, rng = Score("a command that reads, on a full disk"), random.Random("read")
        uid = next(iter(self.before["sessions"]))
        commands = (["ls"], ["show", uid], ["search", "error"], ["usage"], ["errors"], ["doctor"])
        for _ in range(count):
            words = rng.choice(commands)
            with score.trial(f"{score.tried}, `{words[0]}`"):
                self._begin()
                if rng.random() < 0.5:  # With and without the files that a reader leaves.
                    self._run("ls")
                self.disk.fill(0)
                status, error = self._run(*words)
                require(status == 0, f"`{words[0]}` says {error[-150:]!r}")
        self.disk.clear()
        return score.result()

    def write(self, count: int) -> Result:
        score, rng = Score("a command that writes, on a full disk"), random.Random("write")
        uid = next(iter(self.before["sessions"]))
        target = str(self.disk.folder / "target")
        commands = (
            ["backup", target],
            ["copy", str(self.home / "runlore.db"), f"{target}.db"],
            ["export", uid, "-o", f"{target}.html"],
            ["evict", "--older-than", "1", "--yes"],
            ["forget", uid, "--yes"],
            ["mark", uid, "--pin"],
        )
        for _ in range(count):
            words, free = rng.choice(commands), rng.choice((0, 0, 4096, rng.randrange(self.need)))
            with score.trial(f"{score.tried}, `{words[0]}` with {free >> 10} KB free"):
                self._begin()
                self.disk.fill(free)
                status, error = self._run(*words)
                require(status == 0 or self._is_clear(error), f"`{words[0]}` says {error[-150:]!r}")
                self._check_store()
                left = [path.name for path in self.disk.folder.glob("target*") if status]
                require(words[0] == "copy" or not left, f"`{words[0]}` left {left}")
        self.disk.clear()
        return score.result()

    def append(self, count: int) -> Result:
        """Append to a live session until the disk is full, and again when there is room."""
        score, rng = Score("an append to a live session on a full disk"), random.Random("append")
        for n in range(count):
            with score.trial(n):
                self._begin()
                self._append(rng)
        self.disk.clear()
        return score.result()

    def _append(self, rng: random.Random) -> None:
        store = SessionStore(self.home / "live", durability=rng.choice(("process", "power")))
        session = store.create(id="one")
        self.disk.fill(rng.randrange(200_000))
        safe = []
        try:
            for n in range(10_000):
                text = f"{n} " + "x" * rng.choice((10, 3000, 100_000))
                block = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text}
                session.append({"role": "user", "content": [block]})
                safe.append(n)
        except LogError as error:
            require(self.disk.full.search(str(error)), f"says {error}")
        else:
            raise Failed("the disk was never full")
        for handle in (session, SessionStore(self.home / "live").open("one")):
            require(count_messages(handle) == len(safe), "an acknowledged message is lost")
        self.disk.clear()
        session.append({"role": "user", "content": "after"})
        session.close()
        with SessionStore(self.home / "live").open("one") as again:
            require(count_messages(again) == len(safe) + 1, "an append after it is lost")

    def _begin(self) -> None:
        self.disk.clear()
        for path in self.disk.folder.iterdir():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        copy_store(Path(self.base.store), self.home / "runlore.db")
        shutil.copy(self.base.home / "redact.key", self.home)

    def _is_clear(self, error: str) -> bool:
        """Return True if an error is one line that says that there is no room."""
        lines = [line for line in error.splitlines() if line.strip()]
        return "Traceback" not in error and bool(lines) and bool(self.disk.full.search(lines[-1]))

    def _check_store(self) -> None:
        """Raise Failed unless the store opens, is right, and has every session of before."""
        config = make_config(self.home)
        new = [text for text in find_problems(config) if text not in self.problems]
        require(not new, f"the doctor says {new[:1]}")

    def _sync(self) -> tuple[int, str]:
        for agent in AGENTS:
            roots = [word for root in own_roots(self.agents, agent) for word in ("--root", root)]
            status, error = self._run("sync", "--agent", agent, *roots)
            if status:
                return status, error
        return 0, ""

    def _run(self, *words: str) -> tuple[int, str]:
        """Run a command as a user does, and return its status and what it says on stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "runlore", *words],
            env=os.environ | home_environment(self.disk.folder) | {"TMPDIR": "/tmp"},  # noqa: S108
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stderr


def count_messages(session: LiveSession) -> int:
    return sum(record.type == "message" for record in session.records())
