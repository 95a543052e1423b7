"""The arguments of each tool. The types are both the schema that clients see and the check of what
they send.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from ...errors import RunloreError
from ...model import BLOCK
from ...usage import By
from . import cursor as cursors
from .fitting import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS

LAST_SEQ = BLOCK << 20
"""No session has an event with a higher number."""


class BadArguments(RunloreError):
    """The arguments do not fit the tool's schema."""

    code = "bad_arguments"
    hint = "the tool's schema says what it takes"


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_tokens: Annotated[
        int, Meta(ge=MIN_TOKENS, le=MAX_TOKENS, description="Room for the answer, in tokens.")
    ] = DEFAULT_TOKENS
    cursor: Annotated[
        str,
        Meta(
            max_length=cursors.MAX_LENGTH,
            description="From an answer that has more; all other arguments as before.",
        ),
    ] = ""


def _text(description: str, max_length: int = 200, **more: Any) -> Meta:
    return Meta(max_length=max_length, description=description, **more)


Agent = Annotated[str, _text("Only of this agent, by any usual name.")]
Repo = Annotated[
    str, _text("Only in this repository: owner/name, or the name alone; * is a wildcard.")
]
Model = Annotated[str, _text("Only with this model, or a part of its name.")]
Cwd = Annotated[
    str, _text("Only in this folder and below (a whole path), or with this in its path.", 1_000)
]
Machine = Annotated[str, _text("Only from this machine.")]
Author = Annotated[str, _text("Only of this person.")]
Branch = Annotated[str, _text("Only on this git branch, or a part of its name.")]
Since = Annotated[str, _text("From then on: 3d, tuesday, last week, 2026-07, 2026-03-14.", 60)]
Until = Annotated[str, _text("Before then, in the same words.", 60)]
On = Annotated[str, _text("On this day, or in this week or month, in the same words.", 60)]


class Search(Arguments, frozen=True, kw_only=True):
    query: Annotated[
        str,
        _text(
            'Words, all of them wanted: word begin* "a phrase" a OR b -word, and fields.',
            2_000,
            min_length=1,
        ),
    ]
    agent: Agent = ""
    repo: Repo = ""
    cwd: Cwd = ""
    branch: Branch = ""
    model: Model = ""
    since: Since = ""
    until: Until = ""
    on: On = ""
    sort: Annotated[Literal["relevance", "newest"], Meta(description="What comes first.")] = (
        "relevance"
    )


class Sessions(Arguments, frozen=True, kw_only=True):
    agent: Agent = ""
    repo: Repo = ""
    cwd: Cwd = ""
    branch: Branch = ""
    model: Model = ""
    machine: Machine = ""
    author: Author = ""
    since: Since = ""
    until: Until = ""
    on: On = ""
    text: Annotated[str, _text("Only with this in the title or the folder.")] = ""
    errors: Annotated[bool, Meta(description="Only with errors.")] = False
    outcome: Annotated[
        Literal["", "success", "fail", "abandoned", "unknown"],
        Meta(description="Only those that ended so."),
    ] = ""
    subagents: Annotated[bool, Meta(description="Subagents' sessions too.")] = False
    sort: Annotated[
        Literal["ended", "started", "events", "errors", "tokens", "duration"],
        Meta(description="The most first."),
    ] = "ended"


class Show(Arguments, frozen=True, kw_only=True):
    session: Annotated[
        str,
        _text(
            "A uid, the beginning of one, `latest`, `latest:AGENT` or `latest:REPO`; uid#seq is one"
            " event, whole.",
            400,
            min_length=1,
        ),
    ]
    first: Annotated[int, Meta(ge=0, le=LAST_SEQ, description="The first event (its seq).")] = 0
    last: Annotated[int, Meta(ge=0, le=LAST_SEQ, description="The last event (its seq).")] = (
        LAST_SEQ
    )
    full: Annotated[bool, Meta(description="Long texts whole, and what is left out otherwise.")] = (
        False
    )
    context: Annotated[
        bool, Meta(description="With uid#seq: what the model saw when that event had happened.")
    ] = False


