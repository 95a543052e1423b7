"""runlore keeps every session your coding agents ever ran, and makes them readable for people and
programs.

The names in `__all__` are the public API; everything else may change at any time. A name is
imported when it is first used, so `import runlore` is cheap.

    import runlore

    with_errors = runlore.Filter(errors=True)
    store = runlore.open_store("~/.runlore/runlore.db", read_only=True)
    for line in store.sessions.select(with_errors, limit=10):
        print(line.uid, line.title)
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .adapters import Adapter, Facts, Normalized, Position, Record, Skip, Source
    from .config import Config
    from .config import load as load_config
    from .errors import (
        Ambiguous,
        CheckpointError,
        ConfigError,
        Conflict,
        IllegalTransition,
        InvalidId,
        LeaseLost,
        LogError,
        MissingField,
        ModelError,
        NotFound,
        ReadError,
        RunloreError,
        SessionBusy,
        SessionNotFound,
        StoreBusy,
        StoreError,
        StoreMissing,
        StoreTooNew,
        StoreTooOld,
    )  # fmt: skip
    from .live import (
        AsyncSession,
        AsyncSessionStore,
        Checkpoint,
        Conversation,
        LiveSession,
        Recovery,
        SessionInfo,
        SessionState,
        SessionStatus,
        SessionStore,
        SkillAttempt,
        SkillEntry,
        should_compact,
    )
    from .model import (
        KINDS,
        OUTCOMES,
        SCHEMA_VERSION,
        Call,
        Cost,
        Digest,
        LogRecord,
        Session,
        SessionEvent,
        Tests,
        Usage,
        is_evictable,
        make_uid,
    )
    from .store import Filter, SessionLine, Store, open_store
    from .sync.pipeline import Progress, Report
    from .sync.pipeline import sync as sync_store
    from .timeline import (
        Branch,
        ContextEvent,
        Node,
        ToolCall,
        Turn,
        abandoned,
        active,
        branches,
        cost_of,
        is_prompt,
        model_context,
        nest,
        pairs,
        turns,
        walk,
    )  # fmt: skip

_HOMES = {
    "adapters": "Adapter Facts Normalized Position Record Skip Source",
    "config": "Config",
    "errors": (
        "Ambiguous CheckpointError ConfigError Conflict IllegalTransition InvalidId LeaseLost"
        " LogError MissingField ModelError NotFound ReadError RunloreError SessionBusy"
        " SessionNotFound StoreBusy StoreError StoreMissing StoreTooNew StoreTooOld"
    ),
    "live": (
        "AsyncSession AsyncSessionStore Checkpoint Conversation LiveSession Recovery SessionInfo"
        " SessionState SessionStatus SessionStore SkillAttempt SkillEntry should_compact"
    ),
    "model": (
        "KINDS OUTCOMES SCHEMA_VERSION Call Cost Digest LogRecord Session SessionEvent Tests Usage"
        " is_evictable make_uid"
    ),
    "store": "Filter SessionLine Store open_store",
    "sync.pipeline": "Progress Report",
    "timeline": (
        "Branch ContextEvent Node ToolCall Turn abandoned active branches cost_of is_prompt"
        " model_context nest pairs turns walk"
    ),
}

_RENAMED = {"load_config": ("config", "load"), "sync_store": ("sync.pipeline", "sync")}
"""Names that would be unclear here, or that a room has: where they are, and their name there."""

__all__ = [
    "Adapter",
    "Ambiguous",
    "AsyncSession",
    "AsyncSessionStore",
    "Branch",
    "Call",
    "Checkpoint",
    "CheckpointError",
    "Config",
    "ConfigError",
    "Conflict",
    "ContextEvent",
    "Conversation",
    "Cost",
    "Digest",
    "Facts",
    "Filter",
    "IllegalTransition",
    "InvalidId",
    "KINDS",
    "LeaseLost",
    "LiveSession",
    "LogError",
    "LogRecord",
    "MissingField",
    "ModelError",
    "Node",
    "Normalized",
    "NotFound",
    "OUTCOMES",
    "Position",
    "Progress",
    "ReadError",
    "Record",
    "Recovery",
    "Report",
    "RunloreError",
    "SCHEMA_VERSION",
    "Session",
    "SessionBusy",
    "SessionEvent",
    "SessionInfo",
    "SessionLine",
    "SessionNotFound",
    "SessionState",
    "SessionStatus",
    "SessionStore",
    "SkillAttempt",
    "SkillEntry",
    "Skip",
    "Source",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreMissing",
    "StoreTooNew",
    "StoreTooOld",
    "Tests",
    "ToolCall",
    "Turn",
    "Usage",
    "__version__",
    "abandoned",
    "active",
    "branches",
    "cost_of",
    "is_evictable",
    "is_prompt",
    "load_config",
    "make_uid",
    "model_context",
    "nest",
    "open_store",
    "pairs",
    "should_compact",
    "sync_store",
    "turns",
    "walk",
]


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        home, original = _RENAMED[name]
        return getattr(import_module(f"{__name__}.{home}"), original)
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
