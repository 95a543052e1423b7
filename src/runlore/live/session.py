"""A session and its conversation: append messages, go back, branch off, compact, and see what the
model should see.

Everything is a record; nothing is ever changed or removed. What is in view is worked out by
`_tree.py` (which records) and `views.py` (as which messages). State and skills are other views of
the same log, in files of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..errors import LogError
from ..model import LogRecord, parse_time
from . import _line, _snapshots
from ._file import Item
from ._fork import fork
from ._handle import Handle
from ._index import SessionInfo
from ._ledger import fates
from ._tree import SAID, VERSION, Tree
from .liveness import here, judge
from .outputs import Outputs
from .skills import SkillLog, SkillRun
from .state import StateHandle
from .views import (
    COMPACT_AT,
    Conversation,
    Message,
    ToolCall,
    assemble,
    should_compact,
    summary_pair,
)

if TYPE_CHECKING:
    from .log import SessionStore

DEFAULT_TITLE = "New chat"
VIEW = "view"
SNAPSHOT_EVERY = 16_000
"""Records between two snapshots: writing one takes up to 4 ms, since ext4 flushes what replaces a
file; folding so many takes 40."""
SAVE_RUN_EVERY = 2000
"""The same for the state of a run, where there is one: passing so many records takes 2 ms."""
SNAPSHOT_AT_CLOSE = 100
"""For fewer new records a snapshot at the end is not worth its file."""
TELL_EVERY_S = 1.0
FIRST_BYTES = 1 << 14
MAX_FOLD_BYTES = 1 << 25
"""What is folded in passing, for the list of sessions. More than that waits until someone wants to
see the conversation."""

Where = LogRecord | int | str
"""A record by itself, its seq or its id."""


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the conversation; `rewind(to=branch.tip)` goes there."""

    tip: str
    """Its last record, which `rewind` takes."""
    seq: int
    parent: int
    """The record at which it left another line, or -1."""
    messages: int
    is_active: bool
    ts: datetime


class Recovery(msgspec.Struct, frozen=True):
    """What is known after a crash about the calls that have no result in the conversation."""

    calls: list[ToolCall]

    def of(self, fate: str) -> list[ToolCall]:
        return [call for call in self.calls if call.fate == fate]

    @property
    def settled(self) -> list[ToolCall]:
        """Finished, as the ledger says; the view shows their output."""
        return self.of("settled")

    @property
    def not_started(self) -> list[ToolCall]:
        return self.of("not_started")

    @property
    def unknown(self) -> list[ToolCall]:
        """Begun and not known to have ended. `replay` says whether they may simply be run again."""
        return self.of("unknown")


