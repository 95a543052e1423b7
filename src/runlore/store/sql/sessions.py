"""Reads sessions: lists, single sessions, events, bodies, native records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...model import (
    BLOCK,
    CALL_KINDS,
    Cost,
    Session,
    SessionEvent,
    parse_time,
    shorten,
)
from ..filters import Filter
from ..outcomes import BY, LEVEL, OUTCOME, shown_outcome
from ..rows import (
    CUT,
    ERROR,
    FLAGS,
    LENGTH,
    OFFSET,
    OUTRANKED,
    SEQ,
    SUMMARY,
    read_briefly,
    read_row,
)
from ..segments import unpack
from ..session_line import SessionLine
from ..values import Marks
from .database import Database
from .figures import CALL_TOKENS, EVENT_TOKENS, SqlFigures
from .filters import (
    FAMILY_CALLS,
    FAMILY_TOTAL,
    SORT_TIME,
    high,
    latest_time,
    session_filter,
)

LINE = (
    "uid, flavor, coalesce(name, title), repo, domain, cwd, git_branch, model, started_at,"
    f" ended_at, {OUTCOME}, {LEVEL}, {BY}, task_ref, machine, parent_uid, relation, events, errors,"
    " turns, retries, wall_clock_s, input_tokens, output_tokens, cache_read_tokens,"
    " cache_write_tokens, usd,"
    " source_path, source_bytes, source_missing_at, ingested_at, quality, evicted_at, author"
)

SORTS = {
    "ended": "ended_at",
    "started": "started_at",
    "events": "events",
    "errors": FAMILY_TOTAL.format("s.errors"),
    "tokens": f"coalesce({FAMILY_CALLS.format(CALL_TOKENS)}, {FAMILY_TOTAL.format(EVENT_TOKENS)})",
    "duration": "wall_clock_s",
    "cost": FAMILY_TOTAL.format("s.usd"),
}
"""What sessions are sorted by. Errors, tokens and cost are those with subagents, as lists have
them."""

TIMES = ("ended", "started")

_MAX_UIDS_IN_QUERY = 500
"""Maximum number of uids in one query. For more of them, all sessions are read."""

UNCOVERED = (
    "(analyzed_hash is distinct from content_hash or analyzed_seq is distinct from last_seq)"
)
"""The test for sessions without a digest of all that is stored. An index has the same test."""

EVENT = (
    "seq, ts, kind, parent_seq, tool, action, flags, exit_code, native_id, call_id, summary,"
    ' "offset", length, rest'
)

_OUTLINE_KINDS = ", ".join(
    repr(kind) for kind in sorted({*CALL_KINDS, "user_msg", "human_intervention", "retry"})
)

_IS_DETAILED = f"flags & {ERROR} != 0 or kind in ({_OUTLINE_KINDS})"
"""The test for events that an outline shows in detail: prompts, attempts and failures."""

_COSTS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
    "usd", "wall_clock_s",
    "turns", "retries",
)  # fmt: skip


class SqlSessions:
    """See `Sessions` in the contracts."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.figures = SqlFigures(db)

    def get(self, uid: str) -> Session | None:
        columns = self.db.session_columns()
        row = self.db.one(f"select {', '.join(columns)} from sessions where uid = ?", (uid,))
        if row is None:
            return None
        data = dict(zip(columns, row, strict=True))
        cost = {name: data.pop(name) for name in _COSTS}
        cost |= self.figures.tokens_of(data["number"], data["flavor"]) or {}
        del data["number"], data["uid"]
        data["pinned"], data["tags"] = bool(data["pinned"]), msgspec.json.decode(data["tags"])
        data |= shown_outcome(data)
        extra = data.pop("extra")
        if extra:
            data.update(msgspec.json.decode(extra))
        for name in Session.TIMES:
            data[name] = parse_time(data[name]) if data[name] else None
        return Session.from_dict({**data, "session_uid": uid, "cost": Cost(**cost).to_dict()})

    def find(self, name: str, limit: int = 10) -> list[str]:
        exact = self.db.all(
            "select uid from sessions where uid = ? or native_session_id = ?", (name, name)
        )
        if exact:
            return [uid for (uid,) in exact]
        # Prefixes are ranges, because `like` folds case and takes _ and % for wildcards.
        end = name + "\U0010ffff"
        sql = (
            "select uid from sessions where (uid >= ?1 and uid < ?2) or (native_session_id >= ?1"
            " and native_session_id < ?2) order by coalesce(relation, '') = 'subagent',"
            f" {SORT_TIME.format('ended_at').replace('?', '?4')} desc nulls last, uid limit ?3"
        )
        return [uid for (uid,) in self.db.all(sql, (name, end, limit, latest_time()))]

    def select(
        self, chosen: Filter, *, sort: str = "ended", limit: int | None = None, offset: int = 0
    ) -> list[SessionLine]:
        where, bindings = session_filter(self.db, chosen)
        order, values = self._order(sort)
        sql = (
            f"select number, {LINE} from sessions {where} order by {order} desc nulls last, uid"
            " limit ? offset ?"
        )
        rows = self.db.all(sql, (*bindings, *values, high(limit), offset))
        return list(self.figures.complete({number: line for number, *line in rows}).values())

    def _order(self, sort: str) -> tuple[str, tuple[str, ...]]:
        """Return what sessions are sorted by, and its values."""
        column, horizon = SORTS[sort], latest_time()
        # Nearly always no time is in the future, and an index has the order.
        if sort not in TIMES or not self.db.one(
            "select 1 from sessions where ended_at > ? limit 1", (horizon,)
        ):
            return column, ()
        return SORT_TIME.format(column), (horizon,)

    def uids(self, chosen: Filter, *, limit: int | None = None) -> list[str]:
        where, bindings = session_filter(self.db, chosen)
        newest, values = "", tuple[str, ...]()
        if limit is not None:
            order, values = self._order("ended")
            newest = f" order by {order} desc nulls last, uid limit {int(limit)}"
        sql = f"select uid from sessions {where}{newest}"
        return [uid for (uid,) in self.db.all(sql, (*bindings, *values))]

    def labels(self, uids: Sequence[str]) -> dict[str, tuple[str, str | None, str | None]]:
        sql = "select uid, flavor, coalesce(name, title), repo from sessions"
        wanted = set(uids)
        if not wanted:
            return {}
        if len(uids) > _MAX_UIDS_IN_QUERY:
            rows = self.db.all(sql)
        else:
            rows = self.db.all(f"{sql} where uid in (?{', ?' * (len(uids) - 1)})", tuple(uids))
        return {uid: (agent, title, repo) for uid, agent, title, repo in rows if uid in wanted}

    def count(self, chosen: Filter) -> int:
        where, bindings = session_filter(self.db, chosen)
        (count,) = self.db.one(f"select count(*) from sessions {where}", bindings)
        return int(count)

    def numbers(self, chosen: Filter) -> set[int]:
        where, bindings = session_filter(self.db, chosen)
        return {
            number for (number,) in self.db.all(f"select number from sessions {where}", bindings)
        }

    def lines(self, numbers: Sequence[int]) -> dict[int, SessionLine]:
        sql = f"select number, {LINE} from carray(?) c join sessions on number = c.value"
        rows = self.db.all(sql, (self.db.ids(numbers),)) if numbers else []
        return self.figures.complete({number: line for number, *line in rows})

    def newest(self, numbers: Sequence[int], *, by: str = "ended") -> list[int]:
        if not numbers:
            return []
        order, values = SORTS[by], tuple[str, ...]()
        if by in TIMES:
            order, values = SORT_TIME.format(order), (latest_time(),)
        sql = (
            f"select number from carray(?) c join sessions on number = c.value order by {order}"
            " desc nulls last, uid"
        )
        return [number for (number,) in self.db.all(sql, (self.db.ids(numbers), *values))]

    def events(self, uid: str, first: int = 0, last: int | None = None) -> list[SessionEvent]:
        session = self.number(uid)
        if session is None:
            return []
        # Without the bodies, which may be megabytes and are not needed here.
        spans = self.segment_rows(session, first, last, "id, first_seq, last_seq")
        rows = self.counted_rows(session, first, last)
        # A remainder of an evicted event has its summary only in its body.
        without_summary = [
            row
            for row in rows
            if row[FLAGS] & CUT and row[OFFSET] is not None and row[SUMMARY] is None
        ]
        bodies = (
            self.bodies_of(uid, session, first, last, without_summary) if without_summary else {}
        )
        events = []
        at = 0
        for row in rows:
            ref = None
            if row[OFFSET] is not None:
                while at < len(spans) and spans[at][2] < row[SEQ]:
                    at += 1
                # A reference names the segment and the place in it. The hash of the segment tells
                # whether it has been replaced or damaged.
                ref = f"{spans[at][0]}:{row[OFFSET]}+{row[LENGTH]}" if at < len(spans) else None
            event = read_row(uid, row, ref)
            if text := bodies.get(event.seq):
                event = msgspec.structs.replace(event, summary=shorten(text.partition("\n")[0]))
            events.append(event)
        return events

    def outline(self, uid: str) -> list[SessionEvent]:
        rest = ", ".join(
            f"case when {_IS_DETAILED} then {name} end" for name in ("tool", "summary", "rest")
        )
        sql = (
            f"select seq, kind, parent_seq, flags, call_id, {rest} from events where session = ?"
            f" and flags & {OUTRANKED} = 0 order by seq"
        )
        return [read_briefly(uid, row) for row in self.db.all(sql, (self.number(uid),))]

    def bodies(self, uid: str, first: int = 0, last: int | None = None) -> dict[int, str]:
        session = self.number(uid)
        return (
            {}
            if session is None
            else self.bodies_of(uid, session, first, last, self.counted_rows(session, first, last))
        )

    def first_prompt(self, uid: str) -> str | None:
        session = self.number(uid)
        if session is None:
            return None
        # Only copies have no place for a body.
        sql = (
            f"select {EVENT} from events where session = ? and kind = 'user_msg' and"
            f' "offset" is not null and flags & {OUTRANKED} = 0 order by seq limit 1'
        )
        row = self.db.one(sql, (session,))
        if row is None:
            return None
        return self.bodies_of(uid, session, row[SEQ], row[SEQ], [row])[row[SEQ]]

    def record_of(self, uid: str, seq: int) -> tuple[str, int] | None:
        session = self.number(uid)
        event = None if session is None else self.event(session, seq)
        if event is None or event.record is None:
            return None
        sql = (
            "select path from streams join sources on number = source where session = ? and"
            " block = ?"
        )
        row = self.db.one(sql, (session, seq // BLOCK))
        return None if row is None else (row[0], event.record)

    def mark(self, uid: str, marks: Marks) -> None:
        with self.db.transaction():
            tags = msgspec.json.encode(marks.tags).decode()
            sql = (
                "update sessions set pinned = ?, name = ?, tags = ?, note = ?, marked_outcome = ?"
                " where uid = ?"
            )
            values = (int(marks.pinned), marks.name, tags, marks.note, marks.outcome, uid)
            self.db.execute(sql, values)

    # ── for the other parts of a store ────────────────────────────────────────────────────────────

    def number(self, uid: str) -> int | None:
        """Return the number of a session; None if it is not stored."""
        row = self.db.one("select number from sessions where uid = ?", (uid,))
        return None if row is None else int(row[0])

    def bodies_of(
        self, uid: str, session: int, first: int, last: int | None, rows: list[Any]
    ) -> dict[int, str]:
        """Return the bodies of these rows by seq. All rows are between `first` and `last`."""
        bodies: dict[int, str] = {}
        spans = self.segment_rows(session, first, last)
        data = b""
        at, loaded = 0, -1
        for row in rows:
            if row[OFFSET] is None:
                original = self.body_at(read_row(uid, row).origin)
                if original is not None:
                    bodies[row[SEQ]] = original
                continue
            while spans[at][2] < row[SEQ]:
                at += 1
            if loaded != at:
                _, _, _, length, hash_, body = spans[at]
                data, loaded = unpack(body, length, hash_), at
            text = data[row[OFFSET] : row[OFFSET] + row[LENGTH]]
            bodies[row[SEQ]] = text.decode("utf-8", "replace")
        return bodies

    def body_at(self, origin: str | None) -> str | None:
        """Return the body of an event that is named as uid#seq; None if there is none.

        An origin is never a copy itself, so the recursion ends.
        """
        uid, _, seq = (origin or "").rpartition("#")
        session = self.number(uid)
        row = None if session is None else next(iter(self.rows(session, int(seq), int(seq))), None)
        if row is None or row[OFFSET] is None:
            return None
        return self.bodies(uid, int(seq), int(seq)).get(int(seq))

    def counted_rows(self, session: int, first: int, last: int | None) -> list[Any]:
        """Return the rows of a session without those of sources with a lower rank.

        A single row is returned in any case, because it may be cited by its number.
        """
        rows = self.rows(session, first, last)
        return rows if first == last else [row for row in rows if not row[FLAGS] & OUTRANKED]

    def rows(self, session: int, first: int, last: int | None) -> list[Any]:
        """Return the rows of events in a range of seqs, as in `rows.ROW`."""
        sql = f"select {EVENT} from events where session = ? and seq between ? and ? order by seq"
        return self.db.all(sql, (session, first, high(last)))

    def segment_rows(
        self,
        session: int,
        first: int,
        last: int | None,
        columns: str = "id, first_seq, last_seq, length, hash, body",
    ) -> list[Any]:
        """Return columns of the segments with events in a range of seqs, in order."""
        sql = (
            f"select {columns} from segments where session = ? and last_seq >= ? and first_seq <= ?"
            " order by first_seq"
        )
        return self.db.all(sql, (session, first, high(last)))

    def event(self, session: int, seq: int) -> SessionEvent | None:
        """Return one event of a session, by its number; None if it is not stored."""
        rows = self.rows(session, seq, seq)
        if not rows:
            return None
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        return read_row(uid, rows[0])
