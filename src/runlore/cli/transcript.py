"""A session as lines to read: turns, folded calls, diffs, errors, what was rewound, compacted and
copied.

From values to text; nothing here asks the store or prints. All text of the transcript passes
`clean` or `one_line`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby

import msgspec

from ..export.outline import belongs
from ..model import Session, SessionEvent, Tests, describe_outcome
from ..query import Transcript
from ..store import SessionLine
from ..store.values import Family
from ..text.words import (
    PARTLY_PRICED,
    count,
    duration,
    errors_of,
    is_cost_known,
    local,
    short,
    size,
    usd,
    with_subagents,
    without_price,
)
from ..timeline import ToolCall, is_prompt, turn_numbers, turns
from .output import cells, clean, fit, one_line, paint, screen, wrap

GUTTER = 6
"""Columns for the number of an event, by which `--event` and `uid#seq` name it. A session with
longer numbers has more."""
LINES = {"prompt": 40, "reply": 200, "diff": 16, "error": 8}
"""Number of lines of a text that are shown before it is folded."""
COPIES = 3
"""A longer run of events that were copied from another session is folded."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The options for showing a transcript."""

    branch: int | None = 0
    """A branch by its number, 0 for the one that is active; None for all."""
    full: bool = False
    thinking: bool = False


def render(script: Transcript, view: View) -> Iterator[str]:
    """The whole session, without two empty lines in a row."""
    before = ""
    for line in _render(script, view):
        if line or before:
            yield line
        before = line


def _render(script: Transcript, view: View) -> Iterator[str]:
    yield from head(script)
    shown = script.events
    if view.branch is not None:
        seqs = set(script.branches[view.branch].seqs) if script.branches else set()
        shown = [event for event in shown if event.seq in seqs]
    body, numbers = _Body(script, view), turn_numbers(script.events)
    is_silent = bool(shown)
    for turn in turns(shown):
        lines = list(body.turn(turn.events))
        if lines:
            is_silent = False
            first = turn.events[0]
            yield ""
            when = local(first.ts, "%Y-%m-%d %H:%M:%S") if first.ts else "at an unknown time"
            number = numbers.get(first.seq)
            yield rule(when if number is None else f"turn {number}  {when}")
            yield from lines
    if is_silent:
        yield ""
        yield paint(
            f"nothing was said or done in it; --full shows {count(len(shown), 'note')} of the"
            " agent's own",
            "dim",
        )
    yield from foot(script, view)


def head(script: Transcript) -> Iterator[str]:
    session = script.session
    yield paint(fit(one_line(session.called) or "(no title)", screen()[0]), "bold")
    yield from within(
        [(session.session_uid, "cyan"), *((one_line(part), "") for part in where(session) if part)],
        script,
    )
    if session.cwd:
        yield one_line(session.cwd)
    yield from within(list(facts(session, script.family)), script)
    if session.parent_uid:
        yield from within(
            [(f"{session.relation or 'child'} of", ""), (session.parent_uid, "cyan")], script, " "
        )
    if session.source_missing_at:
        yield paint(
            f"its source is gone since {local(session.source_missing_at)}: this is what was kept",
            "yellow",
        )


def within(parts: list[tuple[str, str]], script: Transcript, between: str = "  ") -> Iterator[str]:
    """Parts, each with its style, on as many lines as they need. Where they do not fit one, uids
    give way to short ids."""
    width = screen()[0]
    if cells(between.join(text for text, _ in parts)) > width:
        parts = [(fit(script.names.get(text, text), width), style) for text, style in parts]
    line, room = "", width
    for text, style in parts:
        if line and cells(text) + len(between) > room:
            yield line
            line, room = "", width
        room -= cells(text) + len(between) * bool(line)
        line += between * bool(line) + (paint(text, style) if style else text)
    yield line


def where(session: Session) -> list[str | None]:
    branch, machine = session.git_branch, session.machine
    return [
        session.repo,
        f"on {branch}" if branch else None,
        session.model,
        f"from {machine}" if machine else None,
    ]


def facts(session: Session, family: Family) -> Iterator[tuple[str, str]]:
    cost, tokens = session.cost, session.cost.total_tokens
    yield span(session.started_at, session.ended_at), ""
    yield f"{duration(cost.wall_clock_s)} at work", ""
    yield count(cost.turns, "turn"), ""
    yield count(session.events, "event"), ""
    if family.errors:
        yield errors_of(family.errors, session.errors, family.subagents), "red"
    yield with_subagents(short(family.tokens), short(tokens), family.subagents, " tokens"), ""
    if is_cost_known(family.usd, family.unpriced):
        whole, alone = usd(family.usd, family.unpriced), usd(cost.usd, family.own_unpriced)
        yield with_subagents(whole, alone, family.subagents), ""
        if family.unpriced:
            yield f"{PARTLY_PRICED} {without_price(family.unpriced)}", "dim"
    if session.outcome != "unknown":
        yield describe_outcome(session), ""
    if session.evicted_at:
        yield f"evicted {local(session.evicted_at, '%Y-%m-%d')}", "yellow"


