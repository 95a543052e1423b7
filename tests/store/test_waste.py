"""What led nowhere: the calls that are marked add up to what the events say, whatever became of the
store in between.

The events are asked in the slow way, by code that shares nothing with what marks the calls but
`timeline`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from runlore import adapters, doctor, timeline
from runlore.config import Config, SourceConfig
from runlore.model import CALL_KINDS, SessionEvent
from runlore.retention.evict import let_go
from runlore.store import CallFilter, Filter, Store, copying, open_store
from runlore.store.filters import WASTED
from runlore.sync import billing, pipeline
from runlore.usage.report import row_of_call, total
from runlore.usage.waste import Wasted, wasted
from tests import postgres
from tests.ledgers import Paid
from tests.test_law import CASES
from tests.toy import START, line

ALL = Filter(parents_only=False)
LATER = -1e9
"""Seconds: also what ends in years to come, as in some fixtures, is at rest."""
NEVER = 1e9
CORPUS = Path(__file__).parents[3] / "shared/corpus"


# ── as the events say ─────────────────────────────────────────────────────────────────────────────
def by_events(store: Store) -> Wasted:
    kinds: dict[str, list[tuple[str, int]]] = {
        "abandoned": [],
        "retries": [],
        "failed": [],
        "any": [],
        "unplaced": [],
    }
    rows = []
    sessions = 0
    for uid in store.sessions.uids(ALL):
        billed = store.ledger.billed(uid)
        rows += [((uid, one.kept.call.seq), row_of_call(one)) for one in billed]
        marks = _marks(store.sessions.events(uid), {one.kept.call.seq for one in billed})
        marks["any"] = {seq for seqs in marks.values() for seq in seqs}
        marks["unplaced"] = {-1} if _has_dead_ends(store.sessions.events(uid)) else set()
        sessions += bool(marks["any"])
        for name, seqs in marks.items():
            kinds[name] += [(uid, seq) for seq in seqs]
    sums = {
        name: total(row for place, row in rows if place in set(places))
        for name, places in kinds.items()
    }
    return Wasted(of=total(row for _, row in rows), sessions=sessions, **sums)


def _marks(events: list[SessionEvent], told: set[int]) -> dict[str, set[int]]:
    callers = _callers(events, sorted(seq for seq in told if seq >= 0))
    return {
        "abandoned": told & {event.seq for line in timeline.abandoned(events) for event in line},
        "retries": {callers[seq] for seq in _repeats(events) if seq in callers},
        "failed": {callers[seq] for seq in _failures(events) if seq in callers},
    }


def _has_dead_ends(events: list[SessionEvent]) -> bool:
    tried = {seq for run in _runs(events) for seq in run}
    return bool(timeline.abandoned(events) or tried & {*_repeats(events), *_failures(events)})


def _callers(events: list[SessionEvent], told: list[int]) -> dict[int, int]:
    found = {}
    for run in _runs(events):
        inside = [seq for seq in told if run[0] <= seq <= run[-1]]
        for seq in run:
            before, earlier = (
                [one for one in inside if one <= seq],
                [one for one in told if one <= seq],
            )
            if here := before[-1:] or inside[:1] or earlier[-1:]:
                found[seq] = here[0]
    return found


def _runs(events: list[SessionEvent]) -> Iterator[list[int]]:
    run: list[int] = []
    for event in sorted(events, key=lambda event: event.seq):
        is_said = event.kind in CALL_KINDS | {"thinking", "assistant_msg"}
        if run and (not is_said or event.seq - run[-1] >= 1000):
            yield run
            run = []
        if is_said:
            run.append(event.seq)
    if run:
        yield run


def _failures(events: list[SessionEvent]) -> Iterator[int]:
    return (pair.call.seq for pair in timeline.pairs(events) if pair.failed and pair.call)


def _repeats(events: list[SessionEvent]) -> Iterator[int]:
    tally = timeline.Tally()
    for event in sorted(events, key=lambda event: event.seq):
        before = tally.retries
        tally = tally.add([event])
        if tally.retries > before:
            yield event.seq


# ── stores ────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def config(store: Store, home: Path) -> Config:
    prices = {"toy-1": {"input": 1.0, "output": 10.0}}
    return Config(
        home=home / ".runlore",
        store=store.url,
        prices=prices,
        sources={"toy": SourceConfig(roots=[str(home / ".toy")])},
    )


@pytest.fixture
def paid(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a toy agent that tells what its calls took, with one session: a failure, its
    repetition, and an abandoned line."""
    adapter = Paid()
    monkeypatch.setattr(adapters, "names", lambda: ("toy",))
    monkeypatch.setattr(adapters, "get", lambda name: {"toy": adapter}[name])
    root = home / ".toy"
    root.mkdir()
    (root / "alpha.jsonl").write_bytes(
        line(s="alpha", id="a1", text="build it", at=0)
        + line(s="alpha", id="a2", up="a1", kind="thinking", text="so", at=1, tokens=100)
        + line(
            s="alpha", id="a3", up="a2", kind="tool_call", text="make", tool="sh", call="c1", at=1
        )
        + line(
            s="alpha",
            id="a4",
            up="a3",
            kind="tool_result",
            text="no rule",
            call="c1",
            error=True,
            at=2,
        )
        + line(
            s="alpha",
            id="a5",
            up="a4",
            kind="tool_call",
            text="make",
            tool="sh",
            call="c2",
            at=3,
            tokens=200,
        )
        + line(s="alpha", id="a6", up="a5", kind="tool_result", text="done", call="c2", at=4)
        + line(
            s="alpha",
            id="a7",
            up="a6",
            kind="assistant_msg",
            text="Done.",
            at=5,
            tokens=1000,
            input=500,
        )
        + line(s="alpha", id="a8", up="a7", text="wrong way", at=6)
        + line(s="alpha", id="a9", up="a8", kind="assistant_msg", text="Oh.", at=7, tokens=40)
        + line(s="alpha", id="a10", up="a7", text="better way", at=8)
        + line(s="alpha", id="a11", up="a10", kind="assistant_msg", text="Yes.", at=9, tokens=2)
    )
    return root


