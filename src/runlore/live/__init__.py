"""The live session log, for people who write agents: one append-only file for each session, and
views of it.

`SessionStore` makes and opens sessions; a `LiveSession` appends records and gives the views: what
the model should see (`messages`), the state of the run (`state`), what skills did (`skills`). See
docs/live.md.
"""

from .aio import AsyncSession, AsyncSessionStore
from .log import LiveSession, SessionStore
from .views import Conversation, should_compact

__all__ = [
    "AsyncSession",
    "AsyncSessionStore",
    "Conversation",
    "LiveSession",
    "SessionStore",
    "should_compact",
]