class LiveSession(Handle):
    """An open session. Made by a SessionStore."""

    def __init__(
        self,
        store: SessionStore,
        path: Path,
        *,
        readonly: bool = False,
        first: dict[str, Any] | None = None,
        joins: bool = False,
    ) -> None:
        super().__init__(
            path, durability=store.durability, readonly=readonly, first=first, joins=joins
        )
        self._store = store
        self._tree: Tree | None = Tree() if first is not None else None
        self._tree_start = self._tree_end = 0
        self._saved_seq = -1
        self._told_at = 0.0
        self._told_change = -1
        self._is_shared = False
        self._is_folding = False
        self._state: StateHandle | None = None
        self._skills: SkillLog | None = None
        self._run: StateHandle | None = None
        self._run_saved = -1
        self._status: tuple[int, str | None] = (-1, None)
        self._outputs = Outputs(path, self.durability == "power")

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        message: Mapping[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
        partial: bool = False,
    ) -> LogRecord:
        """Appends a message and returns its record. A `partial` one is a stream so far: more of it,
        or the whole, replaces it in view.

        Tool outputs of more than 64 KB are kept in a file, with their head and tail in the log.
        """
        return self.record(
            "partial" if partial else "message", self._stored(message), key=key, expect=expect
        )

    def append_many(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> list[LogRecord]:
        """Appends messages, all or none."""
        items = [
            ("message", self._stored(message), key if n == 0 else None)
            for n, message in enumerate(messages)
        ]
        return self.record_many(items, expect=expect)

    def rewind(self, to: Where | None = None, *, before: Where | None = None) -> LogRecord:
        """Goes back, or to another branch: the record `to` is the last in view, or the one in front
        of `before`.

        With neither, to the beginning. What was behind stays in the log: see `redo` and `branches`.
        """
        where = to if before is None else before
        record = None if where is None else self.find(where)
        seq = -1 if record is None else record.seq - (before is not None)
        return self.record("rewind", {"seq": seq, **({"record": record.id} if record else {})})

    def redo(self) -> LogRecord:
        """Takes the last rewind back. Raises LogError when there is none, or something was appended
        since."""
        if not self._view().redo:
            raise LogError(f"{self.id}: nothing to redo; branches() lists what was left behind")
        return self.record("redo", {"seq": self._view().redo[-1]})

    def compact(
        self,
        summary: str,
        *,
        upto: Where | None = None,
        usage: Mapping[str, Any] | None = None,
        **about: Any,
    ) -> LogRecord:
        """Puts a summary in place of everything in view up to the record `upto`: by default all of
        it.

        What was appended while the summary was made stays when `upto` is given. A call that is
        still running or waits is never covered.
        """
        seq = self._view().seq if upto is None else self.find(upto).seq
        view = self.conversation()
        for call in view.open_calls:
            if call.fate in ("running", "waiting"):
                seq = min(seq, self.find(call.record).seq - 1)
        covered = [
            entry for entry in view.entries if entry.record is not None and entry.record.seq <= seq
        ]
        if not covered:
            raise LogError(f"{self.id}: nothing to compact")
        payload = {"summary": summary, "upto": seq, "compacted_count": len(covered), **about}
        record = self.record(
            "compact", payload if usage is None else {**payload, "usage": dict(usage)}
        )
        self._save()
        return record

    def clear(self) -> LogRecord:
        """Empties the view. The log keeps everything, and a rewind brings it back."""
        return self.record("clear", {})

    def set_title(self, title: str) -> LogRecord:
        return self.record("title", {"title": title})

    def fork(
        self, at: Where | None = None, *, id: str | None = None, title: str | None = None
    ) -> LiveSession:
        """A new session with the conversation up to a record, now or as it was; its `meta.origin`
        names this one."""
        return fork(
            self._store, self, self._view().seq if at is None else self.find(at).seq, id, title
        )

    def tool_started(
        self,
        call_id: str,
        name: str = "",
        input: Any = None,
        *,
        replay: Literal["never", "safe"] = "never",
    ) -> LogRecord:
        """To be called before a tool runs, so that a crash leaves no guess. `replay`: whether it
        may be run twice."""
        owner = msgspec.to_builtins(here())
        return self.record(
            "tool_started",
            {"call_id": call_id, "name": name, "input": input, "replay": replay, "owner": owner},
        )

    def tool_waiting(self, call_id: str, reason: str = "approval") -> LogRecord:
        """The call waits for someone: it is not interrupted, however long that takes."""
        return self.record("tool_waiting", {"call_id": call_id, "reason": reason})

    def tool_finished(
        self, call_id: str, output: Any = None, *, is_error: bool = False
    ) -> LogRecord:
        """To be called when the tool is done. Until its result is appended as a message, the view
        takes it from here."""
        shown, ref = self._outputs.shorten_output(output)
        payload = {"call_id": call_id, "output": shown, "is_error": is_error}
        return self.record("tool_finished", {**payload, "whole": ref} if ref else payload)

    def put_output(self, data: bytes | str) -> dict[str, Any]:
        """Keeps something large beside the log, and returns what names it."""
        return self._outputs.put(data)

    def output(self, ref: dict[str, Any] | str) -> bytes:
        return self._outputs.get(ref)

    # ── seeing ────────────────────────────────────────────────────────────────────────────────────

    def messages(self, *, repaired: bool = True, partial: bool = True) -> list[Message]:
        """What the model should see now. Reading writes nothing: calls without a result are closed
        in the view only."""
        position = self._view().seq
        mark, nodes = self._seen(position)
        if all(
            [node.type == "message" and type(node.payload.get("content")) is str for node in nodes]  # noqa: C419
        ):  # quicker
            return [
                *(summary_pair(mark) if mark is not None and mark.type == "compact" else ()),
                *[node.payload for node in nodes],
            ]
        return self._assembled(position, mark, nodes, repaired, partial).messages

    def conversation(
        self, at: Where | None = None, *, repaired: bool = True, partial: bool = True
    ) -> Conversation:
        """The messages in view, each with its record, and the calls that have no result."""
        tree = self._view()
        position = tree.seq if at is None else self.find(at).seq
        return self._assembled(position, *self._seen(position), repaired, partial)

    def at(self, record: Where) -> Conversation:
        """The conversation as it was right after that record."""
        return self.conversation(at=record)

    def branches(self) -> list[Branch]:
        """Every line of the conversation, by its last record, oldest first."""
        tree = self._view()
        head = tree.last_node(tree.seq)
        found = []
        for tip, parent, count in sorted(tree.tips()):
            record = self.find(tip)
            found.append(
                Branch(
                    tip=record.id,
                    seq=tip,
                    parent=parent,
                    messages=count,
                    is_active=tip == head,
                    ts=record.ts,
                )
            )
        return found

    def recover(self) -> Recovery:
        """After a crash: what became of the calls that have no result. Writes nothing, and runs
        nothing."""
        return Recovery(self.conversation().open_calls)

    def should_compact(
        self, window: int, usage: Mapping[str, Any] | None = None, threshold: float = COMPACT_AT
    ) -> bool:
        """Whether the context is nearly full, by the usage given or that of the last message in
        view that has one."""
        if usage is None:
            views = (message.get("usage") for message in reversed(self.messages(repaired=False)))
            usage = next((found for found in views if isinstance(found, dict)), None)
        return should_compact(usage, window, threshold)

    @property
    def meta(self) -> SessionInfo:
        tree, about = (
            self._view(),
            dict(self._view().meta if not self.is_draft else self._first or {}),
        )
        now = datetime.now(UTC)
        about.pop("title", None)
        about.pop("version", None)
        known = {
            name: about.pop(name, None)
            for name in ("provider", "model", "cwd", "api_base", "agent", "origin")
        }
        facts: dict[str, Any] = {
            name: value
            for name, value in known.items()
            if isinstance(value, dict if name == "origin" else str)
        }
        title = tree.title or (self._first or {}).get("title") or DEFAULT_TITLE
        created = parse_time(tree.created_at or now)
        # A fork is new, though its records keep their times.
        updated = max(created, parse_time(tree.updated_at or created))
        return SessionInfo(
            id=self.id, title=title, status=self._status_now(tree), created_at=created,
            updated_at=updated,
            messages=tree.messages, seq=tree.seq, extra=about, **facts,
        )  # fmt: skip

    @property
    def folded_bytes(self) -> int:
        """How much of the log `meta` and the other views have seen."""
        return self._tree_end

    @property
    def format(self) -> int:
        """The version of the log's format, as its first record says."""
        line, end, _ = self._reader.read(0, FIRST_BYTES).partition(b"\n")
        if not end:  # It holds what was appended first as well.
            line = next((lines[0] for _, lines in self._reader.blocks()), b"")
        try:
            first = _line.decode(line)[0]
        except (_line.Damaged, IndexError):
            return 0
        version = first.payload.get("version")
        return version if isinstance(version, int) else 0

    @property
    def state(self) -> StateHandle:
        """The state of the run: status, progress, checkpoints."""
        if self._state is None:
            self._state = StateHandle(self)
        return self._state

    @property
    def skills(self) -> SkillLog:
        """What skills were run, and how that went."""
        if self._skills is None:
            self._skills = SkillLog(self)
        return self._skills

    def skill(self, name: str, **about: Any) -> SkillRun:
        """Runs a skill: `with session.skill("review", phase="red", input=…) as run`."""
        return self.skills.run(name, **about)

    def close(self) -> None:
        self._lease.release()
        if self._told_at:  # It has written.
            self._tell(is_last=True)
            if self._tree is not None and self._tree.seq - self._saved_seq >= SNAPSHOT_AT_CLOSE:
                self._save()
                if self._tree.state_seq >= 0:
                    self._save_run()
            self._told_at = 0.0
        super().close()

    # ── how it is done ────────────────────────────────────────────────────────────────────────────

    def _make_log(self, items: Sequence[Item]) -> list[LogRecord]:
        with self._store.making() as tell:
            self._store.make_folder(self.path)
            self._file.make()
            # Of two that make it at the same time, one is the first.
            records = self._file.append(items, -1)
            self._first = None
            self._told_at, self._told_change = time.monotonic(), self._view().changed
            tell(self.meta, self._tree_end)
        return records

    def _join(self) -> None:
        super()._join()
        self._tree, self._tree_start, self._tree_end = None, 0, 0

    def _stored(self, message: Mapping[str, Any]) -> dict[str, Any]:
        stored = (
            message
            if type(message) is dict
            else dict(message)
            if isinstance(message, Mapping)
            else {}
        )
        content = stored.get("content")
        if not isinstance(stored.get("role"), str) or not isinstance(content, (str, list)):
            raise LogError(
                f"{self.id}: a message needs a role, and content that is a text or a list of blocks"
            )
        return self._outputs.shorten(stored) if type(content) is not str else stored

    def _seen(self, position: int) -> tuple[LogRecord | None, list[LogRecord]]:
        """The last compaction or clear, and the messages to be seen behind it."""
        mark, ranges = self._view().visible(position)
        nodes = [record for low, high in ranges for record in self._reader.collect(low, high, SAID)]
        return (self.find(mark) if mark is not None else None), nodes

    def _assembled(
        self,
        position: int,
        mark: LogRecord | None,
        nodes: list[LogRecord],
        repaired: bool,
        partial: bool,
    ) -> Conversation:
        return assemble(
            mark,
            nodes,
            lambda calls, seq: self._fates(calls, seq, position),
            partial=partial,
            repaired=repaired,
        )

    def _fates(self, calls: list[ToolCall], seq: int, position: int) -> list[ToolCall]:
        tree, is_elsewhere = self._view(), self._is_elsewhere()
        if not tree.has_ledger and not is_elsewhere:
            return calls
        return fates(
            self._reader,
            calls,
            seq,
            position,
            tells_starts=tree.tells_starts,
            is_elsewhere=is_elsewhere,
        )

    def _is_elsewhere(self) -> bool:
        """Whether another live process is at work on this session: it holds the lease, or it is the
        owner of the run."""
        if self._lease.is_ours:
            return False
        if self._lease.holder() is not None:
            return True
        if self._view().state_seq < 0:
            return False
        run = self._own_run().current
        if run.status != "active" or run.owner is None or run.owner.is_same(here()):
            return False
        return judge(run.owner) == "alive"

    def _view(self) -> Tree:
        """The fold of the log as it is now: from the last snapshot, or from where this handle left
        off."""
        with self._file.mutex:
            self._leave_inherited()
            # A loss of power took what had been folded.
            if not self.is_draft and self._reader.size_bytes < self._tree_end:
                self._tree, self._tree_start, self._tree_end = None, 0, 0
            tree = self._tree if self._tree is not None else self._from_snapshot()
            if not self.is_draft:
                self._fold(tree, self._reader.scan(self._tree_end))
            return tree

    def _fold(self, tree: Tree, records: Iterable[tuple[LogRecord, int]]) -> None:
        """Brings the fold forward, each record with where it ends. Nothing is done in a signal
        handler that comes in the middle of it."""
        if self._is_folding:
            return
        self._is_folding = True
        try:
            for record, end in records:
                tree.add(record)
                self._tree_end = end
        except BaseException:  # Also of a handler: half a record may have been added.
            self._tree, self._tree_start, self._tree_end = None, 0, 0
            raise
        finally:
            self._is_folding = False

    def _leave_inherited(self) -> None:
        """In the child of a fork: a thread of the parent may have been in the middle of folding, so
        it is done anew."""
        if self._file.is_inherited:
            self._file.is_inherited = False
            if not self.is_draft:
                self._tree, self._tree_start, self._tree_end = None, 0, 0

    def _from_snapshot(self) -> Tree:
        tree = Tree()
        found = _snapshots.read(self.path, VIEW, self._reader)
        if found is not None:
            try:
                tree = msgspec.msgpack.decode(found.data, type=Tree)
            except ValueError:
                tree = Tree()
            if tree.version != VERSION or tree.seq != found.seq:
                tree = Tree()
            self._tree_start = self._tree_end = found.offset if tree.seq >= 0 else 0
            if found.stamp is not None and found.stamp == self._reader.stamp():
                self._reader.trust(0, found.stamp[0])
        self._tree, self._saved_seq = tree, tree.seq
        return tree

    def _on_open(self) -> None:
        if self._first is None:  # Of one that is being made, the index knows when it is.
            self._store._index.announce(self.id)

    def _on_own(self, records: list[LogRecord], end: int) -> None:
        tree = self._tree
        if tree is None or tree.seq != records[0].seq - 1 or self._is_folding:
            return
        # So it is nearly always, and nothing can come in between.
        if len(records) == 1 and records[0].type == "message":
            tree.add(records[0])
            self._tree_end = end
        else:
            self._fold(tree, zip(records, repeat(end), strict=False))

    def _on_new(self, records: list[LogRecord] | None, end: int) -> None:
        super()._on_new(records, end)
        self._leave_inherited()
        if records is None and end < self._tree_end:
            self._tree, self._tree_start, self._tree_end = None, 0, 0
        self._is_shared = self._is_shared or bool(records)
        if records and self._tree is not None and self._tree.seq == records[0].seq - 1:
            self._fold(self._tree, zip(records, repeat(end), strict=False))

    def _appended(self, records: list[LogRecord]) -> None:
        tree = self._tree if self._tree is not None else self._first_fold(records[0].seq)
        if tree.seq - self._saved_seq >= SNAPSHOT_EVERY:
            self._save()
        if tree.state_seq >= 0 and tree.seq - self._run_saved >= SAVE_RUN_EVERY:
            self._save_run()
        now = time.monotonic()
        if tree.changed != self._told_change or now - self._told_at >= TELL_EVERY_S:
            self._told_at, self._told_change = now, tree.changed
            self._tell()

    def _first_fold(self, seq: int) -> Tree:
        """The fold of a handle that was opened to append, and has seen nothing yet."""
        with self._file.mutex:
            # Another thread was quicker, and may have folded more since.
            if self._tree is not None:
                return self._tree
            tree = self._from_snapshot()
            if self._reader.size_bytes - self._tree_end <= MAX_FOLD_BYTES:
                self._view()
            self._told_change = tree.changed if tree.changed < seq else -1
            return tree

    def _save(self) -> None:
        with self._file.mutex:
            assert self._tree is not None
            seq, data = self._tree.seq, msgspec.msgpack.encode(self._tree)
            # What was folded was checked line by line, or written by us.
            if not self._reader.problems:
                self._reader.trust(self._tree_start, self._tree_end)
            stamp = self._reader.stamp()
            is_sound = stamp[0] == self._tree_end and self._reader.is_sound(0, self._tree_end)
            self._saved_seq = seq
        self._put_snapshot(VIEW, seq, data, stamp if is_sound else None)

    def _tell(self, *, is_last: bool = False) -> None:
        if self._reader.size_bytes - self._tree_end <= MAX_FOLD_BYTES:
            info = self.meta
            # Nobody else is seen to write.
            is_alone = not self._is_shared and self._tree_end == self._file.end
            self._store._index.tell(info, self._tree_end, is_settled=is_last and is_alone)

    def _status_now(self, tree: Tree) -> str | None:
        if tree.state_seq >= 0 and self._status[0] != tree.state_seq:
            self._status = (tree.state_seq, str(self._own_run().current.status))
        return self._status[1]

    def _own_run(self) -> StateHandle:
        """A handle of our own: this is called from within appends, also of the handle that others
        use."""
        if self._run is None:
            self._run = StateHandle(self)
        return self._run

    def _save_run(self) -> None:
        """Brings the snapshot of the state forward, also when only messages were appended: a reader
        then passes few of them."""
        self._run_saved = self._tree.seq if self._tree is not None else -1
        self._own_run().save()
