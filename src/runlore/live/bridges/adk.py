"""Google ADK: a session service over the live log.

    from runlore.live.bridges.adk import RunloreSessionService

    runner = Runner(agent=agent, app_name="weather", session_service=RunloreSessionService("./s"))

Events are ordered as they were appended, whatever their timestamps. State with the prefixes `app:`
and `user:` is shared by the sessions of the app or user. Needs the extra `google-adk`.
"""

from __future__ import annotations

import copy
import os
import uuid
from typing import Any
from urllib.parse import quote

import msgspec
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform.time import get_time
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions._session_util import make_json_safe_state
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State

from ...errors import Conflict, SessionNotFound
from ...model import LogRecord
from ..log import LiveSession, SessionStore
from .sessions import OpenSessions, id_for, last_records

AGENT = "google-adk"
CREATED, EVENT = "adk.created", "adk.event"


class SessionState(msgspec.Struct):
    """The state of a session, and the time of its last event."""

    state: dict[str, Any] = {}
    updated: float = 0.0

    def add(self, record: LogRecord) -> None:
        payload = record.payload
        if record.type == CREATED:
            changed = payload["state"]
        else:
            changed = (payload.get("actions") or {}).get("state_delta") or {}
        self.state.update({name: one for name, one in changed.items() if not _is_shared(name)})
        self.updated = payload["timestamp"]


class RunloreSessionService(BaseSessionService):
    """Sessions of ADK in a session store: a folder, or a server."""

    def __init__(self, store: SessionStore | str | os.PathLike[str] | None = None) -> None:
        self._sessions = OpenSessions(store, AGENT)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        id = (session_id or "").strip() or str(uuid.uuid4())
        return await self._sessions.run(lambda: self._create(app_name, user_id, id, state or {}))

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events, or with the last ones as `config` says."""

        def read() -> Session | None:
            live = self._sessions.get(_id(app_name, user_id, session_id))
            if live is None or not live.has_begun:
                return None
            return self._session(live, app_name, user_id, _events(live, config))

        return await self._sessions.run(read)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        where = {"app": app_name} if user_id is None else {"app": app_name, "user": user_id}

        def read() -> list[Session]:
            infos = self._sessions.store.list(agent=AGENT, where=where)
            return [
                self._session(live, app_name, info.extra["user"], [])
                for info in infos
                if (live := self._sessions.get(info.id)) is not None
            ]

        sessions = await self._sessions.run(read)
        sessions.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session for good. State of the app and the user stays."""
        await self._sessions.run(lambda: self._sessions.delete(_id(app_name, user_id, session_id)))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            return self._sessions.shared(_user_scope(app_name, user_id)).values()

        return await self._sessions.run(read)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event. The same event again changes nothing."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        self._trim_temp_delta_state(event)
        is_new = await self._sessions.run(lambda: self._append(session, event))
        if is_new or not any(one.id == event.id for one in session.events):
            self._commit_event_to_session(session, event)
        session.last_update_time = event.timestamp
        return event

    async def close(self) -> None:
        await self._sessions.run(self._sessions.close)

    def _create(self, app: str, user: str, id: str, state: dict[str, Any]) -> Session:
        stored = make_json_safe_state(state)
        live = self._sessions.store.draft(
            id=_id(app, user, id), agent=AGENT, app=app, user=user, session=id
        )
        try:
            live.record(CREATED, {"state": _session_state(stored), "timestamp": get_time()})
        except Conflict:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from None
        self._sessions.keep(live)
        self._share(app, user, stored, None)
        return self._session(live, app, user, [])

    def _append(self, session: Session, event: Event) -> bool:
        """Append an event to the log; return False if it was there already."""
        live = self._sessions.get(_id(session.app_name, session.user_id, session.id))
        if live is None or not live.has_begun:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        try:
            return self._append_to(live, session, event)
        except SessionNotFound:  # Deleted in this moment.
            raise SessionNotFoundError(f"Session {session.id} not found.") from None

    def _append_to(self, live: LiveSession, session: Session, event: Event) -> bool:
        payload = event.model_dump(mode="json", exclude_none=True)
        last = live.last_seq
        try:
            record = live.record(EVENT, payload, key=event.id)
        except Conflict:  # Another event with the same id.
            record = live.record(EVENT, payload)
        delta = (payload.get("actions") or {}).get("state_delta") or {}
        self._share(session.app_name, session.user_id, delta, event.id)
        self._stored(live)  # Saved from time to time, so that a later process need not read it all.
        return record.seq > last

    def _share(self, app: str, user: str, values: dict[str, Any], key: str | None) -> None:
        """Store the values of the app and of the user."""
        for prefix, scope in _scopes(app, user).items():
            changed = {
                name.removeprefix(prefix): value
                for name, value in values.items()
                if name.startswith(prefix)
            }
            if changed:
                shared = self._sessions.shared(scope)
                try:
                    shared.put(changed, key=key)
                except Conflict:  # Of another event with the same id.
                    shared.put(changed)

    def _stored(self, live: LiveSession) -> SessionState:
        return self._sessions.fold(live, "adk", SessionState, ["adk."])

    def _session(self, live: LiveSession, app: str, user: str, events: list[Event]) -> Session:
        stored = self._stored(live)
        state = copy.deepcopy(stored.state)
        for prefix, scope in _scopes(app, user).items():
            values = copy.deepcopy(self._sessions.shared(scope).values())
            state |= {prefix + name: value for name, value in values.items()}
        return Session(
            app_name=app, user_id=user, id=live.meta.extra["session"], state=state,
            events=events, last_update_time=stored.updated,
        )  # fmt: skip


def _id(app: str, user: str, session: str) -> str:
    return id_for("adk", app, user, session.strip())


def _events(live: LiveSession, config: GetSessionConfig | None) -> list[Event]:
    count = config.num_recent_events if config else None
    records = live.records() if count is None else last_records(live, EVENT, count)
    events = [Event.model_validate(one.payload) for one in records if one.type == EVENT]
    after = config.after_timestamp if config else None
    if after is not None:
        # Up to the last event that is older, as the service of ADK in memory does.
        older = next((n for n, one in enumerate(reversed(events)) if one.timestamp < after), None)
        events = events if older is None else events[len(events) - older :]
    return events


def _scopes(app: str, user: str) -> dict[str, str]:
    """Return the scope of the values of each prefix."""
    app_scope = f"app:{quote(app, safe='')}"
    return {State.APP_PREFIX: app_scope, State.USER_PREFIX: _user_scope(app, user)}


def _user_scope(app: str, user: str) -> str:
    return f"user:{quote(app, safe='')}/{quote(user, safe='')}"


def _is_shared(name: str) -> bool:
    """Return True if a value does not belong to the session alone."""
    return name.startswith((State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX))


def _session_state(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if not _is_shared(name)}
