"""What every store must do with digests: keep them, say which are stale, find errors in them, and
let go of them with their session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore import config
from runlore.errors import StoreError
from runlore.mine.cases import mine_store, read_cases
from runlore.model import USD, Call, Covers, Digest, ErrorSummary, Fix, Moment, Signature, Step
from runlore.store import Filter, LedgerCall, PriceRow, Store, open_store
from runlore.store.bodies import Bodies
from runlore.store.calls import hash_of
from runlore.store.copying import copy
from runlore.store.sql.sessions import UNCOVERED
from runlore.sync.billing import merge_with_ledger
from tests.store.test_contract import Agent
from tests.toy import START, Toy, line

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ALL = Filter(parents_only=False)


@pytest.fixture
def agent(store: Store, toy: Toy, tmp_path: Path) -> Agent:
    return Agent(store, toy, tmp_path / "toy" / "s1.jsonl")


@pytest.fixture
def another(store: Store, toy: Toy, tmp_path: Path) -> Agent:
    return Agent(store, toy, tmp_path / "toy" / "s2.jsonl")


def digest_of(store: Store, uid: str, **fields: Any) -> Digest:
    """One that covers all that is stored."""
    session = store.sessions.get(uid)
    assert session is not None
    covers = Covers(session.last_seq, session.content_hash)
    return Digest(**{"session_uid": uid, "version": 1, "covers": covers, **fields})


def error(
    fingerprint: str = "f1",
    *,
    count: int = 2,
    seqs: tuple[int, ...] = (1, 3),
    template: str = "KeyError: <str>",
) -> ErrorSummary:
    signature = Signature(
        fingerprint=fingerprint,
        kind="exception",
        name="KeyError",
        template=template,
        sample="KeyError: 'a'",
    )
    return ErrorSummary(
        signature=signature,
        count=count,
        seqs=seqs,
        tool="Bash",
        first_at=START,
        last_at=START + timedelta(hours=1),
    )


def fix(fingerprint: str = "f1", **fields: Any) -> Fix:
    steps = (Step(seq=4, how="edit", summary="a.py", files=("a.py",)),)
    given = {
        "failed_seq": 3,
        "fixed_seq": 5,
        "how": "edit",
        "steps": steps,
        "diff": "-a\n+b",
        "confidence": 0.9,
        **fields,
    }
    return Fix(fingerprint=fingerprint, **given)


def stale(store: Store, version: int = 1, since: datetime = NOW) -> list[str]:
    return store.digests.stale(version, since)


def test_a_digest_is_read_as_it_was_put(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="find the bug"))
    made = digest_of(
        store,
        "toy:s1",
        goal="find the bug",
        goal_seq=0,
        errors=(error(),),
        fixes=(fix(),),
        excerpts=(Moment(1, "ä" * 9),),
    )
    assert store.digests.get("toy:s1") is None
    store.digests.put(made, NOW)
    assert store.digests.get("toy:s1") == msgspec.structs.replace(made, made_at=NOW)
    assert list(store.digests.iter(ALL)) == [store.digests.get("toy:s1")]
    assert store.digests.get("toy:other") is None


def test_what_a_newer_version_says_in_a_digest_survives(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.digests.put(
        Digest.from_dict({**digest_of(store, "toy:s1").to_dict(), "mood": "good"}), NOW
    )
    kept = store.digests.get("toy:s1")
    assert kept is not None
    assert kept.extra == {"mood": "good"}


def test_a_digest_tells_its_session_how_it_ended(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.digests.put(
        digest_of(
            store,
            "toy:s1",
            outcome="fail",
            outcome_evidence=(0,),
            outcome_reason="tests failed",
            quality="work",
        ),
        NOW,
    )
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.outcome, session.outcome_evidence, session.quality) == (
        "fail",
        "tests failed (#0)",
        "work",
    )
    assert (session.analyzed_at, session.analyzed_seq, session.is_stale) == (NOW, 0, False)


def test_sessions_are_chosen_by_how_they_ended_and_what_they_were(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(id="b", text="two"))
    store.digests.put(digest_of(store, "toy:s1", outcome="fail", quality="real"), NOW)
    store.digests.put(digest_of(store, "toy:s2", outcome="success", quality="trivial"), NOW)
    assert (
        store.sessions.uids(Filter(outcome="fail"))
        == store.sessions.uids(Filter(quality="real"))
        == ["toy:s1"]
    )
    assert store.sessions.uids(Filter(outcome="fail", quality="trivial")) == []


def test_only_a_digest_of_all_that_is_stored_makes_a_session_evictable(
    store: Store, agent: Agent
) -> None:
    def is_evictable() -> bool:
        session = store.sessions.get("toy:s1")
        assert session is not None
        return session.is_evictable

    agent.put(line(id="a", text="one"))
    assert not is_evictable()
    store.digests.put(digest_of(store, "toy:s1"), NOW)
    assert is_evictable()
    agent.put(line(id="b", text="two"))
    assert not is_evictable()
    store.digests.put(digest_of(store, "toy:s1", covers=Covers(1, "of something else")), NOW)
    assert not is_evictable()


def test_what_has_no_digest_or_an_old_one_or_one_of_less_is_stale(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(id="b", text="two", at=99))
    assert stale(store) == ["toy:s2", "toy:s1"]
    assert store.digests.stale(1, NOW, limit=1) == ["toy:s2"]
    store.digests.put(digest_of(store, "toy:s1"), NOW)
    store.digests.put(digest_of(store, "toy:s2"), NOW)
    assert stale(store) == []
    assert stale(store, version=2) == ["toy:s2", "toy:s1"]
    agent.put(line(id="c", text="three"))
    assert stale(store) == ["toy:s1"]


def test_a_session_that_was_derived_again_is_stale_though_its_text_is_the_same(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    store.digests.put(digest_of(store, "toy:s1"), NOW)
    store.ingest.rederive(agent.number, agent.fresh())
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert not session.is_evictable
    assert stale(store) == ["toy:s1"]


def test_a_whole_session_is_read_in_one_go_and_without_what_was_copied(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(
        line(id="a", text="one"), line(id="b", up="a", kind="assistant_msg", text="zwö" * 30_000)
    )
    another.put(line(id="a", text="one"), line(id="c", up="a", text="more"))
    events, bodies = store.digests.timeline("toy:s1")
    assert [(event.seq, event.kind, event.parent_seq) for event in events] == [
        (0, "user_msg", None),
        (1, "assistant_msg", 0),
    ]
    assert dict(bodies) == store.sessions.bodies("toy:s1")
    events, bodies = store.digests.timeline("toy:s2")
    assert ([event.origin for event in events], dict(bodies)) == (["toy:s1#0", None], {1: "more"})
    assert store.digests.timeline("toy:none") == ([], {})


def test_of_a_large_session_only_a_part_is_held_at_a_time(
    store: Store, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.put(*(line(id=f"e{n}", text=f"{n} " * 20_000) for n in range(40)))
    monkeypatch.setattr("runlore.store.bodies.MAX_CACHED_BYTES", 200_000)
    _, bodies = store.digests.timeline("toy:s1")
    assert dict(bodies) == store.sessions.bodies("toy:s1")
    assert [bodies[n][:3] for n in (39, 0, 20)] == ["39 ", "0 0", "20 "]
    assert isinstance(bodies, Bodies)
    assert sum(len(data) for data in bodies._data.values()) <= 300_000


def test_a_session_that_is_not_quiet_yet_waits(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    assert stale(store, since=START - timedelta(minutes=1)) == []
    store.digests.put(digest_of(store, "toy:s1"), NOW)
    assert stale(store, version=2, since=START - timedelta(minutes=1)) == []


def test_newer_rules_are_not_undone_by_older_ones(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.digests.put(digest_of(store, "toy:s1", version=2, goal="new"), NOW)
    store.digests.put(digest_of(store, "toy:s1", version=1, goal="old"), NOW)
    assert [made.goal for made in store.digests.iter(ALL)] == ["new"]
    agent.put(line(id="b", text="two"))
    store.digests.put(digest_of(store, "toy:s1", version=1, goal="old"), NOW)
    assert [made.goal for made in store.digests.iter(ALL)] == ["old"]


def test_putting_a_digest_again_leaves_one_of_everything(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    for _ in range(2):
        store.digests.put(
            digest_of(store, "toy:s1", errors=(error(), error("f2")), fixes=(fix(),)), NOW
        )
    assert sorted(seen.fingerprint for seen in store.digests.errors(ALL)) == ["f1", "f2"]
    store.digests.put(digest_of(store, "toy:s1", errors=(error("f2"),)), NOW)
    assert [seen.fingerprint for seen in store.digests.errors(ALL)] == ["f2"]


def test_errors_are_found_by_fingerprint_and_by_the_session_they_were_in(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(id="b", text="two"))
    store.digests.put(
        digest_of(store, "toy:s1", errors=(error(count=3), error("f2")), fixes=(fix(),)), NOW
    )
    store.digests.put(
        digest_of(store, "toy:s2", errors=(error(),), fixes=(fix(confidence=0.2, fixed_seq=None),)),
        NOW,
    )
    found = sorted(store.digests.errors(ALL, ["f1"]), key=lambda seen: seen.uid)
    assert [(seen.uid, seen.agent, seen.count, seen.fixed_seq, seen.how) for seen in found] == [
        ("toy:s1", "toy", 3, 5, "edit"),
        ("toy:s2", "toy", 2, None, None),
    ]
    assert found[0].first_at == "2026-01-01T00:00:00.000000Z"
    assert [seen.uid for seen in store.digests.errors(Filter(cwd="/work/s2"))] == ["toy:s2"]
    assert store.digests.errors(ALL, []) == store.digests.errors(ALL, ["none"]) == []
    assert [row[0] for row in store.digests.templates()] == ["f1", "f2"]
    assert {row[0]: row[4] for row in store.digests.templates()} == {"f1": 2, "f2": 1}


def test_what_an_error_cost_is_asked_of_the_ledger(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.write(*(line(id=f"e{n}", text=str(n)) for n in range(6)))
    batch = agent.batch()
    calls = [Call(key=f"k{n}", session_uid="toy:s1", seq=n, output_tokens=1) for n in range(6)]
    store.ingest.put(
        merge_with_ledger(
            store, msgspec.structs.replace(batch, calls=[LedgerCall(call=call) for call in calls])
        )
    )
    prices = (
        PriceRow(hash_of(call), (call.seq + 1) * USD, "listed", "x", None, "exact", "m", None, None)
        for call in calls
    )
    store.ledger.set_prices(prices)
    store.digests.put(
        digest_of(
            store,
            "toy:s1",
            errors=(error(seqs=(1, 3)), error("f2", seqs=(4,))),
            fixes=(fix(fixed_seq=4),),
        ),
        NOW,
    )
    rows = store.maintenance.rows("select seq from calls order by seq")
    assert [seq for (seq,) in rows] == [0, 1, 2, 3, 4, 5]
    assert store.digests.spent_on(ALL, ["f1", "f2"]) == {"f1": 2 + 3 + 4 + 5, "f2": 5}
    assert store.digests.spent_on(Filter(cwd="/elsewhere"), ["f1"]) == {}
    another.put(line(id="x", text="another"))
    store.digests.put(digest_of(store, "toy:s2", errors=(error(),)), NOW)
    found = mine_store(store, config.load(), ALL)
    assert [(pattern.type, pattern.usd) for pattern in found] == [("recurring_error", 14.0)]


def test_what_an_error_cost_is_unknown_if_none_of_its_calls_has_a_price(
    store: Store, agent: Agent
) -> None:
    agent.write(*(line(id=f"e{n}", text=str(n)) for n in range(3)))
    calls = [Call(key=f"k{n}", session_uid="toy:s1", seq=n, output_tokens=1) for n in range(3)]
    batch = msgspec.structs.replace(agent.batch(), calls=[LedgerCall(call=call) for call in calls])
    store.ingest.put(merge_with_ledger(store, batch))
    store.digests.put(digest_of(store, "toy:s1", errors=(error(seqs=(1, 2)),)), NOW)
    assert store.digests.spent_on(ALL, ["f1"]) == {}, "nothing is priced yet"
    unknown = [
        PriceRow(hash_of(call), 0, "none", None, None, "none", None, None, None) for call in calls
    ]
    store.ledger.set_prices(unknown)
    assert store.digests.spent_on(ALL, ["f1"]) == {}
    free = PriceRow(hash_of(calls[1]), 0, "listed", "x", None, "exact", "m", None, None)
    store.ledger.set_prices([free])
    assert store.digests.spent_on(ALL, ["f1"]) == {"f1": 0.0}


def test_a_forgotten_session_takes_its_digest_along(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.digests.put(digest_of(store, "toy:s1", errors=(error(),)), NOW)
    store.retention.forget(["toy:s1"], NOW)
    assert (store.digests.get("toy:s1"), store.digests.errors(ALL), store.digests.templates()) == (
        None,
        [],
        [],
    )
    assert store.maintenance.rows("select count(*) from digests") == [(0,)]
    store.digests.put(Digest(session_uid="toy:s1", version=1, covers=Covers(0, "x")), NOW)
    assert store.digests.get("toy:s1") is None


def test_newer_rules_are_run_over_digests(store: Store, agent: Agent) -> None:
    class Cleaner:
        def text(self, text: str) -> str:
            return text.replace("xyzzy", "[redacted]")

        def value(self, value: object) -> object:
            return value

    agent.put(line(id="a", text="one"))
    made = digest_of(
        store,
        "toy:s1",
        goal="xyzzy",
        errors=(error(template="no xyzzy"),),
        outcome_reason="said xyzzy",
    )
    store.digests.put(made, NOW)
    assert store.retention.redact_again(agent.number, "next", Cleaner()) > 0
    kept = store.digests.get("toy:s1")
    assert kept is not None
    assert (kept.goal, kept.made_at, kept.covers) == ("[redacted]", NOW, made.covers)
    assert "xyzzy" not in str([kept, store.digests.errors(ALL), store.sessions.get("toy:s1")])
    assert [seen.template for seen in store.digests.errors(ALL)] == ["no [redacted]"]


def test_a_digest_that_was_dropped_is_to_be_made_again(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.digests.put(digest_of(store, "toy:s1", outcome="success", errors=(error(),)), NOW)
    store.digests.drop(["toy:s1", "toy:other"])
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.outcome, session.analyzed_at) == ("unknown", None)
    assert stale(store) == ["toy:s1"]
    assert not store.digests.errors(ALL)


def test_a_damaged_digest_is_noticed(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.digests.put(digest_of(store, "toy:s1", goal="one"), NOW)
    with store.transaction():
        store.db.execute("update digests set length = length + 1")  # type: ignore[attr-defined]
    with pytest.raises(StoreError):
        store.digests.get("toy:s1")


def test_a_copy_of_a_store_has_its_digests_also_those_made_later(
    store: Store, agent: Agent, another: Agent, tmp_path: Path
) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(id="b", text="two"))
    store.digests.put(
        digest_of(store, "toy:s1", goal="one", errors=(error(),), fixes=(fix(),)), NOW
    )
    target = open_store(str(tmp_path / "copy.db"))
    copy(store, target)
    assert target.digests.get("toy:s1") == store.digests.get("toy:s1")
    assert target.digests.errors(ALL) == store.digests.errors(ALL)
    store.digests.put(digest_of(store, "toy:s2", goal="two"), NOW)
    assert (copy(store, target).sessions, target.digests.get("toy:s2")) == (
        1,
        store.digests.get("toy:s2"),
    )
    assert copy(store, target).sessions == 0
    target.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_is_stale_is_found_without_looking_at_every_session(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    plan = store.maintenance.rows(
        f"explain query plan select uid from sessions where {UNCOVERED} and last_seq >= 0"
    )
    assert "sessions_to_digest" in str(plan)


def test_a_case_says_in_which_folder_it_began_where_that_is_one_of_this_machine(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    for name, machine in (("s1", None), ("s2", "elsewhere")):
        agent = Agent(store, toy, tmp_path / "toy" / f"{name}.jsonl").write(line(id=name))
        batch = agent.batch()
        store.ingest.put(
            msgspec.structs.replace(
                batch, source=msgspec.structs.replace(batch.source, machine=machine)
            )
        )
        store.digests.put(digest_of(store, f"toy:{name}"), NOW)
    setting = config.Config(home=tmp_path, store=store.url)
    assert [(case.uid, case.cwd) for case in read_cases(store, setting, ALL)] == [
        ("toy:s1", "/work/s1"),
        ("toy:s2", ""),
    ]
