"""Kill -9 at random moments: syncs, appends to a live log, evict, forget, copy and backup.

After each kill nothing that was acknowledged is lost, the store opens, the doctor is content, and
a second run ends with what an undisturbed run gives.
"""

from __future__ import annotations

import os
import random
import select
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.attack import Result, not_possible
from bench.attack._transcripts import AGENTS, change_home, make_home, own_roots
from bench.attack._trials import (
    Score,
    can_fork,
    copy_store,
    find_difference,
    find_problems,
    fork,
    kill_after,
    make_config,
    next_limit,
    read_content,
    require,
    run_whole,
    times,
)
from runlore.cli import cli
from runlore.config import Config
from runlore.live import SessionStore
from runlore.store import open_store
from runlore.sync import ingest, pipeline, prepare, runner

SYNC_KILLS, APPEND_KILLS, OPERATION_KILLS = 300, 1000, 400
KILLS_IN_A_ROW = 3
"""A sync is killed up to so many times before it may end."""
MAX_TRIES = 4
"""For each kill: a process that ends before its moment comes is not killed."""
APPENDS_PER_SESSION = 25
TEXT = "€" * 340


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Kill processes that write, and look at what they leave."""
    if not can_fork():
        yield not_possible("processes killed while they write", "this system cannot fork")
        return
    yield from kill_syncs(times(SYNC_KILLS, scale), scratch / "sync")
    yield kill_appends(times(APPEND_KILLS, scale), scratch / "live")
    yield from kill_operations(times(OPERATION_KILLS, scale), scratch / "operations")


# ── syncs ─────────────────────────────────────────────────────────────────────────────────────────


def kill_syncs(count: int, scratch: Path) -> Iterator[Result]:
    """Kill first syncs, and syncs of files that grew, were rewritten, deleted or are new."""
    agents = scratch / "agents"
    make_home(agents, seed=1)
    first = SyncTrials(scratch / "first", agents, None)
    yield first.run("a first sync killed", (count + 1) // 2, random.Random("first"))
    change_home(agents)
    changed = SyncTrials(scratch / "changed", agents, first.whole)
    yield changed.run(
        "a sync of grown, rewritten and deleted files killed",
        (count + 1) // 2,
        random.Random("changed"),
    )


class SyncTrials:
    """Syncs of one home that are killed, each beginning with a copy of the same store."""

    def __init__(self, folder: Path, agents: Path, before: Path | None) -> None:
        self.folder, self.agents, self.before = folder, agents, before
        config = self._begin("whole")
        self.whole = Path(config.store)
        self.seconds = run_whole(lambda: sync_in_parts(config, self.agents))
        self.content = read_content(config.store)
        self.problems = set(find_problems(config))

    def run(self, case: str, kills: int, rng: random.Random) -> Result:
        score, killed = Score(case), 0
        config, row = self._begin("killed"), 0
        while killed < kills and score.tried < kills * MAX_TRIES:
            moment, row = rng.uniform(0, self.seconds), row + 1
            is_over = row == KILLS_IN_A_ROW or rng.random() < 0.5
            with score.trial(f"{score.tried} at {moment:.3f} s"):
                is_killed = self._kill(config, moment, workers=rng.choice((0, 0, 2)))
                killed += is_killed
                self.seconds = next_limit(self.seconds, is_killed)
                if is_over:
                    self._finish(config)
            if is_over:
                config, row = self._begin("killed"), 0
        return score.result(f"{killed} were killed before their end")

    def _kill(self, config: Config, moment: float, workers: int) -> bool:
        before = read_content(config.store) if Path(config.store).exists() else None
        pid = fork(lambda: sync_in_parts(config, self.agents, workers))
        is_killed = kill_after(pid, moment)
        if not Path(config.store).exists():
            return is_killed
        with closing(open_store(config.store)):  # It opens for writing, whatever was left.
            pass
        self._check(config)
        if before is not None:
            check_nothing_lost(before, read_content(config.store))
        return is_killed

    def _finish(self, config: Config) -> None:
        """Let a sync end, and compare with one that was never disturbed."""
        run_whole(lambda: sync_in_parts(config, self.agents))
        wrong = find_difference(self.content, read_content(config.store))
        require(not wrong, f"after another run {wrong}")
        self._check(config)

    def _check(self, config: Config) -> None:
        new = [text for text in find_problems(config) if text not in self.problems]
        require(not new, f"the doctor says {new[:1]}")

    def _begin(self, name: str) -> Config:
        """Return settings with a home as it was before the sync."""
        home = self.folder / name
        shutil.rmtree(home, ignore_errors=True)
        config = make_config(home)
        if self.before is not None:
            copy_store(self.before, Path(config.store))
            shutil.copy(self.before.with_name("redact.key"), home)
        return config


def sync_in_parts(config: Config, agents: Path, workers: int = 0) -> None:
    """Sync with many small transactions, so that a kill meets every kind of moment."""
    prepare.BATCH_BYTES = runner.BATCH_BYTES = 20_000
    ingest.COMMIT_BYTES = 60_000
    with closing(open_store(config.store)) as store:
        for agent in AGENTS:
            pipeline.sync(
                store,
                config,
                agents=[agent],
                roots=own_roots(agents, agent),
                workers=workers,
                quiet_s=0,
            )


def check_nothing_lost(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise Failed unless every event is there that was there before."""
    for uid, (_, _, _, bodies) in before["sessions"].items():
        now = after["sessions"].get(uid)
        require(now is not None, f"the session {uid} is gone")
        lost = bodies.items() - now[3].items()
        require(not lost, f"{uid}: {len(lost)} of {len(bodies)} events are gone or other ones")


