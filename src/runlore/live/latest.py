"""The end of a conversation, and its branches, read without the rest of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ..model import LogRecord, Plain
from .backend import SessionLog
from .tree import MESSAGES, Tree
from .views import find_usage, is_self_contained

MARGIN = 8
"""Number of messages that are read beyond those asked for: results that belong to earlier calls."""
SOME_MESSAGES = 64
"""Number of messages at the end in which usage is looked for first."""

Find = Callable[[int], LogRecord | None]
"""Return the record with a seq."""


class Branch(Plain, frozen=True, kw_only=True):
    """A line of the conversation; `rewind(to=branch.tip)` goes there."""

    tip: str
    """Its last record, which `rewind` takes."""
    seq: int
    parent: int
    """The record at which it left another line, or -1."""
    messages: int
    is_active: bool
    ts: datetime


def last_nodes(
    log: SessionLog, ranges: list[tuple[int, int]], last: int
) -> Iterator[list[LogRecord]]:
    """Yield ever more messages from the end of these ranges, which can be shown by themselves.

    The first that make `last` messages in view are enough. When all have been read, nothing more
    is yielded.
    """
    count = max(last, 1) + MARGIN
    while True:
        nodes, is_all = _nodes_from_end(log, ranges, count)
        if is_all:
            return
        # A stream that began further up is left out.
        start = next((n for n, node in enumerate(nodes) if node.type == "message"), len(nodes))
        if len(nodes) - start >= last and is_self_contained(nodes[start:]):
            yield nodes[start:]
        count *= 4


def last_usage(tree: Tree, log: SessionLog, find: Find) -> Mapping[str, Any] | None:
    """Return the last usage in view: of a message, or of a request that is in no message."""
    _, ranges = tree.visible(tree.seq)
    for count in (SOME_MESSAGES, tree.seq + 1):
        for node in reversed(_nodes_from_end(log, ranges, count)[0]):
            if node.seq > tree.usage_seq and (usage := find_usage(node.payload)) is not None:
                return usage
        if any(low <= tree.usage_seq <= high for low, high in ranges):
            record = find(tree.usage_seq)
            return find_usage(record.payload) if record is not None else None
    return None


def find_branches(tree: Tree, find: Find) -> list[Branch] | None:
    """Return the branches of a conversation; None if the record at the end of one is damaged."""
    head = tree.last_node(tree.seq)
    branches = []
    for tip, parent, count in sorted(tree.tips()):
        record = find(tip)
        if record is None:
            return None
        branches.append(
            Branch(
                tip=record.id,
                seq=tip,
                parent=parent,
                messages=count,
                is_active=tip == head,
                ts=record.ts,
            )
        )
    return branches


def _nodes_from_end(
    log: SessionLog, ranges: list[tuple[int, int]], count: int
) -> tuple[list[LogRecord], bool]:
    """Return about `count` messages from the end of these ranges, and True if there are no more."""
    nodes: list[LogRecord] = []
    for low, high in reversed(ranges):
        while low <= high:
            start = max(low, high - count + 1)
            nodes = log.collect(start, high, MESSAGES) + nodes
            high = start - 1
            if len(nodes) >= count:
                return nodes, False
    return nodes, True
