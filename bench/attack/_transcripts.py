"""Transcripts of several agents to sync while something breaks: generated ones, and fixtures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.attack._trials import FIXTURES
from bench.generate import append_turn, generate

AGENTS = ("claude", "codex", "opencode", "gemini_cli")
"""Lines, lines with subagents, a database, documents."""
CASES = 2
"""Fixtures of each agent."""
OLD_S = 1_750_000_000
"""A time at which all transcripts have been quiet for long."""


def make_home(folder: Path, *, seed: int, mb: float = 0.25, files: int = 5) -> None:
    """Write transcripts of several agents below a folder."""
    generate(folder, mb, files, seed)
    for agent in AGENTS[1:]:
        for case in sorted((FIXTURES / agent).glob("*/root"))[:CASES]:
            shutil.copytree(case, folder / agent / case.parent.name)
    age_files(folder)


def own_roots(folder: Path, agent: str) -> list[str]:
    """Return the folders in which the sessions of an agent are."""
    if agent == AGENTS[0]:
        return [str(folder / ".claude" / "projects")]
    return [str(case) for case in sorted((folder / agent).iterdir())]


def change_home(folder: Path) -> None:
    """Let one transcript grow, cut a line out of another, delete one, and add a new one."""
    grown, rewritten, deleted, *_ = sorted((folder / ".claude" / "projects").glob("*/*.jsonl"))
    append_turn(grown, "appended")
    lines = rewritten.read_bytes().splitlines(keepends=True)
    rewritten.write_bytes(b"".join(lines[: len(lines) // 2] + lines[len(lines) // 2 + 1 :]))
    deleted.unlink()
    shutil.rmtree(folder / "new", ignore_errors=True)
    generate(folder / "new", 0.1, 1, 99)
    shutil.copytree(
        folder / "new" / ".claude" / "projects", folder / ".claude" / "projects", dirs_exist_ok=True
    )
    age_files(folder)


def age_files(folder: Path) -> None:
    """Give new files an old time, and each its own: sources are read in the order of their time."""
    new = (
        path for path in folder.rglob("*") if path.is_file() and path.stat().st_mtime > OLD_S * 1.01
    )
    for n, file in enumerate(sorted(new)):
        os.utime(file, (OLD_S + n, OLD_S + n))
