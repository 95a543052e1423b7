"""What bridges share: sessions that stay open while other processes delete and create them."""

from __future__ import annotations

import time

import pytest

from runlore.live.bridges.sessions import MAX_OPEN, OpenSessions
from tests import postgres


def texts(sessions: OpenSessions) -> list[str] | None:
    session = sessions.get("s")
    return [one.payload["text"] for one in session.records(0)] if session else None


def write(sessions: OpenSessions, text: str, id: str = "s") -> None:
    sessions.write(id, lambda session: session.record("note", {"text": text}))


def test_a_session_that_was_deleted_elsewhere_is_not_read_any_more(address: str) -> None:
    here, elsewhere = OpenSessions(address, "a"), OpenSessions(address, "a")
    write(here, "old")
    assert texts(here) == texts(elsewhere) == ["old"]
    elsewhere.delete("s")
    assert texts(here) is None
    write(elsewhere, "new")
    assert texts(here) == ["new"]
    here.delete("s")
    write(here, "newest")
    assert texts(elsewhere) == texts(here) == ["newest"]
    here.close()
    elsewhere.close()


def test_writing_to_a_session_that_was_deleted_elsewhere_begins_a_new_one(address: str) -> None:
    here, elsewhere = OpenSessions(address, "a"), OpenSessions(address, "a")
    write(here, "old")
    elsewhere.delete("s")
    write(here, "new")
    assert texts(here) == texts(elsewhere) == ["new"]
    here.close()
    elsewhere.close()


@pytest.mark.folder
def test_sessions_that_were_closed_for_others_are_opened_again(address: str) -> None:
    sessions = OpenSessions(address, "a")
    for number in range(MAX_OPEN + 1):
        write(sessions, f"{number}", f"{number}")
    session = sessions.get("0")
    assert session is not None
    assert session.tail(1)[0].payload == {"text": "0"}
    sessions.close()


@pytest.mark.server
def test_connections_that_a_bridge_opened_are_closed_with_it(
    address: str, server: postgres.Server
) -> None:
    def connections() -> int:
        ((count,),) = server.execute(
            "select count(*) from pg_stat_activity where application_name = 'runlore live'"
        )
        return int(count)

    before = connections()
    sessions = OpenSessions(address, "a")
    write(sessions, "one")
    assert connections() > before
    sessions.close()
    deadline = time.monotonic() + 10
    while connections() > before and time.monotonic() < deadline:  # The server takes a moment.
        time.sleep(0.02)
    assert connections() <= before
    write(sessions, "two")
    assert texts(sessions) == ["one", "two"]
    sessions.close()
