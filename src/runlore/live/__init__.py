"""The live session log, for people who write agents: one append-only file for each session, and views of it.

`SessionStore` makes and opens sessions; a `LiveSession` appends records and gives the views: what the model should see
(`messages`), the state of the run (`state`), what skills did (`skills`). See docs/live.md.
"""

TYPE_CHECKING = False  # As in `typing`: importing a name costs what it needs, and nothing before.

if TYPE_CHECKING:
    from .aio import AsyncSession, AsyncSessionStore
    from .log import LiveSession, SessionStore
    from .views import Conversation, should_compact

_HOMES = {
    "aio": "AsyncSession AsyncSessionStore",
    "log": "LiveSession SessionStore",
    "views": "Conversation should_compact",
}

__all__ = ["AsyncSession", "AsyncSessionStore", "Conversation", "LiveSession", "SessionStore", "should_compact"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
