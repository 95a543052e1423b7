"""The promises that an adapter keeps, as checks. They raise AssertionError with what is wrong."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from ..adapters import Adapter, Facts, Normalized, Record, Source
from ..pricing.ledger import Merged, merge
from .fixtures import read_sources

WRONG_VALUES: tuple[Any, ...] = (None, 17, "x", [], {}, True)
"""Values of every type, to stand where another was expected."""


def check_law(adapter: Adapter, root: Path, cuts: int = 20, seed: int = 0) -> None:
    """Cut anywhere, read in parts, and the result is that of reading at once. API calls are
    compared as the ledger merges them: a copy more or less is no difference.

    Every source is read record by record, in two parts at up to `cuts` places, and in random parts
    as often.
    """
    rng = random.Random(seed)  # a choice of places, no secret  # noqa: S311
    for source, records in _some_sources(adapter, root):
        whole = _summed([adapter.normalize(source, records, None)])
        steps = _steps(records)
        places = range(1, len(steps))
        plans = [list(places)]
        plans += [[place] for place in rng.sample(places, min(cuts, len(places)))]
        plans += [
            sorted(rng.sample(places, rng.randint(1, len(places))))
            for _ in range(cuts if places else 0)
        ]
        for plan in plans:
            _compare(
                whole,
                _summed(_in_parts(adapter, source, steps, plan)),
                f"{source.path} cut before lines {plan}",
            )


def check_breakage(adapter: Adapter, root: Path, rng: random.Random, count: int) -> None:
    """One value broken in one record costs at most one event, or the events of one text: a result
    and the reminders behind it. It never raises an exception.

    An event is the same when kind and text are. A record of several events may change the kind of
    all of them, when the value was about the record; their texts stay.
    """
    for source, records in _some_sources(adapter, root):
        whole = adapter.normalize(source, records, None)
        places = [(n, path) for n, record in enumerate(records) for path in _leaves(_loads(record))]
        for n, path in rng.sample(places, min(count, len(places))):
            for broken in _broken(_loads(records[n]), path):
                others = [*records]
                others[n] = msgspec.structs.replace(records[n], data=broken)
                what = f"{source.path}: record {n} as {broken[:2000].decode()}"
                lost = _lost(whole, _try(adapter, source, others, what))
                is_one = len(lost) <= 1 or _is_one_text(_loads(records[n]), lost)
                assert is_one, f"{what}\nloses {lost}"


def check_noise(adapter: Adapter, root: Path, rng: random.Random, count: int) -> None:
    """Damaged bytes raise nothing. The record they are in gives an event, is merged, or is skipped;
    all others give what they gave.

    There are three exceptions. A record of a change, say of a setting, may give nothing when what
    was before it is gone. It is then merged. A record that repeats the damaged one, and goes on,
    gives what that one gave. And an event without text, such as the mark of a rewind, depends on
    the records around it and may come elsewhere.
    """
    for source, records in _some_sources(adapter, root):
        whole = _texts(adapter.normalize(source, records, None))
        for _ in range(count if records else 0):
            n = rng.randrange(len(records))
            damaged = _damaged(records[n].data, rng)
            others = [*records]
            others[n] = msgspec.structs.replace(records[n], data=damaged)
            what = f"{source.path}: record {n} as {damaged[:2000]!r}"
            after = _try(adapter, source, others, what)
            texts = _texts(after)
            # A sidecar belongs to the record that follows it.
            number = sum(record.sidecar is None for record in records[:n])
            skipped = {skip.offset for skip in after.skips}
            is_sidecar = records[n].sidecar is not None
            if not is_sidecar and number not in texts and records[n].offset not in skipped:
                _check_merged(adapter, source, records[:n], others[: n + 1], what)
            changed = _changed_records(whole, texts, number)
            is_one = len(changed) <= 1 and not any(other in texts for other in changed)
            assert is_one, f"{what}\nchanges records {changed}"


# ── parts of the checks ──────────────────────────────────────────────────────────────────────────
def _some_sources(adapter: Adapter, root: Path) -> list[tuple[Source, list[Record]]]:
    """Return the sources of a folder. A promise about none of them proves nothing."""
    sources = list(read_sources(adapter, root))
    assert sources, f"no source of {adapter.name} below {root}"
    return sources


def _steps(records: Sequence[Record]) -> list[list[Record]]:
    """Return the records in groups: sidecars together with the record that they belong to."""
    steps: list[list[Record]] = []
    held: list[Record] = []
    for record in records:
        held.append(record)
        if record.sidecar is None:
            steps.append(held)
            held = []
    return [*steps, held] if held else steps


def _in_parts(
    adapter: Adapter, source: Source, steps: list[list[Record]], cuts: list[int]
) -> Iterator[Normalized]:
    carry = None
    for start, stop in zip([0, *cuts], [*cuts, len(steps)], strict=True):
        found = adapter.normalize(
            source, [record for step in steps[start:stop] for record in step], carry
        )
        carry = found.carry
        yield found


def _summed(parts: Iterator[Normalized] | list[Normalized]) -> Normalized:
    """Return several results as one, joined as a store does."""
    whole = Normalized()
    for part in parts:
        whole.events += part.events
        whole.bodies += part.bodies
        whole.parents += part.parents
        whole.originals += part.originals
        whole.twins |= part.twins
        whole.aliases |= part.aliases
        whole.skips += part.skips
        whole.calls += part.calls
        for word, number in part.merged.items():
            whole.merged[word] = whole.merged.get(word, 0) + number
        for uid, facts in part.facts.items():
            whole.facts[uid] = _merged_facts(whole.facts.get(uid), facts)
    return whole


def _merged_facts(old: Facts | None, new: Facts) -> Facts:
    if old is None:
        return new
    merged = {
        name: getattr(old, name) if (value := getattr(new, name)) is None else value
        for name in new.__struct_fields__
    }
    if new.title_rank < old.title_rank:
        merged |= {"title": old.title, "title_rank": old.title_rank}
    return Facts(**merged)


def _compare(one: Normalized, other: Normalized, what: str) -> None:
    for n, (event, again) in enumerate(zip(one.events, other.events, strict=False)):
        assert event == again, f"{what}: event {n} is\n{again}\nand not\n{event}"
    for name in one.__struct_fields__:
        if name not in ("carry", "events", "calls"):
            assert getattr(one, name) == getattr(other, name), (
                f"{what}: {name} differ:\n{getattr(other, name)}\nand not\n{getattr(one, name)}"
            )
    assert len(one.events) == len(other.events), (
        f"{what}: {len(other.events)} events and not {len(one.events)}"
    )
    for call, recall in zip_longest(_billed(one), _billed(other)):
        assert call == recall, f"{what}: a call is\n{recall}\nand not\n{call}"


def _billed(found: Normalized) -> list[Merged]:
    """Return the calls as a ledger merges them.

    Their events must exist, so that a report can show where money went.
    """
    events = {event.native_id for event in found.events} | found.aliases.keys()
    lost = [event for _, event in found.calls if event is not None and event not in events]
    assert not lost, f"calls of events that there are not: {lost}"
    return merge(call for call, _ in found.calls)


def _try(adapter: Adapter, source: Source, records: list[Record], what: str) -> Normalized:
    try:
        return adapter.normalize(source, records, None)
    except Exception as error:
        # The adapter's code is on trial here: whatever it raises is the finding.
        raise AssertionError(f"{what}\nraises {type(error).__name__}: {error}") from error


def _texts(found: Normalized) -> dict[int | None, Counter[str]]:
    """Return the texts of each record's events."""
    texts: dict[int | None, Counter[str]] = {}
    for event, body in zip(found.events, found.bodies, strict=True):
        texts.setdefault(event.record, Counter())[body] += bool(body)
    return texts


