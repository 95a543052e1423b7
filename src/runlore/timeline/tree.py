"""Sessions as a tree: subagents below the session that started them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..model import Session


class Node(msgspec.Struct, frozen=True):
    """A session in the tree of sessions, with its subagents below it."""

    session: Session
    children: list[Node]
    follows: str | None = None
    """The session that this one is a fork or a continuation of, whether or not it is in the
    list."""


def nest(sessions: Iterable[Session]) -> list[Node]:
    """Return subagents under the session that started them, all others side by side.

    The order given is kept. A session whose parent is not in the list is a root. If parents form a
    circle, one of them becomes a root.
    """
    nodes = [
        Node(session, [], None if session.relation == "subagent" else session.parent_uid)
        for session in sessions
    ]
    by_uid: dict[str, Node] = {}
    for node in nodes:
        by_uid.setdefault(node.session.session_uid, node)
    parents = _find_parents(by_uid)
    roots: list[Node] = []
    for node in nodes:
        parent = parents[node.session.session_uid]
        (roots if parent is None else by_uid[parent].children).append(node)
    return roots


def walk(nodes: Iterable[Node]) -> Iterator[tuple[int, Node]]:
    """Yield every node with its depth, each before its children: the order of a list."""
    rest = [(0, node) for node in nodes][::-1]
    while rest:
        depth, node = rest.pop()
        yield depth, node
        rest.extend((depth + 1, child) for child in reversed(node.children))


def _find_parents(by_uid: dict[str, Node]) -> dict[str, str | None]:
    """Return for each session the one above it, without circles."""
    parents: dict[str, str | None] = {}
    for uid, node in by_uid.items():
        parent = node.session.parent_uid
        parents[uid] = parent if node.session.relation == "subagent" and parent in by_uid else None
    checked: set[str] = set()
    for uid in parents:
        path: set[str] = set()
        here: str | None = uid
        while here is not None and here not in checked and here not in path:
            path.add(here)
            here = parents[here]
        if here in path:
            parents[here] = None
        checked |= path
    return parents
