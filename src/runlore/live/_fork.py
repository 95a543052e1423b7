"""Makes a session out of the conversation of another one, up to a record.

The records taken along keep their ids and times, so that whoever reads both logs sees that they are
the same; they get seqs of their own. The copy is complete: the other session may be deleted. It
appears in the store at once, or not at all.
"""

from __future__ import annotations

import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import LogError
from ..files.locks import O_BINARY, sync, sync_folder
from ..model import LogRecord
from . import _line
from ._ledger import TYPES as LEDGER
from ._reader import LOG
from ._tree import NODES
from .outputs import FOLDER as OUTPUTS

if TYPE_CHECKING:
    from .log import SessionStore
    from .session import LiveSession

PLACE = ".making"
LEFT_AFTER_S = 3600.0
"""No fork takes so long: one that is older was left by a process that is gone."""


def fork(
    store: SessionStore, source: LiveSession, position: int, id: str | None, title: str | None
) -> LiveSession:
    """Raises Conflict when the id is taken."""
    if source.is_draft:
        raise LogError(f"{source.id}: a draft has nothing to fork")
    target = store.folder_of(id or os.urandom(16).hex())
    making = store.path / PLACE / f"{os.getpid()}-{os.urandom(4).hex()}"
    making.mkdir(mode=0o700, parents=True)
    _tidy(making.parent)
    try:
        _write_log(making, source, position, title, is_durable=store.durability == "power")
        _link_outputs(
            source.path / OUTPUTS, making / OUTPUTS, is_durable=store.durability == "power"
        )
        store.move_in(making, target)
    except OSError as error:
        raise LogError(f"{target}: {error.strerror}; no fork was made") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return store.open(target.name)


def _tidy(place: Path) -> None:
    """Takes away what forks left that were killed in the making."""
    for folder in place.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > LEFT_AFTER_S:
                shutil.rmtree(folder, ignore_errors=True)


def _write_log(
    folder: Path, source: LiveSession, position: int, title: str | None, is_durable: bool
) -> None:
    with open(
        os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o600), "wb"
    ) as file:
        line = bytearray()
        for record in _records(source, position, title):
            _line.encode([record], line)
            file.write(line)
        file.flush()
        if is_durable:
            sync(file.fileno())
            sync_folder(folder)


def _records(source: LiveSession, position: int, title: str | None) -> Iterator[LogRecord]:
    tree = source._view()
    at = source.find(position)
    first = dict(tree.meta)
    first["title"] = title if title is not None else tree.title
    first["origin"] = {"session": source.id, "record": at.id, "seq": at.seq}
    old_seqs: list[int] = []
    for record in _taken(source, tree.path(position), position):
        if not old_seqs:
            yield _first(first, record.id)
        old_seqs.append(record.seq)
        yield msgspec.structs.replace(
            record, seq=len(old_seqs), key=None, epoch=None, payload=_moved(record, old_seqs)
        )
    if not old_seqs:
        yield _first(first, at.id)


def _taken(source: LiveSession, path: list[tuple[int, int]], position: int) -> Iterator[LogRecord]:
    """The conversation, and all that is known of calls: a tool that has run must not look
    interrupted in the fork, also when a rewind left behind where that was said.
    """
    starts = [low for low, _ in path]
    for record in source.records():
        if record.seq > position:
            return
        place = bisect_right(starts, record.seq) - 1
        is_on_path = place >= 0 and record.seq <= path[place][1]
        if record.type in LEDGER or (record.type in NODES and is_on_path):
            yield record


def _first(payload: dict[str, Any], next_id: str) -> LogRecord:
    """The fork's own first record. Its id is below those that follow: in every log ids grow."""
    with suppress(ValueError):
        next_id = f"{max(0, int(next_id[:16], 16) - 1):016x}{os.urandom(4).hex()}"
    return LogRecord(seq=0, id=next_id, ts=datetime.now(UTC), type="session", payload=payload)


def _moved(record: LogRecord, old_seqs: list[int]) -> dict[str, Any]:
    """A compaction's payload with the seq it covers as it is in the fork; that of a tool without
    who runs it, who answers elsewhere."""
    if record.type == "tool_started":
        return {name: value for name, value in record.payload.items() if name != "owner"}
    upto = record.payload.get("upto")
    if record.type != "compact" or not isinstance(upto, int):
        return record.payload
    return {**record.payload, "upto": bisect_right(old_seqs, upto)}


def _link_outputs(source: Path, target: Path, is_durable: bool) -> None:
    if not source.is_dir():
        return
    target.mkdir(mode=0o700)
    for path in source.iterdir():
        if not path.name.startswith("."):
            try:
                os.link(path, target / path.name)
            except OSError:  # another disk, or one without links
                shutil.copy2(path, target / path.name)
    if is_durable:
        sync_folder(target)
        sync_folder(target.parent)
