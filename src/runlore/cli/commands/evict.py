"""Remove the text of old sessions that have a digest.

Native records leave first. [retain] in config.toml or the options select the sessions, or they are
named. Shows what would leave; --yes does it. A session stays in every list and report, is found by
its digest, and can be brought back as long as its transcript exists. With --json an object
(docs/json.md).
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import click
import msgspec

from ... import config, query
from ... import store as stores
from ...answers import Answer
from ...errors import NotFound
from ...query import names as naming
from ...retention import policy as retain
from ...retention.evict import let_go
from ...store import DAMAGED, Store
from ...store.values import Weight
from ...sync.pipeline import sync
from ...text.words import count, size
from ..options import ParamType, SessionName, as_json, open_store
from ..output import Column, echo, note, one_line, paint, table, warn, write_json
from ..progress import Progress

MAX_LINES = 20
MAX_ROUNDS = 20
"""Maximum number of rounds. A session that others refer to can leave only after them, and the room
that this makes is known only then."""


class Bytes(ParamType):
    """`5 GB`, `512MiB`."""

    name = "size"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return config.size_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Days(ParamType):
    """`90`, or `90d` as other commands take it."""

    name = "days"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch("([1-9][0-9]{0,4})d?", value)
        if match is None:
            self.fail(f"{value!r} is not a number of days: try 90", param, ctx)
        return int(match[1])


class EvictedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose text leaves."""

    PRESENTS: ClassVar = (Weight,)

    uid: str
    title: str | None
    ended_at: str | None
    events: int
    analyzed: bool
    """True if a digest covers all of it."""
    size: int
    """Bytes of its text, packed."""

    @classmethod
    def of(cls, weight: Weight) -> EvictedSession:
        return cls(
            uid=weight.uid,
            title=weight.title,
            ended_at=weight.ended_at,
            events=weight.events,
            analyzed=weight.is_covered,
            size=weight.body_bytes,
        )


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions and records that left the store, or would leave."""

    PRESENTS: ClassVar = (retain.Plan,)

    dry_run: bool
    sessions: list[EvictedSession]
    records: int
    """Number of transcripts whose native records leave."""
    freed: int
    """Bytes; an estimate as long as nothing has left."""
    used: int
    """Bytes that the store took before."""
    stays: dict[str, int]
    manifest: str | None
    """The file that lists what left."""


@click.command(help=__doc__)
@click.argument("sessions", nargs=-1, type=SessionName())
@click.option(
    "--soft",
    type=Bytes(),
    metavar="SIZE",
    help="Evict until the store has at most this size: 5 GB.",
)
@click.option(
    "--older-than",
    "days",
    type=Days(),
    metavar="DAYS",
    help="Sessions that ended before this many days.",
)
@click.option(
    "--force-unanalyzed",
    "is_forced",
    is_flag=True,
    help="Also evict text that no digest covers: it is lost.",
)
@click.option(
    "--back", "is_back", is_flag=True, help="Bring the named sessions back from their transcripts."
)
@click.option("--yes", is_flag=True, help="Do it. Without this it is only shown.")
@as_json(Eviction, items="sessions", forms={"--back": Answer(list[str])})
def command(
    sessions: tuple[str, ...],
    soft: int | None,
    days: int | None,
    is_forced: bool,
    is_back: bool,
    yes: bool,
    is_json: bool,
) -> None:
    if sessions and (soft is not None or days is not None):
        raise click.UsageError(
            "name sessions, or say what is to leave by --soft and --older-than; not both"
        )
    if is_back and not sessions:
        raise click.UsageError("name the sessions that are to come back")
    with open_store() as (store, setting):
        if query.is_empty(store):
            raise NotFound(query.EMPTY)
        uids = [query.resolve(store, name) for name in sessions]
        if not is_back:
            chosen = Chosen(
                uids, soft or budget(setting.retain), days or setting.retain.max_age_days, is_forced
            )
            plan = chosen.plan(store)
            names = naming.names(store, [weight.uid for weight in named(plan)])
    if is_back:
        bring_back(setting, uids, is_json)
        return
    left = chosen.carry_out(setting, plan) if yes else None
    report(plan, left, names, is_json)


def budget(retain: config.Retain) -> int | None:
    """Return the soft budget in bytes from the configuration. If only a hard budget is set, it is
    nine tenths of that: at the hard budget itself the next sync would stop again."""
    hard = retain.hard_bytes
    return retain.soft_bytes if retain.soft_bytes is not None or hard is None else hard * 9 // 10


class Chosen:
    """The user's selection of sessions to evict."""

    def __init__(
        self, uids: list[str], soft: int | None, days: int | None, is_forced: bool
    ) -> None:
        if not uids and soft is None and days is None:
            raise click.UsageError(
                "say what is to leave: sessions, --soft SIZE, --older-than DAYS, or [retain] in"
                " config.toml"
            )
        self.uids, self.soft, self.days, self.is_forced = uids, soft, days, is_forced

    def plan(self, store: Store, factor: float | None = None) -> retain.Plan:
        weights, bulks, used = (
            store.retention.weights(),
            store.retention.bulks(),
            store.retention.used_bytes(),
        )
        if self.uids:
            return retain.by_name(weights, bulks, self.uids, used=used, is_forced=self.is_forced)
        now = datetime.now(UTC)
        return retain.by_policy(
            weights,
            bulks,
            used=used,
            now=now,
            soft=self.soft,
            max_age_days=self.days,
            is_forced=self.is_forced,
            factor=factor,
        )

    def carry_out(self, setting: config.Config, plan: retain.Plan) -> Path | None:
        """Evict until nothing more leaves. Return the file that lists what left, if anything did.
        `plan` is brought up to date."""
        manifest: Path | None = None
        with closing(stores.open_store(setting.store)) as store, store.sync_lock():
            before = store.retention.used_bytes()
            factor = None
            for _ in range(MAX_ROUNDS):
                now = self.plan(store, factor)
                if not now.sessions and not now.bulks:
                    break
                # The manifest comes first: if this is killed, everything that left is in it.
                manifest = write_manifest(setting.home, manifest_lines(now), manifest)
                store.retention.drop_records([bulk.source for bulk in now.bulks])
                with Progress() as progress:
                    let_go(store, [weight.uid for weight in now.sessions], progress.show)
                # A server's files are as large as before until then.
                store.retention.shrink(most_left=store.retention.used_bytes() * 2 < before)
                factor = measured_factor(now, store.retention.used_bytes()) or factor
                add_round(plan, now)
            plan.freed = before - store.retention.used_bytes()
        return manifest


