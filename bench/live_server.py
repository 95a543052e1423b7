"""An append of 1 KB to a live session on PostgreSQL, against a bare insert of the same payload.

    python bench/live_server.py [--count 2000]

Both sides use psycopg and one connection, alternating, and the best of five counts. The CPU of the
server is that of the process that serves the connection (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

TEXT = "The quick brown fox jumps over the lazy dog, again and again. " * 17
MESSAGE = {"role": "user", "content": TEXT[:1024]}
ROUNDS = 5


def main() -> None:
    import psycopg

    from runlore.live import SessionStore
    from tests import postgres

    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--count", type=int, default=2000)
    count = arguments.parse_args().count
    for server in postgres.start():
        address = server.make_schema()
        with SessionStore(address) as store, store.create() as session:
            bare = psycopg.connect(address, autocommit=True)
            bare.execute(
                "create table bare (session bigint, seq bigint, payload json,"
                " primary key (session, seq))"
            )
            text, seqs = json.dumps(MESSAGE), iter(range(1 << 30))
            insert = partial(_insert, bare, seqs, text)
            sides: dict[str, tuple[Callable[[], Any], int]] = {
                "append": (partial(session.append, MESSAGE), _backend(server, "runlore live")),
                "bare insert": (insert, bare.info.backend_pid),
            }
            best: dict[str, tuple[float, float, float]] = {}
            for _ in range(ROUNDS):
                for name, (work, pid) in sides.items():
                    figures = _measure(work, pid, count)
                    known = best.get(name, figures)
                    best[name] = tuple(map(min, known, figures))  # type: ignore[assignment]
            bare.close()
    for name, (wall, client, backend) in best.items():
        print(
            f"{name:12} {wall:7.0f} µs, CPU {client:5.0f} µs of the client,"
            f" {backend:5.0f} µs of the server"
        )


def _insert(bare: Any, seqs: Iterator[int], text: str) -> None:
    bare.execute("insert into bare values (1, %s, %s)", (next(seqs), text))


def _backend(server: Any, name: str) -> int:
    """Return the process of the only connection with this name."""
    ((pid,),) = server.execute(
        f"select pid from pg_stat_activity where application_name = '{name}'"
    )
    return int(pid)


def _measure(work: Callable[[], Any], pid: int, count: int) -> tuple[float, float, float]:
    """Return wall time, CPU of this process and CPU of that one, in µs a call."""
    start, cpu, other = time.perf_counter(), time.process_time(), _cpu_s(pid)
    for _ in range(count):
        work()
    spent = (time.perf_counter() - start, time.process_time() - cpu, _cpu_s(pid) - other)
    wall, client, backend = (seconds / count * 1e6 for seconds in spent)
    return wall, client, backend


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
