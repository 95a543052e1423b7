"""runlore keeps every session your coding agents ever ran, and makes them readable for people and programs.

What is in `__all__` is the public API; all else may change on any day. A name is imported when it is first used, so
`import runlore` costs next to nothing.

    import runlore

    with_errors = runlore.Filter(errors=True)
    store = runlore.open_store("~/.runlore/runlore.db", read_only=True)
    for line in store.sessions(with_errors, limit=10):
        print(line.uid, line.title)
"""

from ._version import __version__

TYPE_CHECKING = False  # As in `typing`, whose import would take half as long as starting Python.

if TYPE_CHECKING:
    from .adapters import Adapter, Facts, Normalized, Position, Record, Skip, Source
    from .config import Config
    from .config import load as load_config
    from .errors import (
        Ambiguous,
        ConfigError,
        MissingField,
        ModelError,
        NotFound,
        ReadError,
        RunloreError,
        StoreBusy,
        StoreError,
        StoreTooNew,
    )  # fmt: skip
    from .model import SCHEMA_VERSION, Cost, Session, SessionEvent, Tests, Usage, is_evictable, make_uid
    from .pipeline import Progress, Report, sync
    from .store import Filter, SessionLine, Store, open_store
    from .timeline import (
        Branch,
        Call,
        Node,
        Seen,
        Turn,
        abandoned,
        active,
        branches,
        cost_of,
        is_prompt,
        nest,
        pairs,
        seen_by_model,
        turns,
        walk,
    )  # fmt: skip

_HOMES = {
    "adapters": "Adapter Facts Normalized Position Record Skip Source",
    "config": "Config",
    "errors": "Ambiguous ConfigError MissingField ModelError NotFound ReadError RunloreError StoreBusy StoreError StoreTooNew",
    "model": "SCHEMA_VERSION Cost Session SessionEvent Tests Usage is_evictable make_uid",
    "pipeline": "Progress Report sync",
    "store": "Filter SessionLine Store open_store",
    "timeline": "Branch Call Node Seen Turn abandoned active branches cost_of is_prompt nest pairs seen_by_model turns walk",
}

__all__ = [
    "Adapter",
    "Ambiguous",
    "Branch",
    "Call",
    "Config",
    "ConfigError",
    "Cost",
    "Facts",
    "Filter",
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
    "Seen",
    "Session",
    "SessionEvent",
    "SessionLine",
    "Skip",
    "Source",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreTooNew",
    "Tests",
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
    "nest",
    "open_store",
    "pairs",
    "seen_by_model",
    "sync",
    "turns",
    "walk",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "load_config":
        return import_module(f"{__name__}.config").load
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
