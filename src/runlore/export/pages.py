"""Filters and functions of the templates that show a session, on the web page and in exported
files. Pure, except that templates are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
import msgspec
from markupsafe import Markup, escape

from ..model import SessionEvent, Tests, describe_outcome
from ..store.values import Family
from ..text import words
from ..text.clean import clean, one_line
from ..text.words import usd as usd
from ..timeline import ToolCall
from . import images, markup
from .outline import Block

TEMPLATES = Path(__file__).parent / "templates"
FIXED = {
    "edit": "fixed by a change",
    "command": "fixed by a command",
    "read": "gone after looking again",
    "changed": "gone when it was called differently",
    "retry": "gone when it was tried again",
}
"""Descriptions of how an error was resolved."""


def environment(*folders: Path) -> jinja2.Environment:
    """Return the template environment.

    Every value that a template prints is cleaned of control sequences and escaped, unless `markup`
    made it.
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(folder) for folder in (*folders, TEMPLATES)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finish,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters.update(FILTERS)
    templates.globals.update(show=show, outcome=outcome, fixed=FIXED, link=session_url, folds=True)
    templates.globals.update(
        cost_words=cost_words,
        cost_figure=cost_figure,
        errors_figure=errors_figure,
        errors_of=words.errors_of,
        tokens_figure=tokens_figure,
        usd_cell=words.usd_cell,
        without_price=words.without_price,
    )
    templates.globals.update(described=describe_outcome)
    templates.globals.update(picture_names=images.named, picture_url=picture_url)
    return templates


def _finish(value: Any) -> Any:
    """Clean each value before Jinja prints it."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def show(text: str, form: str) -> Markup:
    """Return the HTML of a text in the form of its block."""
    return _SHOWN[form](text)


_SHOWN: dict[str, Callable[[str], Markup]] = {
    "markdown": markup.markdown,
    "plain": markup.plain,
    "input": markup.plain,
    "output": markup.plain,
    "diff": markup.change,
}


def outcome(block: Block, body: str, output: str) -> Iterator[tuple[str, str]]:
    """Yield the outcome of a call in a few words, each with its tone."""
    pair, event = block.call, block.event
    result = pair.result if pair else None
    if pair is None or result is None:
        yield "no result", "dim"
        return
    tests = result.tests or event.tests
    yield from _status(pair, result, tests)
    if event.kind == "edit":
        yield from _changed_lines(body)
    elif result.exit_code == 0 and tests is None:
        yield "exit 0", "dim"
    elif output.strip() and not pair.failed:
        yield words.count(output.rstrip("\n").count("\n") + 1, "line"), "dim"
    if pair.duration_ms is not None and pair.duration_ms >= 100:
        yield words.duration(pair.duration_ms / 1000), "dim"


def _status(pair: ToolCall, result: SessionEvent, tests: Tests | None) -> Iterator[tuple[str, str]]:
    if result.kind == "human_intervention":
        yield "refused", "warn"
    elif tests is not None:
        yield _test_counts(tests), "bad" if tests.failed or pair.failed else "good"
    elif result.exit_code:
        yield f"exit {result.exit_code}", "bad"
    elif pair.failed:
        yield "failed", "bad"


def _test_counts(tests: Tests) -> str:
    counts = {"passed": tests.passed, "failed": tests.failed, "skipped": tests.skipped}
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "no tests"


def _changed_lines(diff: str) -> Iterator[tuple[str, str]]:
    lines = diff.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    if added:
        yield f"+{added}", "good"
    if removed:
        yield f"−{removed}", "bad"


def picture_url(event: SessionEvent, sha: str) -> str:
    return f"/x/image/{quote(event.session_uid, safe=':')}?seq={event.seq}&sha={sha}"


def session_url(uid: str, seq: int | str | None = None, words: str = "") -> str:
    """Return the address of a session, or of one of its events with these words marked in it.

    Agents choose ids, so an id is quoted as one path segment.
    """
    url = f"/s/{quote(uid, safe=':')}"
    if seq in (None, ""):
        return url
    # The fragment stays in the browser: the server needs the number to send the right part.
    wanted = {"at": seq, "q": words} if words else {"at": seq}
    return f"{url}?{urlencode(wanted)}#{seq}"


def when(value: str | datetime | None, pattern: str = "ago") -> Markup:
    """Return a relative time with the exact time as its tooltip."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if moment is None:
        return Markup('<span class="dim">?</span>')
    text = (
        words.ago(moment, datetime.now(UTC)) if pattern == "ago" else words.local(moment, pattern)
    )
    exact = words.local(moment, "%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment.isoformat(), exact, text
    )


def cost_words(family: Family, alone: float | None) -> str:
    """Return the cost of a session, with and without its subagents if these cost something."""
    return words.with_subagents(
        usd(family.usd, family.unpriced), usd(alone, family.own_unpriced), family.subagents
    )


def cost_figure(family: Family, alone: float | None) -> tuple[str, str]:
    """Return the cost of a session with its subagents, and what stands beside it."""
    whole = usd(family.usd, family.unpriced)
    own = usd(alone, family.own_unpriced)
    return whole, words.describe_subagents(whole, own, family.subagents)


def errors_figure(whole: int, alone: int, subagents: int) -> tuple[str, str]:
    """Return the errors of a session with its subagents, and what stands beside them."""
    text = f"{whole:,}"
    return text, words.describe_subagents(text, f"{alone:,}", subagents)


def tokens_figure(whole: int, alone: int, subagents: int) -> tuple[str, str]:
    """Return the tokens of a session with its subagents, and what stands beside them."""
    text = words.short(whole)
    return text, words.describe_subagents(text, words.short(alone), subagents)


def marked(text: str, marks: list[tuple[int, int]]) -> Markup:
    """Return the text with the matches marked."""
    parts, at = [], 0
    for first, last in marks:
        parts += [
            escape(clean(text[at:first])),
            Markup("<mark>"),
            escape(clean(text[first:last])),
            Markup("</mark>"),
        ]
        at = last
    return Markup("").join([*parts, escape(clean(text[at:]))])


def short_of(text: str, tool: str | None, cwd: str | None) -> str:
    """Return a call on one line, without what the tool or the session shows already."""
    line = one_line(text)
    line = line.removeprefix(f"{cwd}/") if cwd else line
    return "" if line == tool else line


def ends(text: str, lines: int) -> str:
    """Return the last lines of an error, where the reason usually is."""
    all_lines = [line[:400] for line in clean(text).strip("\n").split("\n")]
    return "\n".join(all_lines if len(all_lines) <= lines else ["…", *all_lines[-lines:]])


FILTERS: dict[str, Callable[..., Any]] = {
    "when": when,
    "usd": usd,
    "short": words.short,
    "size": words.size,
    "duration": words.duration,
    "brief": words.brief,
    "count": words.count,
    "marked": marked,
    "one_line": one_line,
    "short_of": short_of,
    "ends": ends,
    "tojson_text": lambda value: one_line(msgspec.json.encode(value, enc_hook=str).decode())[:2000],
    "repo": lambda name: (name or "").rpartition("/")[2],
}
