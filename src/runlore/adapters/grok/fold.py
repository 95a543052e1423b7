"""The fold over one file of a Grok Build session: the session of a file, the name of a record, and
what it follows.

Knows the sidecars about the whole session, and nothing of the meaning of a record: `updates.py`,
`chat.py` and `events.py` do, each for one file, and call `emit` for every event.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

import msgspec

from ...model import Relation
from ...text.remotes import remote_name
from .. import Facts, Normalized, Source
from ..shared.fold import AllFields, Fold, keep, load
from ..shared.jsonl import parse
from ..shared.pick import clean, milliseconds, pick

CARRY = 3
"""The layout of `State`; changed only together with the adapter's `version`, which reads every
source anew."""

# What is remembered between two reads, the oldest going first.
CALLS, REPEATS, TURNS = 256, 256, 500


class Call(msgspec.Struct, array_like=True, gc=False):
    """A call whose result may still come."""

    tool: str
    action: str
    is_test: bool = False
    answers: bool = False
    """True if its result is the decision of a person."""
    is_announced: bool = False
    """True as long as what it does is not known."""
    is_empty: bool = False
    """True if it was shown without arguments, which may still come."""


class State(msgspec.Struct, array_like=True):
    """Ids, names, paths and hashes; nothing that people wrote."""

    version: int = CARRY
    records: int = 0
    seq: int = 0
    session: str = ""
    last: str | None = None
    """The native id of the event that the next one follows."""
    cwd: str | None = None
    branch: str | None = None
    repo: str | None = None
    parent: str | None = None
    relation: Relation | None = None
    current: str | None = None
    """The model as the summary has it."""
    model: str | None = None
    """The model as the last record that named one has it."""
    created: int | None = None
    titled: int = 0
    """The rank of the title that the summary has."""
    anchor: str = ""
    """The last id that a record had."""
    repeats: dict[bytes, int] = {}
    """How often each record without an id was read since, by its hash."""
    calls: dict[str, Call] = {}
    turns: list[tuple[str | None, str]] = []
    """For each turn that no rewind has retracted, the event before it and its first event."""
    forgotten: int = 0
    """The number of turns that are no longer in the list."""
    is_marked: bool = False
    """True after a prompt with a number: from then on, those without one are not typed by a
    person."""
    in_prompt: bool = False
    prompt: int | None = None
    is_rewound: bool = False
    branch_at: str | None = None
    """Since the last rewind, the event that the next prompt follows."""
    progress: dict[str, str] = {}
    """The last state of a goal or a workflow."""
    is_compacted: bool = False
    """True after the first record of the current compaction."""
    opened: int | None = None
    """The number of the turn that began last, -1 for one without a number: a picture may come
    before the typed text."""


class GrokFold(Fold[State]):
    """A fold over the records of one file. All that outlives a batch is in `state`; the rest is
    about the current record."""

    is_second = False
    """True if another file of the session is its transcript: this one then only adds its events."""
    rank: int | None = 0
    """The rank of the source: see `Facts.rank`."""

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, State, CARRY))
        self.folder, _, self.file = source.path.rpartition(os.sep)
        self.files: dict[str, str] = {}
        """Texts of the sidecars of the next record, by name."""

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        self.parent = self.state.last

    def end_record(self) -> None:
        self.files.clear()

    # The session.

    def sidecar(self, name: str, data: bytes) -> None:
        if name not in ("summary", "cwd", "parent", "signals"):
            self.files[name] = data.decode("utf-8", "replace")
            return
        state = self.state
        if name == "cwd":
            state.cwd = state.cwd or data.decode("utf-8", "replace").strip()[:4096] or None
        value = next((value for value, _, _ in parse(data) if isinstance(value, dict)), {})
        if name == "summary":
            self.summary(value)
        elif name == "parent" and state.parent is None:
            state.parent, state.relation = (
                self.uid(clean(pick(value, "session", of=str) or "unknown")),
                "subagent",
            )
        elif name == "signals":
            state.current = state.current or pick(value, "primaryModelId", of=str) or None

    def summary(self, value: dict[str, Any]) -> None:
        """Take in the file about the whole session, which the program rewrites often."""
        state = self.state
        if not state.session:
            state.session = name_of(self.folder, pick(value, "info", "id", of=str))
        state.cwd = pick(value, "info", "cwd", of=str) or state.cwd
        state.branch = pick(value, "head_branch", of=str) or state.branch
        state.current = pick(value, "current_model_id", of=str) or state.current
        state.repo = repo_of(pick(value, "git_remotes", of=list) or []) or state.repo
        state.created = milliseconds(pick(value, "created_at", of=str)) or state.created
        parent, kind = (
            pick(value, "parent_session_id", of=str),
            pick(value, "session_kind", of=str) or "",
        )
        if kind.startswith("subagent"):
            state.relation = "subagent"
        if parent and (name := clean(parent)) != state.session:
            state.parent, state.relation = self.uid(name), state.relation or "fork"
        self.set_title(pick(value, "session_summary", of=str), 1)
        if title := pick(value, "generated_title", of=str):
            state.titled = 3 if value.get("title_is_manual") is True else 2
            self.set_title(title, state.titled, is_summary=True)

    def set_title(self, text: str | None, rank: int, *, is_summary: bool = False) -> bool:
        """Set the title. That of the summary is always the latest."""
        if rank <= self.state.titled and not is_summary:
            return False
        return super().set_title(text, rank)

    def session(self, named: str | None = None) -> str:
        """Return the session of this file, which is set once; a record may have named it."""
        state = self.state
        if not state.session:
            state.session = name_of(self.folder, named)
        return state.session

    # Events.

    def identify(self, native: str | None) -> None:
        """Name the current record by its own id, when it has one."""
        if native:
            self.native_id = self.state.anchor = native
            if self.state.repeats:
                self.state.repeats.clear()

    def new_id(self) -> str:
        """Return an id for a record that has none: the same wherever the file is cut."""
        state = self.state
        key = blake2b(self.raw_bytes(), digest_size=8).digest()
        again = state.repeats.get(key, 0)
        keep(state.repeats, key, again + 1, REPEATS)
        anchor = f"{self.session()}/{self.file}/{state.anchor}"
        return (
            "~"
            + blake2b(
                b"%s\n%d\n%s" % (anchor.encode("utf-8", "replace"), again, key), digest_size=8
            ).hexdigest()
        )

    def stream(self) -> State:
        return self.state

    def stream_uid(self) -> str:
        return self.uid(self.session())

    def annotate(self, fields: AllFields) -> None:
        if self.state.relation == "subagent":
            fields["is_sidechain"] = True

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        title, rank = (None, 0) if self.is_second else self.title
        # Before its first line there is no session.
        if state.seq if self.is_second else state.records:
            session = self.session()
            out.facts[self.uid(session)] = Facts(
                native_session_id=session, title=title, title_rank=rank,
                cwd=state.cwd or place_of(self.folder),
                git_branch=state.branch, model=state.current or state.model, repo=state.repo,
                parent_uid=state.parent,
                relation=state.relation, rank=self.rank,
            )  # fmt: skip
        return self.pack()


_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


def is_uuid(name: str) -> bool:
    return _UUID.match(name) is not None


def name_of(folder: str, named: str | None) -> str:
    """Return the name of a session: that of its folder. If that is no UUID, somebody has moved it,
    and the name in its files counts."""
    own = folder.rpartition(os.sep)[2]
    return own if is_uuid(own) else clean(named or "") or clean(own) or "unknown"


def place_of(folder: str) -> str | None:
    """Return the working folder that is encoded in the name of the folder above, or None."""
    above = folder.rpartition(os.sep)[0].rpartition(os.sep)[2]
    if not above.startswith("%2F") and above[1:4] != "%3A":
        return None
    path = unquote(above, errors="replace")
    return path if path.isprintable() else None


def repo_of(remotes: list[Any]) -> str | None:
    """Return `owner/name` from the first address of a repository, which has several forms."""
    for remote in remotes:
        url = remote if isinstance(remote, str) else pick(remote, "url", of=str) or ""
        if name := remote_name(url):
            return name
    return None
