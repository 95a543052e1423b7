"""Checks of sources and their native records, of forgotten sessions, and of lessons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..lessons import deliver, rendered_files
from ..lessons.shelf import Shelf
from ..query.freshness import failed_hook_syncs
from ..store import DAMAGED, Row, SourceState
from ..store import FORGOTTEN as LEFT_OUT
from ..store.segments import unpack_records
from ..sync.discover import find_sources
from ..sync.plan import is_rejected, make_plan
from .exam import SAMPLE, Exam, Finding, adapter_of, how_it_is

MAX_REASONS = 10
"""Maximum number of reasons for records that were not understood, and of sources set aside."""


def check_sources(exam: Exam) -> Iterator[Finding]:
    """Each source was read up to the stored position, and has not changed before it."""
    notes: Counter[str] = Counter()
    changes = _changes_to_read(exam)
    for number, state in exam.each(list(exam.sources.items())):
        # A source that is gone, and was to be derived again, stays as it is known if its sessions
        # were evicted. It comes back when the source does.
        if state.adapter_version == DAMAGED and not (
            state.is_evicted and state.missing_at is not None
        ):
            yield Finding(
                f"{state.source.path}: is to be derived again; run `runlore sync`",
                (("derive", number),),
            )
            continue
        now = how_it_is(state)
        change = "gone" if now == "gone" else changes.get((state.source.agent, state.source.path))
        if change in _CHANGES and state.problem != LEFT_OUT:
            notes[_CHANGES[change]] += 1
        if adapter_of(state) is None:
            notes["without an adapter"] += 1
        elif text := _wrong_position(state, is_same=now == "same"):
            yield _misread(exam, number, f"{state.source.path}: {text}")
    for word, count in notes.items():
        yield Finding(f"{count:,} {word}", is_note=True)
    yield from _rejected(exam)
    for agent, error in failed_hook_syncs(exam.config).items():
        yield Finding(f"the last sync by the hook of {agent} failed: {error}", is_note=True)
    for reason, count in exam.store.maintenance.rows(
        "select reason, count(*) from skips group by reason order by 2 desc, 1 limit ?",
        (MAX_REASONS,),
    ):
        yield Finding(f"not understood, kept as is ({count:,} ×): {reason}", is_note=True)


_CHANGES = {
    "gone": "not there any more",
    "grown": "grown since the last sync",
    "rewritten": "rewritten since",
}


def _rejected(exam: Exam) -> Iterator[Finding]:
    """Yield the sources that are not read because they exceed a limit."""
    states = [state for state in exam.sources.values() if is_rejected(state)]
    for state in states[:MAX_REASONS]:
        yield Finding(f"{state.source.path}: {state.problem}", is_note=True)
    if len(states) > MAX_REASONS:
        yield Finding(f"{len(states) - MAX_REASONS:,} more are set aside", is_note=True)


def _changes_to_read(exam: Exam) -> dict[tuple[str, str], str]:
    """Return why the next sync would read sources, by agent and path.

    The sync itself is asked: an agent may look at more than the file of a source, and a source in
    a folder that is not searched any more is not read.
    """
    plan = make_plan(exam.store, exam.config, find_sources(exam.config))
    return {(task.source.agent, task.source.path): task.why for task in plan.tasks}


def _wrong_position(state: SourceState, *, is_same: bool) -> str | None:
    """Return what is wrong with the position of a source; None if nothing is."""
    at, size = state.position, state.source.size
    adapter = adapter_of(state)
    assert adapter is not None
    # A packed source may be shorter than what was read of it.
    if is_same and at.offset > 0 and adapter.follows(state.source, at) and at.records >= 0:
        return None
    is_beyond = at.head and at.offset > size and state.problem is None
    if at.offset < 0 or at.records < 0 or is_beyond:
        return f"was read up to {at.offset:,}, of {size:,}"
    return "has not changed, and is not what was read" if is_same and at.offset else None


def _misread(exam: Exam, number: int, text: str) -> Finding:
    found = exam.wrong_source(number, text)
    is_there = found.repairs and how_it_is(exam.sources[number]) != "gone"
    return Finding(text, (("position", number), *found.repairs)) if is_there else found


def check_records(exam: Exam) -> Iterator[Finding]:
    """The native records that are kept unpack, in order, none twice, and none is missing."""
    packs = exam.store.maintenance.rows(
        "select source, first, count, length from records order by source, first"
    )
    yield from _missing_records(exam, packs)
    for source, first, count, length in exam.each(packs, SAMPLE):
        if source not in exam.sources:
            continue  # `check_owners` reports it.
        ((body,),) = exam.store.maintenance.rows(
            "select body from records where source = ? and first = ?", (source, first)
        )
        offsets = _record_offsets(body, length)
        if len(offsets) != count or offsets != sorted(set(offsets)):
            path = exam.sources[source].source.path
            yield exam.wrong_source(
                source, f"{path}: its native records {first:,} to {first + count - 1:,} are damaged"
            )


def _missing_records(exam: Exam, packs: Sequence[Row]) -> Iterator[Finding]:
    """Yield the sources whose packs of records leave something out."""
    ends: dict[int, int] = {}
    incomplete: set[int] = set()
    for source, first, count, _ in packs:
        if first != ends.get(source, 0):
            incomplete.add(source)
        ends[source] = first + count
    incomplete |= {
        number
        for number, end in ends.items()
        if number in exam.sources and end != exam.sources[number].position.records
    }
    wanted = {
        number
        for number, state in exam.sources.items()
        if state.position.records > 0 and state.problem != LEFT_OUT
    }
    without = len(wanted - ends.keys())
    # Forgetting a session removes records, and `raw = "drop"` stores none.
    if exam.config.raw == "keep" and not exam.store.sources.tombstones():
        for number in sorted(incomplete & exam.sources.keys()):
            yield exam.wrong_source(
                number, f"{exam.sources[number].source.path}: its native records are not all kept"
            )
    else:
        without += len(incomplete)
    if without:
        yield Finding(f"{without:,} sources without all of their native records", is_note=True)


def _record_offsets(body: bytes, length: int) -> list[int]:
    """Return the offsets of packed records; none if they cannot be read."""
    try:
        return [record.offset for record in unpack_records(body, length) if record.sidecar is None]
    except Exception:
        # zstd, msgpack and UTF-8 each have their own way to say that it cannot be read.
        return []


def check_forgotten(exam: Exam) -> Iterator[Finding]:
    """Nothing is left of what was forgotten, here or in the files beside the store."""
    gone = exam.store.sources.tombstones()
    for uid in exam.each(sorted(gone)):
        if exam.store.maintenance.rows("select 1 from sessions where uid = ?", (uid,)):
            yield Finding(f"{uid}: was forgotten and is there", (("forget", uid),))
    home = exam.config.home
    for uid in sorted({note.uid for note in deliver.read_records(home)} & gone if gone else ()):
        yield Finding(
            f"{uid}: was forgotten, and notes on what it was told are there",
            (("exposures", (str(home), uid)),),
        )
    for lesson in Shelf(home / "lessons").read()[0] if gone else ():
        if any(ref.partition("#")[0] in gone for ref in lesson.evidence):
            yield Finding(
                f"lesson {lesson.id} cites a session that was forgotten; `runlore lessons edit`"
                " changes it",
                is_note=True,
            )


def check_lessons(exam: Exam) -> Iterator[Finding]:
    """Lessons can be read, and what is told of them is still noted."""
    home = exam.config.home
    known, broken = Shelf(home / "lessons").read()
    exam.expect(len(known) + len(broken), len(known) + len(broken))
    for one in broken:
        yield Finding(f"{one.file} is no lesson, and is told to nobody: {one.reason}", is_note=True)
    for file, max_bytes in (
        (deliver.FILE_NAME, deliver.MAX_BYTES),
        (rendered_files.FILE_NAME, rendered_files.MAX_BYTES),
    ):
        if (home / file).is_file() and (home / file).stat().st_size >= max_bytes:
            yield Finding(
                f"{home / file} is full, and `runlore measure` learns of nothing new; move it away",
                is_note=True,
            )
    exam.step(len(known) + len(broken))
