"""Which session is meant, when a time is, and what is known of a session."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from runlore import config as config_module
from runlore import query
from runlore.config import Config
from runlore.errors import Ambiguous, ModelError, NotFound, StoreError
from runlore.query import names as naming
from runlore.store import FORGOTTEN, Filter, SessionLine, Store, open_for_reading, open_store
from runlore.sync import pipeline
from runlore.text.words import bounds, moment, span
from runlore.usage import Zone
from tests.store.test_contract import Agent
from tests.toy import Toy, line

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


@pytest.fixture
def config() -> Config:
    return config_module.load()


@pytest.fixture
def store(config: Config, home: Path, toy: Toy) -> Iterator[Store]:
    root = home / ".toy"
    root.mkdir()
    for n, name in enumerate(["abcdefgh-1", "abcdefgh-12", "xyz", "xyz/agent-1"]):
        (root / f"{n}.jsonl").write_bytes(line(s=name, id=f"n{n}", text=f"prompt {n}", at=n))
    made = open_store(config.store)
    pipeline.sync(made, config)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        ("toy:xyz", "toy:xyz"),
        ("abcdefgh-1", "toy:abcdefgh-1"),
        ("abcdefgh-12", "toy:abcdefgh-12"),
        ("toy:abcdefgh-12", "toy:abcdefgh-12"),
        ("xyz/agent-1", "toy:xyz/agent-1"),
        ("xy/agent", "toy:xyz/agent-1"),
        ("XYZ", "toy:xyz"),
        ("TOY:Abcdefgh-12", "toy:abcdefgh-12"),
    ],
)
def test_a_session_answers_to_its_names(
    store: Store, name: str, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_subagents(store, monkeypatch)
    assert query.resolve(store, name) == uid


def mark_subagents(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up agent has no subagents: here those with a slash are."""
    session = store.sessions.get
    monkeypatch.setattr(
        store.sessions,
        "get",
        lambda uid: (
            msgspec.structs.replace(found, relation="subagent")
            if (found := session(uid)) and "/" in uid
            else found
        ),
    )


def test_where_a_session_and_its_subagent_begin_alike_the_session_is_meant(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_subagents(store, monkeypatch)
    assert query.resolve(store, "xy") == "toy:xyz"


def test_a_name_of_two_sessions_is_refused_with_both(store: Store) -> None:
    with pytest.raises(Ambiguous) as told:
        query.resolve(store, "abc")
    assert (
        str(told.value)
        == "'abc' may be abcdefgh-12 (prompt 1), abcdefgh-1 (prompt 0); give more of the id"
    )


@pytest.mark.parametrize("name", ["", "nope", "latest:nobody", "_", "%", "xyz/other", "/"])
def test_a_name_of_no_session_is_not_found(store: Store, name: str) -> None:
    with pytest.raises(NotFound):
        query.resolve(store, name)


def test_latest_is_the_newest_of_all_of_an_agent_or_of_a_repository(store: Store) -> None:
    assert (
        query.resolve(store, "latest")
        == query.resolve(store, "latest:toy")
        == query.resolve(store, "LATEST:Toy")
    )
    assert query.resolve(store, "latest:abcdefgh-12") == "toy:abcdefgh-12"


def test_the_latest_of_a_repository_is_not_of_one_with_a_longer_name(store: Store) -> None:
    with pytest.raises(NotFound, match="no session of an agent or repository 'abcdefgh'"):
        query.resolve(store, "latest:abcdefgh")
    assert query.resolve(store, "latest:abcdefgh*") == "toy:abcdefgh-12"


def test_the_latest_of_an_empty_store_is_not_found(config: Config) -> None:
    empty = open_store(config.store)
    for name in ("latest", "latest:toy", "abc"):
        with pytest.raises(
            NotFound, match="the store is empty; run `runlore sync`, or `runlore demo`"
        ):
            query.resolve(empty, name)
    empty.close()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("toy:a#12", ("toy:a", 12)),
        ("a#b", ("a#b", None)),
        ("#1", ("#1", None)),
        ("a#", ("a#", None)),
        ("a", ("a", None)),
    ],
)
def test_an_event_is_named_after_a_hash(name: str, parts: tuple[str, int | None]) -> None:
    assert query.split_name(name) == parts


