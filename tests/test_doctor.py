"""Damage of every kind is named, repaired where it can be, and nothing else is changed by it. And
backups."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from runlore import config as settings
from runlore import doctor
from runlore.cli import cli
from runlore.cli.commands.doctor import sign
from runlore.config import Config, SourceConfig
from runlore.errors import StoreBusy, StoreError
from runlore.lessons import Lesson, deliver, rendered_files
from runlore.lessons.shelf import Shelf
from runlore.model import BLOCK
from runlore.store import Filter, Store, open_store
from runlore.store.sqlite import backup
from runlore.sync import pipeline
from tests.toy import Toy, line

WORDS = ("apple", "pear", "parseHttpUrl", "http", "question", "zqiserror")


@pytest.fixture
def config() -> Config:
    return settings.load()


@pytest.fixture
def root(home: Path, toy: Toy) -> Path:
    """Two sessions, the second of which begins with a copy of the first and goes on in a second
    file, and a third."""
    made = home / ".toy"
    made.mkdir()
    first = [
        line(id=f"a{n}", up=f"a{n - 1}" if n else None, text=f"apple {n} " * 4000, tokens=n)
        for n in range(6)
    ]
    first += [
        line(id="a7", up="a5", kind="tool_call", text="parseHttpUrl", call="c"),
        line(title="Apples"),
    ]
    first += [
        line(id="p", up="a7", alias=True),
        line(id="a8", up="p", kind="tool_result", text="no", call="c", error=True),
    ]
    (made / "alpha.jsonl").write_bytes(b"".join(first))
    second = [
        line(
            s="beta", id=f"a{n}", up=f"a{n - 1}" if n else None, text=f"apple {n} " * 4000, tokens=n
        )
        for n in range(2)
    ]
    (made / "beta.jsonl").write_bytes(
        b"".join(second) + line(s="beta", id="b", up="a1", text="a question", at=50)
    )
    (made / "beta2.jsonl").write_bytes(
        line(s="beta", id="b2", up="b", kind="assistant_msg", text="an answer", at=60)
    )
    third = line(s="gamma", id="g", text="pear", at=90) + line(
        s="gamma", id="h", up="g", text="pear tree", at=91
    )
    (made / "gamma.jsonl").write_bytes(third)
    for n, file in enumerate(sorted(made.iterdir())):
        os.utime(file, (1000 + n, 1000 + n))
    return made


@pytest.fixture
def store(config: Config, root: Path) -> Iterator[Store]:
    """The same, synced."""
    with closing(open_store(config.store)) as made:
        pipeline.sync(made, config)
        yield made


def damage(store: Store, sql: str) -> None:
    store.db.execute(sql)  # type: ignore[attr-defined]


def content(store: Store) -> dict[str, Any]:
    """All that is stored, but for when, and for the numbers of segments."""
    found: dict[str, Any] = {}
    names = {}
    for shown in store.sessions.select(Filter(parents_only=False)):
        session = store.sessions.get(shown.uid)
        assert session is not None
        times = dict(ingested_at=None, discovered_at=None, analyzed_at=None)
        events = [
            msgspec.structs.replace(event, payload_ref=None)
            for event in store.sessions.events(shown.uid)
        ]
        found[shown.uid] = (
            msgspec.structs.replace(session, **times),
            events,
            store.sessions.bodies(shown.uid),
        )
        ((number,),) = store.maintenance.rows(
            "select number from sessions where uid = ?", (shown.uid,)
        )
        names[number] = shown.uid
    found["natives"] = sorted(
        (h, names[session], seq)
        for h, session, seq in store.maintenance.rows("select * from natives")
    )
    found["index"] = {
        word: sorted(names[id_ >> 20] for id_ in store.index.postings(word)) for word in WORDS
    }
    found["sources"] = {
        path: (state.position, state.adapter_version)
        for path, state in store.sources.by_path().items()
    }
    found["records"] = {
        path: list(store.sources.native_records(path)) for path in store.sources.by_path()
    }
    found["skips"] = store.sources.skips()
    return found


def failing(report: doctor.Report) -> set[str]:
    return {check.name for check in report.checks if not check.ok}


ALPHA = "(select number from sessions where uid = 'toy:alpha')"
BETA = "(select number from sessions where uid = 'toy:beta')"
SEGMENT = f"(select min(id) from segments where session = {ALPHA})"
SOURCE = "(select number from sources where path like '%alpha.jsonl')"

MENDED_AT_ONCE = {
    "the title of a session": ("update sessions set title = 'other'", {"sessions"}),
    "the count of a session": ("update sessions set events = 99, output_tokens = 1", {"sessions"}),
    "the last event of a session": (
        f"update sessions set last_seq = 1 where number = {ALPHA}",
        {"sessions"},
    ),
    "a native id that is missing": ("delete from natives where seq = 1", {"natives"}),
    "a native id that leads astray": ("update natives set seq = 0 where seq = 1", {"natives"}),
    "a native id of nothing": (f"insert into natives values (77, {ALPHA}, 3000)", {"natives"}),
    "a native id of no session": ("insert into natives values (77, 99, 0)", {"owners"}),
    "a skip of no source": ("insert into skips values (99, 0, 'strange')", {"owners"}),
    "records of no source": ("insert into records values (99, 0, 1, 1, x'00')", {"owners"}),
    "a segment that is not in the index": (
        f"delete from search where rowid = {SEGMENT}",
        {"index"},
    ),
    "an index row without a segment": (
        "insert into search (rowid, prompt) values (9 << 20, 'pear')",
        {"index"},
    ),
    "an index with other words": (
        (
            f"delete from search where rowid = {SEGMENT}; insert into search (rowid, prompt) select"
            f" {SEGMENT}, 'pear http'"
        ),
        {"index"},
    ),
    "an index with a word too many": (
        f"update search set prompt = 'pear', reply = '', tool = '' where rowid = {SEGMENT}",
        {"index"},
    ),
    "an index whose sizes are gone": (
        f"delete from search_docsize where id = {SEGMENT}",
        {"index"},
    ),
    "an index with a word that is no text": (
        (
            "update search_data set block = unhex(replace(hex(block), hex('question'), 'FF' ||"
            " hex('uestion')))"
        ),
        {"index"},
    ),
    "an index that a search cannot enter": ("delete from search_idx", {"index"}),
    "an index that is damaged inside": ("delete from search_data where id > 10", {"index", "file"}),
}
MENDED_BY_SYNC = {
    "a segment with another hash": (
        f"update segments set hash = x'00' where id = {SEGMENT}",
        {"segments"},
    ),
    "a segment that does not unpack": (
        f"update segments set body = x'00' where id = {SEGMENT}",
        {"segments"},
    ),
    "a segment of another length": (
        f"update segments set length = -5 where id = {SEGMENT}",
        {"segments", "bodies"},
    ),
    "a segment that is gone": (f"delete from segments where id = {SEGMENT}", {"bodies", "index"}),
    "segments that overlap": (
        f"update segments set last_seq = last_seq + 1 where id = {SEGMENT}",
        {"bodies"},
    ),
    "a body that lies elsewhere": (
        f'update events set "offset" = "offset" + 1 where session = {ALPHA} and seq = 1',
        {"bodies"},
    ),
    "a body that is gone": (
        f'update events set "offset" = null, length = null where session = {ALPHA} and seq = 3',
        {"bodies"},
    ),
    "an event that is gone": (
        f"delete from events where session = {ALPHA} and seq = 3",
        {"bodies", "parents", "natives", "streams"},
    ),
    "an event that was copied and is gone": (
        f"delete from events where session = {ALPHA} and seq = 1",
        {"copies", "streams"},
    ),
    "an event that nothing remembers": (
        (
            f"delete from events where session = {ALPHA} and seq = 7; delete from natives where"
            f" session = {ALPHA} and seq = 7"
        ),
        {"bodies", "streams"},
    ),
    "all events of a session": (
        f"delete from events where session = {BETA}",
        {"bodies", "natives", "streams"},
    ),
    "an event of another kind": (
        f"update events set kind = 'thinking' where session = {ALPHA} and seq = 2",
        {"streams"},
    ),
    "an event that cannot be read": (
        f"update events set rest = x'c1' where session = {ALPHA} and seq = 2",
        {"streams"},
    ),
    "an event of no time": (
        f"update events set ts = 'noon' where session = {ALPHA} and seq = 2",
        {"streams"},
    ),
    "an event with another native id": (
        f"update events set native_id = 'x' where session = {ALPHA} and seq = 2",
        {"natives"},
    ),
    "an event without its native id": (
        f"update events set native_id = null where session = {ALPHA} and seq = 2",
        {"natives"},
    ),
    "a parent that is not there": (
        f"update events set parent_seq = 4000 where session = {ALPHA} and seq = 2",
        {"parents"},
    ),
    "a parent that comes later": (
        f"update events set parent_seq = 4 where session = {ALPHA} and seq = 2",
        {"parents"},
    ),
    "totals that cannot be read": (
        f"update streams set tally = x'c1' where session = {ALPHA}",
        {"streams"},
    ),
    "totals of something else": (
        f"update streams set tally = x'80' where session = {ALPHA}",
        {"streams", "sessions"},
    ),
    "facts that cannot be read": (
        f"update streams set facts = x'c1' where session = {ALPHA}",
        {"sessions"},
    ),
    "a stream that is gone": (f"delete from streams where session = {ALPHA}", {"owners"}),
    "a stream of the second file": (
        f"delete from streams where session = {BETA} and block = 1",
        {"owners"},
    ),
    "all streams of a session": (f"delete from streams where session = {BETA}", {"owners"}),
    "a stream of another source": (
        f"update streams set source = 99 where session = {BETA} and block = 1",
        {"owners"},
    ),
    "a session that is gone": (
        "delete from sessions where uid = 'toy:alpha'",
        {"owners", "copies"},
    ),
    "a session of two files that is gone": (
        "delete from sessions where uid = 'toy:beta'",
        {"owners"},
    ),
    "all sessions": ("delete from sessions", {"owners"}),
    "a source that is gone": (f"delete from sources where number = {SOURCE}", {"owners"}),
    "a source with another number": (
        f"update sources set number = 99 where number = {SOURCE}",
        {"owners"},
    ),
    "a position that is not in the source": (
        f'update sources set "offset" = 999999999 where number = {SOURCE}',
        {"sources"},
    ),
    "a position of something else": (
        f"update sources set tail = x'00' where number = {SOURCE}",
        {"sources"},
    ),
    "a count of records that is wrong": (
        f"update sources set records = 3 where number = {SOURCE}",
        {"records"},
    ),
    "records that are gone": (f"update records set first = 2 where source = {SOURCE}", {"records"}),
    "records that do not unpack": (
        f"update records set body = x'00' where source = {SOURCE}",
        {"records"},
    ),
}


def test_a_store_that_is_right_is_said_to_be(store: Store, config: Config) -> None:
    before = content(store)
    for repair in (False, True):
        report = doctor.examine(store, config, full=True, repair=repair)
        assert (failing(report), report.ok, report.repairs, report.repaired) == (
            set(),
            True,
            {},
            [],
        )
    assert content(store) == before
    assert [check.name for check in report.checks] == list(doctor.CHECKS)
    assert all(check.checked == check.of for check in report.checks)


@pytest.mark.parametrize("kind", MENDED_AT_ONCE)
def test_what_follows_from_the_rest_is_made_again(store: Store, config: Config, kind: str) -> None:
    sql, named = MENDED_AT_ONCE[kind]
    before = content(store)
    damage(store, sql)
    report = doctor.examine(store, config, full=True)
    assert failing(report) >= named
    assert report.repairs
    assert not report.hopeless
    report = doctor.examine(store, config, repair=True)
    assert failing(report) == set()
    assert report.repaired
    assert doctor.examine(store, config, full=True).ok
    assert content(store) == before


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        *((kind, "there") for kind in MENDED_BY_SYNC),
        # Without its source, what is wrong with that or with its records cannot be known, or not be
        # made again.
        *(
            (kind, "gone")
            for kind in MENDED_BY_SYNC
            if not any(word in kind for word in ("records", "source", "position"))
        ),
    ],
)
def test_what_only_the_source_knows_is_derived_again_by_the_next_sync(
    store: Store, config: Config, root: Path, kind: str, source: str
) -> None:
    sql, named = MENDED_BY_SYNC[kind]
    if source == "gone":
        for file in root.iterdir():
            file.unlink()
        pipeline.sync(store, config)
    before = content(store)
    damage(store, sql)
    report = doctor.examine(store, config)
    assert failing(report) >= named
    assert not report.hopeless
    report = doctor.examine(store, config, repair=True)
    assert "sources" in failing(report), "it says that a sync is needed"
    pipeline.sync(store, config)
    assert failing(doctor.examine(store, config, full=True)) == set()
    # Its number is given to nobody else, and it gets one that was never given.
    if kind == "an event that nothing remembers":
        assert BLOCK + 7 in store.sessions.bodies("toy:alpha")
        assert 7 not in store.sessions.bodies("toy:alpha")
    else:
        assert content(store) == before
    assert pipeline.sync(store, config).events == 0


@pytest.mark.parametrize(
    "kind",
    ["a segment that does not unpack", "an event that cannot be read", "a body that is gone"],
)
def test_what_cannot_be_made_again_is_said_and_left_alone(
    store: Store, config: Config, root: Path, kind: str
) -> None:
    damage(store, "delete from records")
    (root / "alpha.jsonl").unlink()
    damage(store, MENDED_BY_SYNC[kind][0])
    report = doctor.examine(store, config, repair=True)
    assert report.hopeless
    assert "cannot be made again: " in str(report.checks)
    assert "is gone, and its records are not all kept" in str(report.checks)
    pipeline.sync(store, config)
    assert store.maintenance.rows(f"select count(*) from events where session = {ALPHA}") == [(8,)]


def test_events_that_are_lost_for_good_are_counted_out(
    store: Store, config: Config, root: Path
) -> None:
    damage(store, "delete from records")
    (root / "gamma.jsonl").unlink()
    damage(
        store,
        "delete from events where session = (select number from sessions where uid = 'toy:gamma')"
        " and seq = 1",
    )
    report = doctor.examine(store, config)
    assert "toy:gamma: 1 events are lost; cannot be made again: " in str(report.checks)
    doctor.examine(store, config, repair=True)
    session = store.sessions.get("toy:gamma")
    assert session is not None
    assert session.events == 1
    assert "streams" not in failing(doctor.examine(store, config))


@pytest.mark.parametrize("what", ["facts", "tally"])
def test_what_a_lost_source_said_is_taken_from_the_session(
    store: Store, config: Config, root: Path, what: str
) -> None:
    before = {uid: value for uid, value in content(store).items() if uid.startswith("toy:")}
    damage(store, "delete from records")
    for file in root.iterdir():
        file.rename(file.with_suffix(".old"))
    damage(store, f"update streams set {what} = x'c1'")
    assert doctor.examine(store, config, repair=True).ok
    assert {uid: value for uid, value in content(store).items() if uid.startswith("toy:")} == before
    pipeline.sync(store, config)


def test_a_source_that_vanishes_before_its_repair_stops_no_sync(
    store: Store, config: Config, root: Path
) -> None:
    before = store.sessions.bodies("toy:alpha")
    damage(store, f"update streams set facts = x'c1', tally = x'c1' where session = {ALPHA}")
    doctor.examine(store, config, repair=True)
    (root / "alpha.jsonl").unlink()
    pipeline.sync(store, config)
    assert store.sessions.bodies("toy:alpha") == before
    assert doctor.examine(store, config, full=True).ok


def test_a_source_that_no_session_names_is_found_by_the_next_sync(
    store: Store, config: Config
) -> None:
    before = (
        store.sessions.bodies("toy:beta"),
        [event.parent_seq for event in store.sessions.events("toy:beta")],
    )
    damage(store, "delete from sources where path like '%beta2.jsonl'")
    report = doctor.examine(store, config, repair=True)
    assert "no source is known to be it, but the next sync may find it" in str(report.checks)
    pipeline.sync(store, config)
    doctor.examine(store, config, repair=True)
    pipeline.sync(store, config)
    assert failing(doctor.examine(store, config, full=True)) == set()
    assert (
        store.sessions.bodies("toy:beta"),
        [event.parent_seq for event in store.sessions.events("toy:beta")],
    ) == before


def test_what_is_gone_from_a_rewritten_source_is_not_given_up(
    store: Store, config: Config, root: Path
) -> None:
    (root / "gamma.jsonl").write_bytes(
        line(s="gamma", id="g", text="pear", at=90) + line(s="gamma", id="i", text="new", at=92)
    )
    pipeline.sync(store, config)
    assert doctor.examine(store, config, full=True).ok
    before = store.sessions.bodies("toy:gamma")
    damage(
        store,
        "update streams set tally = x'80' where session = (select number from sessions where uid ="
        " 'toy:gamma') and block = 0",
    )
    report = doctor.examine(store, config, repair=True)
    assert report.ok
    assert store.sessions.bodies("toy:gamma") == before


def test_what_is_gone_from_a_source_keeps_its_words_when_a_newer_adapter_comes(
    store: Store, config: Config, root: Path, toy: Toy
) -> None:
    one, two, three, four = (line(id=f"d{n}", text=f"word {n}", at=n) for n in range(4))
    (root / "delta.jsonl").write_bytes(one + two + three)
    pipeline.sync(store, config)
    (root / "delta.jsonl").write_bytes(one + three + four)
    pipeline.sync(store, config)
    before = {0: "word 0", 1: "word 1", 2: "word 2", BLOCK + 2: "word 3"}
    assert store.sessions.bodies("toy:delta") == before
    for toy.version in (2, 3):
        pipeline.sync(store, config)
        assert store.sessions.bodies("toy:delta") == before
        assert [event.is_gone for event in store.sessions.events("toy:delta")] == [
            False,
            True,
            False,
            False,
        ]
        assert failing(doctor.examine(store, config, full=True)) == set()
    damage(
        store,
        "update streams set tally = x'80' where session = (select number from sessions where uid ="
        " 'toy:delta')",
    )
    doctor.examine(store, config, repair=True)
    assert failing(doctor.examine(store, config, full=True)) == set()
    session = store.sessions.get("toy:delta")
    assert session is not None
    assert (session.events, session.cost.turns) == (4, 4)


def test_a_source_that_has_changed_since_is_no_error(
    store: Store, config: Config, root: Path
) -> None:
    with (root / "alpha.jsonl").open("ab") as file:
        file.write(line(id="z", text="more"))
    (root / "beta.jsonl").write_bytes(line(s="beta", id="b", text="other"))
    (root / "gamma.jsonl").unlink()
    report = doctor.examine(store, config)
    assert report.ok
    notes = next(check.notes for check in report.checks if check.name == "sources")
    assert sorted(notes) == [
        "1 grown since the last sync",
        "1 not there any more",
        "1 rewritten since",
    ]


@pytest.mark.parametrize("agent", ["claude", "cline", "codex", "gemini_cli", "grok", "grok_cli"])
def test_nothing_has_grown_where_the_next_sync_reads_nothing(
    home: Path, tmp_path: Path, agent: str
) -> None:
    fixtures = Path(__file__).parent / "adapters/fixtures" / agent
    roots = [
        shutil.copytree(root, tmp_path / agent / root.parent.name)
        for root in sorted(fixtures.glob("*/root"))
    ]
    # Sidecars are often written after the transcript that they belong to.
    for n, path in enumerate(sorted(tmp_path.rglob("*"), reverse=True)):
        os.utime(path, (1_750_000_000 + n, 1_750_000_000 + n))
    roots_setting = SourceConfig(roots=[*map(str, roots)])
    config = msgspec.structs.replace(settings.load(), sources={agent: roots_setting})
    with closing(open_store(str(tmp_path / "a.db"))) as store:
        for _ in range(3):
            synced = pipeline.sync(store, config, agents=[agent], workers=0)
        assert synced.found.keys() == {"unchanged"}
        report = doctor.examine(store, config)
    notes = next(check.notes for check in report.checks if check.name == "sources")
    assert not [note for note in notes if "since" in note]


def test_a_source_that_is_not_searched_any_more_has_not_grown(
    store: Store, config: Config, root: Path
) -> None:
    with (root / "alpha.jsonl").open("ab") as file:
        file.write(line(id="z", text="more"))
    off = msgspec.structs.replace(config, sources={"toy": SourceConfig(enabled=False)})
    report = doctor.examine(store, off)
    assert not next(check.notes for check in report.checks if check.name == "sources")


def test_what_is_left_beside_the_store_of_what_was_forgotten_is_found(
    store: Store, config: Config
) -> None:
    store.retention.forget(
        ["toy:alpha"], datetime.now(UTC)
    )  # As another machine does: it has other notes.
    for name in ("alpha", "beta"):
        deliver.record_delivery(
            config.home,
            "text",
            datetime.now(UTC),
            agent="toy",
            session=name,
            repo="",
            lessons=("abc",),
        )
    Shelf(config.home / "lessons").put(
        Lesson(id="abc", when="p", do="r", evidence=("toy:alpha#1",))
    )
    report = doctor.examine(store, config)
    assert failing(report) == {"forgotten"}
    assert "lesson abc cites a session that was forgotten" in str(report.checks)
    assert failing(doctor.examine(store, config, repair=True)) == set()
    assert [note.uid for note in deliver.read_records(config.home)] == ["toy:beta"]


def test_a_lesson_that_cannot_be_read_and_notes_that_are_full_are_told(
    store: Store, config: Config
) -> None:
    (config.home / "lessons").mkdir()
    (config.home / "lessons/bad.md").write_text("no lesson")
    (config.home / rendered_files.FILE_NAME).touch(0o600)
    os.truncate(config.home / rendered_files.FILE_NAME, rendered_files.MAX_BYTES)
    report = doctor.examine(store, config)
    notes = next(check.notes for check in report.checks if check.name == "lessons")
    assert (
        report.ok,
        ["bad.md is no lesson" in notes[0], "rendered.jsonl is full" in notes[1]],
    ) == (True, [True, True])


def test_what_was_forgotten_and_came_back_is_forgotten(store: Store, config: Config) -> None:
    damage(store, "insert into tombstones values ('toy:alpha', '2026-01-01T00:00:00.000000Z')")
    assert failing(doctor.examine(store, config)) == {"forgotten"}
    assert failing(doctor.examine(store, config, repair=True)) == set()
    assert store.sessions.get("toy:alpha") is None
    assert failing(doctor.examine(store, config, full=True)) == set()


def test_a_store_without_native_records_is_right(home: Path, root: Path) -> None:
    config = msgspec.structs.replace(settings.load(), raw="drop")
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
        assert doctor.examine(store, config, full=True).ok
        assert doctor.examine(store, settings.load(), full=True).ok


def test_a_newer_adapter_loses_nothing_where_no_records_are_kept(
    home: Path, toy: Toy, root: Path
) -> None:
    config = msgspec.structs.replace(settings.load(), raw="drop")
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
        (root / "gamma.jsonl").unlink()
        toy.version = 2
        pipeline.sync(store, config)
        assert store.sessions.bodies("toy:gamma") == {0: "pear", 1: "pear tree"}


def test_a_newer_adapter_leaves_the_store_right(store: Store, config: Config, toy: Toy) -> None:
    toy.version, toy.twice = 2, True
    pipeline.sync(store, config)
    assert failing(doctor.examine(store, config, full=True)) == set()
    assert store.sessions.bodies("toy:beta")[BLOCK] == "an answer"


def test_a_copy_that_happened_in_a_later_block_is_no_parent(
    store: Store, config: Config, root: Path
) -> None:
    with (root / "beta.jsonl").open("ab") as file:
        file.write(
            line(s="beta", id="b2", up="b", text="an answer")
            + line(s="beta", id="b3", up="b2", text="and then")
        )
    pipeline.sync(store, config)
    assert [
        event.parent_seq for event in store.sessions.events("toy:beta") if event.native_id == "b3"
    ] == [None]
    assert doctor.examine(store, config, full=True).ok


def test_a_file_that_sqlite_calls_damaged_is_named(
    store: Store, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        store.maintenance, "check_file", lambda full: [("page 7 is never used", False)]
    )
    report = doctor.examine(store, config, repair=True)
    assert failing(report) == {"file"}
    assert report.hopeless == 1
    assert "put a backup in its place" in str(report.checks)


def test_a_check_that_cannot_look_is_a_problem_and_the_others_go_on(
    store: Store, config: Config
) -> None:
    damage(store, "drop table skips")
    report = doctor.examine(store, config)
    assert failing(report) == {"owners", "sources"}
    assert len(report.checks) == len(doctor.CHECKS)


def test_a_sample_is_spread_and_full_is_all(store: Store, config: Config) -> None:
    exam = doctor.Exam(store, config, False, None)
    assert list(exam.spread(range(1000), 4)) == [0, 250, 500, 750]
    assert list(doctor.Exam(store, config, True, None).spread(range(1000), 4)) == list(range(1000))


def test_the_store_may_be_written_to_while_it_is_looked_at(
    store: Store, config: Config, root: Path
) -> None:
    seen: list[str] = []

    def write(name: str, done: int, total: int) -> None:
        if name in ("segments", "index") and not seen.count(name):
            seen.append(name)
            with (root / "alpha.jsonl").open("ab") as file:
                file.write(line(id=f"new {name}", up="a8", text=f"apple {name}"))
            pipeline.sync(store, config)

    with closing(open_store(config.store, read_only=True)) as reader:
        report = doctor.examine(reader, config, full=True, progress=write)
    assert failing(report) == set()
    assert seen == ["segments", "index"]


def test_a_repair_waits_for_no_sync(store: Store, config: Config) -> None:
    with closing(open_store(config.store)) as other, other.sync_lock():
        assert doctor.examine(store, config).ok
        with pytest.raises(StoreBusy, match="repair the store when it is done"):
            doctor.examine(store, config, repair=True)


@pytest.mark.skipif(os.name != "posix", reason="files have no modes there")
def test_files_are_for_their_owner_alone(store: Store, config: Config) -> None:
    os.chmod(config.home, 0o755)
    os.chmod(config.store, 0o644)
    report = doctor.examine(store, config)
    assert failing(report) == {"privacy"}
    assert report.repairs == {"hide files from others": 2}
    assert doctor.examine(store, config, repair=True).ok
    assert [os.stat(path).st_mode & 0o777 for path in (config.home, config.store)] == [0o700, 0o600]


def test_the_key_is_looked_at(store: Store, config: Config) -> None:
    key = config.home / "redact.key"
    key.write_bytes(b"short")
    assert "is damaged, and no sync can run" in str(doctor.examine(store, config).checks)
    key.unlink()
    report = doctor.examine(store, config)
    assert report.ok
    assert "is missing" in str(report.checks)


# ── the command ───────────────────────────────────────────────────────────────────────────────────
def run(*words: str) -> Result:
    result = CliRunner().invoke(cli, list(words), prog_name="runlore")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_command_says_what_is_wrong_and_what_to_do(store: Store) -> None:
    result = run("doctor")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(doctor.CHECKS)
    assert "the store is right" in result.stderr
    damage(store, f"update segments set hash = x'00' where id = {SEGMENT}")
    result = run("doctor", "--full")
    assert result.exit_code == 1
    assert "✗  segments" in result.stdout
    assert "toy:alpha: the bodies of events 0 to" in result.stdout
    assert (
        "`runlore doctor --repair` would let the next sync derive sources again (1)"
        in result.stderr
    )
    result = run("doctor", "--repair")
    assert result.exit_code == 1
    assert "repaired: let the next sync derive sources again (1)" in result.stderr
    assert "`runlore sync` derives again what is marked" in result.stderr
    run("sync")
    assert run("doctor").exit_code == 0


def test_the_command_answers_in_json(store: Store) -> None:
    damage(store, "update sessions set title = 'x'")
    result = run("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (report["ok"], report["repaired"], report["repairs"]) == (
        False,
        [],
        {"add up sessions again": 3},
    )
    check = next(check for check in report["checks"] if check["name"] == "sessions")
    assert (check["ok"], check["checked"], check["count"], len(check["problems"])) == (
        False,
        3,
        3,
        3,
    )
    report = json.loads(run("doctor", "--json", "--repair").stdout)
    assert (report["ok"], report["repaired"]) == (True, ["add up sessions again (3)"])


def test_many_problems_are_counted_and_some_are_told(store: Store) -> None:
    for n in range(30):
        damage(store, f"insert into natives values ({n}, {ALPHA}, {n} + 50)")
    check = next(
        check
        for check in json.loads(run("doctor", "--json").stdout)["checks"]
        if check["name"] == "natives"
    )
    assert (check["count"], len(check["problems"])) == (30, 20)
    assert "and 10 more" in run("doctor").stdout


def test_the_doctor_makes_no_store(home: Path, config: Config) -> None:
    assert "there is no store yet" in run("doctor", "--repair").stderr
    assert not Path(config.store).exists()


def test_ticks_are_letters_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (sign(True), sign(False)) == ("✓", "✗")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert (sign(True), sign(False)) == ("ok", "!!")


# ── backups ───────────────────────────────────────────────────────────────────────────────────────
def test_a_backup_is_the_store(store: Store, config: Config, tmp_path: Path) -> None:
    file = tmp_path / "copy.db"
    assert "and checked it" in run("backup", str(file)).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "home"]
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600
    with closing(open_store(str(file), read_only=True)) as copy:
        assert content(copy) == content(store)
        assert doctor.examine(copy, config, full=True).ok


def test_a_backup_overwrites_only_when_told_to(
    store: Store, config: Config, tmp_path: Path
) -> None:
    file = tmp_path / "copy.db"
    file.write_text("precious")
    assert "--force" in run("backup", str(file)).stderr
    assert file.read_text() == "precious"
    assert (
        json.loads(run("backup", str(file), "--force", "--json").stdout)["size"]
        == file.stat().st_size
    )
    assert "the store itself" in run("backup", config.store, "--force").stderr
    assert run("backup", str(tmp_path / "nowhere" / "copy.db")).exit_code == 1
    assert doctor.examine(store, config).ok


def test_a_backup_is_not_mixed_with_what_lay_there(
    store: Store, config: Config, tmp_path: Path
) -> None:
    file = tmp_path / "copy.db"
    run("backup", str(file))
    with closing(open_store(str(file))) as other:
        other.db.execute("update sessions set title = 'stale'")  # type: ignore[attr-defined]
        beside = {end: Path(f"{file}{end}").read_bytes() for end in ("-wal", "-shm")}
    for end, data in beside.items():  # As a process that was killed leaves it.
        Path(f"{file}{end}").write_bytes(data)
    assert run("backup", str(file), "--force").exit_code == 0
    with closing(open_store(str(file))) as copy:
        assert content(copy) == content(store)


def test_a_backup_is_of_one_moment_also_while_a_sync_runs(
    store: Store, config: Config, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "BACKUP_PAGES", 1)
    before, steps = content(store), []

    def write(done: int, total: int) -> None:
        steps.append(done)
        if len(steps) % 5 == 1:
            with (root / "alpha.jsonl").open("ab") as file:
                file.write(line(id=f"n{done}", text=f"apple {done} " * 2000))
            pipeline.sync(store, config)

    with closing(open_store(config.store, read_only=True)) as reader:
        reader.backup(tmp_path / "copy.db", write)
    assert steps == sorted(set(steps)), "it never began anew"
    assert content(store) != before
    with closing(open_store(str(tmp_path / "copy.db"), read_only=True)) as copy:
        assert content(copy) == before


def test_a_backup_beside_a_busy_writer(
    store: Store, config: Config, root: Path, tmp_path: Path
) -> None:
    stop = threading.Event()

    def write() -> None:
        with closing(open_store(config.store)) as writer:
            for n in range(10_000):
                if stop.is_set():
                    return
                with (root / "alpha.jsonl").open("ab") as file:
                    file.write(line(id=f"n{n}", up="a8", text=f"apple {n} " * 500))
                pipeline.sync(writer, config)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for n in range(3):
            with closing(open_store(config.store, read_only=True)) as reader:
                reader.backup(tmp_path / f"{n}.db")
    finally:
        stop.set()
        thread.join()
    for n in range(3):
        with closing(open_store(str(tmp_path / f"{n}.db"), read_only=True)) as copy:
            assert failing(doctor.examine(copy, config, full=True)) <= {"privacy"}


def test_a_copy_that_is_damaged_is_not_kept(store: Store, tmp_path: Path) -> None:
    damage(store, "delete from search_data where id > 10")
    with pytest.raises(StoreError, match="run `runlore doctor` on the store"):
        store.backup(tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
