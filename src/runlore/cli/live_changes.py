"""The commands of `runlore live` that change a session, or bring one in."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import chain
from pathlib import Path

import click

from ..errors import Conflict, ReadError, RunloreError
from ..live.importers import Imported, import_all, import_log
from ..live.intake import MAX_REQUEST_BYTES, Appended, append_json
from ..live.log import LiveSession, SessionStore
from ..text.words import count
from .live_answers import ChangedSession, ImportedLog
from .live_choice import opened, record_name, resolve, tell
from .options import as_json
from .output import one_line, warn, write_json


@click.command("append")
@click.argument("session")
@click.argument("records", nargs=-1)
@click.option("--stdin", "is_stdin", is_flag=True, help="Read records, one on each line.")
@click.option("--exclusive", is_flag=True, help="Hold the lease of the session meanwhile.")
@as_json(Appended, is_stream=True)
@click.pass_obj
def append(
    store: SessionStore,
    session: str,
    records: tuple[str, ...],
    is_stdin: bool,
    exclusive: bool,
    is_json: bool,  # noqa: ARG001 - its output is JSON anyway
) -> None:
    """Append records, for programs in other languages.

    SESSION is a whole id; the session is created if there is none. Each of RECORDS, and with
    --stdin each line, is an object with type, payload and, if wanted, key; or an array of those,
    which are appended together. When they are in the log, a line answers each: seq, id, ts, type,
    key; or {"error": {"code", "message"}}. The answers are JSON with and without --json
    (docs/live-format.md).
    """
    if not is_stdin and not records:
        raise click.UsageError("give records, or say --stdin: they are read from there")
    piped = iter(lambda: sys.stdin.buffer.readline(MAX_REQUEST_BYTES + 2), b"")
    with writable(store, session, exclusive) as live:
        for line in chain(map(str.encode, records), piped if is_stdin else ()):
            if line.strip():
                write_json(answer(live, line), in_a_line=True)
                sys.stdout.flush()


def writable(store: SessionStore, session: str, exclusive: bool) -> LiveSession:
    if not exclusive:
        return store.ensure(session)
    with suppress(Conflict):
        store.create(id=session).close()
    return store.open(session, exclusive=True)


def answer(live: LiveSession, line: bytes) -> object:
    """Append what a line asks for, and return what the program is told."""
    try:
        appended = append_json(live, line)
    except RunloreError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    return appended if line.lstrip().startswith(b"[") else appended[0]


@click.command("retitle")
@click.argument("session")
@click.argument("title")
@as_json(ChangedSession)
@click.pass_obj
def retitle(store: SessionStore, session: str, title: str, is_json: bool) -> None:
    """Give a session another title.

    With --json an object: session, seq (docs/json.md).
    """
    with opened(store, session, for_writing=True) as live:
        tell_change(live, live.set_title(title).seq, f"its title is {one_line(title)}", is_json)


@click.command("compact")
@click.argument("session")
@click.argument("summary")
@click.option("--upto", metavar="RECORD", help="The last record that it covers (all of them).")
@as_json(ChangedSession)
@click.pass_obj
def compact(
    store: SessionStore, session: str, summary: str, upto: str | None, is_json: bool
) -> None:
    """Put a summary in place of what the model sees.

    With - as SUMMARY it is read from standard input. The log keeps everything, and a rewind shows
    it again. With --json an object: session, seq (docs/json.md).
    """
    text = sys.stdin.read() if summary == "-" else summary
    with opened(store, session, for_writing=True) as live:
        record = live.compact(text, upto=record_name(upto))
        left = count(len(live.messages()), "message")
        tell_change(live, record.seq, f"{left} in view", is_json)


@click.command("clear")
@click.argument("session")
@as_json(ChangedSession)
@click.pass_obj
def clear(store: SessionStore, session: str, is_json: bool) -> None:
    """Empty what the model sees.

    The log keeps everything, and a rewind shows it again. With --json an object: session, seq
    (docs/json.md).
    """
    with opened(store, session, for_writing=True) as live:
        tell_change(live, live.clear().seq, "nothing is in view", is_json)


@click.command("delete")
@click.argument("session")
@as_json(ChangedSession)
@click.pass_obj
def delete(store: SessionStore, session: str, is_json: bool) -> None:
    """Move a session to the trash of its store.

    SessionStore.restore brings it back until the trash is emptied. With --json an object: session,
    seq (docs/json.md).
    """
    id = resolve(store, session)
    store.delete(id)
    tell(ChangedSession(session=id, seq=None), [f"{one_line(id)}: in the trash"], is_json)


@click.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@as_json(list[ImportedLog], items="")
@click.pass_obj
def import_logs(store: SessionStore, path: Path, is_json: bool) -> None:
    """Import a log of an older format, or all logs in a folder.

    A log that was imported before is skipped. With --json an array: session, added, problems
    (docs/json.md).
    """
    imported = []
    for one in logs_of(path, store):
        if isinstance(one, ReadError):
            warn(one_line(str(one)))
        else:
            imported.append(ImportedLog.of(one))
    lines = [
        f"{one_line(one.session)}: {count(one.added, 'record')} added"
        + (f", {count(len(one.problems), 'problem')} (--json)" if one.problems else "")
        for one in imported
    ]
    tell(imported, lines, is_json)


def logs_of(path: Path, store: SessionStore) -> list[Imported | ReadError]:
    try:
        return [import_log(path, store)]
    except ReadError as error:
        if not path.is_dir():
            raise
        return [*import_all(path, store)] or [error]


def tell_change(live: LiveSession, seq: int, words: str, is_json: bool) -> None:
    tell(ChangedSession(session=live.id, seq=seq), [f"{one_line(live.id)}: {words}"], is_json)


CHANGES = (append, retitle, compact, clear, delete, import_logs)