def is_marked(store: Store) -> bool:
    """Whether what is asked is the marks alone."""
    return store.ledger.wasteful(CallFilter())[1] == []


def outdate(store: Store) -> None:
    store.db.execute("update digests set version = 7")  # type: ignore[attr-defined]


# ── tests ─────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("agent", sorted({case.parent.name for case in CASES}))
def test_marked_calls_add_up_to_what_the_events_say(
    store: Store, config: Config, agent: str
) -> None:
    roots = [str(case / "root") for case in CASES if case.parent.name == agent]
    pipeline.sync(store, config, agents=[agent], roots=roots, quiet_s=NEVER)
    at_work = wasted(store)
    assert at_work == by_events(store)
    pipeline.sync(store, config, agents=[agent], roots=roots, quiet_s=LATER)
    assert is_marked(store)
    assert wasted(store) == at_work
    pipeline.sync(store, config, agents=[agent], roots=roots, quiet_s=LATER)
    billing.reprice(store, config)
    assert wasted(store) == by_events(store)
    assert doctor.examine(store, config, full=True).ok
    let_go(store, store.sessions.uids(ALL))
    assert wasted(store) == at_work
    outdate(store)
    assert wasted(store) == at_work


def test_each_reason_has_its_calls(store: Store, config: Config, paid: Path) -> None:
    pipeline.sync(store, config)
    made = wasted(store)
    assert is_marked(store)
    tokens = [
        getattr(made, name).output_tokens
        for name in ("abandoned", "retries", "failed", "any", "unplaced", "of")
    ]
    assert tokens == [40, 200, 100, 340, 0, 1342]
    assert made.sessions == 1


