"""Strands Agents: a session repository over the live log.

    from runlore.live.bridges.strands import RunloreSessionManager

    agent = Agent(session_manager=RunloreSessionManager("chat-42", "./sessions"))

Two processes that append to one session never overwrite each other: the second one gets a
SessionException. Needs the extra `strands-agents`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
from strands.multiagent.base import MultiAgentBase
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from ...errors import Conflict, SessionNotFound
from ...model import LogRecord
from ..log import LiveSession, SessionStore
from .sessions import OpenSessions, id_for

AGENT = "strands"
SESSION, AGENT_STATE, GROUP, MESSAGE, CHANGED = (
    f"strands.{name}" for name in ("session", "agent", "multi_agent", "message", "message_changed")
)


class RepositoryState(msgspec.Struct):
    """A session with the last state of each agent and group, and each message's last seq."""

    session: dict[str, Any] | None = None
    agents: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    messages: dict[str, dict[int, int]] = {}

    def add(self, record: LogRecord) -> None:
        payload = record.payload
        if record.type == SESSION:
            self.session = payload
        elif record.type == AGENT_STATE:
            self.agents[payload["agent_id"]] = payload
        elif record.type == GROUP:
            self.groups[payload["id"]] = payload["state"]
        else:
            numbers = self.messages.setdefault(payload["agent"], {})
            numbers[payload["message"]["message_id"]] = record.seq


class RunloreRepository(SessionRepository):
    """Sessions of Strands in a session store: a folder, or a server."""

    def __init__(self, store: SessionStore | str | os.PathLike[str] | None = None) -> None:
        self._sessions = OpenSessions(store, AGENT)

    def close(self) -> None:
        self._sessions.close()

    def create_session(self, session: Session, **_: Any) -> Session:
        id = session.session_id
        live = self._sessions.store.draft(id=_id(id), agent=AGENT, session=id)
        try:
            live.record(SESSION, session.to_dict())
        except Conflict:
            raise SessionException(f"Session {id} already exists") from None
        with self._sessions.lock:
            self._sessions.keep(live)
        return session

    def read_session(self, session_id: str, **_: Any) -> Session | None:
        with self._sessions.lock:
            stored = self._stored(session_id)
            return Session.from_dict(stored.session) if stored and stored.session else None

    def delete_session(self, session_id: str, **_: Any) -> None:
        """Delete a session for good."""
        with self._sessions.lock:
            if self._stored(session_id) is None:
                raise SessionException(f"Session {session_id} does not exist")
            self._sessions.delete(_id(session_id))

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        with self._sessions.lock:
            self._record(session_id, AGENT_STATE, session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **_: Any) -> SessionAgent | None:
        with self._sessions.lock:
            stored = self._stored(session_id)
            agent = stored.agents.get(agent_id) if stored else None
            return SessionAgent.from_dict(agent) if agent else None

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        before = self.read_agent(session_id, session_agent.agent_id)
        if before is None:
            raise SessionException(
                f"Agent {session_agent.agent_id} in session {session_id} does not exist"
            )
        session_agent.created_at = before.created_at
        self.create_agent(session_id, session_agent)

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        """Append a message. Raises SessionException when another one has its number already."""
        payload = {"agent": agent_id, "message": session_message.to_dict()}
        with self._sessions.lock:
            try:
                key = f"{session_message.message_id} {agent_id}"
                self._record(session_id, MESSAGE, payload, key)
            except Conflict:
                raise SessionException(
                    f"Message {session_message.message_id} of session {session_id} was written by"
                    " another process: open the session again"
                ) from None

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **_: Any
    ) -> SessionMessage | None:
        with self._sessions.lock:
            stored = self._stored(session_id)
            seq = stored.messages.get(agent_id, {}).get(message_id) if stored else None
            if seq is None:
                return None
            return SessionMessage.from_dict(self._live(session_id).find(seq).payload["message"])

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        before = self.read_message(session_id, agent_id, session_message.message_id)
        if before is None:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        session_message.created_at = before.created_at
        payload = {"agent": agent_id, "message": session_message.to_dict()}
        with self._sessions.lock:
            self._record(session_id, CHANGED, payload)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_: Any
    ) -> list[SessionMessage]:
        with self._sessions.lock:
            stored = self._stored(session_id)
            if stored is None or agent_id not in stored.agents:
                raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
            seqs = [seq for _, seq in sorted(stored.messages.get(agent_id, {}).items())]
            wanted = seqs[offset : None if limit is None else offset + limit]
            payloads = dict(_read(self._live(session_id), wanted))
            return [SessionMessage.from_dict(payloads[seq]["message"]) for seq in wanted]

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        payload = {"id": multi_agent.id, "state": multi_agent.serialize_state()}
        with self._sessions.lock:
            self._record(session_id, GROUP, payload)

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **_: Any
    ) -> dict[str, Any] | None:
        with self._sessions.lock:
            stored = self._stored(session_id)
            return stored.groups.get(multi_agent_id) if stored else None

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(
                f"MultiAgent state {multi_agent.id} in session {session_id} does not exist"
            )
        self.create_multi_agent(session_id, multi_agent)

    def _record(
        self, session_id: str, type: str, payload: dict[str, Any], key: str | None = None
    ) -> None:
        try:
            self._live(session_id).record(type, payload, key=key)
        except SessionNotFound:  # Deleted in this moment.
            raise SessionException(f"Session {session_id} does not exist") from None

    def _live(self, session_id: str) -> LiveSession:
        live = self._sessions.get(_id(session_id))
        if live is None:
            raise SessionException(f"Session {session_id} does not exist")
        return live

    def _stored(self, session_id: str) -> RepositoryState | None:
        live = self._sessions.get(_id(session_id))
        if live is None:
            return None
        return self._sessions.fold(live, AGENT, RepositoryState, ["strands."])


class RunloreSessionManager(RepositorySessionManager):
    """The session manager of one session. Give it to an agent."""

    def __init__(
        self, session_id: str, store: SessionStore | str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(session_id, RunloreRepository(store))

    def close(self) -> None:
        """Close what is open. It is opened again when it is needed."""
        self.session_repository.close()


def _id(session_id: str) -> str:
    return id_for("strands", session_id)


def _read(live: LiveSession, seqs: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the payloads of records, in one pass over the log from the first of them."""
    wanted = set(seqs)
    for record in live.records(min(wanted) - 1) if wanted else ():
        if record.seq in wanted:
            yield record.seq, record.payload
            wanted.remove(record.seq)
            if not wanted:
                return
