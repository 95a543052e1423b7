"""Prove a store right, and repair what can be rebuilt.

A check is a small function that examines what is stored and yields what is wrong, each finding with
its repairs. `checks` lists them, and `exam` is what they share. Without `full`, long checks examine
a sample spread over the store. Everything is read in one snapshot, so a sync may go on meanwhile; a
repair holds its lock. Nothing here prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from .. import adapters
from ..config import Config
from ..errors import ReadError, RunloreError, StoreBusy, StoreError
from ..lessons import deliver
from ..store import Store
from .checks import CHECKS
from .exam import Check, Exam, Finding, Kind, Progress, known_sources, source_now

__all__ = ["CHECKS", "Check", "Exam", "Finding", "Progress", "Report", "examine"]

MAX_PROBLEMS = 20
"""Problems of a check that are listed. All are counted."""

Step = Callable[[int, int], None]
"""Called with the number done, and of how many."""

Repair = Callable[[Store, list[Any], Step], None]
"""Repairs what these keys name."""


class Report(msgspec.Struct, kw_only=True):
    """What the doctor found."""

    ok: bool = True
    checks: list[Check] = msgspec.field(default_factory=list)
    repairs: dict[str, int] = msgspec.field(default_factory=dict)
    """What --repair would do, and how often."""
    repaired: list[str] = msgspec.field(default_factory=list)
    """What a repair did."""
    hopeless: int = 0
    """Problems that nothing here can repair."""


def examine(
    store: Store,
    config: Config,
    *,
    full: bool = False,
    repair: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Check the store; with `repair`, repair it and check again.

    Raises StoreBusy if a sync prevents the repair.
    """
    if not repair:
        return _look(Exam(store, config, full, progress))[0]
    with ExitStack() as stack:
        try:
            stack.enter_context(store.sync_lock())
        except StoreBusy:
            raise StoreBusy("a sync is running; repair the store when it is done") from None
        report, plan = _look(Exam(store, config, full, progress))
        if plan:
            done = _repair(store, plan, progress)
            report, _ = _look(Exam(store, config, full, progress))
            report.repaired = done
    return report


def _look(exam: Exam) -> tuple[Report, dict[Kind, list[Any]]]:
    report, plan = Report(), dict[Kind, dict[Any, None]]()
    with exam.store.snapshot():
        for name, examine_part in CHECKS.items():
            check = exam.begin(name)
            for finding in _findings(examine_part, exam):
                if finding.is_note:
                    check.notes.append(finding.text)
                    continue
                check.count += 1
                check.problems += [finding.text] * (check.count <= MAX_PROBLEMS)
                report.hopeless += not finding.repairs
                for kind, key in finding.repairs:
                    plan.setdefault(kind, {})[key] = None
            check.ok = not check.count
            report.checks.append(check)
    report.ok = all(check.ok for check in report.checks)
    report.repairs = {_REPAIRS[kind][0]: len(plan[kind]) for kind in _REPAIRS if kind in plan}
    return report, {kind: list(keys) for kind, keys in plan.items()}


def _findings(check: Callable[[Exam], Iterator[Finding]], exam: Exam) -> Iterator[Finding]:
    try:
        yield from check(exam)
    except Exception as error:
        # What is damaged may raise anything, and the other checks still have something to say.
        name = "" if isinstance(error, StoreError) else f"{type(error).__name__}: "
        yield Finding(f"cannot be looked at: {name}{error}")


# ── repairing ─────────────────────────────────────────────────────────────────────────────────────
def _repair(store: Store, plan: dict[Kind, list[Any]], progress: Progress | None) -> list[str]:
    """Repair one kind after another. Return what was done, and what failed."""
    done = []
    for kind, (text, repair) in _REPAIRS.items():
        if not (keys := plan.get(kind)):
            continue
        try:
            repair(store, keys, partial(progress, text) if progress else _ignore)
            done.append(f"{text} ({len(keys):,})")
        except (RunloreError, OSError) as error:
            done.append(f"failed: {text}: {error}")
    return done


def _ignore(done: int, total: int) -> None:
    """Take the place of a progress bar where nobody watches."""


def _each(repair: Callable[..., None]) -> Repair:
    """Repair all of a kind in one transaction."""

    def repair_all(store: Store, keys: list[Any], step: Step) -> None:
        with store.transaction():
            for n, key in enumerate(keys):
                step(n, len(keys))
                repair(store, *key) if isinstance(key, tuple) else repair(store, key)

    return repair_all


def _restore_source(store: Store, number: int) -> None:
    store.maintenance.restore_source(number)
    _reposition(store, number)


def _reposition(store: Store, number: int) -> None:
    """Set the position of a source that is to be derived again.

    Any place in it will do, because it is read from the beginning.
    """
    state = known_sources(store)[number]
    now = source_now(state)
    if now is None:
        raise ReadError(state.source.path, "it is not there any more")
    offset = min(max(state.position.offset, 1), now.size)
    store.sources.set_position(
        number,
        adapters.get(state.source.agent).position(
            state.source, offset, max(state.position.records, 0)
        ),
    )


def _forget(store: Store, uids: list[str], _: Step) -> None:
    store.retention.forget(uids, datetime.now(UTC))


def _reindex(store: Store, ids: list[int | None], step: Step) -> None:
    some = [id_ for id_ in ids if id_ is not None]
    if None not in ids:
        try:
            store.maintenance.reindex(some, step)
            if not store.maintenance.check_index(some):
                return
        except StoreError:
            pass  # An index that is damaged inside cannot be mended in part.
    store.maintenance.reindex(None, step)


def _hide(_: Store, files: list[str], __: Step) -> None:
    for file in files:
        os.chmod(file, 0o700 if os.path.isdir(file) else 0o600)


_REPAIRS: dict[Kind, tuple[str, Repair]] = {
    "session": (
        "put back sessions",
        _each(lambda store, number, uid: store.maintenance.restore_session(number, uid)),
    ),
    "source": ("put back sources, and let the next sync derive them again", _each(_restore_source)),
    "stream": (
        "give events back to their sources, and let the next sync derive them again",
        _each(lambda store, *key: store.maintenance.restore_stream(*key)),
    ),
    "strays": (
        "remove what belongs to nothing",
        lambda store, keys, _: store.maintenance.drop_strays(
            [key for key in keys if key is not None]
        ),
    ),
    "forget": ("forget once more what was forgotten", _forget),
    "exposures": (
        "forget what sessions were told that are forgotten",
        _each(lambda _, home, uid: deliver.forget(Path(home), {uid})),
    ),
    "position": ("look up again where sources were left off", _each(_reposition)),
    "derive": (
        "let the next sync derive sources again",
        lambda store, keys, _: store.maintenance.derive_again(keys),
    ),
    "natives": (
        "make native ids again from the events",
        lambda store, keys, _: store.maintenance.relink(keys),
    ),
    "streams": (
        "count events again",
        lambda store, keys, _: store.maintenance.recount(keys, streams=True),
    ),
    "sums": ("add up sessions again", lambda store, keys, _: store.maintenance.recount(keys)),
    "digest": (
        "let the next sync make digests again",
        lambda store, uids, _: store.digests.drop(uids),
    ),
    "index": ("make the index again from the bodies", _reindex),
    "mode": ("hide files from others", _hide),
}
"""The repairs, in this order. Each kind is one transaction."""
