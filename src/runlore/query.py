"""Every question a face may ask, whatever the store and whoever asks. Nothing here prints, and
nothing is written."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from subprocess import list2cmdline

import msgspec

from . import adapters
from .adapters import Adapter, Source
from .config import Config
from .errors import Ambiguous, NotFound, ReadError, RunloreError
from .finding import find_roots
from .model import BLOCK, Session, SessionEvent, format_time
from .naming import HANDLE, handle, names
from .places import Places
from .store import FORGOTTEN, Filter, SessionLine, SourceState, Store
from .text.clean import clean
from .timeline import Branch, ContextEvent, ToolCall, branches, model_context, pairs

CHOICE, TITLE = 4, 40
"""Of the sessions that a name may mean, so many are told, with so much of their titles."""

LOOKED_AT, FIRST_RECORDS, LONG_RECORD = 5, 20, 20_000
"""Of an agent's sources, of the records in one, and of the bytes in a record: where its version is
looked for."""
_VERSION = rb'version"\s*:\s*(?!null|true|false)"?([0-9A-Za-z][0-9A-Za-z.+-]{0,23})'
_VERSIONS = (
    re.compile(rb'"(?:cli_?|copilot_?|client_?|agent_?)' + _VERSION, re.IGNORECASE),
    re.compile(rb'"(?:(?:message_)?format_?|schema_?|protocol_?)?' + _VERSION, re.IGNORECASE),
)
"""That of the agent, and then what may be one, or that of its format."""

SYNCED = "synced"
"""The file whose time is that of the last whole sync of this machine: touching it is all that an
idle sync writes. It is empty unless that sync met something that could not be read."""

FRESH_S = 86_400
"""Transcripts that a sync this long ago could have read are stored, however old they are."""

RISK_DAYS = 7
"""So long before an agent deletes a transcript we warn that it is not stored."""

EMPTY = "the store is empty; run `runlore sync`, or `runlore demo` for something to look at"
"""What is said of a store without sessions, whatever was asked of it."""


# ── which session ─────────────────────────────────────────────────────────────────────────────────
def resolve(store: Store, name: str) -> str:
    """The uid that a person means: a uid, a native id, a unique beginning of either, `latest`,
    `latest:<agent or repo>`.

    Where a session and its subagents begin alike, the session is meant. Raises NotFound, Ambiguous.
    """
    if (word := name.lower()) == "latest" or word.startswith("latest:"):
        return _latest(store, name.partition(":")[2])
    # Agents write their ids in small letters, people as they like.
    found = (store.sessions.find(name) or store.sessions.find(word)) if name else []
    if not found and word.startswith(HANDLE) and len(word) > 1:
        found = [
            uid
            for uid in store.sessions.uids(Filter(parents_only=False))
            if handle(uid).startswith(word)
        ]
    above, slash, below = name.partition("/")
    # A subagent as a listing shows it: the session's short id, then its own.
    if not found and slash and above:
        found = store.sessions.find(f"{resolve(store, above)}/{below}")
    if len(found) > 1:
        own = [
            uid
            for uid in found
            if (session := store.sessions.get(uid)) is None or session.relation != "subagent"
        ]
        found = own or found
    if not found:
        raise NotFound(
            EMPTY if is_empty(store) else f"no session {name!r}; `runlore ls` lists them"
        )
    if len(found) > 1:
        raise Ambiguous(f"{name!r} may be {_choice(store, found)}; give more of the id")
    return found[0]


def _latest(store: Store, of: str) -> str:
    tries = [Filter(agent=of.lower()), Filter(repo=of)] if of else [Filter()]
    for chosen in tries:
        for line in store.sessions.select(chosen, limit=1):
            return line.uid
    raise NotFound(
        EMPTY
        if is_empty(store) or not of
        else f"no session of an agent or repository {of!r}; `runlore ls` lists them"
    )


def _choice(store: Store, uids: Sequence[str]) -> str:
    """A few sessions by the ids that tell them apart, with their titles."""
    titles = {uid: get(store, uid).called or "" for uid in uids[:CHOICE]}
    some = [
        f"{name} ({titles[uid][:TITLE]})" if titles[uid] else name
        for uid, name in names(store, list(titles)).items()
    ]
    return ", ".join(some) + (" or others" if len(uids) > CHOICE else "")


def is_empty(store: Store) -> bool:
    return not store.sessions.count(Filter(parents_only=False))


def split_name(name: str) -> tuple[str, int | None]:
    """`uid#seq` in its parts; a name without a number has none."""
    session, _, seq = name.rpartition("#")
    return (session, int(seq)) if session and seq.isdecimal() else (name, None)


def get(store: Store, uid: str) -> Session:
    session = store.sessions.get(uid)
    if session is None:
        raise NotFound(f"no session {uid!r}; `runlore ls` lists them")
    return session


def with_subagents(store: Store, uids: Iterable[str]) -> list[SessionLine]:
    """These sessions, and every subagent that they or their subagents started."""
    chosen: set[str] = set()
    rest = list(uids)
    every = {line.uid: line for line in store.sessions.select(Filter(parents_only=False))}
    below: dict[str, list[str]] = {}
    for line in every.values():
        if line.relation == "subagent" and line.parent_uid:
            below.setdefault(line.parent_uid, []).append(line.uid)
    while rest:
        uid = rest.pop()
        if uid in every and uid not in chosen:
            chosen.add(uid)
            rest += below.get(uid, ())
    # As a listing has them: the newest first.
    return [line for uid, line in every.items() if uid in chosen]


# ── one session ───────────────────────────────────────────────────────────────────────────────────
class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A session with all that happened in it."""

    session: Session
    events: list[SessionEvent]
    bodies: dict[int, str]
    branches: list[Branch]
    calls: list[ToolCall]
    children: list[SessionLine]
    """Sessions that came out of this one: subagents, forks, continuations."""
    names: dict[str, str]
    """Of this session, its children and what it came out of: the short ids, by uid."""


