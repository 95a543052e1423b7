"""What each type of record holds, and the JSON Schema of a log, for programs in other languages.

Other types, and other fields of these, are allowed: readers keep what they do not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from .run_records import SHAPES as RUN_SHAPES
from .skill_fold import ATTEMPT_FINISHED, ATTEMPT_STARTED, FINISHED, STARTED, WHOLE, SkillAttempt

Seq = Annotated[int, msgspec.Meta(ge=0)]
Place = Annotated[int, msgspec.Meta(ge=-1)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
SCHEMA_ID = "https://runlore.dev/live-format/1"


class Blob(msgspec.Struct):
    """A reference to `outputs/<sha256>`."""

    sha256: Sha256
    size_bytes: Seq


class Session(msgspec.Struct):
    """The first record of a log."""

    version: Literal[1]
    title: str | None = None
    provider: str | None = None
    model: str | None = None
    cwd: str | None = None
    api_base: str | None = None
    agent: str | None = None
    parent: str | None = None
    """Of a subagent: the id of the session that started it."""
    call: str | None = None
    """The id of the tool call there."""
    origin: dict[str, Any] | None = None
    """Of a fork: session, record and seq where it began."""


class Message(msgspec.Struct):
    """A message."""

    role: str
    content: str | list[Any]


class Partial(msgspec.Struct):
    """A stream so far, which the next one replaces; or a part of it, of which all parts count."""

    role: str
    content: str | list[Any] | None = None
    stream: str | None = None
    """Of a part: the id of the stream."""
    delta: list[Any] | None = None
    """Of a part: the blocks that are new."""


class Rewind(msgspec.Struct):
    """The conversation goes on right after record `seq`; -1 is its beginning."""

    seq: Place
    record: str | None = None
    """The id of that record."""


class Redo(msgspec.Struct):
    """The conversation goes on where it was before a rewind: right after record `seq`."""

    seq: Seq


class Compact(msgspec.Struct):
    """A summary in place of what is in view up to record `upto`."""

    summary: str
    upto: Place
    compacted_count: Seq | None = None
    usage: dict[str, Any] | None = None


class Clear(msgspec.Struct):
    """Nothing before this record is in view."""


class Title(msgspec.Struct):
    title: str


class ToolStarted(msgspec.Struct):
    """A tool is about to run."""

    call_id: str
    name: str = ""
    input: Any = None
    replay: Literal["never", "safe"] = "never"
    owner: dict[str, Any] | None = None
    """The process that runs it."""


class ToolWaiting(msgspec.Struct):
    call_id: str
    reason: str = "approval"


class ToolDecided(msgspec.Struct):
    """Someone approved or refused a call."""

    call_id: str
    approved: bool
    by: str = ""
    payload: Any = None


class ToolFinished(msgspec.Struct):
    call_id: str
    output: Any = None
    is_error: bool = False
    whole: Blob | None = None
    """The whole of an output of which `output` has head and tail."""


class Lease(msgspec.Struct):
    """The lease was taken, or released."""

    epoch: Annotated[int, msgspec.Meta(ge=1)]
    owner: str | None = None
    pid: int | None = None
    host: str | None = None
    released: bool = False


class ModelStarted(msgspec.Struct):
    """A request to a model begins."""

    model: str | None = None
    request: Any = None


class ModelFinished(msgspec.Struct):
    """The usage of a request, in the words of its provider."""

    usage: dict[str, Any]
    started: str | None = None
    """The id of the record of `model_started`."""
    model: str | None = None
    duration_ms: Seq | None = None


class Meta(msgspec.Struct):
    """Changes of what the first record says of the session, by name; null removes one."""


class Redacted(msgspec.Struct):
    """The content of a record was overwritten."""

    record: str
    seq: Seq
    type: str


class Values(msgspec.Struct):
    """Named values that were set or deleted: of an app or a user, in a log of their own."""

    set: dict[str, Any] = {}
    delete: list[str] = []


class Moved(msgspec.Struct):
    """The session was moved to the trash, or restored from it."""


class SkillStarted(msgspec.Struct):
    run: str
    skill: str
    phase: str | None = None
    input: Any = None
    project_root: str | None = None
    file_path: str | None = None
    model_used: str | None = None


class SkillAttemptStarted(msgspec.Struct):
    run: str
    attempt: Seq


class SkillAttemptFinished(SkillAttempt, frozen=True, kw_only=True):
    run: str


class SkillFinished(msgspec.Struct):
    run: str
    final_status: str


class SkillWhole(msgspec.Struct):
    """A whole invocation of another program, recorded after it ended."""

    skill: str
    final_status: str


PAYLOADS: dict[str, type[msgspec.Struct]] = {
    "session": Session,
    "message": Message,
    "partial": Partial,
    "rewind": Rewind,
    "redo": Redo,
    "compact": Compact,
    "clear": Clear,
    "title": Title,
    "meta": Meta,
    "redacted": Redacted,
    "values": Values,
    "tool_started": ToolStarted,
    "tool_waiting": ToolWaiting,
    "tool_decided": ToolDecided,
    "tool_finished": ToolFinished,
    "model_started": ModelStarted,
    "model_finished": ModelFinished,
    "lease": Lease,
    "deleted": Moved,
    "restored": Moved,
    STARTED: SkillStarted,
    ATTEMPT_STARTED: SkillAttemptStarted,
    ATTEMPT_FINISHED: SkillAttemptFinished,
    FINISHED: SkillFinished,
    WHOLE: SkillWhole,
    **RUN_SHAPES,
}
"""The payload of each type of record."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a line of a log."""
    shapes = list(dict.fromkeys(PAYLOADS.values()))
    refs, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    ref_of = dict(zip(shapes, refs, strict=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "A line of a live session log",
        "oneOf": [
            {"$ref": "#/$defs/Line", "required": ["n"]},
            {"$ref": "#/$defs/Batch"},
        ],
        "$defs": {
            "Record": _record(),
            "Line": {
                "$ref": "#/$defs/Record",
                "properties": {"c": _CHECKSUM},
                "allOf": [{"$ref": "#/$defs/Payloads"}],
            },
            "Batch": {
                "type": "object",
                "properties": {
                    "b": {
                        "type": "array",
                        "minItems": 2,
                        "items": {
                            "$ref": "#/$defs/Record",
                            "allOf": [{"$ref": "#/$defs/Payloads"}],
                        },
                    },
                    "c": _CHECKSUM,
                },
                "required": ["b"],
            },
            "Payloads": {
                "allOf": [
                    {
                        "if": {"properties": {"t": {"const": type}}},
                        "then": {"properties": {"p": ref_of[shape]}},
                    }
                    for type, shape in PAYLOADS.items()
                ]
            },
            **definitions,
        },
    }


_CHECKSUM = {"type": "string", "pattern": "^[0-9a-f]{8}$"}


def _record() -> dict[str, Any]:
    return {
        "description": "A record. The names are in this order.",
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "description": "seq"},
            "i": {"type": "string", "pattern": "^[0-9A-Za-z_-]{1,64}$", "description": "id"},
            "d": {"type": "string", "format": "date-time", "description": "the writer's clock"},
            "t": {"type": "string", "minLength": 1, "description": "type"},
            "k": {"type": "string", "description": "the writer's key"},
            "e": {"type": "integer", "minimum": 1, "description": "epoch of the lease"},
            "p": {"type": "object", "description": "payload"},
        },
        "required": ["n", "i", "d", "t", "p"],
    }
