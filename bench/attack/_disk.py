"""A record of what a process did to its files, and the disk that a loss of power could leave.

What was synced is there. Of all that was written since, any part may be there: whole, torn, as
zeros, or not at all. Names (files that were created, renamed, deleted) survive in their order, at
least up to the last one whose folder was synced. Nothing here knows whose files they are.
"""

from __future__ import annotations

import os
import random
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

Step = tuple[Any, ...]
"""What was done, and to what: `("write", number, offset, data)`, `("rename", old, new)`, …"""

NAMES = frozenset({"create", "folder", "rename", "link", "unlink"})
ALL = "*"
"""In the place of a folder: all of them were synced."""


class Recorder:
    """The steps of this process below a folder, in their order. Files have numbers, so that they
    are the same under another name."""

    def __init__(self, root: Path) -> None:
        self.root = f"{root}{os.sep}"
        self.steps: list[Step] = []
        self._data: dict[int, bytearray] = {}
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                self.steps.append(("folder", self.name(path)))
            else:
                self.compare(path)
        self.steps += [("sync", number) for number in self._data]
        self.steps.append(("sync_folder", ALL))

    def acknowledge(self, *what: Any) -> None:
        """Record that the process was told that something is safe."""
        self.steps.append(("acknowledge", *what))

    def create(self, path: Any) -> None:
        number = os.stat(path).st_ino
        self._data[number] = bytearray()
        self.steps.append(("create", self.name(path), number))

    def write(self, number: int, offset: int, data: bytes) -> None:
        put(self._data[number], offset, data)
        self.steps.append(("write", number, offset, data))

    def truncate(self, number: int, size: int) -> None:
        cut(self._data[number], size)
        self.steps.append(("truncate", number, size))

    def compare(self, path: Any) -> None:
        """Record what was written to a file in ways that are not watched."""
        number, data = os.stat(path).st_ino, Path(path).read_bytes()
        if number not in self._data:
            self.create(path)
        if data != self._data[number]:
            self.truncate(number, 0)
            self.write(number, 0, data)

    def has(self, path: Any) -> bool:
        return not isinstance(path, int) and os.path.abspath(path).startswith(self.root)

    def name(self, path: Any) -> str:
        return f"{os.path.abspath(path)}{os.sep}".removeprefix(self.root).rstrip(os.sep)


