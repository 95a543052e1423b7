"""Worker processes that take jobs and give results back in the order of the jobs.

Knows nothing of what a job is. A worker whose master dies reads the end of its pipe and leaves, so nothing stays behind
a killed sync: that is why this is not concurrent.futures, whose workers wait for ever.
"""

from __future__ import annotations

import gc
import mmap
import os
import select
import signal
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from .errors import RunloreError

Start = Callable[[Any], Callable[[bytes], bytes | bytearray]]
"""Gives the function that does the jobs, from a setting that can be pickled. What that gives back is used before its next job."""

FORKS = sys.platform == "linux"
"""A fork takes 5 ms where a new process takes 150. It is safe while no other thread runs, as when a sync begins."""

_MOST = 16
"""Workers, where there are more cores."""

_AT_ONCE = 2
"""Jobs that a worker has: while it does one the next is already there, for the thread that would hand it out has to wait for the
master to let it run, 2 to 5 ms each time."""

_SMALL = 4 * 1024
"""A job of so many bytes fits into the pipe of a worker that does not read just now, also where a user has so many of them that the system
makes small ones. A larger job goes to an idle worker only: two full pipes would wait for each other."""

_NICE = 10
"""How far workers stand back behind the master, which has to write what they make: where all want to run it should, else they are done
before it is, and it goes on alone. Of 300 MB of text, a core was idle for 0.5 instead of 1.2 s of 8."""

_ROOM, _LEAST_ROOM = 48 * 1024 * 1024, 8 * 1024 * 1024
"""Bytes of results that wait for the master, of all workers together, and at least of each."""

_GOOD, _BAD, _HERE = b"+", b"-", b"@"
"""What became of a job: its result follows, what went wrong follows, or the result is in the memory that is shared, at a place."""

_PAGE, _PIPE = 4096, 65536
"""What is worth being copied to be written at once, and what a pipe holds."""

_HEARD = {signal.SIGTERM, signal.SIGCHLD} if sys.platform == "linux" else {signal.SIGTERM}
"""What the process that becomes the workers waits for."""

_PLACE = struct.Struct("<QQ")
_NUMBER = struct.Struct("<Q")

_GONE = RunloreError("a worker process ended unexpectedly (out of memory?); run it again, it goes on where it stopped")


def cores() -> int:
    """How many workers are worth having: more than some have nothing to do, for one process writes what they make."""
    return min(os.cpu_count() or 1, _MOST)


