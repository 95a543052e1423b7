"""Damage to live session logs: every byte of a small log with every type of record is flipped,
zeroed, or is where the log is cut off; so are those of its snapshots.

After each of these the session must open with every record that is intact, with snapshots and
without, name the records it lost, and go on.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.attack import Result
from runlore.errors import CheckpointError, Conflict
from runlore.live import LiveSession, SessionStore
from runlore.live.liveness import here
from runlore.live.run_records import Recovered
from runlore.live.skill_fold import SkillEntry
from runlore.model import LogRecord

SEED = 28
ID = "small"
ENDS = frozenset({"state.completed", "state.failed", "state.cancelled"})
ENDED = ("completed", "r5")
"""Status and run at the end of the log."""
Damage = Callable[[bytes, int, random.Random], bytes]


def flip(data: bytes, place: int, rng: random.Random) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def zero(data: bytes, place: int, _: random.Random) -> bytes:
    return data[:place] + b"\0" + data[place + 1 :]


def cut(data: bytes, place: int, _: random.Random) -> bytes:
    return data[:place]


DAMAGES: dict[str, Damage] = {"a bit flipped": flip, "a byte zeroed": zero, "cut off": cut}


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Damage a share of the bytes of a log, and of its snapshots, one at a time."""
    rng = random.Random(SEED)
    with SessionStore(scratch / "damaged") as store, SessionStore(scratch / "sound") as other:
        original = Original(store, other)
        for name, damage in DAMAGES.items():
            for has_snapshots in (False, True):
                check = partial(original.check_log, has_snapshots=has_snapshots)
                case = f"log: {name}, {'with' if has_snapshots else 'without'} snapshots"
                yield _run(case, original.log, damage, check, scale, rng)
        for snapshot, data in original.snapshots.items():
            for name, damage in DAMAGES.items():
                check = partial(original.check_snapshot, snapshot)
                yield _run(f"snapshot `{snapshot}`: {name}", data, damage, check, scale, rng)


def _run(
    case: str,
    data: bytes,
    damage: Damage,
    check: Callable[[bytes], str | None],
    scale: float,
    rng: random.Random,
) -> Result:
    places = sorted(rng.sample(range(len(data)), max(1, round(len(data) * min(scale, 1.0)))))
    held, note = 0, ""
    for place in places:
        try:
            problem = check(damage(data, place, rng))
        except Exception as error:  # Whatever it raises did not hold.
            problem = f"{type(error).__name__}: {error}"
        held += problem is None
        note = note or (f"byte {place}: {problem}" if problem else "")
    return Result(case, len(places), held, note)


class Views(msgspec.Struct, frozen=True):
    """What the views of a session show."""

    texts: list[str]
    status: str
    run: str | None
    skills: dict[str, str]

    @classmethod
    def of(cls, session: LiveSession) -> Views:
        run = session.state.view()
        for checkpoint in run.checkpoints:
            # One that is not whole any more is refused, not restored in part.
            with suppress(CheckpointError):
                session.state.checkpoints.load(checkpoint)
        skills = session.skills.view().entries.values()
        return cls(
            [str(message["content"]) for message in session.messages()],
            run.state.status,
            run.state.current_run_id,
            {entry.id: entry.final_status for entry in skills},
        )


