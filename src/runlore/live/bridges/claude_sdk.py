"""Claude Agent SDK: a `SessionStore` over the live log. A transcript is a session.

    from runlore.live.bridges.claude_sdk import RunloreSessionStore

    options = ClaudeAgentOptions(session_store=RunloreSessionStore("./sessions"))

A subagent's transcript is a session of its own, whose parent is the main one. Needs the extra
`claude-agent-sdk`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import msgspec
from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)
from claude_agent_sdk import SessionStore as SessionStoreProtocol

from ...errors import Conflict
from ...model import LogRecord
from ..backend import SessionInfo
from ..log import LiveSession, SessionStore
from .sessions import OpenSessions, id_for

AGENT = "claude-agent-sdk"
ENTRY = "claude_sdk.entry"
NO_KEY: SessionKey = {"project_key": "", "session_id": ""}


class Summary(msgspec.Struct):
    """The SDK's own summary of a transcript."""

    entry: dict[str, Any] | None = None

    def add(self, record: LogRecord) -> None:
        entries = [cast("SessionStoreEntry", record.payload)]
        before = cast("SessionSummaryEntry | None", self.entry)
        self.entry = dict(fold_session_summary(before, NO_KEY, entries))


class RunloreSessionStore(SessionStoreProtocol):
    """Transcripts of the Claude Agent SDK in a session store: a folder, or a server."""

    def __init__(self, store: SessionStore | str | os.PathLike[str] | None = None) -> None:
        self._sessions = OpenSessions(store, AGENT)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries. One whose uuid is there already is not appended again."""
        if entries:
            await self._sessions.run(lambda: self._append(key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await self._sessions.run(lambda: self._load(key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return await self._sessions.run(
            lambda: [
                {"session_id": info.extra["session"], "mtime": _mtime(info)}
                for info in self._infos(project=project_key, subpath=None)
            ]
        )

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        return await self._sessions.run(lambda: list(self._summaries(project_key)))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        infos = await self._sessions.run(lambda: self._subsessions(key))
        return [info.extra["subpath"] for info in infos]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript for good; a main one with those of its subagents."""
        await self._sessions.run(lambda: self._delete(key))

    async def close(self) -> None:
        await self._sessions.run(self._sessions.close)

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        items = [(ENTRY, cast("dict[str, Any]", entry), _uuid(entry)) for entry in entries]

        def write(live: LiveSession) -> None:
            try:
                live.record_many(items)
            except Conflict:  # An entry comes again, changed. The first one counts.
                for kind, payload, uuid in items:
                    with suppress(Conflict):
                        live.record(kind, payload, key=uuid)

        about = {"project": key["project_key"], "session": key["session_id"]}
        if subpath := key.get("subpath"):
            parent = _id({"project_key": key["project_key"], "session_id": key["session_id"]})
            self._sessions.write(_id(key), write, **about, subpath=subpath, parent=parent)
        else:
            self._sessions.write(_id(key), write, **about)

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        live = self._sessions.get(_id(key))
        if live is None or not live.has_begun:
            return None
        entries: list[Any] = [one.payload for one in live.records() if one.type == ENTRY]
        return entries

    def _summaries(self, project: str) -> Iterator[SessionSummaryEntry]:
        for info in self._infos(project=project, subpath=None):
            live = self._sessions.get(info.id)
            summary = self._sessions.fold(live, "summary", Summary, [ENTRY]).entry if live else None
            if summary is not None:
                yield {
                    "session_id": info.extra["session"],
                    "mtime": _mtime(info),
                    "data": summary["data"],
                }

    def _delete(self, key: SessionKey) -> None:
        subsessions = [] if key.get("subpath") else self._subsessions(key)
        for id in [*(info.id for info in subsessions), _id(key)]:
            self._sessions.delete(id)

    def _subsessions(self, key: SessionKey | SessionListSubkeysKey) -> list[SessionInfo]:
        infos = self._infos(project=key["project_key"], session=key["session_id"])
        return [info for info in infos if "subpath" in info.extra]

    def _infos(self, **where: str | None) -> list[SessionInfo]:
        return self._sessions.store.list(agent=AGENT, where=where)


def _id(key: SessionKey) -> str:
    subpath = key.get("subpath")
    return id_for(AGENT, key["project_key"], key["session_id"], *([subpath] if subpath else []))


def _uuid(entry: SessionStoreEntry) -> str | None:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else None


def _mtime(info: SessionInfo) -> int:
    return int(info.updated_at.timestamp() * 1000)