# ── appends to a live log ─────────────────────────────────────────────────────────────────────────


def kill_appends(count: int, folder: Path) -> Result:
    """Kill processes that append to a live session, with either durability."""
    score, rng, acknowledged = Score("an append to a live session killed"), random.Random("live"), 0
    expected: list[str] = []
    for number in range(count):
        durability = ("process", "power")[number // APPENDS_PER_SESSION % 2]
        store = SessionStore(folder, durability=durability)  # type: ignore[arg-type]
        id = f"s{number // APPENDS_PER_SESSION}"
        if number % APPENDS_PER_SESSION == 0:
            store.create(id=id).close()
            expected = []
        with score.trial(number):
            sent = append_until_killed(store, id, number, rng.uniform(0, 0.006))
            acknowledged += sent
            expected = check_log(store, id, expected, [f"{number}-{n}" for n in range(sent)])
    return score.result(f"{acknowledged:,} acknowledged messages")


def append_until_killed(store: SessionStore, id: str, number: int, seconds: float) -> int:
    """Kill a process that appends, and return how many appends it was told are safe."""
    read, written = os.pipe()

    def work() -> None:
        with SessionStore(store.path, durability=store.durability).open(id) as session:
            for n in range(1_000_000):
                session.append({"role": "user", "content": f"{number}-{n} {TEXT}"})
                os.write(written, b".")

    pid = fork(work)
    os.close(written)
    try:
        began = bool(select.select([read], [], [], 30)[0])
        kill_after(pid, seconds)
        require(began, "nothing was appended in 30 s")
        sent = 0
        while chunk := os.read(read, 1 << 16):
            sent += len(chunk)
    finally:
        os.close(read)
    return sent


def check_log(store: SessionStore, id: str, before: list[str], sent: list[str]) -> list[str]:
    """Raise Failed if something acknowledged is lost. Append once more, and return all names."""
    with SessionStore(store.path, durability=store.durability).open(id) as session:
        names = [message["content"].partition(" ")[0] for message in session.messages()]
        require(names[: len(before)] == before, "messages of before the kill are lost")
        require(names[len(before) :][: len(sent)] == sent, "acknowledged messages are lost")
        require(len(names) - len(before) - len(sent) <= 1, "messages came from nowhere")
        session.append({"role": "user", "content": "after"})
        seqs = [record.seq for record in session.records()]
        require(seqs == list(range(len(seqs))), "the numbers of records have a gap")
        return [message["content"].partition(" ")[0] for message in session.messages()]


# ── evict, forget, copy, backup ───────────────────────────────────────────────────────────────────


def kill_operations(count: int, scratch: Path) -> Iterator[Result]:
    """Kill the commands that take something out of a store, or copy it."""
    agents, base = scratch / "agents", make_config(scratch / "base")
    make_home(agents, seed=2)
    run_whole(lambda: sync_in_parts(base, agents))
    share = (count + 3) // 4
    for kind in (Evict, Forget, Copy, Backup):
        yield kind(scratch / kind.__name__.lower(), base, agents).run(share)


class Operation:
    """A command that is killed, with a store of its own for each trial."""

    words: tuple[str, ...] = ()

    def __init__(self, folder: Path, base: Config, agents: Path) -> None:
        self.folder, self.base, self.agents = folder, base, agents
        self.before = read_content(base.store)
        self.problems = set(find_problems(base))
        self.home = self._begin("whole")
        self.seconds = run_whole(self._command)
        self.after = read_content(self._outcome())

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def run(self, kills: int) -> Result:
        score, killed = Score(f"`{self.name}` killed"), 0
        rng = random.Random(self.name)
        while killed < kills and score.tried < kills * MAX_TRIES:
            self.home = self._begin("killed")
            moment = rng.uniform(0, self.seconds)
            with score.trial(f"{score.tried} at {moment:.3f} s"):
                is_killed = kill_after(fork(self._command), moment)
                killed += is_killed
                self.seconds = next_limit(self.seconds, is_killed)
                self._check_between()
                run_whole(self._command)
                self._check_end()
        return score.result(f"{killed} were killed before their end")

    def _command(self) -> None:
        os.environ["RUNLORE_HOME"] = str(self.home)
        cli.main([self.name, *(word.format(home=self.home) for word in self.words)])

    def _check_between(self) -> None:
        """Check the store right after a kill: every session is as before, or as it will be."""
        config = make_config(self.home)
        new = [text for text in find_problems(config) if text not in self.problems]
        require(not new, f"the doctor says {new[:1]}")
        now = read_content(config.store)["sessions"]
        for uid, session in self.before["sessions"].items():
            allowed = (session[2:], (self.after["sessions"].get(uid) or (None, None, None))[2:])
            there = (now.get(uid) or (None, None, None))[2:]
            require(there in allowed, f"{uid} is neither as before nor as it should become")

    def _check_end(self) -> None:
        """Check that a second run ended with what an undisturbed one gives."""
        wrong = find_difference(self.after, read_content(self._outcome()))
        require(not wrong, f"after another run {wrong}")
        config = make_config(self.home)
        new = [text for text in find_problems(config) if text not in self.problems]
        require(not new, f"after another run the doctor says {new[:1]}")

    def _outcome(self) -> str:
        """Return the store in which the command leaves its result."""
        return str(self.home / "runlore.db")

    def _begin(self, name: str) -> Path:
        home = self.folder / name
        shutil.rmtree(home, ignore_errors=True)
        copy_store(Path(self.base.store), home / "runlore.db")
        shutil.copy(self.base.home / "redact.key", home)
        return home


class Evict(Operation):
    words = ("--older-than", "1", "--yes")


class Forget(Operation):
    words = ("--agent", "claude", "--yes")

    def _check_end(self) -> None:
        super()._check_end()
        config = make_config(self.home)
        run_whole(lambda: sync_in_parts(config, self.agents))
        back = read_content(config.store)["sessions"].keys() - self.after["sessions"].keys()
        require(not back, f"a sync brought {sorted(back)[:1]} back")


class Copy(Operation):
    words = ("{home}/runlore.db", "{home}/copied.db")

    def _outcome(self) -> str:
        return str(self.home / "copied.db")

    def _check_between(self) -> None:
        wrong = find_difference(self.before, read_content(str(self.home / "runlore.db")))
        require(not wrong, f"the store itself: {wrong}")


class Backup(Copy):
    words = ("{home}/backups/copied.db", "--force")

    def _outcome(self) -> str:
        return str(self.home / "backups/copied.db")

    def _begin(self, name: str) -> Path:
        home = super()._begin(name)
        (home / "backups").mkdir()
        return home

    def _check_between(self) -> None:
        super()._check_between()
        if Path(self._outcome()).exists():
            wrong = find_difference(self.after, read_content(self._outcome()))
            require(not wrong, f"half a backup has the name of a whole one: {wrong}")

    def _check_end(self) -> None:
        super()._check_end()
        files = sorted(path.name for path in (self.home / "backups").iterdir())
        require(set(files) <= {"copied.db", "copied.db-wal", "copied.db-shm"}, f"left: {files}")