def span(start: datetime | None, end: datetime | None) -> str:
    """From when to when; the date once, when both are on one day."""
    if end is None or local(start) == local(end):
        return local(start)
    is_same_day = local(start, "%Y-%m-%d") == local(end, "%Y-%m-%d")
    return f"{local(start)} → {local(end, '%H:%M') if is_same_day else local(end)}"


def foot(script: Transcript, view: View) -> Iterator[str]:
    if not script.events:
        yield paint(
            (
                "its text is no longer stored"
                if script.session.evicted_at
                else "nothing happened in it"
            ),
            "dim",
        )
    others = [child for child in script.children if child.relation != "subagent"]
    for title, children in (
        ("Subagents", [child for child in script.children if child.relation == "subagent"]),
        ("Goes on in", others),
    ):
        if children:
            yield ""
            yield paint(title, "bold")
            yield from (f"  {describe(child, script, 2)}" for child in children)
    others_left = script.branches[1:]
    if others_left and view.branch == 0:
        yield ""
        what = "a branch was" if len(others_left) == 1 else f"{len(others_left)} branches were"
        yield paint(f"{what} left behind by a rewind; --branch all shows everything", "dim")


def describe(child: SessionLine, script: Transcript, indent: int) -> str:
    """A session that came out of this one, in a line behind so many columns."""
    errors = f", {count(child.errors, 'error')}" if child.errors else ""
    extent = f" ({count(child.events, 'event')}{errors})"
    name = script.names.get(child.uid, child.uid)
    room = screen()[0] - indent - len(name) - 2
    title = one_line(child.title) or "(no title)"
    has_extent = room > len(extent) + 20
    shown = fit(title, room - len(extent)) + extent if has_extent else fit(title, max(8, room))
    return f"{paint(name, 'cyan')}  {shown}"


def rule(text: str) -> str:
    return paint(f"── {text} ".ljust(min(screen()[0], 100), "─"), "dim")


