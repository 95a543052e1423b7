"""The reply when a tool fails: a lesson on the error or command, or a fix of an earlier session.

Nobody has approved a fix, so only one that may be trusted here is told (`mine.trusted_fixes`).
"""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from ...config import home_folder
from ...digest.errors import signature
from ...files.git import git_remote
from ...lessons import deliver
from ...mine.commands import command_head
from ...mine.trusted_fixes import TrustedFix, find_trusted_fixes
from ...model import describe_how
from ...store import open_store
from ...text.clean import OWN
from .common import MAX_NAME_CHARS, plain, show_lessons, store_path

MAX_ERROR_CHARS, MAX_FIX_CHARS = 64 << 10, 300
"""Maximum characters: of an error, read from its end, and of each shown text of a fix."""

MAX_COMMAND_CHARS = 2_000
"""Maximum number of characters of a command that are parsed."""

WEAK_KINDS = frozenset({"exit", "text"})
"""Kinds of errors that say too little to recognise them."""


def reply_to_failure(agent: str, call: dict[str, object]) -> str | None:
    """Return a lesson on this error, or else a fix of an earlier session.

    Returns None if there is neither, or if the session was already shown it.
    """
    home, cwd = Path(home_folder()), str(call.get("cwd") or "")
    error = _read_error(call)
    if not error or not os.path.isabs(cwd) or not home.is_dir():
        return None
    session = str(call.get("session_id") or "")[:MAX_NAME_CHARS]
    fingerprint, command = (
        one if one and not deliver.was_delivered(home, agent, session, one) else ""
        for one in (_find_fingerprint(error), find_command(call))
    )
    if not (fingerprint or command):
        return None
    lessons = show_lessons(agent, call, cwd, fingerprint, command)
    # A lesson that was withheld is recorded as well. A fix would give it away in other words.
    if lessons or not fingerprint or deliver.was_delivered(home, agent, session, fingerprint):
        return lessons
    return show_fix(agent, session, cwd, fingerprint)


def _read_error(call: dict[str, object]) -> str:
    """Return the text of the error; empty if there is none or if a person interrupted the tool."""
    text = call.get("error")
    if not isinstance(text, str) or not text.strip() or call.get("is_interrupt"):
        return ""
    return text[-MAX_ERROR_CHARS:]


def _find_fingerprint(error: str) -> str:
    """Return the fingerprint of an error; empty if it says too little to recognise it."""
    known = signature(error)
    return "" if known is None or known.kind in WEAK_KINDS else known.fingerprint


def find_command(call: dict[str, object]) -> str:
    """Return the head of the failed command, by which lessons are found; empty if there is none."""
    given = call.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if not isinstance(command, str) or not command.strip():
        return ""
    return command_head(command[:MAX_COMMAND_CHARS])


def show_fix(agent: str, session: str, cwd: str, fingerprint: str) -> str | None:
    """Return what fixed this error according to the store, and record that it was shown."""
    repo = git_remote(Path(cwd))
    path = store_path(cwd, repo)
    if path is None:
        return None
    with closing(open_store(path, read_only=True)) as store:
        fixes = find_trusted_fixes(store, fingerprint, repo)
    if not fixes:
        return None
    line = _describe_fix(fixes[0])
    deliver.record_delivery(
        Path(home_folder()),
        line,
        datetime.now(UTC),
        agent=agent,
        session=session,
        repo=repo or "",
        fingerprint=fingerprint,
    )
    return line


def _describe_fix(fix: TrustedFix) -> str:
    """Return a line on a fix, with the event that shows it."""
    event = f"{plain(fix.uid, MAX_NAME_CHARS)}#{fix.seq}"
    done = deliver.quote(fix.text, MAX_FIX_CHARS)
    if not fix.repo:
        what = f"in {fix.tasks} independent tasks this error was gone after: {done} (e.g. {event})"
    else:
        change = f"; its change: {deliver.quote(fix.diff, MAX_FIX_CHARS)}" if fix.diff else ""
        what = (
            f"this error was met here before; in {event} it was gone after this"
            f" {describe_how(fix.how)}: {done}{change}"
        )
    return f"{OWN} {what}. `runlore fix` knows more."
