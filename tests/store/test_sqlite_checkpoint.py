"""The log of a SQLite store is brought into its file beside what is written, and nothing waits for it."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from runlore.store import _sqlite_checkpoint, open_store
from runlore.store._sqlite_checkpoint import LONG
from runlore.store.sqlite import SqliteStore


def _fill(store: SqliteStore) -> None:
    """One transaction that makes the log long."""
    with store.transaction():
        store.db.execute("create table if not exists filler (data blob)")
        store.db.execute("insert into filler values (zeroblob(?))", (2 * LONG * 8192,))


def _comes_true(test: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not test() and time.monotonic() < until:
        time.sleep(0.01)
    return test()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runlore.db"


def test_a_long_log_is_brought_over_while_the_next_transaction_is_open(path: Path) -> None:
    with closing(open_store(str(path))) as store, store.bulk():
        assert isinstance(store, SqliteStore)
        before = path.stat().st_size
        _fill(store)
        with store.transaction():
            store.db.execute("insert into filler values (zeroblob(100))")
            assert _comes_true(lambda: path.stat().st_size > before + LONG * 8192)
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("select count(*) from filler").fetchone() == (2,)


def test_a_log_does_not_grow_with_all_that_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite_checkpoint, "LONGEST", 3 * LONG)
    log = path.with_name("runlore.db-wal")
    with closing(open_store(str(path))) as store, store.bulk():
        assert isinstance(store, SqliteStore)
        for _ in range(8):
            _fill(store)
        assert log.stat().st_size < 6 * LONG * 8192
        assert path.stat().st_size > 14 * LONG * 8192


def test_what_was_long_before_is_brought_over_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_store(str(path))) as store:
        assert isinstance(store, SqliteStore)
        store.db.wal_autocheckpoint(0)
        before = path.stat().st_size
        _fill(store)
        assert path.stat().st_size == before
        with store.bulk():
            assert _comes_true(lambda: path.stat().st_size > before + LONG * 8192)


def test_a_commit_does_not_bring_it_over_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite_checkpoint, "LONG", 1 << 30)
    with closing(open_store(str(path))) as store, store.bulk():
        assert isinstance(store, SqliteStore)
        before = path.stat().st_size
        _fill(store)
        assert path.stat().st_size == before


def test_afterwards_it_is_as_it_always_is(path: Path) -> None:
    with closing(open_store(str(path))) as store:
        assert isinstance(store, SqliteStore)
        with store.bulk():
            pass
        before = path.stat().st_size
        _fill(store)
        assert path.stat().st_size > before + LONG * 8192


def test_a_disk_that_refuses_it_is_no_reason_to_stop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Full:
        def __init__(self, path: str) -> None:
            pass

        def pragma(self, name: str) -> int:
            return 0

        def wal_checkpoint(self, mode: int) -> None:
            asked.append(mode)
            raise apsw.FullError

        def close(self) -> None:
            pass

    with closing(open_store(str(path))) as store:
        assert isinstance(store, SqliteStore)
        monkeypatch.setattr("runlore.store._sqlite_checkpoint.apsw.Connection", Full)
        with store.bulk():
            for _ in range(2):
                asked.clear()
                _fill(store)
                assert _comes_true(lambda: bool(asked))
        monkeypatch.undo()
        assert store.db.execute("select count(*) from filler").fetchone() == (2,)


def test_the_end_is_noticed_when_it_comes_between_two_looks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_rung_again = threading.Event()
    heard = []

    class Bell(threading.Event):
        rings = 0

        def set(self) -> None:
            self.rings += 1
            super().set()
            if self.rings == 2:
                is_rung_again.set()

        def clear(self) -> None:
            is_rung_again.wait(30)
            super().clear()

        def wait(self, timeout: float | None = None) -> bool:
            heard.append(super().wait(2))
            return heard[-1]

    monkeypatch.setattr(_sqlite_checkpoint, "threading", SimpleNamespace(Event=Bell, Lock=threading.Lock, Thread=threading.Thread))
    with closing(open_store(str(path))) as store, store.bulk():
        assert isinstance(store, SqliteStore)
        _fill(store)
        while not heard:
            time.sleep(0.01)
    assert all(heard), "It waits for a ring that has been."


def test_where_no_second_connection_is_to_be_had_it_is_as_it_always_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> apsw.Connection:
        raise apsw.CantOpenError

    with closing(open_store(str(path))) as store:
        assert isinstance(store, SqliteStore)
        monkeypatch.setattr("runlore.store._sqlite_checkpoint.apsw.Connection", refuse)
        before = path.stat().st_size
        with store.bulk():
            _fill(store)
            assert path.stat().st_size > before + LONG * 8192
