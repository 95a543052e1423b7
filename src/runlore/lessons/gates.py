"""The gates that a mined lesson has to pass before it is proposed. Pure.

`GATES` is the list. Each gate has a sentence, and a function that returns True for a draft that may
pass. A draft that is refused is dropped silently: silence beats a wrong lesson. Lessons that a
person writes need not pass the gates, except `is_harmful`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from ..digest.shell_commands import fetches_and_runs
from ..mine.changes import TRIVIAL_PROGRAMS, UNSAFE_FLAGS
from ..mine.drafts import Draft
from ..mine.tasks import MIN_TASKS
from ..mine.topic_words import find_topic_words
from ..redact.engine import Redactor

MIN_LOWER_BOUND = 0.3
"""Of the share of tasks in which it helped: 3 of 3 pass, 3 of 5 do not."""
MIN_NEW_SHARE = 0.5
"""Share of its words that the advice must have beyond those of the error message."""


def find_refusal(draft: Draft) -> str:
    """Return the first gate that refuses a draft; an empty text if all let it pass."""
    return next((sentence for sentence, passes in GATES if not passes(draft)), "")


def _helped_in_enough_tasks(draft: Draft) -> bool:
    return draft.helped >= MIN_TASKS and len(draft.evidence) >= MIN_TASKS


def _helped_often_enough(draft: Draft) -> bool:
    return draft.confidence >= MIN_LOWER_BOUND


def _has_words(draft: Draft) -> bool:
    return bool(draft.when.strip() and draft.do.strip())


def _is_no_diff(draft: Draft) -> bool:
    return _DIFF.search(_text_of(draft)) is None


def _is_no_trivial_program(draft: Draft) -> bool:
    """Refuse advice to use a program that reads, lists or removes, in place of another."""
    replacements = _INSTEAD.findall(draft.do)
    return not any(name.split()[0] in TRIVIAL_PROGRAMS for name in replacements if name.strip())


def _stays_in_its_repository(draft: Draft) -> bool:
    """Refuse a path or a name from code, unless the lesson applies to that repository alone."""
    return bool(draft.repo) or _PLACE.search(_text_of(draft)) is None


def _says_more_than_the_error(draft: Draft) -> bool:
    words = find_topic_words(draft.do)
    new = words - find_topic_words(draft.error)
    return bool(new) and len(new) >= MIN_NEW_SHARE * len(words)


def _is_harmless(draft: Draft) -> bool:
    return not is_harmful(_text_of(draft))


def _has_no_secret(draft: Draft) -> bool:
    text = _text_of(draft)
    return _redactor().text(text) == text


def is_harmful(text: str) -> bool:
    """Return True for a text with a command that fetches code and runs it, or silences a check."""
    commands = [text, *_CODE.findall(text)]
    words = {word for command in commands for word in command.split()}
    return any(map(fetches_and_runs, commands)) or bool(words & UNSAFE_FLAGS)


GATES: tuple[tuple[str, Callable[[Draft], bool]], ...] = (
    ("it says when it applies and what to do", _has_words),
    ("it helped in at least three independent tasks", _helped_in_enough_tasks),
    ("it helped in a share of tasks whose lower bound is at least 0.3", _helped_often_enough),
    ("it fetches and runs nothing, and silences no check", _is_harmless),
    ("it is no diff", _is_no_diff),
    ("it replaces nothing with a trivial program", _is_no_trivial_program),
    (
        "it names no path or code of a repository, unless it is for that one",
        _stays_in_its_repository,
    ),
    ("it says more than the error message", _says_more_than_the_error),
    ("it has no secret", _has_no_secret),
)

_DIFF = re.compile(r"^(?:@@|diff --git|[-+]{3} [ab]/|[-+](?![-+ ]).*\n[-+])", re.MULTILINE)
_INSTEAD = re.compile(r"(?:Use|Call|with) `([^`]+)`")
_CODE = re.compile(r"`([^`]+)`")
_PLACE = re.compile(
    # A path of two or more parts, a file of source code, a name from code.
    r"(?<![\w.:/-])(?:~|\.{0,2}/)?(?:[\w.@-]+/){2,}[\w.@-]*|(?<![\w*.])[\w-]+/[\w-]+\.\w{1,4}\b"
    r"|(?<![\w$*.])\w[\w-]*\.(?:py|ts|tsx|js|jsx|go|rs|java|kt|rb|c|cc|cpp|h|cs|php|swift|md|sql)\b"
    r"|\b[a-z]+(?:[A-Z][a-z0-9]+){2,}\b|\b[a-z]{2,}_[a-z0-9_]{3,}\b"
)


def _text_of(draft: Draft) -> str:
    return "\n".join((draft.when, draft.do, draft.avoid))


@cache
def _redactor() -> Redactor:
    """Return a redactor that finds secrets. Its key is of no importance: nothing is kept."""
    return Redactor(bytes(32))
