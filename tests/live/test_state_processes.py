"""Real processes on one run: killed at any moment, and quarrelling over it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runlore.live.liveness import recover
from runlore.live.log import SessionStore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kill -9")

WRITER = """
import sys
from runlore.live.log import SessionStore
state = SessionStore(sys.argv[1]).open(sys.argv[2]).state
last = state.checkpoints.latest()
state.resume(last) if last else state.start("work")
n = state.current.data_buffer.get("n", 0)
while True:
    n += 1
    state.progress(f"node{n % 7}", tokens=1)
    point = state.checkpoint(None, {"n": n, "text": "é" * (n % 300)})
    sys.stdout.write(f"{n} {point.id}\\n")
    sys.stdout.flush()
"""

RIVAL = """
import sys
from runlore.errors import RunloreError
from runlore.live.log import SessionStore
session = SessionStore(sys.argv[1]).open(sys.argv[2])
state, point = session.state, session.state.checkpoints.latest()
print("ready", flush=True)
sys.stdin.readline()
try:
    state.resume(point)
    state.progress("mine", buffer={"by": sys.argv[3]})
    print("won", flush=True)
except RunloreError as error:
    print("lost", type(error).__name__, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    made = SessionStore(tmp_path / "live")
    yield made
    made.close()


def start(code: str, store: SessionStore, *more: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", code, str(store.path), "run", *more]
    return subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )


def test_whenever_it_is_killed_the_run_goes_on_from_its_last_checkpoint(
    store: SessionStore, loops: Callable[[int], int]
) -> None:
    store.create(id="run").close()
    dice, done = random.Random(7), 0
    for _ in range(loops(40)):
        process = start(WRITER, store)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(dice.random() * 0.05)
        process.kill()
        # Of the first read, more than a line may wait in its buffer.
        told = (first + process.stdout.read()).splitlines()
        process.communicate()
        known = [
            line.split() for line in told if line.count(" ") == 1 and len(line.split()[1]) == 19
        ]
        assert int(known[0][0]) in (done + 1, done + 2), (
            "it went on where the last one stopped, or where that was not told any more"
        )
        done = int(known[-1][0])
        with store.open("run") as session:
            assert [found.session_id for found in recover(store)] == ["run"]
            state = session.state.current
            assert state.status == "failed"
            points = session.state.checkpoints
            for number, id in known[-3:]:
                saved = points.load(id)
                assert saved.data_buffer["n"] == int(number), (
                    "every checkpoint that was told of is whole"
                )
                assert (
                    len(saved.progress["path"]) == saved.progress["steps_executed"] == int(number)
                )


def test_of_several_processes_that_resume_at_once_one_has_the_run(store: SessionStore) -> None:
    with store.create(id="run") as session:
        session.state.start("work")
        session.state.checkpoint("a", {"n": 1})
        session.state.fail("broke")
    rivals = [start(RIVAL, store, str(n)) for n in range(4)]
    try:
        for rival in rivals:
            assert rival.stdout is not None
            assert rival.stdout.readline() == "ready\n"
        for rival in rivals:
            assert rival.stdin is not None
            rival.stdin.write("go\n")
            rival.stdin.flush()
        words = [rival.stdout.readline().split() for rival in rivals if rival.stdout is not None]
        with store.open("run", readonly=True) as session:
            state = session.state.current
            winners = [n for n, said in enumerate(words) if said == ["won"]]
            assert len(winners) == 1
            assert state.data_buffer == {"n": 1, "by": str(winners[0])}
            assert state.pid == rivals[winners[0]].pid
            assert {said[1] for said in words if said[0] == "lost"} <= {
                "LeaseLost",
                "SessionBusy",
                "IllegalTransition",
            }
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()
