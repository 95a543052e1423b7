"""The contract of an adapter, and where adapters are found.

An adapter knows one agent's files: where they are, how to read what is new in them, and what its
records mean. It is one module in this folder, named for the agent, with an object `adapter` in it;
an adapter from elsewhere is an entry point in the group `runlore.adapters`. Nothing outside that
module asks which agent this is.

`discover` and `read` touch the disk and never write to it; `normalize` is pure. **The law**: cut
the records of a source anywhere, hand the pieces to `normalize` one after another with the `carry`
between them, and the events are those of reading it at once. Write the normalizer as a fold over
records whose whole state is the carry, and the law holds.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ..errors import ConfigError
from ..model import Call, Relation, Session, SessionEvent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "runlore.adapters"

SHARED = "shared"
"""The package here that is no agent: what adapters are built of."""

MARK = " -m runlore hooks run "
"""In every command that we put into a list: it says which elements are ours."""

LEFT_OUT = {
    "QClaw": "there is neither a sample nor a first-hand description of what it writes",
    "Factory Droid": "its sessions are known second-hand, and from fixtures that others made",
    "Kiro": "one real session of its CLI is at hand, none of its editor",
    "OpenHands": "its layouts of before 2026 are known second-hand",
}
"""Agents that people use and that are not read, by label, and why: nothing is guessed."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file or a database of an agent, as `discover` found it."""

    agent: str
    path: str
    root: str
    size: int
    mtime_ns: int
    inode: int = 0
    machine: str | None = None
    hints: tuple[str, ...] = ()
    """What only the folder knows and `normalize` needs, in the adapter's own words."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where a source has been read, and how to see that what lies before is still the
    same."""

    offset: int
    head: bytes = b""
    tail: bytes = b""
    records: int = 0


class Record(msgspec.Struct, frozen=True, gc=False):
    """One native record: a line, a row, or a small file beside the source (`aside` is its name,
    `offset` -1)."""

    data: bytes
    offset: int
    aside: str | None = None
    problem: str | None = None
    """Set when the bytes could not be read as they are ("too long"); `data` then holds what there
    is."""
    end: int = -1
    """Where the next record begins, which `data` does not say when it is only a part; -1 for a file
    beside the source."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a batch says of one session; None where it says nothing new. A carry holds no text that
    people wrote, so a title is given once, in the batch that has it, and the store remembers it."""

    native_session_id: str
    title: str | None = None
    title_rank: int = 0
    """0 none, 1 a prompt, 2 written by the agent, 3 written by a person: the highest wins, the
    later of two equals."""
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    repo: str | None = None
    task_ref: str | None = None
    parent_uid: str | None = None
    parent_call: str | None = None
    relation: Relation | None = None
    written_at: datetime | None = None
    """When the source was last written, of a format without times: the end of the session, when no
    event of it has a time."""
    spare: int | None = 0
    """Where an agent keeps all of a session in several stores: 0 for the one that tells it best,
    more for each that tells it worse. Only the best that has the session counts. The calls of one
    that is no longer the best have the keys that they have there, or it has none. None for what
    tells something beside them all, and counts whichever is the best."""


class Skip(msgspec.Struct, frozen=True):
    """A record, or a part of one, that could not be understood; it was kept as `lifecycle` where
    there was anything."""

    offset: int
    reason: str


LOST = "tokens of a running total that no record tells of"
"""The reason of a skip, after how many they are: where an agent's own total grew by more than the
requests that its records tell of."""


