"""Shared parts of all benchmarks: run programs and record how they compare.

A benchmark never fails because of a time. It prints the measurement beside the bar and leaves the
judgement to the reader.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

BENCH = Path(__file__).resolve().parent
RESULTS = BENCH / "RESULTS.md"
INTRO = """# Results

Written by the benchmarks beside this file (`--write`), one section each; see README.md. Both sides
are measured in one run, alternating, and the best of each counts. The ratio carries over to another
machine, the seconds do not.
"""


class Run(NamedTuple):
    """One finished program. `cpu_s` counts the processes it started and waited for, `peak_mb` is
    the largest of them.

    Linux counts the memory of whoever started a program towards its peak: `peak_mb` is never below
    our own 40 MB.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    status: int
    output: str


class Row(NamedTuple):
    what: str
    bar: str
    measured: str
    ours: str
    theirs: str


class Answer(NamedTuple):
    ms: float
    data: Any


def ask(url: str) -> Answer:
    """Return the JSON answer of a server on this machine, and the milliseconds it took."""
    start = time.perf_counter()
    # A server that a benchmark started.
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310
        data = json.loads(answer.read())
    return Answer((time.perf_counter() - start) * 1e3, data)


def run(command: list[str], env: dict[str, str], check: bool = True) -> Run:
    """Run a program to its end.

    With `check`, a failure ends the benchmark with the program's output.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    output = process.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if check and process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}\n{output[-2000:]}")
    scale = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kilobytes elsewhere
    return Run(
        wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / scale, process.returncode, output
    )


def run_watching_memory(command: list[str], env: dict[str, str]) -> Run:
    """Run a program; `peak_mb` is the sum of all its processes, sampled every 20 ms (Linux only).

    Shared pages are counted once (PSS). Sampling takes some time: do not compare `wall_s` with that
    of `run`.
    """
    if not Path("/proc/self/smaps_rollup").exists():
        return run(command, env)
    peak_kb, done, parent = 0, threading.Event(), os.getpid()

    def look() -> None:
        nonlocal peak_kb
        while not done.wait(0.02):
            peak_kb = max(peak_kb, sum(map(_pss_kb, _descendants(parent))))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        result = run(command, env)
    finally:
        done.set()
        watcher.join()
    return result._replace(peak_mb=peak_kb / 1e3)


def alternate(sides: dict[str, Callable[[], Run]], rounds: int) -> dict[str, Run]:
    """Run every side once per round, alternating, and return the fastest run of each.

    The first side changes with the round.
    """
    names = list(sides)
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            runs[name].append(sides[name]())
            note(
                f"  {name}: {runs[name][-1].wall_s:.3f} s, {runs[name][-1].cpu_s:.3f} CPU s,"
                f" {runs[name][-1].peak_mb:.0f} MB"
            )
    return {name: min(done, key=lambda one: one.wall_s) for name, done in runs.items()}


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def times(faster: float) -> str:
    return f"{faster:.1f} ×" if faster >= 1 else f"{faster:.2f} ×"


def seconds(one: Run) -> str:
    return (
        f"{one.wall_s:.2f} s ({one.cpu_s:.2f} CPU)"
        if one.wall_s >= 1
        else f"{one.wall_s * 1000:.0f} ms ({one.cpu_s * 1000:.0f} CPU)"
    )


def size_bytes(folder: Path, suffix: str = "") -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob(f"*{suffix}")
        if path.is_file() and not path.is_symlink()
    )


def warm(folder: Path) -> int:
    """Read everything once, so that the disk is no part of the comparison; return the bytes of the
    transcripts."""
    total = 0
    for path in folder.rglob("*.jsonl"):
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(1 << 20):
                total += len(chunk)
    return total


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def show(title: str, rows: list[Row], remarks: list[str], write: bool) -> None:
    """Print a table, and with `write` put it into RESULTS.md in place of the section with the same
    title."""
    table = ["| what | bar | measured | ours | theirs |", "|---|---|---|---|---|"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    section = (
        f"## {title}\n\n{_conditions()}\n\n"
        + "\n".join(table)
        + "\n"
        + "".join(f"\n{remark}\n" for remark in remarks)
    )
    print(section, flush=True)
    if write:
        RESULTS.write_text(
            _replaced(RESULTS.read_text() if RESULTS.exists() else INTRO, title, section)
        )


def _replaced(text: str, title: str, section: str) -> str:
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    mine = f"## {title}\n"
    if not any(old.startswith(mine) for old in sections):
        sections.append(mine)
    kept = [section if old.startswith(mine) else old for old in sections]
    return "\n\n".join(part.strip() for part in (head, *kept)) + "\n"


def _conditions() -> str:
    git = ["git", "-C", str(BENCH)]
    commit = (
        subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip()
        or "uncommitted"
    )
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "../src"], capture_output=True, text=True
    ).stdout
    dirty = " with changes" if changed and commit != "uncommitted" else ""
    day = datetime.now(UTC).date().isoformat()
    python = f"Python {platform.python_version()}"
    return f"{day}, commit {commit}{dirty}, {os.cpu_count()} CPUs, {platform.system()}, {python}"


def _descendants(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        children = [
            child
            for thread in threads
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        ]
    except OSError:  # it ended meanwhile
        return
    for child in map(int, children):
        yield child
        yield from _descendants(child)


def _pss_kb(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it ended meanwhile
        return 0
    found = re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0
