"""The reply when a tool fails: a lesson on the error or command, or a fix of an earlier session."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from ...config import home_folder
from ...digest.errors import signature
from ...files.git import git_remote
from ...lessons import deliver
from ...mine import known_errors
from ...mine.commands import command_head
from ...model import describe_how
from ...store import open_store
from ...text.clean import OWN
from ._common import NAME, lessons_of, plain, store_path

ERROR, FIX = 64 << 10, 300
"""Maximum characters: of an error, read from its end, and of each shown text of a fix."""

COMMAND = 2_000
"""Characters of a command that are looked at."""

WEAK = frozenset({"exit", "text"})
"""Kinds of errors that say too little to be the same as another."""


def failed(agent: str, call: dict[str, object]) -> str | None:
    """Return a lesson on this error, or else a fix of an earlier session.

    Returns None if there is neither, or if the session was already shown it.
    """
    text, cwd = call.get("error"), str(call.get("cwd") or "")
    if (
        not isinstance(text, str)
        or not text.strip()
        or call.get("is_interrupt")
        or not os.path.isabs(cwd)
    ):
        return None
    home = Path(home_folder())
    if not home.is_dir():
        return None
    found = signature(text[-ERROR:])
    session = str(call.get("session_id") or "")[:NAME]
    known = "" if found is None or found.kind in WEAK else found.fingerprint
    fingerprint, command = (
        one if one and not deliver.was_delivered(home, agent, session, one) else ""
        for one in (known, command_of(call))
    )
    if not (fingerprint or command):
        return None
    told = lessons_of(agent, call, cwd, fingerprint, command)
    return told or (fix_of(agent, session, cwd, fingerprint) if fingerprint else None)


def command_of(call: dict[str, object]) -> str:
    """Return the head of the failed command, by which lessons are found; empty if there is none."""
    given = call.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if not isinstance(command, str) or not command.strip():
        return ""
    return command_head(command[:COMMAND])


def fix_of(agent: str, session: str, cwd: str, fingerprint: str) -> str | None:
    """Return what fixed this error according to the store, and record that it was shown."""
    repo = git_remote(Path(cwd))
    path = store_path(cwd, repo)
    if path is None:
        return None
    now = datetime.now(UTC)
    with closing(open_store(path, read_only=True)) as store:
        known = known_errors.find_error(store, fingerprint, now)
    fixes = [fix for fix in known[0].fixes if fix.how != "retry"] if known else []
    if known is None or not fixes:
        return None
    best = next((fix for fix in fixes if fix.repo == repo), fixes[0])
    step = deliver.quote(best.steps[0].summary, FIX)
    change = f"; its change: {deliver.quote(best.diff, FIX)}" if best.diff else ""
    met = "1 earlier session" if known[0].sessions == 1 else f"{known[0].sessions} earlier sessions"
    where = f"in {plain(best.uid, NAME)}#{best.seq} it was gone after this {describe_how(best.how)}"
    line = f"{OWN} this error was met in {met}; {where}: {step}{change}. `runlore fix` knows more."
    deliver.record_delivery(
        Path(home_folder()),
        line,
        now,
        agent=agent,
        session=session,
        repo=repo or "",
        fingerprint=fingerprint,
    )
    return line
