"""Losses of power, replayed: the writes and syncs of a process are recorded, and at random moments
a disk is made that has what was synced and any part of the rest.

A live session with the durability `power` has everything that was acknowledged. A store promises
less: it is one of its own past states, and the next sync brings it to where it would be.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from bench.attack import Result, not_possible
from bench.attack._disk import PythonFiles, Recorder, SqliteFiles, Step, lose_power
from bench.attack._transcripts import make_home
from bench.attack._trials import (
    Score,
    can_fork,
    find_difference,
    find_problems,
    make_config,
    read_content,
    require,
    run_whole,
    times,
)
from bench.attack.kills import sync_in_parts
from runlore.live import LiveSession, SessionStore
from runlore.store import open_store
from runlore.store.sqlite import database

LIVE_REPLAYS, SYNC_REPLAYS = 1000, 120
LONG = "a line of output\n" * 5000
"""Longer than what stays in the log: it goes to a file of its own."""


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Record a live session and a sync, and lose power at random moments of them."""
    if not can_fork():
        yield not_possible("losses of power, replayed", "this system cannot fork")
        return
    yield replay_live(times(LIVE_REPLAYS, scale), scratch / "live")
    yield replay_sync(times(SYNC_REPLAYS, scale), scratch / "sync")


def record(root: Path, file: Path, work: Callable[[Recorder], object]) -> list[Step]:
    """Do the work in a process whose writes below `root` are recorded, and return its steps."""

    def recorded() -> None:
        recorder = Recorder(root)
        PythonFiles(recorder)
        _system = SqliteFiles(recorder)
        work(recorder)
        file.write_bytes(msgspec.msgpack.encode(recorder.steps))

    run_whole(recorded)
    steps: list[Step] = [tuple(step) for step in msgspec.msgpack.decode(file.read_bytes())]
    return steps


def replays(steps: list[Step], count: int, rng: random.Random, target: Path) -> Iterator[int]:
    """Make a disk as a loss of power could leave it at each of so many moments; yield the moment,
    as the number of steps before it."""
    first = next(n for n, step in enumerate(steps) if step[0] == "sync_folder") + 1
    for _ in range(count):
        moment = rng.randint(first, len(steps))
        shutil.rmtree(target, ignore_errors=True)
        lose_power(steps[:moment], rng, target)
        yield moment


# ── a live session ────────────────────────────────────────────────────────────────────────────────


def replay_live(count: int, scratch: Path) -> Result:
    """Lose power while a live session is written with the durability `power`."""
    score, rng = Score("power lost while a live session is written"), random.Random("live")
    scratch.mkdir(parents=True)
    (scratch / "root").mkdir()
    steps = record(scratch / "root", scratch / "steps", lambda to: use_live(scratch / "root", to))
    target, acknowledged = scratch / "after", 0
    for moment in replays(steps, count, rng, target):
        with score.trial(f"{score.tried} after step {moment}"):
            safe = [step for step in steps[:moment] if step[0] == "acknowledge"]
            acknowledged += len(safe)
            check_live(SessionStore(target / "live", durability="power"), safe)
    return score.result(f"{len(steps)} steps, {acknowledged:,} acknowledged records looked for")


def use_live(root: Path, recorder: Recorder) -> None:
    """Write live sessions in all the ways there are, and note each record that was acknowledged."""
    store, rng = SessionStore(root / "live", durability="power"), random.Random("records")
    session = store.create("a title", id="one")
    acknowledge(recorder, session, session.find(0))
    for n in range(120):
        chosen = rng.randrange(12)
        if chosen == 0:
            session = reopen_torn(store, session)
        elif chosen == 1:
            copy = session.fork(id=f"fork{n}")
            for message in copy.records():
                acknowledge(recorder, copy, message)
            copy.close()
        else:
            for message in write_some(session, chosen, n):
                acknowledge(recorder, session, message)
    session.close()


