"""What --json prints: one declaration for each form of each command's answer.

docs/json.md is written from these, --fields is checked against them, and the tests hold every command to them. They are a contract:
fields are added, none is renamed or taken away. The lines of a docstring that begin with a field's name say what it means.
Nothing here is imported to print an answer as it is.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from . import digests, errors, lessons, live, retro, sessions, spent, stored


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A form of an answer. `items` names the list from which --max-tokens takes items and which --offset counts; "" is the answer itself.
    `whole` says how to get a text that was cut; a stream is one value on each line."""

    type: Any
    items: str | None = None
    whole: str | None = None
    is_stream: bool = False


_EVENT = "`runlore show UID#SEQ --json` has an event with its whole text"
_RECORD = "without --max-tokens every text is whole"

SHAPES: dict[str, dict[str, Shape]] = {
    "agents": {"": Shape(type=list[stored.Agent], items="")},
    "autostart": {"": Shape(type=stored.Autostart)},
    "backup": {"": Shape(type=stored.Backup)},
    "commit": {"": Shape(type=sessions.Commit, items="sessions", whole=_EVENT)},
    "copy": {"": Shape(type=stored.Copied)},
    "demo": {"": Shape(type=stored.Demo)},
    "doctor": {"": Shape(type=stored.Doctor, items="checks")},
    "errors": {"": Shape(type=errors.Errors, items="errors")},
    "export": {"": Shape(type=stored.Exported)},
    "evict": {"": Shape(type=stored.Evicted, items="sessions"), "--back": Shape(type=list[str])},
    "file": {"": Shape(type=sessions.File, items="sessions")},
    "fix": {"": Shape(type=errors.Fixes, items="errors")},
    "forget": {"": Shape(type=stored.Forget, items="sessions")},
    "hooks install": {"": Shape(type=stored.Installed)},
    "hooks remove": {"": Shape(type=stored.Installed)},
    "hooks status": {"": Shape(type=list[stored.Integration], items="")},
    "lessons add": {"": Shape(type=list[lessons.Lesson], items="")},
    "lessons approve": {"": Shape(type=list[lessons.Lesson], items="")},
    "lessons edit": {"": Shape(type=list[lessons.Lesson], items="")},
    "lessons list": {"": Shape(type=list[lessons.Lesson], items="")},
    "lessons merge": {"": Shape(type=list[lessons.Lesson], items="")},
    "lessons propose": {"": Shape(type=lessons.ProposedLessons, items="lessons")},
    "lessons reject": {"": Shape(type=list[lessons.Lesson], items="")},
    "lessons render": {"": Shape(type=lessons.RenderedLessons)},
    "lessons retire": {"": Shape(type=list[lessons.Lesson], items="")},
    "lessons show": {"": Shape(type=lessons.Lesson)},
    "live checkpoints": {
        "": Shape(type=list[live.Checkpoint], items=""),
        "--compare": Shape(type=live.Difference),
        "--prune": Shape(type=list[str], items=""),
    },
    "live fork": {"": Shape(type=live.Forked)},
    "live ls": {"": Shape(type=list[live.LiveSession], items="")},
    "live recover": {"": Shape(type=list[live.Recovered], items="")},
    "live rewind": {"": Shape(type=live.Rewound)},
    "live show": {"": Shape(type=live.Conversation, items="messages", whole=_RECORD)},
    "live state": {"": Shape(type=live.State), "--history": Shape(type=list[live.Step], items="")},
    "live tail": {"": Shape(type=live.Record, items="", is_stream=True, whole=_RECORD)},
    "ls": {"": Shape(type=list[sessions.Session], items="")},
    "mark": {"": Shape(type=stored.Marked)},
    "measure": {"": Shape(type=lessons.Measured, items="fleet")},
    "mcp install": {"": Shape(type=stored.Installed)},
    "mcp remove": {"": Shape(type=stored.Installed)},
    "mcp status": {"": Shape(type=list[stored.Integration], items="")},
    "patterns": {"": Shape(type=list[stored.Pattern], items="")},
    "resume": {"": Shape(type=sessions.Resume)},
    "retro": {"": Shape(type=retro.Retro)},
    "search": {
        "": Shape(type=sessions.Search, items="hits", whole=_EVENT),
        "--events": Shape(type=sessions.FlatSearch, items="events", whole=_EVENT),
    },
    "serve": {"": Shape(type=stored.Served)},
    "secrets": {"": Shape(type=list[stored.Leak], items="")},
    "show": {
        "": Shape(type=sessions.Transcript, items="events", whole=_EVENT),
        "--event": Shape(type=sessions.Event, whole="without --max-tokens its text is whole"),
        "--context": Shape(type=list[sessions.SeenEvent], items="", whole=_EVENT),
        "--digest": Shape(type=digests.Digest),
    },
    "skills": {
        "": Shape(type=list[live.Rate], items=""),
        "--history": Shape(type=live.History, items="entries"),
    },
    "sync": {
        "": Shape(type=stored.Sync, items="problems"),
        "--watch": Shape(type=stored.Sync, is_stream=True),
    },
    "up": {"": Shape(type=stored.Served)},
    "usage": {
        "": Shape(type=spent.Report, items="rows"),
        "--explain": Shape(type=spent.Explanation, items="calls"),
        "--check": Shape(type=spent.Doubts),
        "--wasted": Shape(type=spent.Wasted),
        "--reprice": Shape(type=spent.Repriced),
        "--refresh-prices": Shape(type=spent.Refreshed),
    },
}
"""By command, and then by the option that asks for another form."""


# ── what a type has ──────────────────────────────────────────────────────────────────────────────────────────────────
def fields_of(kind: Any) -> dict[str, Any]:
    """The fields below a type, each with its own; of an object with any keys one that is called `*`."""
    kind = item_of(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return hints_of(kind)
    if kind is Any:
        return {"*": Any}
    return {"*": get_args(kind)[1]} if get_origin(kind) is dict else {}


@cache
def hints_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}


def item_of(kind: Any) -> Any:
    """What a field holds, without null and without the list around it."""
    if get_origin(kind) in (Union, UnionType):
        rest = [one for one in get_args(kind) if one is not NoneType]
        return item_of(rest[0]) if len(rest) == 1 else kind
    return item_of(get_args(kind)[0]) if get_origin(kind) is list else kind
