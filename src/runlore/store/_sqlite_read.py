"""What the SQLite store answers in words of its own. Nothing here writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from ..errors import StoreError
from ._sql_read import Reader
from ._sqlite_list import SqliteLister
from .contract import SegmentEvent
from .pieces import ASIDE, ERROR, segment_event, unpack


class SqliteReader(SqliteLister, Reader):
    """The reading part of `SqliteStore`."""

    _sizes: tuple[tuple[int, int], dict[int, int]] | None = None

    def _file_bytes(self) -> int:
        return int(self.db.pragma("page_count") * self.db.pragma("page_size"))

    # ── the index ─────────────────────────────────────────────────────────────────────────────────
    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        quoted = '"' + term.replace('"', '""') + '"' + ("*" if prefix else "")
        columns = "{prompt reply}" if column == "said" else column
        query = f"{columns} : {quoted}" if columns else quoted
        # One JSON array instead of a row for each: a common word has tens of thousands, and this is
        # four times as fast.
        (found,) = self._one(
            "select json_group_array(rowid) from search where search match ?",
            (query.replace("\0", " "),),
        )
        return msgspec.json.decode(found, type=list[int])

    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        # As long as this cursor stands at its row the snapshot stays the same, so that the rows are
        # of this body, even when another process derives the session again meanwhile.
        cursor = self.db.execute(
            "select session, first_seq, last_seq, length, hash, body from segments where id = ?",
            (id,),
        )
        row = cursor.fetchone()
        if row is None:
            return None
        session, first, last, length, hash_, body = row
        sql = (
            f'select seq, kind, ts, tool, flags & {ERROR}, {"rest" if files else "null"}, "offset",'
            ' length from events where session = ? and seq between ? and ? and "offset" is not'
            f" null and flags & {ASIDE} = 0 order by seq"
        )
        try:
            rows = self._all(sql, (session, first, last))
            cursor.close()
            return unpack(body, length, hash_), [segment_event(row) for row in rows]
        except (UnicodeDecodeError, msgspec.MsgspecError) as error:  # A flipped bit.
            raise StoreError(
                f"events of a segment are damaged ({error}); run `runlore doctor`"
            ) from None

    def segments(
        self, ids: Sequence[int], *, files: bool = True
    ) -> dict[int, tuple[bytes, list[SegmentEvent]]]:
        found = {}
        for id_ in ids:
            with suppress(StoreError):
                if (data := self.segment(id_, files=files)) is not None:
                    found[id_] = data
        return found

    def segment_count(self) -> int:
        (count,) = self._one("select count(*) from segments")
        return int(count)

    def sizes(self) -> dict[int, int]:
        version = (self.db.data_version(), self.db.total_changes())
        if self._sizes is None or self._sizes[0] != version:
            (found,) = self._one("select json_group_array(session) from segments")
            self._sizes = version, Counter(msgspec.json.decode(found, type=list[int]))
        return self._sizes[1]
