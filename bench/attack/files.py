"""Files that were made to exhaust memory or time, in place of a source of every agent; and links,
pipes and devices where a source should be.

A file of 30 MB may cost 300 MB of memory and 10 s of CPU, whatever is in it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.attack import Result, not_possible
from bench.attack._hostile import (
    Run,
    choose_fixtures,
    configure,
    copy_root,
    files_of,
    run_sync,
    sessions_of,
    why_not,
    write,
)
from runlore.testing import Fixture

SIZE = 30_000_000
MAX_PEAK_MB, MAX_CPU_S = 300, 10.0
OTHERS_TEXT = "the text of a file that is none of the agent's"


def fill(unit: bytes, size: int = SIZE) -> bytes:
    return unit * (size // len(unit))


def _prompt(content: bytes) -> bytes:
    """Return a line that several agents take for a prompt."""
    return (
        b'{"type":"user","role":"user","uuid":"11111111-2222-4333-8444-555555555555","sessionId":"s",'
        b'"timestamp":"2026-01-01T00:00:00.000Z","content":%b,'
        b'"message":{"role":"user","content":%b}}\n' % (content, content)
    )


def _prompts() -> bytes:
    line = _prompt(b'"some words"').rstrip()[1:]
    count = SIZE // (len(line) + 20)
    return b"".join(b'{"id":"%010d",%b\n' % (n, line) for n in range(count))


def _words() -> bytes:
    return b" ".join(b"w%x" % (n * 7919) for n in range(SIZE // 16))


POISONS: dict[str, Callable[[], bytes]] = {
    "2.4 MB of {} lines": lambda: fill(b"{}\n", 2_400_000),
    "12 MB of {} lines": lambda: fill(b"{}\n", 12_000_000),
    "30 MB of {} lines": lambda: fill(b"{}\n"),
    "30 MB of blank lines": lambda: fill(b"\n"),
    "lines that are not JSON": lambda: fill(b"x" * 80 + b"\n"),
    "a hundred thousand prompts": _prompts,
    "one line that is a text": lambda: b'"' + b"x" * SIZE + b'"\n',
    "one line without an end": lambda: b"x" * SIZE,
    "a prompt of 15 MB, twice": lambda: _prompt(b'"' + fill(b"some words, ", SIZE // 2) + b'"'),
    "a prompt of different words": lambda: _prompt(b'"' + _words() + b'"'),
    "NUL bytes": lambda: b"\0" * SIZE,
    "deep lists": lambda: b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "deep objects": lambda: b'{"a":' * (SIZE // 6) + b"1" + b"}" * (SIZE // 6),
    "lines of 500 levels": lambda: fill(b"[" * 500 + b"]" * 500 + b"\n"),
    "objects without a comma": lambda: fill(b"{}"),
    "a list of empty objects": lambda: b"[" + fill(b"{},") + b"{}]",
    "an object of many keys": lambda: (
        b"{" + b",".join(b'"%x":1' % n for n in range(SIZE // 12)) + b"}"
    ),
    "a prompt of many parts": lambda: _prompt(
        b"[" + fill(b'{"type":"text","text":"a"},', SIZE // 2) + b"{}]"
    ),
}


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Poison a source of each agent, one after another, and sync."""
    if reason := why_not():
        yield not_possible("hostile files", reason)
        return
    every = list(POISONS.items())
    for case, make in every[:: max(1, round(0.04 / scale))]:
        data = make()
        runs: dict[str, Run] = {}
        for fixture in choose_fixtures(scale, _has_file):
            home = scratch / "home"
            root = copy_root(fixture, home / "agent")
            write(files_of(fixture, root)[0], data)
            configure(home, {fixture.agent: [root]})
            runs[fixture.agent] = run_sync(home, [fixture.agent])
            shutil.rmtree(home)
        yield judge(case, runs)
    yield from _special_files(scale, scratch)


def _has_file(fixture: Fixture) -> bool:
    return bool(files_of(fixture, fixture.root))


def judge(case: str, runs: dict[str, Run]) -> Result:
    held = {
        agent
        for agent, run in runs.items()
        if run.code == 0 and run.peak_mb <= MAX_PEAK_MB and run.cpu_s <= MAX_CPU_S
    }
    worst = max(runs.items(), key=lambda item: (item[0] not in held, item[1].cpu_s))
    peak = max(run.peak_mb for run in runs.values())
    note = f"slowest {worst[0]}: {worst[1].figures}; most {peak} MB"
    return Result(case, len(runs), len(held), note)


def _special_files(scale: float, scratch: Path) -> Iterator[Result]:
    """Put a pipe, a device, or a link out of the agent's folder where each of its files is."""
    outside = scratch / "outside"
    outside.write_text(OTHERS_TEXT * 100)
    makers: dict[str, Callable[[Path], None]] = {
        "pipes in place of files": lambda path: os.mkfifo(path),
        "links to a device": lambda path: path.symlink_to("/dev/zero"),
        "links out of the folder": lambda path: path.symlink_to(outside),
    }
    for case, make in makers.items():
        tried, failed = 0, []
        for fixture in choose_fixtures(scale, lambda _: True):
            home = scratch / "home"
            root = copy_root(fixture, home / "agent")
            for path in [path for path in root.rglob("*") if path.is_file()]:
                path.unlink()
                make(path)
            configure(home, {fixture.agent: [root]})
            run = run_sync(home, [fixture.agent])
            tried += 1
            if run.code != 0 or run.cpu_s > MAX_CPU_S or sessions_of(home):
                failed.append(f"{fixture.agent} ({run.code}, {run.figures})")
            shutil.rmtree(home)
        yield Result(case, tried, tried - len(failed), ", ".join(failed)[:200])
