"""Take a forgotten session out of the lessons that rest on it. Pure.

It is no evidence any more, and its words are replaced by those of the remaining sessions, or
removed. What a person decided stays, with a note. A proposal that nobody decided on goes if too
little is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ..mine.commands import command_head
from ..model import Digest, format_time
from ..text.clean import one_line
from . import Lesson
from .curate import find_draft, uid_of

FORGOTTEN = "(forgotten)"
"""In place of the situation. A lesson that does not say what to do is shown to nobody."""
MIN_QUOTE_CHARS, MIN_OWN_QUOTE_CHARS = 12, 24
"""Length from which on a text that a session also has is taken for a quotation; longer for a
person's own text, because people use the words of their work."""
MAX_TEXT_CHARS = 4_096
"""Longer texts of a digest cannot be part of a lesson."""

replace = msgspec.structs.replace


class ForgottenSession(msgspec.Struct, frozen=True):
    """A session to be forgotten: its digest, and the texts of the events that lessons cite."""

    digest: Digest | None
    texts: tuple[str, ...] = ()


def find_affected(
    known: Iterable[Lesson], forgotten: Mapping[str, ForgottenSession]
) -> list[Lesson]:
    """Return the lessons that took something from these sessions."""
    digests = [session.digest for session in forgotten.values() if session.digest]
    errors = {error.signature.fingerprint for digest in digests for error in digest.errors}
    commands = {command_head(run.command) for digest in digests for run in digest.commands}
    texts = SessionTexts(forgotten.values())
    return [
        one
        for one in known
        if any(uid_of(ref) in forgotten for ref in one.evidence)
        or (
            is_mined(one)
            and (one.fingerprints & errors or one.about in commands)
            and one.when != FORGOTTEN
        )
        or texts.are_quoted_in(one)
    ]


def remove_sessions(
    lesson: Lesson,
    forgotten: Mapping[str, ForgottenSession],
    drafts: Sequence[Lesson],
    now: datetime,
) -> Lesson | None:
    """Return the lesson without these sessions; None if nothing is left that somebody decided.

    `drafts` are the lessons that the remaining sessions come to.
    """
    draft = find_draft(lesson, drafts)
    if draft is None and is_mined(lesson) and lesson.status == "proposed":
        return None
    evidence = tuple(ref for ref in lesson.evidence if uid_of(ref) not in forgotten)
    is_cited = len(evidence) < len(lesson.evidence)
    words = _replace_words(lesson, draft, SessionTexts(forgotten.values()), bool(evidence))
    if not is_cited and all(getattr(lesson, name) == text for name, text in words.items()):
        return lesson  # It shares something with these sessions, but took it from others.
    notes = "\n".join(part for part in (lesson.notes, _build_note(words, now)) if part)
    if draft is None:
        sessions = len({uid_of(ref) for ref in evidence})
        helped = min(lesson.helped, sessions)
        return replace(
            lesson,
            **words,
            sessions=sessions,
            helped=helped,
            evidence=evidence,
            key="",
            notes=notes,
        )
    counts = {
        name: getattr(draft, name) for name in ("signals", "sessions", "helped", "confidence")
    }
    return replace(lesson, **words, **counts, evidence=draft.evidence, key=lesson.key, notes=notes)


def _build_note(words: Mapping[str, str], now: datetime) -> str:
    """Return the note that a session of the lesson was forgotten."""
    needed = (text for name, text in words.items() if name != "avoid")
    is_wordless = any(text in ("", FORGOTTEN) for text in needed)
    return (
        f"{format_time(now)[:10]}: a session that it rested on was"
        f" forgotten{', and its words with it' if is_wordless else ''}."
    )


def _replace_words(
    lesson: Lesson, draft: Lesson | None, texts: SessionTexts, has_evidence: bool
) -> dict[str, str]:
    """Return the fields with words of the sessions, with those of the draft or none instead."""
    words = {
        name: getattr(draft, name) if draft else ""
        for name in ("when", "do", "avoid")
        if is_mined(lesson) or texts.has_quote(getattr(lesson, name), lesson)
    }
    if words.get("when") == "":
        words["when"] = FORGOTTEN
    # A command or skill of the sessions, which nobody edits.
    if lesson.by == "mined" and lesson.about:
        own = lesson.about if lesson.edited and has_evidence else ""
        words["about"] = draft.about if draft else own
    return words


def is_mined(lesson: Lesson) -> bool:
    """Return True if its words come from transcripts."""
    return lesson.by == "mined" and not lesson.edited


class SessionTexts:
    """The texts of some sessions, as far as lessons could quote them."""

    def __init__(self, sessions: Iterable[ForgottenSession]) -> None:
        sessions = list(sessions)
        digests = [session.digest for session in sessions if session.digest]
        texts = [text for session in sessions for text in session.texts]
        texts += [text for digest in digests for text in _iter_texts(msgspec.to_builtins(digest))]
        self._all = "\n".join(one_line(text) for text in texts)
        self._short = _long_enough(text for text in texts if len(text) <= MAX_TEXT_CHARS)
        self._steps = _long_enough(text for digest in digests for text in _iter_steps(digest))

    def are_quoted_in(self, lesson: Lesson) -> bool:
        return any(self.has_quote(text, lesson) for text in (lesson.when, lesson.do, lesson.avoid))

    def has_quote(self, text: str, lesson: Lesson) -> bool:
        """Return True if a whole line of a lesson's text is from these sessions.

        In a text that nobody wrote by hand, any part of a line counts.
        """
        is_own = lesson.by == "person" or lesson.edited
        lines = (one_line(line.strip().rstrip("…")) for line in text.split("\n"))
        if any(
            len(line) >= (MIN_OWN_QUOTE_CHARS if is_own else MIN_QUOTE_CHARS) and line in self._all
            for line in lines
        ):
            return True
        line = one_line(text)
        # A person who edits a mined lesson may leave in it what the session did.
        parts = self._short if not is_own else self._steps if lesson.by == "mined" else ()
        return any(part in line for part in parts)


def _long_enough(texts: Iterable[str]) -> set[str]:
    return {line for text in texts if len(line := one_line(text)) >= MIN_QUOTE_CHARS}


def _iter_steps(digest: Digest) -> Iterator[str]:
    """Yield the texts of a session that mined lessons may quote within their own sentences."""
    for error in digest.errors:
        yield error.command or ""
    for fix in digest.fixes:
        yield from (step.summary for step in fix.steps)


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _iter_texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _iter_texts(one)