class File(Arguments, frozen=True, kw_only=True):
    path: Annotated[
        str,
        _text(
            "A whole path, or the end of one: main.py, src/main.py, */main.py.", 1_000, min_length=1
        ),
    ]


class Commit(Arguments, frozen=True, kw_only=True):
    sha: Annotated[
        str, _text("4 or more characters of its name.", 40, min_length=4, pattern="^[0-9a-fA-F]+$")
    ]


class Usage(Arguments, frozen=True, kw_only=True):
    by: Annotated[
        By,
        Meta(description="A row for each."),
    ] = "day"
    agent: Agent = ""
    repo: Repo = ""
    branch: Branch = ""
    model: Model = ""
    machine: Machine = ""
    author: Author = ""
    since: Since = ""
    until: Until = ""
    on: On = ""
    session: Annotated[str, _text("Only of this session and its subagents.", 400)] = ""


Path = Annotated[str, _text("The file that it is about, or the end of its path.", 1_000)]
ToolName = Annotated[str, _text("The tool that it is about.")]
ErrorText = Annotated[str, _text("The error that it is about, as it was printed.", 20_000)]


class Fix(Arguments, frozen=True, kw_only=True):
    error: Annotated[
        str, _text("The error as it was printed, or the log that it is in.", 20_000, min_length=1)
    ]
    repo: Annotated[
        str, _text("The repository you work in, owner/name: fixes of its sessions are told whole.")
    ] = ""


class Lessons(Arguments, frozen=True, kw_only=True):
    task: Annotated[str, _text("What is to be done, in a few words.", 2_000)] = ""
    path: Path = ""
    error: ErrorText = ""
    repo: Repo = ""
    tool: ToolName = ""
    agent: Agent = ""


class Propose(Arguments, frozen=True, kw_only=True):
    when: Annotated[
        str, _text("The situation, as an agent recognises it, in a sentence.", 1_000, min_length=1)
    ]
    do: Annotated[str, _text("What to do in it, in a few sentences.", 4_000, min_length=1)]
    avoid: Annotated[str, _text("What not to do, if that matters.", 1_000)] = ""
    evidence: Annotated[
        list[Annotated[str, Meta(max_length=400)]],
        Meta(
            min_length=1, max_length=12, description="Events that show it, as uid#seq; or sessions."
        ),
    ]
    error: ErrorText = ""
    repo: Repo = ""
    path: Path = ""
    tool: ToolName = ""
    agent: Agent = ""


Kind = TypeVar("Kind", bound=Arguments)


def schema(kind: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, without references."""
    _, components = msgspec.json.schema_components([kind])
    found: dict[str, Any] = components[kind.__name__]
    # Those of the tool itself first: what a model reads first is what it thinks of.
    properties = {
        name: found["properties"][name]
        for name in sorted(found["properties"], key=Arguments.__struct_fields__.__contains__)
    }
    for one in properties.values():
        one.pop("title", None)
        if one.get("default") in ("", False, LAST_SEQ):
            del one["default"]
    return {
        "type": "object",
        "properties": properties,
        "required": found.get("required", []),
        "additionalProperties": False,
    }


def check(kind: type[Kind], given: dict[str, Any] | None) -> Kind:
    """The arguments, checked. Null is as good as not given. Raises BadArguments."""
    present = {name: value for name, value in (given or {}).items() if value is not None}
    try:
        msgspec.json.encode(present)  # Text that no UTF-8 has, as half a surrogate, is not let in.
        return msgspec.convert(present, kind)
    except msgspec.ValidationError as error:
        raise BadArguments(str(error)) from None
    except (UnicodeEncodeError, TypeError, RecursionError):
        raise BadArguments("the arguments are not plain JSON in UTF-8") from None


def question(tool: str, args: Arguments) -> dict[str, Any]:
    """Return the arguments that a cursor is bound to: all but the cursor itself and the limit of
    tokens."""
    return {
        "tool": tool,
        **{
            name: value
            for name, value in msgspec.structs.asdict(args).items()
            if name not in Arguments.__struct_fields__
        },
    }
