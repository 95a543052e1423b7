"""Hostile and broken transcripts through a whole sync: a clear message or a counted skip, never a
lost good record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore import config
from runlore.adapters.shared import jsonl
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline

SESSION = "11111111-2222-4333-8444-555555555555"
UID = f"claude:{SESSION}"


def said(number: int, text: str = "", **changes: Any) -> bytes:
    """A prompt in the agent's format; the good records around the bad ones."""
    record = {
        "type": "user",
        "uuid": f"{number:08d}-0000-4000-8000-000000000000",
        "parentUuid": f"{number - 1:08d}-0000-4000-8000-000000000000" if number else None,
        "sessionId": SESSION,
        "timestamp": f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}.000Z",
        "isSidechain": False,
        "cwd": "/work/app",
        "message": {"role": "user", "content": text or f"prompt {number}"},
    }
    return json.dumps(record | changes).encode()


@pytest.fixture
def file(home: Path) -> Path:
    folder = home / ".claude" / "projects" / "-work-app"
    folder.mkdir(parents=True)
    return folder / f"{SESSION}.jsonl"


@pytest.fixture
def store() -> Iterator[Store]:
    made = open_store(config.load().store)
    yield made
    made.close()


def sync(store: Store) -> pipeline.Report:
    return pipeline.sync(store, config.load(), agents=["claude"])


def prompts(store: Store) -> list[str]:
    bodies = store.sessions.bodies(UID)
    return [bodies[event.seq] for event in store.sessions.events(UID) if event.kind == "user_msg"]


