"""The fold over the records of one source: which session it is, what a record is called, what it
follows. Knows JSON and no words."""

from __future__ import annotations

import os
from datetime import datetime
from hashlib import blake2b
from typing import Any, Unpack

import msgspec

from ... import model as api
from ...model import Relation, SessionEvent
from .. import Facts, Normalized, Source
from ..shared.fold import AllFields, keep
from ..shared.objects import REFUSALS, Objects, decode
from ..shared.pick import clean, moment, pick
from ..shared.tools import cap, one_line

CALLS, REPEATS = 256, 256  # That are remembered between two reads, the oldest going first.


class Call(msgspec.Struct, array_like=True, gc=False):
    """A call that was told."""

    id: str
    tool: str
    action: str
    is_test: bool = False


class State(msgspec.Struct, array_like=True):
    """Ids, names, paths and hashes; nothing that people wrote."""

    version: int = 0
    records: int = 0
    seq: int = 0
    session: str = ""
    last: str | None = None
    """The native id of the last event."""
    model: str | None = None
    provider: str | None = None
    cwd: str | None = None
    branch: str | None = None
    parent: str | None = None
    """The uid of the session that this one comes from."""
    relation: Relation | None = None
    is_titled: bool = False
    repeats: dict[bytes, int] = {}
    """How often which name was given."""


class Fold(Objects):
    """All that outlives a batch is in `state`; the rest is about the current record."""

    state: State

    def __init__(self, source: Source, state: State) -> None:
        super().__init__()
        self.flavor, self.state = source.agent, state
        self.folder, self.file = os.path.split(source.path)

    def about(self, name: str, value: dict[str, Any]) -> None:
        """What a file beside the source says."""

    def own_name(self) -> str:
        """The session's id when no record says it."""
        raise AssertionError("the fold of the kind of document has it")

    def aside(self, name: str, data: bytes) -> None:
        try:
            value = decode(data)
        except REFUSALS:
            return
        if isinstance(value, dict):
            self.about(name, value)

    def session(self, named: str | None = None) -> str:
        """The session of this source, once and for all."""
        if not self.state.session:
            self.state.session = clean(named or "") or clean(self.own_name()) or "unknown"
        return self.state.session

    def name(self, text: str | None, rank: int) -> None:
        """A title: 1 from a prompt, 2 of the agent's making."""
        if text and (line := one_line(text)) and rank >= self.title[1]:
            self.title = line, rank
            self.state.is_titled = True

    def comes_from(self, session: str, relation: Relation) -> None:
        if above := clean(session):
            self.state.parent, self.state.relation = self.uid(above), relation

    # Events.

    def identify(self, native: str) -> None:
        """Names the current record; a name that was given before gets a number."""
        repeats = self.state.repeats
        key = blake2b(native.encode("utf-8", "replace"), digest_size=8).digest()
        again = repeats.get(key, 0)
        keep(repeats, key, again + 1, REPEATS)
        self.native_id = f"{native}~{again + 1}" if again else native

    def anonymous(self) -> None:
        """Names a record that says no name: the same wherever the file is cut."""
        raw = self.raw.encode("utf-8", "replace") if isinstance(self.raw, str) else self.raw
        self.identify(f"{self.session()}/~{blake2b(raw, digest_size=8).hexdigest()}")

    def emit(
        self,
        kind: str,
        body: str,
        native: str,
        summary: str | None = None,
        role: str | None = None,
        tool: str | None = None,
        call_id: str | None = None,
        action: str | None = None,
        part: str | None = None,
        **more: Unpack[AllFields],
    ) -> str:
        """One event of the current record, with the name of the part it is; gives back its native
        id."""
        if not self.native_id:
            self.anonymous()
        self.room -= 1
        if self.room < 0:
            return self.native_id
        state, out = self.state, self.out
        part = part or (str(self.count) if self.count else "")
        native_id = f"{self.native_id}#{part}" if part else self.native_id
        body = cap(body)
        if state.relation == "subagent":
            more["is_sidechain"] = True
        out.events.append(
            SessionEvent(
                session_uid=self.uid(self.session()), seq=state.seq, ts=self.ts, kind=kind,
                role=role, tool=tool,
                summary=one_line(body if summary is None else summary), native_id=native_id,
                call_id=call_id, action=action,
                native=native, record=state.records - 1, **more,
            )
        )  # fmt: skip
        out.bodies.append(body)
        out.parents.append(state.last)
        out.originals.append(None)
        state.last = native_id
        state.seq += 1
        self.count += 1
        return native_id

    def bill(
        self,
        key: str,
        used: api.Usage,
        event: str,
        invoiced: int | None = None,
        is_sum: bool = False,
    ) -> None:
        state = self.state
        call = api.Call(
            key=key, session_uid=self.uid(self.session()), ts=self.ts, provider=state.provider,
            model=state.model,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
            is_sidechain=is_sum or state.relation == "subagent", is_sum=is_sum,
            invoiced=invoiced,
        )  # fmt: skip
        self.out.calls.append((call, event))

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        if state.records:
            session = self.session()
            out.facts[self.uid(session)] = Facts(
                native_session_id=session, title=self.title[0], title_rank=self.title[1],
                cwd=state.cwd, git_branch=state.branch,
                model=state.model, parent_uid=state.parent, relation=state.relation,
            )  # fmt: skip
        out.carry = msgspec.msgpack.encode(state)
        return out


def time_at(value: Any) -> datetime | None:
    """When a record was written, from milliseconds since 1970."""
    ms = pick(value, "ts", of=int) or pick(value, "timestamp", of=int) or 0
    return moment(ms / 1000) if 0 < ms < 1 << 53 else None
