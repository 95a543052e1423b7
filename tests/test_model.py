"""Values check themselves, survive a load and save, and cannot be changed into something they may
not be.

Names like "rule 12" and "failure 4" are those of the list of rules and known failures that the
model was written from.
"""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runlore.errors import MissingField, ModelError, RunloreError
from runlore.model import (
    CALL_KINDS,
    KINDS,
    OUTCOMES,
    SCHEMA_VERSION,
    Cost,
    Session,
    SessionEvent,
    Tests,
    Usage,
    format_time,
    is_evictable,
    is_injected,
    make_uid,
    parse_time,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def session(**fields: Any) -> Session:
    return Session(**{"session_uid": "pi:s1", "flavor": "pi", "native_session_id": "s1", **fields})


def event(seq: int = 0, **fields: Any) -> SessionEvent:
    return SessionEvent(**{"session_uid": "pi:s1", "seq": seq, **fields})


def analyzed(**fields: Any) -> Session:
    """A session whose digest covers everything that is stored."""
    covered = {"last_seq": 7, "content_hash": "h7", "analyzed_seq": 7, "analyzed_hash": "h7"}
    return session(**{**covered, "ingested_at": NOON, "analyzed_at": NOON, **fields})


# --- identity: rules 2 and 3, failures 1 and 10 ---


def test_uid_is_flavor_and_native_id():  # rule 3
    assert make_uid("pi", "0198-ab") == "pi:0198-ab"
    assert make_uid("pi", "0198/agent-7") == "pi:0198/agent-7"
    assert make_uid("pi", "a:b") == "pi:a:b"


@pytest.mark.parametrize("flavor", ["", "Pi", "p i", "p:i", "-pi", "pí", "pi\n"])
def test_uid_needs_a_flavor_that_can_be_told_from_the_rest(flavor):  # failure 1
    with pytest.raises(ModelError, match="flavor"):
        make_uid(flavor, "s1")


@pytest.mark.parametrize("native", ["", " ", " s1", "s1\n", "s\x00", "s\x1b[31m", "\u202es1"])
def test_uid_needs_a_native_id_that_can_be_printed(native):  # failure 1
    with pytest.raises(ModelError, match="native session id"):
        make_uid("pi", native)


@pytest.mark.parametrize("uid", ["pi:", "pi:s2", "other:s1", "s1", ""])
def test_session_refuses_a_uid_that_contradicts_its_parts(uid):  # rule 9, failure 1
    with pytest.raises(ModelError, match="session_uid"):
        session(session_uid=uid)


def test_any_flavor_is_welcome():  # rule 2 was a closed set: failure 10
    assert (
        session(session_uid="brand-new.agent:s1", flavor="brand-new.agent").flavor
        == "brand-new.agent"
    )


# --- closed sets and defaults: rules 4 to 7, 9, 14 and 15 ---


def test_kinds_and_outcomes_are_those_of_the_contract():  # rules 4 and 5
    assert sorted(KINDS) == sorted(
        "user_msg assistant_msg thinking tool_call tool_result error test_run edit retry"
        " human_intervention decision lifecycle completion".split()
    )
    assert sorted(OUTCOMES) == ["abandoned", "fail", "success", "unknown"]


def test_session_defaults_say_that_nothing_is_known():  # rules 5 and 7
    bare = session()
    for name in (
        "repo",
        "domain",
        "cwd",
        "git_branch",
        "model",
        "started_at",
        "ended_at",
        "task_ref",
        "source_path",
    ):
        assert getattr(bare, name) is None
    assert (bare.outcome, bare.cost, bare.source_bytes, bare.schema_version) == (
        "unknown",
        Cost(),
        0,
        SCHEMA_VERSION,
    )
    for name in Session.WATERMARKS:  # rule 8
        assert getattr(bare, name) is None


def test_event_defaults_to_lifecycle():  # rule 14
    bare = event()
    assert (bare.kind, bare.tokens, bare.is_sidechain) == ("lifecycle", 0, False)
    for name in ("ts", "parent_seq", "role", "tool", "summary", "payload_ref"):
        assert getattr(bare, name) is None


def test_cost_defaults_to_nothing_spent_and_no_price():  # rule 6
    cost = Cost()
    assert (cost.input_tokens, cost.output_tokens, cost.cache_tokens, cost.turns, cost.retries) == (
        0,
        0,
        0,
        0,
        0,
    )
    assert cost.wall_clock_s == 0.0
    assert cost.usd is None


def test_names_of_fields_are_a_contract():  # rule 17: later fields are added, none is renamed
    assert set(Session.__struct_fields__) >= set(
        "session_uid flavor native_session_id repo domain cwd git_branch model started_at ended_at"
        " outcome cost task_ref source_path source_bytes discovered_at ingested_at analyzed_at"
        " evicted_at schema_version".split()
    )
    assert set(SessionEvent.__struct_fields__) >= set(
        "session_uid seq ts kind parent_seq role tool summary payload_ref tokens"
        " is_sidechain".split()
    )
    assert set(Cost.__struct_fields__) >= {
        "input_tokens",
        "output_tokens",
        "cache_tokens",
        "wall_clock_s",
        "turns",
        "retries",
    }


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"flavor": "No Flavor"}, "No Flavor"),
        ({"outcome": "great"}, "great"),
        ({"relation": "cousin"}, "cousin"),
    ],
)
def test_message_names_the_bad_value(bad, named):  # rule 9
    with pytest.raises(ModelError, match=named):
        session(**bad)