def _check_merged(
    adapter: Adapter, source: Source, before: list[Record], after: list[Record], what: str
) -> None:
    """Check that one record more was merged after than before."""
    counts = [
        sum(adapter.normalize(source, records, None).merged.values()) for records in (before, after)
    ]
    assert counts[1] > counts[0], f"{what}\nvanishes"


def _changed_records(
    whole: dict[int | None, Counter[str]], texts: dict[int | None, Counter[str]], damaged: int
) -> list[int | None]:
    """Return the records whose texts changed, except the damaged one."""
    nothing = Counter[str]()
    lost = whole.get(damaged, nothing)
    return [
        number
        for number in whole
        if number != damaged and not _is_same(whole[number], texts.get(number, nothing), lost)
    ]


def _is_same(before: Counter[str], after: Counter[str], damaged: Counter[str]) -> bool:
    """Return True if a record has the texts it had, and no others than those of the damaged one."""
    return before <= after and after - before <= damaged


def _lost(before: Normalized, after: Normalized) -> list[tuple[str, str]]:
    texts = Counter(
        (event.record, body) for event, body in zip(after.events, after.bodies, strict=True)
    )
    kept = Counter(
        (event.kind, body) for event, body in zip(after.events, after.bodies, strict=True)
    )
    lost = []
    changed: set[int | None] = set()
    for event, body in zip(before.events, before.bodies, strict=True):
        if kept[event.kind, body] > 0:
            kept[event.kind, body] -= 1
        elif texts[event.record, body] > 0 and (not changed or event.record in changed):
            changed.add(event.record)
        else:
            lost.append((event.kind, body))
    return lost


def _loads(record: Record) -> Any:
    if record.sidecar is not None or record.problem is not None:
        return None
    try:
        return json.loads(record.data)
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all values that hold no others."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        if isinstance(item, dict | list) and item:
            yield from _leaves(item, (*path, key))
        else:
            yield (*path, key)


def _is_one_text(record: Any, lost: list[tuple[str, str]]) -> bool:
    """Return True if one text of the record has the texts of all lost events."""
    texts = (_value_at(record, path) for path in _leaves(record))
    return any(
        isinstance(text, str) and all(body and body in text for _, body in lost) for text in texts
    )


def _value_at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _broken(value: Any, path: tuple[str | int, ...]) -> Iterator[bytes]:
    """Yield the record with one value wrong in every way, and without it."""
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    right = holder[path[-1]]
    for wrong in WRONG_VALUES:
        if type(wrong) is not type(right) or isinstance(right, str | bool):
            holder[path[-1]] = wrong
            yield json.dumps(value).encode()
    if isinstance(holder, dict):
        del holder[path[-1]]
        yield json.dumps(value).encode()


def _damaged(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    bit = rng.choice(
        [
            b"",
            b"\0",
            b"\xff",
            b'"',
            b"}{",
            b"\\ud800",
            b"[" * 5000,
            b"NaN",
            b"9" * 5000,
            b"\\",
            bytes([rng.randrange(256)]),
        ]
    )
    end = rng.choice([at, at + 1, at + 20, len(data)])
    return data[:at] + bit + data[end:]
