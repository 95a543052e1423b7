"""Print the agent's own command that resumes a session.

With --json an object: command (its words), cwd, … (docs/json.md).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from datetime import datetime
from typing import ClassVar, NoReturn

import click
import msgspec

from ... import adapters, query
from ...errors import RunloreError
from ...model import Session
from ...query.resuming import in_shell, resume_command
from ...text.words import local
from ..options import SessionName, as_json, open_store
from ..output import echo, note, write_json


class ResumeCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command that resumes a session."""

    PRESENTS: ClassVar = (Session,)

    uid: str
    agent: str
    branch: str | None
    session_uid: str
    cwd: str | None
    cwd_exists: bool
    source_missing_at: datetime | None
    command: list[str]
    """The words of the agent's command."""


@click.command(help=__doc__)
@click.argument("session", type=SessionName())
@click.option("--exec", "is_run", is_flag=True, help="Run it, in the session's folder.")
@as_json(ResumeCommand)
def command(session: str, is_run: bool, is_json: bool) -> None:
    with open_store() as (store, _):
        found = query.get(store, query.resolve(store, session))
    words = resume_command(found)
    if is_json:
        write_json(as_answer(found, words))
        return
    if found.cwd and not os.path.isdir(found.cwd):
        raise RunloreError(
            f"the folder {found.cwd} is not here (any more); elsewhere the command is:"
            f" {shlex.join(words)}"
        )
    if found.source_missing_at is not None:
        if is_run:
            raise RunloreError(in_vain(found))
        note(in_vain(found))
    if is_run:
        run(words, found.cwd)
    else:
        echo(in_shell(words, found.cwd))


def as_answer(session: Session, words: list[str]) -> ResumeCommand:
    return ResumeCommand(
        uid=session.session_uid,
        agent=session.flavor,
        branch=session.git_branch,
        session_uid=session.session_uid,
        cwd=session.cwd,
        cwd_exists=session.cwd is not None and os.path.isdir(session.cwd),
        source_missing_at=session.source_missing_at,
        command=words,
    )


def in_vain(session: Session) -> str:
    """Why the command will find nothing."""
    label, since = adapters.get(session.flavor).label, local(session.source_missing_at, "%Y-%m-%d")
    return (
        f"the transcript of this session is gone since {since}: {label} will not find it; "
        f"`runlore show {session.native_session_id}` still reads it"
    )


def run(words: list[str], cwd: str | None) -> NoReturn:
    """Becomes the agent where that is possible."""
    try:
        if cwd:
            os.chdir(cwd)
        if os.name == "nt":
            sys.exit(subprocess.run(words, check=False).returncode)
        os.execvp(words[0], words)
    except FileNotFoundError:
        raise RunloreError(f"{words[0]} is not installed, or not on the PATH") from None
    except OSError as error:
        raise RunloreError(f"{words[0]}: {error.strerror}") from None
