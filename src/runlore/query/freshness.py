"""How current the store is: the last sync, and transcripts that will be deleted before they are
stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from .. import adapters
from ..adapters import Adapter, Source
from ..config import Config
from ..errors import ReadError
from ..store import FORGOTTEN, SourceState, Store

SYNCED = "synced"
"""The file whose time is that of the last whole sync of this machine: touching it is all that an
idle sync writes. It is empty unless that sync met something that could not be read."""

FRESH_S = 86_400
"""Transcripts that a sync this long ago could have read are stored, however old they are."""

RISK_DAYS = 7
"""Days before an agent deletes a transcript on which we warn that it is not stored."""


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Transcripts that their agent will soon delete, and that are not stored."""

    agent: str
    label: str
    sources: int
    keeps_days: int
    days_left: float


def synced_mark(config: Config) -> Path:
    """Return the file whose time is that of the last whole sync (see `SYNCED`)."""
    return config.home / SYNCED


def last_sync(config: Config) -> datetime | None:
    """Return the time of the last whole sync.

    For a store that was filled in another way it is the time when it was last written.
    """
    for path in (str(synced_mark(config)), os.path.expanduser(config.store)):
        try:
            return datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
        except (OSError, ValueError):
            continue
    return None


def failed_hook_syncs(config: Config) -> dict[str, str]:
    """Return, by agent, why the last sync that its hook started failed.

    A whole sync since then has read what that one did not.
    """
    try:
        synced_at = os.stat(synced_mark(config)).st_mtime
    except OSError:
        synced_at = 0.0
    failed = {}
    for path in sorted(config.home.glob("hooks-*.json")):
        try:
            outcome = msgspec.json.decode(path.read_bytes(), type=_HookSync)
            is_newer = path.stat().st_mtime > synced_at
        except (OSError, msgspec.MsgspecError):
            continue
        if outcome.error and is_newer:
            failed[path.stem.removeprefix("hooks-")] = outcome.error
    return failed


class _HookSync(msgspec.Struct, frozen=True):
    """The record of a sync that a hook started, as far as it is needed here."""

    error: str = ""


def sources_at_risk(store: Store, config: Config, now: datetime) -> list[Risk]:
    """Return the transcripts, by agent, that are not stored and will be deleted within a week.

    This is cheap while syncs come often and can read everything: a transcript that is so old now
    was already there at a sync a day ago.
    """
    synced = last_sync(config) if _could_read_all(config) else None
    if synced is not None and (now - synced).total_seconds() < FRESH_S:
        return []
    risks = []
    for name in adapters.names():
        setting = config.sources.get(name)
        if setting is None or setting.enabled:
            risk = _risk_of(store, config, adapters.get(name), now, synced)
            if risk is not None:
                risks.append(risk)
    return risks


def _risk_of(
    store: Store, config: Config, adapter: Adapter, now: datetime, synced: datetime | None
) -> Risk | None:
    days = adapter.keeps_days
    if days is None:
        return None
    oldest_safe = now - timedelta(days=max(1, days - RISK_DAYS))
    if synced is not None and synced > oldest_safe:
        return None
    known = store.sources.by_path(adapter.name)
    harmless = (None, FORGOTTEN, config.exclude.mark)
    min_age_s = (now - oldest_safe).total_seconds()
    ages_s = [
        age_s
        for root, _ in config.roots_of(adapter.name, adapter.find_roots)
        for source in adapter.discover(root)
        if (age_s := now.timestamp() - source.mtime_ns / 1e9) >= min_age_s
        and not _is_stored(adapter, source, known.get(source.path), harmless)
    ]
    if not ages_s:
        return None
    return Risk(
        agent=adapter.name,
        label=adapter.label,
        sources=len(ages_s),
        keeps_days=days,
        days_left=max(0.0, round(days - max(ages_s) / 86_400, 1)),
    )


def _could_read_all(config: Config) -> bool:
    try:
        return os.stat(synced_mark(config)).st_size == 0
    except OSError:
        return True


def _is_stored(
    adapter: Adapter, source: Source, state: SourceState | None, harmless: Sequence[str | None]
) -> bool:
    """Return True if a sync would read nothing more from the source."""
    if state is None or state.source.size != source.size or state.problem not in harmless:
        return False
    if state.problem is not None or state.position.offset >= source.size:
        return True
    try:  # What is left may be a last line that was never finished.
        return next(iter(adapter.read(source, state.position)), None) is None
    except ReadError:
        return False