def measured_factor(done: retain.Plan, used: int) -> float | None:
    """Return how many bytes the store shrank for each byte of text that left, at least 1, or None
    if no text left."""
    bodies = sum(weight.body_bytes for weight in done.sessions)
    if not bodies:
        return None
    return max(1.0, (done.used - sum(bulk.size for bulk in done.bulks) - used) / bodies)


def add_round(plan: retain.Plan, done: retain.Plan) -> None:
    """Add what one round evicted to the plan of all rounds."""
    uids = {weight.uid for weight in plan.sessions}
    sources = {bulk.source for bulk in plan.bulks}
    plan.sessions += [weight for weight in done.sessions if weight.uid not in uids]
    plan.bulks += [bulk for bulk in done.bulks if bulk.source not in sources]
    plan.stays = done.stays


def manifest_lines(plan: retain.Plan) -> list[Any]:
    lines: list[Any] = [EvictedSession.of(weight) for weight in plan.sessions]
    return lines + [{"records_of": bulk.path, "size": bulk.size} for bulk in plan.bulks]


def write_manifest(home: Path, lines: list[Any], file: Path | None) -> Path:
    """Append to the list of what leaves, or begin one. Return its file."""
    if file is None:
        folder = home / "evicted"
        config.make_home(folder)
        file = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z.jsonl"
    with file.open("ab") as out:
        out.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        out.flush()
        os.fsync(out.fileno())
    return file