def test_message_names_what_is_allowed():  # rule 9
    with pytest.raises(ModelError, match="abandoned, fail, success, unknown"):
        session(outcome="great")
    with pytest.raises(ModelError, match="tool_call"):
        event(kind="tool_cal")


def test_every_error_of_a_value_is_ours_and_a_value_error():
    assert issubclass(ModelError, RunloreError)
    assert issubclass(ModelError, ValueError)
    assert issubclass(MissingField, TypeError)


# --- frozen: failure 2 ---


def test_values_cannot_be_changed():  # failure 2
    for value in (session(), event(), Cost(), Usage(), Tests()):
        for name in value.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(value, name, getattr(value, name))


def test_a_changed_copy_is_checked_again():  # failure 2
    with pytest.raises(ModelError):
        replace(session(), outcome="great")
    with pytest.raises(ModelError):
        replace(session(), native_session_id="s2")
    with pytest.raises(ModelError):
        replace(event(3), parent_seq=3)
    assert replace(session(), outcome="fail").outcome == "fail"


# --- watermarks: rules 8 and 10, failures 3 and 4 ---


@pytest.mark.parametrize(
    "marks",
    [
        ("analyzed_at",),
        ("evicted_at",),
        ("discovered_at", "analyzed_at"),
        ("ingested_at", "evicted_at"),
        ("discovered_at", "ingested_at", "evicted_at"),
    ],
)
def test_a_watermark_needs_the_one_before_it(marks):  # failure 3
    with pytest.raises(ModelError, match="is not"):
        session(**dict.fromkeys(marks, NOON))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_watermarks_never_go_back(n):  # rule 8, failure 3
    marks = dict.fromkeys(Session.WATERMARKS[:n], NOON)
    with pytest.raises(ModelError, match="lies before"):
        session(**marks, **{Session.WATERMARKS[n]: NOON - timedelta(microseconds=1)})
    assert session(**marks, **{Session.WATERMARKS[n]: NOON})


def test_an_analysis_of_what_was_stored_before_stays_when_more_is_stored():
    grown = analyzed(ingested_at=NOON + timedelta(hours=1), last_seq=8, content_hash="h8")
    assert grown.analyzed_at == NOON
    assert grown.is_stale
    assert not grown.is_evictable
    with pytest.raises(ModelError, match="lies before"):
        analyzed(ingested_at=NOON + timedelta(hours=1), evicted_at=NOON)


def test_a_session_may_be_stored_without_having_been_discovered():
    assert session(ingested_at=NOON).discovered_at is None


def test_times_of_watermarks_are_compared_and_not_their_text():  # failure 7
    later_in_text = NOON.astimezone(timezone(timedelta(hours=-5)))  # "07:00-05:00" is "12:00Z"
    assert session(ingested_at=NOON, analyzed_at=later_in_text).analyzed_at == NOON


def test_evictable_when_the_digest_covers_everything():  # rule 10
    assert analyzed().is_evictable
    assert is_evictable(analyzed())


@pytest.mark.parametrize(
    "change",
    [
        {"last_seq": 8, "content_hash": "h8"},  # it grew
        {"last_seq": 8},
        {"content_hash": "h7b"},  # the same length, other content
        # an analysis that does not say what it covers
        {"analyzed_seq": None, "analyzed_hash": None},
        {"analyzed_at": None},  # never before analysis
        {"evicted_at": NOON},  # never twice
    ],
)
def test_not_evictable_otherwise(change):  # rule 10, failure 4
    assert not analyzed(**change).is_evictable


