"""What the adapter of mini-SWE-agent promises beyond what its fixtures show."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from runlore import config
from runlore.adapters import Source, get
from runlore.adapters.mini_swe_agent.reader import output_in, parts
from runlore.errors import ReadError
from runlore.store import CallFilter, Filter, Store, open_store
from runlore.sync import pipeline
from runlore.sync.pipeline import Report

ADAPTER = get("mini_swe_agent")


def turn(n: int, stamp: float = 1775802390.0) -> list[dict[str, Any]]:
    call = {"command": f"echo {n}", "tool_call_id": f"call-{n}"}
    usage = {
        "prompt_tokens": 100 * n,
        "completion_tokens": n,
        "prompt_tokens_details": {"cached_tokens": 50},
    }
    extra = {
        "actions": [call],
        "response": {"id": f"r-{stamp}-{n}", "model": "m", "usage": usage},
        "timestamp": stamp + n,
    }
    return [
        {
            "role": "assistant",
            "content": f"turn {n}",
            "tool_calls": [{"id": call["tool_call_id"]}],
            "extra": extra,
        },
        {
            "role": "tool",
            "content": "",
            "tool_call_id": call["tool_call_id"],
            "extra": {"raw_output": f"{n}\n", "returncode": 0},
        },
    ]


def write(
    root: Path,
    turns: int,
    info: dict[str, Any] | None = None,
    name: str = "run/a/a.traj.json",
    stamp: float = 1775802390.0,
) -> None:
    messages = [
        {"role": "user", "content": "It leaks"},
        *(message for n in range(1, turns + 1) for message in turn(n, stamp)),
    ]
    document = {"info": info or {}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
    later = time.time_ns() + turns * 1_000_000
    os.utime(file, ns=(later, later))


def sync(root: Path, tmp_path: Path) -> tuple[Store, Report]:
    store = open_store(str(tmp_path / "store.db"))
    return store, pipeline.sync(store, config.load(), agents=[ADAPTER.name], roots=[str(root)])


@pytest.mark.parametrize("text", ['{"messages": [{"role"', "[1, 2]", "{}", "", '{"messages": 7}'])
def test_a_document_that_is_cut_off_or_is_no_trajectory_is_a_problem_and_no_session(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "x.traj.json").write_text(text)
    (source,) = ADAPTER.discover(tmp_path)
    with pytest.raises(ReadError):
        list(ADAPTER.read(source, None))


def test_a_run_that_grows_is_read_on(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, 2)
    store, first = sync(root, tmp_path)
    before = [event.seq for event in store.sessions.events("mini_swe_agent:run/a")]
    write(root, 3, {"exit_status": "Submitted", "submission": "diff"})
    store, report = sync(root, tmp_path)
    added = [event.kind for event in store.sessions.events("mini_swe_agent:run/a")][len(before) :]
    assert added == ["assistant_msg", "tool_call", "lifecycle", "tool_result", "completion"]
    assert (report.events, report.problems) == (5, [])
    assert first.events == len(before)
    (counted,) = store.ledger.sum([], CallFilter())
    assert (
        counted.calls,
        counted.input_tokens + counted.cache_read_tokens,
        counted.output_tokens,
    ) == (3, 600, 6)


def test_the_file_that_every_run_of_a_person_writes_anew_is_another_session_each_time(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    name = "last_mini_run.traj.json"
    for stamp in (1775802390.0, 1775902390.0):
        write(root, 2, name=name, stamp=stamp)
        store, _ = sync(root, tmp_path)
    write(root, 3, name=name, stamp=1775902390.0)
    store, _ = sync(root, tmp_path)
    (counted,) = store.ledger.sum([], CallFilter())
    assert (len(store.sessions.select(Filter(), limit=10)), counted.calls) == (2, 5)


def test_what_was_printed_is_told_from_what_stands_around_it() -> None:
    assert output_in("<returncode>3</returncode>\n<output>\n<output>\nx</output>\n</output>") == (
        3,
        "<output>\nx</output>\n",
    )
    assert output_in("Observation: fine") == (None, "Observation: fine")


def test_hostile_answers_take_no_long_time() -> None:
    source = Source(agent=ADAPTER.name, path="/r/a.traj.json", root="/r", size=0, mtime_ns=0)
    for text in ("```bash\n" * 100_000, "```bash\n" + "`" * 500_000, "<output>" * 100_000):
        start = time.process_time()
        document = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": text},
            {"role": "user", "content": text},
        ]
        parts(source, document)
        # Linear is some ms; what is quadratic takes minutes.
        assert time.process_time() - start < 5
