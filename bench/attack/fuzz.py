"""Fuzz of every adapter, from its fixtures and a seed: bytes, lines, JSON values, rows, order, and
files that are cut.

An adapter raises nothing but ReadError, ends in time, needs little memory, and keeps what is
intact: all records but the damaged one, and all files that were not touched.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from bench.attack import Result, not_possible
from bench.attack._trials import (
    FIXTURES,
    MAX_WAIT_S,
    Failed,
    Score,
    can_fork,
    fork,
    make_config,
    require,
    wait,
)
from runlore.errors import ReadError
from runlore.store import Filter, open_store
from runlore.sync import pipeline
from runlore.testing import Fixture, check_breakage, check_noise, iter_fixtures

NOISE, BREAKAGES, FILES, SYNCS = 200, 100, 40, 3
"""Trials for each fixture at scale 1: damaged records, wrong values, damaged files, whole syncs."""
FEW = 0.05
"""Trials for each fixture below which not every agent has its turn."""
MAX_TRIAL_S = 10
MAX_MORE_BYTES = 1 << 30
"""Memory that the trials of one fixture may take beyond what the process has."""

WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 63, 10**400, 1e300, -0.0, "", "x", "\ud800", "\0", "x" * 100_000,
    "9999-99-99T99:99:99Z", [], ["x"], [[[[]]]], {}, {"a": {"b": 1}},
)  # fmt: skip


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Damage the fixtures of every adapter in many ways, and read them."""
    if not can_fork():
        yield not_possible("fuzz of every adapter", "this system cannot fork")
        return
    cases: dict[str, tuple[int, Callable[[Fixture, int, Path], None]]] = {
        "bytes damaged in a record": (NOISE, fuzz_record_bytes),
        "a value of another type in a record": (BREAKAGES, fuzz_record_values),
        "bytes, lines, values or rows damaged in a file": (FILES, fuzz_file),
        "a whole sync of damaged files": (SYNCS, fuzz_sync),
    }
    fixtures = list(iter_fixtures(FIXTURES))
    for case, (whole, work) in cases.items():
        score, peak = Score(case), 0
        for fixture, count in share_out(fixtures, whole * scale):
            peak = max(peak, run_fixture(score, fixture, count, work, scratch))
        agents = len({fixture.agent for fixture in fixtures})
        yield score.result(f"{agents} agents, {len(fixtures)} fixtures; at most {peak >> 20} MB")


def share_out(fixtures: list[Fixture], each: float) -> Iterator[tuple[Fixture, int]]:
    """Yield fixtures with their number of trials. Below one trial each, some get none, but every
    agent has its turn unless there are very few."""
    if each >= 1:
        yield from ((fixture, round(each)) for fixture in fixtures)
        return
    rng = random.Random("fixtures")
    first = {fixture.agent: fixture for fixture in rng.sample(fixtures, len(fixtures))}
    for fixture in fixtures:
        has_turn = first[fixture.agent] is fixture and each >= FEW
        if has_turn or rng.random() < max(each, FEW):
            yield fixture, 1


def run_fixture(
    score: Score,
    fixture: Fixture,
    count: int,
    work: Callable[[Fixture, int, Path], None],
    scratch: Path,
) -> int:
    """Do the trials of a fixture in a process with limits, and return its peak of memory."""
    report = scratch / "report"
    report.write_bytes(b"")

    def trials() -> None:
        limit, hard = memory_bytes() + MAX_MORE_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = limit if hard < 0 else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.signal(signal.SIGPROF, stop)
        with report.open("ab", buffering=0) as out:
            for n in range(count):
                out.write(msgspec.json.encode([n, "it does not end, or ends the process"]) + b"\n")
                out.write(msgspec.json.encode([n, one_trial(fixture, n, work, scratch)]) + b"\n")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            out.write(msgspec.json.encode([-1, str(peak)]) + b"\n")

    with suppress(Failed):
        wait(fork(trials), MAX_WAIT_S + MAX_TRIAL_S * count)
    outcomes = dict(map(msgspec.json.decode, report.read_bytes().splitlines()))
    for n in range(count):
        with score.trial(f"{fixture.agent}/{fixture.case} {n}"):
            problem = outcomes.get(n, "the process ended before it")
            require(not problem, problem)
        if n not in outcomes:
            break
    return int(outcomes.get(-1, 0))


def one_trial(
    fixture: Fixture, n: int, work: Callable[[Fixture, int, Path], None], scratch: Path
) -> str:
    """Return what did not hold in one trial; empty if all did."""
    signal.setitimer(signal.ITIMER_PROF, MAX_TRIAL_S)  # Of CPU: a busy machine is no finding.
    try:
        work(fixture, n, scratch)
    # Whatever an adapter raises is the finding.
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def stop(*_: object) -> None:
    raise Failed(f"no end after {MAX_TRIAL_S} s of CPU")


