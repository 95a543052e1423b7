"""A digest as lines to read: what was asked, what came of it, what was done, what went wrong and
what fixed it, what people decided.

From values to text; nothing here asks the store or prints. All text of the session passes `clean`
or `one_line`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..digest.shell_commands import seems_read_only
from ..model import DIGEST_VERSION, CommandRun, Digest, Moment, TestRun, describe_outcome
from ..text.words import count, duration
from .output import clean, fit, one_line, paint, screen, wrap

SHOWN = 8
"""Maximum number of items of a list; --json has all."""
MAX_GOAL_LINES, MAX_RESULT_LINES = 4, 10


def render(digest: Digest) -> Iterator[str]:
    """Yield the digest, without the head of its session."""
    yield from _requests(digest)
    yield from _result(digest)
    yield from _files(digest)
    yield from _published(digest)
    yield from _list("tested", [_tested(run) for run in digest.tests], digest.cut.get("tests", 0))
    yield from _errors(digest)
    yield from _conversation(digest)
    yield from _commands(digest)
    yield from _figures(digest)
    yield from _notes(digest)


def _requests(digest: Digest) -> Iterator[str]:
    yield from _quoted_lines("asked", digest.goal, digest.goal_seq, MAX_GOAL_LINES)
    later = [request for request in digest.requests if request.seq != digest.goal_seq]
    if more := max(0, len(later) - SHOWN) + digest.cut.get("requests", 0):
        yield f"{_name('')}{paint(f'and {more:,} more, then', 'dim')}"
    yield from _moments("" if digest.goal else "asked", later[-SHOWN:])
    yield from _line("task", one_line(digest.task_ref or ""))


def _result(digest: Digest) -> Iterator[str]:
    if digest.result is not None:
        text = f"(the agent's own words) {digest.result.text}"
        yield from _quoted_lines("result", text, digest.result.seq, MAX_RESULT_LINES)
    yield from _line("ended", ending(digest))


def _files(digest: Digest) -> Iterator[str]:
    for name, files in (
        ("edited", digest.files_edited),
        ("created", digest.files_created),
        ("read", digest.files_read),
    ):
        names = [one_line(path) for path in files]
        yield from _list(name, names, digest.cut.get(f"files_{name}", 0))


def _published(digest: Digest) -> Iterator[str]:
    commits = [f"{commit.sha} {one_line(commit.subject)}".strip() for commit in digest.commits]
    yield from _list("committed", commits, digest.cut.get("commits", 0))
    yield from _moments("pull requests", digest.pull_requests, digest.cut.get("pull_requests", 0))


def _conversation(digest: Digest) -> Iterator[str]:
    for name, field in (
        ("corrected", "corrections"),
        ("decided", "decisions"),
        ("stepped in", "interventions"),
        ("delegated", "subagents"),
    ):
        yield from _moments(name, getattr(digest, field), digest.cut.get(field, 0))
    yield from _list(
        "got lessons",
        [f"#{got.seq} {one_line(got.lesson)}" for got in digest.requested_lessons],
        digest.cut.get("requested_lessons", 0),
    )


def _commands(digest: Digest) -> Iterator[str]:
    """Yield the commands in their order: those that only read a file are left out first."""
    working = [run for run in digest.commands if not seems_read_only(run.command)]
    shown = working or digest.commands
    left_out = len(digest.commands) - len(shown) + digest.cut.get("commands", 0)
    yield from _list("ran", [_command_lines(run) for run in shown], left_out)


def _figures(digest: Digest) -> Iterator[str]:
    yield from _line(
        "did", ", ".join(f"{number} × {one_line(tool)}" for tool, number in _highest(digest.tools))
    )
    times = f"{duration(digest.active_s)} of work, {duration(digest.wall_s)} from first to last"
    yield from _line("took", times if digest.wall_s else "")
    yield from _line("kind", digest.quality or "")
    parts = [count(digest.retries, "retry", "retries")] * bool(digest.retries)
    parts += [count(digest.compactions, "compaction")] * bool(digest.compactions)
    yield from _line("besides", ", ".join(parts))


def _notes(digest: Digest) -> Iterator[str]:
    """Yield notes on a digest that was made in two steps or by older rules."""
    if digest.before is not None:
        yield ""
        yield paint(
            f"up to #{digest.before.covers.last_seq} as it was known when the text left; the rest"
            " came since",
            "dim",
        )
    if digest.version < DIGEST_VERSION:
        yield ""
        back = f"runlore evict --back {digest.session_uid}"
        yield paint(
            f"made by older rules; `{back}` makes it again while its transcript is there", "dim"
        )


def _highest(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Return the highest counts first. A stored digest has them by name."""
    return sorted(counts.items(), key=lambda pair: -pair[1])[:SHOWN]


