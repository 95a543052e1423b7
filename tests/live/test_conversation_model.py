"""Any sequence of operations, crashes and reopenings gives what a simple model in memory gives."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from runlore.errors import LogError
from runlore.live import SessionStore
from runlore.live.log import LiveSession
from runlore.live.views import SUMMARY_ACK, SUMMARY_HEAD
from runlore.model import LogRecord


class Model:
    """A list of nodes with parents, a head, and what can be redone. As plain as can be: every
    question walks the whole list."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[str, Any, int]] = {}  # seq → kind, content, parent
        self.heads: list[int] = []  # after each record
        self.head = -1
        self.redo: list[int] = []

    def add(self, seq: int, kind: str, content: Any) -> None:
        self.nodes[seq] = (kind, content, self.head)
        self.head, self.redo = seq, []
        self.passed(seq)

    def move(self, seq: int, head: int) -> None:
        self.head = head
        self.passed(seq)

    def passed(self, seq: int) -> None:
        """After a record: positions between are those of records that do not move the head."""
        while len(self.heads) < seq:
            self.heads.append(self.heads[-1] if self.heads else -1)
        self.heads.append(self.head)

    def path(self, head: int) -> list[int]:
        found = []
        while head >= 0:
            found.append(head)
            head = self.nodes[head][2]
        return found[::-1]

    def view(self, head: int) -> list[str]:
        path = self.path(head)
        marks = [seq for seq in path if self.nodes[seq][0] in ("compact", "clear")]
        if not marks:
            return [self.nodes[seq][1] for seq in path]
        kind, content, _ = self.nodes[marks[-1]]
        floor = marks[-1] if kind == "clear" else content[1]
        floor = max([floor, *(seq for seq in marks[:-1] if self.nodes[seq][0] == "clear")])
        rest = [
            self.nodes[seq][1] for seq in path if seq > floor and self.nodes[seq][0] == "message"
        ]
        return rest if kind == "clear" else [SUMMARY_HEAD + content[0], SUMMARY_ACK, *rest]


