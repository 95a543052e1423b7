"""Worker processes that take jobs and give results back in the order of the jobs.

Knows nothing of what a job is. A worker whose master dies reads the end of its pipe and leaves, so nothing stays behind
a killed sync: that is why this is not concurrent.futures, whose workers wait for ever.
"""

from __future__ import annotations

import multiprocessing as mp
import sys
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from .errors import RunloreError

Start = Callable[[bytes], Callable[[bytes], bytes]]

_AT_ONCE = 2
"""Jobs that a worker has: while it does one the next is already there, for the thread that would hand it out has to wait for the
master to let it run, 2 to 5 ms each time."""

_SMALL = 32 * 1024
"""A job of so many bytes fits into the pipe of a worker that does not read just now. A larger one goes to an idle worker only: two
full pipes would wait for each other."""

_GONE = RunloreError("a worker process ended unexpectedly (out of memory?); run it again, it goes on where it stopped")


class _Job:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.result: bytes | RunloreError | None = None


class Pool:
    """`start` gives the function that does the jobs; it is called once, or once in each worker. Jobs and results are bytes.

    A thread hands jobs out and takes results in, so that no worker waits while the master is busy with a result.
    """

    def __init__(self, workers: int, start: Start, setting: bytes) -> None:
        # fork costs 5 ms where spawn costs 150; it is safe while no other thread runs, as in a sync that starts with much to read.
        fork = sys.platform == "linux"
        context: Any = mp.get_context("fork" if fork else "spawn")
        ready = start(setting) if fork else None  # Made once and inherited: compiling what it needs takes 50 ms.
        self._order: deque[_Job] = deque()
        self._waiting: deque[_Job] = deque()
        self._busy: dict[Connection, deque[_Job]] = {}
        self._workers: list[Any] = []
        self._done = threading.Condition()
        for _ in range(workers):
            ours, theirs = context.Pipe()
            inherited = [*self._busy, ours] if fork else []
            worker = context.Process(target=_work, args=(theirs, inherited, start, setting, ready), daemon=True)
            worker.start()
            theirs.close()
            self._busy[ours] = deque()
            self._workers.append(worker)
        self._bell, self._ring = context.Pipe(duplex=False)
        self._thread = threading.Thread(target=self._serve, name="runlore-pool", daemon=True)
        self._thread.start()

    def submit(self, data: bytes) -> None:
        """Adds a job."""
        job = _Job(data)
        self._order.append(job)
        self._waiting.append(job)
        self._ring.send_bytes(b"job")

    def next(self) -> bytes:
        """The result of the oldest job. Raises RunloreError with what the job raised, or when its worker is gone."""
        job = self._order.popleft()
        with self._done:
            self._done.wait_for(lambda: job.result is not None)
        if isinstance(job.result, RunloreError):
            raise job.result
        assert job.result is not None
        return job.result

    # ── in the thread ────────────────────────────────────────────────────────────────────────────────────────────────
    def _serve(self) -> None:
        while True:
            self._hand_out()
            for pipe in wait([self._bell, *(pipe for pipe, jobs in self._busy.items() if jobs)]):
                assert isinstance(pipe, Connection)
                if pipe is not self._bell:
                    self._receive(pipe)
                elif pipe.recv_bytes() == b"end":
                    return

    def _hand_out(self) -> None:
        """Gives the workers something to do, the idle ones first."""
        for held in range(_AT_ONCE):
            for pipe, jobs in self._busy.items():
                if not self._waiting or (held and len(self._waiting[0].data) > _SMALL):
                    return
                if len(jobs) == held:
                    jobs.append(job := self._waiting.popleft())
                    try:
                        pipe.send_bytes(job.data)
                    except OSError:
                        self._settle_all(pipe)

    def _receive(self, pipe: Connection) -> None:
        try:
            is_good, data = pipe.recv_bytes() == b"+", pipe.recv_bytes()
        except (EOFError, OSError):
            self._settle_all(pipe)
            return
        self._settle(pipe, data if is_good else RunloreError(data.decode()))

    def _settle(self, pipe: Connection, result: bytes | RunloreError) -> None:
        """A worker does its jobs in their order."""
        job = self._busy[pipe].popleft()
        with self._done:
            job.result = result
            self._done.notify()

    def _settle_all(self, pipe: Connection) -> None:
        """Nothing comes from there any more."""
        while self._busy[pipe]:
            self._settle(pipe, _GONE)

    def close(self) -> None:
        """Ends the workers, also when they are in the middle of something."""
        self._ring.send_bytes(b"end")
        self._thread.join()
        for pipe in [*self._busy, self._bell, self._ring]:
            pipe.close()
        for worker in self._workers:
            worker.terminate()
            worker.join()


def _work(pipe: Connection, inherited: list[Connection], start: Start, setting: bytes, ready: Callable[[bytes], bytes] | None) -> None:
    import gc
    import signal

    gc.disable()  # Jobs leave no cycles behind, and looking for some takes 2 % of the time.
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
            sign, answer = b"+", do(job)
        except Exception as error:  # Whatever went wrong belongs to this job, and the master says so.
            sign, answer = b"-", f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        try:
            pipe.send_bytes(sign)
            pipe.send_bytes(answer)  # Apart: putting the two together would copy megabytes.
        except OSError:
            return