def transcript(store: Store, uid: str) -> Transcript:
    """Raises NotFound."""
    session = get(store, uid)
    events = store.sessions.events(uid)
    children = store.sessions.select(Filter(parent_uid=uid, parents_only=False), sort="started")[
        ::-1
    ]
    return Transcript(
        session=session,
        events=events,
        bodies=store.sessions.bodies(uid),
        branches=branches(events),
        calls=pairs(events),
        children=children,
        names=names(
            store, [uid, *filter(None, [session.parent_uid]), *(child.uid for child in children)]
        ),
    )


def event_at(store: Store, uid: str, seq: int) -> tuple[SessionEvent, str]:
    """One event and its body. Raises NotFound."""
    for event in store.sessions.events(uid, seq, seq):
        return event, store.sessions.bodies(uid, seq, seq).get(seq, "")
    raise NotFound(f"{uid} has no event {seq}; its last is {get(store, uid).last_seq}")


def has_text(store: Store, uid: str, seq: int | None) -> bool:
    """Whether something of this event is stored. Of one that has left it is what its digest
    quotes."""
    return seq is not None and bool(store.sessions.bodies(uid, seq, seq).get(seq))


def has_left(store: Store, uid: str, seq: int) -> bool:
    """Whether the text of an event was evicted, but for what its digest quotes."""
    digest = store.digests.get(uid) if get(store, uid).evicted_at else None
    return digest is not None and (digest.before or digest).knows(seq)


def context_at(store: Store, uid: str, seq: int) -> list[tuple[ContextEvent, str]]:
    """What the model saw when event `seq` had happened, each with its body. Raises NotFound."""
    event_at(store, uid, seq)
    bodies = store.sessions.bodies(uid, 0, seq)
    return [
        (seen, bodies.get(seen.event.seq, ""))
        for seen in model_context(store.sessions.events(uid, 0, seq), seq)
    ]


def raw_records(store: Store, uid: str, seq: int | None = None) -> Iterator[bytes]:
    """The native records of a session, or the one that an event came from. Raises NotFound when
    none are kept."""
    session = get(store, uid)
    place = None
    if seq is None:
        found = _all_records(store, session)
    else:
        event, _ = event_at(store, uid, seq)
        if event.origin is not None:
            origin, at = split_name(event.origin)
            yield from raw_records(store, origin, at)
            return
        place = store.sessions.record_of(uid, seq)
        found = (
            (data for _, _, data in store.sessions.native_records(place[0], place[1], place[1]))
            if place
            else iter(())
        )
    first = next(found, None)
    if first is None:
        path = place[0] if place else session.source_path
        raise NotFound(
            f"no native records of {uid} are kept; its source was {path or 'not a file'}"
        )
    yield first
    yield from found


