"""Counts and totals over all sessions and sources."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...adapters import Facts
from ...model import format_time
from ..filters import SLOT, Filter
from ..outcomes import OUTCOME
from ..values import AgentTotals, Family, Hour, LastSession, StoreState
from .database import Database
from .filters import IS_LISTED, SORT_TIME, latest_time, session_filter
from .sessions import SqlSessions


class SqlOverview:
    """See `Overview` in the contracts."""

    def __init__(self, db: Database, sessions: SqlSessions) -> None:
        self.db, self.sessions = db, sessions

    def family(self, uid: str) -> Family:
        number = self.sessions.number(uid)
        line = self.sessions.lines([number]).get(number) if number is not None else None
        if line is None:
            return Family()
        return Family(
            subagents=line.subagents,
            errors=line.errors_with_subagents,
            tokens=line.tokens_with_subagents,
            usd=line.usd_with_subagents,
            unpriced=line.unpriced_with_subagents,
            own_unpriced=line.unpriced,
        )

    def state(self) -> StoreState:
        sessions, events, usd, ended_at, analyzed_at = self.db.one(
            "select count(*), sum(events), sum(usd), max(ended_at), max(analyzed_at) from sessions"
        )
        return StoreState(int(sessions), int(events or 0), usd, ended_at, analyzed_at)

    def stats(self) -> dict[str, Any]:
        tables = ("sessions", "sources", "events", "segments", "records", "skips")
        figures: dict[str, Any] = {
            name: self.db.one(f"select count(*) from {name}")[0] for name in tables
        }
        figures["body_bytes"] = int(self.db.one("select coalesce(sum(length), 0) from segments")[0])
        figures["source_bytes"] = int(self.db.one("select coalesce(sum(size), 0) from sources")[0])
        figures["file_bytes"] = self.db.file_bytes()
        return figures

    def hours(self, since: datetime) -> list[Hour]:
        sql = (
            "select substr(started_at, 1, 13), count(*), sum(turns), sum(errors) from sessions"
            f" where {IS_LISTED} and started_at >= ? group by 1"
        )
        return [
            Hour(
                datetime.fromisoformat(f"{hour}:00:00+00:00"),
                int(sessions),
                int(turns or 0),
                int(errors or 0),
            )
            for hour, sessions, turns, errors in self.db.all(sql, (format_time(since),))
        ]

    def agents(self) -> dict[str, AgentTotals]:
        sources = "select agent, count(*), coalesce(sum(size), 0) from sources group by agent"
        sessions = dict(self.db.all("select flavor, count(*) from sessions group by flavor"))
        totals = {
            agent: AgentTotals(int(number), int(size), int(sessions.pop(agent, 0)))
            for agent, number, size in self.db.all(sources)
        }
        return totals | {agent: AgentTotals(0, 0, int(n)) for agent, n in sessions.items()}

    def count_values(
        self, column: str, chosen: Filter, within: Collection[int] | None = None
    ) -> list[tuple[str | None, int]]:
        assert column.isidentifier()
        value = OUTCOME if column == "outcome" else column
        where, bindings = session_filter(self.db, chosen)
        if within is not None:
            if not within:
                return []
            where = f"{where} {'and' if where else 'where'} number in (select value from carray(?))"
            bindings = [*bindings, self.db.ids(within)]
        sql = f"select {value}, count(*) from sessions {where} group by 1 order by 2 desc, 1"
        return [(name, int(count)) for name, count in self.db.all(sql, bindings)]

    def below(self, uid: str) -> tuple[int, int]:
        sql = "select count(*), coalesce(sum(events), 0) from sessions where parent_uid = ?"
        count, events = self.db.one(sql, (uid,))
        return int(count), int(events)

    def subagents(self) -> dict[str, int]:
        sql = (
            "with recursive below (top, uid) as (select p.uid, s.uid from sessions s join sessions"
            " p on p.uid = s.parent_uid where s.relation = 'subagent' union select b.top, s.uid"
            " from below b join sessions s on s.parent_uid = b.uid and s.relation = 'subagent')"
            " select top, count(*) from below where uid != top group by top"
        )
        return {uid: int(count) for uid, count in self.db.all(sql)}

    def parent_calls(self, uid: str) -> dict[str, str]:
        sql = (
            "select s.uid, t.facts from sessions s join streams t on t.session = s.number where"
            " s.parent_uid = ? and s.relation = 'subagent' order by s.uid, t.block"
        )
        calls: dict[str, str] = {}
        for child, packed in self.db.all(sql, (uid,)):
            with suppress(msgspec.DecodeError):  # The doctor repairs damaged facts.
                if call := msgspec.msgpack.decode(packed, type=Facts).parent_call:
                    calls.setdefault(child, call)
        return calls

    def last_session(self, repo: str | None, cwd: str) -> tuple[int, LastSession | None]:
        these = f"from sessions where {'repo' if repo else 'cwd'} = ? and {IS_LISTED}"
        sql = (
            f"select uid, coalesce(name, title), ended_at, {OUTCOME} {these}"
            f" order by {SORT_TIME.format('ended_at')} desc, uid limit 1"
        )
        row = self.db.one(sql, (repo or cwd, latest_time()))
        (count,) = self.db.one(f"select count(*) {these}", (repo or cwd,))
        return int(count), None if row is None else LastSession(*row)

    def last_call(self, before: datetime) -> datetime | None:
        limit = int(before.timestamp()) // SLOT
        (slot,) = self.db.one("select max(slot) from sums where slot < ?", (limit,))
        return None if slot is None else datetime.fromtimestamp(slot * SLOT, UTC)

    def lost_sessions(self) -> int:
        (count,) = self.db.one(
            "select count(*) from sessions where evicted_at is not null and number not in (select"
            " session from digests)"
        )
        return int(count)

    def newest_sources(self, agent: str, limit: int) -> list[int]:
        sql = (
            "select number from sources where agent = ? and records > 0"
            " order by mtime_ns desc, path limit ?"
        )
        return [number for (number,) in self.db.all(sql, (agent, limit))]
