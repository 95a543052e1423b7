"""The words of the templates that show a session: the same on the page and in an exported file.
Pure but for reading templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import msgspec
from markupsafe import Markup, escape

from ..model import SessionEvent
from ..text import words
from ..text.clean import clean, one_line
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
"""How an error went away, in words."""


def environment(*folders: Path) -> jinja2.Environment:
    """Whatever a template prints is cleaned of what a screen would obey and escaped, unless
    `markup` made it."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(folder) for folder in (*folders, TEMPLATES)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finish,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals.update(show=show, outcome=outcome, fixed=FIXED, link=session_url, folds=True)
    made.globals.update(picture_names=images.named, picture_url=picture_url)
    return made


def _finish(value: Any) -> Any:
    """Jinja's last step for each value it prints."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def show(text: str, form: str) -> Markup:
    """A text in the form that its block has."""
    return _SHOWN[form](text)


_SHOWN: dict[str, Callable[[str], Markup]] = {
    "markdown": markup.markdown,
    "plain": markup.plain,
    "input": markup.plain,
    "output": markup.plain,
    "diff": markup.change,
}


def outcome(block: Block, body: str, output: str) -> Iterator[tuple[str, str]]:
    """In a few words what became of a call, each with its tone."""
    pair, event = block.call, block.event
    result = pair.result if pair else None
    if pair is None or result is None:
        yield "no result", "dim"
        return
    tests = result.tests or event.tests
    if result.kind == "human_intervention":
        yield "refused", "warn"
    elif tests is not None:
        counts = {"passed": tests.passed, "failed": tests.failed, "skipped": tests.skipped}
        results = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
        yield results or "no tests", "bad" if tests.failed or pair.failed else "good"
    elif result.exit_code:
        yield f"exit {result.exit_code}", "bad"
    elif pair.failed:
        yield "failed", "bad"
    if event.kind == "edit":
        lines = body.split("\n")
        counts = {
            "+": sum(line.startswith("+") for line in lines),
            "−": sum(line.startswith("-") for line in lines),
        }
        yield from (
            (f"{sign}{number}", "good" if sign == "+" else "bad")
            for sign, number in counts.items()
            if number
        )
    elif result.exit_code == 0 and tests is None:
        yield "exit 0", "dim"
    elif output.strip() and not pair.failed:
        yield words.count(output.rstrip("\n").count("\n") + 1, "line"), "dim"
    if pair.duration_ms is not None and pair.duration_ms >= 100:
        yield words.duration(pair.duration_ms / 1000), "dim"


def picture_url(event: SessionEvent, sha: str) -> str:
    return f"/x/image/{quote(event.session_uid, safe=':')}?seq={event.seq}&sha={sha}"


def session_url(uid: str, seq: int | str | None = None) -> str:
    """Agents choose ids: whatever is in one stays one part of the path."""
    return f"/s/{quote(uid, safe=':')}" + ("" if seq in (None, "") else f"#{seq}")


def when(value: str | datetime | None, pattern: str = "ago") -> Markup:
    """A time, said as people do, and exactly when asked."""
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


def usd(value: float | None) -> str:
    """$0.0042, $0.37, $12.40, $1,234: as many digits as say something."""
    if value is None:
        return "–"
    if 0 < value < 0.01:
        return f"${value:.4f}"
    return f"${value:,.2f}" if value < 1000 else f"${value:,.0f}"


def marked(text: str, marks: list[tuple[int, int]]) -> Markup:
    """The text with what was found in it marked."""
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
    """What was called with what, on one line, without what the tool or the session says already."""
    line = one_line(text)
    line = line.removeprefix(f"{cwd}/") if cwd else line
    return "" if line == tool else line


def ends(text: str, lines: int) -> str:
    """How an error ends: the reason is more often there than where it begins."""
    kept = [line[:400] for line in clean(text).strip("\n").split("\n")]
    return "\n".join(kept if len(kept) <= lines else ["…", *kept[-lines:]])


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
