"""Where the server answers, how long it waits, and what it says when the store is away."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from runlore import config as settings
from runlore.cli.commands.demo import fill
from runlore.query.open_stores import Stores
from runlore.store import open_store
from runlore.web import serving
from runlore.web.app import make_app
from runlore.web.serving import bind, door_for, make_server, url_of
from tests import postgres
from tests.web.conftest import Client


@contextmanager
def served(host: str = "127.0.0.1") -> Iterator[str]:
    """The address of a server as `runlore serve` makes it."""
    stores, door = Stores(), door_for(host, token="a-token-that-is-long-enough")
    server = make_server(lambda is_ending: make_app(door, stores, is_ending))
    with bind(host, 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield url_of(listening)
        finally:
            server.should_exit = True
            thread.join(10)
            stores.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "::1"])
def test_it_answers_at_the_address_that_it_prints(home: Path, host: str) -> None:
    with served(host) as url, urlopen(f"{url}/login") as answer:
        assert answer.status == 200


def test_every_name_that_is_printed_is_ours() -> None:
    for host in ("127.1.2.3", "::1", "LocalHost", "0.0.0.0", "::", "My-Machine"):
        door = door_for(host)
        assert door.is_ours(f"{host}:8765" if ":" not in host else f"[{host}]:8765"), host
        assert door.is_ours(socket.gethostname()) or not door.token, host


def test_a_host_name_that_leads_nowhere_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-name.invalid")
    with bind("0.0.0.0", 0) as listening:
        assert url_of(listening) == f"http://localhost:{listening.getsockname()[1]}"


HALF_REQUESTS = {
    "nothing": b"",
    "half a line": b"GET /login HT",
    "headers without an end": b"GET /login HTTP/1.1\r\nhost: localhost\r\nx: ",
    "a body that does not come": (
        b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nab"
    ),
    "half of a second request": (
        b"GET /static/x HTTP/1.1\r\nhost: localhost\r\n\r\nGET /login HTTP/1.1\r\nx"
    ),
}


@pytest.mark.parametrize("sent", HALF_REQUESTS.values(), ids=HALF_REQUESTS)
def test_a_connection_whose_request_does_not_come_is_dropped(
    home: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(serving, "MAX_REQUEST_S", 0.5)
    with served() as url:
        address = ("127.0.0.1", urlsplit(url).port)
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(sent)
            began = time.monotonic()
            is_open = True
            while is_open:
                try:
                    is_open = bool(connection.recv(65536))
                except ConnectionError:
                    is_open = False
            assert time.monotonic() - began < 15


def test_a_connection_that_is_used_stays_open(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_REQUEST_S", 0.2)
    with (
        served() as url,
        closing(HTTPConnection("localhost", urlsplit(url).port)) as connection,
    ):
        connection.connect()
        connection.auto_open = 0
        for _ in range(10):
            connection.request("GET", "/login")
            answer = connection.getresponse()
            assert (answer.status, answer.read()[:15]) == (200, b"<!doctype html>")
            time.sleep(0.15)


MAX_AWAY_S = 3


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Server]:
    yield from postgres.start()


def test_a_page_says_soon_that_the_database_is_away(
    home: Path, database: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLORE_STORE", database.make_schema())
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        fill(store, config)
    with served() as url:
        client = Client(urlsplit(url).port or 0)
        token = {"authorization": "Bearer a-token-that-is-long-enough"}
        assert client.ask("/sessions", **token).status == 200
        # Without fsync, the tables that were just made could be lost with the server.
        database.execute("checkpoint")
        database.control("stop", "-m", "immediate")
        try:
            for path in ("/sessions", "/", "/api/v1/sessions"):
                began = time.monotonic()
                answer = client.ask(path, **token)
                assert time.monotonic() - began < MAX_AWAY_S, path
                assert answer.status == 500
                assert "look whether the server runs" in answer.text
            assert json.loads(answer.text)["error"]["code"] == "store"
        finally:
            database.control("start", "-o", f'-h "" -k {database.folder}')
        began = time.monotonic()
        client.get("/sessions", **token)
        assert time.monotonic() - began < MAX_AWAY_S
