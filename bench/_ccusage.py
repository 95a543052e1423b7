"""The counting rules of ccusage 20.0.24, implemented a second time so that each rule can be
switched off.

With all `RULES` the sums are those that ccusage prints; with none they are those that runlore's
ledger must have. The module reads transcripts only and shares nothing with runlore's adapters, so
an agreement confirms both readings of the format. The codes are those of the tests.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

VERSION = "20.0.24"

Tokens = tuple[int, int, int, int]
"""Input, output, cache read, cache write."""
Rules = frozenset[str]


class Entry(NamedTuple):
    """One call that is counted."""

    day: str
    model: str | None
    tokens: Tokens
    file: str
    usd: float | None = None
    """The cost that the transcript states: ccusage uses it, runlore computes its own."""


RULES: dict[str, dict[str, str]] = {
    "claude": {
        "open": "reads a last line that has no end; runlore waits for its end",
        "compact": "C19: does not see usage in JSON with spaces",
        "nulls": "C13, C31, C36: drops a line in which one of eleven fields is null, however deep",
        "version": "C20: drops a line whose version is not N.N.N",
        "time": "drops a line whose time is not in whole seconds or milliseconds with an offset",
        "whole": "drops a line when one value is not as expected: an empty id, a count that is"
                 " missing",
        "parts": "C10: believes parts of a cache write that are 0 beside their real sum",
        "request": "C03: counts a message once for each request id",
        "moment": "counts a message without request ids once for each time and session (C04 where"
                  " these are equal)",
        "mirror": "C27: counts a line of progress as the main chain, and instead of the subagent's"
                  " own line",
        "nameless": "C05: counts a message without id each time it is written",
        "first": "of equal copies takes the day from the first path, not the earliest",
    },
    "codex": {
        "open": "reads a last line that has no end; runlore waits for its end",
        "compact": "does not see JSON with spaces",
        "orphan": "X23: counts a fork's copied history when the parent's file is missing and it was"
                  " not written within seconds",
        "child": "X25: counts a total of the parent that a fork tells again on its own",
        "again": "X26: counts an old total that is told again after another one",
        "clock": "X17: takes equal calls of two sessions in the same millisecond for one",
        "headless": "X28: does not see turn.completed inside an event_msg",
        "pause": "knows by the parent's file where a fork's own calls begin; runlore, by ids of"
                 " turns, or else by a pause of 2 s",
        "fallback": "calls a model that is not named gpt-5; runlore leaves it without a name and"
                    " without a price",
    },
    "grok": {
        "open": "reads a last line that has no end; runlore waits for its end",
    },
}  # fmt: skip


def entries(agent: str, home: Path, rules: Iterable[str]) -> list[Entry]:
    """Return the calls of a home directory that count under these rules."""
    return list(_COUNTERS[agent](home, frozenset(rules)))


def _lines(path: Path, rules: Rules) -> Iterator[tuple[int, bytes]]:
    *lines, last = path.read_bytes().split(b"\n")
    yield from enumerate([*lines, last] if "open" in rules else lines)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _time(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _day(moment: datetime | None) -> str:
    return moment.date().isoformat() if moment else ""


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────

_FIELDS = (
    "id|cwd|model|speed|costUSD|version|sessionId|requestId|isApiErrorMessage"
    "|cache_read_input_tokens|cache_creation_input_tokens"
)
_NULL = re.compile(rb'"(?:%s)"\s*:\s*null' % _FIELDS.encode())
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?(?:Z|[+-]\d\d:\d\d)\Z")
_VERSION = re.compile(r"\d+\.\d+\.\d+")


class _Copy(NamedTuple):
    """A call as one line records it."""

    name: str | None
    request: str | None
    session: str | None
    moment: datetime | None
    is_side: bool
    model: str | None
    tokens: Tokens
    file: str
    line: int
    usd: float | None = None


def _claude(home: Path, rules: Rules) -> Iterator[Entry]:
    calls: dict[tuple[Any, ...], list[_Copy]] = defaultdict(list)
    root = home / ".claude" / "projects"
    for path in sorted(root.rglob("*.jsonl")):
        for number, line in _lines(path, rules):
            for copy in _copies(line, str(path.relative_to(root)), number, rules):
                calls[(copy.name,) if copy.name else (copy.file, copy.line)].append(copy)
    for copies in calls.values():
        for best in _winners(copies, rules):
            yield Entry(_day(best.moment), best.model, best.tokens, best.file, best.usd)


def _copies(line: bytes, file: str, number: int, rules: Rules) -> Iterator[_Copy]:
    if (
        b"usage" not in line
        or ("compact" in rules and b'"usage":{' not in line)
        or ("nulls" in rules and _NULL.search(line))
    ):
        return
    outer = _object(line)
    inner = outer
    is_mirror = outer.get("type") == "progress"
    if is_mirror:
        data = outer.get("data")
        inner = data.get("message") if isinstance(data, dict) else None  # type: ignore[assignment]
    message = inner.get("message") if isinstance(inner, dict) else None
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict) or not _is_accepted(inner, message, usage, rules):
        return
    side = inner.get("isSidechain") is True or (is_mirror and "mirror" not in rules)
    names = [
        value if isinstance(value, str) and value else None
        for value in (message.get("id"), inner.get("requestId"))
    ]
    session, uuid = inner.get("sessionId") or outer.get("sessionId"), inner.get("uuid")
    moment = _time(inner.get("timestamp"))
    name = names[0] or (f"{session}/{uuid}" if uuid and "nameless" not in rules else None)
    parts = [(message.get("model"), usage, name)]
    iterations = usage.get("iterations")
    for n, part in enumerate(iterations if isinstance(iterations, list) else ()):
        if isinstance(part, dict) and part.get("type") == "advisor_message":
            parts.append((part.get("model"), part, name and f"{name}/adviser-{n}"))
    for model, counts, name in parts:
        if any(tokens := _claude_tokens(counts, rules)):
            named = model if isinstance(model, str) else None
            usd = inner.get("costUSD")
            yield _Copy(
                name,
                names[1],
                session,
                moment,
                side,
                named,
                tokens,
                file,
                number,
                usd if isinstance(usd, int | float) else None,
            )


def _is_accepted(
    inner: dict[str, Any], message: dict[str, Any], usage: dict[str, Any], rules: Rules
) -> bool:
    version = inner.get("version")
    if (
        "version" in rules
        and version is not None
        and not (isinstance(version, str) and _VERSION.match(version))
    ):
        return False
    if "time" in rules and not (
        isinstance(inner.get("timestamp"), str) and _MOMENT.match(inner["timestamp"])
    ):
        return False
    if "whole" not in rules:
        return inner.get("type") == "assistant" or inner.get("type") not in (
            "user",
            "system",
            "summary",
        )
    ids = (inner.get("requestId"), inner.get("sessionId"), message.get("id"), message.get("model"))
    counts = (usage.get("input_tokens"), usage.get("output_tokens"))
    return all(value is None or (isinstance(value, str) and value) for value in ids) and all(
        type(count) is int and count >= 0 for count in counts
    )


def _claude_tokens(usage: dict[str, Any], rules: Rules) -> Tokens:
    written, parts = _count(usage.get("cache_creation_input_tokens")), usage.get("cache_creation")
    if isinstance(parts, dict):
        split = sum(_count(parts.get(f"ephemeral_{ttl}_input_tokens")) for ttl in ("5m", "1h"))
        written = split if "parts" in rules else max(split, written)
    return (
        _count(usage.get("input_tokens")),
        _count(usage.get("output_tokens")),
        _count(usage.get("cache_read_input_tokens")),
        written,
    )


def _winners(copies: list[_Copy], rules: Rules) -> Iterator[_Copy]:
    """Return the copies of a message that count: one, or one for each request."""
    groups: dict[Any, list[_Copy]] = defaultdict(list)
    is_main = any(not copy.is_side for copy in copies)
    for copy in copies:
        if copy.is_side and is_main:
            continue
        key: Any = None
        if not copy.is_side and copy.request is not None and "request" in rules:
            key = copy.request
        elif not copy.is_side and copy.request is None and "moment" in rules:
            key = (copy.session, copy.moment)
        groups[key].append(copy)
    latest = datetime.max.replace(tzinfo=UTC)
    for group in groups.values():
        yield min(
            group,
            key=lambda copy: (
                -sum(copy.tokens),
                None if "first" in rules else copy.moment or latest,
            ),
        )


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────


class _Row(NamedTuple):
    """A total of tokens from a transcript.

    `own` is True in the thread's own part, judged by ids and pauses.
    """

    moment: datetime | None
    model: str | None
    total: tuple[int, ...] | None
    last: tuple[int, ...] | None
    own: bool


class _Thread(NamedTuple):
    id: str
    parent: str | None
    rows: list[_Row]
    file: str


def _codex(home: Path, rules: Rules) -> Iterator[Entry]:
    root = home / ".codex"
    paths = [
        path
        for folder in ("sessions", "archived_sessions")
        for path in sorted((root / folder).rglob("*.jsonl"))
    ]
    threads = [_thread(path, str(path.relative_to(root)), rules) for path in paths]
    by_id: dict[str, list[_Thread]] = defaultdict(list)
    for thread in threads:
        by_id[thread.id].append(thread)
    seen: set[tuple[Any, ...]] = set()
    for thread in threads:
        parents = [
            row
            for parent in by_id.get(thread.parent or "", [])
            if parent is not thread
            for row in parent.rows
        ]
        for row, used in _requests(thread, parents, rules):
            model = row.model or ("gpt-5" if "fallback" in rules else None)
            key = (
                (row.moment, model, used)
                if "clock" in rules
                else (thread.id, row.total or row.moment, used)
            )
            if key in seen or not any(used):
                continue
            seen.add(key)
            yield Entry(_day(row.moment), model, _codex_tokens(used), thread.file)


def _thread(path: Path, file: str, rules: Rules) -> _Thread:
    thread = _Thread(path.stem[-36:], None, [], file)
    model, before, began = None, None, None
    is_own = True
    rows = 0
    for _, line in _lines(path, rules):
        if "compact" in rules and b'"type":"' not in line:
            continue
        value = _object(line)
        payload = value.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        moment = _time(value.get("timestamp"))
        if value.get("type") == "session_meta" and not rows:
            rows += 1
            thread, began = _about(payload, thread), _born(payload.get("id")) or moment
            is_own = thread.parent is None
            continue
        if not is_own:
            is_own = _is_own(payload, moment, before, began)
        rows += 1
        # Settings may be written long before the history.
        before = moment or before if payload.get("type") else before
        named = (
            payload.get("model") or (payload.get("info") or {}).get("model")
            if isinstance(payload.get("info"), dict | None)
            else None
        )
        model = named if isinstance(named, str) else model
        thread.rows.extend(_read_totals(value, payload, moment, model, is_own, rules))
    return thread


def _about(payload: dict[str, Any], thread: _Thread) -> _Thread:
    source = payload.get("source")
    spawn = source.get("subagent") if isinstance(source, dict) else None
    spawn = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
    parent = payload.get("forked_from_id") or (
        spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
    )
    return thread._replace(
        id=str(payload.get("id") or thread.id), parent=parent if isinstance(parent, str) else None
    )


def _is_own(
    payload: dict[str, Any],
    moment: datetime | None,
    before: datetime | None,
    began: datetime | None,
) -> bool:
    """Return True if a fork's own part begins here: with a turn younger than the fork, or after
    a pause."""
    turn = _born(payload.get("turn_id"))
    if turn is not None and began is not None:
        return turn >= began
    return bool(moment and before and (moment - before).total_seconds() > 2)


def _born(name: Any) -> datetime | None:
    """Return the time in a UUID of version 7."""
    if not isinstance(name, str) or len(name) != 36 or name[14] != "7":
        return None
    try:
        return datetime.fromtimestamp(int(name[:8] + name[9:13], 16) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _read_totals(
    value: dict[str, Any],
    payload: dict[str, Any],
    moment: datetime | None,
    model: str | None,
    is_own: bool,
    rules: Rules,
) -> Iterator[_Row]:
    info = payload.get("info")
    if payload.get("type") == "token_count" and isinstance(info, dict):
        total, last = (_numbers(info.get(f"{name}_token_usage")) for name in ("total", "last"))
        yield _Row(moment, model, total, last, is_own)
    bare = value.get("type") == "turn.completed"
    inside = payload.get("type") == "turn.completed" and "headless" not in rules
    if bare or inside:
        usage = _numbers((value if bare else payload).get("usage"))
        if usage:
            yield _Row(moment, model, None, usage, True)


def _numbers(counts: Any) -> tuple[int, ...] | None:
    """Return input, cached, written, output, reasoning, sum."""
    if not isinstance(counts, dict):
        return None
    written = _count(counts.get("cache_write_input_tokens")) or _count(
        counts.get("cache_creation_input_tokens")
    )
    given = _count(counts.get("input_tokens"))
    return (
        given,
        min(_count(counts.get("cached_input_tokens")), given),
        written,
        _count(counts.get("output_tokens")),
        _count(counts.get("reasoning_output_tokens")),
        _count(counts.get("total_tokens")),
    )


def _requests(
    thread: _Thread, parents: list[_Row], rules: Rules
) -> Iterator[tuple[_Row, tuple[int, ...]]]:
    """Return the rows that belong to a new request, and its tokens."""
    rows = list(_changes(thread.rows, rules))
    skipped = _copied(rows, thread.parent, list(_changes(parents, rules)), rules)
    before: tuple[int, ...] | None = None
    for n, row in enumerate(rows):
        used = row.last
        if used is None and row.total is not None:
            used = tuple(
                max(0, now - then) for now, then in zip(row.total, before or (0,) * 6, strict=True)
            )
        before = row.total or before
        if n not in skipped and used is not None:
            yield row, used


def _changes(rows: Iterable[_Row], rules: Rules) -> Iterator[_Row]:
    """Yield the rows whose total is new: since the row before, or, without the rule, since any
    row."""
    seen: set[tuple[int, ...]] = set()
    for row in rows:
        if row.total is not None:
            if row.total in seen:
                continue
            if "again" in rules:
                seen.clear()
            seen.add(row.total)
        yield row


def _copied(rows: list[_Row], parent: str | None, parents: list[_Row], rules: Rules) -> set[int]:
    """Return the rows of a fork that are its parent's."""
    if parent is None:
        return set()
    told = {row.total for row in parents}
    if parents and "pause" in rules:
        prefix = 0
        while prefix < min(len(rows), len(parents)) and rows[prefix][2:4] == parents[prefix][2:4]:
            prefix += 1
        if prefix or "child" in rules:
            return set(range(prefix))
        return {n for n, row in enumerate(rows) if row.total in told}
    if not parents and "orphan" in rules:
        return _cluster(rows)
    return {
        n
        for n, row in enumerate(rows)
        if not row.own or ("child" not in rules and row.total in told)
    }


