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

from ..errors import RunloreError
from ..query.open_stores import Stores
from .app import make_app
from .guard import LOOPBACK, Door, is_loopback
from .rendering import warm

PORT = 8765
GRACE_S = 3
"""For answers that are on their way when it ends; pages that listen notice within a second."""
SHORTEST = 16
"""Minimum length of a token: anyone who reaches the address may try one."""


def door_for(host: str, names: tuple[str, ...] = (), token: str | None = None) -> Door:
    """Loopback asks for a token only where one is given; anything else gets one, and it must not be
    short. Raises RunloreError."""
    if token is not None and len(token) < SHORTEST:
        raise RunloreError(
            f"the token must have at least {SHORTEST} characters: others can reach {host}, and may"
            " guess"
        )
    if is_loopback(host):
        return Door(hosts=(*LOOPBACK, *names), token=token)
    return Door(
        hosts=(*LOOPBACK, host, socket.gethostname().lower(), *names),
        token=token or secrets.token_urlsafe(24),
    )


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens, so that whoever is told the address finds it. Port 0 is any that is
    free, None the usual one or, when that is taken, any. Raises RunloreError."""
    if port is None:
        try:
            return bind(host, PORT)
        except RunloreError:
            return bind(host, 0)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # Elsewhere it would let two listen at once.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise RunloreError(
            f"{host}:{port}: {error.strerror or error}; --port chooses another, 0 any that is free"
        ) from None
    return made


def url_of(listening: socket.socket) -> str:
    """Return the URL to open. A server that is bound to every address is reached by the machine's
    host name."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # Compared, not bound.  # noqa: S104
        host = socket.gethostname()
    elif host in LOOPBACK:
        host = "localhost" if host == "127.0.0.1" else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(listening: socket.socket, door: Door, ready: Callable[[], None] | None = None) -> None:
    """Answers until it is interrupted."""
    quiet: dict[str, Any] = {
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
    }
    stores = Stores()
    # Without a lifespan: one that is cancelled by a second Ctrl-C would be told at length.
    app = make_app(door, stores, lambda: server.should_exit)
    server = uvicorn.Server(
        uvicorn.Config(app, lifespan="off", timeout_graceful_shutdown=GRACE_S, **quiet)
    )
    threading.Thread(target=warm, daemon=True).start()
    if ready is not None:
        ready()
    with closing(stores), suppress(KeyboardInterrupt):  # How it is meant to end.
        server.run(sockets=[listening])
