"""What becomes of lessons when a session that they rest on is forgotten. Pure.

What they took from it goes: it is no evidence any more, and its words are replaced by those of the sessions that are left, or go as well.
What a person decided stays, with a note; a proposal that nobody has decided on goes when too little is left of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from .._text import one_line
from ..mine._words import head
from ..model import Digest, format_time
from . import Lesson
from .curate import draft_of

GONE = "(forgotten)"
"""In place of the problem; without a resolution it is told to nobody."""
LINE, OWN_LINE = 12, 24
"""Characters from which on a text that stands in a session as well is taken for a quotation; of a person's own words more, because people
use the words of their work."""
LONGEST = 4_096
"""Of a text of a digest: nothing in a lesson is longer."""

replace = msgspec.structs.replace


class Gone(msgspec.Struct, frozen=True):
    """A session that is to be forgotten: its digest, and the texts of the events that lessons cite."""

    digest: Digest | None
    texts: tuple[str, ...] = ()


def touched(known: Iterable[Lesson], gone: Mapping[str, Gone]) -> list[Lesson]:
    """The lessons that took something from these sessions."""
    digests = [one.digest for one in gone.values() if one.digest]
    met = {error.signature.fingerprint for digest in digests for error in digest.errors}
    ran = {head(run.command) for digest in digests for run in digest.commands}
    said = Said(gone.values())
    return [
        one
        for one in known
        if any(uid_of(ref) in gone for ref in one.evidence)
        or (is_mined(one) and (one.fingerprint in met or one.about in ran) and one.problem != GONE)
        or said.is_in(one)
    ]


def without(lesson: Lesson, gone: Mapping[str, Gone], drafts: Sequence[Lesson], now: datetime) -> Lesson | None:
    """The lesson without these sessions; None when nothing is left that somebody decided. `drafts` are of the sessions that are left."""
    draft = draft_of(lesson, drafts)
    if draft is None and is_mined(lesson) and lesson.status == "proposed":
        return None
    said = Said(gone.values())
    words = {
        name: getattr(draft, name) if draft else ""
        for name in ("problem", "resolution")
        if is_mined(lesson) or said.quotes(getattr(lesson, name), lesson)
    }
    evidence = draft.evidence if draft else tuple(ref for ref in lesson.evidence if uid_of(ref) not in gone)
    sessions = len({uid_of(ref) for ref in evidence})
    counted = {name: getattr(draft, name) for name in ("signals", "sessions", "helped", "confidence")} if draft else {"sessions": sessions}
    if words.get("problem") == "":
        words["problem"] = GONE
    if lesson.by == "mined" and lesson.about:  # Which nobody edits: it is what sessions ran.
        words["about"] = draft.about if draft else lesson.about if lesson.edited and evidence else ""
    if not any(uid_of(ref) in gone for ref in lesson.evidence) and all(getattr(lesson, name) == text for name, text in words.items()):
        return lesson  # What it has in common with these sessions it has from others.
    is_bare = any(text in ("", GONE) for text in words.values())
    note = f"{format_time(now)[:10]}: a session that it rested on was forgotten{', and its words with it' if is_bare else ''}."
    notes = "\n".join(part for part in (lesson.notes, note) if part)
    return replace(lesson, **words, **counted, evidence=evidence, key=lesson.key if draft else "", notes=notes)


def is_mined(lesson: Lesson) -> bool:
    """Whether its words come out of transcripts."""
    return lesson.by == "mined" and not lesson.edited


def uid_of(ref: str) -> str:
    return ref.partition("#")[0]


class Said:
    """What was said in some sessions, as far as lessons could quote it."""

    def __init__(self, gone: Iterable[Gone]) -> None:
        gone = list(gone)
        found = [text for one in gone for text in (*one.texts, *(_texts(msgspec.to_builtins(one.digest)) if one.digest else ()))]
        self.all = "\n".join(one_line(text) for text in found)
        self.short = {line for text in found if len(text) <= LONGEST and len(line := one_line(text)) >= LINE}
        done = (text for one in gone if one.digest for text in _done_in(one.digest))
        self.done = {line for text in done if len(line := one_line(text)) >= LINE}

    def is_in(self, lesson: Lesson) -> bool:
        return any(self.quotes(text, lesson) for text in (lesson.problem, lesson.resolution))

    def quotes(self, text: str, lesson: Lesson) -> bool:
        """Whether a whole line of it was said there; or, where not all of it was written by hand, anything of it."""
        is_own = lesson.by == "person" or lesson.edited
        lines = (one_line(line.strip().rstrip("…")) for line in text.split("\n"))
        if any(len(line) >= (OWN_LINE if is_own else LINE) and line in self.all for line in lines):
            return True
        line = one_line(text)
        # Who edits a lesson that was mined may leave in it what the session did.
        parts = self.short if not is_own else self.done if lesson.by == "mined" else ()
        return any(part in line for part in parts)


def _done_in(digest: Digest) -> Iterator[str]:
    """What lessons that are mined tell of a session, within sentences of their own."""
    for error in digest.errors:
        yield error.command or ""
    for fix in digest.fixes:
        yield from (step.summary for step in fix.steps)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