class _Body:
    """Renders events one after another. The result of a call and its other events are shown with
    the call."""

    def __init__(self, script: Transcript, view: View) -> None:
        self.view, self.script = view, script
        self.width = screen()[0]
        self.gutter = max(GUTTER, len(str(script.events[-1].seq)) + 1 if script.events else 0)
        self.cwd = script.session.cwd
        self.bodies = script.bodies
        self.call_of: dict[int, ToolCall] = {}
        self.with_call: set[int] = set()
        for call in script.calls:
            if call.call is not None:
                self.call_of[call.call.seq] = call
                self.with_call.update(
                    event.seq
                    for event in (call.result, *call.others)
                    if event is not None and belongs(event)
                )
        self.children = {child.uid: child for child in script.children}
        self.left_at: dict[int, list[int]] = {}
        for n, line in enumerate(script.branches[1:], 1):
            if line.forked_at is not None:
                self.left_at.setdefault(line.forked_at, []).append(n)
        self.lengths = [len(line.seqs) for line in script.branches]

    def turn(self, events: list[SessionEvent]) -> Iterator[str]:
        for is_copy, run in groupby(events, lambda event: event.origin is not None):
            some = list(run)
            if is_copy and len(some) > COPIES and not self.view.full:
                span = f"from {some[0].origin} to {some[-1].origin}"
                yield self.mark(
                    some[0], "↑", f"{count(len(some), 'event')} copied {span} (--full)", "dim"
                )
                continue
            for event in some:
                yield from self.event(event)
                if self.view.branch is not None:
                    yield from self.left(event)

    def left(self, event: SessionEvent) -> Iterator[str]:
        for n in self.left_at.get(event.seq, ()):
            yield self.mark(
                event,
                "⑂",
                f"rewound to here: {count(self.lengths[n], 'event')} left behind (--branch {n})",
                "yellow",
            )

    def event(self, event: SessionEvent) -> Iterator[str]:
        if event.seq in self.with_call:
            return
        if event.origin is not None:
            yield self.mark(event, "↑", f"from {event.origin}", "dim")
        if event.is_gone:
            yield self.mark(event, "·", "no longer in its source", "dim")
        if event.is_call:
            yield from self.call(event, self.call_of.get(event.seq))
        else:
            yield from self.message(event, self.bodies.get(event.seq) or event.summary or "")

    def message(self, event: SessionEvent, text: str) -> Iterator[str]:
        """Yield the lines of an event that is no call, by its kind."""
        if is_prompt(event):
            yield from self.text(event, "❯", text, "prompt", "bold cyan")
        elif event.kind == "assistant_msg":
            yield from self.text(event, " ", text, "reply", "")
        elif event.kind == "thinking":
            yield from self.thinking(event, text)
        elif event.kind == "human_intervention":
            # A word alone ("plan") says less than the line that it ends.
            is_ending = event.summary is not None and event.summary.endswith(text)
            shown = event.summary or "" if is_ending else text
            yield from self.text(event, "!", shown, "error", "yellow")
        elif event.kind in ("error", "retry") or event.is_error:
            yield from self.text(event, "✗", text, "error", "red")
        elif event.kind in ("tool_result", "decision", "completion"):
            yield from self.text(event, "◆", text, "error", "")
        else:
            yield from self.lifecycle(event, text)

    def text(
        self, event: SessionEvent, sign: str, text: str, fold: str, style: str
    ) -> Iterator[str]:
        lines = list(
            wrap(clean(text).strip("\n").expandtabs(4), max(40, self.width - self.gutter - 2))
        )
        kept = lines if self.view.full else lines[: LINES[fold]]
        for n, line in enumerate(kept):
            yield (
                self.mark(event, sign, line, style)
                if n == 0
                else self.indent(paint(line, style) if style else line)
            )
        yield from self.folded(len(lines) - len(kept))
        if fold in ("prompt", "reply"):
            yield ""

    def thinking(self, event: SessionEvent, text: str) -> Iterator[str]:
        if not text.strip():
            return
        if self.view.thinking or self.view.full:
            yield from self.text(event, "…", text, "reply", "dim")
        else:
            yield self.mark(
                event,
                "…",
                fit(f"thought: {one_line(event.summary)}", self.width - self.gutter - 2),
                "dim",
            )

    def lifecycle(self, event: SessionEvent, text: str) -> Iterator[str]:
        """Yield a note of the agent. Without --full only those that changed the model's view are
        shown."""
        if event.view == "compact":
            yield self.mark(
                event, "≡", "compacted: what came before left the model's view", "yellow"
            )
        elif event.view == "summary":
            yield from self.text(event, "≡", f"summary of what came before\n{text}", "error", "dim")
        elif event.view in ("clear", "retract"):
            what = "results cleared" if event.view == "clear" else "taken back"
            yield self.mark(event, "≡", f"{what}: {one_line(event.summary)}", "yellow")
        elif self.view.full:
            yield self.mark(
                event,
                "·",
                f"{one_line(event.native or event.kind)}: {one_line(event.summary)}",
                "dim",
            )

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────
    def call(self, event: SessionEvent, call: ToolCall | None) -> Iterator[str]:
        result = call.result if call else None
        failed = result is not None and result.is_error
        body = clean(self.bodies.get(event.seq, ""))
        output = clean(self.bodies.get(result.seq, "")) if result is not None else ""
        yield self.headline(event, failed, "  ".join(outcome(event, call, body, output)))
        if self.view.full:
            yield from self.block(body, "")
            yield from self.block(output, "red" if failed else "dim")
        elif event.kind == "edit":
            yield from self.diff(body)
        if failed and not self.view.full:
            yield from self.ends(output)
        if call is not None:
            yield from self.consequences(call)

    def consequences(self, call: ToolCall) -> Iterator[str]:
        """Yield the decisions and interventions about a call, and the subagents it started."""
        for other in (call.result, *call.others):
            if other is not None and other.kind != "tool_result" and belongs(other):
                sign, style = ("◆", "") if other.kind == "decision" else ("!", "yellow")
                yield self.mark(
                    other, sign, fit(one_line(other.summary), self.width - self.gutter - 2), style
                )
        for uid in self.script.started.get(call.call.seq, ()) if call.call is not None else ():
            if uid in self.children:
                yield self.indent(
                    f"  ◦ {describe(self.children[uid], self.script, self.gutter + 6)}"
                )

    def headline(self, event: SessionEvent, failed: bool, became: str) -> str:
        """The call in one line: what was called with what, and what became of it."""
        tool = one_line(event.tool) or event.kind
        what = one_line(event.summary)
        what = "" if what == tool else what.removeprefix(f"{self.cwd}/") if self.cwd else what
        what = fit(what, max(20, self.width - self.gutter - len(tool) - len(became) - 8))
        words = [paint(tool, "bold"), what, paint(f"→ {became}", "red" if failed else "dim")]
        return self.mark(
            event,
            paint("✗", "red") if failed else "▸",
            "  ".join(word for word in words if word),
            "",
        )

    # ── what stands beside and below a line ───────────────────────────────────────────────────────
    def diff(self, body: str) -> Iterator[str]:
        """The lines of a change after the path, which the call names already."""
        lines = body.split("\n")
        start = next((n for n, line in enumerate(lines) if line.startswith("@@")), len(lines)) + 1
        shown = lines[start : start + LINES["diff"]]
        for line in shown:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
            yield self.indent(
                "  " + paint(fit(line.expandtabs(4), self.width - self.gutter - 4), style)
            )
        yield from self.folded(len(lines) - start - len(shown))

    def block(self, text: str, style: str) -> Iterator[str]:
        for line in text.strip("\n").split("\n"):
            yield self.indent(
                f"  {paint(line.expandtabs(4), style) if style else line.expandtabs(4)}"
            )

    def ends(self, text: str) -> Iterator[str]:
        """Yield the beginning and the end of an error: the reason is more often at the end."""
        lines = [
            fit(line.expandtabs(4), self.width - self.gutter - 4)
            for line in text.strip("\n").split("\n")
        ]
        first, last = (
            (lines, [])
            if len(lines) <= LINES["error"]
            else (lines[:2], lines[2 - LINES["error"] :])
        )
        yield from (self.indent(f"  {paint(line, 'red')}") for line in first)
        yield from self.folded(len(lines) - len(first) - len(last))
        yield from (self.indent(f"  {paint(line, 'red')}") for line in last)

    def folded(self, number: int) -> Iterator[str]:
        if number > 0:
            yield self.indent(paint(f"  … {count(number, 'more line')} (--full)", "dim"))

    def mark(self, event: SessionEvent, sign: str, text: str, style: str) -> str:
        """A line with the event's number in front."""
        number = paint(str(event.seq).rjust(self.gutter - 1), "dim")
        return (
            f"{number} {paint(sign, style) if style else sign}"
            f" {paint(text, style) if style else text}"
        )

    def indent(self, text: str) -> str:
        return " " * (self.gutter + 2) + text if text.strip() else ""


