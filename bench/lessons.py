"""The time that an agent waits for a hook, at the start of a session and when a tool fails.

    python bench/lessons.py [--sessions 10000] [--lessons 500] [--runs 20] [--write]

The store has many sessions and many lessons. Each call is a separate process, as an agent starts
it. Bars: a second from start to end, 800 tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from _measure import Row, show

from runlore.digest.errors import signature
from runlore.integrations import hooks
from runlore.lessons import Lesson
from runlore.lessons.shelf import Shelf
from runlore.store import open_store
from runlore.text.tokens import tokens
from tests.mine.test_known_errors import fix, session

ERROR = "Traceback (most recent call last):\nKeyError: 'user'"
LEARNED = "Error: Cannot find module 'vite'"


def main() -> None:
    parser = argparse.ArgumentParser(description="How long an agent waits for a hook.")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--lessons", type=int, default=500)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="put the result into RESULTS.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        repo = prepare(Path(place), args.sessions, args.lessons)
        rows = [
            row
            for name, event, error in (
                ("a session starts", "start", ""),
                ("a tool fails, told a lesson", "fail", LEARNED),
                ("a tool fails, told a fix", "fail", ERROR),
                ("a tool fails, nothing is known", "fail", "Error: never seen"),
            )
            for row in report(
                name, [called(Path(place), repo, event, error, n) for n in range(args.runs)]
            )
        ]
        remark = (
            f"{args.sessions:,} sessions, {args.lessons} lessons, {args.runs} calls each, every one"
            " a process of its own."
        )
        show("hooks: lessons", rows, [remark], args.write)


def prepare(place: Path, sessions: int, lessons: int) -> Path:
    repo, home = place / "shop", place / "home"
    (repo / ".git").mkdir(parents=True)
    (repo / ".git/config").write_text('[remote "origin"]\n\turl = git@example.com:acme/shop.git\n')
    home.mkdir(mode=0o700)
    with closing(open_store(str(home / "runlore.db"))) as store:
        for n in range(sessions):
            session(
                store,
                f"s{n:05}",
                repo="acme/shop",
                days_ago=n / 100,
                **({"key": fix("key")} if n % 100 == 0 else {}),
            )
    known = signature(LEARNED)
    assert known is not None
    shelf = Shelf(home / "lessons")
    for n in range(lessons):
        shelf.put(
            Lesson(
                id=f"l{n:04}",
                status="approved",
                when=f"problem {n} of this repository, in some words",
                do="do this and that " * 8,
                evidence=tuple(f"toy:s{n:05}#{k}" for k in range(8)),
                sessions=3 + n % 9,
                confidence=n / 1000,
                fingerprint=known.fingerprint if n == 7 else "",
                last_at="2026-05-01T00:00:00Z",
                repo="acme/shop" if n % 2 else "",
            )
        )
    return repo


def called(place: Path, repo: Path, event: str, error: str, n: int) -> tuple[float, float, str]:
    call = {
        "session_id": f"{event}{n}{len(error)}",
        "cwd": str(repo),
        "hook_event_name": "X",
        "error": error,
    }
    command = [sys.executable, *hooks.PYTHON, "-m", "runlore", "hooks", "run", event, "claude"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "RUNLORE_HOME": str(place / "home")}
    done = subprocess.run(
        command, input=json.dumps(call).encode(), capture_output=True, check=True, env=env
    )
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        took,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        done.stdout.decode(),
    )


def report(name: str, calls: list[tuple[float, float, str]]) -> Iterator[Row]:
    wall, spent = sorted(took for took, _, _ in calls), sorted(cpu for _, cpu, _ in calls)
    most = max(tokens(text) for _, _, text in calls)
    answered = sum(bool(text) for _, _, text in calls)
    middle, longest, cpu = (
        1000 * seconds for seconds in (wall[len(wall) // 2], wall[-1], spent[len(spent) // 2])
    )
    detail = f"p50 {middle:.0f} ms, {cpu:.0f} ms CPU; {answered} of {len(calls)} answered"
    yield Row(f"{name}: longest call", "≤ 1 s", f"{longest:.0f} ms", detail, "—")
    yield Row(f"{name}: tokens at most", "≤ 800", f"{most}", "", "—")


if __name__ == "__main__":
    main()
