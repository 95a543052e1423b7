"""One record of a live session log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .value import Plain


class LogRecord(
    Plain,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,  # Logs are loaded by the ten thousand records, and a record never refers to itself.
    rename={
        "seq": "n",
        "id": "i",
        "ts": "d",
        "type": "t",
        "key": "k",
        "epoch": "e",
        "payload": "p",
    },
):
    """One record of a live session log.

    On disk the names are single letters, because a log is mostly payload. `seq` counts from 0
    without gaps over everything in the session, and is the only order; `ts` is the time by the
    writer's clock. `id` is 24 hex digits that grow with `seq`, unique over all sessions except for
    the records that a fork copied. `type` is an open set: unknown types are kept and returned.
    `key` is the writer's own, for appends that may be retried; `epoch` names the exclusive lease
    under which the record was written.
    """

    seq: int
    id: str
    ts: datetime
    type: str
    key: str | None = None
    epoch: int | None = None
    payload: dict[str, Any]
