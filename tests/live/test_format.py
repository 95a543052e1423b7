"""The format of a log, for programs in other languages: the schema, the logs to test with, and a
writer in another language."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from runlore.live import LiveSession, SessionStore
from runlore.live.format import PAYLOADS, schema

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
GOLDEN = sorted(path.name for path in (HERE / "golden").iterdir())
VALIDATOR = jsonschema.Draft202012Validator(schema())


def lines_of(folder: Path) -> list[Any]:
    """Return the lines as anyone's JSON reader has them."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_bytes().split(b"\n")[:-1]]


def summary(session: LiveSession) -> dict[str, Any]:
    """Return what a reader in any language should come to."""
    return {
        "title": session.meta.title,
        "messages": session.messages(repaired=False),
        "types": [record.type for record in session.records()],
        "seqs": [record.seq for record in session.records()],
        "problems": [[one.offset, one.lost] for one in session.check()],
        "status": session.state.status,
        "open_calls": [[call.call_id, call.fate] for call in session.recover().calls],
        "skills": [[entry.skill, entry.final_status] for entry in session.skills.entries()],
    }


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_log_is_read_as_expected(name: str, tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / name, tmp_path / name)
    with SessionStore(tmp_path) as store, store.open(name, readonly=True) as session:
        seen = json.loads(json.dumps(summary(session)))
    expected = HERE / "golden" / name / "expected.json"
    if os.environ.get("REGENERATE"):
        expected.write_text(json.dumps(seen, indent=1) + "\n")
    assert seen == json.loads(expected.read_text())


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_log_goes_on_where_it_ends(name: str, tmp_path: Path) -> None:
    shutil.copytree(HERE / "golden" / name, tmp_path / name)
    with SessionStore(tmp_path) as store, store.open(name) as session:
        record = session.append({"role": "user", "content": "more"})
        assert record.seq > max(record.seq for record in session.tail(2)[:1])
        assert session.messages(repaired=False)[-1] == {"role": "user", "content": "more"}
    assert (tmp_path / name / "log.jsonl").read_bytes().endswith(b"}\n")


@pytest.mark.parametrize("name", GOLDEN)
def test_every_line_of_a_golden_log_fits_the_schema(name: str) -> None:
    for line in lines_of(HERE / "golden" / name):
        VALIDATOR.validate(line)


def test_there_is_a_golden_record_of_every_type() -> None:
    types = set()
    for name in GOLDEN:
        for line in lines_of(HERE / "golden" / name):
            types |= {record["t"] for record in line.get("b", [line])}
    by_hand = {"state.adopted", "state.cancelled", "state.heartbeat", "state.recovered"}
    assert set(PAYLOADS) - types <= by_hand | {"clear", "deleted", "restored"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": -1},
        {"n": "1"},
        {"i": ""},
        {"t": ""},
        {"p": []},
        {"k": 3},
        {"e": 0},
        {"c": "XYZ"},
        {"t": "message", "p": {"role": "user"}},
        {"t": "rewind", "p": {"seq": -2}},
        {"t": "tool_started", "p": {"call_id": "a", "replay": "maybe"}},
        {"t": "state.progress", "p": {"tokens": "many"}},
        {"t": "lease", "p": {}},
    ],
)
def test_the_schema_refuses_what_is_no_record(wrong: dict[str, Any]) -> None:
    line = {"n": 1, "i": "18a0", "d": "2026-11-18T20:00:00Z", "t": "note", "p": {}}
    VALIDATOR.validate(line)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**line, **wrong})


def test_the_page_names_every_type_and_the_schema_is_there() -> None:
    page = (DOCS / "live-format.md").read_text()
    for type in PAYLOADS:
        family = type.partition(".")[0]
        assert f"`{type}`" in page or f"`{family}.…`" in page
    assert json.loads((DOCS / "live-format.schema.json").read_text()) == json.loads(
        json.dumps(schema())
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here")
def test_a_program_for_node_appends_and_reads(tmp_path: Path) -> None:
    program = subprocess.run(
        ["node", str(DOCS / "examples/live_log.mjs"), str(tmp_path / "store"), "chat-7"],
        env={**os.environ, "RUNLORE": f"{sys.executable} -m runlore"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    shown = [line.split(" ", 2)[:2] for line in program.stdout.splitlines()]
    assert shown == [["0", "session"], ["1", "message"], ["2", "message"], ["3", "my.note"]]
    with SessionStore(tmp_path / "store") as store, store.open("chat-7") as session:
        assert [message["content"] for message in session.messages()] == [
            "Name a colour. ü€😀",
            "Red.",
        ]
        assert not session.check()