class Normalized(msgspec.Struct, kw_only=True):
    """What a batch of records means. The four lists run in parallel, one entry for each event.

    `seq` counts up from 0 within this source's stream of a session: the store adds the block.
    Earlier records are named by native id, and the store links them. Native ids are unique within a
    flavor, across all its sessions.
    """

    events: list[SessionEvent] = msgspec.field(default_factory=list)
    bodies: list[str] = msgspec.field(default_factory=list)
    parents: list[str | None] = msgspec.field(default_factory=list)
    """The native id of the event, or of the alias, that this one follows."""
    originals: list[str | None] = msgspec.field(default_factory=list)
    """The native id that the agent says this one is a copy of."""
    aliases: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Records that gave no event but stand in the chain: their native id, and that of what they
    follow."""
    facts: dict[str, Facts] = msgspec.field(default_factory=dict)
    """By session uid, for every session that this batch touched."""
    merged: dict[str, int] = msgspec.field(default_factory=dict)
    """Records that are a part of something else (a title, a progress line), counted by their native
    word."""
    skips: list[Skip] = msgspec.field(default_factory=list)
    calls: list[tuple[Call, str | None]] = msgspec.field(default_factory=list)
    """API calls, each with the native id of the event where it was made. Every copy of a call, and
    every growing figure of one, may be given: of those with the same key one is counted."""
    carry: bytes = b""
    """msgpack, so that texts in it can be cleaned like others."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A value of ours: at a path of keys, or in the list there."""

    path: tuple[str, ...]
    value: dict[str, Any]
    in_list: bool = False
    """Then what has `MARK` in an element is ours, and the element when it has nothing else; else
    the whole value at the path is."""
    since: tuple[int, ...] = ()
    """The version of the agent that first knows it, where an older one refuses it."""


class Integration(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is made to call us: which of its settings files get which entries. Files are
    named like roots: the first that can be expanded is meant. An adapter whose agent can be told
    has a method `integration` that gives one."""

    hooks_files: tuple[str, ...]
    hooks: Callable[[Callable[[str], str]], list[Entry]]
    """The entries that call us at the start and the end of a session; they are given the command
    for "start" and for "end"."""
    program: str = ""
    """That tells with `--version` which of the entries the agent knows, where some are newer than
    others."""
    server_files: tuple[str, ...]
    server: Callable[[list[str], dict[str, str]], list[Entry]]
    """The entry of an MCP server, from the words of its command and its variables."""
    answer: Literal["json", "text"] = "text"
    """How a hook puts a line into the session: as `additionalContext` in JSON, or as it is."""
    after_hooks: str = ""
    """What the user has to do before the agent obeys."""


class Adapter(Protocol):
    """What runlore asks of an agent's adapter. `shared/jsonl.py` answers most of it for files of
    JSON lines.

    An adapter whose sources are no files of their own, say the sessions of one database, also has
    `refresh(source)`: the source as it is now, or None when it is gone. Such a source is named as
    if it lay below what it is in.

    One whose agent leaves out of its files what others tell has `lacks`, the plain words for it:
    ("tokens", "times"). One whose agent reads a file of the project by itself, whatever its version
    and settings, has `instructions`, the names of such files.

    One of whose sources some are only appended to says so by `is_appended(path)`: at every position
    of such a source the carry follows from the records before it."""

    name: str
    """The flavor, and the prefix of its sessions' uids: the module's name."""
    label: str
    """What people call the agent."""
    version: int
    """Raised when the same records would give other events: sessions of an older version are
    derived again."""
    roots: tuple[str, ...]
    """Where the agent keeps its sessions; `~` and `$VARIABLE` are expanded, a variable that is not
    set skips the entry."""
    keeps_days: int | None
    """After how many days the agent deletes its own transcripts, when it does."""

    def find_roots(self, env: Mapping[str, str]) -> list[Path]:
        """The folders to look in when the config names none; they need not exist."""

    def discover(self, root: Path) -> Iterator[Source]:
        """All sources below a root, in a stable order; a missing root has none. What is there and
        cannot be looked at is left out, and named by `refused` afterwards, where an adapter has
        that: nothing below these paths is known to be gone."""

    def follows(self, source: Source, since: Position) -> bool:
        """Whether what lies before the position is still what was read then."""

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """The complete records after the position. Raises ReadError; a record still being written
        is not given."""

    def position(self, source: Source, offset: int, records: int) -> Position:
        """The position after the record that ends at this offset."""

    def normalize(
        self, source: Source, records: Iterable[Record], carry: bytes | None
    ) -> Normalized:
        """What these records mean. Pure; raises nothing, whatever the records hold."""

    def slim(self, line: bytes) -> bytes:
        """The record as it is worth keeping: what is not text replaced by a short reference,
        everything else untouched."""

    def resume(self, session: Session) -> list[str] | None:
        """The agent's own command that takes this session up again, or None when it has none."""


def integration(name: str) -> Integration:
    """How this agent is made to call us. Raises ConfigError when it cannot be, or when we do not
    know how."""
    adapter = get(name)
    made: Integration | None = adapter.integration() if hasattr(adapter, "integration") else None
    if made is None:
        raise ConfigError(f"runlore does not know how to add itself to {adapter.label}")
    return made


def lacks(adapter: Adapter) -> tuple[str, ...]:
    """What this agent's files never tell, in words for people; nothing when they tell what is
    usual."""
    return tuple(getattr(adapter, "lacks", ()))


def is_appended(name: str, path: str) -> bool:
    """Whether what its adapter must remember of a source can be had again by reading it."""
    try:
        adapter = get(name)
    except ConfigError:  # It is not installed any more.
        return False
    return hasattr(adapter, "is_appended") and bool(adapter.is_appended(path))


def instructions(name: str) -> tuple[str, ...]:
    """The files that this agent reads at the start of every session in their folder or below; none
    where that is not known for sure."""
    try:
        return tuple(getattr(get(name), "instructions", ()))
    except ConfigError:  # Its adapter is not installed any more.
        return ()


@cache
def load() -> dict[str, Adapter]:
    """Every adapter that can be loaded by name, ours and others', sorted. Importing them all takes
    time: `get` imports one."""
    found = {}
    for name in names():
        with suppress(ConfigError):  # A sync names it as a problem.
            found[name] = get(name)
    return found


@cache
def names() -> tuple[str, ...]:
    """The names of the installed adapters, without importing them."""
    return tuple(sorted({*own_names(), *_foreign()}))


@cache
def own_names() -> tuple[str, ...]:
    """The names of the adapters that come with runlore: each module and package here is one, but
    for `shared`."""
    listed = {name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__))}
    return tuple(sorted(name for name in listed if name[0].isalpha() and name != SHARED))


