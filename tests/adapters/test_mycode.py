"""What mycode's adapter promises beyond what its fixtures show."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from runlore import config, query
from runlore.adapters import Normalized, Record, Source, get
from runlore.store import Store
from runlore.sync import pipeline
from runlore.timeline import active, model_context

ADAPTER = get("mycode")
FIXTURES = Path(__file__).parent / "fixtures/mycode"
FIRST, LATER, SDK = (
    "mycode:0aa1b2c3d4e5f60718293a4b5c6d7e8f",
    "mycode:1bb1b2c3d4e5f60718293a4b5c6d7e8f",
    "mycode:by-an-sdk",
)


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["mycode"], roots=[str(root)])
    assert not report.problems
    return report


def context(store: Store, uid: str) -> list[str]:
    """What the model was given last."""
    events, bodies = store.sessions.events(uid), store.sessions.bodies(uid)
    return [bodies[seen.event.seq] for seen in model_context(events, events[-1].seq)]


def read(*lines: dict[str, Any], carry: bytes | None = None) -> Normalized:
    source = Source(agent="mycode", path="/s/one/messages.jsonl", root="/s", size=0, mtime_ns=0)
    return ADAPTER.normalize(
        source,
        [Record(json.dumps(line).encode(), n, None, None, n + 1) for n, line in enumerate(lines)],
        carry,
    )


def said(role: str, text: str, **meta: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], "meta": meta}


def test_what_was_rewound_is_kept_and_not_seen(store: Store) -> None:
    sync(store, FIXTURES / "later/root")
    lines = {event.summary for event in active(store.sessions.events(LATER))}
    assert "You may write it, without a search" in lines
    assert "You may write it now" not in lines
    assert "You may write it now" in {event.summary for event in store.sessions.events(LATER)}


def test_a_session_that_was_rewound_to_nothing_begins_anew(store: Store) -> None:
    sync(store, FIXTURES / "later/root")
    assert context(store, SDK) == ["Say good day", "Good day."]


def test_a_compaction_of_format_5_is_two_messages_of_the_list(store: Store) -> None:
    sync(store, FIXTURES / "format5/root")
    seen = context(store, FIRST)
    assert seen[:2] == ["The total was corrected, and so was its test.", "Now the sales tax"]
    assert "Now the tax" not in seen


def test_a_later_rewind_goes_back_over_a_compaction() -> None:
    at = "2026-09-20T10:00:00+00:00"
    found = read(
        said("user", "a", created_at=at), said("assistant", "b", created_at=at),
        said("compact", "sum", trigger="auto", created_at=at),
        said("user", "c", created_at=at),
        {"role": "rewind", "meta": {"rewind_to": 2, "created_at": at}},
        said("user", "d", created_at=at),
    )  # fmt: skip
    by_body = dict(zip(found.bodies, found.events, strict=True))
    parents = dict(zip(found.bodies, found.parents, strict=True))
    assert parents["d"] == by_body["b"].native_id


def test_an_output_that_was_put_away_is_read_whole() -> None:
    (source,) = [
        source for source in ADAPTER.discover(FIXTURES / "later/root") if "1bb1" in source.path
    ]
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    (body,) = [
        body
        for event, body in zip(found.events, found.bodies, strict=True)
        if event.call_id == "d1" and not event.is_call
    ]
    assert body.count("\n") == 3


def test_a_call_that_is_named_like_a_path_opens_no_file(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "later/root/by-an-sdk", tmp_path / "one")
    (tmp_path / "secret.log").write_text("secret")
    for name in ("../../secret", "x/../../../secret"):
        line = {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": name, "output": "shown", "is_error": False}
            ],
        }
        with (tmp_path / "one/messages.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
    (source,) = ADAPTER.discover(tmp_path)
    assert not [record for record in ADAPTER.read(source, None) if record.sidecar is not None]


def test_a_session_that_was_cleared_and_begun_again_has_other_names() -> None:
    before = read(said("user", "one"), said("assistant", "two"))
    after = read(said("user", "three"), said("assistant", "two"))
    assert not {event.native_id for event in before.events} & {
        event.native_id for event in after.events
    }


def test_only_what_is_new_is_read_when_a_session_goes_on(store: Store, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "later/root", tmp_path / "sessions")
    sync(store, tmp_path / "sessions")
    path = tmp_path / "sessions/by-an-sdk/messages.jsonl"
    before = path.stat().st_size
    with path.open("a") as file:
        file.write(
            json.dumps(said("user", "And good night", created_at="2026-09-20T11:00:00+00:00"))
            + "\n"
        )
    os.utime(path)
    (source,) = [
        source for source in ADAPTER.discover(tmp_path / "sessions") if "by-an-sdk" in source.path
    ]
    since = ADAPTER.position(source, before, 5)
    assert ADAPTER.follows(source, since)
    assert len(list(ADAPTER.read(source, since))) == 1
    sync(store, tmp_path / "sessions")
    assert context(store, SDK)[-1] == "And good night"


def test_the_format_that_is_told_beside_the_messages_is_shown(store: Store) -> None:
    sync(store, FIXTURES / "format5/root")
    (seen,) = [
        agent.version_seen for agent in query.agents(store, config.load()) if agent.name == "mycode"
    ]
    assert seen == "5"
