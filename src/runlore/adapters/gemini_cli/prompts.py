"""`logs.json`: what was typed in the sessions of a project. Told are those of the time when
sessions had no files of their own.

A later session without a file had one, and the agent has deleted it: what was typed in it is stored
already.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...model import SessionEvent
from .. import Facts, Normalized, Record, Skip, Source
from ..shared.fold import keep, load
from ..shared.jsonl import parse
from ..shared.pick import clean, number, pick, time_of
from ..shared.tools import cap, one_line
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


class Prompts:
    def __init__(self, source: Source, carry: bytes | None) -> None:
        self.flavor = source.agent
        self.known = {
            hint.removeprefix("known:") for hint in source.hints if hint.startswith("known:")
        }
        self.state = load(carry, State, CARRY)
        self.out = Normalized()

    def run(self, records: Iterable[Record]) -> Normalized:
        for record in records:
            if record.aside is not None:
                self.state.cwd = record.data.decode("utf-8", "replace").strip()[:4096] or None
                continue
            self.state.records += 1
            values = [] if record.problem else parse(record.data)
            if not values:
                self.skip(record, record.problem or "empty")
            for value, _, problem in values:
                if isinstance(value, dict):
                    self.entry(value, record)
                else:
                    self.skip(record, problem or "not an object")
        self.out.carry = msgspec.msgpack.encode(self.state)
        return self.out

    def skip(self, record: Record, reason: str) -> None:
        self.out.skips.append(Skip(record.offset, reason))

    def entry(self, value: dict[str, Any], record: Record) -> None:
        session, text = (
            clean(pick(value, "sessionId", of=str) or ""),
            pick(value, "message", of=str),
        )
        moment = time_of(value.get("timestamp"))
        if session[:8] in self.known or (moment is not None and moment >= LAST):
            self.out.merged["in its own file"] = self.out.merged.get("in its own file", 0) + 1
            return
        if not text:
            self.skip(record, "a prompt without words")
            return
        thread = self.state.sessions.get(session or "unknown") or Thread()
        keep(self.state.sessions, session or "unknown", thread, SESSIONS)
        self.tell(session or "unknown", thread, text, value)

    def tell(self, session: str, thread: Thread, text: str, value: dict[str, Any]) -> None:
        out, uid = self.out, f"{self.flavor}:{session}"
        place = number(value.get("messageId"))
        native_id = (
            f"{session}/log/{thread.seq if place is None else place}-{words.stamp(text).hex()}"
        )
        is_command = words.is_command(text)
        title = None if is_command or thread.is_titled else one_line(text)
        out.events.append(
            SessionEvent(
                session_uid=uid, seq=thread.seq, ts=time_of(value.get("timestamp")), role="user",
                kind="human_intervention" if is_command else "user_msg", summary=one_line(text),
                native_id=native_id,
                native="slash_command" if is_command else "log", record=self.state.records - 1,
            )
        )  # fmt: skip
        out.bodies.append(cap(text))
        out.parents.append(thread.last)
        out.originals.append(None)
        thread.seq, thread.last, thread.is_titled = (
            thread.seq + 1,
            native_id,
            thread.is_titled or title is not None,
        )
        before = out.facts.get(uid)
        title = title or (before.title if before else None)
        out.facts[uid] = Facts(
            native_session_id=session,
            title=title,
            title_rank=1 if title else 0,
            cwd=self.state.cwd,
            spare=1,
        )
