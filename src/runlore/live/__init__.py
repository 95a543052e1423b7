"""The live session log for people who write agents: one append-only file per session.

`SessionStore` creates and opens sessions. A `LiveSession` appends records and offers three views of
them: the messages for the model (`messages`), the state of the run (`state`) and the skills that
were run (`skills`). See docs/live.md.
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
