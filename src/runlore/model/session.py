"""One run of an agent: its name, its facts, its cost and its watermarks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

import msgspec
from msgspec.structs import force_setattr

from ..errors import ModelError
from .value import Value, check_times, check_types

SCHEMA_VERSION = 3
"""1: the first. 2: digests carry error snippets. 3: cache tokens in two buckets, analysis names
what it covers."""

Outcome = Literal["success", "fail", "abandoned", "unknown"]
OutcomeLevel = Literal["verified", "observed", "said", "unknown"]
"""How an outcome is known. Verified: a person, the run itself, CI or git says so. Observed: it
follows from what was run. Said: it follows from a person's last words."""
OutcomeBy = Literal[
    "mark", "run", "merged", "reverted", "ci",
    "test", "end", "exit", "shipped", "errors", "interrupted", "silent",
    "said", "",
]  # fmt: skip
"""The kind of evidence behind an outcome, strongest first within its level: a person's mark; the
status that a run gave itself; a merged or a reverted change; CI; the last run of tests; how the
program that ran the agent ended; exit codes; a commit, push or pull request; errors that never went
away; an interruption; a prompt without a reply; the user's last words; nothing."""
Relation = Literal["fork", "subagent", "continuation"]

OUTCOMES: frozenset[str] = frozenset(get_args(Outcome))
OUTCOME_BY: tuple[str, ...] = get_args(OutcomeBy)
RELATIONS: frozenset[str] = frozenset(get_args(Relation))


