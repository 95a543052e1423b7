"""A block of lessons in an instruction file: shown as a diff, confirmed, and written.

The receipt of a block allows to remove it later and leave the file as it was, to the byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from .. import config as settings
from ..files import settings as files
from ..lessons import rendered_files
from .integrate import RECEIPTS, Unasked, clean_diff, colored
from .output import echo, note, one_line, write_json


class RenderedLessons(msgspec.Struct, frozen=True, kw_only=True):
    """A block of lessons in a file."""

    file: str
    changed: bool
    dry_run: bool
    lessons: list[str]
    """Ids of the lessons in the block."""
    diff: list[str]
    """The lines of the diff."""


def write_block(
    file: Path,
    ids: list[str],
    change: Callable[[files.Receipt | None], files.Change],
    setting: settings.Config,
    yes: bool,
    dry_run: bool,
    is_json: bool,
    *,
    unchanged: str,
) -> None:
    """Show the change of a file and, unless it is a dry run, write it once it is confirmed."""
    receipts = files.read_receipts(setting.home / RECEIPTS)
    made = change(receipts.get(_receipt_name(file)))
    lines = clean_diff(made)
    if not is_json and lines:
        echo("\n".join(colored(line) for line in lines))
    if not dry_run and not made.is_empty:
        if not yes:
            _confirm(file, is_json)
        _write_with_receipt(made, file, setting, receipts, has_lessons=bool(ids))
    elif not dry_run and setting.home.is_dir():
        # Somebody else may have put it there.
        rendered_files.record_files(setting.home, datetime.now(UTC), file)
    if is_json:
        write_json(
            RenderedLessons(
                file=str(file),
                changed=not made.is_empty,
                dry_run=dry_run,
                lessons=ids,
                diff=lines,
            )
        )
    elif made.is_empty:
        note(unchanged)


def _confirm(file: Path, is_json: bool) -> None:
    """Ask before a file is changed. Raises Unasked if nobody is there to answer."""
    if is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Unasked(one_line(str(file)))
    click.confirm(f"Change {one_line(str(file))} in this way?", abort=True, err=True)


def _write_with_receipt(
    made: files.Change,
    file: Path,
    setting: settings.Config,
    receipts: dict[str, files.Receipt],
    *,
    has_lessons: bool,
) -> None:
    """Write the change. Its receipt is stored, or removed if no lesson is left in the file."""
    name = _receipt_name(file)
    others = {key: receipt for key, receipt in receipts.items() if key != name}
    receipt = {name: made.receipt} if has_lessons and made.receipt else {}
    _apply(made, file, setting, others, receipt)
    if not has_lessons:
        files.write_receipts(setting.home / RECEIPTS, others)


def _apply(
    change: files.Change,
    file: Path,
    setting: settings.Config,
    others: dict[str, files.Receipt],
    receipt: dict[str, files.Receipt],
) -> None:
    """Write the change, and note that the file holds lessons."""
    settings.make_home(setting.home)
    # The receipt first: without it the file could not be restored to the byte.
    if receipt:
        files.write_receipts(setting.home / RECEIPTS, {**others, **receipt})
    rendered_files.record_files(setting.home, datetime.now(UTC), file, is_coming=True)
    files.apply(change)
    rendered_files.record_files(setting.home, datetime.now(UTC), file)


def _receipt_name(file: Path) -> str:
    return f"lessons {file}"