def put(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def cut(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


# ── who is recorded ───────────────────────────────────────────────────────────────────────────────


class PythonFiles:
    """Records what Python does with files, by functions in the place of those of `os`.

    For a process that ends soon after: nothing is put back.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.paths: dict[int, str] = {}
        """Of open descriptors."""
        wrappers: dict[str, Callable[..., Any]] = {
            "open": self._open, "write": self._write, "ftruncate": self._truncate,
            "fsync": self._sync, "fdatasync": self._sync, "mkdir": self._mkdir,
            "rename": self._rename, "replace": self._rename, "link": self._link,
            "unlink": self._unlink, "remove": self._unlink,
        }  # fmt: skip
        self.real = {name: getattr(os, name) for name in wrappers}
        for name, wrapper in wrappers.items():
            self._replace(self.real[name], wrapper)

    def _replace(self, real: object, wrapper: Callable[..., Any]) -> None:
        """Put a wrapper in the place of a function, also where it was imported by its name."""
        for name, module in list(sys.modules.items()):
            if name == "os" or name.startswith("runlore."):
                for attribute in [key for key, value in vars(module).items() if value is real]:
                    setattr(module, attribute, wrapper)

    def _open(self, path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        is_new = not isinstance(path, int) and not os.path.exists(path)
        fd: int = self.real["open"](path, flags, mode, **named)
        self.paths.pop(fd, None)
        if self.recorder.has(path):
            self.paths[fd] = str(path)
            if is_new:
                self.recorder.create(path)
        return fd

    def _write(self, fd: int, data: Any) -> int:
        written: int = self.real["write"](fd, data)
        if fd in self.paths:
            offset = os.lseek(fd, 0, os.SEEK_CUR) - written
            self.recorder.write(os.fstat(fd).st_ino, offset, bytes(data)[:written])
        return written

    def _truncate(self, fd: int, size: int) -> None:
        self.real["ftruncate"](fd, size)
        if fd in self.paths:
            self.recorder.truncate(os.fstat(fd).st_ino, size)

    def _sync(self, fd: int) -> None:
        path = self.paths.get(fd)
        if path is None:
            return
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self.recorder.steps.append(("sync_folder", self.recorder.name(path)))
        else:
            self.recorder.compare(path)
            self.recorder.steps.append(("sync", os.fstat(fd).st_ino))

    def _mkdir(self, path: Any, *rest: Any, **named: Any) -> None:
        self.real["mkdir"](path, *rest, **named)
        if self.recorder.has(path):
            self.recorder.steps.append(("folder", self.recorder.name(path)))

    def _rename(self, old: Any, new: Any, **named: Any) -> None:
        if self.recorder.has(old) and os.path.isfile(old):
            self.recorder.compare(old)
        self.real["replace"](old, new, **named)
        if self.recorder.has(old):
            self.recorder.steps.append(("rename", self.recorder.name(old), self.recorder.name(new)))

    def _link(self, old: Any, new: Any, **named: Any) -> None:
        self.real["link"](old, new, **named)
        if self.recorder.has(old):
            self.recorder.steps.append(("link", self.recorder.name(old), self.recorder.name(new)))

    def _unlink(self, path: Any, **named: Any) -> None:
        self.real["unlink"](path, **named)
        if self.recorder.has(path):
            self.recorder.steps.append(("unlink", self.recorder.name(path)))


class SqliteFiles(apsw.VFS):
    """Records what SQLite does with files. It becomes the default of this process."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.real = apsw.vfs_names()[0]  # The default so far.
        super().__init__("recorded", self.real, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _SqliteFile(self.recorder, self.real, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        if self.recorder.has(filename):
            self.recorder.steps.append(("unlink", self.recorder.name(filename)))
            if syncdir:
                self.recorder.steps.append(("sync_folder", ALL))


class _SqliteFile(apsw.VFSFile):
    def __init__(self, recorder: Recorder, system: str, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._recorder = recorder if path and recorder.has(path) else None
        is_new = self._recorder is not None and not os.path.exists(path)
        super().__init__(system, name, flags)
        if self._recorder is not None:
            self._number = os.stat(path).st_ino
            if is_new:
                self._recorder.create(path)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._recorder is not None:
            self._recorder.write(self._number, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        if self._recorder is not None:
            self._recorder.truncate(self._number, newsize)

    def xSync(self, flags: int) -> None:
        if self._recorder is not None:
            # SQLite syncs the folder together with a new log.
            self._recorder.steps += [("sync", self._number), ("sync_folder", ALL)]


# ── what is left ──────────────────────────────────────────────────────────────────────────────────


def lose_power(steps: list[Step], rng: random.Random, target: Path) -> None:
    """Write the files below `target` as a loss of power after these steps could leave them."""
    share = rng.choice((0.0, 0.5, 0.9, 1.0))
    contents = _choose_data(steps, share, rng)
    target.mkdir(mode=0o700, parents=True)
    folders, files = _choose_names(steps, rng)
    for folder in folders:
        (target / folder).mkdir(mode=0o700, exist_ok=True)
    for name, number in files.items():
        (target / name).write_bytes(contents.get(number, b""))
        (target / name).chmod(0o600)


def _choose_data(steps: list[Step], share: float, rng: random.Random) -> dict[int, bytearray]:
    """Return what each file has: all that was synced, and a share of what was not."""
    synced = {step[1]: n for n, step in enumerate(steps) if step[0] == "sync"}
    contents: dict[int, bytearray] = {}
    for n, step in enumerate(steps):
        is_safe = n < synced.get(step[1], -1) if step[0] in ("write", "truncate") else False
        if step[0] == "write":
            content = contents.setdefault(step[1], bytearray())
            if is_safe or rng.random() < share:
                put(content, step[2], step[3])
            else:
                put(content, step[2], _damage(step[3], rng))
        elif step[0] == "truncate" and (is_safe or rng.random() < share):
            cut(contents.setdefault(step[1], bytearray()), step[2])
    return contents


def _damage(data: bytes, rng: random.Random) -> bytes:
    """Return what is left of a write that was not synced: nothing, a part, or zeros."""
    kept = rng.choice((0, 0, rng.randrange(len(data) + 1)))
    return data[:kept] + bytes(len(data) - kept if rng.random() < 0.3 else 0)


def _choose_names(steps: list[Step], rng: random.Random) -> tuple[list[str], dict[str, int]]:
    """Return the folders, and the files with their numbers."""
    names = [(n, step) for n, step in enumerate(steps) if step[0] in NAMES]
    safe = 0
    for place, (n, step) in enumerate(names, 1):
        if any(is_synced(step, later) for later in steps[n:] if later[0] == "sync_folder"):
            safe = place
    folders: list[str] = []
    files: dict[str, int] = {}
    for _, step in names[: rng.randint(safe, len(names))]:
        _apply(step, folders, files)
    return folders, files


def is_synced(step: Step, later: Step) -> bool:
    """Return True if syncing a folder made this change of a name safe."""
    name = step[2] if step[0] in ("rename", "link") else step[1]
    return later[1] in (ALL, os.path.dirname(name))


def _apply(step: Step, folders: list[str], files: dict[str, int]) -> None:
    kind, name = step[0], step[1]
    if kind == "folder":
        folders.append(name)
    elif kind == "create":
        files[name] = step[2]
    elif kind == "unlink":
        files.pop(name, None)
    elif kind == "link":
        files[step[2]] = files[name]
    else:
        for old in list(_below(name, [*folders, *files])):
            new = step[2] + old.removeprefix(name)
            if old in files:
                files[new] = files.pop(old)
            else:
                folders[folders.index(old)] = new


def _below(name: str, paths: list[str]) -> Iterator[str]:
    return (path for path in paths if path == name or path.startswith(f"{name}{os.sep}"))
