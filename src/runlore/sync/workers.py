"""Worker processes for a sync, based on `concurrent.futures`.

Workers ignore Ctrl-C, which the main process handles. A worker ends when its main process is gone,
for whatever reason. Nothing here knows what a job is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ..errors import RunloreError, StoreLost

MAX_WORKERS = 16
"""One process writes what the workers prepare, so more of them would have nothing to do."""

MAX_ALLOWED = 61
"""More cannot be waited for on Windows."""

_T = TypeVar("_T")


class WorkerDied(RunloreError):
    """A worker process ended in the middle of its job, or while another one's was waiting."""


def default_workers() -> int:
    """Return how many workers are worth having on this machine."""
    return min(os.cpu_count() or 1, MAX_WORKERS)


class Workers:
    """Processes that run functions. `initializer(*arguments)` is called once in each of them."""

    def __init__(self, count: int, initializer: Callable[..., None], *arguments: Any) -> None:
        self.count = min(count, MAX_ALLOWED)
        self._begin = initializer, arguments
        self._executor = self._start(self.count)
        self._single: ProcessPoolExecutor | None = None
        """One process for jobs that are done alone."""

    def _start(self, count: int) -> ProcessPoolExecutor:
        others = set(multiprocessing.active_children())
        context = multiprocessing.get_context(start_method())
        executor = ProcessPoolExecutor(count, context, _begin, self._begin)
        try:
            executor.submit(_do_nothing)  # Fork now: the caller may start threads later.
        except BaseException:
            # Python would wait for those that were started, when it ends, and they for a job.
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        return executor

    def submit(self, function: Callable[..., _T], /, *arguments: Any) -> Future[_T]:
        """Have a function called in a worker; `result_of` waits for what it returns.

        If a worker has died, all are replaced; the jobs that were submitted before are lost.
        """
        try:
            return self._executor.submit(_run, function, *arguments)
        except BrokenProcessPool:
            self._executor = self._start(self.count)
            return self._executor.submit(_run, function, *arguments)

    def run_alone(self, function: Callable[..., _T], /, *arguments: Any) -> _T:
        """Call a function while no other job is done by the same process.

        Raises WorkerDied if the process ends: then it was this job. Raises RunloreError if no
        process can be started.
        """
        if self._single is None:
            self._single = self._start(1)
            try:
                result_of(self._single.submit(_do_nothing))
            except WorkerDied as error:
                raise RunloreError(f"{error}; run it again to continue where it stopped") from None
        try:
            return result_of(self._single.submit(_run, function, *arguments))
        except WorkerDied:
            self._single = None
            raise

    def close(self) -> None:
        """End the workers, after the jobs that they have and the next ones that are queued."""
        for executor in (self._executor, self._single):
            if executor is not None:
                executor.shutdown(cancel_futures=True)


def result_of(future: Future[_T]) -> _T:
    """Wait for a job. Raises RunloreError with what the job raised, WorkerDied if a worker did."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise WorkerDied(_DIED) from None


_DIED = "a worker process ended unexpectedly (out of memory?)"


def start_method() -> str:
    """Return "fork" where it is safe, because it is faster: on Linux, without other threads."""
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    return "fork" if can_fork else "spawn"


# ── in a worker ──────────────────────────────────────────────────────────────────────────────────
def _begin(initializer: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)  # A forked worker must not wake the event loop of its parent.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    initializer(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do_nothing() -> None:
    pass


def _run(function: Callable[..., _T], *arguments: Any) -> _T:
    try:
        return function(*arguments)
    except StoreLost as error:  # The sync begins again when the server is back.
        raise StoreLost(str(error)) from None
    except Exception as error:  # Not every exception can be pickled. Its text can.
        raise RunloreError(f"{type(error).__name__}: {error}") from None
