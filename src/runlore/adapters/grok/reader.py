"""The meaning of the records of a session's files: of its updates, its history, or its
telemetry."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .. import Normalized, Record, Source
from . import HISTORY, TELEMETRY
from .chat import Chat
from .events import Events
from .updates import Updates


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    name = os.path.basename(source.path)
    fold = Chat if name == HISTORY else Events if name == TELEMETRY else Updates
    return fold(source, carry).run(records)
