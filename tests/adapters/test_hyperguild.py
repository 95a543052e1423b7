"""What the adapter of hyperguild's skill logs promises beyond what its fixture shows."""

import json
from pathlib import Path

from runlore import config
from runlore.adapters import get
from runlore.live.importers import read_skills
from runlore.store import open_store
from runlore.sync import pipeline

ADAPTER = get("hyperguild")
ROOT = Path(__file__).parent / "fixtures/hyperguild/skills/root"
WORDS = {True: "verified", False: "failed", None: "unchecked"}


def test_an_import_into_a_live_log_tells_the_same_of_every_invocation() -> None:
    """The reader of old logs in `live` shares no code with the adapter."""
    (source,) = ADAPTER.discover(ROOT)
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    log = read_skills(Path(source.path))
    # A record of an unknown kind is an entry there.
    theirs = [entry for entry in log.entries if entry.skill != "unknown"]
    assert [event.tool for event in found.events if event.native == "skill.started"] == [
        entry.skill for entry in theirs
    ]
    ours = [
        (event.native or "").rpartition("/")[2]
        for event in found.events
        if (event.native or "").startswith("skill.attempt")
    ]
    assert ours == [WORDS[attempt.verified] for entry in theirs for attempt in entry.attempts]
    failed = [
        event.is_error
        for event in found.events
        if (event.native or "").startswith("skill.finished")
    ]
    assert failed == [entry.final_status == "fail" for entry in theirs]
    times = [event.ts for event in found.events if event.native == "skill.started"]
    assert times == [entry.timestamp for entry in theirs]


def test_only_logs_of_skills_are_read() -> None:
    assert [
        Path(source.path).relative_to(ROOT).as_posix() for source in ADAPTER.discover(ROOT)
    ] == ["sessions/shop-42.jsonl"]
    assert [Path(source.path).name for source in ADAPTER.discover(ROOT / "sessions")] == [
        "shop-42.jsonl"
    ]


def test_it_is_read_where_the_config_says_and_an_entry_that_is_added_is_read_alone(
    tmp_path: Path,
) -> None:
    assert ADAPTER.find_roots({}) == []
    log = tmp_path / "brain/sessions/one.jsonl"
    log.parent.mkdir(parents=True)
    entry = {
        "session_id": "one",
        "timestamp": "2026-05-02T09:00:00Z",
        "skill": "tier",
        "final_status": "ok",
    }
    log.write_text(json.dumps(entry) + "\n")
    store = open_store(str(tmp_path / "store.db"))
    pipeline.sync(store, config.load(), agents=["hyperguild"], roots=[str(tmp_path / "brain")])
    size = log.stat().st_size
    with log.open("a") as file:
        file.write(
            json.dumps({**entry, "timestamp": "2026-05-02T09:01:00Z", "final_status": "error"})
            + "\n"
        )
    (source,) = ADAPTER.discover(tmp_path / "brain")
    assert len(list(ADAPTER.read(source, ADAPTER.position(source, size, 1)))) == 1
    report = pipeline.sync(
        store, config.load(), agents=["hyperguild"], roots=[str(tmp_path / "brain")]
    )
    assert not report.problems
    assert [event.summary for event in store.sessions.events("hyperguild:one")][1::2] == [
        "skill tier: ok",
        "skill tier: error",
    ]
    store.close()
