"""What a store knows of sources, and what sessions add up to over them, in words that both
databases understand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby
from typing import Any, ClassVar

import msgspec

from ..adapters import Facts, Source
from ..model import format_time
from ..timeline import Tally, merge
from ._sql_read import Reader
from .pieces import fold_facts


class Sources(Reader):
    """The part of a store that keeps sources."""

    source_key: ClassVar[tuple[str, ...]] = ("agent", "path")
    """The columns that tell sources apart."""

    @property
    def own(self) -> dict[str, str]:
        """What a source is said to be besides what every store knows of it, by column."""
        return {}

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """See `Store`."""

    def touch(
        self,
        source: Source,
        *,
        adapter_version: int,
        redact_version: str,
        problem: str | None = None,
    ) -> None:
        with self.transaction():
            number = self._touch(source, adapter_version, redact_version, problem)
            # It may be there again, or have another size, and its sessions say so.
            if problem is not None:
                self._fold_all(number)

    def _touch(
        self, source: Source, adapter_version: int, redact_version: str, problem: str | None
    ) -> int:
        row = self.own | dict(
            agent=source.agent, path=source.path, root=source.root, machine=source.machine,
            size=source.size, mtime_ns=source.mtime_ns,
            inode=source.inode, adapter_version=adapter_version, redact_version=redact_version,
            discovered_at=format_time(datetime.now(UTC)), problem=problem,
        )  # fmt: skip
        sql = (
            f"insert into sources ({', '.join(row)}) values (?{', ?' * (len(row) - 1)}) on conflict"
            f" ({', '.join(self.source_key)}) do update set size = excluded.size, mtime_ns ="
            " excluded.mtime_ns, inode = excluded.inode, problem = excluded.problem, missing_at ="
            " null"
        )
        # Its number is asked for apart: a statement that gives something back is a savepoint of its
        # own, as in `_put_aliases`.
        self.db.execute(sql, tuple(row.values()))
        where = " and ".join(f"{name} = ?" for name in self.source_key)
        return int(
            self._one(
                f"select number from sources where {where}",
                tuple(row[name] for name in self.source_key),
            )[0]
        )

    def move_source(self, number: int, source: Source) -> None:
        with self.transaction():
            self.db.execute(
                "update sources set path = ?, root = ?, machine = ?, missing_at = null where"
                " number = ?",
                (source.path, source.root, source.machine, number),
            )
            self._fold_all(number)

    def miss_sources(self, numbers: Sequence[int], when: datetime) -> None:
        with self.transaction():
            for number in numbers:
                self.db.execute(
                    "update sources set missing_at = ? where number = ?",
                    (format_time(when), number),
                )
                self._fold_all(number)

    def _fold_all(self, source: int) -> None:
        """Writes what is a sum over streams, for all sessions of a source in one question."""
        sql = (
            "select s.session, s.facts, s.tally, s.hash, q.path, q.size, q.missing_at, (select"
            " coalesce(max(seq), -1) from events e where e.session = s.session) from streams s join"
            " sources q on q.number = s.source where s.hash != x'' and s.session in (select session"
            " from streams where source = ?) order by s.session, s.block"
        )
        for session, rows in groupby(self._all(sql, (source,)), key=lambda row: row[0]):
            streams = list(rows)
            self._write_sums(session, *self._summed([row[1:7] for row in streams], streams[0][7]))

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        with self.transaction():
            # The name alone, which a folder has too, takes nothing from one that is known with its
            # owner.
            self.db.executemany(
                "update sessions set repo = case when repo like '%/' || ? then repo else"
                " coalesce(?, repo) end, task_ref = coalesce(task_ref, ?) where uid = ?",
                [(repo, repo, task, uid) for uid, (repo, task) in found.items()],
            )

    def set_domains(self, domain_of: Callable[[str | None], str | None]) -> None:
        (is_own, author), (is_mine, reader) = self.own_sessions, self.mine
        # Nearly always nothing has changed, and whose the sources are need not be asked.
        known = self._all(f"select distinct repo, domain from sessions where {is_own}", author)
        if all(domain_of(repo) == domain for repo, domain in known):
            return
        here = (
            "number in (select t.session from streams t join sources q on q.number = t.source"
            f" where {is_mine})"
        )
        others: dict[str | None, list[int]] = {}
        for number, repo, old in self._all(
            f"select number, repo, domain from sessions where {is_own} and {here}",
            (*author, *reader),
        ):
            if (domain := domain_of(repo)) != old:
                others.setdefault(domain, []).append(number)
        with self.transaction():
            for domain, numbers in others.items():
                sql = "update sessions set domain = ? where number in (select value from carray(?))"
                self.db.execute(sql, (domain, self.ids(numbers)))

    # ── sums over streams ─────────────────────────────────────────────────────────────────────────
    def _fold(self, uid: str) -> None:
        """Writes what is a sum over the session's streams."""
        (session,) = self._one("select number from sessions where uid = ?", (uid,))
        sums = self.sums(session)
        if sums is not None:
            self._write_sums(session, *sums)

    def _write_sums(self, session: int, facts: Facts, columns: dict[str, Any]) -> None:
        self.db.execute(
            f"update sessions set {' = ?, '.join(columns)} = ?, task_ref = coalesce(?, task_ref),"
            " repo = coalesce(repo, ?) where number = ?",
            (*columns.values(), facts.task_ref, facts.repo, session),
        )

    def sums(self, session: int) -> tuple[Facts, dict[str, Any]] | None:
        rows = self._all(
            "select s.facts, s.tally, s.hash, q.path, q.size, q.missing_at from streams s join"
            " sources q on q.number = s.source where s.session = ? and s.hash != x'' order by"
            " s.block",
            (session,),
        )
        if not rows:
            return None
        (last_seq,) = self._one(
            "select coalesce(max(seq), -1) from events where session = ?", (session,)
        )
        return self._summed(rows, last_seq)

    def _summed(self, rows: Sequence[Any], last_seq: int) -> tuple[Facts, dict[str, Any]]:
        """The same, of (facts, tally, hash, path, size, missing_at) of its streams."""
        facts = fold_facts([msgspec.msgpack.decode(row[0], type=Facts) for row in rows])
        tally = merge([msgspec.msgpack.decode(row[1], type=Tally) for row in rows])
        hashes = b"".join(row[2] for row in rows)
        content = hashes if len(rows) == 1 else blake2b(hashes, digest_size=16).digest()
        return facts, columns_of(
            facts, tally, content, last_seq, {row[3]: (row[4], row[5]) for row in rows}
        )


def columns_of(
    facts: Facts,
    tally: Tally,
    content: bytes,
    last_seq: int,
    files: Mapping[str, tuple[int, str | None]],
) -> dict[str, Any]:
    """What a session adds up to, by column. Of each of its sources in their order, `files` has the
    size and since when it is missing."""
    return dict(
        title=facts.title or tally.first_prompt,
        cwd=facts.cwd,
        git_branch=facts.git_branch,
        model=facts.model,
        parent_uid=facts.parent_uid,
        relation=facts.relation,
        started_at=_iso(tally.started_at),
        ended_at=_iso(tally.ended_at or facts.written_at),
        events=tally.events,
        errors=tally.errors,
        turns=tally.turns,
        retries=tally.retries,
        wall_clock_s=tally.wall_clock_s,
        **msgspec.structs.asdict(tally.usage),
        last_seq=last_seq,
        content_hash=content.hex(),
        source_path=next(iter(files)),
        source_bytes=sum(size for size, _ in files.values()),
        source_missing_at=(
            None
            if any(gone is None for _, gone in files.values())
            else max(gone for _, gone in files.values() if gone)
        ),
    )


def _iso(value: datetime | None) -> str | None:
    return format_time(value) if value else None