def _all_records(store: Store, session: Session) -> Iterator[bytes]:
    """Of every file that the session has a part in; of one that a subagent shares with its parent
    only the subagent's own."""
    blocks: dict[int, list[SessionEvent]] = {}
    for event in store.sessions.events(session.session_uid):
        if event.record is not None:
            blocks.setdefault(event.seq // BLOCK, []).append(event)
    files: dict[str, set[int | None]] = {session.source_path or "": set()}
    for events in blocks.values():
        if place := store.sessions.record_of(session.session_uid, events[0].seq):
            files.setdefault(place[0], set()).update(event.record for event in events)
    parent = (
        store.sessions.get(session.parent_uid)
        if session.relation == "subagent" and session.parent_uid
        else None
    )
    shared = parent.source_path if parent else None
    for path, own in files.items():
        yield from (
            data
            for number, _, data in store.sessions.native_records(path)
            if path != shared or number in own
        )


def resume_command(session: Session) -> list[str]:
    """The words of the agent's own command that takes a session up. Raises RunloreError when it
    cannot be."""
    adapter = adapters.get(session.flavor)
    words = adapter.resume(session)
    if words is None:
        raise RunloreError(f"{adapter.label} has no command that takes a session up again")
    if session.native_session_id.startswith("-") or any(
        clean(word) != word for word in (*words, session.cwd or "")
    ):
        raise RunloreError(
            f"{session.session_uid}: its id or folder would not be safe on a command line"
        )
    return words


def in_shell(words: Sequence[str], cwd: str | None) -> str:
    """A command as one types it, in its folder."""
    there = (["cd", "/d", cwd] if os.name == "nt" else ["cd", cwd]) if cwd else []
    if os.name == "nt":
        return " && ".join(list2cmdline(part) for part in (there, words) if part)
    return " && ".join(shlex.join(part) for part in (there, words) if part)


# ── is it up to date ──────────────────────────────────────────────────────────────────────────────
class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Transcripts that their agent will soon delete, and that are not stored."""

    agent: str
    label: str
    sources: int
    keeps_days: int
    days_left: float


def synced_mark(config: Config) -> Path:
    """See `SYNCED`."""
    return config.home / SYNCED


def last_sync(config: Config) -> datetime | None:
    """When everything was last looked at; of a store that was filled in another way, when it was
    last written."""
    for path in (str(synced_mark(config)), os.path.expanduser(config.store)):
        try:
            return datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
        except (OSError, ValueError):
            continue
    return None


def sources_at_risk(store: Store, config: Config, now: datetime) -> list[Risk]:
    """For each agent that deletes its transcripts: how many are within a week of that and not
    stored.

    Cheap as long as syncs come often and can read everything: a transcript that is so old now was
    already there at a sync a day ago.
    """
    synced = last_sync(config) if _could_read_all(config) else None
    if synced is not None and (now - synced).total_seconds() < FRESH_S:
        return []
    found: list[Risk] = []
    settled = (None, FORGOTTEN, Places(config).excluded)
    for name in adapters.names():
        setting = config.sources.get(name)
        adapter = adapters.get(name)
        days = adapter.keeps_days
        if days is None or (setting is not None and not setting.enabled):
            continue
        oldest_safe = now - timedelta(days=max(1, days - RISK_DAYS))
        if synced is not None and synced > oldest_safe:
            continue
        known = store.sources.by_path(name)
        risky = [
            age
            for root, _ in find_roots(config, adapter)
            for source in adapter.discover(root)
            if (age := now.timestamp() - source.mtime_ns / 1e9)
            >= (now - oldest_safe).total_seconds()
            and not _is_stored(adapter, source, known.get(source.path), settled)
        ]
        if risky:
            left = days - max(risky) / 86_400
            found.append(
                Risk(
                    agent=name,
                    label=adapter.label,
                    sources=len(risky),
                    keeps_days=days,
                    days_left=max(0.0, round(left, 1)),
                )
            )
    return found


def _could_read_all(config: Config) -> bool:
    try:
        return os.stat(synced_mark(config)).st_size == 0
    except OSError:
        return True


def _is_stored(
    adapter: Adapter, source: Source, state: SourceState | None, settled: Sequence[str | None]
) -> bool:
    """Whether there is nothing in the source that a sync would still want."""
    if state is None or state.source.size != source.size or state.problem not in settled:
        return False
    if state.problem is not None or state.position.offset >= source.size:
        return True
    try:  # What is left may be a last line that was never finished.
        return next(iter(adapter.read(source, state.position)), None) is None
    except ReadError:
        return False


# ── what there is ─────────────────────────────────────────────────────────────────────────────────
FACETS = {
    "agent": "flavor",
    "repo": "repo",
    "branch": "git_branch",
    "model": "model",
    "outcome": "outcome",
    "quality": "quality",
    "machine": "machine",
}
"""What sessions can be chosen by, and the column that says it."""


class Day(msgspec.Struct, frozen=True, gc=False):
    """What was begun on a day: sessions without subagents, and the prompts in them."""

    sessions: int
    turns: int
    errors: int


def activity(store: Store, since: datetime, day_of: Callable[[datetime], date]) -> dict[date, Day]:
    """What was begun on each day since then. `day_of` says on which day a moment is where people
    are; it is asked for hours."""
    sql = (
        "select substr(started_at, 1, 13), count(*), sum(turns), sum(errors) from sessions"
        " where coalesce(relation, '') != 'subagent' and started_at >= ? group by 1"
    )
    found: dict[date, Day] = {}
    for hour, sessions, turns, errors in store.maintenance.rows(sql, (format_time(since),)):
        # Half past: some zones are half an hour off.
        day = day_of(datetime.fromisoformat(f"{hour}:30:00+00:00"))
        before = found.get(day, Day(0, 0, 0))
        found[day] = Day(
            before.sessions + int(sessions),
            before.turns + int(turns or 0),
            before.errors + int(errors or 0),
        )
    return found


def facets(store: Store, limit: int = 50) -> dict[str, list[tuple[str, int]]]:
    """Of each of FACETS the commonest values, and how many sessions have each. Subagents are not
    counted."""
    sql = (
        "select {0}, count(*) from sessions where coalesce(relation, '') != 'subagent' and {0} is"
        " not null group by {0} order by 2 desc, 1 limit ?"
    )
    return {
        name: [
            (value, int(count))
            for value, count in store.maintenance.rows(sql.format(column), (limit,))
        ]
        for name, column in FACETS.items()
    }


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that an agent's sessions are looked for in."""

    path: str
    exists: bool
    machine: str | None


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be read: where it is looked for, and how much is stored of it."""

    name: str
    label: str
    enabled: bool
    roots: list[Root]
    keeps_days: int | None
    """After so many days it deletes its transcripts."""
    lacks: list[str]
    """What its files never tell."""
    sources: int
    sessions: int
    source_bytes: int
    last_sync: datetime | None
    version_seen: str | None = None
    """Of the agent or of its format, as the newest of its sources tells."""

    @property
    def is_there(self) -> bool:
        return any(root.exists for root in self.roots)


def agents(store: Store | None, config: Config) -> list[AgentFacts]:
    """Every installed adapter, with what is stored of its sessions when there is a store."""
    sql = "select agent, count(*), coalesce(sum(size), 0) from sources group by agent"
    sources = (
        {name: (int(number), int(size)) for name, number, size in store.maintenance.rows(sql)}
        if store
        else {}
    )
    sql = "select flavor, count(*) from sessions group by flavor"
    sessions = {name: int(number) for name, number in store.maintenance.rows(sql)} if store else {}
    found = []
    for name in adapters.names():
        adapter, setting = adapters.get(name), config.sources.get(name)
        number, size = sources.get(name, (0, 0))
        roots = find_roots(config, adapter)
        found.append(
            AgentFacts(
                name=name,
                label=adapter.label,
                enabled=setting is None or setting.enabled,
                roots=[
                    Root(path=str(root), exists=root.exists(), machine=machine)
                    for root, machine in roots
                ],
                keeps_days=adapter.keeps_days,
                lacks=list(adapters.lacks(adapter)),
                sources=number,
                sessions=sessions.get(name, 0),
                source_bytes=size,
                last_sync=last_sync(config) if number else None,
                version_seen=_version_seen(store, name) if store and number else None,
            )
        )
    return found


def _version_seen(store: Store, agent: str) -> str | None:
    """The version of the agent, or of its format, that the newest of its sources tells in its first
    records. None where none does, or where the records are not kept."""
    sql = (
        "select number from sources where agent = ? and records > 0 order by mtime_ns desc, path"
        " limit ?"
    )
    for (number,) in store.maintenance.rows(sql, (agent, LOOKED_AT)):
        # With the files beside it: some tell it there.
        texts = [
            record.data[:LONG_RECORD]
            for record in islice(store.sources.records(number), FIRST_RECORDS)
        ]
        for version in _VERSIONS:
            if found := next((found for text in texts if (found := version.search(text))), None):
                return found[1].decode("ascii")
    return None
