"""Worker processes that take jobs and give results back in the order of the jobs.

Knows nothing of what a job is. A worker whose master dies reads the end of its pipe and leaves, so nothing stays behind
a killed sync: that is why this is not concurrent.futures, whose workers wait for ever.
"""

from __future__ import annotations

import multiprocessing as mp
import sys
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from .errors import RunloreError

Start = Callable[[bytes], Callable[[bytes], bytes]]


class _Job:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.result: bytes | RunloreError | None = None


class Pool:
    """`start` gives the function that does the jobs; it is called once, or once in each worker. Jobs and results are bytes."""

    def __init__(self, workers: int, start: Start, setting: bytes) -> None:
        # fork costs 5 ms where spawn costs 150; it is safe while no other thread runs, as in a sync that starts with much to read.
        fork = sys.platform == "linux"
        context: Any = mp.get_context("fork" if fork else "spawn")
        ready = start(setting) if fork else None  # Made once and inherited: compiling what it needs takes 50 ms.
        self._order: deque[_Job] = deque()
        self._waiting: deque[_Job] = deque()
        self._busy: dict[Connection, _Job | None] = {}
        self._workers: list[Any] = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            inherited = [*self._busy, ours] if fork else []
            worker = context.Process(target=_work, args=(theirs, inherited, start, setting, ready), daemon=True)
            worker.start()
            theirs.close()
            self._busy[ours] = None
            self._workers.append(worker)

    def submit(self, data: bytes) -> None:
        """Adds a job. It is sent when a worker is idle, never before: two full pipes would wait for each other."""
        job = _Job(data)
        self._order.append(job)
        self._waiting.append(job)
        self._pump(0)

    def next(self) -> bytes:
        """The result of the oldest job. Raises RunloreError with what the job raised, or when its worker is gone."""
        job = self._order.popleft()
        while job.result is None:
            self._pump(None)
        if isinstance(job.result, RunloreError):
            raise job.result
        return job.result

    def _pump(self, timeout: float | None) -> None:
        """Takes in what is there, and gives every idle worker something to do."""
        self._hand_out()
        for pipe in wait([pipe for pipe, job in self._busy.items() if job is not None], timeout):
            self._receive(pipe)  # type: ignore[arg-type]
        self._hand_out()

    def _hand_out(self) -> None:
        for pipe, job in self._busy.items():
            if job is None and self._waiting:
                job = self._waiting.popleft()
                self._busy[pipe] = job
                pipe.send_bytes(job.data)

    def _receive(self, pipe: Connection) -> None:
        job, self._busy[pipe] = self._busy[pipe], None
        assert job is not None
        try:
            data = pipe.recv_bytes()
        except (EOFError, OSError):
            message = "a worker process ended unexpectedly (out of memory?); run it again, it goes on where it stopped"
            raise RunloreError(message) from None
        job.result = data[1:] if data[:1] == b"+" else RunloreError(data[1:].decode())

    def close(self) -> None:
        """Ends the workers, also when they are in the middle of something."""
        for pipe in self._busy:
            pipe.close()
        for worker in self._workers:
            worker.terminate()
            worker.join()


def _work(pipe: Connection, inherited: list[Connection], start: Start, setting: bytes, ready: Callable[[bytes], bytes] | None) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the master decides what to do.
    for other in inherited:  # While a copy of it is open here, another worker never sees the end of its pipe.
        other.close()
    do = ready or start(setting)
    while True:
        try:
            job = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            answer = b"+" + do(job)
        except Exception as error:  # Whatever went wrong belongs to this job, and the master says so.
            answer = b"-" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        try:
            pipe.send_bytes(answer)
        except OSError:
            return
