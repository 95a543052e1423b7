"""runlore keeps every session your coding agents ever ran, and makes them readable for people and
programs.

What is in `__all__` is the public API; all else may change on any day. A name is imported when it
is first used, so `import runlore` costs next to nothing.

    import runlore

    with_errors = runlore.Filter(errors=True)
    store = runlore.open_store("~/.runlore/runlore.db", read_only=True)
    for line in store.sessions(with_errors, limit=10):
        print(line.uid, line.title)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__

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
        Conversation,
        LiveSession,
        SessionStore,
        should_compact,
    )
    from .model import (
        SCHEMA_VERSION,
        Call,
        Cost,
        LogRecord,
        Session,
        SessionEvent,
        Tests,
        Usage,
        is_evictable,
        make_uid,
    )
    from .pipeline import Progress, Report, sync
    from .store import Filter, SessionLine, Store, open_store
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
    "live": "AsyncSession AsyncSessionStore Conversation LiveSession SessionStore should_compact",
    "model": (
        "SCHEMA_VERSION Call Cost LogRecord Session SessionEvent Tests Usage is_evictable make_uid"
    ),
    "pipeline": "Progress Report sync",
    "store": "Filter SessionLine Store open_store",
    "timeline": (
        "Branch ContextEvent Node ToolCall Turn abandoned active branches cost_of is_prompt"
        " model_context nest pairs turns walk"
    ),
}

__all__ = [
    "Adapter",
    "Ambiguous",
    "AsyncSession",
    "AsyncSessionStore",
    "Branch",
    "Call",
    "CheckpointError",
    "Config",
    "ConfigError",
    "Conflict",
    "ContextEvent",
    "Conversation",
    "Cost",
    "Facts",
    "Filter",
    "IllegalTransition",
    "InvalidId",
    "LeaseLost",
    "LiveSession",
    "LogError",
    "LogRecord",
    "MissingField",
    "ModelError",
    "Node",
    "Normalized",
    "NotFound",
    "Position",
    "Progress",
    "ReadError",
    "Record",
    "Report",
    "RunloreError",
    "SCHEMA_VERSION",
    "Session",
    "SessionBusy",
    "SessionEvent",
    "SessionLine",
    "SessionNotFound",
    "SessionStore",
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
    "sync",
    "turns",
    "walk",
]


def __getattr__(name: str) -> object:
    if name == "load_config":
        return import_module(f"{__name__}.config").load
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
