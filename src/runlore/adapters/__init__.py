"""Adapters, one for each agent: finding them by name.

An adapter knows one agent's files: where they are, how to read what is new in them, and what its
records mean. It is one module or package in this folder, named for the agent, with an object
`adapter` in it; only `shared` is no agent, but what adapters are built of. An adapter of another
package is an entry point in the group `runlore.adapters`. Nothing outside an agent's module asks
which agent this is.

The contract is the class `Adapter` in `shared/base.py`. `discover` and `read` touch the disk and
never write to it; `normalize` is pure. **The law**: cut the records of a source anywhere, hand the
parts to `normalize` one after another with the `carry` between them, and the events are those of
reading it at once. Write the normalizer as a fold over records whose whole state is the carry, and
the law holds.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .shared.base import Adapter, expand_root, stat_source, usual_roots
from .shared.jsonl import QUIET_S
from .shared.jsonl import values_of as read_loosely
from .shared.values import (
    LOST,
    MARK,
    Entry,
    Facts,
    Integration,
    Normalized,
    Position,
    Record,
    Skip,
    Source,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "LOST", "MARK", "QUIET_S", "Adapter", "Entry", "Facts", "Integration", "Normalized", "Position",
    "Record", "Skip", "Source", "expand_root", "find_name", "get", "instructions", "integration",
    "is_appended", "load", "names", "own_names", "read_loosely", "stat_source", "usual_roots",
]  # fmt: skip

GROUP = "runlore.adapters"
SHARED = "shared"


@cache
def load() -> dict[str, Adapter]:
    """Return every adapter that can be loaded, ours and others', by name and sorted. `get` imports
    only one."""
    loaded = {}
    for name in names():
        with suppress(ConfigError):  # A sync names it as a problem.
            loaded[name] = get(name)
    return loaded


@cache
def names() -> tuple[str, ...]:
    """Return the names of the installed adapters, without importing them."""
    return tuple(sorted({*own_names(), *_foreign()}))


@cache
def own_names() -> tuple[str, ...]:
    """Return the names of the adapters that come with runlore: each module and package here but
    `shared`."""
    listed = {name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__))}
    return tuple(sorted(name for name in listed if name[0].isalpha() and name != SHARED))


@cache
def get(name: str) -> Adapter:
    """Return the adapter of that name. Raises ConfigError when there is none, or when a foreign one
    cannot be loaded."""
    foreign = _foreign().get(name)
    if foreign is not None:
        return _load_foreign(name, foreign)
    if name not in names():
        raise ConfigError(f"no adapter for {name!r}; there are: {', '.join(names())}")
    adapter: Adapter = importlib.import_module(f"{__name__}.{name}").adapter
    return adapter


def find_name(text: str) -> str | None:
    """Return the name of the adapter that a person means: its name, its label or an alias, whatever
    its capitals and signs (`claude-code`, `Claude`); None if no adapter has that name."""
    if text in names():  # The others are loaded only for what is no name.
        return text
    wanted = _letters(text)
    for name in names() if wanted else ():
        with suppress(ConfigError):  # One that cannot be loaded has only its name.
            adapter = get(name)
            if wanted in map(_letters, (name, adapter.label, *adapter.aliases)):
                return name
    return None


def describe_unknown(name: str) -> str:
    """Return a message for a name that is no agent's, with the one that may be meant."""
    near = get_close_matches(name.lower(), names(), 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"there is no agent {name!r}; {meant}there are: {', '.join(names())}"


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def integration(name: str) -> Integration:
    """Return how this agent is made to call us. Raises ConfigError when that is not known."""
    adapter = get(name)
    settings = adapter.integration()
    if settings is None:
        raise ConfigError(f"runlore does not know how to add itself to {adapter.label}")
    return settings


def is_appended(name: str, path: str) -> bool:
    """Return True if a source is only appended to; False when its adapter is not installed any
    more."""
    try:
        return get(name).is_appended(path)
    except ConfigError:
        return False


def instructions(name: str) -> tuple[str, ...]:
    """Return the files that this agent reads at the start of every session in their folder or
    below; none where that is not known, or its adapter is not installed any more."""
    try:
        return get(name).instructions
    except ConfigError:
        return ()


def _load_foreign(name: str, foreign: EntryPoint) -> Adapter:
    try:
        adapter = foreign.load()
    except Exception as error:  # Someone else's code: whatever it raises, the message names it.
        raise ConfigError(
            f"adapter {name!r} from {foreign.value} cannot be loaded: {error}"
        ) from error
    if not isinstance(adapter, Adapter):
        raise ConfigError(f"adapter {name!r} from {foreign.value} must derive from runlore.Adapter")
    return adapter


@cache
def _foreign() -> dict[str, EntryPoint]:
    """Return the adapters of other packages. Importing importlib.metadata is slow, so it is asked
    only when a package has any."""
    if not any(GROUP in text for text in _entry_point_files()):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _entry_point_files() -> Iterator[str]:
    """Yield the text of every installed package's list of entry points."""
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
