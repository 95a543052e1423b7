"""Live sessions as lines to read: the conversation, records, the state of a run. Functions from
values to text; nothing here opens a log.

Text that agents wrote is hostile: all of it passes `clean` or `one_line`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from ..live.checkpoints import Difference
from ..live.liveness import Stale, Verdict
from ..live.log import Branch, SessionInfo
from ..live.state import Checkpoint, RunView, SessionState
from ..live.views import Conversation, ToolCall
from ..model import LogRecord
from ..text.words import ago, count, duration, local, short
from .output import Column, clean, encoded, fit, one_line, paint, screen, table

GUTTER = 7
LINES = 12
"""Number of lines of a text that are shown before it is folded."""
STYLES = {
    "new": "dim",
    "active": "green",
    "paused": "yellow",
    "failed": "red",
    "cancelled": "dim",
    "completed": "dim",
}
FATES = {
    "settled": "it ended; the view takes its output from the ledger",
    "not_started": "it never began",
    "unknown": "it may have begun, and how it ended is not known",
    "running": "it is running",
    "waiting": "it waits for someone",
    "approved": "it was approved and has not begun",
    "refused": "it was refused",
    "open": "it has no result yet",
}


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────
def session_lines(infos: list[SessionInfo], notes: dict[str, list[str]]) -> list[str]:
    """A table; `notes` are words about some of them."""
    now = datetime.now(UTC)
    columns = [
        Column("ID", short_ids([info.id for info in infos])),
        Column("STATUS", [info.status or "" for info in infos]),
        Column("WHEN", [ago(info.updated_at, now) for info in infos]),
        Column("MESSAGES", [f"{info.messages:,}" for info in infos], right=True, leaves=2),
        Column("AGENT", [one_line(info.agent) for info in infos], max_width=16, leaves=1),
        Column("NOTE", [", ".join(notes.get(info.id, ())) for info in infos], leaves=3),
        Column("TITLE", [one_line(info.title) or "-" for info in infos]),
    ]
    head, *rows = table(columns)
    return [paint(head, "dim"), *rows]


def short_ids(ids: list[str], min_length: int = 8) -> list[str]:
    """As much of each as tells it from its neighbours; one that a person may have given, as a
    whole."""
    order = sorted(ids)
    lengths = dict.fromkeys(ids, min_length)
    for one, other in pairwise(order):
        shared = next(
            (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
            min(len(one), len(other)),
        )
        lengths[one], lengths[other] = (
            max(lengths[one], shared + 1),
            max(lengths[other], shared + 1),
        )
    return [one_line(id if len(id) <= 2 * min_length else id[: lengths[id]]) for id in ids]


def head_lines(info: SessionInfo) -> Iterator[str]:
    yield paint(fit(one_line(info.title) or "(no title)", screen()[0]), "bold")
    facts = [info.agent, info.provider, info.model, info.cwd]
    yield "  ".join([paint(one_line(info.id), "cyan"), *(one_line(fact) for fact in facts if fact)])
    status = (
        paint(info.status, STYLES.get(info.status, ""))
        if info.status in STYLES
        else one_line(info.status)
    )
    yield "  ".join(
        part for part in (local(info.created_at), count(info.messages, "message"), status) if part
    )
    if info.origin:
        yield one_line(f"fork of {info.origin.get('session')} at record {info.origin.get('seq')}")


# ── the conversation ──────────────────────────────────────────────────────────────────────────────
def conversation_lines(view: Conversation, *, full: bool) -> Iterator[str]:
    """Yield the messages that the model should see now, each with the number of its record, which
    `rewind` and `fork` accept."""
    for entry in view.entries:
        seq = str(entry.record.seq) if entry.record else "·"
        role = str(entry.message.get("role"))
        sign = {"user": paint("❯", "cyan"), "assistant": paint("●", "green")}.get(
            role, one_line(role)
        )
        lines = list(message_lines(entry.message, full=full)) or [paint("(nothing)", "dim")]
        yield f"{paint(seq.rjust(GUTTER - 1), 'dim')} {sign} {lines[0]}"
        yield from (" " * (GUTTER + 2) + line if line else "" for line in lines[1:])
        yield ""


def message_lines(message: dict[str, Any], *, full: bool) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield from folded(content, full)
        return
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield from block_lines(block, full=full)


def block_lines(block: dict[str, Any], *, full: bool) -> Iterator[str]:
    kind = block.get("type")
    if kind == "text":
        yield from folded(str(block.get("text") or ""), full)
    elif kind == "thinking":
        yield from (
            paint(line, "dim")
            for line in folded(str(block.get("thinking") or block.get("text") or ""), full)
        )
    elif kind == "tool_use":
        yield (
            f"▸ {paint(one_line(str(block.get('name'))), 'bold')} "
            f" {fit(one_line(as_json_text(block.get('input'))), screen()[0])}"
        )
    elif kind == "tool_result":
        style = "red" if block.get("is_error") else "dim"
        yield from (paint(line, style) for line in folded(f"→ {text_of(block)}", full))
    else:
        yield paint(f"[{one_line(str(kind))}]", "dim")


def text_of(block: dict[str, Any]) -> str:
    content = block.get("content")
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text") or f"[{part.get('type')}]")
            for part in content
            if isinstance(part, dict)
        )
    return str(content if content is not None else block.get("model_text") or "")


def folded(text: str, full: bool) -> Iterator[str]:
    lines = clean(text).strip("\n").expandtabs(4).split("\n")
    yield from lines if full else lines[:LINES]
    if not full and len(lines) > LINES:
        yield paint(f"… {count(len(lines) - LINES, 'more line')} (--full)", "dim")


def call_lines(calls: Iterable[ToolCall]) -> Iterator[str]:
    for call in calls:
        again = "; it may be run again" if call.fate == "unknown" and call.replay == "safe" else ""
        yield (
            f"{paint(one_line(call.name) or 'a call', 'bold')} ({one_line(call.call_id)}):"
            f" {FATES.get(call.fate, call.fate)}{again}"
        )


def branch_lines(branches: list[Branch]) -> Iterator[str]:
    for branch in branches:
        sign = "*" if branch.is_active else " "
        origin = (
            f"left another line at {branch.parent}" if branch.parent >= 0 else "from the beginning"
        )
        yield (
            f"{sign} {branch.seq:>6}  {local(branch.ts)}  {count(branch.messages, 'message')},"
            f" {origin}"
        )


# ── records ───────────────────────────────────────────────────────────────────────────────────────
def record_line(record: LogRecord) -> str:
    body = fit(one_line(as_json_text(record.payload)), max(20, screen()[0] - 44))
    return (
        f"{paint(str(record.seq).rjust(GUTTER), 'dim')} {local(record.ts, '%m-%d %H:%M:%S')}"
        f" {one_line(record.type):<16} {body}"
    )


def as_json_text(value: Any) -> str:
    """A value as JSON."""
    return encoded(value).decode()


# ── the run ───────────────────────────────────────────────────────────────────────────────────────
def state_lines(view: RunView, verdict: Verdict | None, flags: Iterable[str]) -> Iterator[str]:
    """Yield the known facts about the run, one on each line."""
    state, progress = view.state, view.state.progress
    yield (
        f"{paint(one_line(state.session_id), 'cyan')}  {paint(state.status, STYLES[state.status])}"
    )
    for name, value in rows_of(state):
        if value not in ("", "0"):
            yield (
                f"{paint(name.rjust(12), 'dim')}  {fit(one_line(value), max(20, screen()[0] - 16))}"
            )
    if state.owner is not None:
        owner = state.owner
        heard = (
            f", last heard of {ago(owner.heartbeat, datetime.now(UTC))}" if owner.heartbeat else ""
        )
        yield (
            f"{paint('owner'.rjust(12), 'dim')}  process {owner.pid} on"
            f" {one_line(owner.host) or '?'}: {verdict}{heard}"
        )
    if progress.path:
        shown = progress.path[-8:]
        path = " → ".join(
            (["…"] if len(progress.path) > len(shown) else []) + [one_line(node) for node in shown]
        )
        yield f"{paint('path'.rjust(12), 'dim')}  {fit(path, max(20, screen()[0] - 16))}"
    if names := ", ".join(flags):
        yield f"{paint('look at it'.rjust(12), 'dim')}  {paint(names, 'yellow')}"
    for refused in view.refused[-3:]:
        yield paint(
            f"refused: record {refused.seq}, {one_line(refused.type)}: {one_line(refused.reason)}",
            "yellow",
        )


def rows_of(state: SessionState) -> Iterator[tuple[str, str]]:
    progress, times, metrics = state.progress, state.timestamps, state.metrics
    yield "goal", state.goal_id
    yield "agent", state.agent_id
    yield "started", local(times.started_at)
    yield (
        "paused",
        (
            f"{local(times.paused_at_time)} at {progress.paused_at or '?'}"
            if times.paused_at_time
            else ""
        ),
    )
    yield "waits for", progress.pause_reason or ""
    yield (
        "ended",
        (
            f"{local(times.completed_at)}, after {duration(state.duration_ms / 1000)}"
            if times.completed_at
            else ""
        ),
    )
    yield "error", state.result.error or ""
    yield "at", progress.current_node or ""
    yield "goes on at", progress.resume_from or ""
    yield "steps", str(progress.steps_executed)
    yield (
        "tokens",
        short(max(progress.total_tokens, metrics.total_input_tokens + metrics.total_output_tokens)),
    )
    yield "time", duration(progress.total_latency_ms / 1000) if progress.total_latency_ms else ""
    yield "retries", str(progress.total_retries)
    yield "failures", ", ".join(progress.nodes_with_failures)
    yield "quality", progress.execution_quality if progress.execution_quality != "clean" else ""
    yield "decisions", str(metrics.decision_count)
    yield "problems", str(metrics.problem_count)
    yield "buffer", ", ".join(state.data_buffer)
    yield "output", as_json_text(state.result.output) if state.result.output else ""
    yield "checkpoint", state.latest_checkpoint_id or ""


def checkpoint_lines(points: Iterable[Checkpoint], state: SessionState) -> list[str]:
    points = list(points)
    used = {state.latest_checkpoint_id: "latest", state.resumed_from: "resumed from"}
    columns = [
        Column("ID", [one_line(point.id) for point in points], max_width=40),
        Column("RECORD", [str(point.seq) for point in points], right=True),
        Column("WHEN", [local(point.ts, "%Y-%m-%d %H:%M:%S") for point in points], leaves=2),
        Column("TYPE", [point.type for point in points], leaves=1),
        Column("CLEAN", ["yes" if point.is_clean else "no" for point in points]),
        Column(
            "NODE",
            [
                one_line(f"{point.node or '-'}{f' → {point.next_node}' if point.next_node else ''}")
                for point in points
            ],
        ),
        Column(
            "",
            [
                one_line(
                    "  ".join(part for part in (used.get(point.id, ""), point.description) if part)
                )
                for point in points
            ],
        ),
    ]
    head, *rows = table(columns)
    return [paint(head, "dim"), *rows]


def difference_lines(difference: Difference) -> Iterator[str]:
    for name, value in difference.removed.items():
        yield paint(f"- {one_line(name)}: {one_line(as_json_text(value))}", "red")
    for name, value in difference.added.items():
        yield paint(f"+ {one_line(name)}: {one_line(as_json_text(value))}", "green")
    for name, (old, new) in difference.changed.items():
        yield f"~ {one_line(name)}: {one_line(as_json_text(old))} → {one_line(as_json_text(new))}"
    if difference.path_left:
        yield f"left: {' → '.join(map(one_line, difference.path_left))}"
    if difference.path:
        yield f"path: {' → '.join(map(one_line, difference.path))}"
    for name, number in difference.counters.items():
        yield f"{one_line(name)}: {number:+,}"


def stale_line(found: Stale) -> str:
    owner = found.owner
    what = {
        "dead": f"process {owner.pid} is gone",
        "silent": f"process {owner.pid} on {one_line(owner.host)} is silent",
    }
    became = f"marked {found.marked}" if found.marked else "left alone"
    return f"{one_line(found.session_id)}  {what.get(found.verdict, found.verdict)}: {became}"