def test_short_ids_name_their_session_alone(store: Store) -> None:
    lines = store.sessions.select(Filter(parents_only=False))
    short = dict(zip((line.uid for line in lines), naming.short_ids(store, lines), strict=True))
    assert short == {
        "toy:abcdefgh-1": "abcdefgh-1",
        "toy:abcdefgh-12": "abcdefgh-12",
        "toy:xyz": "xyz",
        "toy:xyz/agent-1": "xyz/agent-1",
    }


def test_short_ids_are_the_same_among_few_and_among_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = store.sessions.select(Filter(parents_only=False))
    few = naming.short_ids(store, lines)
    monkeypatch.setattr(naming, "MAX_BEGINNINGS", 0)
    assert naming.short_ids(store, lines) == few


def test_an_id_that_takes_half_a_screen_is_shown_as_a_handle_that_names_it(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    uids = [f"toy:{'same-beginning-' * 4}{n}" for n in range(2)]
    for uid in uids:
        Agent(store, toy, tmp_path / "long" / f"{uid[-1]}.jsonl").put(
            line(s=uid[4:], id=uid[-1], text="x")
        )
    lines = [found for found in store.sessions.select(Filter()) if found.uid in uids]
    short = naming.short_ids(store, lines)
    assert max(map(len, short)) <= naming.MAX_ID
    assert [query.resolve(store, name) for name in short] == [found.uid for found in lines]
    with pytest.raises(NotFound):
        query.resolve(store, "+nobody")


def test_two_ids_that_differ_at_their_end_alone_leave_room_for_other_columns() -> None:
    ends = ("000000000001", "000000000002", "000000000002/agent-1")
    lines = [
        msgspec.convert(_line(f"toy:019f9000-0000-7000-8000-{end}"), SessionLine) for end in ends
    ]
    short = naming.short_ids(None, lines[:2], is_all=True)  # type: ignore[arg-type]
    assert [len(name) for name in short] == [9, 9]
    assert naming.shorten([lines[2].uid], [line.uid for line in lines[:2]]) == [
        naming.handle(lines[2].uid)
    ]


def test_a_subagent_with_an_id_of_its_own_is_told_from_its_parent(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    names = ("1794777012345", "1794777012399")
    for name in names:
        Agent(store, toy, tmp_path / "alike" / f"{name}.jsonl").put(line(s=name, id=name, text="x"))
    store.db.execute(  # type: ignore[attr-defined]
        "update sessions set parent_uid = ?, relation = 'subagent' where uid = ?",
        tuple(f"toy:{name}" for name in names),
    )
    uids = [f"toy:{name}" for name in names]
    assert naming.names(store, uids) == {uids[0]: "179477701234", uids[1]: "179477701239"}
    (listed,) = [one for one in store.sessions.select(Filter()) if one.uid == uids[0]]
    assert naming.short_ids(store, [listed]) == ["179477701234"]


def test_a_subagent_whose_parent_is_not_stored_is_found_by_its_short_id(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    uids = [f"toy:01234567-89ab-cdef/agent-{n}" for n in (1, 2, 12)]
    for uid in uids:
        Agent(store, toy, tmp_path / "orphans" / f"{uid[-2:]}.jsonl").put(
            line(s=uid[4:], id=uid[-2:], text="x")
        )
    store.db.execute(  # type: ignore[attr-defined]
        "update sessions set parent_uid = 'toy:nobody', relation = 'subagent' where uid like"
        " 'toy:0123%'"
    )
    short = naming.names(store, uids)
    assert short[uids[0]] == "01234567/agent-1"
    assert {name: query.resolve(store, name) for name in short.values()} == {
        name: uid for uid, name in short.items()
    }


def test_an_id_that_two_agents_use_is_named_with_its_agent() -> None:
    uids = ["toy:report-12", "other:report-12", "other:report-13"]
    assert naming.shorten(uids, uids) == ["toy:report-12", "other:report-12", "report-13"]


def test_a_short_id_is_not_cut_a_letter_before_its_end() -> None:
    lines = [
        msgspec.convert(_line(f"toy:{name}"), SessionLine)
        for name in ("announced", "report-12", "weekly-report-12")
    ]
    short = naming.short_ids(None, lines, is_all=True)  # type: ignore[arg-type]
    assert short == ["announced", "report-12", "weekly-r"]


def test_ids_that_begin_alike_are_made_longer_in_linear_time() -> None:
    lines = [msgspec.convert(_line(f"toy:session-{n:05}"), SessionLine) for n in range(3000)]
    short = naming.short_ids(None, lines, is_all=True)  # type: ignore[arg-type]
    assert len(set(short)) == 3000
    assert min(map(len, short)) >= naming.MIN_ID


def _line(uid: str) -> dict[str, object]:
    fields = {field.name: None for field in msgspec.structs.fields(SessionLine) if field.required}
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    numbers = ("events", "errors", "turns", "retries", "wall_clock_s", "source_bytes", *tokens)
    outcome = {"outcome": "unknown", "outcome_level": "unknown", "outcome_by": ""}
    return {**fields, **dict.fromkeys(numbers, 0), **outcome, "uid": uid, "agent": "toy"}


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("7d", NOW - timedelta(days=7)),
        ("24h", NOW - timedelta(hours=24)),
        ("90 min", NOW - timedelta(minutes=90)),
        ("2w", NOW - timedelta(weeks=2)),
        ("today", datetime(2026, 3, 14, tzinfo=UTC)),
        ("Yesterday", datetime(2026, 3, 13, tzinfo=UTC)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T10:00+02:00", datetime(2026, 3, 1, 8, tzinfo=UTC)),
        ("3 days ago", NOW - timedelta(days=3)),
        ("2 weeks", NOW - timedelta(weeks=2)),
        # NOW is a Saturday.
        ("saturday", datetime(2026, 3, 14, tzinfo=UTC)),
        ("last saturday", datetime(2026, 3, 7, tzinfo=UTC)),
        ("Tuesday", datetime(2026, 3, 10, tzinfo=UTC)),
        ("last  tuesday", datetime(2026, 3, 10, tzinfo=UTC)),
        ("sun", datetime(2026, 3, 8, tzinfo=UTC)),
        ("this week", datetime(2026, 3, 9, tzinfo=UTC)),
        ("last week", datetime(2026, 3, 2, tzinfo=UTC)),
        ("this month", datetime(2026, 3, 1, tzinfo=UTC)),
        ("last month", datetime(2026, 2, 1, tzinfo=UTC)),
        ("last year", datetime(2025, 1, 1, tzinfo=UTC)),
        ("2025-07", datetime(2025, 7, 1, tzinfo=UTC)),
        ("July", datetime(2025, 7, 1, tzinfo=UTC)),
        ("mar", datetime(2026, 3, 1, tzinfo=UTC)),
        ("sept 2024", datetime(2024, 9, 1, tzinfo=UTC)),
        ("last 3 days", NOW - timedelta(days=3)),
        ("2025", datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_times_are_understood_as_people_say_them(text: str, when: datetime) -> None:
    assert moment(text, NOW) == when


@pytest.mark.skipif(
    not hasattr(time, "tzset"), reason="the zone of this system cannot be changed for a test"
)
def test_today_begins_at_midnight_also_when_the_clock_was_set_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    now = datetime(2026, 3, 29, 12, tzinfo=UTC)  # At 01:00 UTC the clock went forward.
    assert moment("today", now) == datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert moment("yesterday", now + timedelta(days=1)) == datetime(2026, 3, 28, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("yesterday", "2026-03-13", "2026-03-14"),
        ("tuesday", "2026-03-10", "2026-03-11"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
        ("last week", "2026-03-02", "2026-03-09"),
        ("this month", "2026-03-01", "2026-04-01"),
        ("2025-12", "2025-12-01", "2026-01-01"),
        ("december", "2025-12-01", "2026-01-01"),
        ("february 2026", "2026-02-01", "2026-03-01"),
        ("2024", "2024-01-01", "2025-01-01"),
    ],
)
def test_a_day_a_week_and_a_month_have_a_beginning_and_an_end(
    text: str, first: str, last: str
) -> None:
    days = tuple(datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (first, last))
    assert span(text, NOW) == Zone("UTC").span(text, NOW) == bounds("", "", text, NOW) == days
    assert bounds(first, last, None, NOW) == days
    assert Zone("UTC").moment(text, NOW) == days[0]


@pytest.mark.parametrize(
    "text", ["3d", "now", "soon", "ma", "july 26", "2026-13", "9999-12-31", "2026-03-01T10:00"]
)
def test_what_is_no_day_is_refused(text: str) -> None:
    for read in (span, Zone("UTC").span):
        with pytest.raises(ModelError, match="is not a day"):
            read(text, NOW)


def test_a_day_goes_with_no_other_bound() -> None:
    with pytest.raises(ModelError, match="does not go together"):
        bounds("3d", None, "yesterday", NOW)


@pytest.mark.parametrize("text", ["", "soon", "7", "7y", "2026-13-01", "99999999d", "0001-01-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="is not a time"):
        moment(text, NOW)


def test_a_transcript_holds_events_bodies_and_children(store: Store) -> None:
    script = query.transcript(store, "toy:xyz")
    assert [script.bodies[event.seq] for event in script.events] == ["prompt 2"]
    assert script.branches[0].is_active
    with pytest.raises(NotFound):
        query.transcript(store, "toy:nobody")


def test_an_event_that_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="has no event 5; its last is 0"):
        query.event_at(store, "toy:xyz", 5)
    with pytest.raises(NotFound):
        query.context_at(store, "toy:xyz", 5)


def test_records_that_were_not_kept_are_told(config: Config, home: Path, toy: Toy) -> None:
    (home / ".toy").mkdir()
    (home / ".toy/a.jsonl").write_bytes(line(s="a", id="1", text="x"))
    made = open_store(config.store)
    pipeline.sync(made, msgspec.structs.replace(config, raw="drop"))
    with pytest.raises(NotFound, match="no native records of toy:a are kept; its source was"):
        list(query.raw_records(made, "toy:a"))
    made.close()


def test_records_are_those_of_the_file_that_an_event_is_in(
    config: Config, home: Path, toy: Toy
) -> None:
    (home / ".toy").mkdir()
    made = open_store(config.store)
    for n, name in enumerate(("one", "two")):
        (home / f".toy/{name}.jsonl").write_bytes(
            line(s="a", id=f"{n}a", text=f"first of {name}")
            + line(s="a", id=f"{n}b", text=f"of {name}")
        )
        pipeline.sync(made, config)
    events = made.sessions.events("toy:a")
    assert [
        json.loads(next(query.raw_records(made, "toy:a", event.seq)))["id"] for event in events
    ] == ["0a", "0b", "1a", "1b"]
    assert [json.loads(record)["id"] for record in query.raw_records(made, "toy:a")] == [
        "0a",
        "0b",
        "1a",
        "1b",
    ]
    made.close()


def test_a_missing_store_says_what_to_do(config: Config) -> None:
    with pytest.raises(StoreError, match="run `runlore sync`"):
        open_for_reading(config.store)


def test_the_last_sync_is_that_of_the_mark_or_of_the_store(config: Config, store: Store) -> None:
    assert query.last_sync(msgspec.structs.replace(config, store="postgresql://x")) is None
    assert query.last_sync(config) is not None
    query.synced_mark(config).touch()
    assert abs((query.last_sync(config) or NOW) - datetime.now(UTC)) < timedelta(minutes=1)


def test_nothing_is_looked_at_while_syncs_come_often(
    config: Config, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toy, "keeps_days", 30, raising=False)
    monkeypatch.setattr(Toy, "discover", None)
    assert query.sources_at_risk(store, config, datetime.now(UTC)) == []


def test_what_will_soon_be_deleted_and_is_not_stored_is_counted(
    config: Config, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toy, "keeps_days", 30, raising=False)
    (home / ".toy/new.jsonl").write_bytes(line(s="new", id="new", text="x"))
    later = datetime.now(UTC) + timedelta(days=26)
    (risk,) = query.sources_at_risk(store, config, later)
    assert (risk.agent, risk.sources, risk.days_left) == ("toy", 1, 4.0)
    assert query.sources_at_risk(store, config, datetime.now(UTC) + timedelta(days=20)) == []


# ── what is stored with its size, but not all of what is in it ────────────────────────────────────
def risks_of(store: Store, config: Config, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(Toy, "keeps_days", 30, raising=False)
    return sum(
        risk.sources
        for risk in query.sources_at_risk(store, config, datetime.now(UTC) + timedelta(days=26))
    )


def test_a_source_that_could_not_be_read_is_at_risk(
    config: Config, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert risks_of(store, config, monkeypatch) == 0
    known = store.sources.by_path()[str(home / ".toy/0.jsonl")].source
    store.sources.touch(known, adapter_version=1, redact_version="", problem="permission denied")
    assert risks_of(store, config, monkeypatch) == 1


def test_a_source_that_was_read_in_part_is_at_risk(
    config: Config, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / ".toy/0.jsonl"
    state = store.sources.by_path()[str(path)]
    with path.open("ab") as file:
        file.write(line(s="abcdefgh-1", id="more", text="not read yet"))
    store.sources.touch(
        msgspec.structs.replace(state.source, size=path.stat().st_size),
        adapter_version=1,
        redact_version="",
    )
    assert risks_of(store, config, monkeypatch) == 1


def test_a_last_line_that_was_never_finished_is_no_risk(
    config: Config, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (home / ".toy/0.jsonl").open("ab") as file:
        file.write(b'{"s": "abc')
    pipeline.sync(store, config)
    assert risks_of(store, config, monkeypatch) == 0


@pytest.mark.parametrize("problem", [FORGOTTEN, "excluded"])
def test_what_is_left_out_on_purpose_is_no_risk(
    config: Config, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    known = store.sources.by_path()[str(home / ".toy/0.jsonl")].source
    problem = config.exclude.mark if problem == "excluded" else problem
    store.sources.touch(known, adapter_version=1, redact_version="", problem=problem)
    assert risks_of(store, config, monkeypatch) == 0


def test_after_a_sync_that_could_not_read_everything_we_look(
    config: Config, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toy, "keeps_days", 30, raising=False)
    late = home / ".toy/late.jsonl"
    late.write_bytes(line(s="late", id="late", text="x"))
    os.utime(late, (0, 0))
    query.synced_mark(config).touch()
    assert query.sources_at_risk(store, config, datetime.now(UTC)) == []
    query.synced_mark(config).write_text("1\n")
    (risk,) = query.sources_at_risk(store, config, datetime.now(UTC))
    assert risk.sources == 1


def test_the_version_that_an_agent_tells_is_the_newest_of_its_files(
    store: Store, config: Config, toy: Toy, tmp_path: Path
) -> None:
    assert [agent.version_seen for agent in query.agents(store, config)] == [None]
    for n, version in enumerate(("1.2.3", "2.0.0-beta")):
        file = tmp_path / "told" / f"v{n}.jsonl"
        agent = Agent(store, toy, file).write(line(id=f"v{n}", text="x", version=version))
        os.utime(file, (2_000_000_000 + n, 2_000_000_000 + n))
        store.ingest.put(agent.batch())
    assert [agent.version_seen for agent in query.agents(store, config)] == ["2.0.0-beta"]


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ({"version": None}, None),
        ({"version": 1, "copilotVersion": "1.0.77"}, "1.0.77"),
        ({"message_format_version": 5}, "5"),
    ],
)
def test_the_version_of_the_agent_goes_before_that_of_its_format(
    told: dict[str, object],
    version: str | None,
    store: Store,
    config: Config,
    toy: Toy,
    tmp_path: Path,
) -> None:
    agent = Agent(store, toy, tmp_path / "told.jsonl").write(line(id="v", text="x", **told))
    os.utime(agent.file, (2_000_000_000,) * 2)
    store.ingest.put(agent.batch())
    assert [agent.version_seen for agent in query.agents(store, config)] == [version]
