"""Files of JSON lines, whatever agent wrote them."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.adapters import Position, Record, Source
from runlore.adapters.shared import jsonl
from runlore.adapters.shared.jsonl import (
    MALFORMED,
    JsonlAdapter,
    lenient,
    parse,
    read_small,
    to_json,
    values_of,
)
from runlore.adapters.shared.sqlite import SqliteAdapter
from runlore.errors import ReadError


class Plain(JsonlAdapter):
    name = "plain"
    label = "Plain"
    version = 1
    roots = ("$PLAIN_DIR/logs", "~/.plain", "$XDG_CONFIG_HOME/plain", "~/.config/plain")


class Marked(Plain):
    markers = (b"<see>",)

    def sidecars(self, source: Source) -> Iterator[Record]:
        yield Record(b"first", -1, "note")

    def sidecars_of_line(self, source: Source, line: bytes) -> Iterator[Record]:
        yield Record(b"file", -1, "seen")


def source_of(path: Path) -> Source:
    (found,) = [source for source in Plain().discover(path.parent) if source.path == str(path)]
    return found


def lines_of(path: Path, offset: int | None = None) -> list[bytes]:
    adapter, source = Plain(), source_of(path)
    since = None if offset is None else adapter.position(source, offset, 0)
    return [record.data for record in adapter.read(source, since)]


def test_a_variable_that_is_set_replaces_the_usual_places(home: Path) -> None:
    adapter = Plain()
    assert adapter.find_roots({}) == [home / ".plain", home / ".config/plain"]
    assert adapter.find_roots({"XDG_CONFIG_HOME": "/x"}) == [home / ".plain", Path("/x/plain")]
    assert adapter.find_roots({"PLAIN_DIR": "/a, ~/b ,,/a"}) == [Path("/a/logs"), home / "b/logs"]
    assert adapter.find_roots({"PLAIN_DIR": ""}) == [home / ".plain", home / ".config/plain"]


def test_discovery_is_sorted_and_sees_only_files(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "b/1.jsonl", "a.jsonl", "c/folder.jsonl/x.jsonl", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "linked.jsonl").symlink_to(tmp_path / "a.jsonl")
    found = [
        Path(source.path).relative_to(tmp_path).as_posix() for source in Plain().discover(tmp_path)
    ]
    assert found == ["a.jsonl", "b/1.jsonl", "b/2.jsonl", "c/folder.jsonl/x.jsonl", "linked.jsonl"]


def test_discovery_does_not_run_in_circles(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/1.jsonl").write_text("")
    (tmp_path / "real/again").symlink_to(tmp_path)
    (tmp_path / "root").symlink_to(tmp_path / "real")
    assert [Path(source.path).name for source in Plain().discover(tmp_path / "root")] == ["1.jsonl"]


def test_folders_may_be_nested_deeper_than_python_calls(tmp_path: Path) -> None:
    folder = tmp_path / "/".join(["d"] * 1100)
    here = os.getcwd()
    os.chdir(tmp_path)  # Neither made nor taken away at once: what does that calls itself for each.
    try:
        for _ in range(1100):
            os.mkdir("d")
            os.chdir("d")
        Path("1.jsonl").touch()
        (tmp_path / "e.jsonl").touch()
        found = [source.path for source in Plain().discover(tmp_path)]
        os.unlink("1.jsonl")
        for _ in range(1100):
            os.chdir("..")
            os.rmdir("d")
    finally:
        os.chdir(here)
    assert found == [str(folder / "1.jsonl"), str(tmp_path / "e.jsonl")]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are always Unicode here")
def test_a_name_that_cannot_be_written_down_is_left_out(tmp_path: Path) -> None:
    for name in (b"\xff.jsonl", b"\xff/1.jsonl", b"good.jsonl", "é.jsonl".encode()):
        path = os.path.join(os.fsencode(tmp_path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb"):
            pass
    assert [Path(source.path).name for source in Plain().discover(tmp_path)] == [
        "good.jsonl",
        "é.jsonl",
    ]


def test_a_missing_root_has_no_sources(tmp_path: Path) -> None:
    assert list(Plain().discover(tmp_path / "nowhere")) == []


def found_and_refused(
    adapter: JsonlAdapter | SqliteAdapter, root: Path
) -> tuple[list[str], list[tuple[str, str]]]:
    """The names of what is found below a root, and what could not be looked at."""
    found = [os.path.relpath(source.path, root) for source in adapter.discover(root)]
    return found, [(os.path.relpath(error.path, root), error.reason) for error in adapter.refused]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="root may read everything, and Windows has other rights",
)
def test_a_folder_without_the_right_to_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir(mode=0)
    (tmp_path / "1.jsonl").write_text("")
    assert found_and_refused(Plain(), tmp_path) == (["1.jsonl"], [("secret", "permission denied")])


def test_a_folder_that_cannot_be_listed_is_told_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/1.jsonl", "b/2.jsonl", "c/3.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    plain = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("a"):
            raise PermissionError(13, "Permission denied", path)
        if path.endswith("c"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return plain(path)

    monkeypatch.setattr("os.scandir", scandir)
    adapter = Plain()
    assert found_and_refused(adapter, tmp_path) == (["b/2.jsonl"], [("a", "permission denied")])
    assert found_and_refused(adapter, tmp_path / "b") == (["2.jsonl"], [])


def test_a_root_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").touch()
    assert found_and_refused(Plain(), tmp_path / "1.jsonl") == ([], [(".", "not a directory")])


class Base(SqliteAdapter):
    name = "base"
    files = ("one.db", "two.db")

    def follows(self, source: Source, since: Position) -> bool:
        raise AssertionError("it is only looked for")

    def position(self, source: Source, offset: int, records: int) -> Position:
        raise AssertionError("it is only looked for")

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        raise AssertionError("it is only looked for")


def test_a_database_that_cannot_be_looked_at_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in Base.files:
        (tmp_path / name).write_bytes(b"x")
    assert found_and_refused(Base(), tmp_path) == (["one.db", "two.db"], [])
    assert found_and_refused(Base(), tmp_path / "nowhere") == ([], [])
    plain = os.stat

    def stat(path: str, **how: object) -> object:
        if str(path).endswith("one.db"):
            raise PermissionError(13, "Permission denied", path)
        return plain(path, **how)  # type: ignore[arg-type]

    monkeypatch.setattr("os.stat", stat)
    assert found_and_refused(Base(), tmp_path) == (["two.db"], [("one.db", "permission denied")])


def test_a_thousand_files_are_found_quickly(tmp_path: Path) -> None:
    for n in range(1000):
        folder = tmp_path / f"{n % 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"{n}.jsonl").touch()
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        assert len(list(Plain().discover(tmp_path))) == 1000
        best = min(best, time.process_time() - start)
    assert best < 0.05  # 4 ms on a quiet machine


def test_complete_lines_are_read_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\r\n\n{"b":2}\n{"still being wri')
    records = list(Plain().read(source_of(path), None))
    assert [(record.offset, record.data, record.end) for record in records] == [
        (0, b'{"a":1}\r', 9),
        (9, b"", 10),
        (10, b'{"b":2}', 18),
    ]
    assert lines_of(path, 10) == [b'{"b":2}']


@given(
    st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    st.binary(max_size=9),
    st.integers(1, 40),
)
def test_reading_does_not_depend_on_the_size_of_chunks(
    lines: list[bytes], rest: bytes, chunk: int
) -> None:
    content = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    path = Path(os.environ["HOME"]) / "chunks.jsonl"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "CHUNK_BYTES", chunk)
        records = list(Plain().read(source_of(path), None))
    assert [record.data for record in records] == lines
    assert all(content[record.offset : record.end] == record.data + b"\n" for record in records)


def test_a_line_that_is_too_long_is_named_and_reading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", 7)
    monkeypatch.setattr(jsonl, "MAX_RECORD_BYTES", 20)
    monkeypatch.setattr(jsonl, "SHORTENED_BYTES", 5)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n" + b"x" * 50 + b"\ntwo\n" + b"y" * 20 + b"\n" + b"z" * 90)
    records = list(Plain().read(source_of(path), None))
    assert [(record.data, record.problem) for record in records] == [
        (b"one", None),
        (b"xxxxx", "too long (0 MB)"),
        (b"two", None),
        (b"y" * 20, None),
    ]
    assert [record.end for record in records] == [4, 55, 59, 80]


def test_small_files_come_before_what_they_belong_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", 6)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo <see>\nthree\n<see><see>\n")
    adapter, source = Marked(), source_of(path)
    first = [(record.sidecar or "", record.data) for record in adapter.read(source, None)]
    assert first[:4] == [("note", b"first"), ("", b"one"), ("seen", b"file"), ("", b"two <see>")]
    assert first[4:] == [("", b"three"), ("seen", b"file"), ("", b"<see><see>")]
    later = [record.sidecar for record in adapter.read(source, adapter.position(source, 4, 1))]
    assert later == ["seen", None, None, "seen", None]


def test_a_file_that_grew_follows_and_one_that_changed_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 9000 + b"\n" + b"y" * 9000 + b"\n")
    adapter, source = Plain(), source_of(path)
    since = adapter.position(source, 9001, 1)
    assert adapter.follows(source, since)
    path.write_bytes(b"x" * 9000 + b"\n" + b"z" * 20000)
    assert adapter.follows(source, since)
    path.write_bytes(b"x" * 9000)
    assert not adapter.follows(source, since)
    path.write_bytes(b"X" + b"x" * 8999 + b"\n")
    assert not adapter.follows(source, since)
    path.write_bytes(b"x" * 8999 + b"X\n")
    assert not adapter.follows(source, since)
    path.unlink()
    assert not adapter.follows(source, since)


def test_a_file_that_has_gone_is_a_read_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    source = source_of(path)
    path.unlink()
    with pytest.raises(ReadError, match="no such file"):
        list(Plain().read(source, None))
    with pytest.raises(ReadError, match="no such file"):
        Plain().position(source, 0, 0)


def test_a_file_that_shrinks_while_being_read_just_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", 8)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1234567\n" * 100)
    reading = Plain().read(source_of(path), None)
    assert next(reading).data == b"1234567"
    path.write_bytes(b"")
    assert list(reading) == []


def test_only_small_regular_files_are_read_beside(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "windows").write_bytes(b"1\r\n\x1a2")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    assert read_small(str(tmp_path / "a"), 5) == b"12345"
    assert read_small(str(tmp_path / "windows"), 5) == b"1\r\n\x1a2"
    assert read_small(str(tmp_path / "a"), 4) is None
    assert read_small(str(tmp_path / "link"), 5) is None
    assert not read_small(str(tmp_path / "pipe"), 5)
    assert read_small(str(tmp_path), 5) is None
    assert read_small(str(tmp_path / "nowhere"), 5) is None


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b"", []),
        (b" \t\r\0\xef\xbb\xbf", []),
        (b'\xef\xbb\xbf{"a":1}', [{"a": 1}]),
        (b'{"a":1}{"b":2} [3]', [{"a": 1}, {"b": 2}, [3]]),
        (b'{"a":"\x00\t"}', [{"a": "\0\t"}]),
        (b'{"a":"\\ud800","\\udfff":["\\ud83d\\ude00"]}', [{"a": "\ufffd", "\ufffd": ["😀"]}]),
        (b'{"a":"\xff"}', [{"a": "\ufffd"}]),
        (b'{"a":NaN,"b":-Infinity,"c":1e999}', [{"a": "NaN", "b": "-Infinity", "c": "1e999"}]),
        (b"12345678901234567890123", [12345678901234567890123]),
        (b"9" * 5000, ["9" * 5000]),
        (b'{"a":1} x', [{"a": 1}, MALFORMED]),
        (b"[" * 100_000, [MALFORMED]),
        (b"[" * 100 + b"]" * 100, [json.loads("[" * 100 + "]" * 100)]),
        (b"[" * 102 + b"]" * 102 + b"7", [MALFORMED, 7]),
        (b'{"a":' * 500 + b'"\\ud800"' + b"}" * 500, [MALFORMED]),
        (b"\0" * 3_000_000 + b"1", [1]),
        (b"{}" * 10_001, [*[{}] * 10_000, MALFORMED]),
    ],
)
def test_everything_that_can_be_had_of_a_line_is(line: bytes, values: list[object]) -> None:
    assert [value for value, _, _ in parse(line)] == values


@given(st.binary(max_size=300))
def test_parsing_raises_nothing_and_gives_valid_text(line: bytes) -> None:
    for value, text, _ in parse(line):
        assert text.encode("utf-8")
        assert value is MALFORMED or msgspec.json.encode(value)
    values = values_of(line)
    assert values is None or values_of(b" ".join(map(to_json, values))) == values


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b'{"a":"\xff"}', [{"a": "\ufffd"}]),
        (b'{"a":"\\ud800 \\u0041"}', [{"a": "\ufffd A"}]),
        (b'{"a":"\x00"}1 2', [{"a": "\0"}, 1, 2]),
        (b"", []),
        (b'{"a":1} x', None),
        (b"[" * 5000 + b"]" * 5000, None),
    ],
)
def test_the_values_of_a_line_are_all_of_them_or_none(
    line: bytes, values: list[object] | None
) -> None:
    assert values_of(line) == values


class Inner(msgspec.Struct):
    word: str | None = None
    items: "list[Inner] | str | None" = None


class Outer(msgspec.Struct):
    inner: Inner | None = None
    number: int = 5
    rest: msgspec.Raw = msgspec.Raw()


def test_a_value_that_does_not_fit_takes_its_default_and_the_others_stay() -> None:
    data = {
        "inner": {"word": 7, "items": [{"word": "a"}, "?", {"items": "b"}]},
        "number": "six",
        "rest": [1],
        "unknown": 1,
    }
    value, problems = lenient(Outer, data)
    assert value.inner == Inner(items=[Inner(word="a"), Inner(), Inner(items="b")])
    assert value.number == 5
    assert bytes(value.rest) == b"[1]"
    assert problems == ["inner.word is a number", "inner.items[1] is a text", "number is a text"]
    assert lenient(Outer, {"inner": None, "number": None})[1] == ["number is null"]


@pytest.mark.parametrize("depth", [10, 300, 900])
def test_nesting_without_end_takes_a_default_or_a_note(depth: int) -> None:
    data: dict[str, object] = {"word": "end"}
    for _ in range(depth):
        data = {"items": [data], "word": "x"}
    value, problems = lenient(Inner, data)
    assert value.word == "x"
    assert bool(problems) is (depth > 10)
    for _ in range(100_000):
        data = {"items": [data]}
    assert b"nested too deeply" in to_json(data) or len(to_json(data)) > 100_000
