"""The contract of an adapter, as a base class with defaults for what most agents do not need."""

from __future__ import annotations

import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from ...errors import ReadError
from ...model import Session
from .values import Integration, Normalized, Position, Record, Source


class Adapter(metaclass=ABCMeta):
    """The contract between an agent's adapter and runlore.

    Most adapters derive from a class for their kind of source: `JsonlAdapter`, `DocumentAdapter`,
    `GrowingAdapter`, `SqliteAdapter` or `SqliteSessionsAdapter`. The agent's own class then says
    where sources are, and its reader what a record means.

    A sync loads every adapter, also when there is nothing new. So the adapter's own module holds
    only what finding sources needs, and `reader` names the module that understands records. It is
    imported by the first `normalize`. Other code that only reading needs is imported inside the
    methods that use it.
    """

    name: str
    """The name of the agent, and the prefix of its sessions' uids: the name of the module."""
    label: str
    """The name that people use for the agent."""
    aliases: tuple[str, ...] = ()
    """Further names by which people call the agent; capitals and signs make no difference."""
    version: int
    """Raised when the same records would give other events: the sessions of an older version are
    then derived again."""
    roots: tuple[str, ...]
    """Folders in which the agent keeps its sessions. `~` and a leading `$VARIABLE` are
    expanded, and `*` in roots that begin with `~/`. An entry whose variable is not set is
    skipped."""
    keeps_days: int | None = None
    """Days after which the agent deletes its own transcripts; None if it does not."""
    lacks: tuple[str, ...] = ()
    """What the agent's files never tell and others do, in plain words: ("tokens", "times")."""
    instructions: tuple[str, ...] = ()
    """Files of a project that the agent reads by itself, whatever its version and settings."""
    reader: str = ""
    """The full name of the module with the function `normalize(source, records, carry)`."""
    blob_mark: bytes | None = None
    """Bytes that a record with base64 data contains: see `slim`."""
    refused: Sequence[ReadError] = ()
    """What the last `discover` could not look at: nothing below these paths is known to be gone."""

    def find_roots(self, env: Mapping[str, str]) -> list[Path]:
        """Return the folders to look in when the config names none. They need not exist."""
        return usual_roots(self.roots, env)

    @abstractmethod
    def discover(self, root: Path) -> Iterator[Source]:
        """Yield all sources below a root, in a stable order; a missing root has none. A file that
        cannot be looked at is left out, and put into `refused`."""

    def refresh(self, source: Source) -> Source | None:
        """Return the source as it is now, or None when it is gone. A source that is not a file,
        such as a session in a database, is named as if it lay below the file that holds it."""
        return stat_source(source)

    def aged(self, source: Source) -> Source:
        """Return the source as a sync compares it with what is stored. It has another time once
        nothing was written to it for so long that what was held back of it can be read."""
        return source

    def is_appended(self, path: str) -> bool:
        """Return True if the source is only appended to. Then the carry at any position can be
        rebuilt by reading from the beginning, and need not be stored."""
        return False

    @abstractmethod
    def follows(self, source: Source, since: Position) -> bool:
        """Return True if what lies before the position is still what was read then."""

    def has_other_end(self, source: Source, since: Position) -> bool:
        """Return True if a source does not follow only because its last record, which had no end
        when it was read, is another one now."""
        return False

    @abstractmethod
    def position(self, source: Source, offset: int, records: int) -> Position:
        """Return the position after the record that ends at this offset. Raises ReadError."""

    @abstractmethod
    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield the complete records after the position. A record that is still being written is
        left for the next read. Raises ReadError."""

    def normalize(
        self, source: Source, records: Iterable[Record], carry: bytes | None
    ) -> Normalized:
        """Return what these records mean. Pure; whatever the records hold, it raises nothing but
        Rejected for a part with far too many events."""
        normalized: Normalized = import_module(self.reader).normalize(source, records, carry)
        return normalized

    def slim(self, line: bytes) -> bytes:
        """Return the record as it is worth keeping: base64 data replaced by a short reference,
        everything else untouched."""
        if self.blob_mark is None or self.blob_mark not in line:
            return line
        from .tools import without_base64

        return without_base64(line)

    def resume(self, session: Session) -> list[str] | None:
        """Return the agent's own command that continues this session, or None if it has none."""
        return None

    def integration(self) -> Integration | None:
        """Return how the agent is made to call runlore, or None if that is not known."""
        return None


def stat_source(source: Source) -> Source | None:
    """Return the source with the size, time and inode that its file has now; None when it is
    gone or cannot be looked at."""
    try:
        stat = os.stat(source.path)
    except OSError:
        return None
    return msgspec.structs.replace(
        source, size=stat.st_size, mtime_ns=stat.st_mtime_ns, inode=stat.st_ino
    )


def leads_out(path: str, root: str) -> bool:
    """Return True if a link below the root leads out of it. The root itself may be a link.

    Of a source that an agent keeps elsewhere, such as in the folder of a project, only the file
    itself must not be a link that leads out of its folder.
    """
    base = root if path == root or path.startswith(root + os.sep) else os.path.dirname(path)
    real, real_base = os.path.realpath(path), os.path.realpath(base)
    return real != real_base and not real.startswith(os.path.join(real_base, ""))


OUTSIDE = "a link out of the agent's folder is not followed"
"""The reason why a source is not read."""


def usual_roots(roots: Iterable[str], env: Mapping[str, str]) -> list[Path]:
    """Return the folders that these roots mean, up to the first `$VARIABLE` that is set: whoever
    sets it means that folder instead of the usual ones."""
    folders: list[Path] = []
    for root in roots:
        expanded = expand_root(root, env)
        folders += expanded
        if expanded and root.startswith("$"):
            break
    return list(dict.fromkeys(folders))


def expand_root(root: str, env: Mapping[str, str]) -> list[Path]:
    """Return the folders that a root means. A leading `$VARIABLE` may hold several, separated by
    commas, or none when it is not set; `*` means those that are there."""
    if root.startswith("$"):
        variable, _, rest = root[1:].partition("/")
        values = [value.strip() for value in env.get(variable, "").split(",")]
        return [(Path(value).expanduser() / rest).absolute() for value in values if value]
    if "*" in root:
        return sorted(Path("~").expanduser().absolute().glob(root.removeprefix("~/")))
    return [Path(root).expanduser().absolute()]
