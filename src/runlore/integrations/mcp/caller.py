"""The session that calls a tool, as far as its agent says: the protocol does not name it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ... import adapters

MAX_ID_CHARS = 80


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    session: str
    """The agent's own id of it."""

    @property
    def uid(self) -> str:
        return f"{self.agent}:{self.session}"


def find_caller(meta: Mapping[str, object], env: Mapping[str, str]) -> Caller | None:
    """Return the session that makes a call, given the call's `_meta` and the environment.

    None if its agent does not say which it is.
    """
    for name, adapter in adapters.load().items():
        integration = adapter.integration()
        find_session = integration.find_session if integration else None
        session = find_session(meta, env) if find_session else None
        if isinstance(session, str) and session:
            return Caller(agent=name, session=session[:MAX_ID_CHARS])
    return None
