"""Worker processes: results come in the order of the jobs, through memory that is shared or through the pipe."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from runlore import _pool
from runlore._pool import Pool, _Ring
from runlore.errors import RunloreError

shared = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared with forked processes only")


def refuse(setting: bytes) -> Callable[[bytes], bytes]:
    raise ValueError(f"not with {setting.decode()}")


def never(setting: bytes) -> Callable[[bytes], bytes]:
    time.sleep(600)
    return bytes


def sleep(setting: bytes) -> Callable[[bytes], bytes]:
    def do(job: bytes) -> bytes:
        time.sleep(float(job))
        return str(os.getpid()).encode()

    return do


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def repeat(setting: bytes) -> Callable[[bytes], bytearray]:
    """A job says how often its byte is to be repeated. The answer is always in the same place, as that of a sync's worker is."""
    answer = bytearray()

    def do(job: bytes) -> bytearray:
        byte, count = job[:1], int(job[1:])
        if count == 13:
            raise ValueError("thirteen")
        if count == 14:
            os._exit(1)
        answer[:] = setting + byte * count
        return answer

    return do


def pool(workers: int = 2) -> closing[Pool]:
    return closing(Pool(workers, repeat, b">"))


@pytest.mark.parametrize("forks", [True, False])
def test_results_come_in_the_order_of_the_jobs(forks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "FORKS", forks and sys.platform == "linux")
    jobs = [(bytes([65 + n % 26]), n * 37 % 5000) for n in range(300) if n * 37 % 5000 not in (13, 14)]
    with pool() as two:
        for byte, count in jobs:
            two.submit(byte + b"%d" % count)
        for byte, count in jobs:
            assert bytes(two.next()) == b">" + byte * count


@pytest.mark.parametrize("room", [1, 1000, 20_000])
def test_what_finds_no_room_in_shared_memory_comes_all_the_same(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "_ROOM", room)
    monkeypatch.setattr(_pool, "_LEAST_ROOM", 1)
    random = Random(room)
    ahead, waiting = random.randrange(1, 40), []
    with pool() as two:
        for n in range(500):
            size = random.choice((0, 1, 100, 900, 5000, 12_000))
            two.submit(b"%c%d" % (97 + n % 26, size))
            waiting.append(b">" + bytes([97 + n % 26]) * size)
            while len(waiting) > ahead:
                assert bytes(two.next()) == waiting.pop(0)
        for expected in waiting:
            assert bytes(two.next()) == expected


@shared
def test_a_result_lies_in_memory_that_is_shared() -> None:
    with pool(1) as one:
        one.submit(b"a100000")
        assert isinstance(one.next(), memoryview)


def test_what_a_job_raises_is_raised_for_it_alone() -> None:
    with pool() as two:
        for job in (b"a1", b"b13", b"c2"):
            two.submit(job)
        assert bytes(two.next()) == b">a"
        with pytest.raises(RunloreError, match="ValueError: thirteen"):
            two.next()
        assert bytes(two.next()) == b">cc"


def test_a_worker_that_is_gone_is_told() -> None:
    with pool(1) as one:
        one.submit(b"a14")
        with pytest.raises(RunloreError, match="ended unexpectedly"):
            one.next()


def test_what_cannot_be_started_is_told_to_every_job() -> None:
    with closing(Pool(2, refuse, b"this")) as two:
        for _ in range(3):
            two.submit(b"")
        for _ in range(3):
            with pytest.raises(RunloreError, match="ValueError: not with this"):
                two.next()


@shared
def test_workers_are_ended_in_the_middle_of_something() -> None:
    with closing(Pool(2, sleep, b"")) as two:
        two.submit(b"0")
        two.submit(b"0.01")
        pids = [int(bytes(two.next())) for _ in range(2)]
        assert all(map(is_running, pids))
        two.submit(b"600")
        two.submit(b"600")
        began = time.monotonic()
    assert time.monotonic() - began < 60
    assert not any(map(is_running, pids))


