"""A fix as advice: what it comes down to, and how to say it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..model import ErrorSummary, Fix
from ..text.clean import clean, one_line
from .commands import command_head, short_path

MAX_DO_CHARS = 600
"""Agents read lessons at the start of a session, so they have to be short."""


class SwappedWord(NamedTuple):
    """The one word in which a failing and a working command differ.

    Either may be empty, not both.
    """

    failed: str
    worked: str


def fix_key(fix: Fix, error: ErrorSummary) -> str:
    """Return what a fix comes down to: the same advice has the same key.

    A command is known by its head, whatever it is applied to. A call that was changed is known by
    the word or flag that is different, or else by its whole text.
    """
    step = fix.steps[0]
    if step.how == "changed" and (swapped := find_swapped_word(error.command or "", step.summary)):
        return f"changed {swapped.failed} → {swapped.worked}"
    if step.how == "edit":
        return f"edit {short_path(step.files[0]) if step.files else one_line(step.summary)}"
    if step.how == "read":
        return "read"
    return (
        f"{step.how}"
        f" {command_head(step.summary) if step.how == 'command' else one_line(step.summary)}"
    )


def describe_fix(fix: Fix, failed_command: str, summaries: set[str]) -> str:
    """Return a fix as advice, cleaned and shortened.

    `summaries` are the first steps of all fixes with the same key: where they differ, the advice
    names what they share and gives one as an example.
    """
    step = fix.steps[0]
    swapped = find_swapped_word(failed_command, step.summary) if step.how == "changed" else None
    return shorten(
        clean(_describe_swap(swapped, step.summary) if swapped else _describe_step(fix, summaries))
    )


def find_swapped_word(failed: str, worked: str) -> SwappedWord | None:
    """Return the one word that was replaced, left out or, if it is a flag, added.

    Returns None if more is different.
    """
    if failed.endswith("…") or worked.endswith("…"):
        return None  # The command was cut, so the rest of it is unknown.
    before, after = failed.split(), worked.split()
    removed, added = (
        [word for word in some if word not in others]
        for some, others in ((before, after), (after, before))
    )
    if len(removed) > 1 or len(added) > 1 or not set(before) & set(after):
        return None
    if removed:
        return SwappedWord(removed[0], added[0] if added else "")
    return SwappedWord("", added[0]) if added and added[0].startswith("-") else None


def _describe_swap(swapped: SwappedWord, example: str) -> str:
    for_instance = f"for instance `{example}`"
    if not swapped.failed:
        return f"Call it with `{swapped.worked}`, {for_instance}."
    if not swapped.worked:
        return f"Leave out `{swapped.failed}`, {for_instance}."
    return f"Use `{swapped.worked}` instead of `{swapped.failed}`, {for_instance}."


def _describe_step(fix: Fix, summaries: set[str]) -> str:
    step = fix.steps[0]
    if step.how == "edit":
        where = ", ".join(short_path(path) for path in step.files[:3]) or step.summary
        diff = _shorten_paths(fix.diff, step.files)
        return f"Change {where}:\n{diff}" if diff else f"Change {where}."
    if step.how == "read":
        return "Read it first, then try again."
    if step.how == "command" and len(summaries) == 1:
        return f"Run `{step.summary}`, then try again."
    if step.how == "command":
        return (
            f"Run `{command_head(step.summary)}` for it (for instance `{step.summary}`), then try"
            " again."
        )
    return f"Call it in this way: `{step.summary}`"


def _shorten_paths(diff: str, files: Iterable[str]) -> str:
    """Return a diff without the folder of somebody's checkout: other people will read it."""
    for path in files:
        diff = diff.removeprefix(f"{path}\n").replace(path, short_path(path))
    return diff


def shorten(text: str) -> str:
    """Return advice, cut to the length that a lesson may have."""
    return text if len(text) <= MAX_DO_CHARS else f"{text[: MAX_DO_CHARS - 1]}…"
