"""What the adapter of ATIF promises beyond what its fixtures show."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from runlore import config
from runlore.adapters import get
from runlore.errors import ReadError
from runlore.store import CallFilter, Store, open_store
from runlore.sync import pipeline
from runlore.sync.pipeline import Report

ADAPTER = get("atif")
INNER = {
    "trajectory_id": "h",
    "agent": {"name": "h", "version": "1"},
    "steps": [{"step_id": 1, "source": "user", "message": "help"}],
}


def write(root: Path, steps: int, name: str = "j/t/agent/trajectory.json", **more: Any) -> None:
    document = {
        "schema_version": "ATIF-v1.7",
        "session_id": "run",
        "agent": {"name": "a", "version": "1"},
        "steps": [
            {
                "step_id": n,
                "source": "agent",
                "message": f"step {n}",
                "metrics": {"prompt_tokens": 10, "completion_tokens": 1},
            }
            for n in range(1, steps + 1)
        ],
        "subagent_trajectories": [INNER],
        **more,
    }
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
    later = time.time_ns() + steps * 1_000_000
    os.utime(file, ns=(later, later))


def sync(root: Path, tmp_path: Path) -> tuple[Store, Report]:
    store = open_store(str(tmp_path / "store.db"))
    return store, pipeline.sync(store, config.load(), agents=[ADAPTER.name], roots=[str(root)])


def test_steps_that_are_added_are_added_once_though_subagents_stand_behind_them(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    write(root, 2)
    store, _ = sync(root, tmp_path)
    before = {event.native_id for event in store.sessions.events("atif:run")}
    write(root, 3)
    store, report = sync(root, tmp_path)
    events = store.sessions.events("atif:run")
    assert {event.native_id for event in events} - before == {"run/3", "run/3#100000"}
    assert not any(event.is_gone for event in events)
    assert not report.problems
    (counted,) = store.ledger.sum([], CallFilter())
    assert (counted.calls, counted.input_tokens) == (3, 30)


def test_what_the_verifier_says_later_is_told_though_the_document_is_the_same(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    write(root, 1)
    store, _ = sync(root, tmp_path)
    result = root / "j/t/result.json"
    result.write_text(json.dumps({"verifier_result": {"rewards": {"reward": 1.0}}}))
    later = time.time_ns() + 10_000_000
    os.utime(result, ns=(later, later))
    store, _ = sync(root, tmp_path)
    last = list(store.sessions.events("atif:run"))[-1]
    assert (last.kind, last.summary, last.is_error) == ("completion", "rewarded: reward 1.0", False)


@pytest.mark.parametrize(
    "text", ['{"schema_version": "ATIF-v1.', "[1, 2]", "{}", '{"schema_version": 7, "steps": []}']
)
def test_a_document_that_is_cut_off_or_of_another_kind_is_a_problem_and_no_session(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "trajectory.json").write_text(text)
    (source,) = ADAPTER.discover(tmp_path)
    with pytest.raises(ReadError):
        list(ADAPTER.read(source, None))


def test_only_files_that_may_be_trajectories_are_looked_into(tmp_path: Path) -> None:
    for name in (
        "a/trajectory.json",
        "a/trajectory.cont-1.json",
        "a/x_atif.json",
        "transcripts/1.json",
        "a/result.json",
        "a/config.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    found = sorted(
        str(Path(source.path).relative_to(tmp_path)).replace(os.sep, "/")
        for source in ADAPTER.discover(tmp_path)
    )
    assert found == [
        "a/trajectory.cont-1.json",
        "a/trajectory.json",
        "a/x_atif.json",
        "transcripts/1.json",
    ]


def test_subagents_that_are_nested_without_end_are_kept_as_they_are(tmp_path: Path) -> None:
    inner: dict[str, Any] = INNER
    for n in range(50):
        inner = {**INNER, "trajectory_id": f"h{n}", "subagent_trajectories": [inner]}
    write(tmp_path, 1, subagent_trajectories=[inner])
    (source,) = ADAPTER.discover(tmp_path)
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    assert sum(event.is_sidechain for event in found.events) == 2 * 5  # A start and a prompt each.
    # What is below that is kept as it is.
    assert [event.native for event in found.events][-1] == "subagent_trajectory"