class Original:
    """A session with every type of record and all snapshots, and what its views show."""

    def __init__(self, store: SessionStore, other: SessionStore) -> None:
        self._store, self._other = store, other
        write_session(store)
        shutil.copytree(store.path / ID, other.path / ID)
        folder = store.path / ID
        self.log = (folder / "log.jsonl").read_bytes()
        self.snapshots = {path.name: path.read_bytes() for path in (folder / "snapshots").iterdir()}
        with store.open(ID, readonly=True) as session:
            self.records = {record.seq: record for record in session.records()}
        self._lines = _seqs_of_lines(self.log, self.records)
        self._ending = max(seq for seq, one in self.records.items() if one.type in ENDS)
        self._known: dict[tuple[int, ...], Views] = {}
        self._whole = self._views_of(tuple(self.records))

    def check_log(self, log: bytes, *, has_snapshots: bool) -> str | None:
        """Return what does not hold for this damaged log, or None."""
        self._put(self._store, log, has_snapshots)
        with self._store.open(ID) as session:
            read = {record.seq: record for record in session.records()}
            return (
                self._check_records(log, read)
                or self._check_report(session, read)
                or self._check_views(session, read, has_snapshots)
                or self._check_going_on(session)
            )

    def check_snapshot(self, name: str, snapshot: bytes) -> str | None:
        """Return what does not hold with this damaged snapshot, or None."""
        self._put(self._store, self.log, True)
        (self._store.path / ID / "snapshots" / name).write_bytes(snapshot)
        with self._store.open(ID, readonly=True) as session:
            is_same = Views.of(session) == self._whole
        return None if is_same else "a view is not what the log says"

    def _put(self, store: SessionStore, log: bytes, has_snapshots: bool) -> None:
        folder = store.path / ID
        (folder / "log.jsonl").write_bytes(log)
        (folder / "snapshots").mkdir(exist_ok=True)
        for name, data in self.snapshots.items():
            if has_snapshots:
                (folder / "snapshots" / name).write_bytes(data)
            else:
                (folder / "snapshots" / name).unlink(missing_ok=True)

    def _check_records(self, log: bytes, read: dict[int, LogRecord]) -> str | None:
        """Every line that is as it was is read, and nothing is read that was not written."""
        lines = set(log.split(b"\n")[:-1])
        intact = {seq for line, seqs in self._lines.items() if line in lines for seq in seqs}
        if strange := [seq for seq, record in read.items() if self.records.get(seq) != record]:
            return f"record {strange[0]} is not what was written"
        missing = intact - read.keys()
        return f"record {min(missing)} is intact and was not read" if missing else None

    def _check_report(self, session: LiveSession, read: dict[int, LogRecord]) -> str | None:
        """Every record that is lost before others is named; none that is there is."""
        lost = set(range(max(read, default=0))) - read.keys()
        named = {
            seq
            for problem in session.check()
            if problem.lost
            for seq in range(problem.lost[0], problem.lost[1] + 1)
        }
        if lost - named:
            return f"the loss of record {min(lost - named)} is not reported"
        wrong = named & read.keys()
        return f"record {min(wrong)} is there and reported as lost" if wrong else None

    def _check_views(
        self, session: LiveSession, read: dict[int, LogRecord], has_snapshots: bool
    ) -> str | None:
        """The views are those of a log that never had the lost records.

        A snapshot may know more: what it was taken of was intact then.
        """
        views, without = Views.of(session), self._views_of(tuple(read))
        if hidden := [text for text in without.texts if text not in views.texts]:
            return f"{hidden[0]!r} is intact and not shown"
        for name in ("texts", "status", "run", "skills"):
            shown, expected = getattr(views, name), getattr(without, name)
            if shown != expected and not (has_snapshots and shown == getattr(self._whole, name)):
                return f"{name}: {shown} is not {expected}"
        is_ended = self._ending in read and (views.status, views.run) != ENDED
        return f"the end of the run is lost with record {self._lost(read)}" if is_ended else None

    def _lost(self, read: dict[int, LogRecord]) -> list[int]:
        return sorted(self.records.keys() - read.keys())

    def _views_of(self, seqs: tuple[int, ...]) -> Views:
        """Return the views of a log with only these records."""
        if seqs not in self._known:
            lines = [line for line, own in self._lines.items() if set(own) <= set(seqs)]
            self._put(self._other, b"".join(line + b"\n" for line in lines), False)
            with self._other.open(ID, readonly=True) as session:
                self._known[seqs] = Views.of(session)
        return self._known[seqs]

    def _check_going_on(self, session: LiveSession) -> str | None:
        """Whoever writes the session goes on with it."""
        session.branches(), session.recover(), session.meta
        with suppress(Conflict):  # A record without its line end counts now: read again.
            session.append(_user("and"), expect=session.last_seq)
        before = [one.seq for one in session.records()]
        record = session.append(_user("on"), expect=session.last_seq)
        if [one.seq for one in session.records()] != [*before, record.seq]:
            return "an append changed which records are read"
        if len(set(before)) < len(before) or record.seq <= max(before):
            return f"seq {record.seq} was given twice"
        return None if session.messages()[-1] == _user("on") else "what is appended is not shown"


def _seqs_of_lines(log: bytes, records: dict[int, LogRecord]) -> dict[bytes, list[int]]:
    """Map each line to the seqs of its records: more than one for records appended together."""
    seqs: dict[bytes, list[int]] = {}
    numbers = iter(records)
    for line in log.split(b"\n")[:-1]:
        count = line.count(b'{"n":') if line.startswith(b'{"b":') else 1
        seqs[line] = [next(numbers) for _ in range(count)]
    return seqs


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def write_session(store: SessionStore) -> None:
    """Write a session that has every type of record, and its snapshots."""
    with store.create("T", id=ID) as session:
        session.append(_user("forgotten"))
    store.delete(ID)  # "deleted" and "restored"
    store.restore(ID).close()
    with store.open(ID, exclusive=True, owner="o") as session:  # "lease"
        _write_run(session)
        _write_skills(session)
        session.record("own.type", {"a": 1})
        _write_conversation(session)
        session.state.save()
        skills = session.skills.view()
        session.put_snapshot("skills", skills.seq, msgspec.msgpack.encode(skills))


def _write_conversation(session: LiveSession) -> None:
    session.clear()
    first = session.append(_user("one"), key="k1")
    session.append_many([_user("two"), _user("three")])
    session.rewind(to=first)
    session.redo()
    session.set_title("U")
    for id in ("before", "after"):
        call: dict[str, Any] = {"type": "tool_use", "id": id, "name": "x", "input": {}}
        session.append({"role": "assistant", "content": [call]})
        session.tool_started(id, "x", replay="safe")
        session.tool_waiting(id)
        session.tool_finished(id, "y")
        if id == "before":
            session.compact("what was said")  # This also writes the snapshot of the view.
    session.append(_user("end"))
    session.append({"role": "assistant", "content": "so f"}, partial=True)


def _write_run(session: LiveSession) -> None:
    state = session.state
    state.start("g", run_id="r1")
    state.progress("n", tokens=1)
    state.put(a=1)
    state.checkpoint("n", {"a": 1}, id="cp1")
    state.progress("m")
    state.checkpoint("m", {"a": 2}, id="cp2")
    state.checkpoints.prune(keep=1)
    state.problem("p")
    state.decide("d")
    state.describe(agent_id="a")
    state.heartbeat(every_s=0)
    state.pause("m")
    state.resume(run_id="r2")
    state.progress("o")
    state.fail("no")
    state.resume("cp2", run_id="r3")
    state.append("state.recovered", Recovered(owner=here(), mark="paused", error="it died"))
    state.resume(run_id="r4")
    state.cancel("enough")
    state.resume("cp2", run_id="r5")
    state.progress("p")
    # Refused, because the run was started; a log may have it all the same.
    session.record("state.adopted", {"state": {"goal_id": "g"}})
    state.complete({"x": 1})


def _write_skills(session: LiveSession) -> None:
    with session.skill("s") as run, run.attempt("m") as attempt:
        attempt.output("done")
    session.skills.add(SkillEntry(id="whole", skill="s", final_status="pass"))