@shared
def test_and_before_they_are_ready() -> None:
    began = time.monotonic()
    Pool(2, never, b"").close()
    assert time.monotonic() - began < 60


@shared
def test_and_whenever_they_are_told_to(loops: Callable[[int], int]) -> None:
    began = time.monotonic()
    for n in range(loops(200)):
        two = Pool(2, sleep, b"")
        two.submit(b"600")
        two.submit(b"600")
        time.sleep(n % 20 / 1000)
        two.close()
    assert time.monotonic() - began < 300


@shared
def test_that_the_process_is_gone_which_became_the_workers_is_told() -> None:
    others = children()
    with closing(Pool(2, never, b"")) as two:
        two.submit(b"")
        (child,) = children() - others
        os.kill(child, signal.SIGKILL)
        with pytest.raises(RunloreError, match="ended unexpectedly"):
            two.next()


@shared
def test_and_when_their_master_is_killed() -> None:
    script = """
import os, sys, time
sys.path[:0] = {path!r}
from runlore._pool import Pool
from tests.test_pool import sleep
pool = Pool(2, sleep, b"")
for _ in range(2):
    pool.submit(b"0.01")
print(*(bytes(pool.next()).decode() for _ in range(2)), flush=True)
time.sleep(600)
"""
    master = subprocess.Popen([sys.executable, "-c", script.format(path=[p for p in sys.path if p])], stdout=subprocess.PIPE)
    assert master.stdout is not None
    pids = [int(word) for word in master.stdout.readline().split()]
    assert len(pids) == 2
    master.kill()
    master.wait()
    master.stdout.close()
    for _ in range(600):
        if not any(map(is_running, pids)):
            return
        time.sleep(0.1)
    pytest.fail("a worker goes on without its master")


def test_what_has_ended_takes_no_more() -> None:
    ended = Pool(1, repeat, b">")
    ended.close()
    ended.close()
    with pytest.raises(RunloreError, match="have ended"):
        ended.submit(b"a1")


@shared
def test_small_pipes_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def small() -> tuple[int, int]:
        reads, writes = made()
        fcntl.fcntl(writes, 1031, 8192)  # F_SETPIPE_SZ: what the system gives who has very many.
        return reads, writes

    made = os.pipe
    monkeypatch.setattr(os, "pipe", small)
    monkeypatch.setattr(_pool, "_ROOM", 1)
    monkeypatch.setattr(_pool, "_LEAST_ROOM", 1)
    with pool() as two:
        for _ in range(30):
            two.submit(b"a100000" + b" " * 20_000)
        for _ in range(30):
            assert len(two.next()) == 100_001


@shared
@pytest.mark.parametrize("missing", ["fork", "pipe"])
def test_where_there_can_be_no_workers_nothing_is_left_of_them(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, left = os.pipe, 3

    def refuse() -> tuple[int, int]:
        nonlocal left
        left -= 1
        if missing == "fork" or left < 0:
            raise OSError(11, "Resource temporarily unavailable")
        return made()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ()), len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, missing, refuse)
    with pytest.raises(OSError, match="unavailable"):
        Pool(2, repeat, b">")
    assert (signal.pthread_sigmask(signal.SIG_BLOCK, ()), len(os.listdir("/proc/self/fd"))) == before


def test_a_ring_never_overwrites_what_is_not_done_with() -> None:
    random = Random(7)
    ring = _Ring(4096)
    lying: list[tuple[int, bytes]] = []
    refused = 0
    for n in range(5000):
        data = bytes([n % 256]) * random.randrange(1, 1500)
        place = ring.put(data)
        refused += place is None
        if place is not None:
            lying.append((place, data))
        for at, expected in lying:
            assert bytes(ring.view(at, len(expected))) == expected
        if place is None or random.random() < 0.3:
            at, expected = lying.pop(0)
            ring.done = at + len(expected)
    assert 100 < refused < 4000


def test_without_memory_to_share_results_come_through_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: _Ring, size: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(_Ring, "__init__", refuse)
    with pool() as two:
        two.submit(b"a100000")
        assert two.next() == b">" + b"a" * 100_000
