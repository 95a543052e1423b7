"""Progress bars on stderr for work that may take long: sync, copy, doctor, backup, evict.

Nothing is drawn where stderr is not a terminal.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress


REDRAW_S = 0.1
"""Seconds between two drawings."""


class Progress:
    """One bar at a time, removed when it is closed.

    `start` and `advance` count items, and their bytes where a sync knows them. `show` sets how
    far a named step is.
    """

    def __init__(self) -> None:
        self._bars: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._name = ""
        self._items = self._total_items = 0
        self._has_bytes = False
        self._drawn_at = 0.0

    def start(self, total: int, size_bytes: int, what: str = "files") -> None:
        """Begin a bar for so many items of so many bytes in all."""
        self._name, self._items, self._total_items = what, 0, total
        self._has_bytes = size_bytes > 0
        self._begin(size_bytes or total)

    def advance(self, count: int, size_bytes: int) -> None:
        """Move the bar on."""
        self._items += count
        if self._bars is not None and self._task is not None:
            step = size_bytes if self._has_bytes else count
            self._bars.update(self._task, advance=step, label=self._label())
            self._redraw()

    def show(self, name: str, done: int, total: int) -> None:
        """Show a bar of this name, `done` of `total` far."""
        self._items, self._total_items = done, total
        if name != self._name or self._task is None:
            self._name, self._has_bytes = name, False
            self._begin(total)
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=done, total=total or None, label=self._label())
            self._redraw()

    def close(self) -> None:
        """Remove the bar."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = self._task = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, total: int) -> None:
        self.close()
        if not total or not sys.stderr.isatty():
            return
        # Imported here, so that a sync that finds nothing new does not load it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        bytes_columns = (DownloadColumn(), TransferSpeedColumn()) if self._has_bytes else ()
        self._bars = Progress(
            TextColumn("{task.fields[label]}"),
            BarColumn(bar_width=24),
            *bytes_columns,
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=True,
            # rich would redraw from a thread, and a process with threads cannot fork workers.
            auto_refresh=False,
        )
        self._task = self._bars.add_task("", total=total, label=self._label())
        self._bars.start()

    def _redraw(self) -> None:
        now = time.monotonic()
        if self._bars is not None and now - self._drawn_at >= REDRAW_S:
            self._drawn_at = now
            self._bars.refresh()

    def _label(self) -> str:
        if not self._total_items:
            return self._name
        return f"{self._items:,}/{self._total_items:,} {self._name}"
