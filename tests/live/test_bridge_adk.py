"""A session service for Google ADK, compared call by call with the one of ADK in memory."""

from __future__ import annotations

import asyncio
import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tests.live.frameworks import load

bridge, sessions, base, events, actions, genai, errors = load(
    "runlore.live.bridges.adk",
    "google.adk.sessions",
    "google.adk.sessions.base_session_service",
    "google.adk.events.event",
    "google.adk.events.event_actions",
    "google.genai.types",
    "google.adk.errors.session_not_found_error",
    extra="google-adk",
)
pytestmark = pytest.mark.filterwarnings("default")
KEYS = [(app, user, id) for app in ("a", "a/b") for user in ("u", "b/u") for id in ("1", "2/x")]


def make_event(step: int) -> Any:
    parts = [genai.Part(text=f"hi {step}"), genai.Part.from_bytes(data=b"\0\xff", mime_type="x/y")]
    delta = {"y": step, "app:m": step, "user:d": step, "temp:q": 2}
    return events.Event(
        author="user",
        invocation_id="i",
        content=genai.Content(role="user", parts=parts),
        actions=actions.EventActions(state_delta=delta),
        timestamp=1000.0 + step % 7,  # Not in the order in which they are appended.
    )


async def tried(call: Any) -> Any:
    try:
        return (await call).model_dump()
    except Exception as error:
        return type(error).__name__


def state_of(sessions: list[Any]) -> list[Any]:
    return sorted((one.user_id, one.id, str(sorted(one.state.items()))) for one in sessions)


def shown(session: Any) -> Any:
    if session is None:
        return None
    dump = session.model_dump()
    return dump if dump["events"] else dump | {"last_update_time": 0}


def test_every_call_answers_as_the_service_in_memory(address: str) -> None:
    async def run() -> None:
        both = (bridge.RunloreSessionService(address), sessions.InMemorySessionService())
        chance, held = random.Random(3), dict[Any, Any]()
        for step in range(250):
            app, user, id = key = chance.choice(KEYS)
            names = {"app_name": app, "user_id": user}
            match chance.choice("caaagglu" if step % 7 else "d"):
                case "c":
                    state = {"x": step, "app:n": step, "user:c": [1, step], "temp:z": 1}
                    made = [
                        await tried(one.create_session(**names, session_id=id, state=dict(state)))
                        for one in both
                    ]
                    if isinstance(made[0], str):
                        assert made[0] == made[1]
                        continue
                    held[key] = [await one.get_session(**names, session_id=id) for one in both]
                    assert made[0]["state"] == made[1]["state"]
                case "a" if key in held:
                    event = make_event(step)
                    sent = [copy.deepcopy(event) for _ in both]
                    for _ in range(2):  # The same event again changes nothing.
                        answers = [
                            await tried(one.append_event(session, event))
                            for one, session, event in zip(both, held[key], sent, strict=True)
                        ]
                        assert answers[0] == answers[1]
                case "d":
                    for one in both:
                        await one.delete_session(**names, session_id=id)
                case "l":
                    listed = [(await one.list_sessions(app_name=app)).sessions for one in both]
                    states = [
                        sorted(
                            (one.user_id, one.id, str(sorted(one.state.items()))) for one in each
                        )
                        for each in listed
                    ]
                    assert states[0] == states[1]
                case "u":
                    assert await both[0].get_user_state(**names) == (
                        await both[1].get_user_state(**names)
                    )
                case _:
                    for config in (
                        None,
                        base.GetSessionConfig(num_recent_events=0),
                        base.GetSessionConfig(num_recent_events=2),
                        base.GetSessionConfig(after_timestamp=1003.0),
                    ):
                        got = [
                            await one.get_session(**names, session_id=id, config=config)
                            for one in both
                        ]
                        assert shown(got[0]) == shown(got[1])
        await both[0].close()

    asyncio.run(run())


def test_events_are_read_in_the_order_in_which_they_were_appended(address: str) -> None:
    async def run() -> None:
        service = bridge.RunloreSessionService(address)
        session = await service.create_session(app_name="a", user_id="u", session_id="s")
        for step in range(20):
            await service.append_event(session, make_event(step))
        await service.close()
        other = bridge.RunloreSessionService(address)
        stored = await other.get_session(app_name="a", user_id="u", session_id="s")
        texts = [one.content.parts[0].text for one in stored.events]
        assert texts == [f"hi {step}" for step in range(20)]
        await other.close()

    asyncio.run(run())


@pytest.mark.folder
def test_the_state_is_saved_for_the_next_process(address: str) -> None:
    async def run() -> None:
        service = bridge.RunloreSessionService(address)
        session = await service.create_session(app_name="a", user_id="u", session_id="s")
        for step in range(120):
            await service.append_event(session, make_event(step))
        await service.close()
        assert [*Path(address).glob("*/snapshots/fold-adk*")]
        stored = await service.get_session(app_name="a", user_id="u", session_id="s")
        assert stored.state["y"] == 119
        await service.close()

    asyncio.run(run())


def test_an_event_of_a_session_that_was_deleted_elsewhere_is_refused(address: str) -> None:
    where = {"app_name": "a", "user_id": "u", "session_id": "s"}

    async def run() -> None:
        here, elsewhere = (bridge.RunloreSessionService(address) for _ in range(2))
        session = await here.create_session(**where)
        await elsewhere.delete_session(**where)
        with pytest.raises(errors.SessionNotFoundError):
            await here.append_event(session, make_event(1))
        assert await here.get_session(**where) is None
        await here.close()
        await elsewhere.close()

    asyncio.run(run())


def test_another_event_with_the_same_id_changes_the_shared_state_too(address: str) -> None:
    async def run() -> None:
        service = bridge.RunloreSessionService(address)
        session = await service.create_session(app_name="a", user_id="u", session_id="s")
        for step in range(2):
            event = make_event(step)
            event.id = "same"
            await service.append_event(session, event)
        stored = await service.get_session(app_name="a", user_id="u", session_id="s")
        assert len(stored.events) == 2
        assert (stored.state["y"], stored.state["app:m"], stored.state["user:d"]) == (1, 1, 1)
        await service.close()

    asyncio.run(run())
