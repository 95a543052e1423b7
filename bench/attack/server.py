"""Kill -9 of PostgreSQL, of its process for a sync, or of the sync itself.

After each kill the sync ends by itself, or another one does, with what an undisturbed one gives.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.attack import Result, not_possible
from bench.attack._transcripts import make_home
from bench.attack._trials import (
    Failed,
    Score,
    can_fork,
    find_difference,
    find_problems,
    fork,
    kill_after,
    make_config,
    read_content,
    require,
    run_whole,
    times,
    wait,
)
from bench.attack.kills import sync_in_parts
from runlore.config import Config

if TYPE_CHECKING:
    from tests.postgres import Server

KILLS = 50
MAX_BUSY_S = 10.0
"""How long a server may hold the lock of a client that is gone."""


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Start a PostgreSQL, sync into it, and kill either."""
    case = "PostgreSQL or its client killed during a sync"
    if not can_fork():
        yield not_possible(case, "this system cannot fork")
        return
    folder = Path(tempfile.mkdtemp(prefix="runlore-attack-pg-"))  # A socket needs a short path.
    try:
        server = start_server(folder / "data")
    # The package is not here, or cannot start a server on this machine, in any of many ways.
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        yield not_possible(case, f"PostgreSQL does not start ({type(error).__name__})")
        return
    try:
        yield from ServerTrials(server, scratch).run(times(KILLS, scale))
    finally:
        server.control("stop", "-m", "immediate")
        shutil.rmtree(folder, ignore_errors=True)


def start_server(folder: Path) -> Server:
    """Start a server that loses no committed transaction when it is killed."""
    from tests.postgres import Server

    server = Server(folder)
    server.execute("alter system set synchronous_commit = on")
    server.execute("select pg_reload_conf()")
    return server


class ServerTrials:
    """Syncs into a server, each into a schema of its own."""

    def __init__(self, server: Server, scratch: Path) -> None:
        self.server, self.scratch = server, scratch
        self.agents = scratch / "agents"
        make_home(self.agents, seed=4)
        config = self._begin()
        self.seconds = run_whole(lambda: sync_in_parts(config, self.agents))
        self.content = read_content(config.store)
        self.problems = set(find_problems(config))

    def run(self, kills: int) -> Iterator[Result]:
        rng = random.Random("server")
        cases = {
            "a sync into PostgreSQL killed": self._kill_client,
            "the server's process for a sync killed": self._kill_backend,
            "PostgreSQL stopped at once during a sync": self._restart,
        }
        for n, (case, kill) in enumerate(list(cases.items())[:kills]):
            score = Score(case)
            for _ in range((kills + len(cases) - 1 - n) // len(cases)):
                moment = rng.uniform(0, self.seconds)
                with score.trial(f"{score.tried} at {moment:.2f} s"):
                    config = self._begin()
                    kill(config, moment)
                    self._finish(config)
            yield score.result()

    def _begin(self) -> Config:
        return make_config(self.scratch / "home", self.server.make_schema())

    def _kill_client(self, config: Config, moment: float) -> None:
        kill_after(fork(lambda: sync_in_parts(config, self.agents)), moment)

    def _kill_backend(self, config: Config, moment: float) -> None:
        pid = fork(lambda: sync_in_parts(config, self.agents))
        time.sleep(moment)
        for backend in self._backends():
            with suppress(ProcessLookupError):  # With one of them the server ends the others.
                os.kill(backend, signal.SIGKILL)
        wait(pid)  # It goes on by itself, or says that the server is gone.

    def _restart(self, config: Config, moment: float) -> None:
        pid = fork(lambda: sync_in_parts(config, self.agents))
        time.sleep(moment)
        self.server.control("restart", "-m", "immediate")
        wait(pid)

    def _backends(self) -> list[int]:
        """Return the server's processes for clients other than this one."""
        rows = self.server.execute(
            "select pid from pg_stat_activity where backend_type = 'client backend'"
            " and pid <> pg_backend_pid()"
        )
        return [pid for (pid,) in rows]

    def _await_server(self) -> None:
        """Wait until the server answers again: after a kill it recovers first."""
        for _ in range(200):
            try:
                self.server.execute("select 1")
                return
            except Exception:  # psycopg's, which is not imported here.
                time.sleep(0.05)
        raise Failed("the server did not come back")

    def _finish(self, config: Config) -> None:
        """Let a sync end, and compare with one that was never disturbed."""
        self._await_server()
        end = time.monotonic() + MAX_BUSY_S
        while wait(fork(lambda: sync_in_parts(config, self.agents))):
            require(time.monotonic() < end, "the next sync fails")
            time.sleep(0.2)
        wrong = find_difference(self.content, read_content(config.store))
        require(not wrong, f"after another run {wrong}")
        new = [text for text in find_problems(config) if text not in self.problems]
        require(not new, f"the doctor says {new[:1]}")
