"""The live session log compared with the OpenAI Agents SDK's SQLiteSession and with the machine's
limits; and the bridges to agent frameworks with the SQLite store of each framework.

    python bench/live.py [--scratch DIR] [--scale 0.1] [--only log|bridges] [--write]

Each side runs in a separate process, alternating, and the best of three counts. Durability is the
default of each side, so SQLiteSession waits for the disk at every message; a separate row shows the
cost of waiting for us. The peers are installed below `--scratch`, unless `--peers` names an
interpreter that has them. Bridges are compared by CPU time, as it does not depend on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import _bridges

ROOT = Path(__file__).resolve().parents[1]
VERSION = "0.24.0"
FRAMEWORKS = [
    f"{ROOT}[openai-agents,langgraph,google-adk]",
    "langgraph-checkpoint-sqlite>=3.1.2",
    "aiosqlite",
]
BRIDGES = {
    "openai": ("OpenAI SQLiteSession", "an item"),
    "langgraph": ("LangGraph SqliteSaver", "a turn at 300 messages"),
    "adk": ("ADK SqliteSessionService", "an event"),
}
"""The store of each framework, and what is appended to it."""
FIGURES: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "append_us": ("append {unit}", "≥ 1 ×", lambda us: f"{us:,.0f} µs"),
    "turn_bytes": ("bytes of {unit}", "≥ 1 ×", lambda size: f"{size / 1e3:,.1f} kB"),
    "load_ms": ("load all", "≥ 1 ×", lambda ms: f"{ms:.1f} ms"),
    "last_ms": ("load the last 50", "≥ 1 ×", lambda ms: f"{ms:.1f} ms"),
    "bytes": ("disk", "≥ 1 ×", lambda size: f"{size / 1e6:.2f} MB"),
}
"""What a figure measures, the bar for their figure over ours, and its form."""
NO_TRACING = {
    "LANGSMITH_TRACING": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1", "OTEL_SDK_DISABLED": "true",
}  # fmt: skip
TEXT = "The quick brown fox jumps over the lazy dog, again and again. " * 17
MESSAGE = {"role": "user", "content": TEXT[:1024]}


def main() -> None:
    from _measure import remove
    from peers import default_scratch

    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--scratch", type=Path, default=default_scratch())
    arguments.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="of the log of 1,000,000 records and the 10,000 sessions",
    )
    arguments.add_argument("--only", choices=["log", "bridges"])
    arguments.add_argument("--peers", help="a Python with runlore's dependencies and the peers")
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    work = given.scratch / "live"
    remove(work)
    work.mkdir(parents=True)
    if given.only != "bridges":
        measure_log(given, work)
    if given.only != "log":
        measure_bridges(given, work)
    remove(work)


def measure_bridges(given: argparse.Namespace, work: Path) -> None:
    """Compare each bridge with the SQLite store of its framework."""
    from _measure import Row, note, show

    peer = given.peers or find_peer(given.scratch, "frameworks", FRAMEWORKS)
    if peer is None:
        return
    rows: list[Row] = []
    for framework, (store, unit) in BRIDGES.items():
        note(framework)
        best = least_cpu(peer, framework, work)
        ours, theirs = best["ours"], best["theirs"]
        for name, (what, bar, form) in FIGURES.items():
            if name in ours:
                ratio = f"{theirs[name] / ours[name]:.2f} ×"
                shown = (form(ours[name]), form(theirs[name]))
                rows.append(Row(f"{store}: {what.format(unit=unit)}", bar, ratio, *shown))
    show(
        "Live session log: bridges",
        rows,
        [
            f"{_bridges.COUNT:,} messages of 1 KB; of the graph {2 * _bridges.TURNS}, and the last"
            f" {_bridges.MEASURED_TURNS} turns are measured. Each reading opens the store again."
            " Above 1 × the bridge needs less. Times are CPU."
        ],
        given.write,
    )


def least_cpu(python: str, framework: str, work: Path) -> dict[str, dict[str, float]]:
    """Return the least of each figure of both sides, which run in turn."""
    from _measure import remove

    runs: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    env = {**os.environ, **NO_TRACING, "PYTHONPATH": str(ROOT / "src")}
    for _ in range(3):
        for side, figures in runs.items():
            folder = work / "side"
            remove(folder)
            folder.mkdir()
            script = [_bridges.__file__, f"{framework}_{side}", str(folder)]
            command = [python, "-W", "ignore", *script]
            done = subprocess.run(command, capture_output=True, text=True, env=env)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
            figures.append(json.loads(done.stdout.splitlines()[-1]))
            print(f"  {framework} {side}: {figures[-1]}", file=sys.stderr)
    return {
        side: {name: min(one[name] for one in figures) for name in figures[0]}
        for side, figures in runs.items()
    }


def measure_log(given: argparse.Namespace, work: Path) -> None:
    from _measure import Row, note, show

    peer = given.peers or find_peer(
        given.scratch, f"openai-agents-{VERSION}", [f"openai-agents=={VERSION}"]
    )
    rows: list[Row] = []
    note("append")
    best = alternate(
        work,
        {"ours": (sys.executable, "ours"), **({"theirs": (peer, "peer")} if peer else {})},
        "append",
        10_000,
    )
    ours, theirs = best["ours"], best.get("theirs")
    rate = f"{1 / ours['wall_s'] * 10_000:,.0f}/s"
    ratio = f"{theirs['wall_s'] / ours['wall_s']:.0f} ×" if theirs else "no peer"
    other = f"{10_000 / theirs['wall_s']:,.0f}/s, {theirs['cpu_us']:.0f} µs CPU" if theirs else ""
    rows.append(
        Row(
            "append 1 KB, `process`", "≥ 40 ×", ratio, f"{rate}, {ours['cpu_us']:.1f} µs CPU", other
        )
    )
    flat = run_side(sys.executable, "ours", "flat", 100_000, work)
    rows.append(
        Row(
            "CPU of an append, best 1,000 of 10,000",
            "≤ 12 µs",
            f"{flat['first_us']:.1f} µs",
            "the first 10,000",
            "",
        )
    )
    rows.append(
        Row(
            "the same",
            "flat",
            f"{flat['last_us'] / flat['first_us']:.2f} ×",
            f"{flat['last_us']:.1f} µs, the last 10,000 of 100,000",
            "",
        )
    )
    rows.append(
        Row("disk", "≤ 1.15 × payload", f"{flat['disk']:.3f} ×", "of the message as JSON", "")
    )
    note("power")
    power = run_side(sys.executable, "ours", "power", 300, work)
    rows.append(
        Row(
            "append 1 KB, `power`",
            "≥ 0.85 × write + fdatasync",
            f"{power['ratio']:.2f} ×",
            f"{power['rate']:,.0f}/s",
            f"{power['bare']:,.0f}/s",
        )
    )
    note("load")
    best = alternate(
        work,
        {"ours": (sys.executable, "ours"), **({"theirs": (peer, "peer")} if peer else {})},
        "load",
        10_000,
    )
    ours, theirs = best["ours"], best.get("theirs")
    ratio = f"{theirs['wall_s'] / ours['wall_s']:.1f} ×" if theirs else "no peer"
    rows.append(
        Row(
            "load 10,000 messages",
            "≥ 2 ×",
            ratio,
            ms(ours["wall_s"]),
            ms(theirs["wall_s"]) if theirs else "",
        )
    )
    note("a long log")
    count = int(1_000_000 * given.scale)
    long = run_side(sys.executable, "ours", "long", count, work)
    rows.append(
        Row(
            f"open + messages(), {count:,} records, compacted 1,000 before the end",
            "≤ 50 ms",
            ms(long["messages_s"]),
            "",
            "",
        )
    )
    rows.append(Row("open + state of the same", "≤ 5 ms", ms(long["state_s"]), "", ""))
    rows.append(Row("open + tail(50) of the same", "≤ 2 ms", ms(long["tail_s"]), "", ""))
    note("many sessions")
    count = int(10_000 * given.scale)
    many = run_side(sys.executable, "ours", "many", count, work)
    rows.append(
        Row(
            f"list(limit=50) of {count:,} sessions",
            "≤ 5 ms",
            ms(many["list_s"]),
            f"by cwd {ms(many['cwd_s'])}",
            "",
        )
    )
    rows.append(
        Row("the same, without the index", "", f"{many['rebuild_s']:.2f} s", "made anew", "")
    )
    show(
        "Live session log",
        rows,
        [f"Peer: openai-agents {VERSION}, SQLiteSession on a file."],
        given.write,
    )


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def find_peer(scratch: Path, name: str, packages: list[str]) -> str | None:
    """Return the interpreter of an environment with packages, which is created if it is missing."""
    venv = scratch / name
    python = venv / "bin" / "python"
    if not python.exists():
        pip = [str(python), "-m", "pip", "install", "--quiet", *packages]
        for command in ([sys.executable, "-m", "venv", str(venv)], pip):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                print(
                    f"{' '.join(packages)} cannot be installed:\n{done.stderr[-500:]}",
                    file=sys.stderr,
                )
                return None
    return str(python)


def alternate(
    work: Path, sides: dict[str, tuple[str, str]], what: str, count: int
) -> dict[str, dict[str, float]]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for _ in range(3):
        for name, (python, side) in sides.items():
            found[name].append(run_side(python, side, what, count, work))
    return {name: min(runs, key=lambda one: one["wall_s"]) for name, runs in found.items()}


def run_side(python: str, side: str, what: str, count: int, work: Path) -> dict[str, float]:
    command = [python, __file__, "--side", side, what, str(count), str(work)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"  {side} {what}: {result}", file=sys.stderr)
    return result


# ── one side, in a process of its own ─────────────────────────────────────────────────────────────


def peer_append(count: int, work: Path) -> dict[str, float]:
    from agents import SQLiteSession  # type: ignore[import-not-found]

    async def append() -> dict[str, float]:
        path = fresh(work / "peer.db")
        session = SQLiteSession("one", str(path))
        await session.add_items([MESSAGE])
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            await session.add_items([MESSAGE])
        return {
            "wall_s": time.perf_counter() - start,
            "cpu_us": (time.process_time() - cpu) / count * 1e6,
        }

    return asyncio.run(append())


def peer_load(count: int, work: Path) -> dict[str, float]:
    from agents import SQLiteSession

    async def load() -> dict[str, float]:
        session = SQLiteSession("one", str(fresh(work / "peer.db")))
        await session.add_items([MESSAGE] * count)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            found = await session.get_items()
            times.append(time.perf_counter() - start)
            assert len(found) == count
        return {"wall_s": min(times)}

    return asyncio.run(load())


def ours_append(count: int, work: Path) -> dict[str, float]:
    session = store(work).create()
    session.append(MESSAGE)
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        session.append(MESSAGE)
    return {
        "wall_s": time.perf_counter() - start,
        "cpu_us": (time.process_time() - cpu) / count * 1e6,
    }


def ours_flat(count: int, work: Path) -> dict[str, float]:
    session = store(work).create()
    lots = []
    for _ in range(count // 1000):
        cpu = time.process_time()
        for _ in range(1000):
            session.append(MESSAGE)
        lots.append((time.process_time() - cpu) * 1000)
    disk = (
        (session.path / "log.jsonl").stat().st_size
        / count
        / len(json.dumps(MESSAGE, separators=(",", ":")))
    )
    return {
        "first_us": min(lots[:10]),
        "last_us": min(lots[-10:]),
        "mean_us": statistics.mean(lots),
        "disk": disk,
    }


def ours_power(count: int, work: Path) -> dict[str, float]:
    """Return the median ratio of nine pairs: our appends and plain writes of the same lines."""
    session = store(work, durability="power").create()
    session.append(MESSAGE)
    line = (session.path / "log.jsonl").read_bytes().splitlines(True)[-1]
    fd = os.open(fresh(work / "bare"), os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def bare() -> None:
        os.write(fd, line)
        os.fdatasync(fd)

    pairs = [(timed(lambda: session.append(MESSAGE), count), timed(bare, count)) for _ in range(9)]
    return {
        "ratio": statistics.median(theirs / ours for ours, theirs in pairs),
        "rate": count / statistics.median(ours for ours, _ in pairs),
        "bare": count / statistics.median(theirs for _, theirs in pairs),
    }


def ours_load(count: int, work: Path) -> dict[str, float]:
    where = store(work)
    with where.create(id="load") as session:
        for _ in range(count):
            session.append(MESSAGE)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        with where.open("load", readonly=True) as session:
            found = session.messages()
        times.append(time.perf_counter() - start)
        assert len(found) == count
        del found
    return {"wall_s": min(times)}


def ours_long(count: int, work: Path) -> dict[str, float]:
    where = store(work)
    pid = os.fork()
    if pid == 0:  # Written by a process that ends without closing anything.
        session = where.create(id="long")
        session.state.start(goal_id="goal")
        for n in range(count - 2):
            session.append(MESSAGE)
            if n == count - 1002:
                session.compact("what was said before")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

    def messages() -> None:
        with where.open("long", readonly=True) as session:
            assert 1000 <= len(session.messages()) <= 1003

    def state() -> None:
        with where.open("long", readonly=True) as session:
            assert session.state.current.status == "active"

    def tail() -> None:
        with where.open("long", readonly=True) as session:
            assert len(session.tail(50)) == 50

    return {
        f"{work.__name__}_s": statistics.median(timed(work, 1) for _ in range(9))
        for work in (messages, state, tail)
    }


def ours_many(count: int, work: Path) -> dict[str, float]:
    where = store(work)
    for n in range(count):
        with where.create(f"session {n}", cwd=f"/work/{n % 20}", agent="bench") as session:
            session.append(MESSAGE)
    other = store(work, fresh=False)
    listed = statistics.median(timed(lambda: other.list(limit=50), 1) for _ in range(9))
    by_cwd = statistics.median(
        timed(lambda: other.list(limit=50, cwd="/work/7"), 1) for _ in range(9)
    )
    assert len(other.list(limit=50)) == 50
    other._index.forget()
    return {"list_s": listed, "cwd_s": by_cwd, "rebuild_s": timed(lambda: other.list(limit=50), 1)}


def timed(work: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        work()
    return time.perf_counter() - start


def store(work: Path, durability: Any = "process", fresh: bool = True) -> Any:
    from _measure import remove

    from runlore.live import SessionStore

    if fresh:
        remove(work / "store")
    return SessionStore(work / "store", durability=durability)


def fresh(path: Path) -> Path:
    for other in path.parent.glob(f"{path.name}*"):
        other.unlink()
    return path


def one_side(side: str, what: str, count: str, work: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = globals()[f"{side}_{what}"](int(count), Path(work))
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        one_side(*sys.argv[2:])
    else:
        main()
