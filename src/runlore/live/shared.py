"""Values that several sessions share: those of an app, and those of one of its users.

They are a log of their own in the same store, which is not listed as a session. A session that was
created with the metadata `app` (and `user`) reads and writes them under names that begin with
`app:` and `user:`; names that begin with `temp:` are never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from ..errors import LogError
from ..model import LogRecord
from .names import SHARED

if TYPE_CHECKING:
    from .log import SessionStore
    from .session import LiveSession

TYPE = "values"
APP, USER, TEMPORARY = "app:", "user:", "temp:"


class Values(msgspec.Struct):
    """The view: the last value of each name."""

    values: dict[str, Any] = {}

    def add(self, record: LogRecord) -> None:
        changed, gone = record.payload.get("set"), record.payload.get("delete")
        if isinstance(changed, dict):
            self.values.update(changed)
        for name in gone if isinstance(gone, list) else ():
            self.values.pop(name, None)


class SharedValues:
    """Named values in a log. Any number of processes may change them; the last change counts."""

    def __init__(self, session: LiveSession) -> None:
        self.session = session
        self._fold = session.fold(TYPE, Values, types=[TYPE])

    def values(self) -> dict[str, Any]:
        return dict(self._fold.value.values)

    def put(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        delete: Iterable[str] = (),
        key: str | None = None,
    ) -> LogRecord:
        """Set some values and delete others, in one record."""
        payload: dict[str, Any] = {"set": dict(values or {})}
        if gone := list(delete):
            payload["delete"] = gone
        return self.session.record(TYPE, payload, key=key)

    def close(self) -> None:
        self.session.close()


class SessionValues:
    """The values of one session, and those that it shares."""

    def __init__(self, session: LiveSession, store: SessionStore) -> None:
        self._session = session
        self._store = store
        self._shared: dict[str, SharedValues] = {}

    def put(self, values: Mapping[str, Any], delete: Iterable[str]) -> None:
        changed: dict[str | None, tuple[dict[str, Any], list[str]]] = {}
        about = self._session.meta.extra
        for name, value in values.items():
            if not name.startswith(TEMPORARY):
                changed.setdefault(scope_of(name, about), ({}, []))[0][name] = value
        for name in delete:
            changed.setdefault(scope_of(name, about), ({}, []))[1].append(name)
        for scope, (new, gone) in changed.items():
            if scope is None:
                self._session.state.put(new, delete=gone)
            else:
                self._of(scope).put(new, delete=gone)

    def all(self) -> dict[str, Any]:
        merged = dict(self._session.state.current.data_buffer)
        for scope in scopes(self._session.meta.extra).values():
            merged.update(self._of(scope).values())
        return merged

    def close(self) -> None:
        for shared in self._shared.values():
            shared.close()

    def _of(self, scope: str) -> SharedValues:
        if scope not in self._shared:
            self._shared[scope] = self._store.shared(scope)
        return self._shared[scope]


def shared_id(scope: str) -> str:
    """Return the id of the log with the shared values of a scope, such as `app:weather`."""
    return f"{SHARED}{scope}"


def scope_of(name: str, about: Mapping[str, Any]) -> str | None:
    """Return the scope that a value's name belongs to; None for a value of the session itself.

    Raises LogError when the session's metadata does not say which app or user that is.
    """
    prefix = next((one for one in (APP, USER) if name.startswith(one)), None)
    if prefix is None:
        return None
    scope = scopes(about).get(prefix)
    if scope is None:
        needed = "app" if prefix == APP else "app and user"
        raise LogError(f"{name}: the session was created without the metadata {needed}")
    return scope


def scopes(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the scope for each prefix, from the metadata of a session.

    A slash in a name is encoded, so that different users never have the same scope.
    """
    app, user = about.get("app"), about.get("user")
    known = {}
    if isinstance(app, str) and app:
        known[APP] = f"app:{quote(app, safe='')}"
        if isinstance(user, str) and user:
            known[USER] = f"user:{quote(app, safe='')}/{quote(user, safe='')}"
    return known
