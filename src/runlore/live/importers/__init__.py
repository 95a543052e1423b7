"""Readers of logs in older formats, and their import into a session store.

    store = SessionStore("sessions")
    result = import_log(Path("~/old/sessions/6bc772e1").expanduser(), store)
    store.open(result.session_id).messages()

Three formats are read: conversations (`chats`), skill logs (`skills`) and run states
(`sessions.read_state`). `read_chat`, `read_skills` and `read_state` need no store. A second import
adds only what is new. The imported files are never written to.
"""

from .chats import Chat, Step, find_chats, is_chat, read_chat
from .lines import Problem
from .sessions import (
    Imported,
    import_all,
    import_chat,
    import_log,
    import_skills,
    import_state,
    read_state,
    to_message,
)
from .skills import SkillFile, read_skills

__all__ = [
    "Chat",
    "Imported",
    "Problem",
    "SkillFile",
    "Step",
    "find_chats",
    "import_all",
    "import_chat",
    "import_log",
    "import_skills",
    "import_state",
    "is_chat",
    "read_chat",
    "read_skills",
    "read_state",
    "to_message",
]
