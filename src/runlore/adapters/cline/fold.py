"""The base of the folds over Cline's documents: ids of sessions and records, sidecars, the ledger.

Knows the documents, and not what their words mean.
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from ... import model as api
from ...model import Relation
from ..shared import stream
from ..shared.fold import REFUSALS, decode, keep
from ..shared.pick import clean, moment, pick
from ..shared.stream import REPEATS, SessionFold

CALLS = 256
"""Calls that are remembered between two reads; the oldest go first."""


class Call(msgspec.Struct, array_like=True, gc=False):
    """A call without a result yet."""

    id: str
    tool: str
    action: str
    is_test: bool = False


class State(stream.State):
    """The state of a session, with the provider of its model."""

    provider: str | None = None


S = TypeVar("S", bound=State)


class ClineFold(SessionFold[S]):
    """The fold over the documents of one session. `identify` numbers records with equal names."""

    def about(self, name: str, value: dict[str, Any]) -> None:
        """Take in the content of a sidecar."""

    @abstractmethod
    def own_name(self) -> str:
        """Return the session's id where no record has it."""

    def sidecar(self, name: str, data: bytes) -> None:
        try:
            value = decode(data)
        except REFUSALS:
            return
        if isinstance(value, dict):
            self.about(name, value)

    def session(self, named: str | None = None) -> str:
        """Return the id of the source's session, which is set once."""
        if not self.state.session:
            self.state.session = clean(named or "") or clean(self.own_name()) or "unknown"
        return self.state.session

    def comes_from(self, session: str, relation: Relation) -> None:
        if above := clean(session):
            self.state.parent, self.state.relation = self.uid(above), relation

    # Events.

    def identify(self, native: str) -> None:
        """Name the current record; a name that is in use gets a number."""
        repeats = self.state.repeats
        key = blake2b(native.encode("utf-8", "replace"), digest_size=8).digest()
        again = repeats.get(key, 0)
        keep(repeats, key, again + 1, REPEATS)
        self.native_id = f"{native}~{again + 1}" if again else native

    def new_id(self) -> str:
        """Return an id for a record that has none: the same wherever the file is cut."""
        stamp = blake2b(self.raw_bytes(), digest_size=8).hexdigest()
        self.identify(f"{self.session()}/~{stamp}")
        return self.native_id

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


def time_at(value: Any) -> datetime | None:
    """Return the time of a record, from milliseconds since 1970."""
    ms = pick(value, "ts", of=int) or pick(value, "timestamp", of=int) or 0
    return moment(ms / 1000) if 0 < ms < 1 << 53 else None
