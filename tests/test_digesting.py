"""Digests in a sync: what is stale and quiet gets one, whoever makes it, however often, and
whatever goes wrong with another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runlore import config as settings
from runlore import doctor
from runlore.config import Config
from runlore.digest import session as digests
from runlore.model import Digest
from runlore.query.leaks import leaks
from runlore.retention.evict import let_go
from runlore.store import Filter, Store, open_store
from runlore.store.digest_rows import pack_digest
from runlore.sync import digests as digesting
from runlore.sync import pipeline
from runlore.sync.runner import start_workers
from runlore.usage.waste import wasted
from tests.test_law import CASES
from tests.toy import START, Toy, line

ALL = Filter(parents_only=False)
LATER = -1e9
"""Seconds: also what ends in years to come, as in some fixtures, is at rest."""


@pytest.fixture
def config() -> Config:
    return settings.load()


@pytest.fixture
def root(home: Path, toy: Toy) -> Path:
    """A hundred sessions: more than are made without workers."""
    made = home / ".toy"
    made.mkdir()
    for n in range(100):
        lines = [
            line(id=f"{n}a", text=f"fix number {n}"),
            line(id=f"{n}b", up=f"{n}a", kind="tool_call", text="make", call="c", tool="Sh"),
        ]
        lines.append(
            line(
                id=f"{n}c",
                up=f"{n}b",
                kind="tool_result",
                text=f"Error: {'abcdefghij'[n % 10]} is missing",
                call="c",
                error=True,
            )
        )
        (made / f"s{n}.jsonl").write_bytes(b"".join(lines))
    return made


@pytest.fixture
def store(config: Config) -> Iterator[Store]:
    with closing(open_store(config.store)) as made:
        yield made


def packed(store: Store) -> dict[str, Any]:
    return {made.session_uid: pack_digest(made) for made in store.digests.iter(ALL)}


def test_a_sync_makes_the_digests_and_the_next_one_none(
    store: Store, config: Config, root: Path
) -> None:
    assert pipeline.sync(store, config).digests == 100
    found = store.digests.get("toy:s7")
    assert found is not None
    assert (found.goal, found.errors[0].signature.template) == (
        "fix number 7",
        "Error: h is missing",
    )
    session = store.sessions.get("toy:s7")
    assert session is not None
    assert session.is_evictable
    assert pipeline.sync(store, config).digests == 0
    assert doctor.examine(store, config, full=True).ok


def test_workers_make_the_same_digests(store: Store, config: Config, root: Path) -> None:
    pipeline.sync(store, config, workers=0)
    alone = packed(store)
    store.digests.drop(list(alone))
    assert digesting.build_digests(store, config, list(alone), workers=2) == (100, [])
    assert packed(store) == alone


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_a_digest_is_the_same_made_with_its_session_or_from_the_store(
    store: Store, config: Config, case: Path
) -> None:
    pipeline.sync(
        store, config, agents=[case.parent.name], roots=[str(case / "root")], quiet_s=LATER
    )
    with_session = packed(store)
    assert with_session
    store.digests.drop(list(with_session))
    assert digesting.build_digests(store, config, list(with_session), workers=0) == (
        len(with_session),
        [],
    )
    assert packed(store) == with_session


def test_digests_of_workers_come_back_in_order_whatever_is_wrong_with_some(
    store: Store, config: Config, root: Path
) -> None:
    pipeline.sync(store, config)
    alone = packed(store)
    uids = [uid for n, uid in enumerate(alone) if n != 50]
    store.retention.evict([uids[7]], datetime.now(UTC))
    asked = [*uids[:20], "toy:nobody", *uids[20:]]
    damage = (
        "update segments set body = x'00' where session = (select number from sessions where uid"
        " = ?)"
    )
    store.db.execute(damage, (uids[30],))  # type: ignore[attr-defined]
    running = start_workers(config, 2)
    assert running is not None
    with closing(running):
        made = list(digesting.iter_digests(store, config, asked, running))
    assert [one.uid for one in made] == asked
    bad = {one.uid: one.problem for one in made if one.digest is None}
    assert bad.keys() == {"toy:nobody", uids[30]}
    assert bad["toy:nobody"] is None
    assert str(bad[uids[30]]).startswith("its digest cannot be made: ")
    assert {one.uid: pack_digest(one.digest) for one in made if one.digest} == {
        uid: alone[uid] for uid in uids if uid != uids[30]
    }


def test_a_session_of_two_sources_has_a_digest_of_both(
    store: Store, config: Config, home: Path, toy: Toy
) -> None:
    for n, text in enumerate(("fix it", "and the docs")):
        (home / f".toy/{n}").mkdir(parents=True)
        (home / f".toy/{n}/s.jsonl").write_bytes(line(id=f"{n}", text=text, at=n))
    pipeline.sync(store, config)
    found = store.digests.get("toy:s")
    assert found is not None
    assert (found.goal, found.kinds) == ("fix it", {"user_msg": 2})
    session = store.sessions.get("toy:s")
    assert session is not None
    assert not session.is_stale


def test_no_digest_is_lost_between_two_transactions(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.sync(store, config)
    uids = list(packed(store))
    store.digests.drop(uids)
    monkeypatch.setattr(digesting, "COMMIT_DIGESTS", 20)
    assert digesting.build_digests(store, config, uids, workers=0) == (100, [])
    assert len(packed(store)) == 100


def test_only_what_changed_is_made_again(store: Store, config: Config, root: Path) -> None:
    pipeline.sync(store, config)
    with (root / "s3.jsonl").open("ab") as file:
        file.write(line(id="3d", up="3c", text="and now the docs", at=9))
    report = pipeline.sync(store, config)
    assert (report.events, report.digests) == (1, 1)
    found = store.digests.get("toy:s3")
    assert found is not None
    assert (found.covers.last_seq, found.kinds["user_msg"]) == (3, 2)


def test_a_session_that_is_at_work_waits_unless_it_has_ended(
    store: Store, config: Config, home: Path, toy: Toy
) -> None:
    (home / ".toy").mkdir()
    now = (datetime.now(UTC) - START) / timedelta(seconds=1)
    (home / ".toy/live.jsonl").write_bytes(line(id="a", text="still at it", at=int(now)))
    assert pipeline.sync(store, config).digests == 0
    assert pipeline.sync(store, config, quiet_s=0).digests == 1


def test_a_sync_that_is_killed_halfway_goes_on_where_it_stopped(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.sync(store, config)
    store.digests.drop(list(packed(store)))
    put, count = store.digests.put, iter(range(1000))

    def stop(digest: Digest, when: datetime) -> None:
        if next(count) == 50:
            raise KeyboardInterrupt
        put(digest, when)

    monkeypatch.setattr(digesting, "COMMIT_DIGESTS", 20)
    monkeypatch.setattr(store.digests, "put", stop)
    with pytest.raises(KeyboardInterrupt):
        pipeline.sync(store, config, workers=0)
    monkeypatch.undo()
    done = len(packed(store))
    assert done == 40
    assert pipeline.sync(store, config).digests == 100 - done
    assert doctor.examine(store, config, full=True).ok


def test_a_session_whose_digest_cannot_be_made_costs_no_other_theirs(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = digests.make

    def fail(session: Any, *rest: Any) -> Digest:
        if session.session_uid == "toy:s5":
            raise RecursionError("too deep")
        return make(session, *rest)

    monkeypatch.setattr(digests, "make", fail)
    report = pipeline.sync(store, config, workers=0)
    assert report.digests == 99
    assert report.problems == [("toy:s5", "its digest cannot be made: RecursionError: too deep")]


def test_a_session_that_is_derived_again_gets_another_digest(
    store: Store, config: Config, root: Path, toy: Toy
) -> None:
    pipeline.sync(store, config)
    toy.version, toy.shout = 2, True
    report = pipeline.sync(store, config)
    assert report.digests == 100
    found = store.digests.get("toy:s7")
    assert found is not None
    assert found.goal == "FIX NUMBER 7"


def test_newer_rules_make_all_digests_again(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.sync(store, config)
    monkeypatch.setattr(pipeline, "DIGEST_VERSION", 1000)
    monkeypatch.setattr(digests, "DIGEST_VERSION", 1000)
    assert pipeline.sync(store, config, workers=0).digests == 100
    assert {made.version for made in store.digests.iter(ALL)} == {1000}


DAMAGE = {
    "a digest that does not unpack": "update digests set body = x'00' where session = {}",
    "a digest of another length": "update digests set length = length - 1 where session = {}",
    "a digest of something else": "update digests set content_hash = 'other' where session = {}",
    "a digest that is gone": "delete from digests where session = {}",
    "an error that is gone": "delete from errors where session = {}",
    "an error of another count": "update errors set count = 77 where session = {}",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_digest_is_named_and_made_again(
    store: Store, config: Config, root: Path, kind: str
) -> None:
    pipeline.sync(store, config)
    before = packed(store)
    number = "(select number from sessions where uid = 'toy:s7')"
    store.db.execute(DAMAGE[kind].format(number))  # type: ignore[attr-defined]
    report = doctor.examine(store, config, full=True)
    assert [check.name for check in report.checks if not check.ok] == ["digests"]
    doctor.examine(store, config, full=True, repair=True)
    pipeline.sync(store, config)
    assert doctor.examine(store, config, full=True).ok
    assert packed(store) == before


def test_digests_of_no_session_are_removed(store: Store, config: Config, root: Path) -> None:
    pipeline.sync(store, config)
    store.db.execute(  # type: ignore[attr-defined]
        "insert into digests select 9999, version, last_seq, content_hash, made_at, length, hash,"
        " body from digests limit 1"
    )
    assert not doctor.examine(store, config, full=True).ok
    assert doctor.examine(store, config, full=True, repair=True).ok


@pytest.mark.parametrize("agent", sorted({case.parent.name for case in CASES}))
def test_what_was_wasted_is_told_as_before_when_all_events_have_left(
    store: Store, config: Config, agent: str
) -> None:
    roots = [str(case / "root") for case in CASES if case.parent.name == agent]
    pipeline.sync(store, config, agents=[agent], roots=roots, quiet_s=LATER)
    before = wasted(store), leaks(store, ALL)
    uids = store.sessions.uids(ALL)
    let_go(store, uids)
    assert all(weight.is_evicted for weight in store.retention.weights() if weight.events)
    after = wasted(store), leaks(store, ALL)
    assert after[0] == before[0]
    told = [
        [(leak.line.uid, leak.kind, leak.count, leak.hashes) for leak in found]
        for found in (before[1], after[1])
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("agent", ["claude", "codex", "mini_swe_agent"])
def test_what_a_digest_cites_can_be_read_when_all_events_have_left(
    store: Store, config: Config, agent: str
) -> None:
    roots = [str(case / "root") for case in CASES if case.parent.name == agent]
    pipeline.sync(store, config, agents=[agent], roots=roots, quiet_s=LATER)
    cited: dict[str, set[int]] = {}
    for one in store.digests.iter(ALL):
        seqs = {seq for error in one.errors for seq in error.seqs} | {*one.outcome_evidence}
        for fix in one.fixes:
            seqs |= {
                fix.failed_seq,
                *(step.seq for step in fix.steps),
                *([fix.fixed_seq] if fix.fixed_seq is not None else []),
            }
        seqs |= {request.seq for request in one.requests}
        seqs |= {one.result.seq} if one.result else set()
        bodies = store.sessions.bodies(one.session_uid)
        cited[one.session_uid] = {seq for seq in seqs if bodies.get(seq, "").strip()}
    assert any(cited.values())
    let_go(store, store.sessions.uids(ALL))
    for uid, seqs in cited.items():
        assert seqs <= {seq for seq, body in store.sessions.bodies(uid).items() if body}


def test_an_event_of_a_newer_kind_costs_no_digest(store: Store, config: Config, root: Path) -> None:
    pipeline.sync(store, config, workers=0)
    alone = packed(store)
    store.db.execute(  # type: ignore[attr-defined]
        "update events set kind = 'telepathy' where seq = 1"
        " and session = (select number from sessions where uid = 'toy:s7')"
    )
    running = start_workers(config, 2)
    assert running is not None
    with closing(running):
        made = {
            one.uid: one.digest
            for one in digesting.iter_digests(store, config, list(alone), running)
        }
    assert made["toy:s7"] is not None
    assert made["toy:s7"].kinds["telepathy"] == 1
    assert {
        uid: pack_digest(digest) for uid, digest in made.items() if digest and uid != "toy:s7"
    } == {uid: digest for uid, digest in alone.items() if uid != "toy:s7"}