class Cost(Value, frozen=True, kw_only=True):
    """The cost of a session."""

    input_tokens: int = 0
    """Without what came from a cache."""
    output_tokens: int = 0
    cache_tokens: int = 0
    """Read and written."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    usd: float | None = None
    """The cost of its calls, without its subagents; None if no price is known."""
    wall_clock_s: float = 0.0
    turns: int = 0
    """Prompts of a person, each with what followed. Slash commands are not counted."""
    retries: int = 0

    @property
    def total_tokens(self) -> int:
        """All tokens; reasoning is a part of output."""
        return self.input_tokens + self.output_tokens + self.cache_tokens

    def __post_init__(self) -> None:
        check_types(self)
        # Data of schema 2 has only the sum. Newer data has the parts, and the sum follows from
        # them.
        if self.cache_read_tokens or self.cache_write_tokens:
            force_setattr(self, "cache_tokens", self.cache_read_tokens + self.cache_write_tokens)


class Session(Value, frozen=True, kw_only=True):
    """One run of an agent. Fields that the agent did not record are None.

    The watermarks discovered → ingested → analyzed → evicted are set in this order and never go
    back. `analyzed_*` name the content that the digest covers: a session that has grown since is
    stale, and is not evictable.
    """

    TIMES: ClassVar[frozenset[str]] = frozenset(
        {
            "started_at",
            "ended_at",
            "source_missing_at",
            "git_at",
            "discovered_at",
            "ingested_at",
            "analyzed_at",
            "evicted_at",
        }
    )
    WATERMARKS: ClassVar[tuple[str, ...]] = (
        "discovered_at",
        "ingested_at",
        "analyzed_at",
        "evicted_at",
    )

    session_uid: str
    """`agent:native id`; names the session everywhere."""
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
    """How it ended: success, fail, abandoned, unknown."""
    outcome_level: str = "unknown"
    """How the outcome is known: verified, observed, said, unknown."""
    outcome_by: str = ""
    """The kind of evidence: mark, run, merged, reverted, ci, test, end, exit, shipped, errors,
    interrupted, silent, said; empty without any."""
    outcome_evidence: str | None = None
    """The evidence behind the outcome, in words."""
    quality: str | None = None
    """real, trivial, automated, one_shot, subagent; None until it has a digest."""
    pinned: bool = False
    """True if it must not be evicted. Set by people with `runlore mark`, like the next four."""
    name: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    marked_outcome: Outcome | None = None
    """The outcome that a person gave it. It counts before all other evidence."""
    git_state: str | None = None
    """What the repository says about its commits: open, merged, reverted; None without commits."""
    git_note: str | None = None
    """The commit that shows it."""
    git_at: datetime | None = None
    """When the repository was asked."""
    cost: Cost = msgspec.field(default_factory=Cost)
    task_ref: str | None = None
    """The issue or task that it was about."""
    source_path: str | None = None
    source_bytes: int = 0
    source_missing_at: datetime | None = None
    """Since when the agent has no transcript of it any more."""
    parent_uid: str | None = None
    """The session that it came out of."""
    relation: Relation | None = None
    """Its relation to the parent: fork, subagent, continuation."""
    machine: str | None = None
    author: str | None = None
    events: int = 0
    errors: int = 0
    last_seq: int = -1
    content_hash: str = ""
    """A chain over all events."""
    discovered_at: datetime | None = None
    ingested_at: datetime | None = None
    analyzed_at: datetime | None = None
    analyzed_seq: int | None = None
    """The last event that its digest covers."""
    analyzed_hash: str | None = None
    evicted_at: datetime | None = None
    """When its text left the store, or a part of it. Its digest is kept."""
    schema_version: int = SCHEMA_VERSION

    @property
    def called(self) -> str | None:
        """The name that a person gave it, or else its own title."""
        return self.name or self.title

    def __post_init__(self) -> None:
        check_types(self)
        uid = make_uid(self.flavor, self.native_session_id)
        if self.outcome not in OUTCOMES:
            raise ModelError(
                f"outcome {self.outcome!r} is not one of {', '.join(sorted(OUTCOMES))}"
            )
        if self.session_uid != uid:
            raise ModelError(
                f"session_uid {self.session_uid!r} must be {uid!r}, from its flavor and native id"
            )
        if self.relation is not None and self.relation not in RELATIONS:
            raise ModelError(
                f"relation {self.relation!r} is not one of {', '.join(sorted(RELATIONS))}"
            )
        check_times(self)
        self._check_watermarks()

    def _check_watermarks(self) -> None:
        last: tuple[str, datetime] | None = None
        for n, name in enumerate(self.WATERMARKS):
            value: datetime | None = getattr(self, name)
            if value is None:
                continue
            # A session may be known without having been discovered by a sweep (a live log, an
            # import), so the first mark is optional. From `ingested_at` on each needs the one
            # before.
            if n > 1 and getattr(self, self.WATERMARKS[n - 1]) is None:
                raise ModelError(f"{name} is set but {self.WATERMARKS[n - 1]} is not")
            # An analysis that names its content stays valid for it, even when the session grew
            # since.
            if (
                last is not None
                and value < last[1]
                and not (name == "analyzed_at" and self.analyzed_seq is not None)
            ):
                raise ModelError(f"{name} lies before {last[0]}")
            last = max((name, value), last or (name, value), key=lambda mark: mark[1])

    @property
    def is_evictable(self) -> bool:
        """True if the digest covers everything stored and nothing has been dropped yet."""
        return self.analyzed_at is not None and self.evicted_at is None and not self.is_stale

    @property
    def is_stale(self) -> bool:
        """True if there is content that no digest covers."""
        return self.analyzed_at is None or (self.analyzed_seq, self.analyzed_hash) != (
            self.last_seq,
            self.content_hash,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        data = _upgrade(dict(data))
        cost = data.pop("cost", None)
        if cost is not None and not isinstance(cost, Mapping):
            raise ModelError(f"cost {cost!r} must be an object")
        session = super().from_dict(data)
        return msgspec.structs.replace(session, cost=Cost.from_dict(cost)) if cost else session


def level_of(by: str) -> OutcomeLevel:
    """Return how well an outcome is known by this kind of evidence."""
    if by in ("mark", "run", "merged", "reverted", "ci"):
        return "verified"
    return "unknown" if not by else "said" if by == "said" else "observed"


class HasOutcome(Protocol):
    """A session, a line of a list, or a digest."""

    @property
    def outcome(self) -> str: ...
    @property
    def outcome_level(self) -> str: ...
    @property
    def outcome_by(self) -> str: ...


def describe_outcome(session: HasOutcome) -> str:
    """Return an outcome with how it is known, as in `success (observed: tests)`."""
    evidence = describe_evidence(session)
    return f"{session.outcome} ({evidence})" if evidence else session.outcome


def describe_evidence(session: HasOutcome) -> str:
    """Return how an outcome is known, as in `observed: tests`; empty if it is unknown."""
    level, by = session.outcome_level, session.outcome_by
    if session.outcome == "unknown":
        return ""
    return f"{level}: {_WORDS.get(by, by)}" if by and by != level else level


_WORDS = {"test": "tests", "mark": "marked", "ci": "CI", "exit": "exit codes"}


def is_evictable(session: Session) -> bool:
    """Return True if Tier 1 may drop this session: its digest covers exactly what is stored."""
    return session.is_evictable


def make_uid(flavor: str, native: str) -> str:
    """Return the unique name of a session, `"<flavor>:<native id>"`.

    Raises ModelError for an invalid part.
    """
    if not _FLAVOR.match(flavor):
        raise ModelError(f"flavor {flavor!r} must be lower-case letters, digits, '_', '.' or '-'")
    if not native or native != native.strip() or not native.isprintable():
        raise ModelError(f"native session id {native!r} must be printable, and not empty")
    return f"{flavor}:{native}"


_FLAVOR = re.compile(r"[a-z0-9][a-z0-9_.-]*\Z")


def _upgrade(data: dict[str, Any]) -> dict[str, Any]:
    """Bring a session of an older schema to this one.

    A newer one stays as it is, with its new fields in `extra`.
    """
    version = data.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int):
        raise ModelError(f"schema_version {version!r} must be a number")
    if version < 3:
        # Schema 2 did not record what an analysis covered. Without `analyzed_seq` it covers nothing
        # and is redone.
        data["schema_version"] = SCHEMA_VERSION
    return data
