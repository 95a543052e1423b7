"""Helpers of the commands of `runlore live`: find the session and record, print messages."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ..errors import Ambiguous, InvalidId, SessionNotFound
from ..live.log import LiveSession, SessionStore
from ..text.words import count
from .output import echo, write_json


def opened(store: SessionStore, name: str, *, for_writing: bool = False) -> LiveSession:
    return store.open(resolve(store, name), readonly=not for_writing)


def resolve(store: SessionStore, name: str) -> str:
    """The id that is meant. Raises SessionNotFound or Ambiguous."""
    if name == "latest":
        latest = store.latest()
        if latest is None:
            raise SessionNotFound(f"there are no live sessions in {store.name}")
        return latest.id
    with suppress(InvalidId, SessionNotFound):
        store.open(name, readonly=True).close()
        return name
    found = [info.id for info in store.list() if info.id.startswith(name)] if name else []
    if not found:
        raise SessionNotFound(
            f"no live session begins with {name!r} in {store.name}; `runlore live ls` lists them"
        )
    if len(found) > 1:
        raise Ambiguous(
            f"{name} is the beginning of {count(len(found), 'live session')}:"
            f" {', '.join(sorted(found)[:5])}"
        )
    return found[0]


def record_name(text: str | None) -> int | str | None:
    """A short number is a seq; ids have 24 digits, all of which may be decimal."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 16 else text


def tell(value: Any, lines: Iterable[str], is_json: bool, form: str = "") -> None:
    if is_json:
        write_json(value, form)
        return
    for line in lines:
        echo(line)
