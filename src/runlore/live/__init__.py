"""The live session log for people who write agents: one append-only file per session.

`SessionStore` creates and opens sessions. A `LiveSession` appends records and offers three views of
them: the messages for the model (`messages`), the state of the run (`state`) and the skills that
were run (`skills`). See docs/live.md.

The names in `__all__` are the public API, with `convert` and `importers`.
"""

from . import convert, importers
from .aio import AsyncFold, AsyncSession, AsyncSessionStore, AsyncStream
from .backend import Problem, SessionInfo
from .checkpoints import Checkpoints, Difference
from .folds import Fold, View
from .importers import Imported, import_all, import_log, read_chat, read_skills, read_state
from .latest import Branch
from .liveness import Owner, Stale
from .log import LiveSession, SessionStore
from .run import SessionMetrics, SessionProgress, SessionResult, SessionState, SessionTimestamps
from .run import Status as SessionStatus
from .run_log import Transition
from .run_records import Checkpoint
from .shared import SharedValues
from .skill_fold import Check, SkillAttempt, SkillEntry
from .skill_rates import Rate
from .skills import SkillLog, SkillRun
from .state import StateHandle
from .streams import Stream
from .tool_calls import Recovery
from .views import Conversation, Entry, ToolCall, should_compact

__all__ = [
    "AsyncFold",
    "AsyncSession",
    "AsyncSessionStore",
    "AsyncStream",
    "Branch",
    "Check",
    "Checkpoint",
    "Checkpoints",
    "Conversation",
    "Difference",
    "Entry",
    "Fold",
    "Imported",
    "LiveSession",
    "Owner",
    "Problem",
    "Rate",
    "Recovery",
    "SessionInfo",
    "SessionMetrics",
    "SessionProgress",
    "SessionResult",
    "SessionState",
    "SessionStatus",
    "SessionStore",
    "SessionTimestamps",
    "SharedValues",
    "SkillAttempt",
    "SkillEntry",
    "SkillLog",
    "SkillRun",
    "Stale",
    "StateHandle",
    "Stream",
    "ToolCall",
    "Transition",
    "View",
    "convert",
    "import_all",
    "import_log",
    "importers",
    "read_chat",
    "read_skills",
    "read_state",
    "should_compact",
]