def memory_bytes() -> int:
    """Return the size of this process in memory, as far as it is known."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 1 << 32


# ── records ───────────────────────────────────────────────────────────────────────────────────────


def fuzz_record_bytes(fixture: Fixture, n: int, _: Path) -> None:
    rng = random.Random(f"{fixture.agent}/{fixture.case}/bytes/{n}")
    check_noise(fixture.adapter, fixture.root, rng, 1)


def fuzz_record_values(fixture: Fixture, n: int, _: Path) -> None:
    rng = random.Random(f"{fixture.agent}/{fixture.case}/values/{n}")
    check_breakage(fixture.adapter, fixture.root, rng, 1)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def fuzz_file(fixture: Fixture, n: int, scratch: Path) -> None:
    """Damage one file of a fixture, and read all of them."""
    rng = random.Random(f"{fixture.agent}/{fixture.case}/file/{n}")
    root = copy_fixture(fixture, scratch)
    before = read_all(fixture, root)
    damaged = damage_one_file(root, rng)
    after = read_all(fixture, root)
    for path, texts in before.items():
        if damaged is not None and not may_belong(damaged, Path(path)):
            lost = [text for text in texts if text not in after.get(path, ())]
            require(not lost, f"{damaged.name} is damaged, and {path} loses {len(lost)} events")


def may_belong(file: Path, source: Path) -> bool:
    """Return True if a file may be a part of a source: it lies beside, above or below it, or in a
    folder of its name, or both are of a session that is a tree of documents."""
    return (
        source.is_relative_to(file.parent)
        or file.is_relative_to(source.parent)
        or file.is_relative_to(source.with_suffix(""))
        or source.suffix == file.suffix == ".json"
    )


def fuzz_sync(fixture: Fixture, n: int, scratch: Path) -> None:
    """Damage some files of a fixture, and sync it twice."""
    rng = random.Random(f"{fixture.agent}/{fixture.case}/sync/{n}")
    root = copy_fixture(fixture, scratch)
    for _ in range(rng.randint(1, 3)):
        damage_one_file(root, rng)
    shutil.rmtree(scratch / "store", ignore_errors=True)
    config = make_config(scratch / "store")
    with closing(open_store(config.store)) as store:
        for _ in range(2):
            pipeline.sync(store, config, agents=[fixture.agent], roots=[str(root)], workers=0)
        for line in store.sessions.select(Filter(parents_only=False)):
            store.sessions.bodies(line.uid)


def copy_fixture(fixture: Fixture, scratch: Path) -> Path:
    root = scratch / "root"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(fixture.root, root)
    return root


def read_all(fixture: Fixture, root: Path) -> dict[str, list[str]]:
    """Return the texts of each source."""
    adapter, texts = fixture.adapter, {}
    for source in adapter.discover(root):
        with suppress(ReadError):
            found = adapter.normalize(source, adapter.read(source, None), None)
            texts[source.path] = found.bodies
    return texts


def damage_one_file(root: Path, rng: random.Random) -> Path | None:
    """Damage a file somehow, and return it."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        return None
    file = rng.choice(files)
    if file.read_bytes()[:16] == b"SQLite format 3\0" and rng.random() < 0.7:
        damage_row(file, rng)
    else:
        way = rng.choice((damage_bytes, damage_bytes, damage_lines, damage_value, damage_value))
        file.write_bytes(way(file.read_bytes(), rng))
    return file


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, insert, remove, repeat or overwrite bytes, or cut the end."""
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.choice((1, 4, 100, 5000)))
    way = rng.randrange(6)
    if way == 0:
        return data[:at]
    if way == 1:
        return data[:at] + data[end:]
    if way == 2:
        return data[:end] + data[at:]
    if way == 3:
        return data[:at] + bytes(end - at) + data[end:]
    if way == 4:
        return data[:at] + rng.randbytes(end - at) + data[at:]
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def damage_lines(data: bytes, rng: random.Random) -> bytes:
    """Repeat, remove, move or join lines."""
    lines = data.splitlines(keepends=True)
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        lines.insert(to, lines[at])
    elif way == 1:
        del lines[at]
    elif way == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif way == 3:
        lines[at] = lines[at].rstrip(b"\r\n")
    else:
        rng.shuffle(lines)
    return b"".join(lines)


def damage_value(data: bytes, rng: random.Random) -> bytes:
    """Put another value in the place of one in a JSON document, or in a line of JSON; bytes if the
    file has no JSON."""
    try:
        return with_wrong_value(data, rng)
    except (ValueError, RecursionError):
        lines = data.splitlines(keepends=True)
        at = rng.randrange(len(lines))
        try:
            lines[at] = with_wrong_value(lines[at], rng) + b"\n"
        except (ValueError, RecursionError):
            return damage_bytes(data, rng)
        return b"".join(lines)


def with_wrong_value(data: bytes, rng: random.Random) -> bytes:
    whole: Any = [json.loads(data)]
    holder, key = whole, 0
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.9:
        holder = holder[key]
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if rng.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = rng.choice(WRONG)
    return json.dumps(whole[0]).encode()


def damage_row(file: Path, rng: random.Random) -> None:
    """Put another value into a row of a database, or remove the row."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(file)) as db:
        tables = [
            name
            for (name,) in db.execute("select name from sqlite_master where type = 'table'")
            if not name.startswith("sqlite_")
        ]
        table = rng.choice(tables)
        columns = [row[1] for row in db.execute(f'select * from pragma_table_info("{table}")')]
        rows = [row for (row,) in db.execute(f'select rowid from "{table}"')]
        if rows and rng.random() < 0.2:
            db.execute(f'delete from "{table}" where rowid = ?', (rng.choice(rows),))
        elif rows:
            value = rng.choice((None, -1, 1 << 62, 1e300, "", "x", b"\xff\0", "{}", "[[]]", "{"))
            column = rng.choice(columns)
            db.execute(
                f'update "{table}" set "{column}" = ? where rowid = ?', (value, rng.choice(rows))
            )
        db.commit()
