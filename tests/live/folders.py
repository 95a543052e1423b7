"""The log of a session in a folder, for tests of what only folders have: files and locks."""

from __future__ import annotations

from runlore.live import LiveSession
from runlore.live.folder.session_log import FolderLog


def log_of(session: LiveSession) -> FolderLog:
    assert isinstance(session.backend_log, FolderLog)
    return session.backend_log
