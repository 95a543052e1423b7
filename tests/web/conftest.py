"""What the tests of the web app share: the demo store, a server of our own on loopback, and a plain
way to ask it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn

from runlore import config as settings
from runlore.cli.commands.demo import fill
from runlore.query.open_stores import Stores
from runlore.store import open_store
from runlore.web.app import make_app
from runlore.web.guard import Door
from runlore.web.reading import Reading
from runlore.web.serving import bind

SHOP = "claude:cd613e30-d8f1-4adf-91b7-584a2265b1f5"
"""A session of the demo with errors, a subagent and a thought."""


class Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """Asks one server. Sends what a browser would, unless told otherwise."""

    def __init__(self, port: int) -> None:
        self.port, self.url = port, f"http://localhost:{port}"

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> Answer:
        sent = {
            "host": f"localhost:{self.port}",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, body, sent)
            found = connection.getresponse()
            return Answer(
                found.status,
                {name.lower(): value for name, value in found.getheaders()},
                found.read(),
            )

    def get(self, path: str, **headers: str) -> str:
        """The text of a page, which must be there."""
        answer = self.ask(path, **headers)
        assert answer.status == 200, f"{path}: {answer.status} {answer.text[-2000:]}"
        return answer.text


@contextmanager
def serving(door: Door | None = None, reading: Reading | None = None) -> Iterator[Client]:
    """A server for the store of this test's home."""
    listening = bind("127.0.0.1", 0)
    stores = Stores()
    config = uvicorn.Config(
        make_app(door, stores, reading=reading),
        lifespan="off",
        log_level="critical",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Client(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
        stores.close()


Fill = Callable[[Any], None]


@pytest.fixture
def demo(home: Path) -> settings.Config:
    """The home of this test holds the demo store."""
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        fill(store, config)
    return config


@pytest.fixture
def client(demo: settings.Config) -> Iterator[Client]:
    with serving() as found:
        yield found
