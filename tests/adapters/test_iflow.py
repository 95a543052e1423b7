"""What iFlow's adapter promises beyond what its fixture shows."""

import json
from pathlib import Path

import msgspec

from runlore.adapters import get
from runlore.testing import iter_fixtures

ADAPTER = get("iflow")
(FIXTURE,) = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if fixture.agent == "iflow"
]


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    (whole,) = FIXTURE.root.rglob("*.jsonl")
    lines = whole.read_bytes().splitlines(keepends=True)
    path = tmp_path / "p" / whole.name
    path.parent.mkdir()
    path.write_bytes(b"".join(lines[:3]))
    (source,) = ADAPTER.discover(tmp_path)
    first = list(ADAPTER.read(source, None))
    position = ADAPTER.position(source, first[-1].end, len(first))
    path.write_bytes(b"".join(lines))
    assert ADAPTER.follows(source, position)
    assert [record.data for record in ADAPTER.read(source, position)] == [
        line.rstrip(b"\n") for line in lines[3:]
    ]


def test_a_call_that_stands_in_several_lines_is_told_once() -> None:
    (source,) = ADAPTER.discover(FIXTURE.root)
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    calls = [event.call_id for event in found.events if event.is_call]
    assert calls == ["call_1", "call_2", "call_3", "call_4"]
    assert not found.calls
    carry = repr(msgspec.msgpack.decode(found.carry))
    assert not [body for body in found.bodies if len(body) > 20 and body in carry]


def test_a_line_that_was_written_twice_is_one_record() -> None:
    (source,) = ADAPTER.discover(FIXTURE.root)
    lines = [
        json.loads(record.data)
        for record in ADAPTER.read(source, None)
        if record.data.startswith(b"{")
    ]
    assert lines.count(lines[-1]) == 2
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    assert [body for body in found.bodies if body == "Thanks"] == ["Thanks"]
