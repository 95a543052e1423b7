"""Who may ask, and what is never said."""

from __future__ import annotations

import re

import pytest

from runlore.errors import RunloreError
from runlore.web.app import ROUTES
from runlore.web.guard import Door, is_loopback
from runlore.web.serving import bind, door_for, url_of
from tests.web.conftest import Client, serving

TOKEN = "a-token-that-is-long-enough"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "192.168.1.9", "", "[::2]:1"],
)
def test_a_name_that_is_not_ours_is_refused(client: Client, host: str) -> None:
    answer = client.ask("/sessions", host=host)
    assert answer.status == 421
    assert "shop-api" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:8765", "[::1]:9"])
def test_names_of_this_machine_are_ours(client: Client, host: str) -> None:
    assert client.ask("/sessions", host=host).status == 200


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
def test_another_sites_script_or_picture_gets_nothing(client: Client, mode: str) -> None:
    answer = client.ask("/sessions", sec_fetch_site="cross-site", sec_fetch_mode=mode)
    assert answer.status == 403
    assert "shop-api" not in answer.text


def test_a_link_on_another_site_may_be_followed(client: Client) -> None:
    assert (
        client.ask("/sessions", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status
        == 200
    )


FOREIGN = [
    "http://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://localhost:1",
    "http://[",
    "",
]


@pytest.mark.parametrize("origin", FOREIGN)
def test_another_origin_reads_nothing_also_where_a_browser_says_no_more_of_itself(
    origin: str, client: Client
) -> None:
    assert client.ask("/api/v1/sessions", origin=origin).status == 403
    assert client.ask("/api/v1/sessions", origin=client.url).status == 200


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_form_of_another_site_changes_nothing(origin: str, client: Client) -> None:
    assert client.ask("/logout", "POST", origin=origin).status == 403
    assert (
        client.ask("/logout", "POST", origin=client.url, sec_fetch_site="cross-site").status == 403
    )
    assert client.ask("/logout", "POST", origin=client.url).status == 303


@pytest.mark.parametrize(
    "path",
    ["/sessions", "/nope", "/sessions?sort=wrong", "/static/x/app.css", "/static/x/../app.css"],
)
def test_every_answer_forbids_what_a_page_does_not_need(client: Client, path: str) -> None:
    headers = client.ask(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_a_failure_is_guarded_too_and_says_nothing_of_the_inside(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boom(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr("runlore.web.sessions.find", boom)
    answer = client.ask("/sessions")
    assert answer.status == 500
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "secret" not in answer.text


def test_pages_have_no_inline_script_or_style(client: Client) -> None:
    page = client.get("/sessions?q=test")
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page)


def test_nothing_but_loopback_goes_without_a_token() -> None:
    assert door_for("127.0.0.1").token is None
    assert len(door_for("0.0.0.0").token or "") >= 32
    assert door_for("0.0.0.0").token != door_for("0.0.0.0").token
    with pytest.raises(RunloreError, match="at least 16 characters"):
        door_for("0.0.0.0", token="short")
    assert door_for("127.0.0.1", token=TOKEN).token == TOKEN  # Others may have accounts here.
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.1", "::", "example.com")))
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))


def test_a_token_opens_every_page_and_no_answer_holds_it(demo: object) -> None:
    with serving(Door(token=TOKEN)) as client:
        assert client.ask("/sessions").headers["location"] == "/login"
        assert client.ask("/sessions", authorization="Bearer wrong").status == 303
        assert client.ask("/sessions", authorization=f"Bearer {TOKEN}").status == 200
        wrong = client.ask("/login", "POST", "token=wrong", origin=client.url)
        assert (wrong.status, wrong.headers.get("set-cookie")) == (403, None)
        right = client.ask("/login", "POST", f"token={TOKEN}", origin=client.url)
        cookie = right.headers["set-cookie"]
        assert right.status == 303
        assert all(word in cookie.lower() for word in ("httponly", "samesite=strict"))
        value = cookie.partition(";")[0]
        # That one has no end.
        paths = [
            route.path for route in ROUTES if "{" not in route.path and route.path != "/events"
        ]
        for answer in [right, *(client.ask(path, cookie=value) for path in paths)]:
            assert answer.status < 400 or answer.status == 405
            assert TOKEN not in answer.text + str(answer.headers)
        assert client.ask("/sessions", cookie="runlore=0").status == 303
        assert (
            client.ask("/login", "POST", "token=" + "x" * 10_000, origin=client.url).status == 413
        )


def test_every_page_but_the_login_asks_for_the_token(demo: object) -> None:
    with serving(Door(token=TOKEN)) as client:
        paths = [re.sub(r"{\w+(:\w+)?}", "x", route.path) for route in ROUTES]
        for path in paths:
            if not path.startswith(("/login", "/static/")):
                assert client.ask(path).status in (303, 401), path
        assert client.ask("/login").status == 200


def test_where_it_listens_is_where_it_is_told_to_be() -> None:
    with bind("127.0.0.1", 0) as first:
        assert url_of(first) == f"http://localhost:{first.getsockname()[1]}"
        with pytest.raises(RunloreError, match="--port chooses another"):
            bind("127.0.0.1", first.getsockname()[1])
