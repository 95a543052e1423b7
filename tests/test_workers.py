"""Worker processes: what a job returns or raises, and how the processes end."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from runlore.errors import RunloreError, StoreLost
from runlore.sync import workers
from runlore.sync.workers import WorkerDied, Workers, result_of

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Unpicklable(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


prefix = ""


def begin(setting: str) -> None:
    global prefix
    prefix = setting


def refuse(setting: str) -> None:
    raise ValueError(f"not with {setting}")


def repeat(letter: str, count: int) -> str:
    if count == 13:
        raise Unpicklable("not", "thirteen")
    if count == 14:
        os._exit(1)
    return prefix + letter * count


def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def lose_connection() -> None:
    raise StoreLost("gone")


def two() -> closing[Workers]:
    return closing(Workers(2, begin, ">"))


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def wait_until_gone(pids: list[int]) -> None:
    for _ in range(600):
        if not any(map(is_running, pids)):
            return
        time.sleep(0.1)
    pytest.fail("a worker goes on without its main process")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_job_has_its_own_result(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method == "fork" and sys.platform != "linux":
        pytest.skip("nothing is forked here")
    monkeypatch.setattr(workers, "start_method", lambda: method)
    jobs = [("abc"[n % 3], n * 37 % 5000 + 20) for n in range(300)]
    with two() as running:
        futures = [running.submit(repeat, *job) for job in jobs]
        assert [result_of(future) for future in futures] == [
            ">" + letter * count for letter, count in jobs
        ]


def test_what_a_job_raises_is_raised_for_it_alone() -> None:
    with two() as running:
        one, other, third = (running.submit(repeat, "a", count) for count in (1, 13, 2))
        assert result_of(one) == ">a"
        with pytest.raises(RunloreError, match=r"^Unpicklable: not thirteen$"):
            result_of(other)
        assert result_of(third) == ">aa"


def test_a_worker_that_dies_is_a_one_line_error() -> None:
    with two() as running, pytest.raises(WorkerDied, match=r"^a worker process ended unexpectedly"):
        result_of(running.submit(repeat, "a", 14))


def test_a_job_that_is_done_alone_says_whether_it_was_the_one_to_die_of() -> None:
    with two() as running:
        for _ in range(2):
            with pytest.raises(WorkerDied):
                running.run_alone(repeat, "a", 14)
            assert running.run_alone(repeat, "a", 1) == ">a"


@on_linux
def test_workers_are_replaced_after_one_was_killed() -> None:
    with two() as running:
        pid = result_of(running.submit(nap, 0))
        waiting = [running.submit(nap, 600) for _ in range(4)]
        os.kill(pid, signal.SIGKILL)
        for future in waiting:
            with pytest.raises(WorkerDied, match="ended unexpectedly"):
                result_of(future)
        assert result_of(running.submit(nap, 0)) != pid


def test_workers_that_cannot_begin_are_a_one_line_error() -> None:
    with closing(Workers(2, refuse, "this")) as running:
        for _ in range(3):
            with pytest.raises(WorkerDied, match="ended unexpectedly"):
                result_of(running.submit(repeat, "a", 1))
        with pytest.raises(RunloreError, match=r"ended unexpectedly .* where it stopped$"):
            running.run_alone(repeat, "a", 1)


@on_linux
def test_closing_waits_for_the_job_in_work_and_drops_the_others() -> None:
    with closing(Workers(1, begin, ">")) as running:
        pid = result_of(running.submit(nap, 0))
        futures = [running.submit(nap, 0.2) for _ in range(100)]
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert sum(future.cancelled() for future in futures) > 90
    assert not is_running(pid)
    running.close()


SCRIPT = """
import sys, time
sys.path[:0] = {path!r}
from runlore.sync.workers import Workers, result_of
from tests.test_workers import begin, nap
if __name__ == "__main__":
    running = Workers(2, begin, "")
    futures = [running.submit(nap, 0.2) for _ in range(2)]
    print(*(result_of(future) for future in futures), flush=True)
    try:
        result_of(running.submit(nap, {seconds}))
    finally:
        running.close()
"""


def started(seconds: float) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A program in a process group of its own that waits for a job, and the ids of its workers."""
    script = SCRIPT.format(path=[path for path in sys.path if path], seconds=seconds)
    program = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert program.stdout is not None
    pids = [int(word) for word in program.stdout.readline().split()]
    assert pids
    return program, pids


@on_linux
def test_a_killed_program_leaves_no_workers_behind() -> None:
    program, pids = started(600)
    with program:
        program.kill()
        wait_until_gone(pids)


@on_linux
def test_ctrl_c_ends_the_program_after_the_job_in_work_and_no_worker_says_a_word() -> None:
    program, pids = started(1)
    with program:
        os.killpg(program.pid, signal.SIGINT)  # As a terminal does: to all of them.
        _, errors = program.communicate(timeout=60)
        assert program.returncode == -signal.SIGINT
        assert errors.decode().count("Traceback") == 1
        wait_until_gone(pids)


@on_linux
def test_only_a_program_without_threads_is_forked() -> None:
    script = """
import threading
from runlore.sync.workers import start_method
assert start_method() == "fork"
threading.Thread(target=threading.Event().wait, daemon=True).start()
assert start_method() == "spawn"
"""
    subprocess.run([sys.executable, "-c", script], check=True)


ONLY_TWO = """
import os
from runlore.sync.runner import start_workers
from runlore.config import load

fork, count = os.fork, 0

def fork_twice():
    global count
    count += 1
    if count > 2:
        raise OSError(11, "Resource temporarily unavailable")
    return fork()

os.fork = fork_twice
print(start_workers(load(), 4))
"""


@on_linux
def test_where_not_all_workers_can_be_started_none_is_left_and_the_program_ends(
    tmp_path: Path,
) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "RUNLORE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", ONLY_TWO],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=env,
    )
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_a_lost_connection_stays_what_it_is() -> None:
    with two() as running, pytest.raises(StoreLost, match=r"^gone$"):
        result_of(running.submit(lose_connection))
