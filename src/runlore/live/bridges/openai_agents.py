"""OpenAI Agents SDK: a `Session` over the live log. Its items are the messages of a conversation.

    from runlore.live.bridges.openai_agents import RunloreSession

    await Runner.run(agent, "Hello", session=RunloreSession("user:42/chat", "./sessions"))

Nothing is lost when items are removed: `pop_item` and `clear_session` only change the view, and a
rewind of the live session brings them back. Needs the extra `openai-agents`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

from agents import SessionSettings, TResponseInputItem
from agents.memory.session import SessionABC
from agents.memory.session_settings import resolve_session_limit

from ..convert import from_openai_responses, to_openai_items
from ..log import LiveSession, SessionStore
from ..views import Message
from .sessions import OpenSessions

AGENT = "openai-agents"

T = TypeVar("T")


class RunloreSession(SessionABC):
    """The conversation of one session id, in a folder or on a server.

    Each item is one message of the live session, and comes back as it was given.
    """

    def __init__(
        self,
        session_id: str,
        store: SessionStore | str | os.PathLike[str] | None = None,
        *,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._sessions = OpenSessions(store, AGENT)

    @property
    def live(self) -> LiveSession:
        """The session in the log, to rewind, branch or search it."""
        with self._sessions.lock:
            return self._sessions.get(self.session_id) or self._sessions.ensure(self.session_id)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        last = resolve_session_limit(limit, self.session_settings)

        def read() -> list[TResponseInputItem]:
            live = self._sessions.get(self.session_id)
            return _items_of(_messages(live, last)) if live else []

        return await self._sessions.run(read)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all or none."""
        messages = [_message_of(item) for item in items]
        if messages:
            await self._in_thread(lambda live: live.append_many(messages))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item out of view and return it."""
        return await self._in_thread(_pop)

    async def clear_session(self) -> None:
        """Empty the view. The log keeps the items."""
        await self._in_thread(lambda live: live.clear() if live.has_begun else None)

    async def close(self) -> None:
        await asyncio.to_thread(self._sessions.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _in_thread(self, work: Callable[[LiveSession], T]) -> T:
        return await asyncio.to_thread(self._sessions.write, self.session_id, work)


def _message_of(item: TResponseInputItem) -> Message:
    (message,) = from_openai_responses([cast("dict[str, Any]", item)])
    return message


def _items_of(messages: list[Message]) -> list[TResponseInputItem]:
    items = [item for one in messages for item in to_openai_items(one)]
    return cast("list[TResponseInputItem]", items)


def _messages(live: LiveSession, last: int | None) -> list[Message]:
    if last is not None and last <= 0:
        return []
    return live.messages(last=last, repaired=False, partial=False)


def _pop(live: LiveSession) -> TResponseInputItem | None:
    entries = live.conversation(repaired=False, partial=False).entries
    if not entries:
        return None
    last = entries[-1]
    assert last.record is not None, "a message of this bridge has a record"
    live.rewind(before=last.record)
    return _items_of([last.message])[-1]
