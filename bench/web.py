"""The page at ten thousand sessions: how long the server takes for each page, and how much goes
over the wire.

    python bench/web.py --home DIR [--long DIR] [--asks 60]
        [--agentsview BIN --transcripts DIR --data DIR] [--write]

`--home` is a RUNLORE_HOME with a store in it, of any size; `bench/generate.py --mb 3180 --files
10000` and a sync make one of 10,000 sessions and a million events. `--long` is one whose largest
session is to be opened (`generate.py --one 100`). What is asked is made from the store itself with
a seed. The app is asked in this process, one question after the other, as a browser that takes gzip
would: the time is the wall clock's, and beside it what the processor took, which says more on a
busy machine. Sessions are opened for the first time.

With `--agentsview` both servers are asked over HTTP, alternating: its API over the same
transcripts, and ours. `--transcripts` is the home that they are in, `--data` where its own data is.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from _measure import BENCH, Answer, Row, note, show
from _measure import ask as fetched
from search import agentsview

sys.path.insert(0, str(BENCH.parent / "src"))

from runlore.store import Filter, Store, open_store
from runlore.web.app import make_app

BAR_MS, WIRE_KB, OPEN_MS = 100, 150, 1000
WORD = re.compile(r"[A-Za-z]{4,14}")


class Asked(NamedTuple):
    wall_ms: float
    cpu_ms: float
    size: int
    status: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the page.")
    parser.add_argument(
        "--home", type=Path, required=True, help="a RUNLORE_HOME with a store in it"
    )
    parser.add_argument("--long", type=Path, help="one with a very long session")
    parser.add_argument("--asks", type=int, default=60, help="of each kind of page")
    parser.add_argument("--agentsview", type=Path, help="its binary")
    parser.add_argument(
        "--transcripts", type=Path, help="the home of the transcripts that --home was made of"
    )
    parser.add_argument("--data", type=Path, help="where agentsview's own data is, or goes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    gc.set_threshold(100_000)  # As `runlore serve` runs.
    with closing(open_store(str(args.home / "runlore.db"), read_only=True)) as store:
        stats = store.overview.stats()
        pages = dict(questions(store, args.asks, random.Random(args.seed)))
    note(f"{stats['sessions']:,} sessions, {stats['events']:,} events")
    timed = asyncio.run(ask_all(args.home, pages))
    rows = [row(name, found) for name, found in timed.items()]
    home_kb = max(one.size for one in timed["home"]) / 1000
    rows.append(Row("home over the wire", f"≤ {WIRE_KB} KB", f"{home_kb:.0f} KB", "", ""))
    remarks = [
        f"{stats['sessions']:,} sessions with {stats['events']:,} events, {args.asks} different"
        " questions of each kind. Server time with templates and gzip, without the network; the"
        " fourth column has the processor's. Of two rounds the better one counts."
    ]
    if args.long:
        rows.append(long_session(args.long))
    if args.agentsview:
        rows += beside(args, pages)
    show("The page", rows, remarks, args.write)


def questions(store: Store, number: int, chance: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Return pages by kind. No page is requested twice if there are enough."""
    lines = store.sessions.select(Filter())
    some = chance.sample(lines, min(number, len(lines)))
    repos = sorted({line.repo for line in lines if line.repo}) or ["none"]
    models = sorted({line.model for line in lines if line.model}) or ["none"]
    words = [
        word
        for line in chance.sample(lines, min(200, len(lines)))
        for word in WORD.findall(line.title or "")
    ] or ["error"]
    yield (
        "home",
        [f"/?by={by}&show={what}" for by in ("model", "agent") for what in ("cost", "tokens")]
        * (number // 4),
    )
    sorts = ("ended", "started", "cost", "tokens", "errors", "duration", "events")
    yield (
        "sessions",
        [
            f"/sessions?sort={chance.choice(sorts)}&page={chance.randint(1, 40)}"
            for _ in range(number)
        ],
    )
    yield (
        "sessions, filtered",
        [
            f"/sessions?repo={quote(chance.choice(repos))}&model={quote(chance.choice(models))}"
            for _ in range(number)
        ],
    )
    yield "search", [f"/sessions?q={'+'.join(chance.sample(words, 2))}" for _ in range(number)]
    typed = [(word, chance.randint(2, len(word))) for word in chance.choices(words, k=number)]
    yield "search while typing", [f"/sessions/results?q={word[:length]}" for word, length in typed]
    yield "session, first opened", [f"/s/{quote(line.uid, safe=':')}" for line in some]
    yield "session, a part", [f"/x/part/{quote(line.uid, safe=':')}?n=0" for line in some]
    yield (
        "find in a session",
        [f"/x/find/{quote(line.uid, safe=':')}?q={chance.choice(words)}" for line in some],
    )
    yield (
        "what the model saw",
        [
            f"/x/seen/{quote(line.uid, safe=':')}?seq={chance.randint(0, min(20, line.events - 1))}"
            for line in some
        ],
    )
    kinds = (
        "day",
        "week",
        "month",
        "session",
        "model",
        "agent",
        "repo",
        "branch",
        "machine",
        "subagent",
        "block",
    )
    yield (
        "usage",
        [f"/usage?by={by}&since={since}" for by in kinds for since in ("30d", "90d", "all")],
    )
    yield (
        "errors",
        ["/errors", "/errors?least=1", *(f"/errors?repo={quote(repo)}" for repo in repos[:20])],
    )
    yield "live", ["/live"] * number
    yield "agents and store", ["/agents"] * number
    yield "API: sessions", [f"/api/v1/sessions?page={chance.randint(1, 40)}" for _ in range(number)]


async def ask_all(home: Path, pages: dict[str, list[str]]) -> dict[str, list[Asked]]:
    """Return the better of two rounds for each page: the first one reads the disk."""
    os.environ["RUNLORE_HOME"] = str(home)
    rounds = []
    for _ in range(2):
        app = make_app()
        for paths in pages.values():
            await ask(app, paths[0])  # Templates and imports.
        rounds.append(
            {name: [await ask(app, path) for path in paths] for name, paths in pages.items()}
        )
    return {
        name: [
            min(pair, key=lambda one: one.wall_ms)
            for pair in zip(*(one[name] for one in rounds), strict=True)
        ]
        for name in pages
    }


async def ask(app: Any, url: str) -> Asked:
    parts = urlsplit(url)
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": parts.path, "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(), "root_path": "",
        "headers": [(b"host", b"localhost"), (b"accept-encoding", b"gzip")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    size = status = 0

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal size, status
        status = message.get("status", status)
        size += len(message.get("body", b""))

    wall, cpu = time.perf_counter(), time.process_time()
    await app(scope, receive, send)
    return Asked(
        (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000, size, status
    )


def row(name: str, found: list[Asked]) -> Row:
    wall, cpu = [one.wall_ms for one in found], [one.cpu_ms for one in found]
    failed = sum(one.status >= 400 for one in found)
    measured = f"p50 {statistics.median(wall):.0f} ms, p95 {percentile(wall):.0f} ms" + (
        f", {failed} FAILED" if failed else ""
    )
    return Row(
        name,
        f"p95 ≤ {BAR_MS} ms",
        measured,
        f"CPU p50 {statistics.median(cpu):.0f} ms, p95 {percentile(cpu):.0f} ms",
        "",
    )


def percentile(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def long_session(home: Path) -> Row:
    """Open the largest session of a store in a process with all imports done; the best of three."""
    with closing(open_store(str(home / "runlore.db"), read_only=True)) as store:
        (line,) = store.sessions.select(Filter(), sort="events", limit=1)
    url = f"/s/{quote(line.uid, safe=':')}"
    best = min((asyncio.run(open_once(home, url)) for _ in range(3)), key=lambda one: one.cpu_ms)
    what = f"open a session of {line.source_bytes / 1e6:.0f} MB with {line.events:,} events"
    return Row(
        what,
        f"≤ {OPEN_MS} ms",
        f"{best.wall_ms:.0f} ms",
        f"CPU {best.cpu_ms:.0f} ms, {best.size / 1000:.0f} KB",
        "",
    )


async def open_once(home: Path, url: str) -> Asked:
    os.environ["RUNLORE_HOME"] = str(home)
    app = make_app()
    await ask(app, "/sessions")
    return await ask(app, url)


# ── compared with agentsview ──────────────────────────────────────────────────────────────────────
def beside(args: argparse.Namespace, pages: dict[str, list[str]]) -> list[Row]:
    """Compare both APIs on the same transcripts.

    The better of two requests counts on both sides.
    """
    uids = [unquote(path.removeprefix("/s/")) for path in pages["session, first opened"]]
    words = [parse_qs(urlsplit(path).query)["q"][0] for path in pages["search"]]
    with (
        agentsview(args.agentsview, args.transcripts, args.data) as theirs,
        served(args.home) as ours,
    ):
        searched = [
            (f"/api/v1/sessions?q={quote(text)}", f"/api/v1/search?q={quote(text)}&limit=20")
            for text in words
        ]
        # agentsview searches for all words in one message and has no tool output: a match on one
        # side only says nothing about speed.
        both = [
            (own, foreign)
            for own, foreign in searched
            if ours(own).data["sessions"] and theirs(foreign).data["results"]
        ]
        pairs = {
            "list of 50 sessions": [("/api/v1/sessions", "/api/v1/sessions?limit=50")] * len(uids),
            f"{len(both)} searches that both answer, 20 sessions each": both,
            "a session's first 500 events or messages": [
                (
                    f"/api/v1/events/{quote(uid, safe=':')}",
                    f"/api/v1/sessions/{quote(uid.partition(':')[2])}/messages?limit=500",
                )
                for uid in uids
            ],
        }
        return [compared(name, asked, ours, theirs) for name, asked in pairs.items() if asked]


def compared(
    name: str,
    asked: list[tuple[str, str]],
    ours: Callable[[str], Answer],
    theirs: Callable[[str], Answer],
) -> Row:
    mine, other = [], []
    for own, foreign in asked:
        mine.append(min(ours(own).ms for _ in range(2)))
        other.append(min(theirs(foreign).ms for _ in range(2)))
    sides = [
        f"p50 {statistics.median(side):.1f} ms, p95 {percentile(side):.1f} ms"
        for side in (mine, other)
    ]
    return Row(
        f"{name}, over HTTP",
        "",
        f"{statistics.median(other) / statistics.median(mine):.1f} ×",
        *sides,
    )


@contextmanager
def served(home: Path) -> Iterator[Callable[[str], Answer]]:
    """Run `runlore serve` over a home and yield a function that requests a path."""
    env = {**os.environ, "RUNLORE_HOME": str(home), "PYTHONPATH": str(BENCH.parent / "src")}
    command = [sys.executable, "-m", "runlore", "serve", "--port", "0", "--json"]
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["url"]
    try:
        yield lambda path: fetched(url + path)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
