"""Show the agents that runlore can read.

For each: the folders that are searched for its sessions, and how much is stored, subagents
included. With --json an array of agents (docs/json.md).
"""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime

import click

from ... import config as settings
from ... import query
from ...errors import StoreMissing
from ...store import open_for_reading
from ...text.words import ago, count, size
from ..options import as_json
from ..output import Column, echo, one_line, paint, table, warn, write_json


@click.command(help=__doc__)
@as_json(list[query.AgentFacts], items="")
def command(is_json: bool) -> None:
    config = settings.load()
    try:
        with closing(open_for_reading(config.store)) as store:
            rows = query.agents(store, config)
    except StoreMissing:  # Before the first sync, people ask where runlore looks.
        rows = query.agents(None, config)
    if is_json:
        write_json(rows)
        return
    # Agents on this machine come first.
    rows.sort(key=lambda row: not row.sessions and not row.is_there)
    head, *lines = as_table(rows)
    echo(paint(head, "dim"))
    echo("\n".join(lines))
    for row in rows:
        if row.not_understood:
            warn(describe_unread(row))


def describe_unread(row: query.AgentFacts) -> str:
    return (
        f"{row.name}: {count(row.not_understood, 'file')}, none understood; `runlore sync --agent"
        f" {row.name}` says why, and a newer runlore may understand more"
    )


def as_table(rows: list[query.AgentFacts]) -> list[str]:
    now = datetime.now(UTC)
    columns = [
        Column("AGENT", [row.name for row in rows]),
        Column("SESSIONS", [f"{row.sessions:,}" for row in rows], right=True),
        Column("SOURCES", [f"{row.sources:,}" for row in rows], right=True, leaves=2),
        Column("SIZE", [size(row.source_bytes) for row in rows], right=True),
        Column("SYNCED", [ago(row.last_sync, now) if row.last_sync else "never" for row in rows]),
        Column(
            "VERSION", [one_line(row.version_seen or "") for row in rows], max_width=14, leaves=4
        ),
        Column(
            "DELETES",
            [f"after {row.keeps_days} days" if row.keeps_days else "" for row in rows],
            leaves=1,
        ),
        Column("DOES NOT TELL", [", ".join(row.lacks) for row in rows], max_width=36, leaves=3),
        Column("LOOKED FOR IN", [describe_roots(row) for row in rows]),
    ]
    return table(columns)


def describe_roots(row: query.AgentFacts) -> str:
    if not row.enabled:
        return "switched off in config.toml"
    there = [root.path for root in row.roots if root.exists]
    absent = [root.path for root in row.roots if not root.exists]
    if there or not absent:  # An agent that is looked for by a pattern may have no folder to name.
        return ", ".join(map(from_home, there)) or "not there"
    return f"not there: {', '.join(map(from_home, absent))}"


def from_home(path: str) -> str:
    home = os.path.expanduser("~") + os.sep
    return one_line(f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path)