def test_a_session_that_grew_is_stale():  # failure 4
    assert not analyzed().is_stale
    assert analyzed(last_seq=8, content_hash="h8").is_stale
    assert session().is_stale


# --- times: failure 7 ---


def test_times_are_utc_inside_and_end_in_z_at_rest():  # rule 7, failure 7
    berlin = timezone(timedelta(hours=2))
    made = session(started_at=datetime(2026, 3, 1, 14, tzinfo=berlin))
    assert made.started_at is not None
    assert made.started_at.tzinfo is UTC
    assert made.to_dict()["started_at"] == "2026-03-01T12:00:00.000000Z"
    assert (
        event(ts=datetime(2026, 3, 1, 14, 0, 0, 5, tzinfo=berlin)).to_dict()["ts"]
        == "2026-03-01T12:00:00.000005Z"
    )


def test_a_time_without_an_offset_is_refused():  # failure 7
    for make in (
        lambda: session(ended_at=datetime(2026, 3, 1)),  # noqa: DTZ001
        lambda: event(ts=datetime(2026, 3, 1)),  # noqa: DTZ001
    ):
        with pytest.raises(ModelError, match="aware"):
            make()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T14:00:00+02:00", NOON),
        ("2026-03-01T12:00:00", NOON),  # no offset at rest: written by something that meant UTC
        ("2026-03-01T12:00:00.000Z", NOON),
        ("2026-03-01T12:00:00.123456789Z", NOON + timedelta(microseconds=123456)),  # nanoseconds
        ("2026-03-01", NOON - timedelta(hours=12)),
    ],
)
def test_text_is_read_as_utc(text, expected):
    assert parse_time(text) == expected
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "12:00", 5, 1.5, [], "0001-01-01T00:00:00+14:00"]
)
def test_what_is_not_a_time_is_refused(text):  # failure 7
    with pytest.raises(ModelError, match="time"):
        parse_time(text)
    with pytest.raises(ModelError, match="time"):
        SessionEvent.from_dict({"session_uid": "pi:s1", "seq": 0, "ts": text})


OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=OFFSETS,
    )
)
def test_a_time_survives_being_written(moment):
    assert parse_time(format_time(moment)) == moment
    assert format_time(moment).endswith("Z")
    written = moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    assert format_time(moment) == f"{written}Z"


@given(st.lists(st.datetimes(timezones=st.just(UTC)), min_size=2))
def test_times_at_rest_sort_as_text(moments):  # failure 7
    assert sorted(map(format_time, moments)) == list(map(format_time, sorted(moments)))


# --- plain data: rules 11 to 13 and 16, failure 5 ---


def test_json_is_deterministic_and_ascii():  # rule 11
    text = session(title="Zoë", extra={"b": 1, "a": 2}).to_json()
    assert text.isascii()
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert session(extra={"a": 2, "b": 1}, title="Zoë").to_json() == text


def test_cost_is_nested():  # rule 11
    assert session(cost=Cost(turns=3)).to_dict()["cost"]["turns"] == 3


def test_loading_leaves_the_callers_dict_alone():  # rule 12
    data = {**session(cost=Cost(turns=1)).to_dict(), "schema_version": 2, "new": {"x": 1}}
    before = json.dumps(data)
    Session.from_dict(data)
    assert json.dumps(data) == before


@pytest.mark.parametrize("cost", [None, {}])
def test_missing_cost_is_no_cost(cost):  # rule 12
    data = session().to_dict()
    assert Session.from_dict({**data, "cost": cost}).cost == Cost()
    del data["cost"]
    assert Session.from_dict(data).cost == Cost()


@pytest.mark.parametrize(
    ("cls", "missing"),
    [
        (Session, "session_uid"),
        (Session, "flavor"),
        (Session, "native_session_id"),
        (SessionEvent, "session_uid"),
        (SessionEvent, "seq"),
    ],
)
def test_a_missing_field_is_named(cls, missing):  # rules 7, 13 and 14
    data = (session() if cls is Session else event()).to_dict()
    del data[missing]
    with pytest.raises(TypeError, match=missing):
        cls.from_dict(data)


