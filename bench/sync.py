"""runlore compared with agentsview and with the limits of the machine: the rows of the speed table
about syncing.

    python bench/sync.py [--corpus DIR] [--only first,nothing,append,start,up,memory,disk,agents]
        [--rounds 3] [--scale 1.0] [--write]

Both sides see the same home directory, run alternately, and the best of `--rounds` counts. The disk
is warm. Without agentsview (see peers.py) our side is measured alone. `--scale 0.1` makes every
generated corpus a tenth as big, to try things out.

`--corpus` is a folder of real Claude Code transcripts in any arrangement (or one with the folders
`claude-code` and `codex` in it). They are copied into a home directory, because agentsview follows
no links and requires `<slug>/<session>.jsonl`. The number of sessions on each side is part of the
result. `agents` needs a corpus with a folder for each agent: see `_agents.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import generate
from _agents import lay_out
from _measure import (
    BENCH,
    Row,
    Run,
    alternate,
    ask,
    note,
    remove,
    run,
    run_watching_memory,
    seconds,
    show,
    size_bytes,
    times,
    warm,
)
from peers import AGENTSVIEW_VERSION, AgentsView, default_scratch, find_agentsview

ROWS = ("first", "nothing", "append", "start", "up", "memory", "disk", "agents")
ABSENT = "—"
NEWEST, NEWEST_WORD = 200, "needleofthenewest"
"""Sessions that are waited for in a first start, and a word that only they have."""
Start = tuple[float, float]
"""Seconds until the page is there, and until the newest sessions are found."""
FINDS = """
import sys
from runlore.store import open_store
sys.exit(not open_store(sys.argv[1], read_only=True).index.postings(sys.argv[2]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure runlore's sync beside agentsview's.")
    parser.add_argument("--corpus", type=Path, help="folder of real transcripts")
    parser.add_argument("--only", default=",".join(ROWS), help=f"which of {', '.join(ROWS)}")
    parser.add_argument(
        "--rounds", type=int, default=3, help="the best of so many counts (default: 3)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of generated corpora (default: 1.0)"
    )
    parser.add_argument(
        "--scratch", type=Path, default=default_scratch(), help="where homes and stores are made"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that has runlore's dependencies"
    )
    parser.add_argument("--agentsview", type=Path, help="its binary, when it is already installed")
    parser.add_argument("--alone", action="store_true", help="leave agentsview out")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(ROWS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    bench = Bench(args)
    for name in wanted:
        note(f"{name}:")
        rows, remarks = getattr(bench, name)()
        if args.scale != 1:
            remarks.append(
                f"Generated corpora at {args.scale} of their size: to try the benchmark, not to"
                " compare with the bar."
            )
        show(f"sync: {name}", rows, remarks, args.write)


class Runlore:
    """runlore over one home directory, its store in a folder of its own."""

    def __init__(self, python: str, home: Path, data: Path, config: str = "") -> None:
        self.python, self.data, self.config = python, data, config
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "RUNLORE_HOME": str(data),
            "PYTHONPATH": str(BENCH.parent / "src"),
        }

    def command(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "runlore", *arguments]

    def run(self, *arguments: str, check: bool = True) -> Run:
        return run(self.command(*arguments), self.env, check)

    def sync(self) -> Run:
        return self.run("sync")

    def first_sync(self) -> Run:
        self.clear()
        return self.sync()

    def clear(self) -> None:
        remove(self.data)
        self.data.mkdir(parents=True)
        if self.config:
            (self.data / "config.toml").write_text(self.config)

    def sessions(self) -> int:
        return len(json.loads(self.run("ls", "--all", "--all-subagents", "--json").output))

    def finds(self, word: str) -> bool:
        """Return True if the index has the word.

        It reads the store directly, which is faster than a search.
        """
        asked = run(
            [self.python, "-c", FINDS, str(self.data / "runlore.db"), word], self.env, check=False
        )
        if "Traceback" in asked.output:
            sys.exit(asked.output)
        return asked.status == 0

    def store_bytes(self) -> int:
        return size_bytes(self.data)


class Bench:
    """One method per group of rows. Each returns its rows and remarks for the reader."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.corpus: Path | None = args.corpus
        self.rounds, self.scale, self.python = args.rounds, args.scale, args.python
        self.scratch: Path = args.scratch
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.binary: Path | None = (
            None if args.alone else args.agentsview or find_agentsview(self.scratch)
        )

    def first(self) -> tuple[list[Row], list[str]]:
        rows, remarks = [], []
        if self.corpus:
            found = self._first(
                self._real_home(self.corpus), "real transcripts", "≥ 1.6 ×", "≥ 2.2 ×"
            )
            rows, remarks = rows + found[0], remarks + found[1]
        found = self._first(
            self._home("text-heavy", 300, 1000, "--text-heavy"),
            "generated, text-heavy",
            "≥ 6 ×",
            "≥ 2.2 ×",
        )
        return rows + found[0], remarks + found[1]

    def _first(self, home: Path, what: str, bar: str, bar_full: str) -> tuple[list[Row], list[str]]:
        ours, theirs = self._sides(home)
        raw = warm(home)
        sides: dict[str, Callable[[], Run]] = {"runlore": ours.first_sync}
        if theirs:
            sides |= {
                "agentsview": theirs.first_sync,
                "agentsview --full": lambda: theirs.first_sync(full=True),
            }
        best = alternate(sides, self.rounds)
        mine = best["runlore"]
        label = f"first sync of {raw / 1e6:.0f} MB {what}"
        rows = []
        for name, wanted in (("agentsview", bar), ("agentsview --full", bar_full)):
            other = best.get(name)
            ratio = times(other.wall_s / mine.wall_s) if other else ABSENT
            against = f"`{'sync' if name == 'agentsview' else 'sync --full'}`"
            rows.append(
                Row(
                    f"{label}, against {against}",
                    wanted,
                    ratio,
                    seconds(mine),
                    seconds(other) if other else ABSENT,
                )
            )
        limit = self._limit(home)
        floor_s = sum(value for key, value in limit.items() if key.endswith("_s"))
        parts = ", ".join(
            f"{key.removesuffix('_s')} {value:.2f} s"
            for key, value in limit.items()
            if key.endswith("_s")
        )
        rows.append(
            Row(
                f"{label}, against the machine's limit",
                ABSENT,
                f"{mine.wall_s / floor_s:.1f} × the limit",
                seconds(mine),
                f"{floor_s:.2f} s",
            )
        )
        remark = (
            f"{what.capitalize()}: the limit of one core is {parts}. runlore has {ours.sessions()}"
            " sessions"
        )
        if theirs:
            remark += (
                f", agentsview {AGENTSVIEW_VERSION} {theirs.sessions()} ({theirs.messages()}"
                " messages, no tool output in its index)"
            )
        return rows, [f"{remark}."]

    def nothing(self) -> tuple[list[Row], list[str]]:
        home = self._home("text-heavy", 300, 1000, "--text-heavy")
        ours, theirs = self._sides(home)
        warm(home)
        ours.first_sync()
        sides: dict[str, Callable[[], Run]] = {"runlore": ours.sync}
        if theirs:
            theirs.first_sync(full=True)
            sides["agentsview"] = theirs.sync
        # The floor: the interpreter with the imports that every sync needs.
        imports = "import msgspec, apsw, zstandard"
        sides["floor"] = lambda: run([self.python, "-c", imports], ours.env)
        best = alternate(sides, max(5, self.rounds))
        mine, other = best["runlore"], best.get("agentsview")
        files = len(list(home.rglob("*.jsonl")))
        measured = times(mine.wall_s / other.wall_s) if other else ABSENT
        row = Row(
            f"sync with nothing new, {files:,} files",
            "≤ 0.6 ×",
            measured,
            seconds(mine),
            seconds(other) if other else ABSENT,
        )
        return [row], [
            f"Of ours, {best['floor'].wall_s * 1000:.0f} ms are the interpreter and its imports"
            f" (`{imports}`)."
        ]

    def append(self) -> tuple[list[Row], list[str]]:
        rows, remarks = [], []
        ours_s: dict[int, float] = {}
        for mb in (1, 100):
            home = self._home(f"one-{mb}", mb, 1, "--one", str(mb))
            ours, theirs = self._sides(home)
            transcript = next(home.glob(".claude/projects/*/*.jsonl"))
            warm(home)
            ours.first_sync()
            sides: dict[str, Callable[[], Run]] = {
                "runlore": lambda ours=ours, path=transcript: self._appended(path, ours)
            }
            if theirs:
                theirs.first_sync(full=True)
                sides["agentsview"] = lambda theirs=theirs, path=transcript: self._appended(
                    path, theirs
                )
            best = alternate(sides, max(5, self.rounds))
            mine, other = best["runlore"], best.get("agentsview")
            ours_s[mb] = mine.cpu_s
            size = transcript.stat().st_size / 1e6
            measured = times(other.wall_s / mine.wall_s) if other else ABSENT
            rows.append(
                Row(
                    f"`sync` of one turn appended to {size:.0f} MB",
                    ABSENT,
                    measured,
                    seconds(mine),
                    seconds(other) if other else ABSENT,
                )
            )
            latency_s = self._watched(ours, transcript)
            rows.append(
                Row(
                    f"the same with `sync --watch`, until searchable, {size:.0f} MB",
                    "≤ 1 s",
                    f"{latency_s:.2f} s",
                    f"{latency_s:.2f} s",
                    ABSENT,
                )
            )
        measured = times(ours_s[100] / ours_s[1])
        rows.append(
            Row(
                "CPU of that `sync`, 100 MB over 1 MB",
                "independent",
                measured,
                f"{ours_s[100]:.2f} s / {ours_s[1]:.2f} s",
                ABSENT,
            )
        )
        return rows, remarks

    def _appended(self, transcript: Path, side: Runlore | AgentsView) -> Run:
        word = generate.append_turn(transcript)
        done = side.sync()
        if isinstance(side, Runlore) and not side.finds(word):
            note(f"  the appended word {word} is not found after sync")
        return done

    def _watched(self, ours: Runlore, transcript: Path) -> float:
        """Return the seconds from an append until the new word is in the store; the best of
        three."""
        watcher = subprocess.Popen(
            ours.command("sync", "--watch"),
            env=ours.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if self._until_found(ours, transcript) == float("inf"):  # the first tells that it is up
                return float("inf")
            return min(self._until_found(ours, transcript) for _ in range(3))
        finally:
            watcher.terminate()
            watcher.wait()

    def _until_found(self, ours: Runlore, transcript: Path, patience_s: float = 20) -> float:
        time.sleep(1)
        changes: list[float] = []
        done = threading.Event()

        def look() -> None:
            before = _state(ours.data)
            while not done.wait(0.005):
                if (now := _state(ours.data)) != before:
                    before = now
                    changes.append(time.perf_counter())

        start = time.perf_counter()
        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            word = generate.append_turn(transcript)
            while time.perf_counter() - start < patience_s:
                if ours.finds(word):
                    return max(changes, default=time.perf_counter()) - start
            note(f"  the appended word {word} is not found after {patience_s:.0f} s of watching")
            return float("inf")
        finally:
            done.set()
            watcher.join()

    def start(self) -> tuple[list[Row], list[str]]:
        home = self._home("many", 60, 10_000)
        ours, _ = self._sides(home)
        ours.first_sync()
        bare: Callable[[], Run] = lambda: run([self.python, "-c", "pass"], ours.env)  # noqa: E731
        asked = {
            "--version": ["--version"],
            "ls": ["ls"],
            "ls --all": ["ls", "--all"],
            "ls --json": ["ls", "--json"],
            "ls --all --json": ["ls", "--all", "--json"],
            "usage": ["usage"],
            "usage --json": ["usage", "--json"],
        }
        sides: dict[str, Callable[[], Run]] = {"python -c pass": bare}
        sides |= {
            name: lambda arguments=arguments: ours.run(*arguments)
            for name, arguments in asked.items()
        }
        best = alternate(sides, max(9, self.rounds))
        floor = best["python -c pass"]
        sessions = ours.sessions()
        rows = []
        for name in asked:
            is_version = name == "--version"
            what = f"`runlore {name}`" + ("" if is_version else f" on {sessions:,} sessions")
            bar = "≤ 4 × bare Python" if is_version else "≤ 150 ms"
            rows.append(
                Row(
                    what,
                    bar,
                    f"{times(best[name].wall_s / floor.wall_s)} bare Python",
                    seconds(best[name]),
                    seconds(floor),
                )
            )
        return rows, ["Theirs is `python -c pass`."]

    def up(self) -> tuple[list[Row], list[str]]:
        """Measure a first `runlore up`: until the page is there, and until a search finds the
        newest sessions."""
        home = self._home("big", 1000, 3300)
        ours, _ = self._sides(home)
        newest = min(NEWEST, _mark_newest(home))
        raw = warm(home)
        starts = [self._first_start(ours, newest) for _ in range(self.rounds)]
        page_s, found_s = (min(times) for times in zip(*starts, strict=True))
        label = f"first `runlore up` on {raw / 1e6:.0f} MB"
        return [
            Row(f"{label}: page open", "≤ 1.5 s", f"{page_s:.2f} s", f"{page_s:.2f} s", ABSENT),
            Row(
                f"{label}: newest {newest} sessions are found",
                "≤ 3 s",
                f"{found_s:.2f} s",
                f"{found_s:.2f} s",
                ABSENT,
            ),
        ], []

    def _first_start(self, ours: Runlore, newest: int, patience_s: float = 300) -> Start:
        """Start with an empty store."""
        ours.clear()
        begin = time.perf_counter()
        server = subprocess.Popen(
            ours.command("up", "--port", "0", "--no-browser", "--json"),
            env=ours.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert server.stdout is not None
        try:
            url = json.loads(server.stdout.readline())["url"]
            with urllib.request.urlopen(url) as answer:  # noqa: S310
                answer.read()
            page_s = time.perf_counter() - begin
            found = 0
            while found < newest and time.perf_counter() - begin < patience_s:
                time.sleep(0.1)
                found = ask(f"{url}/api/v1/sessions?q={NEWEST_WORD}").data["total"]
            found_s = time.perf_counter() - begin if found >= newest else float("inf")
            note(f"  up: page {page_s:.2f} s, newest {newest} sessions {found_s:.2f} s")
            return page_s, found_s
        finally:
            server.terminate()
            server.wait()

    def memory(self) -> tuple[list[Row], list[str]]:
        home = self._home("big", 1000, 3300)
        ours, theirs = self._sides(home)
        raw = warm(home)
        ours.clear()
        mine = run_watching_memory(ours.command("sync"), ours.env)
        other = None
        if theirs:
            theirs.clear()
            other = run_watching_memory(theirs.command("sync", "--full"), theirs.env)
        label = f"peak memory of a first sync of {raw / 1e6:.0f} MB, all processes"
        measured = times(mine.peak_mb / other.peak_mb) if other else ABSENT
        rows = [
            Row(
                label,
                "≤ 400 MB",
                measured,
                f"{mine.peak_mb:.0f} MB",
                f"{other.peak_mb:.0f} MB" if other else ABSENT,
            )
        ]
        return rows, ["Theirs is `sync --full`."] if other else []

    def disk(self) -> tuple[list[Row], list[str]]:
        homes = {"real transcripts": self._real_home(self.corpus)} if self.corpus else {}
        homes["generated"] = self._home("mixed", 300, 1000)
        rows = []
        for what, home in homes.items():
            raw = warm(home)
            _, theirs = self._sides(home)
            if theirs:
                theirs.first_sync(full=True)
            other = f"{theirs.store_bytes() / raw:.2f} × raw" if theirs else ABSENT
            for kept, bar in (("keep", "≤ 0.6 × raw"), ("drop", "≤ 0.4 × raw")):
                ours = Runlore(
                    self.python, home, self.scratch / "runlore-data", f'raw = "{kept}"\n'
                )
                ours.first_sync()
                size = ours.store_bytes()
                label = f'store of {raw / 1e6:.0f} MB {what}, `raw = "{kept}"`'
                rows.append(
                    Row(label, bar, f"{size / raw:.2f} × raw", f"{size / 1e6:.0f} MB", other)
                )
                ours.clear()
        return rows, ["Everything in the store's folder is counted, the search index included."]

    def agents(self) -> tuple[list[Row], list[str]]:
        """Measure a home with the sessions of all agents, and the cost of unused adapters."""
        if not self.corpus:
            return [], ["Not measured: it needs `--corpus`."]
        home = self._real_home(self.corpus)
        lay_out(self.corpus, home)
        ours, theirs = self._sides(home)
        raw = warm(home)
        sides: dict[str, Callable[[], Run]] = {"runlore": ours.first_sync}
        if theirs:
            sides |= {
                "agentsview": theirs.first_sync,
                "agentsview --full": lambda: theirs.first_sync(full=True),
            }
        best = alternate(sides, self.rounds)
        stored = [
            agent for agent in json.loads(ours.run("agents", "--json").output) if agent["sessions"]
        ]
        label = f"first sync of {raw / 1e6:.0f} MB of {len(stored)} agents"
        rows = []
        for name, bar in (("agentsview", "≥ 1.6 ×"), ("agentsview --full", "≥ 2.2 ×")):
            rows.append(
                self._beside(
                    f"{label}, against `{name.replace('agentsview', 'sync')}`",
                    bar,
                    best["runlore"],
                    best.get(name),
                )
            )
        ours.sync()
        again: dict[str, Callable[[], Run]] = {
            "runlore": ours.sync,
            **({"agentsview": theirs.sync} if theirs else {}),
        }
        best = alternate(again, max(5, self.rounds))
        rows.append(
            self._beside(
                "the same home with nothing new", "≥ 2 ×", best["runlore"], best.get("agentsview")
            )
        )
        rows += self._with_one_adapter(ours)
        counts = ", ".join(f"{agent['name']} {agent['sessions']}" for agent in stored)
        remark = f"runlore has sessions of {len(stored)} agents ({counts})"
        return rows, [
            (
                f"{remark}, agentsview {AGENTSVIEW_VERSION} {theirs.sessions()} in all."
                if theirs
                else f"{remark}."
            )
        ]

    def _beside(self, label: str, bar: str, mine: Run, other: Run | None) -> Row:
        measured = times(other.wall_s / mine.wall_s) if other else ABSENT
        return Row(label, bar, measured, seconds(mine), seconds(other) if other else ABSENT)

    def _with_one_adapter(self, ours: Runlore) -> list[Row]:
        """Compare interactive commands with the same program with a single adapter."""
        small = self.scratch / "one-adapter"
        remove(small)
        shutil.copytree(BENCH.parent / "src", small)
        modules = [
            path for path in (small / "runlore/adapters").glob("*.py") if path.name[0] != "_"
        ]
        for path in modules:
            if path.stem != "claude":
                path.unlink()
        alone = Runlore(self.python, Path(ours.env["HOME"]), ours.data)
        alone.env["PYTHONPATH"] = str(small)
        for side in (ours, alone):  # Both have their bytecode compiled.
            side.run("ls")
        rows = []
        for command in ("--version", "ls"):
            sides: dict[str, Callable[[], Run]] = {
                "all": lambda c=command: ours.run(c),
                "one": lambda c=command: alone.run(c),
            }
            best = alternate(sides, max(15, self.rounds))
            measured = times(best["all"].cpu_s / best["one"].cpu_s)
            label = f"CPU of `runlore {command}` with {len(modules)} adapters over 1"
            rows.append(
                Row(
                    label,
                    "no slower",
                    measured,
                    f"{best['all'].cpu_s:.3f} s",
                    f"{best['one'].cpu_s:.3f} s",
                )
            )
        return rows

    def _sides(self, home: Path) -> tuple[Runlore, AgentsView | None]:
        ours = Runlore(self.python, home, self.scratch / "runlore-data")
        return ours, (
            AgentsView(self.binary, home, self.scratch / "agentsview-data") if self.binary else None
        )

    def _home(self, name: str, mb: float, files: int, *options: str) -> Path:
        """Return a generated home directory, made once per size and reused by the next run."""
        if "--one" not in options:
            mb, files = mb * self.scale, max(10, int(files * self.scale))
        elif mb > 1:
            mb = max(1, mb * self.scale)
            options = ("--one", str(mb))
        home = self.scratch / f"home-{name}-{mb:g}-{files}"
        done = home / "complete"
        if not done.exists() or "--one" in options:  # appended to by every run
            remove(home)
            size = [] if "--one" in options else ["--mb", str(mb), "--files", str(files)]
            command = [
                sys.executable,
                str(BENCH / "generate.py"),
                "--out",
                str(home),
                *size,
                *options,
            ]
            note("  generating: " + run(command, dict(os.environ)).output.strip())
            done.touch()
        return home

    def _real_home(self, corpus: Path) -> Path:
        home = self.scratch / "home-real"
        remove(home)
        stage(corpus, home)
        return home

    def _limit(self, home: Path) -> dict[str, float]:
        tries = [
            json.loads(
                run([self.python, str(BENCH / "_limit.py"), str(home)], dict(os.environ)).output
            )
            for _ in range(self.rounds)
        ]
        return {key: min(one[key] for one in tries) for key in tries[0]}


def _mark_newest(home: Path) -> int:
    """Append a turn with a word of its own to the newest sessions of a generated home, once, and
    return how many there are."""
    sessions = sorted(
        home.glob(".claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_mtime_ns
    )
    done = home / "newest-marked"
    for path in sessions[-NEWEST:] if not done.exists() else ():
        generate.append_turn(path, NEWEST_WORD)
        time.sleep(0.002)  # They keep their order.
    done.touch()
    return len(sessions)


def stage(corpus: Path, home: Path) -> None:
    """Copy transcripts into a home directory, where their agents would have put them."""
    claude = corpus / "claude-code" if (corpus / "claude-code").is_dir() else corpus
    for path in sorted(claude.rglob("*")):
        if path.suffix in (".jsonl", ".txt", ".json") and path.is_file():
            _stage_claude(path, claude, home / ".claude" / "projects")
    for path in sorted((corpus / "codex").rglob("*.jsonl")):
        _stage_codex(path, home / ".codex" / "sessions")


def _stage_claude(path: Path, corpus: Path, projects: Path) -> None:
    """`<slug>/<name>`, or `<slug>/<session>/subagents/…`: the slug is the folder of the session's
    transcript, flattened."""
    parts = path.relative_to(corpus).parts
    beside = next(
        (at for at, part in enumerate(parts) if part in ("subagents", "tool-results")), None
    )
    if beside is None and path.suffix != ".jsonl":
        return
    session = len(parts) - 1 if beside is None else beside - 1
    slug = re.sub(r"[^A-Za-z0-9]", "-", "/" + "/".join(parts[:session]))[-200:]
    _copy(path, projects.joinpath(slug, *parts[session:]))


def _stage_codex(path: Path, sessions: Path) -> None:
    """Copy as `YYYY/MM/DD/rollout-<time>-<id>.jsonl`, from the first record; others keep their
    name."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        first = json.loads(line)
        meta = first.get("payload", first)
        stamp, native_id = re.sub(r"\.\d+|Z", "", meta["timestamp"]), meta["id"]
    except (ValueError, KeyError, TypeError, AttributeError):
        _copy(path, sessions / "2026" / "01" / "01" / f"{path.parent.name}-{path.name}")
        return
    _copy(
        path,
        sessions
        / stamp[:4]
        / stamp[5:7]
        / stamp[8:10]
        / f"rollout-{stamp.replace(':', '-')}-{native_id}.jsonl",
    )


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    while target.exists():  # two states of one session: keep both apart
        target = target.with_name(f"{target.stem}-{target.suffix}")
    shutil.copyfile(source, target)


def _state(folder: Path) -> list[tuple[str, int, int]]:
    found = []
    for entry in os.scandir(folder):
        try:
            stat = entry.stat()
        except FileNotFoundError:
            continue
        found.append((entry.name, stat.st_size, stat.st_mtime_ns))
    return found


if __name__ == "__main__":
    main()
