"""The fold over the records of one source: which session it is, what a record is called, what it
follows. Knows JSON and no words."""

from __future__ import annotations

import os
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from ... import model as api
from ...model import Relation
from .. import Facts, Normalized, Source
from ..shared.fold import REFUSALS, AllFields, Fold, decode, keep
from ..shared.pick import clean, moment, pick

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


S = TypeVar("S", bound=State)


class ClineFold(Fold[S]):
    """All that outlives a batch is in `state`; the rest is about the current record."""

    def __init__(self, source: Source, state: S) -> None:
        super().__init__(source, state)
        self.folder, self.file = os.path.split(source.path)

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        self.parent = self.state.last

    def about(self, name: str, value: dict[str, Any]) -> None:
        """Take in the content of a sidecar."""

    def own_name(self) -> str:
        """The session's id when no record says it."""
        raise AssertionError("the fold of the kind of document has it")

    def sidecar(self, name: str, data: bytes) -> None:
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

    def set_title(self, text: str | None, rank: int) -> bool:
        is_set = super().set_title(text, rank)
        self.state.is_titled = self.state.is_titled or is_set
        return is_set

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

    def new_id(self) -> str:
        """Name a record that has no name: the same wherever the file is cut."""
        stamp = blake2b(self.raw_bytes(), digest_size=8).hexdigest()
        self.identify(f"{self.session()}/~{stamp}")
        return self.native_id

    def stream(self) -> State:
        return self.state

    def stream_uid(self) -> str:
        return self.uid(self.session())

    def annotate(self, fields: AllFields) -> None:
        if self.state.relation == "subagent":
            fields["is_sidechain"] = True

    def bill(
        self,
        key: str,
        used: api.Usage,
        event: str,
        cost: Any = None,
        is_invoiced: bool = False,
        is_sum: bool = False,
    ) -> None:
        """Add a request to the ledger. `cost` is what the agent wrote that it cost, and
        `is_invoiced` True if the provider had told it."""
        state, recorded = self.state, api.to_units(cost)
        call = api.Call(
            key=key, session_uid=self.uid(self.session()), ts=self.ts, provider=state.provider,
            model=state.model,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
            is_sidechain=is_sum or state.relation == "subagent", is_sum=is_sum,
            invoiced=recorded if is_invoiced else None, recorded=recorded or None,
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
        return self.pack()


def time_at(value: Any) -> datetime | None:
    """Return the time of a record, from milliseconds since 1970."""
    ms = pick(value, "ts", of=int) or pick(value, "timestamp", of=int) or 0
    return moment(ms / 1000) if 0 < ms < 1 << 53 else None
