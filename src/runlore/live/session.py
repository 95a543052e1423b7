"""A session and its conversation: append messages, rewind, branch, compact, and read.

Everything is a record; nothing is ever changed or removed. `tree.py` decides which records are in
view, `views.py` turns them into messages. State and skills are other views of the same log, in
files of their own.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import LogError
from ..model import LogRecord, parse_time
from . import codec
from .backend import Item, SessionInfo
from .folds import Fold, View
from .fork import fork
from .latest import Branch, find_branches, last_nodes, last_usage
from .liveness import here, judge
from .recorder import Recorder, RecordRef
from .redaction import MARKS, hashes, redacted
from .shared import SessionValues
from .skills import SkillLog, SkillRun
from .state import StateHandle
from .streams import Stream
from .tool_calls import Recovery, find_fates
from .tree import MESSAGES, Tree
from .tree_fold import TreeFold
from .views import (
    COMPACT_AT,
    OPEN,
    Conversation,
    Entry,
    Message,
    ToolCall,
    are_plain,
    assemble,
    should_compact,
    summary_of,
)

if TYPE_CHECKING:
    from .log import SessionStore

DEFAULT_TITLE = "New chat"
SNAPSHOT_EVERY = 4000
"""Records between two snapshots of the view."""
SAVE_RUN_EVERY = 2000
"""Records between two snapshots of the state of a run."""
SNAPSHOT_AT_CLOSE = 100
"""Minimum number of new records for a snapshot when the session is closed."""
INDEX_EVERY_S = 1.0
FOLD_STEP_BYTES = 1 << 16
"""Number of bytes that an append folds in passing, if the handle has not read the log."""
MAX_FOLD_BYTES = 1 << 25
"""Maximum number of bytes that are folded in passing, for the list of sessions.