def bring_back(setting: config.Config, uids: list[str], is_json: bool) -> None:
    with closing(stores.open_store(setting.store)) as store:
        wanted = [uid for uid in uids if (found := store.sessions.get(uid)) and found.evicted_at]
        back = store.retention.bring_back(wanted)
        # Looked for where they were, wherever an agent keeps its sessions now.
        roots: dict[str, set[str]] = {}
        for state in store.sources.all() if back else ():
            if state.adapter_version == DAMAGED:
                roots.setdefault(state.source.agent, set()).add(state.source.root)
        for agent, places in roots.items():
            sync(store, setting, agents=[agent], roots=sorted(places))
        here = [uid for uid in back if (found := store.sessions.get(uid)) and not found.evicted_at]
    if is_json:
        write_json(here, "--back")
        return
    if here:
        note(f"back: {count(len(here), 'session')}")
    for uid in uids:
        if uid not in here:
            why = "cannot come back: its transcript is not there any more, or not all of it"
            warn(f"{uid} {why if uid in wanted else 'was not evicted'}")


def named(plan: retain.Plan) -> list[Weight]:
    """The first ones that leave, and each that nothing will be known of."""
    return [
        weight for n, weight in enumerate(plan.sessions) if n < MAX_LINES or not weight.is_covered
    ]


def as_table(weights: list[Weight], names: dict[str, str]) -> list[str]:
    doubts = ["" if weight.is_covered else "NOT ANALYZED" for weight in weights]
    columns = [
        Column("ID", [names.get(weight.uid, weight.uid) for weight in weights]),
        Column("ENDED", [(weight.ended_at or "?")[:10] for weight in weights]),
        Column("EVENTS", [str(weight.events) for weight in weights], right=True, leaves=1),
        *([Column("", doubts)] if any(doubts) else []),
        Column("TITLE", [one_line(weight.title) or "-" for weight in weights]),
    ]
    head, *rows = table(columns)
    return [paint(head, "dim"), *rows]


def report(plan: retain.Plan, manifest: Path | None, names: dict[str, str], is_json: bool) -> None:
    is_done = manifest is not None
    if is_json:
        write_json(
            Eviction(
                dry_run=not is_done,
                sessions=[EvictedSession.of(weight) for weight in plan.sessions],
                records=len(plan.bulks),
                freed=plan.freed,
                used=plan.used,
                stays=plan.stays,
                manifest=str(manifest) if manifest else None,
            )
        )
        return
    shown = named(plan)
    if shown:
        echo("\n".join(as_table(shown, names)))
    if len(plan.sessions) > len(shown):
        echo(f"… and {count(len(plan.sessions) - len(shown), 'more session')}")
    note(summary(plan, manifest))
    lost = sum(not weight.is_covered for weight in plan.sessions)
    if lost:
        warn(
            f"{count(lost, 'session')} {'was' if lost == 1 else 'were'} never analyzed: nothing is"
            f" kept of {'it' if lost == 1 else 'them'}"
        )
    for reason, number in plan.stays.items():
        note(f"{count(number, 'session')} {'stays' if number == 1 else 'stay'}: {reason}")
    if plan.is_short:
        note(shortage(plan, is_done))


def summary(plan: retain.Plan, manifest: Path | None) -> str:
    """Return what left, or would leave, in a sentence."""
    parts = []
    if plan.bulks:
        parts.append(f"native records of {count(len(plan.bulks), 'transcript')}")
    if plan.sessions:
        parts.append(f"the text of {count(len(plan.sessions), 'session')}")
    what = " and ".join(parts)
    if not what:
        return f"nothing leaves: the store takes {size(plan.used)}"
    if manifest is not None:
        return (
            f"gone: {what}, {size(plan.freed)} of {size(plan.used)}. Digests, usage and numbers"
            f" stay. The list: {manifest}"
        )
    return (
        f"would let go of {what}: about {size(plan.freed)} of {size(plan.used)}. Nothing is"
        " gone yet; --yes does it."
    )


def shortage(plan: retain.Plan, is_done: bool) -> str:
    rest = (
        "; what is kept of every session, its digest, calls and numbers, is among the"
        f" {size(plan.used - plan.freed)} that stay"
    )
    return (
        f"that is not enough for {size(plan.goal or 0)}: nothing else may"
        f" leave{rest if is_done else ''}"
    )
