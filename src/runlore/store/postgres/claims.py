"""Claims: the stored session that an author means by a uid, if another author has the uid too."""

from __future__ import annotations

from .database import PostgresDatabase


class Claims:
    """Reads and writes the table of claims."""

    def __init__(self, db: PostgresDatabase) -> None:
        self.db = db

    def of_author(self) -> dict[str, str]:
        """Return by uid the uid under which a session of this author is stored, if they differ."""
        if self.db.notes is not None and self.db.notes.claims is not None:
            return self.db.notes.claims
        sql = (
            "select c.uid, s.uid from claims c join sessions s on s.number = c.session where"
            " c.author = ? and s.uid != c.uid"
        )
        claims = dict(self.db.all(sql, (self.db.author,)))
        if self.db.notes is not None:
            self.db.notes.claims = claims
        return claims

    def add(self, author: str, uid: str, session: int) -> None:
        """Store that an author means this session by a uid."""
        sql = (
            "insert into claims values (?, ?, ?) on conflict (author, uid) do update set session ="
            " excluded.session"
        )
        self.db.execute(sql, (author, uid, session))
        if self.db.notes is not None:
            self.db.notes.claims = None
