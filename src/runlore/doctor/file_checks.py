"""Checks of files and of the index: the database, private files, and the words."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..errors import StoreError
from ..lessons import deliver, rendered_files
from .exam import INDEX_SAMPLE, Exam, Finding


def check_file(exam: Exam) -> Iterator[Finding]:
    """The database's own check of its file, and of the indexes in it."""
    exam.expect(1, 1)
    for text, is_index in exam.store.maintenance.check_file(full=exam.full):
        if is_index:
            yield Finding(text, (("index", None),))
        else:
            yield Finding(f"{text}; put a backup in its place, or move the file away and sync anew")
    exam.step(1)


def check_privacy(exam: Exam) -> Iterator[Finding]:
    """The files of runlore are for this user alone, and the key of the redaction is whole."""
    home, store = exam.config.home, os.path.expanduser(exam.store.url)
    key = home / "redact.key"
    notes = [str(home / name) for name in (deliver.FILE_NAME, rendered_files.FILE_NAME)]
    files = [
        str(home),
        str(key),
        *notes,
        store,
        *(store + end for end in ("-wal", "-shm", ".lock")),
    ]
    for file in exam.each([file for file in files if os.path.exists(file)]):
        mode = os.stat(file).st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            yield Finding(f"{file}: others may read it (mode {mode:o})", (("mode", file),))
    if not exam.config.redact.enabled or not exam.sources:
        return
    if not key.exists():
        yield Finding(
            f"{key} is missing; the next sync makes another, with which the same secret looks"
            " different",
            is_note=True,
        )
    elif key.stat().st_size != 32:
        yield Finding(
            f"{key} is damaged, and no sync can run; put it back from a copy, or delete it to get a"
            " new one"
        )


def check_index(exam: Exam) -> Iterator[Finding]:
    """The index over words is what one gets by indexing the bodies once more."""
    if exam.store.is_alone:  # Looking needs a second connection, for which there is no room.
        yield Finding("not looked at, because the disk is full", is_note=True)
        return
    ids = [id_ for (id_,) in exam.store.maintenance.rows("select id from segments order by id")]
    chosen = exam.spread(ids, INDEX_SAMPLE)
    exam.expect(len(chosen), len(ids))
    try:
        wrong = exam.store.maintenance.check_index(
            None if len(chosen) == len(ids) else chosen, exam.step
        )
    except StoreError as error:
        yield Finding(f"cannot be looked at: {error}", (("index", None),))
        return
    for id_, text in sorted(wrong.items()):
        yield Finding(f"{exam.uid(id_ >> 20)}, segment {id_ & 0xFFFFF}: {text}", (("index", id_),))
