"""Worker processes that take jobs and give results back in the order of the jobs.

Knows nothing of what a job is. A worker whose master dies reads the end of its pipe and leaves, so nothing stays behind
a killed sync: that is why this is not concurrent.futures, whose workers wait for ever.
"""

from __future__ import annotations

import mmap
import multiprocessing as mp
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from .errors import RunloreError

Start = Callable[[bytes], Callable[[bytes], bytes | bytearray]]
"""Gives the function that does the jobs. What that gives back is used before its next job."""

_AT_ONCE = 2
"""Jobs that a worker has: while it does one the next is already there, for the thread that would hand it out has to wait for the
master to let it run, 2 to 5 ms each time."""

_SMALL = 32 * 1024
"""A job of so many bytes fits into the pipe of a worker that does not read just now. A larger one goes to an idle worker only: two
full pipes would wait for each other."""

_ROOM, _LEAST_ROOM = 48 * 1024 * 1024, 8 * 1024 * 1024
"""Bytes of results that wait for the master, of all workers together, and at least of each."""

_GOOD, _BAD, _HERE = b"+", b"-", b"@"
"""What became of a job: its result follows, what went wrong follows, or the result is in the memory that is shared, at a place."""

_PLACE = struct.Struct("<QQ")
_DONE = struct.Struct("<Q")

_GONE = RunloreError("a worker process ended unexpectedly (out of memory?); run it again, it goes on where it stopped")


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
        self._workers: dict[Connection, _Worker] = {}
        self._last: _Job | None = None
        self._done = threading.Condition()
        for _ in range(workers):
            ours, theirs = context.Pipe()
            ring = _Ring.made(max(_ROOM // workers, _LEAST_ROOM)) if fork else None
            inherited = [*self._workers, ours] if fork else []
            process = context.Process(target=_work, args=(theirs, ring, inherited, start, setting, ready), daemon=True)
            process.start()
            theirs.close()
            self._workers[ours] = _Worker(process, ring)
        self._bell, self._rope = context.Pipe(duplex=False)
        self._thread = threading.Thread(target=self._serve, name="runlore-pool", daemon=True)
        self._thread.start()

    def submit(self, data: bytes) -> None:
        """Adds a job."""
        job = _Job(data)
        self._order.append(job)
        self._waiting.append(job)
        self._rope.send_bytes(b"job")

    def next(self) -> bytes | memoryview:
        """The result of the oldest job, good until the next one is asked for. Raises RunloreError with what the job raised, or when its
        worker is gone."""
        self._leave_last()
        self._last = job = self._order.popleft()
        with self._done:
            self._done.wait_for(lambda: job.result is not None)
        if isinstance(job.result, RunloreError):
            raise job.result
        assert job.result is not None
        return job.result

    def _leave_last(self) -> None:
        """The place of the result that was given last is free again."""
        job, self._last = self._last, None
        if job is not None and isinstance(job.result, memoryview):
            job.result.release()
            job.free()

    # ── in the thread ────────────────────────────────────────────────────────────────────────────────────────────────
    def _serve(self) -> None:
        while True:
            self._hand_out()
            for pipe in wait([self._bell, *(pipe for pipe, worker in self._workers.items() if worker.jobs)]):
                assert isinstance(pipe, Connection)
                if pipe is not self._bell:
                    self._receive(pipe)
                elif pipe.recv_bytes() == b"end":
                    return

    def _hand_out(self) -> None:
        """Gives the workers something to do, the idle ones first."""
        for held in range(_AT_ONCE):
            for pipe, worker in self._workers.items():
                if not self._waiting or (held and len(self._waiting[0].data) > _SMALL):
                    return
                if len(worker.jobs) == held:
                    worker.jobs.append(job := self._waiting.popleft())
                    try:
                        pipe.send_bytes(_DONE.pack(worker.ring.done if worker.ring else 0) + job.data)
                    except OSError:
                        self._settle_all(worker)

    def _receive(self, pipe: Connection) -> None:
        worker = self._workers[pipe]
        try:
            head = pipe.recv_bytes()
            sign = head[:1]
            if sign == _HERE:
                assert worker.ring is not None
                place, size = _PLACE.unpack_from(head, 1)
                worker.jobs[0].lies_in(worker.ring, place + size)
                self._settle(worker, worker.ring.view(place, size))
                return
            data = pipe.recv_bytes()
        except (EOFError, OSError):
            self._settle_all(worker)
            return
        self._settle(worker, data if sign == _GOOD else RunloreError(data.decode()))

    def _settle(self, worker: _Worker, result: bytes | memoryview | RunloreError) -> None:
        """A worker does its jobs in their order."""
        job = worker.jobs.popleft()
        with self._done:
            job.result = result
            self._done.notify()

    def _settle_all(self, worker: _Worker) -> None:
        """Nothing comes from there any more."""
        while worker.jobs:
            self._settle(worker, _GONE)

    def close(self) -> None:
        """Ends the workers, also when they are in the middle of something."""
        self._rope.send_bytes(b"end")
        self._thread.join()
        for pipe in [*self._workers, self._bell, self._rope]:
            pipe.close()
        for worker in self._workers.values():
            worker.process.terminate()
            worker.process.join()


class _Job:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.result: bytes | memoryview | RunloreError | None = None
        self._ring: _Ring | None = None
        self._end = 0

    def lies_in(self, ring: _Ring, end: int) -> None:
        """Where its result is, and where it ends there."""
        self._ring, self._end = ring, end

    def free(self) -> None:
        if self._ring is not None:
            self._ring.done = self._end


class _Worker:
    """What the master knows of one."""

    def __init__(self, process: Any, ring: _Ring | None) -> None:
        self.process, self.ring = process, ring
        self.jobs: deque[_Job] = deque()


class _Ring:
    """Memory that a worker shares with the master: its results, one behind the other and around again. A pipe takes a few pages at a time,
    and has each copied twice by the kernel.

    Places only count up, so that what is taken is a difference. The worker alone writes; up to where the master is done with it, it is
    told with every job. What finds no room goes through the pipe.
    """

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size)
        self._size = size
        self._end = 0
        self.done = 0

    @classmethod
    def made(cls, size: int) -> _Ring | None:
        """None where there is no memory to be shared: then all goes through the pipe."""
        try:
            return cls(size)
        except OSError:
            return None

    def put(self, data: bytes | bytearray) -> int | None:
        """The place at which it is now, in one piece, or None."""
        place = self._end
        if place % self._size + len(data) > self._size:
            place += self._size - place % self._size
        if place + len(data) - self.done > self._size:
            return None
        start = place % self._size
        self._memory[start : start + len(data)] = data
        self._end = place + len(data)
        return place

    def view(self, place: int, size: int) -> memoryview:
        start = place % self._size
        return memoryview(self._memory)[start : start + size]


def _work(
    pipe: Connection, ring: _Ring | None, inherited: list[Connection], start: Start, setting: bytes, ready: Callable[[bytes], Any] | None
) -> None:  # fmt: skip
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
        if ring is not None:
            (ring.done,) = _DONE.unpack_from(job)
        try:
            sign, answer = _GOOD, do(job[_DONE.size :])
        except Exception as error:  # Whatever went wrong belongs to this job, and the master says so.
            sign, answer = _BAD, f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        place = ring.put(answer) if ring is not None and sign == _GOOD else None
        try:
            if place is not None:
                pipe.send_bytes(_HERE + _PLACE.pack(place, len(answer)))
            else:
                pipe.send_bytes(sign)
                pipe.send_bytes(answer)  # Apart: putting the two together would copy megabytes.
        except OSError:
            return
