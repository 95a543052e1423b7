"""Find every source of the agents' sessions. This looks at folders, and knows no store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .. import adapters
from ..adapters import Adapter, Source
from ..config import Config, absolute
from ..errors import ConfigError


class Discovery(msgspec.Struct, kw_only=True):
    """The sources of some agents, and the folders in which they were looked for."""

    sources: list[Source] = []
    """In the order in which they were last written: what was written first is read first, so that
    the original of a copy is stored before the copy."""
    agents: dict[str, int] = {}
    """The number of sources of each agent."""
    searched: set[tuple[str, str]] = set()
    """Agents and their folders."""
    refused: set[str] = set()
    """Folders and files that could not be looked at. What lies below them is not known to be
    gone."""
    problems: list[tuple[str, str]] = []

    def may_hide(self, path: str) -> bool:
        """Return True if a path is, or lies below, one that could not be looked at."""
        return any(
            path == place or path.startswith(place.rstrip(os.sep) + os.sep)
            for place in self.refused
        )


def find_sources(
    config: Config, agents: Sequence[str] = (), roots: Sequence[str] = ()
) -> Discovery:
    """Return the sources of these agents, or of all that are enabled.

    Files that cannot be examined are listed as problems. Raises ConfigError if an agent in
    `agents` is not configured correctly.
    """
    discovery = Discovery()
    sources: dict[tuple[str, str], Source] = {}
    for name in agents or adapters.names():
        setting = config.sources.get(name)
        if setting is not None and not setting.enabled and not agents:
            continue
        try:
            _discover_agent(config, adapters.get(name), roots, discovery, sources)
        except Exception as error:
            # An adapter is someone else's code: its failure costs its sources, not the sync.
            is_config = isinstance(error, ConfigError)
            if agents and is_config:
                raise
            reason = f"{error}" if is_config else f"{type(error).__name__}: {error}"
            discovery.problems.append((name, reason))
    discovery.sources = sorted(
        sources.values(), key=lambda source: (source.mtime_ns, source.path, source.agent)
    )
    return discovery


def _discover_agent(
    config: Config,
    adapter: Adapter,
    roots: Sequence[str],
    discovery: Discovery,
    sources: dict[tuple[str, str], Source],
) -> None:
    """Add the sources of one agent."""
    name = adapter.name
    for root, machine in find_roots(config, adapter, roots):
        discovery.searched.add((name, str(root)))
        for source in map(adapter.aged, adapter.discover(root)):
            if machine is not None:
                source = msgspec.structs.replace(source, machine=machine)
            if sources.setdefault((name, source.path), source) is source:
                discovery.agents[name] = discovery.agents.get(name, 0) + 1
        for error in adapter.refused:
            discovery.refused.add(error.path)
            if (problem := (error.path, error.reason)) not in discovery.problems:
                discovery.problems.append(problem)


def find_roots(
    config: Config, adapter: Adapter, roots: Sequence[str] = ()
) -> list[tuple[Path, str | None]]:
    """Return the folders in which to look for an agent's sessions, each with its machine.

    They are the given ones, else the configured ones, else the agent's own.
    """
    if roots:
        return [(absolute(root), None) for root in roots]
    return config.roots_of(adapter.name, adapter.find_roots)
