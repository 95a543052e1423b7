"""Connections that the readers of one process share: a server of pages or of tools has many
threads, and a database few connections.

Not for a sync: it has one transaction open all the time, and starts workers, which a process with
the threads of a pool should not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

MOST = 4
"""At the same time, for each database: whoever comes fifth waits."""

WAIT_S = 30
IDLE_S = 60
"""Then a connection that nobody needs is closed: of fifty people's servers hardly one is asked at
any time."""

Connection = psycopg.Connection[Any]

_pools: dict[str, tuple[ConnectionPool[Connection], int]] = {}
_guard = threading.Lock()


class Share:
    """One reader's part in the connections to a database."""

    def __init__(
        self, url: str, options: dict[str, Any], set_up: Callable[[Connection], None]
    ) -> None:
        self._url, self._options = url, options
        with _guard:
            pool, readers = _pools.get(url) or (_open(url, options, set_up), 0)
            _pools[url] = pool, readers + 1
        self._pool = pool

    def take(self) -> Connection:
        """A connection that works. Raises psycopg.OperationalError."""
        try:
            return self._pool.getconn()
        except PoolTimeout:
            # Says what is wrong with the server, when something is.
            psycopg.connect(self._url, **self._options).close()
            raise psycopg.OperationalError(
                f"all {MOST} connections have been busy for {WAIT_S} s"
            ) from None

    def give_back(self, connection: Connection) -> None:
        self._pool.putconn(connection)

    def leave(self) -> None:
        """The last to leave closes the connections."""
        with _guard:
            pool, readers = _pools[self._url]
            if readers > 1:
                _pools[self._url] = pool, readers - 1
                return
            del _pools[self._url]
        pool.close()


def _open(
    url: str, options: dict[str, Any], set_up: Callable[[Connection], None]
) -> ConnectionPool[Connection]:
    return ConnectionPool(
        url,
        kwargs=options,
        configure=set_up,
        check=ConnectionPool.check_connection,
        min_size=0,
        max_size=MOST,
        timeout=WAIT_S,
        max_idle=IDLE_S,
        num_workers=1,
        name="runlore",
        open=True,
    )