def _cluster(rows: list[_Row]) -> set[int]:
    """Return the first rows, as long as each follows within a second; none if there is only one."""
    end = 1
    while end < len(rows) and _gap(rows[end - 1], rows[end]) <= 1:
        end += 1
    return set(range(end)) if end > 1 else set()


def _gap(one: _Row, other: _Row) -> float:
    return (other.moment - one.moment).total_seconds() if one.moment and other.moment else 0


def _codex_tokens(used: tuple[int, ...]) -> Tokens:
    given, read, written, said, *_ = used
    return max(0, given - read - written), said, read, written


# ── Grok Build ────────────────────────────────────────────────────────────────────────────────────


def _grok(home: Path, rules: Rules) -> Iterator[Entry]:
    root = home / ".grok" / "sessions"
    seen: set[str] = set()
    for path in sorted(root.rglob("updates.jsonl")):
        summary = path.with_name("summary.json")
        current = (
            _object(summary.read_bytes()).get("current_model_id") if summary.is_file() else None
        )
        for _, line in _lines(path, rules):
            params = _object(line).get("params")
            params = params if isinstance(params, dict) else {}
            update, about = params.get("update"), params.get("_meta")
            usage = (
                update.get("usage")
                if isinstance(update, dict) and update.get("sessionUpdate") == "turn_completed"
                else None
            )
            name = about.get("eventId") if isinstance(about, dict) else None
            if not isinstance(usage, dict) or name in seen:
                continue
            if name:
                seen.add(name)
            yield from _turn(
                usage,
                about if isinstance(about, dict) else {},
                current,
                str(path.relative_to(root)),
            )


def _turn(
    usage: dict[str, Any], about: dict[str, Any], current: str | None, file: str
) -> Iterator[Entry]:
    moment = (
        datetime.fromtimestamp(about["agentTimestampMs"] / 1000, UTC)
        if type(about.get("agentTimestampMs")) is int
        else None
    )
    models = usage.get("modelUsage")
    parts: dict[str | None, Any] = (
        models if isinstance(models, dict) and models else {current: usage}
    )
    for model, counts in parts.items():
        given, read = _count(counts.get("inputTokens")), _count(counts.get("cachedReadTokens"))
        yield Entry(
            _day(moment),
            model,
            (max(0, given - read), _count(counts.get("outputTokens")), read, 0),
            file,
        )


_COUNTERS: dict[str, Callable[[Path, Rules], Iterator[Entry]]] = {
    "claude": _claude,
    "codex": _codex,
    "grok": _grok,
}