@cache
def get(name: str) -> Adapter:
    """The adapter of that name. Raises ConfigError when there is none, or when a foreign one cannot
    be loaded."""
    foreign = _foreign().get(name)
    if foreign is not None:
        try:
            found: Adapter = foreign.load()
        except Exception as error:  # Someone else's code: whatever it raises, the message names it.
            raise ConfigError(
                f"adapter {name!r} from {foreign.value} cannot be loaded: {error}"
            ) from error
        return found
    if name not in names():
        raise ConfigError(f"no adapter for {name!r}; there are: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    adapter: Adapter = module.adapter
    return adapter


@cache
def _foreign() -> dict[str, EntryPoint]:
    """Adapters of other packages. importlib.metadata costs 20 ms, so it is asked only when one of
    them has any."""
    if not any(GROUP in text for text in _entry_point_files()):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _entry_point_files() -> Iterator[str]:
    for folder in sys.path:
        try:
            packages = [
                name
                for name in os.listdir(folder or ".")
                if name.endswith((".dist-info", ".egg-info"))
            ]
        except OSError:
            continue
        for name in packages:
            try:
                yield Path(folder, name, "entry_points.txt").read_text(
                    encoding="utf-8", errors="replace"
                )
            except OSError:
                continue


def read_loosely(line: bytes) -> list[Any] | None:
    """The JSON values of a line that a strict decoder refuses; None when it is not JSON at all."""
    from .shared.jsonl import values_of

    return values_of(line)


def expand_root(root: str, env: Mapping[str, str]) -> list[Path]:
    """`~` and one leading `$VARIABLE` put in; a variable may hold several folders, split by commas.
    None when not set."""
    if not root.startswith("$"):
        return [Path(root).expanduser().absolute()]
    variable, _, rest = root[1:].partition("/")
    value = env.get(variable, "")
    return [
        (Path(part.strip()).expanduser() / rest).absolute()
        for part in value.split(",")
        if part.strip()
    ]


def usual_roots(roots: Iterable[str], env: Mapping[str, str]) -> list[Path]:
    """All of them, up to the first `$VARIABLE` that is set: whoever sets it means that place
    instead of the usual ones."""
    found: list[Path] = []
    for root in roots:
        places = expand_root(root, env)
        found += places
        if places and root.startswith("$"):
            break
    return list(dict.fromkeys(found))
