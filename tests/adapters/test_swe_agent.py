"""What the adapter of SWE-agent promises beyond what its fixtures show."""

import json
import os
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from runlore import config
from runlore.adapters import get
from runlore.adapters.swe_agent.reader import describe, has_failed
from runlore.errors import ReadError
from runlore.store import CallFilter, Filter, Store, open_store
from runlore.sync import pipeline
from runlore.sync.pipeline import Report

ADAPTER = get("swe_agent")
UID = "swe_agent:run/ada__kettle-1"


def step(n: int, action: str = "ls") -> dict[str, Any]:
    return {
        "action": action,
        "observation": f"file-{n}",
        "thought": f"thought {n}",
        "response": "",
        "state": {"working_dir": "/w"},
    }


def write(
    root: Path,
    steps: int,
    info: dict[str, Any] | None = None,
    name: str = "run/ada__kettle-1/ada__kettle-1.traj",
) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    stats = {"tokens_sent": 100 * steps, "tokens_received": steps, "api_calls": steps}
    document = {
        "environment": "main",
        "trajectory": [step(n) for n in range(steps)],
        "history": [{"role": "user", "content": "ISSUE:\nIt leaks"}],
        "info": {"model_stats": stats, **(info or {})},
    }
    file.write_text(json.dumps(document))
    later = time.time_ns() + steps * 1_000_000
    os.utime(file, ns=(later, later))
    return file


def sync(root: Path, tmp_path: Path) -> tuple[Store, Report]:
    store = open_store(str(tmp_path / "store.db"))
    return store, pipeline.sync(store, config.load(), agents=[ADAPTER.name], roots=[str(root)])


def told(store: Store) -> list[tuple[int, str, str]]:
    return [(event.seq, event.kind, event.summary or "") for event in store.sessions.events(UID)]


@pytest.mark.parametrize("text", ['{"trajectory": [{"action"', "[1, 2]", "{}", "", '"a text"'])
def test_a_document_that_is_cut_off_or_is_no_trajectory_is_a_problem_and_no_session(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "x.traj").write_text(text)
    (source,) = ADAPTER.discover(tmp_path)
    with pytest.raises(ReadError):
        list(ADAPTER.read(source, None))


def test_steps_that_are_added_are_added_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, 2)
    store, _ = sync(root, tmp_path)
    before = told(store)
    write(root, 4, {"exit_status": "submitted", "submission": "diff"})
    store, report = sync(root, tmp_path)
    assert told(store)[: len(before)] == before
    assert [kind for _, kind, _ in told(store)[len(before) :]] == [
        *["thinking", "tool_call", "tool_result"] * 2,
        "completion",
    ]
    assert not report.problems
    _, report = sync(root, tmp_path)
    assert report.events == 0


def test_tokens_of_a_run_that_grows_are_counted_once(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for steps in (1, 3):
        write(root, steps)
        store, _ = sync(root, tmp_path)
    (counted,) = store.ledger.sum([], CallFilter())
    assert (counted.calls, counted.input_tokens, counted.output_tokens) == (1, 300, 3)


def test_the_same_instance_in_two_runs_is_two_sessions(tmp_path: Path) -> None:
    for run in ("one", "two"):
        write(tmp_path, 1, name=f"{run}/ada__kettle-1.traj")
    write(tmp_path, 1, name="trajectories/ada/one/ada__kettle-1/ada__kettle-1.traj")
    names: list[str] = []
    for source in ADAPTER.discover(tmp_path):
        names += ADAPTER.normalize(source, ADAPTER.read(source, None), None).facts
    assert names == [
        "swe_agent:one/ada__kettle-1",
        "swe_agent:ada/one/ada__kettle-1",
        "swe_agent:two/ada__kettle-1",
    ]


def test_a_variable_stands_for_the_usual_place(home: Path) -> None:
    assert ADAPTER.find_roots({"SWE_AGENT_TRAJECTORY_DIR": str(home / "t")}) == [home / "t"]
    assert ADAPTER.find_roots({}) == [home / "SWE-agent/trajectories"]


@pytest.mark.parametrize(
    ("action", "kind", "body"),
    [
        ("edit 3:4\na\nb\nend_of_edit\n", "edit", "/w/k.py\n@@ 3:4 @@\n+a\n+b"),
        ("edit 'old line' 'new line'", "edit", "/w/k.py\n@@\n-old line\n+new line"),
        ("create 'a b.py'\n", "edit", "a b.py"),
        ("insert 'one\ntwo'", "edit", "/w/k.py\n@@ inserted @@\n+one\n+two"),
        ("str_replace_editor create /w/n.py --file_text 'a 'b' c", "edit", "/w/n.py"),
        (
            "str_replace_editor insert /w/k.py --insert_line 3 --new_str 'x'",
            "edit",
            "/w/k.py\n@@ inserted @@\n+x",
        ),
        ("python -m pytest -q", "test_run", "python -m pytest -q"),
        ("cat <<'EOF' > a\nb\nEOF\n", "tool_call", "cat <<'EOF' > a\nb\nEOF"),
    ],
)
def test_an_action_is_what_it_does(action: str, kind: str, body: str) -> None:
    found = describe(action, {}, "/w/k.py")
    assert (found.kind, found.body) == (kind, body)


def test_what_a_program_prints_is_no_failure_of_the_command() -> None:
    assert has_failed("File kettle.py not found", "read")
    assert not has_failed("Error: too hot", "shell")
    assert has_failed("EXECUTION TIMED OUT", "shell")


@pytest.mark.parametrize(
    "text",
    [
        "'" * 200_000,
        "edit " + "'a " * 100_000,
        "str_replace_editor " + "\\" * 200_000,
        "edit 1:1\n" + "\n" * 200_000,
    ],
)
def test_hostile_actions_take_no_long_time(text: str) -> None:
    start = time.process_time()
    describe(text, {}, None)
    assert time.process_time() - start < 5  # Linear is some ms; what is quadratic takes minutes.


def test_a_run_ended_when_its_file_was_last_written(tmp_path: Path) -> None:
    file = write(tmp_path / "root", 2)
    store = open_store(str(tmp_path / "store.db"))
    for second in (1_750_000_000, 1_750_086_400):
        os.utime(file, (second, second))
        pipeline.sync(store, config.load(), agents=["swe_agent"], roots=[str(tmp_path / "root")])
        session = store.sessions.get(UID)
        assert session is not None
        assert (session.started_at, session.ended_at) == (None, datetime.fromtimestamp(second, UTC))
    ((day, *_),) = [sum_.keys for sum_ in store.ledger.sum(["day"], CallFilter())]
    assert date.fromordinal(day) in (date(2025, 6, 15), date(2025, 6, 16)), "what it took has a day"
    assert {event.ts for event in store.sessions.events(UID)} == {None}, "no step has a time"
    store.close()


@pytest.mark.parametrize(
    ("folder", "repo"),
    [
        ("/ada__kettle", "ada/kettle"),
        ("/ada__kettle/src/lid", "ada/kettle"),
        ("/__home__ada__work__kettle", "kettle"),
        ("/w", "w"),
    ],
)
def test_the_folder_of_a_container_tells_the_repository(
    folder: str, repo: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    file = write(root, 1, name="run/leak/leak.traj")
    document = json.loads(file.read_text())
    document["trajectory"][0]["state"]["working_dir"] = folder
    file.write_text(json.dumps(document))
    store, _ = sync(root, tmp_path)
    (line,) = store.sessions.select(Filter())
    assert line.repo == repo
