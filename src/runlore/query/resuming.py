"""The command with which an agent resumes a session, and how one types it in a shell."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from subprocess import list2cmdline

from .. import adapters
from ..errors import RunloreError
from ..model import Session
from ..text.clean import clean


def resume_command(session: Session) -> list[str]:
    """Return the words of the agent's own command that resumes a session.

    Raises RunloreError if there is none, or if it would not be safe on a command line.
    """
    adapter = adapters.get(session.flavor)
    words = adapter.resume(session)
    if words is None:
        raise RunloreError(f"{adapter.label} has no command that takes a session up again")
    if session.native_session_id.startswith("-") or any(
        clean(word) != word for word in (*words, session.cwd or "")
    ):
        raise RunloreError(
            f"{session.session_uid}: its id or folder would not be safe on a command line"
        )
    return words


def in_shell(words: Sequence[str], cwd: str | None) -> str:
    """Return a command as one types it, with a change to its folder before it."""
    is_windows = os.name == "nt"
    change_folder = (["cd", "/d", cwd] if is_windows else ["cd", cwd]) if cwd else []
    quote = list2cmdline if is_windows else shlex.join
    return " && ".join(quote(part) for part in (change_folder, words) if part)
