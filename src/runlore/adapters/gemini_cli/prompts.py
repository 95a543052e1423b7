"""`logs.json`: what was typed in the sessions of a project. Told are those of the time when
sessions had no files of their own.

A later session without a file had one, and the agent has deleted it: what was typed in it is stored
already.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from .. import Facts, Source
from ..shared.fold import Fold, keep, load
from ..shared.pick import clean, number, pick, time_of
from ..shared.tools import title_line
from . import words

CARRY = 1
SESSIONS = 2048
LAST = datetime(2025, 10, 1, tzinfo=UTC)
"""Sessions have files since 2025-08; who had not updated by now is counted, and not told."""


class Thread(msgspec.Struct, array_like=True):
    seq: int = 0
    last: str | None = None
    is_titled: bool = False


class State(msgspec.Struct, array_like=True):
    version: int = CARRY
    records: int = 0
    cwd: str | None = None
    sessions: dict[str, Thread] = {}


class Prompts(Fold[State]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, State, CARRY))
        self.known = {
            hint.removeprefix("known:") for hint in source.hints if hint.startswith("known:")
        }
        self.session, self.thread = "unknown", Thread()

    def sidecar(self, name: str, data: bytes) -> None:
        self.state.cwd = data.decode("utf-8", "replace").strip()[:4096] or None

    def blank(self, data: bytes) -> None:
        self.skip("empty")

    def strange(self, text: str, reason: str, native: str = "malformed") -> None:
        self.skip(reason)

    def stream(self) -> Thread:
        return self.thread

    def stream_uid(self) -> str:
        return self.uid(self.session)

    def line(self, value: dict[str, Any]) -> None:
        session, text = (
            clean(pick(value, "sessionId", of=str) or ""),
            pick(value, "message", of=str),
        )
        moment = time_of(value.get("timestamp"))
        if session[:8] in self.known or (moment is not None and moment >= LAST):
            self.merge("in its own file")
            return
        if not text:
            self.skip("a prompt without words")
            return
        self.session = session or "unknown"
        self.thread = self.state.sessions.get(self.session) or Thread()
        keep(self.state.sessions, self.session, self.thread, SESSIONS)
        self.ts, self.parent = moment, self.thread.last
        self.prompt(text, number(value.get("messageId")))

    def prompt(self, text: str, place: int | None) -> None:
        """Add what was typed, and the session that it belongs to."""
        thread, uid = self.thread, self.stream_uid()
        place = thread.seq if place is None else place
        is_command = words.is_command(text)
        self.native_id = f"{self.session}/log/{place}-{words.stamp(text).hex()}"
        self.emit(
            "human_intervention" if is_command else "user_msg",
            text,
            "slash_command" if is_command else "log",
            role="user",
        )
        before = self.out.facts.get(uid)
        title = None if is_command or thread.is_titled else title_line(text, 1)
        thread.is_titled = thread.is_titled or bool(title)
        title = title or (before.title if before else None)
        self.out.facts[uid] = Facts(
            native_session_id=self.session,
            title=title,
            title_rank=1 if title else 0,
            cwd=self.state.cwd,
            rank=1,
        )
