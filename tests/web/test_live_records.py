"""Records over the network: only with a token, and only what is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from runlore.config import Config
from runlore.live import SessionStore
from runlore.web.guard import Door
from tests.web.conftest import Answer, Client, serving

TOKEN = "s3cret-token"
PATH = "/api/v1/live/chat-7/records"
MESSAGE = {"type": "message", "payload": {"role": "user", "content": "ü€😀"}, "key": "turn-1"}


@pytest.fixture
def guarded(demo: Config) -> Iterator[Client]:
    with serving(Door(token=TOKEN)) as client:
        yield client


def post(client: Client, value: Any, path: str = PATH, **headers: str) -> Answer:
    body = value if isinstance(value, str) else json.dumps(value)
    sent = {
        "authorization": f"Bearer {TOKEN}",
        "content_type": "application/json",
        **headers,
    }
    return client.ask(path, "POST", body, **sent)


def test_records_are_appended_and_a_key_counts_once(guarded: Client, demo: Config) -> None:
    first = post(guarded, MESSAGE)
    assert first.status == 200
    (record,) = json.loads(first.text)
    assert (record["seq"], record["key"]) == (1, "turn-1")
    assert json.loads(post(guarded, MESSAGE).text) == [record]
    batch = [{"type": "note", "payload": {"n": n}} for n in range(2)]
    assert [one["seq"] for one in json.loads(post(guarded, batch, f"{PATH}?expect=1").text)] == [
        2,
        3,
    ]
    refused = post(guarded, batch, f"{PATH}?expect=1")
    assert (refused.status, json.loads(refused.text)["error"]["code"]) == (409, "conflict")
    with SessionStore(demo.home / "live") as store, store.open("chat-7") as session:
        assert session.messages() == [MESSAGE["payload"]]
        assert session.last_seq == 3


def test_nothing_is_written_without_a_token(demo: Config) -> None:
    with serving() as client:  # This machine alone: anyone here may read.
        assert post(client, MESSAGE).status == 403
    with serving(Door(token=TOKEN)) as client:
        assert post(client, MESSAGE, authorization="").status == 401
        assert post(client, MESSAGE, authorization="Bearer wrong").status == 401
        assert post(client, MESSAGE, origin="http://evil.example").status == 403
        assert post(client, MESSAGE, sec_fetch_site="cross-site").status == 403
        assert post(client, MESSAGE, content_type="text/plain").status == 415
    with SessionStore(demo.home / "live") as store:
        assert "chat-7" not in [info.id for info in store.list()]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("{ no json", PATH),
        ({"type": "message", "payload": {"role": "user"}}, PATH),
        ({"type": "lease", "payload": {"epoch": 9}}, PATH),
        ({"type": "note", "payload": {}, "colour": "red"}, PATH),
        (MESSAGE, f"{PATH}?expect=-1"),
        (MESSAGE, "/api/v1/live/..%2Fx/records"),
        (MESSAGE, "/api/v1/live/../records"),
    ],
)
def test_what_is_no_record_is_refused(guarded: Client, value: Any, path: str) -> None:
    answer = post(guarded, value, path)
    assert answer.status in (400, 404)
    assert json.loads(answer.text)["error"]["message"]
