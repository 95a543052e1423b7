"""Runs the app on an address, until it is stopped."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import RunloreError
from ..query.open_stores import Stores
from .app import make_app
from .guard import LOOPBACK, Door, is_loopback
from .reading import Reading
from .rendering import warm

PORT = 8765
GRACE_S = 3
"""For answers that are on their way when it ends; pages that listen notice within a second."""
MAX_REQUEST_S = 10
"""Seconds after which a connection is dropped whose request is still not complete. It may take
twice as long until that is noticed."""
MAX_CONNECT_S = 1
"""Maximum seconds for finding out whether this machine is reached by its name."""
SHORTEST = 16
"""Minimum length of a token: anyone who reaches the address may try one."""


def door_for(host: str, names: tuple[str, ...] = (), token: str | None = None) -> Door:
    """Return the door of an address. On loopback there is a token only if one is given; any other
    address gets one. Raises RunloreError for a short token."""
    if token is not None and len(token) < SHORTEST:
        raise RunloreError(
            f"the token must have at least {SHORTEST} characters: others can reach {host}, and may"
            " guess"
        )
    hosts = (*LOOPBACK, host.lower(), *names)
    if is_loopback(host):
        return Door(hosts=hosts, token=token)
    return Door(
        hosts=(*hosts, socket.gethostname().lower()), token=token or secrets.token_urlsafe(24)
    )


def bind(host: str, port: int | None) -> socket.socket:
    """Return a listening socket. Port 0 is any free one; None is the default one, or any free one
    if that is taken. Raises RunloreError."""
    if port is None:
        try:
            return bind(host, PORT)
        except RunloreError:
            return bind(host, 0)
    made = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # Elsewhere it would let two listen at once.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A browser that is gone without a word is noticed; connections inherit this.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.bind(address)
        made.listen(128)
    except OSError as error:
        if made is not None:
            made.close()
        raise RunloreError(
            f"{host}:{port}: {error.strerror or error}; --port chooses another, 0 any that is free"
        ) from None
    return made


def url_of(listening: socket.socket) -> str:
    """Return the URL to open. A server that is bound to every address is reached by the machine's
    host name, or as localhost if that leads nowhere."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # Compared, not bound.  # noqa: S104
        name = socket.gethostname()
        host = name if _is_reached(name, port) else "localhost"
    elif host == "127.0.0.1":
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_reached(name: str, port: int) -> bool:
    try:
        socket.create_connection((name, port), MAX_CONNECT_S).close()
    except OSError:
        return False
    return True


def serve(
    listening: socket.socket,
    door: Door,
    ready: Callable[[], None] | None = None,
    reading: Reading | None = None,
) -> None:
    """Serve until interrupted. Pages show how far `reading` is."""
    stores = Stores()
    server = make_server(lambda is_ending: make_app(door, stores, is_ending, reading))
    threading.Thread(target=warm, daemon=True).start()
    if ready is not None:
        ready()
    with closing(stores), suppress(KeyboardInterrupt):  # How it is meant to end.
        server.run(sockets=[listening])


def make_server(make: Callable[[Callable[[], bool]], ASGIApp]) -> uvicorn.Server:
    """Return a server for the app that `make` returns. `make` gets a function that says whether
    the server is ending."""
    config = uvicorn.Config(
        make(lambda: server.should_exit),
        http=ImpatientProtocol,
        # A lifespan that is cancelled by a second Ctrl-C would be told at length.
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    return server


class ImpatientProtocol(H11Protocol):
    """HTTP on one connection, which is dropped if a request does not arrive as a whole."""

    _waited_for: object = "nothing yet"
    """The last request when it was last looked whether the client has to send something."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loop.call_later(MAX_REQUEST_S, self._look)

    def _look(self) -> None:
        """Drop the connection if nothing happened since the last look, and it is the client's
        turn."""
        if self.transport.is_closing():
            return
        last = self.cycle
        is_clients_turn = last is None or last.response_complete or last.more_body
        if is_clients_turn and self._waited_for is last:
            self.transport.abort()
            return
        self._waited_for = last if is_clients_turn else "nothing"
        self.loop.call_later(MAX_REQUEST_S, self._look)