def write_some(session: LiveSession, chosen: int, n: int) -> list[Any]:
    """Append something, and return its records."""
    if chosen == 2:
        return session.append_many([{"role": "user", "content": f"{n} {k}"} for k in range(3)])
    if chosen == 3:
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": f"{n} {LONG}"}
        return [session.append({"role": "user", "content": [result]})]
    if chosen == 4:
        return [session.tool_started(f"c{n}", "Bash"), session.tool_finished(f"c{n}", f"{n}{LONG}")]
    if chosen == 5:
        return [session.rewind(to=session.last_seq // 2)]
    if chosen == 6:
        return [session.append({"role": "user", "content": "x"}), session.compact(f"summary {n}")]
    if chosen == 7:
        return [session.set_title(f"title {n}")]
    return [session.append({"role": "assistant", "content": f"message {n} " + "€" * 300})]


def reopen_torn(store: SessionStore, session: LiveSession) -> LiveSession:
    """Leave half a line at the end, as a killed writer does, and open the session again."""
    session.close()
    fd = os.open(session.path / "log.jsonl", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b'{"seq": 12, "half of a li')
    os.close(fd)
    return store.open(session.id)


def acknowledge(recorder: Recorder, session: LiveSession, record: Any) -> None:
    payload = msgspec.json.encode(record.payload).decode()
    recorder.acknowledge(session.id, record.seq, record.type, payload)


def check_live(store: SessionStore, safe: list[Step]) -> None:
    """Raise Failed unless everything acknowledged is there, and sessions can be written."""
    for id in {step[1] for step in safe}:
        with store.open(id) as session:
            there = {
                record.seq: (record.type, msgspec.json.encode(record.payload).decode())
                for record in session.records()
            }
            require(sorted(there) == list(range(len(there))), f"{id}: a number is missing")
            for _, _, seq, kind, payload in (step for step in safe if step[1] == id):
                require(there.get(seq) == (kind, payload), f"{id}: record {seq} ({kind}) is lost")
                for name in find_outputs(msgspec.json.decode(payload)):
                    session.output(name)  # Raises LogError if it is missing or damaged.
            session.append({"role": "user", "content": "after"})
            session.messages()
        with store.open(id) as session:
            require(session.last_seq == len(there), f"{id}: an append after it is lost")
    ids = {info.id for info in store.list()}
    require({step[1] for step in safe} <= ids, "a session is not listed")
    store.close()


def find_outputs(value: Any) -> Iterator[str]:
    """Yield the names of the files that a payload refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("sha256"), str):
            yield value["sha256"]
        for part in value.values():
            yield from find_outputs(part)
    elif isinstance(value, list):
        for part in value:
            yield from find_outputs(part)


# ── a sync ────────────────────────────────────────────────────────────────────────────────────────


def replay_sync(count: int, scratch: Path) -> Result:
    """Lose power while a sync writes into a SQLite store."""
    score, rng = Score("power lost while a sync writes"), random.Random("sync")
    make_home(scratch / "agents", seed=3)
    root = scratch / "root"
    config = make_config(root)
    steps = record(root, scratch / "steps", lambda _: sync_often(root, scratch / "agents"))
    whole, problems = read_content(config.store), set(find_problems(config))
    target, partly = scratch / "after", 0
    for moment in replays(steps, count, rng, target):
        with score.trial(f"{score.tried} after step {moment}"):
            after = make_config(target)
            if Path(after.store).exists():
                with closing(open_store(after.store)):
                    pass
                new = [text for text in find_problems(after) if text not in problems]
                require(not new, f"the doctor says {new[:1]}")
                partly += bool(read_content(after.store)["sessions"])
            run_whole(lambda: sync_in_parts(make_config(target), scratch / "agents"))
            wrong = find_difference(whole, read_content(after.store))
            require(not wrong, f"after the next sync {wrong}")
    return score.result(f"{len(steps)} steps; {partly} times something was stored before the loss")


def sync_often(home: Path, agents: Path) -> None:
    """Sync in many transactions, which go from the log of SQLite into its file often."""
    database.CHECKPOINT_PAGES = 50
    sync_in_parts(make_config(home), agents)
