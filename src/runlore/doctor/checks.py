"""All checks, in the order in which they are made.

Each examines one thing that must be true of a store, and yields what is wrong. Its docstring states
that thing: `runlore doctor` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .event_checks import (
    check_bodies,
    check_copies,
    check_natives,
    check_owners,
    check_parents,
    check_segments,
)
from .exam import Exam, Finding
from .file_checks import check_file, check_index, check_privacy
from .source_checks import check_forgotten, check_lessons, check_records, check_sources
from .total_checks import check_digests, check_ledger, check_sessions, check_streams

CHECKS: dict[str, Callable[[Exam], Iterator[Finding]]] = {
    "file": check_file,
    "privacy": check_privacy,
    "owners": check_owners,
    "segments": check_segments,
    "bodies": check_bodies,
    "parents": check_parents,
    "copies": check_copies,
    "natives": check_natives,
    "streams": check_streams,
    "sessions": check_sessions,
    "ledger": check_ledger,
    "digests": check_digests,
    "sources": check_sources,
    "records": check_records,
    "forgotten": check_forgotten,
    "lessons": check_lessons,
    "index": check_index,
}