@pytest.mark.parametrize(
    "bad",
    [
        {"outcome": "great"},
        {"session_uid": "pi:s2"},
        {"source_bytes": "many"},
        {"title": 5},
        {"cost": {"turns": "three"}},
        {"cost": 5},
        {"cost": [1]},
        {"analyzed_at": "2026-03-01T12:00:00Z"},
        {"schema_version": "three"},
        {"schema_version": None},
    ],
)
def test_loading_checks_as_making_does(bad):  # rule 13
    with pytest.raises(ModelError):
        Session.from_dict({**session().to_dict(), **bad})


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "{", "", b"\xff", "{}}"])
def test_text_that_is_no_value_is_refused(text):
    with pytest.raises(ModelError):
        SessionEvent.from_json(text)


def test_unknown_fields_survive_load_and_save():  # rules 12 and 16 dropped them: failure 5
    data = {
        **session().to_dict(),
        "mood": "good",
        "nested": {"a": [1, None]},
        "extra": "a field of that name",
    }
    data["cost"]["carbon_g"] = 1.5
    loaded = Session.from_dict(data)
    assert loaded.extra == {
        "mood": "good",
        "nested": {"a": [1, None]},
        "extra": "a field of that name",
    }
    assert loaded.to_dict() == data
    assert replace(loaded, title="later").to_dict() == {**data, "title": "later"}
    assert SessionEvent.from_dict({**event().to_dict(), "mood": "bad"}).to_dict()["mood"] == "bad"


def test_an_unknown_kind_raises_when_made_and_is_kept_when_loaded():  # rule 15, failure 5
    with pytest.raises(ModelError, match="teleport"):
        event(kind="teleport")
    loaded = SessionEvent.from_dict({**event().to_dict(), "kind": "teleport"})
    assert loaded.kind == "teleport"
    assert SessionEvent.from_json(loaded.to_json()) == loaded
    assert not loaded.is_call


@pytest.mark.parametrize("kind", [None, 5, ["edit"]])
def test_a_kind_that_is_no_word_is_refused(kind):
    with pytest.raises(ModelError):
        SessionEvent.from_dict({**event().to_dict(), "kind": kind})


# --- the forest of events: failures 8 and 9 ---


@pytest.mark.parametrize(("seq", "parent"), [(-1, None), (3, 3), (3, 4), (3, -1), (0, 0)])
def test_events_cannot_form_a_cycle(seq, parent):  # failure 8
    with pytest.raises(ModelError, match="seq"):
        event(seq, parent_seq=parent)
    with pytest.raises(ModelError, match="seq"):
        SessionEvent.from_dict({"session_uid": "pi:s1", "seq": seq, "parent_seq": parent})


def test_edits_and_test_runs_are_calls():  # failure 9
    assert (
        {kind for kind in KINDS if event(kind=kind).is_call}
        == CALL_KINDS
        == {"tool_call", "edit", "test_run"}
    )


# --- cost: failure 12 ---


def test_cache_reads_and_writes_are_kept_apart():  # rule 6, failure 12
    cost = Cost(input_tokens=1, cache_read_tokens=20, cache_write_tokens=3)
    assert (cost.cache_read_tokens, cost.cache_write_tokens, cost.cache_tokens) == (20, 3, 23)
    assert replace(cost, cache_read_tokens=30).cache_tokens == 33


def test_a_sum_that_contradicts_its_parts_is_made_again():
    assert Cost(cache_tokens=99, cache_read_tokens=20, cache_write_tokens=3).cache_tokens == 23


def test_a_price_is_kept_when_it_is_known():  # failure 12
    assert Cost.from_json(Cost(usd=0.25).to_json()).usd == 0.25


def test_buckets_of_a_call_do_not_overlap():
    usage = Usage(
        input_tokens=1,
        output_tokens=20,
        cache_read_tokens=300,
        cache_write_tokens=4000,
        reasoning_tokens=15,
    )
    assert usage.total == 4321


# --- older and newer schemas: rule 1, failure 6 ---

OLD: dict[str, Any] = {
    "session_uid": "pi:s1",
    "flavor": "pi",
    "native_session_id": "s1",
    "started_at": "2026-01-01T00:00:00Z",
    "outcome": "success",
    "cost": {
        "input_tokens": 5,
        "output_tokens": 6,
        "cache_tokens": 7,
        "wall_clock_s": 1.5,
        "turns": 2,
        "retries": 1,
    },
    "discovered_at": "2026-01-01T01:00:00+00:00",
    "ingested_at": "2026-01-01T01:00:01+00:00",
    "analyzed_at": "2026-01-01T01:00:02+00:00",
    "evicted_at": None,
}


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_session_is_brought_up_to_date(version):  # rule 1, failure 6
    loaded = Session.from_dict({**OLD, "schema_version": version})
    assert loaded.schema_version == SCHEMA_VERSION
    assert loaded.cost.cache_tokens == 7
    assert loaded.outcome == "success"
    assert loaded.analyzed_at == datetime(2026, 1, 1, 1, 0, 2, tzinfo=UTC)


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_analysis_covers_nothing_and_is_made_again(version):  # failures 4 and 6
    loaded = Session.from_dict({**OLD, "schema_version": version})
    assert loaded.is_stale
    assert not loaded.is_evictable


