"""Pure values: what a session is and what happened in it.

Nothing here reads a file, opens a database or knows an agent's name; of ours only `errors` is imported, and the parts of a digest.
Values are frozen and check themselves when they are made, so a bad state cannot be built, changed into, or saved. A field that a
newer runlore wrote and this one does not know is kept in `extra` and written back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self, get_args

import msgspec
from msgspec.structs import force_setattr

from .._units import USD as USD
from .._units import parse_time as parse_time
from ..errors import MissingField, ModelError
from .digest import Commit, Covers, ErrorSeen, Fix, Moment, Ran, Tested, Told, Took, Touched

SCHEMA_VERSION = 3
"""1: the first. 2: digests carry error snippets. 3: cache tokens in two buckets, analysis names what it covers."""

Kind = Literal[
    "user_msg", "assistant_msg", "thinking", "tool_call", "tool_result", "error", "test_run", "edit", "retry",
    "human_intervention", "decision", "lifecycle", "completion",
]  # fmt: skip
Outcome = Literal["success", "fail", "abandoned", "unknown"]
Relation = Literal["fork", "subagent", "continuation"]
View = Literal["context", "summary", "compact", "clear", "retract"]

KINDS: frozenset[str] = frozenset(get_args(Kind))
OUTCOMES: frozenset[str] = frozenset(get_args(Outcome))
RELATIONS: frozenset[str] = frozenset(get_args(Relation))
CALL_KINDS: frozenset[str] = frozenset({"tool_call", "edit", "test_run"})
"""`edit` and `test_run` are tool calls with a better name: a question about tool calls is about all three."""

BLOCK = 1 << 20
"""How many sequence numbers one native stream may use before it needs a further block."""

_FLAVOR = re.compile(r"[a-z0-9][a-z0-9_.-]*\Z")
_OWN = re.compile(r"\Arunlore\Z|(?<![a-z0-9])runlore[_.:/-]+(?:search|sessions|show|file|commit|usage|fix|lessons|propose_lesson)\Z")


@lru_cache(maxsize=256)
def is_own(tool: str | None) -> bool:
    """Whether this is a tool of runlore's own MCP server, under whatever name an agent calls it (`mcp__runlore__search`), or a line that
    a hook of ours gave it (`runlore`). What it answered is recorded like all else, but is no evidence: a search would find answers."""
    if tool is None or "runlore" not in tool.lower():  # Nearly all.
        return False
    return _OWN.search(tool.lower()) is not None


def make_uid(flavor: str, native: str) -> str:
    """The one name of a session, `"<flavor>:<native id>"`. Raises ModelError when either part cannot be one."""
    if not _FLAVOR.match(flavor):
        raise ModelError(f"flavor {flavor!r} must be lower-case letters, digits, '_', '.' or '-'")
    if not native or native != native.strip() or not native.isprintable():
        raise ModelError(f"native session id {native!r} must be printable, and not empty")
    return f"{flavor}:{native}"


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """What all values share: to and from plain data, with unknown fields kept."""

    TIMES: ClassVar[frozenset[str]] = frozenset()

    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 with Z. Unknown fields stand where they were found."""
        out = dict(self.extra)
        for name in self.__struct_fields__:
            if name != "extra":
                out[name] = _plain(getattr(self, name))
        return out

    def to_json(self) -> str:
        """The same value always gives the same text: keys are sorted, everything outside ASCII is escaped."""
        import json  # 2 ms that few commands need.

        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Raises MissingField for a required field that is not there, ModelError for one that cannot be right."""
        known, extra = {}, {}
        for name, value in data.items():
            if name in cls.__struct_fields__ and name != "extra":
                known[name] = parse_time(value) if name in cls.TIMES and value is not None else value
            else:
                extra[name] = value
        missing = [name for name in _required(cls) if name not in known]
        if missing:
            raise MissingField(f"{cls.__name__} needs {', '.join(missing)}")
        return cls._load(known, extra)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Reads what `to_json` wrote, also when an older or a newer version wrote it."""
        import json

        try:
            data = json.loads(text)
        except ValueError as error:
            raise ModelError(f"{cls.__name__}: not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ModelError(f"{cls.__name__} must be a JSON object")
        return cls.from_dict(data)

    @classmethod
    def _load(cls, known: dict[str, Any], extra: dict[str, Any]) -> Self:
        try:
            # convert() checks the types of the fields, the constructor the rules between them.
            return msgspec.convert({**known, "extra": extra}, cls)
        except msgspec.ValidationError as error:
            raise ModelError(f"{cls.__name__}: {error}") from None


@cache
def _required(kind: type[_Value]) -> tuple[str, ...]:
    """The fields that a value must be given. Asking msgspec takes half a millisecond each time."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of one API call, in buckets that do not overlap (reasoning is a part of output)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


Tier = Literal["fast", "priority", "flex", "batch"]

MAX_TOKENS = 10**11
MAX_UNITS = 10**17
"""Of one call. A strange transcript may say anything; what is stored must fit 64 bits, also when it is summed."""


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One API call, as the ledger keeps it. The buckets do not overlap; `reasoning_tokens` is a part of output.

    `key` is the same in every copy of the call and on every machine, and unique within the flavor. `is_sum` marks a figure that
    stands for several requests, so that no price by prompt length can be placed. `invoiced` is what the provider said it charged.
    """

    key: str
    session_uid: str
    seq: int = -1
    ts: datetime | None = None
    provider: str | None = None
    model: str | None = None
    tier: Tier | None = None
    region: Literal["us"] | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    web_searches: int = 0
    is_sidechain: bool = False
    is_sum: bool = False
    invoiced: int | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        if len(self.provider or "") > LONGEST_NAME or len(self.model or "") > LONGEST_NAME or len(self.request_id or "") > LONGEST_NAME:
            for name in _NAMES:
                text: str | None = getattr(self, name)
                force_setattr(self, name, text and text[:LONGEST_NAME])
        counts = _counts_of(self)
        if min(counts) < 0 or max(counts) > MAX_TOKENS:
            for name, count in zip(_COUNTS, counts, strict=True):
                force_setattr(self, name, min(max(count, 0), MAX_TOKENS))
        if self.invoiced is not None and not 0 <= self.invoiced <= MAX_UNITS:
            force_setattr(self, "invoiced", min(max(self.invoiced, 0), MAX_UNITS))
        if self.ts is not None and self.ts.tzinfo is not UTC:
            force_setattr(self, "ts", parse_time(self.ts))

    @property
    def flavor(self) -> str:
        return self.session_uid.partition(":")[0]

    @property
    def prompt_tokens(self) -> int:
        """All that the model was given: what decides a price by prompt length."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.output_tokens


LONGEST_NAME = 200
_NAMES = ("provider", "model", "request_id")
_COUNTS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens",
    "web_searches",
)  # fmt: skip
_counts_of = attrgetter(*_COUNTS)


def split_cache_writes(total: int, in_5m: int, in_1h: int) -> tuple[int, int]:
    """Cache writes for 5 minutes and for an hour, from a sum and its parts. Some transcripts have zeros for the parts beside
    a real sum, others parts without a sum: the larger figure is true, and what no part claims was written for 5 minutes."""
    return max(total - in_1h, in_5m), in_1h


def to_units(usd: object) -> int | None:
    """An amount in USD as an integer of 1e-12 USD; None for what cannot be one."""
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not 0 <= usd <= MAX_UNITS // USD:
        return None
    return round(usd * USD)


class Cost(_Value, frozen=True, kw_only=True):
    """What a session took. `usd` stays None until a price is known; `cache_tokens` is read + write."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    usd: float | None = None
    wall_clock_s: float = 0.0
    turns: int = 0
    retries: int = 0

    def __post_init__(self) -> None:
        # Data of schema 2 knows only the sum; newer data knows the parts, and the sum follows from them.
        if self.cache_read_tokens or self.cache_write_tokens:
            force_setattr(self, "cache_tokens", self.cache_read_tokens + self.cache_write_tokens)


class Session(_Value, frozen=True, kw_only=True):
    """One run of an agent. What the agent left unsaid is None.

    The watermarks discovered → ingested → analyzed → evicted are set in this order and never go back. `analyzed_*` name
    the content that the digest covers: a session that has grown since is stale, and is not evictable.
    """

    TIMES: ClassVar[frozenset[str]] = frozenset(
        {"started_at", "ended_at", "source_missing_at", "discovered_at", "ingested_at", "analyzed_at", "evicted_at"}
    )
    WATERMARKS: ClassVar[tuple[str, ...]] = ("discovered_at", "ingested_at", "analyzed_at", "evicted_at")

    session_uid: str
    flavor: str
    native_session_id: str
    title: str | None = None
    repo: str | None = None
    domain: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: Outcome = "unknown"
    outcome_evidence: str | None = None
    quality: str | None = None
    pinned: bool = False
    """The next four are what people say of it: `runlore mark`."""
    name: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    cost: Cost = msgspec.field(default_factory=Cost)
    task_ref: str | None = None
    source_path: str | None = None
    source_bytes: int = 0
    source_missing_at: datetime | None = None
    parent_uid: str | None = None
    relation: Relation | None = None
    machine: str | None = None
    author: str | None = None
    events: int = 0
    errors: int = 0
    last_seq: int = -1
    content_hash: str = ""
    discovered_at: datetime | None = None
    ingested_at: datetime | None = None
    analyzed_at: datetime | None = None
    analyzed_seq: int | None = None
    analyzed_hash: str | None = None
    evicted_at: datetime | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def called(self) -> str | None:
        """What it is shown as: the name that somebody gave it, else its own title."""
        return self.name or self.title

    def __post_init__(self) -> None:
        uid = make_uid(self.flavor, self.native_session_id)
        if self.outcome not in OUTCOMES:
            raise ModelError(f"outcome {self.outcome!r} is not one of {', '.join(sorted(OUTCOMES))}")
        if self.session_uid != uid:
            raise ModelError(f"session_uid {self.session_uid!r} must be {uid!r}, as its flavor and native id say")
        if self.relation is not None and self.relation not in RELATIONS:
            raise ModelError(f"relation {self.relation!r} is not one of {', '.join(sorted(RELATIONS))}")
        _check_aware(self)
        self._check_watermarks()

    def _check_watermarks(self) -> None:
        last: tuple[str, datetime] | None = None
        for n, name in enumerate(self.WATERMARKS):
            value: datetime | None = getattr(self, name)
            if value is None:
                continue
            # A session may be known without having been discovered by a sweep (a live log, an import), so the first
            # mark is optional; from `ingested_at` on each needs the one before.
            if n > 1 and getattr(self, self.WATERMARKS[n - 1]) is None:
                raise ModelError(f"{name} is set but {self.WATERMARKS[n - 1]} is not")
            # An analysis that names its content is good for that, also when the session was written to since.
            if last is not None and value < last[1] and not (name == "analyzed_at" and self.analyzed_seq is not None):
                raise ModelError(f"{name} lies before {last[0]}")
            last = max((name, value), last or (name, value), key=lambda mark: mark[1])

    @property
    def is_evictable(self) -> bool:
        """True when the digest covers everything stored and nothing has been dropped yet."""
        return self.analyzed_at is not None and self.evicted_at is None and not self.is_stale

    @property
    def is_stale(self) -> bool:
        """True when there is content that no digest covers."""
        return self.analyzed_at is None or (self.analyzed_seq, self.analyzed_hash) != (self.last_seq, self.content_hash)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        data = _upgrade(dict(data))
        cost = data.pop("cost", None)
        if cost is not None and not isinstance(cost, Mapping):
            raise ModelError(f"cost {cost!r} must be an object")
        session = super().from_dict(data)
        return msgspec.structs.replace(session, cost=Cost.from_dict(cost)) if cost else session


def is_evictable(session: Session) -> bool:
    """Whether Tier 1 may drop this session: its digest covers exactly what is stored."""
    return session.is_evictable


class Digest(_Value, frozen=True, kw_only=True):
    """What is kept of a session when its bulk is gone. Made by rules alone, and the same whenever it is made from the same.

    `covers` names the content it was made from. Lists are cut, each with what matters most left in it; `cut` says by name how many more
    there were. What a session cost is in the ledger, and is not said here a second time.
    """

    TIMES: ClassVar[frozenset[str]] = frozenset({"made_at"})

    session_uid: str
    version: int
    """Of the rules that made it: what older ones made is made again as long as there is something to make it from."""
    covers: Covers
    made_at: datetime | None = None
    """Set by the store. It is no part of what is compared."""
    goal: str | None = None
    """The first prompt that asks for something."""
    goal_seq: int | None = None
    title: str | None = None
    files_read: tuple[str, ...] = ()
    files_edited: tuple[str, ...] = ()
    files_created: tuple[str, ...] = ()
    commands: tuple[Ran, ...] = ()
    tests: tuple[Tested, ...] = ()
    commits: tuple[Commit, ...] = ()
    pull_requests: tuple[Moment, ...] = ()
    edits: dict[str, int] = msgspec.field(default_factory=dict)
    """How often a file was changed that was changed several times."""
    slow: tuple[Took, ...] = ()
    tools: dict[str, int] = msgspec.field(default_factory=dict)
    actions: dict[str, int] = msgspec.field(default_factory=dict)
    kinds: dict[str, int] = msgspec.field(default_factory=dict)
    subagents: tuple[Moment, ...] = ()
    wall_s: float = 0.0
    active_s: float = 0.0
    """Without the times when nobody did anything."""
    interventions: tuple[Moment, ...] = ()
    corrections: tuple[Moment, ...] = ()
    """What a person said next that rejects or redirects what was done."""
    told: tuple[Told, ...] = ()
    """Lessons that it asked for and was given."""
    decisions: tuple[Moment, ...] = ()
    retries: int = 0
    compactions: int = 0
    errors: tuple[ErrorSeen, ...] = ()
    fixes: tuple[Fix, ...] = ()
    outcome: Outcome = "unknown"
    outcome_level: str | None = None
    """What the outcome rests on: test, shipped, said …"""
    outcome_confidence: float = 0.0
    outcome_evidence: tuple[int, ...] = ()
    outcome_reason: str = ""
    quality: str | None = None
    excerpts: tuple[Moment, ...] = ()
    """Of the events that errors and fixes cite, by seq."""
    cut: dict[str, int] = msgspec.field(default_factory=dict)
    dead_ends: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """What led nowhere, by why: `retries`, `failed`: of each attempt its event, and the first and the last of the blocks that the model
    made with it in one go; `abandoned`: of each stretch its first event, the same once more, and its last."""
    waste: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """The calls that led nowhere, by why, as they were written down when events left before version 9."""
    secrets: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """By kind, a keyed hash for each time that one was redacted. This and the next are written when the events leave, and only they
    would know."""
    secrets_at: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """By kind, the first events that they stood in."""
    touched: tuple[Touched, ...] = ()
    """What was done to files."""
    ends: tuple[int, ...] = ()
    """The last event of each block of numbers, when they left."""
    before: Digest | None = None
    """What was known when events left that did not come back. All of it is in this digest too, with what happened since."""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ModelError(f"outcome {self.outcome!r} is not one of {', '.join(sorted(OUTCOMES))}")
        _check_aware(self)

    def knows(self, seq: int) -> bool:
        """Whether an event was there when this was made, or when the events that it was made from left."""
        ends = {end // BLOCK: end for end in self.ends}
        return seq <= ends.get(seq // BLOCK, self.covers.last_seq)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        rest = dict(data)
        before = rest.pop("before", None)
        made = super().from_dict(rest)
        return msgspec.structs.replace(made, before=cls.from_dict(before)) if isinstance(before, Mapping) else made


class Tests(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a test run reported. None means that the output did not say."""

    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None


class SessionEvent(_Value, frozen=True, kw_only=True, gc=False):
    """One thing that happened: a native block of the transcript, with its text kept apart in a body.

    `parent_seq` is always smaller than `seq`, so the events of a session form a forest and never a cycle. `view` says
    what an event does to the model's context, for the kinds that are otherwise not part of it: `context` (the model saw
    this text), `summary` (it stands for what was compacted), `compact` (everything before leaves, but for the native
    ids in `refs`), `clear` (the results of the calls in `refs` were emptied), `retract` (the native ids in `refs` were
    taken back).
    """

    TIMES: ClassVar[frozenset[str]] = frozenset({"ts"})

    session_uid: str
    seq: int
    ts: datetime | None = None
    kind: str = "lifecycle"
    parent_seq: int | None = None
    role: str | None = None
    tool: str | None = None
    summary: str | None = None
    payload_ref: str | None = None
    tokens: int = 0
    is_sidechain: bool = False
    native_id: str | None = None
    call_id: str | None = None
    action: str | None = None
    is_error: bool = False
    exit_code: int | None = None
    duration_ms: int | None = None
    files: tuple[str, ...] = ()
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    native: str | None = None
    origin: str | None = None
    usage: Usage | None = None
    tests: Tests | None = None
    view: str | None = None
    refs: tuple[str, ...] = ()
    is_gone: bool = False
    record: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ModelError(f"kind {self.kind!r} is not one of {', '.join(sorted(KINDS))}")
        if self.seq < 0:
            raise ModelError(f"seq {self.seq} must not be negative")
        if self.parent_seq is not None and not 0 <= self.parent_seq < self.seq:
            raise ModelError(f"parent_seq {self.parent_seq} must lie in front of seq {self.seq}")
        ts = self.ts
        if ts is not None and ts.tzinfo is not UTC:
            _check_aware(self)

    @property
    def is_call(self) -> bool:
        return self.kind in CALL_KINDS

    @classmethod
    def _load(cls, known: dict[str, Any], extra: dict[str, Any]) -> Self:
        kind = known.get("kind", "lifecycle")
        if not isinstance(kind, str) or kind in KINDS:
            return super()._load(known, extra)
        # A kind that a newer runlore knows: it cannot be made here, but it can be kept.
        event = super()._load({**known, "kind": "lifecycle"}, extra)
        force_setattr(event, "kind", kind)
        return event


class LogRecord(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,  # A log is loaded by the ten thousands, and a record holds no way back to itself.
    rename={"seq": "n", "id": "i", "ts": "d", "type": "t", "key": "k", "epoch": "e", "payload": "p"},
):
    """One record of a live session log. On disk the names are single letters: a log is mostly payload.

    `seq` counts from 0 without gaps over everything in the session, and is the only order; `ts` is what the clock said. `id` is
    24 hex digits that grow with `seq`, unique over all sessions but for the records that a fork took along. `type` is an open
    set: what this version does not know is kept and handed out. `key` is the writer's own, for appends that may be tried
    again; `epoch` tells under which exclusive lease the record was written.
    """

    seq: int
    id: str
    ts: datetime
    type: str
    key: str | None = None
    epoch: int | None = None
    payload: dict[str, Any]


SUMMARY_LENGTH = 160
"""Of a summary or a title. Adapters give them longer: a secret that is cut in half is no longer known as one."""


def shorten(text: str) -> str:
    """A summary or a title as it is kept and shown."""
    return text if len(text) <= SUMMARY_LENGTH else text[: SUMMARY_LENGTH - 1] + "…"


def format_time(value: datetime) -> str:
    """As `_units` has it, in a tenth of the time: millions of events have one."""
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC)
    text: str = msgspec.to_builtins(value)  # It leaves out a fraction of nothing.
    return text if value.microsecond else f"{text[:-1]}.000000Z"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, _Value):
        return value.to_dict()
    return msgspec.to_builtins(value)


def _check_aware(value: _Value) -> None:
    for name in value.TIMES:
        moment: datetime | None = getattr(value, name)
        if moment is None:
            continue
        if moment.tzinfo is None:
            raise ModelError(f"{name} {moment} must be an aware time")
        if moment.tzinfo is not UTC:
            force_setattr(value, name, moment.astimezone(UTC))


def _upgrade(data: dict[str, Any]) -> dict[str, Any]:
    """Brings a session of an older schema to this one. A newer one is taken as it is: what it adds stays in `extra`."""
    version = data.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int):
        raise ModelError(f"schema_version {version!r} must be a number")
    if version < 3:
        # What an analysis of schema 2 covered was not recorded: with no `analyzed_seq` it covers nothing, and is redone.
        data["schema_version"] = SCHEMA_VERSION
    return data