BAD = {
    "invalid UTF-8": said(1, "x").replace(b'"x"', b'"\xff\xfe bad"'),
    "NULs": b"\0" * 64,
    "a NUL in a text": said(1).replace(b"prompt 1", b"prompt\\u0000 1"),
    "a lone surrogate": said(1).replace(b"prompt 1", b"half \\ud83d of it"),
    "not JSON": b"{not json at all",
    "a number": b"42",
    "a list": b"[1, 2]",
    "null": b"null",
    "an empty object": b"{}",
    "an empty line": b"",
    "blanks": b"   \t ",
    "deep nesting": b'{"type":"user","message":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}",
    "deep lists": b"[" * 10_000 + b"]" * 10_000,
    "an endless number": said(1).replace(b'"isSidechain": false', b'"isSidechain": ' + b"9" * 5000),
    "an unknown type": said(1, type="never-heard-of"),
    "no type": said(1, type=None),
    "a message that is a text": said(1, message="hello"),
    "content that is a number": said(1, message={"role": "user", "content": 17}),
    "blocks that are none": said(
        1, message={"role": "user", "content": [1, None, "x", [], {"type": 5}]}
    ),
    "a time that is none": said(1, timestamp="yesterday"),
    "a number for a time": said(1, timestamp=12),
    "terminal escapes": said(1, "\x1b[31mred\x1b]0;title\x07"),
    "two objects glued together": said(1) + said(9),
    "a byte order mark": b"\xef\xbb\xbf" + said(1),
    "a wrong session id": said(1, sessionId="../../etc/passwd"),
    "its own parent": said(1, parentUuid="00000001-0000-4000-8000-000000000000"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_costs_no_good_one(name: str, file: Path, store: Store) -> None:
    file.write_bytes(b"\n".join([said(0), BAD[name], said(2), b""]))
    report = sync(store)
    assert report.problems == []
    found = prompts(store)
    assert (found[0], found[-1]) == ("prompt 0", "prompt 2")
    lines = [n for n, _, _ in store.sources.native_records(str(file))]
    assert lines == [0, 1, 2], "every record is kept as it was"
    assert sync(store).found == {"unchanged": 1}


@pytest.mark.parametrize("depth", [100, 101, 300, 500, 950, 1000, 5000])
@pytest.mark.parametrize("end", [b'"end"', b'"\\ud800"'], ids=["sound", "surrogate"])
@pytest.mark.parametrize("where", ["toolUseResult", "attachment", "input", "content", "unknown"])
def test_a_record_nested_deeply_costs_no_good_one(
    where: str, end: bytes, depth: int, file: Path, store: Store
) -> None:
    opened, closed = (
        (b'[{"type":"tool_result","content":', b"}]") if where == "content" else (b'{"a":', b"}")
    )
    blocks = [{"type": "tool_use", "name": "X", "input": {"deep": 0}}]
    line = {
        "toolUseResult": said(1, toolUseResult=0).replace(
            b'"toolUseResult": 0', b'"toolUseResult": DEEP'
        ),
        "attachment": said(
            1, type="attachment", attachment={"type": "hook_success", "content": ["deep"]}
        ).replace(b'"deep"', b"DEEP"),
        "input": said(
            1, type="assistant", message={"role": "assistant", "content": blocks}
        ).replace(b'"deep": 0', b'"deep": DEEP'),
        "content": said(1, message={"role": "user", "content": 0}).replace(
            b'"content": 0', b'"content": DEEP'
        ),
        "unknown": said(1, type="unknown", deep=0).replace(b'"deep": 0', b'"deep": DEEP'),
    }[where]
    file.write_bytes(
        b"\n".join(
            [said(0), line.replace(b"DEEP", opened * depth + end + closed * depth), said(2), b""]
        )
    )
    report = sync(store)
    assert report.problems == []
    found = prompts(store)
    assert (found[0], found[-1]) == ("prompt 0", "prompt 2")
    assert len(store.sessions.events(UID)) == 3


@pytest.mark.parametrize("field", sorted(json.loads(said(1))))
@pytest.mark.parametrize("value", [None, 17, 1.5, "x", [], {}, True, ["x", {"a": 1}]], ids=repr)
def test_a_wrong_type_in_any_field_loses_no_other_record(
    field: str, value: Any, file: Path, store: Store
) -> None:
    file.write_bytes(b"\n".join([said(0), said(1, **{field: value}), said(2), b""]))
    assert sync(store).problems == []
    kept = [
        text
        for line in store.sessions.select(Filter(parents_only=False))
        for text in store.sessions.bodies(line.uid).values()
    ]
    assert {"prompt 0", "prompt 2"} <= set(kept)


def test_a_line_of_more_than_the_limit_is_named_and_passed_over(
    file: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_RECORD_BYTES", 1 << 20)
    file.write_bytes(b"\n".join([said(0), said(1, "x" * (3 << 20)), said(2), b""]))
    report = sync(store)
    assert prompts(store) == ["prompt 0", "prompt 2"]
    assert report.skipped == {"too long (3 MB)": 1}


def test_a_line_of_a_hundred_megabytes_does_not_stop_a_sync(file: Path, store: Store) -> None:
    with file.open("wb") as out:
        out.write(said(0) + b"\n" + said(1, "")[:-3])
        for _ in range(100):
            out.write(b"x" * (1 << 20))
        out.write(b'"}}\n' + said(2) + b"\n")
    report = sync(store)
    assert prompts(store) == ["prompt 0", "prompt 2"]
    assert list(report.skipped) == ["too long (100 MB)"]


def test_the_last_bytes_without_a_newline_are_not_an_error(file: Path, store: Store) -> None:
    file.write_bytes(said(0) + b"\n" + said(1)[:50])
    report = sync(store)
    assert (prompts(store), report.skipped) == (["prompt 0"], {})


def test_an_id_that_comes_twice_is_one_event(file: Path, store: Store) -> None:
    file.write_bytes(b"\n".join([said(0), said(0), said(1), b""]))
    report = sync(store)
    assert (prompts(store), report.copies) == (["prompt 0", "prompt 1"], 1)


def test_a_clock_that_goes_backwards_changes_no_order(file: Path, store: Store) -> None:
    file.write_bytes(b"\n".join([said(0), said(1, timestamp="2020-01-01T00:00:00Z"), said(2), b""]))
    sync(store)
    assert prompts(store) == ["prompt 0", "prompt 1", "prompt 2"]
    session = store.sessions.get(UID)
    assert session is not None
    assert session.cost.wall_clock_s >= 0


def test_folders_links_and_pipes_named_like_transcripts_are_passed_over(
    file: Path, store: Store
) -> None:
    file.write_bytes(said(0) + b"\n")
    (file.parent / "folder.jsonl").mkdir()
    (file.parent / "broken.jsonl").symlink_to("nowhere")
    (file.parent / "circle").symlink_to(file.parent, target_is_directory=True)
    if hasattr(os, "mkfifo"):
        os.mkfifo(file.parent / "pipe.jsonl")
    report = sync(store)
    assert (report.problems, prompts(store)) == ([], ["prompt 0"])


def test_a_file_that_vanishes_while_it_is_read_is_a_problem_not_a_crash(
    file: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runlore import adapters

    file.write_bytes(said(0) + b"\n")
    adapter = adapters.get("claude")
    sources = list(adapter.discover(file.parent))
    monkeypatch.setattr(adapter, "discover", lambda root: iter(sources))
    file.unlink()
    assert [path for path, _ in sync(store).problems] == [str(file)]


def test_a_store_from_the_future_is_not_touched(store: Store) -> None:
    from runlore.errors import StoreTooNew

    store.db.connection.pragma("user_version", 999)  # type: ignore[attr-defined]
    store.close()
    with pytest.raises(StoreTooNew, match="update runlore"):
        open_store(config.load().store)


def test_a_file_that_is_no_store_is_said_in_one_line(home: Path) -> None:
    from runlore.errors import StoreError

    path = home / "not-a-store.db"
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        open_store(str(path))
    assert path.read_bytes() == b"this is no database" * 1000


def test_a_database_of_something_else_is_left_alone(home: Path) -> None:
    import apsw

    from runlore.errors import StoreError

    other = apsw.Connection(str(home / "other.db"))
    other.execute("create table theirs (a)")
    other.close()
    before = (home / "other.db").read_bytes()
    with pytest.raises(StoreError, match="something else"):
        open_store(str(home / "other.db"))
    assert (home / "other.db").read_bytes() == before


KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize(
    "line",
    [
        said(1, f"use {KEY} here"),
        said(1, f"use {KEY} here").replace(b"use ", b"use \\ud83d "),
        said(1, f"use {KEY} here").replace(b"use ", b"use \xff "),
        said(1, f"use {KEY} here") + said(9),
        said(1, f"use {KEY} here").replace(b"ghp_", b"\\u0067hp_"),
        said(1, "x" * 140 + f" {KEY}"),
        b"not json at all " + KEY.encode(),
        said(1, gitBranch=f"fix/{KEY}"),
        said(1, cwd=f"/work/{KEY}"),
    ],
    ids=[
        "plain",
        "surrogate",
        "bytes",
        "glued",
        "escaped",
        "cut by the summary",
        "no JSON",
        "branch",
        "folder",
    ],
)
def test_a_secret_is_found_however_the_line_is_written(
    line: bytes, file: Path, store: Store
) -> None:
    file.write_bytes(b"\n".join([said(0), line, said(2), b""]))
    sync(store)
    session = store.sessions.get(UID)
    records = list(store.sources.native_records(str(file)))
    held = f"{session}{store.sessions.events(UID)}{store.sessions.bodies(UID)}{records}"
    held += "".join(
        path.read_bytes().decode("latin-1") for path in Path(store.url).parent.glob("runlore.db*")
    )
    assert KEY not in held
    assert KEY[:24] not in held