def test_a_newer_session_is_kept_as_it_is():  # failures 5 and 6
    data = {**session().to_dict(), "schema_version": SCHEMA_VERSION + 1, "brand_new": [1, 2]}
    assert Session.from_dict(data).to_dict() == data


# --- round trips ---

TEXT = st.text(st.characters(), max_size=12)  # lone surrogates too: they are in real transcripts
WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8)
TIME = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
COUNT = st.integers(0, 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def unknown(cls: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(
        TEXT.filter(lambda name: name not in cls.__struct_fields__ or name == "extra"),
        JSON,
        max_size=3,
    )


def maybe(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | of


COSTS = st.builds(
    Cost,
    input_tokens=COUNT,
    cache_tokens=COUNT,
    cache_read_tokens=COUNT,
    cache_write_tokens=COUNT,
    usd=maybe(st.floats(0, 1e6)),
    wall_clock_s=st.floats(0, 1e9),
    extra=unknown(Cost),
)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    native = draw(WORD)
    marks = sorted(draw(st.lists(TIME, max_size=4)))
    return Session(
        session_uid=f"pi:{native}",
        flavor="pi",
        native_session_id=native,
        title=draw(maybe(TEXT)),
        started_at=draw(maybe(TIME)),
        ended_at=draw(maybe(TIME)),
        outcome=draw(st.sampled_from(sorted(OUTCOMES))),
        cost=draw(COSTS),
        source_bytes=draw(COUNT),
        parent_uid=draw(maybe(TEXT)),
        relation=draw(st.sampled_from([None, "fork", "subagent", "continuation"])),
        **dict(zip(Session.WATERMARKS, marks, strict=False)),  # type: ignore[arg-type]
        extra=draw(unknown(Session)),
    )


@st.composite
def events(draw: st.DrawFn) -> SessionEvent:
    seq = draw(COUNT)
    return SessionEvent(
        session_uid="pi:s1",
        seq=seq,
        ts=draw(maybe(TIME)),
        kind=draw(st.sampled_from(sorted(KINDS))),
        parent_seq=draw(maybe(st.integers(0, seq - 1))) if seq else None,
        summary=draw(maybe(TEXT)),
        files=tuple(draw(st.lists(TEXT, max_size=2))),
        is_error=draw(st.booleans()),
        exit_code=draw(maybe(st.integers(-1, 255))),
        usage=draw(maybe(st.builds(Usage, input_tokens=COUNT, reasoning_tokens=COUNT))),
        tests=draw(maybe(st.builds(Tests, passed=maybe(COUNT), failed=maybe(COUNT)))),
        refs=tuple(draw(st.lists(TEXT, max_size=2))),
        extra=draw(unknown(SessionEvent)),
    )


def test_text_that_the_program_added_is_told_from_what_others_said():
    assert is_injected("lifecycle", None)
    assert is_injected("lifecycle", "context")
    assert not is_injected("lifecycle", "summary"), "the model wrote it"
    assert not is_injected("human_intervention", "context")
    assert not is_injected("tool_result", None)


@given(st.one_of(sessions(), events(), COSTS))
def test_what_is_written_is_read_back_the_same(value):  # rules 11, 12 and 16
    assert type(value).from_json(value.to_json()) == value
    assert type(value).from_dict(value.to_dict()) == value
    assert type(value).from_json(value.to_json()).to_json() == value.to_json()


@given(st.one_of(sessions(), events()), st.data())
def test_one_bad_field_gives_our_error_or_a_value(value, data):
    """Whatever stands in a field, loading it either works or raises what callers catch."""
    broken = value.to_dict()
    broken[data.draw(st.sampled_from(sorted(broken)))] = data.draw(JSON)
    try:
        loaded = type(value).from_dict(broken)
    except ModelError:
        return
    assert type(value).from_json(loaded.to_json()) == loaded
