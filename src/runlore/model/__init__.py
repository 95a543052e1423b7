"""Values: what a session is, what happened in it, what it cost, and what stays of it.

`Session` and `Cost` are in `session`, `SessionEvent` in `events`, `Call` and `Usage` in `calls`,
`Digest` with its parts in `digest`, `LogRecord` in `log`. Nothing here reads a file, opens a
database or knows an agent's name. All are frozen. `Session`, `Cost`, `SessionEvent` and `Digest`
are `Value`s: they check themselves when they are built, so an invalid one cannot exist, and a field
of a newer runlore that this one does not know is kept in `extra` and written back. Their parts, and
`Call`, are plain structs.
"""

from .calls import MAX_TOKENS, MAX_UNITS, Call, Tier, Usage, split_cache_writes, to_units
from .digest import (
    DIGEST_VERSION,
    FINGERPRINT_VERSION,
    MIN_SHOWN_CONFIDENCE,
    CommandRun,
    Commit,
    Covers,
    Digest,
    ErrorSummary,
    FileActivity,
    Fix,
    FixKind,
    Moment,
    RequestedLesson,
    Signature,
    SlowCommand,
    Step,
    TestRun,
    Trend,
    describe_how,
)
from .events import (
    BLOCK,
    CALL_KINDS,
    KINDS,
    SUMMARY_LENGTH,
    Kind,
    SessionEvent,
    Tests,
    View,
    is_injected,
    is_own,
    shorten,
)
from .log import LogRecord
from .session import (
    OUTCOMES,
    RELATIONS,
    SCHEMA_VERSION,
    Cost,
    Outcome,
    Relation,
    Session,
    is_evictable,
    make_uid,
)
from .units import USD, format_time, parse_time
from .value import Value

__all__ = [
    "BLOCK",
    "CALL_KINDS",
    "Call",
    "CommandRun",
    "Commit",
    "Cost",
    "Covers",
    "DIGEST_VERSION",
    "Digest",
    "ErrorSummary",
    "FINGERPRINT_VERSION",
    "FileActivity",
    "Fix",
    "FixKind",
    "KINDS",
    "Kind",
    "LogRecord",
    "MAX_TOKENS",
    "MAX_UNITS",
    "MIN_SHOWN_CONFIDENCE",
    "Moment",
    "OUTCOMES",
    "Outcome",
    "RELATIONS",
    "Relation",
    "RequestedLesson",
    "SCHEMA_VERSION",
    "SUMMARY_LENGTH",
    "Session",
    "SessionEvent",
    "Signature",
    "SlowCommand",
    "Step",
    "TestRun",
    "Tests",
    "Tier",
    "Trend",
    "USD",
    "Usage",
    "Value",
    "View",
    "describe_how",
    "format_time",
    "is_evictable",
    "is_injected",
    "is_own",
    "make_uid",
    "parse_time",
    "shorten",
    "split_cache_writes",
    "to_units",
]
