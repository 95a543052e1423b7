"""Search at a million events: the time of an answer, snippets included, compared with agentsview on
the same transcripts.

    python bench/search.py [--only queries,cold,regex,forget,known] [--mb 3180] [--corpus DIR]
        [--agentsview BIN] [--write]

The transcripts are generated once and stay in `--scratch` with their store (5 GB, and as much again
for agentsview's own). The queries are generated from the store's vocabulary with a seed, and
printed with their times. Each is timed in `--rounds` rounds in one process, and its best time
counts; the first round, with empty caches, is in the remarks. `--corpus` is the folder
`labelled/vorflux` of known items, see _known_item.py.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import _known_item
from _measure import BENCH, Answer, Row, ask, note, remove, run, show, times
from peers import AGENTSVIEW_VERSION, AgentsView, default_scratch, find_agentsview

sys.path.insert(0, str(BENCH.parent / "src"))

from runlore.search import regex, search
from runlore.store import Filter, open_store
from runlore.store.sqlite.store import SqliteStore

PARTS = ("queries", "cold", "regex", "forget", "known")
ABSENT = "—"
PATTERNS = {
    "a literal": "zzqxnever",
    "capitals too": "(?i)zzqxnever",
    "a literal beginning": r"needle[0-9a-f]+ zzqx",
    "no literal": r"\d{9}-[a-z]+zz",
    "alternatives": "(timeoutq|refusedq|deniedq)",
    "a class first": r"[a-z]+Errorq\b",
}


KINDS = {
    "picky": "with a filter of events or an exclusion, proven in the text",
    "unrelated": "of four words that no session has all of",
    "commonest": "of one of the commonest words",
}


class Asked(NamedTuple):
    kind: str
    text: str


class Timed(NamedTuple):
    asked: Asked
    first_ms: float
    best_ms: float
    cpu_ms: float
    hits: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure runlore's search.")
    parser.add_argument("--only", default=",".join(PARTS), help=f"which of {', '.join(PARTS)}")
    parser.add_argument(
        "--mb",
        type=float,
        default=3180,
        help="generated transcripts, in 10^6 bytes; 3180 are a million events",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=default_scratch())
    parser.add_argument("--corpus", type=Path, help="labelled/vorflux, for `known`")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that has runlore's dependencies"
    )
    parser.add_argument("--agentsview", type=Path, help="its binary, when it is already installed")
    parser.add_argument("--alone", action="store_true", help="leave agentsview out")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    bench = Bench(args)
    for name in wanted:
        note(f"{name}:")
        rows, remarks = getattr(bench, name)()
        remarks.append(
            f"Load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs,"
            " this benchmark included."
        )
        if args.mb != 3180:
            remarks.append(
                f"With {args.mb:g} MB: to try the benchmark, not to compare with the bar."
            )
        show(f"search: {name}", rows, remarks, args.write)


class Bench:
    """One method per group of rows. Each returns its rows and remarks for the reader."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.python, self.rounds = args, args.python, args.rounds
        self.scratch: Path = args.scratch
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.home = self.scratch / f"search-home-{args.mb:g}"
        self.data = self.scratch / f"search-data-{args.mb:g}"
        self.path = self.data / "runlore.db"
        self.env = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(BENCH.parent / "src"),
            "HOME": str(self.home),
            "RUNLORE_HOME": str(self.data),
        }

    # ── queries ───────────────────────────────────────────────────────────────────────────────────
    def queries(self) -> tuple[list[Row], list[str]]:
        store = self._store()
        asked = make_queries(store)
        timed = self._time(store, asked)
        print("   best ms      CPU hits kind             query")
        for one in timed:
            print(
                f"{one.best_ms:10.1f} {one.cpu_ms:8.1f} {one.hits:4} {one.asked.kind:16}"
                f" {one.asked.text}"
            )
        best = [one.best_ms for one in timed]
        stats = store.overview.stats()
        label = (
            f"{len(timed)} queries over {stats['events']:,} events of {stats['sessions']:,}"
            " sessions"
        )
        cpu = [one.cpu_ms for one in timed]
        rows = [
            Row(
                f"{label}: p50 / p95 / longest",
                "≤ 25 / ≤ 80 / ≤ 300 ms",
                f"CPU {spread(cpu)}",
                spread(best),
                ABSENT,
            )
        ]
        for kind in dict.fromkeys(one.asked.kind for one in timed):
            some = [one.best_ms for one in timed if one.asked.kind == kind]
            rows.append(
                Row(
                    f"of these {len(some)} {KINDS.get(kind, kind)}",
                    ABSENT,
                    ABSENT,
                    spread(some),
                    ABSENT,
                )
            )
        first = [one.first_ms for one in timed]
        longest = max(timed, key=lambda one: one.best_ms)
        remarks = [
            (
                f"In the first round {spread(first)}. The longest is `{longest.asked.text}`."
                f" {sum(not one.hits for one in timed)} queries found nothing. All of them are"
                " printed when this runs."
            ),
        ]
        rows.append(self._questions(store))
        store.close()
        rows += self._beside(timed)
        return rows, remarks

    def _questions(self, store: SqliteStore) -> Row:
        """Time questions in plain words, which read a few hundred segments."""
        timed = self._time(store, make_questions(store))
        best, cpu = [one.best_ms for one in timed], [one.cpu_ms for one in timed]
        label = f"{len(timed)} questions in plain words: p50 / p95 / longest"
        return Row(label, ABSENT, f"CPU {spread(cpu)}", spread(best), ABSENT)

    def _time(self, store: SqliteStore, asked: list[Asked]) -> list[Timed]:
        rounds: list[list[tuple[float, float, int]]] = []
        for _ in range(self.rounds):
            done = []
            for one in asked:
                cpu, wall = time.process_time(), time.perf_counter()
                answer = search(store, one.text, limit=20)
                done.append(
                    (
                        (time.perf_counter() - wall) * 1e3,
                        (time.process_time() - cpu) * 1e3,
                        len(answer.hits),
                    )
                )
            rounds.append(done)
        return [
            Timed(one, tries[0][0], min(t[0] for t in tries), min(t[1] for t in tries), tries[0][2])
            for one, tries in zip(asked, zip(*rounds, strict=True), strict=True)
        ]

    def _beside(self, timed: list[Timed]) -> list[Row]:
        """Query agentsview on the same transcripts over HTTP, as its own page does."""
        binary = None if self.args.alone else self.args.agentsview or find_agentsview(self.scratch)
        if binary is None:
            return []
        plain = [
            one
            for one in timed
            if one.asked.kind.split()[-1] in ("rare", "1%", "common", "commonest")
        ]
        some = random.Random(5).sample(plain, min(len(plain), 90))
        rows = []
        with agentsview(
            binary, self.home, self.scratch / f"search-agentsview-{self.args.mb:g}"
        ) as answered:
            paths: dict[str, Callable[[str], str]] = {
                "/search": lambda text: f"/api/v1/search?q={urllib.parse.quote(text)}&limit=20",
                "/search/content": lambda text: (
                    f"/api/v1/search/content?pattern={urllib.parse.quote(text)}&mode=substring&"
                    f"limit=20"
                ),
            }
            for name, path in paths.items():
                theirs = [min(answered(path(one.asked.text)).ms for _ in range(2)) for one in some]
                mine = [one.best_ms for one in some]
                rows.append(
                    Row(
                        f"{len(some)} of them, against agentsview's `{name}`: p50 / p95 / longest",
                        ABSENT,
                        " / ".join(
                            times(part(theirs) / part(mine))
                            for part in (lambda v: cut(v, 50), lambda v: cut(v, 95), max)
                        ),
                        spread(mine),
                        spread(theirs),
                    )
                )
        return rows

    # ── one process each ──────────────────────────────────────────────────────────────────────────
    def cold(self) -> tuple[list[Row], list[str]]:
        store = self._store()
        asked = random.Random(3).sample(
            [one.text for one in make_queries(store) if "picky" not in one.kind], 20
        )
        store.close()
        runs = []
        for text in asked:
            command = [self.python, "-m", "runlore", "search", "--json", "--", *text.split()]
            runs.append(
                min(
                    (run(command, self.env, check=False) for _ in range(self.rounds)),
                    key=lambda one: one.wall_s,
                )
            )
        bare = min(run([self.python, "-c", "pass"], self.env).wall_s for _ in range(5)) * 1e3
        wall = [one.wall_s * 1e3 for one in runs]
        cpu = [one.cpu_s * 1e3 for one in runs]
        row = Row(
            f"`runlore search` from a new process, {len(runs)} queries: p50 / longest",
            "≤ 250 ms",
            f"CPU {cut(cpu, 50):.0f} / {max(cpu):.0f} ms",
            f"{cut(wall, 50):.0f} / {max(wall):.0f} ms",
            f"{bare:.0f} ms (`python -c pass`)",
        )
        return [row], []

    # ── regular expressions ───────────────────────────────────────────────────────────────────────
    def regex(self) -> tuple[list[Row], list[str]]:
        store = self._store()
        size = store.overview.stats()["body_bytes"] / 1e6
        rows = []
        for name, pattern in PATTERNS.items():
            tries = []
            for _ in range(self.rounds):
                cpu, wall = time.process_time(), time.perf_counter()
                regex(store, pattern, limit=20)
                tries.append((time.perf_counter() - wall, time.process_time() - cpu))
            wall_s, cpu_s = min(tries)
            what = f"`--regex '{pattern}'` ({name}) over {size:,.0f} MB of text".replace("|", "\\|")
            rows.append(
                Row(
                    what,
                    "≥ 300 MB/s",
                    f"{size / wall_s:.0f} MB/s",
                    f"{wall_s:.2f} s ({cpu_s:.2f} CPU)",
                    ABSENT,
                )
            )
        store.close()
        return rows, []

    # ── deleting ──────────────────────────────────────────────────────────────────────────────────
    def forget(self) -> tuple[list[Row], list[str]]:
        self._store().close()
        copy = self.scratch / "search-forget.db"
        shutil.copyfile(self.path, copy)
        store = open_store(str(copy))
        assert isinstance(store, SqliteStore)
        uids = sorted(line.uid for line in store.sessions.select(Filter(parents_only=False)))
        gone = random.Random(1).sample(uids, len(uids) * 9 // 10)
        before = store.overview.stats()
        cpu, wall = time.process_time(), time.perf_counter()
        store.retention.forget(gone, datetime.now(UTC))
        wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        after = store.overview.stats()
        word = search(store, "error").total
        store.close()
        for name in (copy, Path(f"{copy}-wal"), Path(f"{copy}-shm")):
            name.unlink(missing_ok=True)
        sizes = f"{before['file_bytes'] / 1e6:.0f} → {after['file_bytes'] / 1e6:.0f} MB"
        row = Row(
            f"deleting {len(gone):,} of {len(uids):,} sessions"
            f" ({before['events'] - after['events']:,} events)",
            "≤ 15 s, no growth",
            sizes,
            f"{wall_s:.1f} s ({cpu_s:.1f} CPU)",
            ABSENT,
        )
        return [row], [f"A common word is then found in {word:,} sessions."]

    # ── known items ───────────────────────────────────────────────────────────────────────────────
    def known(self) -> tuple[list[Row], list[str]]:
        if not self.args.corpus:
            note("  --corpus names no folder, so there is nothing to look for")
            return [], []
        home = self.scratch / "search-known"
        remove(home)
        titles = _known_item.stage(self.args.corpus / "trajs", home)
        env = self.env | {"HOME": str(home), "RUNLORE_HOME": str(home / "data")}
        run([self.python, "-m", "runlore", "sync"], env)
        store = open_store(str(home / "data" / "runlore.db"), read_only=True)
        mean, ranks = _known_item.mean_reciprocal_rank(
            titles, lambda text: [hit.session.uid for hit in search(store, text, limit=10).hits]
        )
        store.close()
        first = sum(rank == 1 for rank in ranks.values())
        row = Row(
            f"{len(ranks)} issues, found by their titles: mean reciprocal rank",
            "≥ 0.95",
            f"{mean:.3f}",
            f"{first} first",
            ABSENT,
        )
        return [row], ["The task itself is not in the store, only what the agent said and did."]

    # ── the store ─────────────────────────────────────────────────────────────────────────────────
    def _store(self) -> SqliteStore:
        done = self.data / "complete"
        if not done.exists():
            remove(self.home)
            remove(self.data)
            files = max(10, round(self.args.mb * 3.3))
            size = ["--mb", str(self.args.mb), "--files", str(files)]
            command = [sys.executable, str(BENCH / "generate.py"), "--out", str(self.home), *size]
            note("  generating: " + run(command, dict(os.environ)).output.strip())
            note(
                "  "
                + run([self.python, "-m", "runlore", "sync"], self.env)
                .output.strip()
                .replace("\n", "; ")
            )
            done.touch()
        return SqliteStore(str(self.path), read_only=True)


# ── the queries ───────────────────────────────────────────────────────────────────────────────────
WORD = re.compile(r"[a-z][a-z0-9]{2,}")


def make_queries(store: SqliteStore, seed: int = 1) -> list[Asked]:
    """Return queries of words that occur together, by the number of events with the rarest of them.

    The same store gives the same queries.
    """
    rng = random.Random(seed)
    counts = vocabulary(store)
    events = store.overview.stats()["events"]
    classes = {
        "rare": lambda word: 0 < counts.get(word, 0) <= 20,
        "up to 1%": lambda word: 20 < counts.get(word, 0) <= events // 100,
        "common": lambda word: counts.get(word, 0) > events // 100,
    }
    segments = [id_ for (id_,) in store.db.execute("select id from segments order by id")]
    asked: list[Asked] = []
    for kind, belongs in classes.items():
        for size in (1, 2, 3, 4):
            while sum(one.kind == f"{size} {kind}" for one in asked) < 30:
                words = sorted(
                    {word for word in _words(store, rng.choice(segments)) if belongs(word)}
                )
                if len(words) >= size:
                    asked.append(Asked(f"{size} {kind}", " ".join(rng.sample(words, size))))
    bodies = [_words(store, rng.choice(segments)) for _ in range(60)]
    for words in bodies[:40]:
        at = rng.randrange(max(1, len(words) - 4))
        asked.append(
            Asked("phrases", '"' + " ".join(words[at : at + rng.choice([2, 2, 3, 4])]) + '"')
        )
    asked += [
        Asked("prefixes", f"{rng.choice(words)[: rng.choice([3, 4, 5])]}*") for words in bodies[40:]
    ]
    filters = ["tool:Bash", "tool:Edit", "is:error", "kind:user_msg", "kind:test_run"]
    asked += [Asked("picky", f"{rng.choice(filters)} {rng.choice(words)}") for words in bodies[:20]]
    asked += [
        Asked("picky", f"{rng.choice(words)} -{rng.choice(words)}") for words in bodies[20:30]
    ]
    lonely = sorted(word for word in counts if classes["up to 1%"](word) and WORD.fullmatch(word))
    asked += [Asked("unrelated", " ".join(rng.sample(lonely, 4))) for _ in range(10)]
    common = sorted(
        (word for word in counts if not word.startswith("zq")), key=lambda word: -counts[word]
    )
    return asked + [Asked("commonest", word) for word in common[:20]]


def make_questions(store: SqliteStore, seed: int = 2) -> list[Asked]:
    """Return questions whose words occur together, rare and common ones."""
    rng = random.Random(seed)
    segments = [id_ for (id_,) in store.db.execute("select id from segments order by id")]
    forms = ("Where did we {} the {} of {} and {}?", "Why does {} {} when {} is {}?")
    bodies = [sorted(set(_words(store, rng.choice(segments)))) for _ in range(60)]
    return [
        Asked("questions", rng.choice(forms).format(*rng.choices(words, k=4))) for words in bodies
    ]


def vocabulary(store: SqliteStore) -> dict[str, int]:
    """Return how often each word occurs, which is about the number of its events."""
    import apsw

    db = apsw.Connection(store.url)
    db.execute("create virtual table temp.words using fts5vocab('main', 'search', 'row')")
    found = dict(db.execute("select term, cnt from temp.words").fetchall())
    db.close()
    return found


def _words(store: SqliteStore, segment: int) -> list[str]:
    data = store.index.segment(segment)
    assert data is not None
    text, events = data
    event = max(events, key=lambda event: event.length)
    return WORD.findall(
        text[event.offset : event.offset + event.length].decode("utf-8", "replace").lower()
    ) or ["error"]


def spread(values: list[float]) -> str:
    return f"{cut(values, 50):.1f} / {cut(values, 95):.1f} / {max(values):.0f} ms"


def cut(values: list[float], percent: int) -> float:
    return (
        statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
        if len(values) > 1
        else values[0]
    )


# ── agentsview ────────────────────────────────────────────────────────────────────────────────────
@contextmanager
def agentsview(binary: Path, home: Path, data: Path) -> Iterator[Callable[[str], Answer]]:
    """Run its server over the same home, synced but not watched, and yield a function that
    requests a path."""
    view = AgentsView(binary, home, data)
    if not (data / "complete").exists():
        done = view.first_sync(full=True)
        note(
            f"  agentsview {AGENTSVIEW_VERSION}: {done.wall_s:.0f} s to sync, store"
            f" {view.store_bytes() / 1e6:.0f} MB"
        )
        (data / "complete").touch()
    port = 18_080 + os.getpid() % 1000
    env = {name: value for name, value in view.env.items() if name != "AGENTSVIEW_NO_DAEMON"}
    command = view.command(
        "serve",
        "--no-browser",
        "--no-update-check",
        "--no-sync",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    )
    server = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(lambda: ask(f"{url}/api/v1/search?q=error&limit=1"))
        yield lambda path: ask(url + path)
    finally:
        server.terminate()
        server.wait()


def _wait_for(ask: Callable[[], Any], patience_s: float = 600) -> None:
    until = time.monotonic() + patience_s
    while True:
        try:
            ask()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(1)


if __name__ == "__main__":
    main()
