"""Connections that the readers of one process share.

A web or MCP server has many threads, and a database has few connections. A sync does not use the
pool: it has one transaction open all the time, and it forks workers, which a process with the
threads of a pool should not do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

MAX_CONNECTIONS = 4
"""Maximum number of connections to a database at the same time. Further readers wait."""

MAX_WAIT_S = 30
"""Maximum seconds that a reader waits for a connection."""
MAX_SILENCE_S = 0.5
"""Seconds after which a reader that waits looks whether the server is there."""
MAX_CONNECT_S = 2
"""Maximum seconds for this look. The smallest value that PostgreSQL's library takes."""
MAX_RECONNECT_S = 1
"""Seconds after which the pool no longer tries to connect by itself. The next reader does."""
MAX_IDLE_S = 60
"""Seconds after which an unused connection is closed. Most servers of a team are idle."""

Connection = psycopg.Connection[Any]

open_pools: dict[str, tuple[ConnectionPool[Connection], int]] = {}
_guard = threading.Lock()


class Share:
    """The share of one reader in the connections to a database."""

    def __init__(
        self, url: str, options: dict[str, Any], set_up: Callable[[Connection], None]
    ) -> None:
        self._url, self._options = url, options
        with _guard:
            pool, readers = open_pools.get(url) or (_open(url, options, set_up), 0)
            open_pools[url] = pool, readers + 1
        self._pool = pool

    def take(self) -> Connection:
        """Return a connection that works. Raises psycopg.OperationalError."""
        with suppress(PoolTimeout):
            return self._pool.getconn(timeout=MAX_SILENCE_S)
        # If something is wrong with the server, this raises an error that says what.
        options = self._options | {"connect_timeout": MAX_CONNECT_S}
        psycopg.connect(self._url, **options).close()
        try:
            return self._pool.getconn()
        except PoolTimeout:
            raise psycopg.OperationalError(
                f"all {MAX_CONNECTIONS} connections have been busy for {MAX_WAIT_S} s"
            ) from None

    def give_back(self, connection: Connection) -> None:
        """Return a connection to the pool."""
        self._pool.putconn(connection)

    def leave(self) -> None:
        """Give up this share. With the last one, the connections are closed."""
        with _guard:
            pool, readers = open_pools[self._url]
            if readers > 1:
                open_pools[self._url] = pool, readers - 1
                return
            del open_pools[self._url]
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
        max_size=MAX_CONNECTIONS,
        timeout=MAX_WAIT_S,
        max_idle=MAX_IDLE_S,
        reconnect_timeout=MAX_RECONNECT_S,
        num_workers=1,
        name="runlore",
        open=True,
    )
