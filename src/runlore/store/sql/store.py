"""A store as a set of parts over one database."""

from __future__ import annotations

from contextlib import AbstractContextManager

from .database import Database


class SqlStore:
    """The part of `Store` that both databases share: what concerns the connection as a whole."""

    db: Database

    @property
    def url(self) -> str:
        return self.db.url

    @property
    def machine(self) -> str | None:
        return self.db.machine

    @property
    def own_machine(self) -> str:
        return self.db.own_machine

    @property
    def own_author(self) -> str | None:
        return self.db.own_author

    @property
    def is_alone(self) -> bool:
        return self.db.is_alone

    def transaction(self) -> AbstractContextManager[None]:
        return self.db.transaction()

    def snapshot(self) -> AbstractContextManager[None]:
        return self.db.snapshot()

    def sync_lock(self) -> AbstractContextManager[None]:
        return self.db.sync_lock()

    def close(self) -> None:
        self.db.close()
