"""The programs that runlore is compared with, installed outside the repository, each with a home of
its own.

    python bench/peers.py --home DIR [--scratch DIR]

It measures a cold sync, a full sync, a sync with nothing new, and one appended turn. `DIR` is a
home directory as bench/generate.py makes it. The appended turn stays in it.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import generate
from _measure import Run, note, remove, run, seconds, size_bytes, warm

AGENTSVIEW_VERSION = "0.46.1"


def default_scratch() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runlore-bench"


def find_agentsview(scratch: Path) -> Path | None:
    """Return the native binary, which is installed if it is missing.

    Its Python launcher would add the start of an interpreter. None, with a message, if it is not
    available; the benchmarks then measure our side alone.
    """
    venv = scratch / f"agentsview-{AGENTSVIEW_VERSION}"
    if binary := _binary(venv):
        return binary
    note(f"installing agentsview {AGENTSVIEW_VERSION} into {venv}")
    pip = [
        str(venv / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        f"agentsview=={AGENTSVIEW_VERSION}",
    ]
    for command in ([sys.executable, "-m", "venv", str(venv)], pip):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            note(
                f"agentsview {AGENTSVIEW_VERSION} cannot be installed, so there is nothing to"
                f" compare with:\n{done.stderr.strip()[-500:]}"
            )
            return None
    if binary := _binary(venv):
        return binary
    note(
        f"agentsview {AGENTSVIEW_VERSION} has no binary for this machine, so there is nothing to"
        " compare with"
    )
    return None


def _binary(venv: Path) -> Path | None:
    return next(venv.glob("lib/python3*/site-packages/agentsview/bin/agentsview"), None)


class AgentsView:
    """agentsview over one home directory, its own data in `data`, without its daemon and without
    telemetry."""

    def __init__(self, binary: Path, home: Path, data: Path) -> None:
        self.binary, self.data = binary, data
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "AGENTSVIEW_DATA_DIR": str(data),
            "AGENTSVIEW_TELEMETRY_ENABLED": "0",
            "AGENTSVIEW_NO_DAEMON": "1",
        }

    def command(self, *arguments: str) -> list[str]:
        return [str(self.binary), *arguments]

    def sync(self) -> Run:
        return run(self.command("sync"), self.env)

    def first_sync(self, full: bool = False) -> Run:
        self.clear()
        return run(self.command("sync", *(["--full"] if full else [])), self.env)

    def clear(self) -> None:
        remove(self.data)

    def sessions(self) -> int:
        """Number of rows in its table of sessions, subagents included.

        Its own summary leaves those out.
        """
        return int(self._one("select count(*) from sessions"))

    def messages(self) -> int:
        return int(self._one("select count(*) from messages"))

    def store_bytes(self) -> int:
        return size_bytes(self.data)

    def _one(self, query: str) -> int:
        database = sqlite3.connect(f"file:{self.data / 'sessions.db'}?mode=ro", uri=True)
        try:
            return database.execute(query).fetchone()[0]
        finally:
            database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Time agentsview alone.")
    parser.add_argument(
        "--home", type=Path, required=True, help="home directory with .claude/projects/ in it"
    )
    parser.add_argument("--scratch", type=Path, default=default_scratch())
    parser.add_argument("--agentsview", type=Path, help="the binary, when it is already installed")
    args = parser.parse_args()
    binary = args.agentsview or find_agentsview(args.scratch)
    if not binary:
        sys.exit(1)
    view = AgentsView(binary, args.home, args.scratch / "agentsview-data")
    raw = warm(args.home)
    print(f"{raw / 1e6:.1f} MB")
    print(f"first sync     {seconds(view.first_sync())}")
    print(
        f"               {view.sessions()} sessions, {view.messages()} messages, store"
        f" {view.store_bytes() / raw:.2f} × raw"
    )
    print(f"sync --full    {seconds(view.first_sync(full=True))}")
    print(f"nothing new    {seconds(view.sync())}")
    largest = max(
        args.home.glob(".claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size
    )
    generate.append_turn(largest)
    print(
        f"appended turn  {seconds(view.sync())}  ({largest.stat().st_size / 1e6:.1f} MB transcript)"
    )
    view.clear()


if __name__ == "__main__":
    main()