A longer rest waits until someone reads the conversation.
"""

INFO_NAMES = ("provider", "model", "cwd", "api_base", "agent", "parent", "call", "origin")
"""Names in the first record that are fields of a SessionInfo. Others are in its `extra`."""

V = TypeVar("V", bound=View)


class LiveSession(Recorder):
    """An open session. A SessionStore creates it."""

    def __init__(
        self,
        store: SessionStore,
        id: str,
        *,
        readonly: bool = False,
        first: dict[str, Any] | None = None,
        joins: bool = False,
    ) -> None:
        super().__init__(
            store.backend,
            id,
            durability=store.durability,
            readonly=readonly,
            first=first,
            joins=joins,
        )
        self._store = store
        self._fold = TreeFold(self.backend_log, Tree() if first is not None else None)
        self._has_written = False
        self._indexed_at = 0.0
        self._indexed_change = -1
        self._state: StateHandle | None = None
        self._skills: SkillLog | None = None
        self._run: StateHandle | None = None
        self._run_saved = -1
        self._status: tuple[int, str | None] = (-1, None)
        self._folds: list[Fold[Any]] = []
        self._values = SessionValues(self, store)

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        message: Mapping[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
        partial: bool = False,
    ) -> LogRecord:
        """Append a message and return its record.

        A `partial` message is a stream so far: more of it, or the whole message, replaces it in
        view. Tool outputs of more than 64 KB go to a file; their head and tail stay in the log.
        """
        type_ = "partial" if partial else "message"
        return self._record(type_, self._check_message(message), key, expect)

    def append_many(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> list[LogRecord]:
        """Append messages, all or none.

        The first gets the key, the others `KEY#1`, `KEY#2`, …; see `record_many`.
        """
        keys = [key if n == 0 or key is None else f"{key}#{n}" for n in range(len(messages))]
        items = [
            ("message", self._check_message(message), name)
            for message, name in zip(messages, keys, strict=True)
        ]
        return self.record_many(items, expect=expect)

    def stream(self, role: str = "assistant", *, key: str | None = None) -> Stream:
        """Append a message while it arrives: `with session.stream() as stream: stream.text("…")`.

        The whole message is appended at the end, with the `key`.
        """
        return Stream(self, role, key)

    def rewind(self, to: RecordRef | None = None, *, before: RecordRef | None = None) -> LogRecord:
        """Go back, or to another branch.

        The record `to`, or the record in front of `before`, becomes the last in view. With neither,
        the view starts over. Nothing is removed from the log: see `redo` and `branches`.
        """
        where = to if before is None else before
        record = None if where is None else self.find(where)
        seq = -1 if record is None else record.seq - (before is not None)
        return self.record("rewind", {"seq": seq, **({"record": record.id} if record else {})})

    def redo(self) -> LogRecord:
        """Undo the last rewind.

        Raises LogError when there is none, or something was appended since.
        """
        if not self._view().redo:
            raise LogError(f"{self.id}: nothing to redo; branches() lists what was left behind")
        return self.record("redo", {"seq": self._view().redo[-1]})

    def compact(
        self,
        summary: str,
        *,
        upto: RecordRef | None = None,
        usage: Mapping[str, Any] | None = None,
        **about: Any,
    ) -> LogRecord:
        """Replace everything in view up to the record `upto` by a summary.

        The default is all of it.

        Messages that were appended after `upto`, while the summary was written, stay. A call that
        is running or waiting is never covered.
        """
        seq = self._view().seq if upto is None else self.find(upto).seq
        view = self.conversation(whole=False)
        for call in view.open_calls:
            if call.fate in OPEN:
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
        """Empty the view. The log keeps everything, and a rewind restores it."""
        return self.record("clear", {})

    def redact(self, record: RecordRef, replacement: Mapping[str, Any] | None = None) -> LogRecord:
        """Remove the content of a record for good, and return what is left of it.

        It is overwritten in the log; outputs that only it refers to and saved views are deleted. A
        `replacement` for the payload must not be longer. Raises LogError when it is, and for a
        damaged record. A process that has the session open may still hold the content in memory.
        """
        old = self.find(record)
        if self.readonly:
            raise LogError(f"{self.id}: opened for reading only")
        given = None if replacement is None else dict(replacement)
        if given is not None:
            codec.check_plain(given)
        payloads = [redacted(old, mark) for mark in MARKS] if given is None else [given]
        new = self.backend_log.overwrite(old.seq, payloads)
        in_use = {name for record in self.records() for name in hashes(record.payload)}
        self._outputs.drop(set(hashes(old.payload)) - in_use)
        self.record("redacted", {"record": old.id, "seq": old.seq, "type": old.type})
        self.backend_log.snapshots.delete_all()
        self._start_over()
        self._update_index()
        self._backend.scrub()
        return new

    def fork(
        self,
        at: RecordRef | None = None,
        *,
        id: str | None = None,
        title: str | None = None,
        all: bool = False,
    ) -> LiveSession:
        """Return a new session with the conversation up to a record.

        Its `meta.origin` names this one. With `all` it also has the state with its checkpoints, the
        skills and records of your own types; a run that is active is paused there.
        """
        position = self.last_seq if at is None else self.find(at).seq
        copy = fork(self._store, self, position, id, title, has_all=all)
        if all and copy.state.status == "active":
            copy.state.pause(reason=f"forked from {self.id}")
        return copy

    def put_values(
        self, values: Mapping[str, Any] | None = None, /, *, delete: Iterable[str] = ()
    ) -> None:
        """Set named values, and delete others.

        Names that begin with `app:` or `user:` are shared with the other sessions of the app or
        user, which the metadata `app` and `user` name; those with `temp:` are not stored. Others
        are values of this session, as `state.put` writes them. Each scope is one record.
        """
        self._values.put(values or {}, delete)

    def values(self) -> dict[str, Any]:
        """Return the values of `put_values`, those that other sessions share included."""
        return self._values.all()

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def messages(
        self,
        *,
        last: int | None = None,
        repaired: bool = True,
        partial: bool = True,
        whole: bool = True,
    ) -> list[Message]:
        """Return the messages for the model, as they were appended.

        With `last`, only so many from the end, which takes the time of so many. Without `whole`, of
        long tool outputs only head and tail. Writes nothing: open calls are closed in the view
        only.
        """
        position = self._view().seq
        if last is not None:
            return self._last(position, last, repaired, partial, whole)
        mark, nodes = self._visible(position)
        if are_plain(nodes):
            return [*summary_of(mark), *[node.payload for node in nodes]]
        return self._assemble(position, mark, nodes, repaired, partial, whole).messages

    def conversation(
        self,
        at: RecordRef | None = None,
        *,
        repaired: bool = True,
        partial: bool = True,
        whole: bool = True,
    ) -> Conversation:
        """Return the messages in view, each with its record, and the calls without a result.

        Without `whole`, of long tool outputs only head and tail.
        """
        tree = self._view()
        position = tree.seq if at is None else self.find(at).seq
        return self._assemble(position, *self._visible(position), repaired, partial, whole)

    def at(self, record: RecordRef) -> Conversation:
        """Return the conversation as it was right after that record."""
        return self.conversation(at=record)

    def branches(self) -> list[Branch]:
        """Return every line of the conversation, ordered by its last record."""
        branches = find_branches(self._view(), self._find_seq)
        if branches is None:
            self._fold.start_over()
            return self.branches()
        return branches

    def recover(self) -> Recovery:
        """Return the calls that have no result after a crash. Writes nothing and runs nothing."""
        return Recovery(self.conversation().open_calls)

    def should_compact(
        self, window: int, usage: Mapping[str, Any] | None = None, threshold: float = COMPACT_AT
    ) -> bool:
        """Return True if the context is nearly full.

        The default for `usage` is the last in view: of a message, or of `model_finished`.
        """
        return should_compact(
            usage or last_usage(self._view(), self.backend_log, self._find_seq), window, threshold
        )

    def fold(
        self,
        name: str,
        view: type[V],
        *,
        types: Collection[str] | None = None,
        version: int = 1,
    ) -> Fold[V]:
        """Return a cursor over this log whose `value` is a `view`, up to date at each access.

        `view` is a class with a method `add(record)`. It gets the records of these `types`, in
        order; a type that ends with a dot stands for all that begin with it, None for all. Under
        the `name` the value is saved for the next process; another `version` starts over.
        """
        fold = Fold(self, name, view, types, version, saves=not self.readonly)
        self._folds.append(fold)
        return fold

    @property
    def meta(self) -> SessionInfo:
        tree, about = (
            self._view(),
            dict(self._view().meta if not self.is_draft else self._first or {}),
        )
        now = datetime.now(UTC)
        about.pop("title", None)
        about.pop("version", None)
        known = {name: about.pop(name, None) for name in INFO_NAMES}
        facts: dict[str, Any] = {
            name: value
            for name, value in known.items()
            if isinstance(value, dict if name == "origin" else str)
        }
        title = tree.title or (self._first or {}).get("title") or DEFAULT_TITLE
        created = parse_time(tree.created_at or now)
        # A fork is new, although its records keep their times.
        updated = max(created, parse_time(tree.updated_at or created))
        return SessionInfo(
            id=self.id, title=title, status=self._status_now(tree), created_at=created,
            updated_at=updated,
            messages=tree.messages, seq=tree.seq, extra=about, **facts,
        )  # fmt: skip

    @property
    def folded_to(self) -> int:
        """The position in the log up to which `meta` and the other views count."""
        return self._fold.end

    @property
    def state(self) -> StateHandle:
        """State of the run: status, progress, checkpoints."""
        if self._state is None:
            self._state = StateHandle(self)
        return self._state

    @property
    def skills(self) -> SkillLog:
        """The skills that were run, with their results."""
        if self._skills is None:
            self._skills = SkillLog(self)
        return self._skills

    def skill(self, name: str, **about: Any) -> SkillRun:
        """Run a skill: `with session.skill("review", phase="red", input=…) as run`."""
        return self.skills.run(name, **about)

    def close(self) -> None:
        self.backend_log.lease.release()
        if self._has_written:
            for fold in self._folds:
                if fold.unsaved >= SNAPSHOT_AT_CLOSE:
                    fold.save()
            self._update_index()
            if (
                self._fold.tree is not None
                and self._fold.tree.seq - self._fold.saved_seq >= SNAPSHOT_AT_CLOSE
            ):
                self._save()
                if self._fold.tree.state_seq >= 0:
                    self._save_run()
            self._has_written = False
        self._values.close()
        super().close()

    # ── internals ─────────────────────────────────────────────────────────────────────────────────

    def _create_log(self, items: Sequence[Item]) -> list[LogRecord]:
        with self._backend.creating() as add_to_index:
            records = self.backend_log.create(items)
            self._first = None
            self._has_written = True
            self._indexed_at, self._indexed_change = time.monotonic(), self._view().changed
            add_to_index(self.meta, self._fold.end)
        return records

    def _join(self) -> None:
        super()._join()
        self._fold.drop()

    def stored_payload(self, type: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a payload as its record has it. Raises LogError for a message that is none."""
        return self._check_message(payload) if type in ("message", "partial") else payload

    def _check_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
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
        if type(content) is str and len(stored) == 2:  # A role and a text.
            return stored
        codec.check_plain(stored)
        return self._outputs.shorten(stored)

    def _visible(self, position: int) -> tuple[LogRecord | None, list[LogRecord]]:
        """Return the last compaction or clear, and the messages in view after it."""
        mark, ranges = self._view().visible(position)
        record = None if mark is None else self._find_seq(mark)
        if mark is not None and record is None:  # What it covers is in view again.
            self._fold.start_over()
            return self._visible(position)
        nodes = [
            record
            for low, high in ranges
            for record in self.backend_log.collect(low, high, MESSAGES)
        ]
        return record, nodes

    def _last(
        self, position: int, last: int, repaired: bool, partial: bool, whole: bool
    ) -> list[Message]:
        """Return the last messages, from no more of the log than they need."""
        _, ranges = self._view().visible(position)
        for nodes in last_nodes(self.backend_log, ranges, last):
            view = self._assemble(position, None, nodes, repaired, partial, whole)
            if len(view.entries) >= last:
                return view.messages[len(view.entries) - last :]
        view = self._assemble(position, *self._visible(position), repaired, partial, whole)
        return view.messages[max(0, len(view.entries) - last) :]

    def _start_over(self) -> None:
        """Forget all views of the log."""
        self._fold.start_over()
        for fold in self._folds:
            fold.start_over()
        for run in (self._state, self._run):
            if run is not None:
                run.start_over()
        if self._skills is not None:
            self._skills.start_over()

    def _assemble(
        self,
        position: int,
        mark: LogRecord | None,
        nodes: list[LogRecord],
        repaired: bool,
        partial: bool,
        whole: bool,
    ) -> Conversation:
        view = assemble(
            mark,
            nodes,
            lambda calls, seq: self._find_fates(calls, seq, position, whole),
            partial=partial,
            repaired=repaired,
        )
        if not whole:
            return view
        return Conversation([self._restore(entry) for entry in view.entries], view.open_calls)

    def _restore(self, entry: Entry) -> Entry:
        message = self._outputs.restore(entry.message)
        return entry if message is entry.message else Entry(message, entry.record)

    def _find_fates(
        self, calls: list[ToolCall], seq: int, position: int, whole: bool
    ) -> list[ToolCall]:
        tree, is_elsewhere = self._view(), self._runs_elsewhere()
        if not tree.has_ledger and not is_elsewhere:
            return calls
        return find_fates(
            self.backend_log,
            calls,
            seq,
            position,
            tells_starts=tree.tells_starts,
            is_elsewhere=is_elsewhere,
            output_of=self._outputs.restore_output if whole else _recorded_output,
        )

    def _runs_elsewhere(self) -> bool:
        """Return True if another live process works on this session: it holds the lease or owns the
        run."""
        if self.backend_log.lease.is_ours:
            return False
        if self.backend_log.lease.holder() is not None:
            return True
        if self._view().state_seq < 0:
            return False
        run = self._own_run().current
        if run.status != "active" or run.owner is None or run.owner.is_same(here()):
            return False
        return judge(run.owner) == "alive"

    def _view(self) -> Tree:
        """Return the fold of the log as it is now."""
        return self._fold.current(self.is_draft)

    def on_own(self, records: list[LogRecord], end: int) -> None:
        self._fold.add_own(records, end)

    def on_new(self, records: list[LogRecord] | None, end: int) -> None:
        self._fold.add_new(records, end, self.is_draft)

    def _appended(self, records: list[LogRecord]) -> None:
        self._has_written = True
        tree = self._fold.tree
        if tree is None or tree.seq < records[-1].seq:
            # A handle that was opened to append and reads nothing: it folds a part with each.
            if not self._fold.advance(FOLD_STEP_BYTES) or self._fold.tree is None:
                return
            tree = self._fold.tree
            self._indexed_change = tree.changed if tree.changed < records[0].seq else -1
        if tree.seq - self._fold.saved_seq >= SNAPSHOT_EVERY:
            self._save()
        if tree.state_seq >= 0 and tree.seq - self._run_saved >= SAVE_RUN_EVERY:
            self._save_run()
        now = time.monotonic()
        if tree.changed != self._indexed_change or now - self._indexed_at >= INDEX_EVERY_S:
            self._indexed_at, self._indexed_change = now, tree.changed
            self._update_index()

    def _save(self) -> None:
        if not (self.readonly or self.is_draft):
            self._fold.save()

    def _update_index(self) -> None:
        if self.backend_log.bytes_after(self._fold.end) <= MAX_FOLD_BYTES:
            self._backend.update(self.meta, self._fold.end)

    def _status_now(self, tree: Tree) -> str | None:
        if tree.state_seq >= 0 and self._status[0] != tree.state_seq:
            self._status = (tree.state_seq, str(self._own_run().current.status))
        return self._status[1]

    def _own_run(self) -> StateHandle:
        """Return a separate state handle: appends call this, also those of the public handle."""
        if self._run is None:
            self._run = StateHandle(self)
        return self._run

    def _save_run(self) -> None:
        """Bring the snapshot of the state forward, also when only messages were appended."""
        self._run_saved = self._fold.tree.seq if self._fold.tree is not None else -1
        self._own_run().save()


def _recorded_output(payload: dict[str, Any]) -> Any:
    return payload.get("output")