class Machine(RuleBasedStateMachine):
    records = Bundle("records")

    @initialize(durability=st.sampled_from(["process", "power"]))
    def make(self, durability: Any) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="runlore-live-"))
        self.store = SessionStore(self.folder, durability=durability)
        self.id = "s0"
        self.session: LiveSession = self.store.create(id=self.id)
        self.second: LiveSession | None = None
        self.model = Model()
        self.model.passed(0)
        self.number = 0
        self.checkpoints = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def text(self) -> str:
        self.number += 1
        return f"text {self.number} €"

    @rule(target=records, by_other=st.booleans(), long=st.booleans())
    def append(self, by_other: bool, long: bool) -> LogRecord:
        writer = self.session
        if by_other:
            writer = self.second = self.second or self.store.open(self.id)
        text = self.text() + ("x" * 70_000 if long else "")
        record = writer.append({"role": "user", "content": text})
        self.model.add(record.seq, "message", text)
        return record

    @rule(target=records, count=st.integers(1, 4))
    def append_many(self, count: int) -> Any:
        said = [self.text() for _ in range(count)]
        done = self.session.append_many([{"role": "user", "content": text} for text in said])
        for record, text in zip(done, said, strict=True):
            self.model.add(record.seq, "message", text)
        return multiple(*done)

    @rule(record=records, before=st.booleans())
    def rewind(self, record: LogRecord, before: bool) -> None:
        old = self.model.head
        moved = self.session.rewind(before=record) if before else self.session.rewind(to=record.id)
        position = record.seq - 1 if before else record.seq
        self.model.redo.append(old)
        self.model.move(moved.seq, self.model.heads[position])

    @rule()
    def rewind_to_the_beginning(self) -> None:
        self.model.redo.append(self.model.head)
        self.model.move(self.session.rewind().seq, -1)

    @rule()
    def redo(self) -> None:
        if not self.model.redo:
            try:
                self.session.redo()
            except LogError:
                return
            raise AssertionError("there was nothing to redo")
        head = self.model.redo.pop()
        self.model.move(self.session.redo().seq, head)

    @rule(target=records, upto=st.none() | records)
    def compact(self, upto: LogRecord | None) -> Any:
        summary = self.text()
        floor = len(self.model.heads) - 1 if upto is None else upto.seq
        head = self.model.head
        covered = [
            seq
            for seq in self.model.path(head)
            if self.model.nodes[seq][0] == "message" and seq <= floor
        ]
        in_view = set(self.model.view(head))
        try:
            record = self.session.compact(summary, upto=upto)
        except LogError:
            assert not [seq for seq in covered if self.model.nodes[seq][1] in in_view]
            return multiple()
        self.model.add(record.seq, "compact", (summary, floor))
        return record

    @rule(target=records)
    def clear(self) -> LogRecord:
        record = self.session.clear()
        self.model.add(record.seq, "clear", None)
        return record

    @rule(record=records)
    def look_back(self, record: LogRecord) -> None:
        assert _texts(self.session.at(record).messages) == self.model.view(
            self.model.heads[record.seq]
        )

    @rule(record=records)
    def fork(self, record: LogRecord) -> None:
        fork = self.session.fork(at=record)
        expected = self.model.view(self.model.heads[record.seq])
        assert _texts(fork.messages()) == expected
        fork.append({"role": "user", "content": "in the fork"})
        assert _texts(fork.messages()) == [*expected, "in the fork"]
        fork.close()

    @rule()
    def checkpoint(self) -> None:
        state = self.session.state
        if not self.checkpoints:
            state.start(goal_id="goal")
        self.checkpoints += 1
        state.checkpoint("node", {"n": self.checkpoints})
        self.model.passed(self.session.last_seq)

    @precondition(lambda self: self.checkpoints)
    @invariant()
    def checkpoints_are_kept(self) -> None:
        assert len(self.session.state.checkpoints) == self.checkpoints

    @rule(
        torn=st.binary(max_size=40).filter(lambda data: b"\n" not in data),
        lose_snapshots=st.booleans(),
        empty=st.booleans(),
    )
    def crash(self, torn: bytes, lose_snapshots: bool, empty: bool) -> None:
        """The handle goes without being closed, perhaps in the middle of a write."""
        with (self.session.path / "log.jsonl").open("ab") as file:
            file.write(torn)
        if lose_snapshots:
            for path in (self.session.path / "snapshots").glob("*"):
                path.write_bytes(b"") if empty else path.unlink()
        self.session, self.second = self.store.open(self.id), None

    @rule(exclusive=st.booleans())
    def reopen(self, exclusive: bool) -> None:
        if self.second:
            self.second.close()
            self.second = None
        self.session.close()
        if exclusive:
            self.store.open(self.id, exclusive=True).close()
        self.session = self.store.open(self.id)
        if exclusive:
            self.model.passed(self.session.last_seq)

    @rule(record=consumes(records))
    def forget(self, record: LogRecord) -> None:
        """Keeps the bundle from growing without end."""

    @invariant()
    def the_view_is_that_of_the_model(self) -> None:
        expected = self.model.view(self.model.head)
        assert _texts(self.session.messages()) == expected
        assert _texts(self.store.open(self.id, readonly=True).messages()) == expected

    @invariant()
    def seqs_have_no_gaps(self) -> None:
        seqs = [record.seq for record in self.session.records()]
        assert seqs == list(range(len(seqs)))
        assert len(seqs) == len(self.model.heads)


def _texts(messages: list[dict[str, Any]]) -> list[str]:
    return [
        m["content"]
        if isinstance(m["content"], str)
        else "".join(b.get("text", "") for b in m["content"])
        for m in messages
    ]


TestConversation = Machine.TestCase
