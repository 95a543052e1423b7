"""The MCP server as an agent uses it: the time of each tool through the SDK's client over stdio,
and the size of the answers.

    python bench/mcp_server.py --home DIR [--calls 200] [--max-tokens 2000] [--http] [--write]

`--home` is a RUNLORE_HOME with a store of any size. The calls are generated from the store with a
seed: words, sessions, files and commits from its events. Each call is made once, so that nothing is
cached; and once more in this process, for the CPU time alone, which is the better measure on a busy
machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from _measure import BENCH, Row, note, show
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

sys.path.insert(0, str(BENCH.parent / "src"))

from runlore.integrations.mcp import call
from runlore.query.open_stores import Stores
from runlore.store import Filter, SessionLine, Store, open_store
from runlore.text.tokens import tokens, tokens_of

BAR_MS = 150
TOOLS = ("search", "sessions", "show", "file", "commit", "usage")
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{3,24}")
SHA = re.compile(r"\b[0-9a-f]{7,40}\b")
BY = (
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


class Timed(NamedTuple):
    tool: str
    ms: float
    share: float
    """Share of the budget that the larger form of the answer uses."""
    failed: bool


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the MCP server.")
    parser.add_argument(
        "--home", type=Path, required=True, help="a RUNLORE_HOME with a store in it"
    )
    parser.add_argument("--calls", type=int, default=200, help="of each tool")
    parser.add_argument("--max-tokens", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--http", action="store_true", help="over HTTP instead of stdio")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    with closing(open_store(str(args.home / "runlore.db"), read_only=True)) as store:
        stats = store.overview.stats()
        asked = questions(store, args.calls, random.Random(args.seed))
    note(f"{stats['sessions']:,} sessions, {stats['events']:,} events; {len(asked):,} questions")
    timed = asyncio.run(ask(args.home, asked, args.max_tokens, args.http))
    alone = ask_here(args.home, asked, args.max_tokens)
    rows = [
        row(
            tool,
            [one for one in timed if one.tool == tool],
            [ms for name, ms in alone if name == tool],
        )
        for tool in TOOLS
    ]
    rows.append(row("all of them", timed, [ms for _, ms in alone]))
    remarks = [
        (
            f"A store of {stats['sessions']:,} sessions and {stats['events']:,} events; over"
            f" {'HTTP' if args.http else 'stdio'}, the client's own time included; --max-tokens"
            f" {args.max_tokens}."
        ),
        (
            f"Answers that were errors: {sum(one.failed for one in timed)}. Of their budget they"
            f" take {max(one.share for one in timed):.0%} at most and"
            f" {statistics.median(one.share for one in timed):.0%} in the median."
        ),
        (
            f"Load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs,"
            " this benchmark included."
        ),
    ]
    show("mcp", rows, remarks, args.write)


def row(what: str, timed: list[Timed], alone: list[float]) -> Row:
    ours = f"processor {two(alone)}, most {max(one.ms for one in timed):.0f} ms"
    return Row(
        f"{what}: p50 / p95 of {len(timed)} calls",
        f"p95 ≤ {BAR_MS} ms",
        two([one.ms for one in timed]),
        ours,
        "—",
    )


def two(times: list[float]) -> str:
    ordered = sorted(times)
    return (
        f"{statistics.median(ordered):.0f} /"
        f" {ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]:.0f} ms"
    )


# ── the calls ─────────────────────────────────────────────────────────────────────────────────────
def questions(store: Store, number: int, rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """Return the same number of calls for each tool, in random order."""
    lines = store.sessions.select(Filter(parents_only=False))
    made = {
        name: [globals()[f"ask_{name}"](store, lines, rng) for _ in range(number)] for name in TOOLS
    }
    found = [(name, arguments) for name, each in made.items() for arguments in each]
    rng.shuffle(found)
    return found


def ask_search(store: Store, lines: list[SessionLine], rng: random.Random) -> dict[str, Any]:
    words = WORD.findall(text_of(store, lines, rng)) or ["error"]
    at = rng.randrange(len(words))
    query = " ".join(words[at : at + rng.choice((1, 2, 2, 3, 8))])
    extra = rng.choice(("", "", "", " is:error", " kind:user_msg", " after:365d"))
    return {"query": query + extra, "sort": rng.choice(("relevance", "relevance", "newest"))}


def ask_sessions(_: Store, lines: list[SessionLine], rng: random.Random) -> dict[str, Any]:
    one = rng.choice(lines)
    return rng.choice(
        (
            {},
            {"repo": one.repo or "none"},
            {"cwd": one.cwd or "/"},
            {"errors": True},
            {"sort": "tokens", "subagents": True},
        )
    )


def ask_show(_: Store, lines: list[SessionLine], rng: random.Random) -> dict[str, Any]:
    one = rng.choice(lines)
    seq = rng.randrange(max(1, one.events))
    whole: dict[str, Any] = {"session": one.uid}
    return rng.choice(
        (
            whole,
            {**whole, "first": seq},
            {**whole, "first": seq, "full": True},
            {"session": f"{one.uid}#0", "context": True},
        )
    )


def ask_file(store: Store, lines: list[SessionLine], rng: random.Random) -> dict[str, Any]:
    for _ in range(20):
        one = rng.choice(lines)
        files = [file for event in store.sessions.events(one.uid, 0, 200) for file in event.files]
        if files:
            path = rng.choice(files)
            return {
                "path": (
                    path
                    if rng.random() < 0.5
                    else path.replace("\\", "/").rpartition("/")[2] or path
                )
            }
    return {"path": "main.py"}


def ask_commit(store: Store, lines: list[SessionLine], rng: random.Random) -> dict[str, Any]:
    for _ in range(20):
        if found := SHA.findall(text_of(store, lines, rng)):
            return {"sha": rng.choice(found)}
    return {"sha": f"{rng.getrandbits(40):010x}"}


def ask_usage(_: Store, lines: list[SessionLine], rng: random.Random) -> dict[str, Any]:
    one = rng.choice(lines)
    return {
        "by": rng.choice(BY),
        **rng.choice(({}, {}, {"agent": one.agent}, {"session": one.uid}, {"since": "30d"})),
    }


def text_of(store: Store, lines: list[SessionLine], rng: random.Random) -> str:
    one = rng.choice(lines)
    first = rng.randrange(max(1, one.events))
    return " ".join(
        text[:4000] for text in store.sessions.bodies(one.uid, first, first + 4).values()
    )


# ── running them ──────────────────────────────────────────────────────────────────────────────────
async def ask(
    home: Path, asked: list[tuple[str, dict[str, Any]]], room: int, over_http: bool
) -> list[Timed]:
    timed: list[Timed] = []
    async with connected(home, over_http) as client:
        # The first call imports modules and opens the store.
        await client.call_tool("sessions", {})
        for tool, arguments in asked:
            start = time.perf_counter()
            result = await client.call_tool(tool, {**arguments, "max_tokens": room})
            ms = 1000 * (time.perf_counter() - start)
            size = max(
                tokens("".join(part.text for part in result.content)),
                tokens_of(result.structured_content),
            )  # type: ignore[union-attr]
            timed.append(Timed(tool, ms, size / room, result.is_error))
    return timed


def ask_here(
    home: Path, asked: list[tuple[str, dict[str, Any]]], room: int
) -> list[tuple[str, float]]:
    """Return the CPU time of each call in ms, run in this process."""
    os.environ["RUNLORE_HOME"] = str(home)
    gc.set_threshold(100_000)  # As the command does.
    gc.collect()
    gc.freeze()
    found = []
    with closing(Stores()) as stores:
        call(stores, "sessions", {})
        for tool, arguments in asked:
            start = time.process_time()
            call(stores, tool, {**arguments, "max_tokens": room})
            found.append((tool, 1000 * (time.process_time() - start)))
    return found


@asynccontextmanager
async def connected(home: Path, over_http: bool) -> AsyncIterator[Client]:
    command = ["-m", "runlore", "mcp"]
    env = {**os.environ, "RUNLORE_HOME": str(home), "PYTHONPATH": str(BENCH.parent / "src")}
    if not over_http:
        async with Client(
            stdio_client(StdioServerParameters(command=sys.executable, args=command, env=env))
        ) as client:
            yield client
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        "--http",
        "0",
        env=env,
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stderr is not None
        address = re.search(r"http://\S+/mcp", (await process.stderr.readline()).decode())
        assert address is not None, "the server did not say where it is"
        async with Client(address.group()) as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    main()