FILTERS = {
    "since": CallFilter(since=START + timedelta(seconds=2)),
    "until": CallFilter(until=START + timedelta(seconds=2)),
    "both": CallFilter(since=START + timedelta(seconds=2), until=START + timedelta(seconds=6)),
    "model": CallFilter(model="toy-*"),
    "no model": CallFilter(model="other"),
    "session": CallFilter(session="toy:alpha"),
    "another": CallFilter(session="toy:beta"),
    "agent": CallFilter(agent="codex"),
    "main": CallFilter(is_subagent=False),
    "subagents": CallFilter(is_subagent=True),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_chooses_the_same_calls_whether_they_are_marked_or_not(
    store: Store, config: Config, paid: Path, name: str
) -> None:
    (paid / "beta.jsonl").write_bytes(
        line(s="beta", id="b1", text="hello", at=90)
        + line(s="beta", id="b2", up="b1", tokens=7, at=91)
    )
    pipeline.sync(store, config)
    marked = wasted(store, FILTERS[name])
    outdate(store)
    assert not is_marked(store)
    assert wasted(store, FILTERS[name]) == marked


def test_an_attempt_outside_of_the_time_is_not_charged_to_a_call_in_it(
    store: Store, config: Config, paid: Path
) -> None:
    pipeline.sync(store, config)
    for until, expected in ((1, 0), (2, 100), (4, 300)):
        assert (
            wasted(store, CallFilter(until=START + timedelta(seconds=until))).any.output_tokens
            == expected
        )


def test_a_session_that_goes_on_is_told_by_its_events_until_it_has_come_to_rest(
    store: Store, config: Config, paid: Path
) -> None:
    file = paid / "alpha.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for end in range(2, len(lines) + 1):
        file.write_bytes(b"".join(lines[:end]))
        pipeline.sync(store, config, quiet_s=NEVER if end % 3 else LATER)
        assert is_marked(store) == (end % 3 == 0)
        assert wasted(store) == by_events(store)
    pipeline.sync(store, config, quiet_s=LATER)
    assert is_marked(store)
    assert wasted(store) == by_events(store)


@pytest.mark.parametrize("order", ["original first", "copy first"])
def test_a_call_that_counts_for_another_session_takes_its_mark_with_it(
    store: Store, config: Config, paid: Path, order: str
) -> None:
    """The copy says more, so it counts, and there nothing went wrong. What was repeated is then
    charged to the call before."""
    copy = line(s="beta", id="b1", text="hello", at=90) + line(
        s="beta", id="b2", up="b1", kind="assistant_msg", text="Hi.", msg="a5", tokens=300, at=91
    )
    original = (paid / "alpha.jsonl").read_bytes()
    for content in (original, copy) if order == "original first" else (copy, original):
        (paid / f"{'alpha' if content is original else 'beta'}.jsonl").write_bytes(content)
        if content is copy and order == "copy first":
            (paid / "alpha.jsonl").unlink()
        pipeline.sync(store, config)
        assert is_marked(store)
        assert wasted(store) == by_events(store)
    assert [wasted(store).retries.output_tokens, wasted(store).failed.output_tokens] == [100, 100]
    assert doctor.examine(store, config, full=True).ok


def test_a_sync_that_was_stopped_leaves_no_mark_behind(
    store: Store, config: Config, paid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = store.ingest.put

    def stopped(*args: object) -> None:
        put(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store.ingest, "put", stopped)
        with pytest.raises(KeyboardInterrupt):
            pipeline.sync(store, config, workers=0)
    assert wasted(store) == by_events(store)
    pipeline.sync(store, config)
    assert is_marked(store)
    assert wasted(store) == by_events(store)
    assert wasted(store).any.calls == 3


def test_what_comes_after_an_eviction_is_added_to_what_was_known(
    store: Store, config: Config, paid: Path
) -> None:
    file = paid / "alpha.jsonl"
    pipeline.sync(store, config)
    let_go(store, ["toy:alpha"])
    before = wasted(store)
    more = line(
        s="alpha",
        id="a12",
        up="a11",
        kind="tool_call",
        text="ls x",
        tool="sh",
        call="c9",
        at=20,
        tokens=11,
    ) + line(
        s="alpha", id="a13", up="a12", kind="tool_result", text="no x", call="c9", error=True, at=21
    )
    # What was before is gone.
    file.write_bytes(
        line(s="alpha", id="a11", kind="assistant_msg", text="Yes.", at=9, tokens=2) + more
    )
    pipeline.sync(store, config, quiet_s=NEVER)
    for _ in range(2):
        after = wasted(store)
        assert (after.abandoned, after.retries) == (before.abandoned, before.retries)
        assert after.failed.output_tokens == before.failed.output_tokens + 11
        pipeline.sync(store, config, quiet_s=LATER)
    assert is_marked(store)
    let_go(store, ["toy:alpha"])
    assert wasted(store) == after


def test_calls_that_were_found_when_events_left_in_older_versions_stay_found(
    store: Store, config: Config, paid: Path
) -> None:
    pipeline.sync(store, config)
    before = wasted(store)
    let_go(store, ["toy:alpha"])
    digest = store.digests.get("toy:alpha")
    assert digest is not None
    seqs = {
        one.kept.call.output_tokens: one.kept.call.seq for one in store.ledger.billed("toy:alpha")
    }
    waste = {"abandoned": (seqs[40],), "retries": (seqs[200],), "failed": (seqs[100],)}
    outdate(store)
    store.digests.put(
        msgspec.structs.replace(digest, version=7, dead_ends={}, waste=waste), datetime.now(UTC)
    )
    assert not is_marked(store)
    assert wasted(store) == before


def test_a_copied_store_is_marked_as_the_one_that_it_was_taken_from(
    store: Store, config: Config, paid: Path, server: postgres.Server, tmp_path: Path
) -> None:
    (paid / "beta.jsonl").write_bytes(
        line(s="beta", id="b1", text="hello", at=90)
        + line(s="beta", id="b2", up="b1", kind="assistant_msg", text="Hi.", tokens=7, at=91)
    )
    pipeline.sync(store, config)
    made = wasted(store)
    for url in (server.make_schema(), str(tmp_path / "copy.db")):
        other = open_store(url)
        # One that has a call already: of two copies that say different things, the one that is
        # taken over counts.
        shutil.copytree(paid, tmp_path / "there", dirs_exist_ok=True)
        (tmp_path / "there/alpha.jsonl").unlink()
        (tmp_path / "there/gamma.jsonl").write_bytes(
            line(
                s="gamma",
                id="g1",
                kind="tool_call",
                text="make",
                tool="sh",
                call="c1",
                msg="a5",
                at=3,
                tokens=4,
            )
            + line(
                s="gamma",
                id="g2",
                up="g1",
                kind="tool_result",
                text="no",
                call="c1",
                error=True,
                at=4,
            )
        )
        there = msgspec.structs.replace(config, store=url)
        pipeline.sync(other, there, roots=[str(tmp_path / "there")])
        assert wasted(other).failed.output_tokens == 4
        copying.copy(store, other)
        assert is_marked(other)
        assert wasted(other) == by_events(other) == made
        other.close()


DAMAGE = {
    "a mark that is gone": f"update calls set flags = flags & {~WASTED}",
    "a mark too many": f"update calls set flags = flags | {WASTED}",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_wrong_mark_is_noticed_and_put_right(
    store: Store, config: Config, paid: Path, kind: str
) -> None:
    pipeline.sync(store, config)
    before = wasted(store)
    store.db.execute(DAMAGE[kind])  # type: ignore[attr-defined]
    with store.transaction():
        store.ledger.changed.update(  # type: ignore[attr-defined]
            number for (number,) in store.maintenance.rows("select number from sessions")
        )
    assert wasted(store) != before
    report = doctor.examine(store, config, full=True)
    assert [check.name for check in report.checks if not check.ok] == ["digests"]
    doctor.examine(store, config, full=True, repair=True)
    assert doctor.examine(store, config, full=True).ok
    assert wasted(store) == before


def test_a_digest_that_cannot_be_read_keeps_no_call_out(
    store: Store, config: Config, paid: Path
) -> None:
    pipeline.sync(store, config)
    store.db.execute("update digests set length = length + 1")  # type: ignore[attr-defined]
    (paid / "beta.jsonl").write_bytes(
        line(s="beta", id="b1", text="hello", at=90)
        + line(
            s="beta", id="b2", up="b1", kind="assistant_msg", text="Hi.", msg="a7", tokens=7, at=91
        )
    )
    pipeline.sync(store, config)
    assert wasted(store).of.calls == 5


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize(
    ("agent", "folder"), [("claude", "claude-code"), ("codex", "codex"), ("grok", "grok")]
)
def test_of_real_sessions_the_same_is_told(tmp_path: Path, agent: str, folder: str) -> None:
    config = Config(home=tmp_path, store=str(tmp_path / "real.db"))
    store = open_store(config.store)
    pipeline.sync(store, config, agents=[agent], roots=[str(CORPUS / folder)], quiet_s=LATER)
    assert is_marked(store)
    assert store.sessions.uids(ALL)
    made = wasted(store)
    assert made == by_events(store)
    let_go(store, store.sessions.uids(ALL))
    assert wasted(store) == made
    store.close()