def ending(digest: Digest) -> str:
    """Return the outcome, its reason, and the events that show it."""
    where = ", ".join(f"#{seq}" for seq in digest.outcome_evidence)
    reason = f": {one_line(digest.outcome_reason)}" if digest.outcome_reason else ""
    return f"{describe_outcome(digest)}{reason}{f' ({where})' if where else ''}"


def _errors(digest: Digest) -> Iterator[str]:
    fixes = {fix.fingerprint: fix for fix in digest.fixes}
    if digest.errors:
        yield ""
        more = f", and {digest.cut['errors']:,} more" if "errors" in digest.cut else ""
        yield paint(f"{count(len(digest.errors), 'different error')}{more}", "bold")
    for error in digest.errors:
        times = f" ({error.count} ×)" if error.count > 1 else ""
        ref = f"#{error.first_seq}"
        room = max(MIN_WIDTH, screen()[0] - len(ref + times) - 2)
        yield f"{paint(ref, 'red')}  {fit(one_line(error.signature.sample), room)}{times}"
        fix = fixes.get(error.signature.fingerprint)
        if fix is not None and fix.is_shown:
            step = fix.steps[0]
            ref = f"#{step.seq}"
            room = max(MIN_WIDTH, screen()[0] - len(ref) - 4)
            summary = fit(f"{fix.how}: {one_line(step.summary)}", room)
            yield f"  {paint(ref, 'green')}  {summary}"
    if digest.errors:
        yield ""


def _command_lines(run: CommandRun) -> str:
    times = (
        f" ({run.count} ×{f', {run.failed} failed' * bool(run.failed)})"
        if run.count > 1
        else " (failed)" * bool(run.failed)
    )
    return f"{one_line(run.command)}{times}"


def _tested(run: TestRun) -> str:
    counts = [
        f"{number} {word}"
        for word in ("passed", "failed", "skipped")
        if (number := getattr(run, word))
    ]
    return (
        f"#{run.seq} {one_line(run.command)}:"
        f" {', '.join(counts) or ('failed' if run.is_error else 'no counts')}"
    )


def _quoted_lines(name: str, text: str | None, seq: int | None, max_lines: int) -> Iterator[str]:
    width = max(MIN_WIDTH, screen()[0] - WIDTH - len(f"#{seq} "))
    lines = [line for line in wrap(clean(text), width) if line.strip()] if text else []
    if lines:
        yield f"{_name(name)}{paint(f'#{seq}', 'cyan')} {lines[0]}"
        yield from (" " * WIDTH + line for line in lines[1:max_lines])
    if len(lines) > max_lines:
        yield " " * WIDTH + paint("…", "dim")


def _moments(name: str, moments: Sequence[Moment], cut: int = 0) -> Iterator[str]:
    yield from _list(name, [f"#{moment.seq} {one_line(moment.text)}" for moment in moments], cut)


WIDTH, MIN_WIDTH = 16, 40
"""Columns for the names of things, and those that what is said of them has at least."""


def _fit(text: str) -> str:
    return fit(text, max(MIN_WIDTH, screen()[0] - WIDTH))


def _name(name: str) -> str:
    return paint(name.ljust(WIDTH), "dim")


def _line(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"{_name(name)}{_fit(text)}"


def _list(name: str, items: Sequence[str], cut: int) -> Iterator[str]:
    """Each on a line of its own."""
    for n, item in enumerate(items[:SHOWN]):
        yield f"{_name(name if n == 0 else '')}{_fit(item)}"
    if (more := len(items) - SHOWN if len(items) > SHOWN else 0) + cut:
        yield f"{_name('')}{paint(f'and {more + cut:,} more', 'dim')}"