class Pool:
    """`start` gives the function that does the jobs; it is called once, or once in each worker, while the master goes on. Jobs and results
    are bytes.

    A thread hands jobs out and takes results in, so that no worker waits while the master is busy with a result.
    """

    def __init__(self, workers: int, start: Start, setting: Any) -> None:
        self.count = workers
        self._order: deque[_Job] = deque()
        self._waiting: deque[_Job] = deque()
        self._last: _Job | None = None
        self._done = threading.Condition()
        self.is_closed = False
        *pipes, (self._bell, self._rope) = _pipes(workers + 1)
        rings = [_Ring.made(max(_ROOM // workers, _LEAST_ROOM)) if FORKS else None for _ in range(workers)]
        self._workers = {ours: _Worker(ring) for (ours, _), ring in zip(pipes, rings, strict=True)}
        try:
            self._end, self._join = (_fork if FORKS else _spawn)(pipes, rings, start, setting)
        except OSError:  # There are too many processes.
            _close_all([*pipes, (self._bell, self._rope)])
            raise
        for _, theirs in pipes:
            theirs.close()
        self._thread = threading.Thread(target=self._serve, name="runlore-pool", daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether every result was taken."""
        return not self._order

    def submit(self, data: bytes) -> None:
        """Adds a job."""
        if self.is_closed:
            raise RunloreError("these workers have ended")
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
            for pipe in _wait([self._bell, *(pipe for pipe, worker in self._workers.items() if worker.jobs)]):
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
                        pipe.send_bytes(_NUMBER.pack(worker.ring.done if worker.ring else 0) + job.data)
                    except OSError:
                        self._settle_all(worker)

    def _receive(self, pipe: _Pipe) -> None:
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
        self.stop()
        self._join()

    def stop(self) -> None:
        """Tells them to end, and does not wait until they have: to give back its memory takes a process 20 ms."""
        if self.is_closed:
            return
        self._end()  # First: the thread may be about to write to one of them.
        self._rope.send_bytes(b"end")
        self._thread.join()
        self.is_closed = True
        self._leave_last()
        for pipe in [*self._workers, self._bell, self._rope]:
            pipe.close()
        self._workers = {}  # And with them the memory that is shared.


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

    def __init__(self, ring: _Ring | None) -> None:
        self.ring = ring
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


class _Pipe(Protocol):
    """One end of a way for messages in both directions."""

    def send_bytes(self, data: bytes | bytearray, /) -> None: ...
    def recv_bytes(self) -> bytes: ...
    def close(self) -> None: ...


class _Descriptors:
    """The end of two pipes of the system. What Python has for this takes 15 ms to import."""

    def __init__(self, reads: int, writes: int) -> None:
        self.reads, self.writes = reads, writes

    def send_bytes(self, data: bytes | bytearray) -> None:
        size = _NUMBER.pack(len(data))
        if len(data) <= _PAGE:
            self._write(size + data)
        else:
            self._write(size)
            self._write(data)

    def _write(self, data: bytes | bytearray) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self.writes, left) :]

    def recv_bytes(self) -> bytes:
        """Raises EOFError when the other end is closed."""
        (size,) = _NUMBER.unpack(self._read(_NUMBER.size))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = os.read(self.reads, min(size - len(data), _PIPE))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def close(self) -> None:
        """Not twice: another file may have these numbers by then."""
        reads, writes, self.reads, self.writes = self.reads, self.writes, -1, -1
        os.close(reads)
        os.close(writes)


def _two_ends() -> tuple[_Pipe, _Pipe]:
    if not FORKS:
        import multiprocessing as mp

        return mp.get_context("spawn").Pipe()
    one_reads, other_writes = os.pipe()
    try:
        other_reads, one_writes = os.pipe()
    except OSError:
        os.close(one_reads)
        os.close(other_writes)
        raise
    return _Descriptors(one_reads, one_writes), _Descriptors(other_reads, other_writes)


def _pipes(count: int) -> list[tuple[_Pipe, _Pipe]]:
    """So many, or none: where too many files are open."""
    made: list[tuple[_Pipe, _Pipe]] = []
    try:
        while len(made) < count:
            made.append(_two_ends())
    except OSError:
        _close_all(made)
        raise
    return made


def _close_all(pipes: Iterable[tuple[_Pipe, _Pipe]]) -> None:
    for one, other in pipes:
        one.close()
        other.close()


def _wait(pipes: Sequence[Any]) -> Iterable[Any]:
    """Those from which something can be read, or will never be again. Waits until there is one."""
    if not FORKS:
        from multiprocessing.connection import wait

        return wait(pipes)
    waiting = select.poll()
    for pipe in pipes:
        waiting.register(pipe.reads, select.POLLIN)
    ready = {reads for reads, _ in waiting.poll()}
    return [pipe for pipe in pipes if pipe.reads in ready]


# ── in the other processes ───────────────────────────────────────────────────────────────────────────────────────────
_Ways = tuple[Callable[[], None], Callable[[], None]]
"""How to have the workers end, and to wait until they have."""


def _spawn(pipes: list[tuple[_Pipe, _Pipe]], _: object, start: Start, setting: Any) -> _Ways:
    """Starts a worker for each pipe."""
    import multiprocessing as mp

    processes = [mp.get_context("spawn").Process(target=_start_work, args=(theirs, start, setting), daemon=True) for _, theirs in pipes]
    for process in processes:
        process.start()

    def end() -> None:
        for process in processes:
            process.terminate()

    def join() -> None:
        for process in processes:
            process.join()

    return end, join


def _start_work(pipe: _Pipe, start: Start, setting: Any) -> None:
    _stand_back()
    _work(pipe, None, _ready(start, setting))


def _fork(pipes: list[tuple[_Pipe, _Pipe]], rings: Sequence[_Ring | None], start: Start, setting: Any) -> _Ways:
    """The same from a copy of this process."""
    # Else Ctrl-C might reach the copy while it would still go on with all that the master is in the middle of.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pid = os.fork()
        if not pid:
            try:
                _become_workers(pipes, rings, start, setting)
            finally:
                os._exit(0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end() -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def join() -> None:
        with suppress(ChildProcessError):  # It was waited for before, or the program around this one has its children go unseen.
            os.waitpid(pid, 0)

    return end, join


def _become_workers(pipes: list[tuple[_Pipe, _Pipe]], rings: Sequence[_Ring | None], start: Start, setting: Any) -> None:
    """Gets ready and becomes the workers, which have that from it: to compile the patterns that they need takes 60 ms. Then it only
    waits for them, and ends them when it is to end itself."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _stand_back()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for ours, _ in pipes:
        ours.close()
    do = _ready(start, setting)
    gc.freeze()  # Else looking for cycles would copy all of it for each worker.
    # From here on it hears of what is to end, and of what has ended, when it asks: whenever that comes, each of them is ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    pids: list[int] = []
    for (_, pipe), ring in zip(pipes, rings, strict=True):
        if pid := os.fork():
            pids.append(pid)
            continue
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        for _, other in pipes:
            if other is not pipe:
                other.close()  # While a copy of it is open here, the master never sees the end of another worker's pipe.
        _work(pipe, ring, do)
        return
    for _, theirs in pipes:
        theirs.close()
    while pids:
        if signal.sigwait(_HEARD) == signal.SIGTERM:
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
        pids = [pid for pid in pids if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def _stand_back() -> None:
    if hasattr(os, "nice"):
        os.nice(_NICE)
    signal.set_wakeup_fd(-1)  # Of the program around the master: what is told here is not told there.
    gc.disable()  # Jobs leave few cycles behind, and looking for some takes 2 % of the time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the master decides what to do.


def _ready(start: Start, setting: Any) -> Callable[[bytes], bytes | bytearray]:
    try:
        return start(setting)
    except Exception as error:  # Nobody listens yet: every job is told.
        problem = error

    def fail(_: bytes) -> bytes:
        raise problem

    return fail


def _work(pipe: _Pipe, ring: _Ring | None, do: Callable[[bytes], bytes | bytearray]) -> None:
    while True:
        try:
            job = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        if ring is not None:
            (ring.done,) = _NUMBER.unpack_from(job)
        try:
            sign, answer = _GOOD, do(job[_NUMBER.size :])
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
