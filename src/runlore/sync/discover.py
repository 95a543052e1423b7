"""Every source of the agents' sessions, and where they were looked for. Looks at folders; knows no
store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from .. import adapters
from ..adapters import Adapter, Source
from ..config import Config, absolute
from ..errors import ConfigError


class Found(msgspec.Struct, kw_only=True):
    sources: list[Source]
    """In the order in which they were last written: what was written first is read first, and a
    copy then finds its original stored."""
    agents: dict[str, int]
    """How many there are of each agent."""
    looked_in: set[tuple[str, str]]
    """Agents and their folders."""
    refused: set[str]
    """Folders and files that could not be looked at: what lies below is not known to be gone."""
    problems: list[tuple[str, str]]


def find(config: Config, agents: Sequence[str] = (), roots: Sequence[str] = ()) -> Found:
    """Of these agents, or of all that are not disabled. What cannot be looked at is a problem, and
    no exception. Raises ConfigError when an agent that was asked for is set up wrongly."""
    sources: dict[tuple[str, str], Source] = {}
    found = Found(sources=[], agents={}, looked_in=set(), refused=set(), problems=[])
    for name in agents or adapters.names():
        setting = config.sources.get(name)
        if setting is not None and not setting.enabled and not agents:
            continue
        try:
            adapter = adapters.get(name)
            for root, machine in find_roots(config, adapter, roots):
                found.looked_in.add((name, str(root)))
                for source in adapter.discover(root):
                    if machine is not None:
                        source = msgspec.structs.replace(source, machine=machine)
                    if sources.setdefault((name, source.path), source) is source:
                        found.agents[name] = found.agents.get(name, 0) + 1
                for error in adapter.refused:
                    found.refused.add(error.path)
                    if (problem := (error.path, error.reason)) not in found.problems:
                        found.problems.append(problem)
        except Exception as error:
            # An adapter is someone else's code: its failure costs its sources, not the sync.
            if agents and isinstance(error, ConfigError):
                raise
            found.problems.append(
                (
                    name,
                    f"{error}"
                    if isinstance(error, ConfigError)
                    else f"{type(error).__name__}: {error}",
                )
            )
    found.sources = sorted(
        sources.values(), key=lambda source: (source.mtime_ns, source.path, source.agent)
    )
    return found


def find_roots(
    config: Config, adapter: Adapter, roots: Sequence[str] = ()
) -> list[tuple[Path, str | None]]:
    """Where to look for an agent's sessions, each with the machine they come from: given,
    configured, or its own."""
    if roots:
        return [(absolute(root), None) for root in roots]
    return config.roots_of(adapter.name, adapter.find_roots)
