"""Teams of Claude Code: which session leads the one that a line belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

TEAM_MARK = b'"teamName":'
LEAD = "team-lead"
"""The name of the lead in its team."""
FROM_LEAD = re.compile(rf'\s*<teammate-message\s[^>]*teammate_id="{LEAD}"')

_FIRST = re.compile(rb'"parentUuid"\s*:\s*null')
_TEAM = re.compile(rb'"teamName"\s*:\s*"([A-Za-z0-9_-][A-Za-z0-9._-]{0,99})"')
_MEMBER = re.compile(rb'"agentName"\s*:\s*"')
_BEGINS = re.compile(r"session-([0-9a-f]{8})\Z")


def team_of(line: bytes) -> str | None:
    """Return the team of a member, if this line begins its conversation."""
    if not _FIRST.search(line) or not _MEMBER.search(line):
        return None
    found = _TEAM.search(line)
    return found[1].decode() if found else None


class Note(msgspec.Struct, gc=False):
    """The program's note about a team, without its members and what they were asked."""

    leadSessionId: str | None = None


def lead_of(note: bytes) -> str | None:
    """Return the id of the session that leads a team, from the note about it."""
    try:
        return msgspec.json.decode(note, type=Note).leadSessionId or None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def lead_in(names: Iterable[str], team: str, suffix: str) -> str | None:
    """Return the id of the session after which a team is named, from the names of files; None if
    there is none, or more than one."""
    found = _BEGINS.match(team)
    if found is None:
        return None
    begin = f"{found[1]}-"
    ids = [
        name.removesuffix(suffix)
        for name in names
        if name.startswith(begin) and name.endswith(suffix)
    ]
    return ids[0] if len(ids) == 1 else None