def outcome(event: SessionEvent, call: ToolCall | None, body: str, output: str) -> Iterator[str]:
    """Yield the outcome of a call in a few words."""
    if call is None or call.is_pending or call.result is None:
        yield "no result"
        return
    result = call.result
    tests: Tests | None = result.tests or event.tests
    if result.kind == "human_intervention":
        yield "refused"
        return
    if tests is not None:
        yield test_counts(tests)
    elif result.exit_code:
        yield f"exit {result.exit_code}"
    elif call.failed:
        yield "failed"
    elif event.kind == "edit":
        yield line_counts(body)
    else:
        yield "ok"
    if event.kind != "edit" and not call.failed and output.strip():
        yield count(output.rstrip("\n").count("\n") + 1, "line")
    if call.duration_ms is not None and call.duration_ms >= 100:
        yield f"({duration(call.duration_ms / 1000)})"


def test_counts(tests: Tests) -> str:
    counts = {"passed": tests.passed, "failed": tests.failed, "skipped": tests.skipped}
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "no tests"


def line_counts(diff: str) -> str:
    lines = diff.split("\n")
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"+{added} −{removed}"


# ── one event, and what the model saw ─────────────────────────────────────────────────────────────
def render_event(event: SessionEvent, body: str) -> Iterator[str]:
    """Everything that is known of one event."""
    yield paint(f"{event.session_uid}#{event.seq}", "cyan")
    hidden = {"session_uid", "seq", "summary", "payload_ref", "extra"}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name in hidden or value in (None, (), False, 0, ""):
            continue
        if isinstance(value, datetime):
            value = local(value, "%Y-%m-%d %H:%M:%S")
        elif isinstance(value, msgspec.Struct):
            value = ", ".join(
                f"{key} {number}" for key, number in msgspec.to_builtins(value).items()
            )
        elif isinstance(value, tuple):
            value = ", ".join(map(str, value))
        yield f"{paint(name, 'dim')}: {one_line(str(value))}"
    yield ""
    yield from clean(body or event.summary or "").split("\n")


def render_context(seen: Iterable[tuple[SessionEvent, bool, str]]) -> Iterator[str]:
    """Yield what the model saw, in order: each event whole, or a note that its text had been
    removed."""
    total = 0
    for event, is_cleared, body in seen:
        who = one_line(event.tool) if event.tool else event.role or ""
        yield rule(f"#{event.seq} {event.kind} {who}".rstrip())
        yield from (
            ["[cleared: the model no longer saw this text]"]
            if is_cleared
            else clean(body).split("\n")
        )
        total += 0 if is_cleared else len(body)
    yield rule(f"{size(total)} of text")
