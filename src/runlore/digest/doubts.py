"""What makes a fix doubtful, whatever speaks for it.

The longer and the more crowded the way from an error to its end, the less is known about what
helped: something that nobody saw, or that is not shown, may have been it. One doubt is enough that
a fix is no longer told to other agents; with two, hardly any is shown at all.
"""

from __future__ import annotations

from collections.abc import Callable

from . import Step
from .changes import MAX_CHANGE_LINES, count_changed_lines, differs_twice
from .proof import is_rejected_by_shell
from .steps import Course

MAX_CLEAR_DISTANCE, MAX_DISTANCE_SHOWN = 8, 20
"""Attempts from an error to its end up to which a fix may be sure, and may be shown."""
MAX_CLEAR_CHANGES = 3
"""Edits and commands in between up to which one of them may be sure."""
DOUBT = 0.7
"""What is left of the confidence after each doubt."""

_Steps = tuple[Step, ...]


def weigh_doubts(course: Course, steps: _Steps) -> float:
    """Return the share of its confidence that a fix keeps."""
    if course.distance > MAX_DISTANCE_SHOWN:
        return DOUBT**2
    return DOUBT ** sum(applies(course, steps) for _, applies in DOUBTS)


def _is_far(course: Course, _: _Steps) -> bool:
    return course.distance > MAX_CLEAR_DISTANCE


def _is_crowded(course: Course, _: _Steps) -> bool:
    return _is_run(course) and len(course.edits) + len(course.commands) > MAX_CLEAR_CHANGES


def _is_mixed(course: Course, steps: _Steps) -> bool:
    """Return True if something else than what is credited was changed as well."""
    how = steps[0].how
    return _is_run(course) and bool(
        (how != "edit" and course.edits) or (how != "command" and course.commands)
    )


def _has_helper(course: Course, _: _Steps) -> bool:
    return _is_run(course) and course.has_helper


def _is_cut(course: Course, steps: _Steps) -> bool:
    """Return True if an edit is too long to be shown whole."""
    if steps[0].how != "edit":
        return False
    return count_changed_lines(course.bodies.get(steps[0].seq, "")) > MAX_CHANGE_LINES


def _has_two_differences(course: Course, steps: _Steps) -> bool:
    is_edit = course.failed.action == "edit" and steps[0].how == "changed"
    return is_edit and differs_twice(course.failed.text, course.last.text)


def _only_read(course: Course, steps: _Steps) -> bool:
    """Return True for a command that only reads, unless the shell did not even start it."""
    is_changed = steps[0].how == "changed" and not is_rejected_by_shell(course.signature)
    return is_changed and _is_run(course) and course.failed.command.is_read_only


def _is_run(course: Course) -> bool:
    """Return True for a command. A refusal by an edit tool has its reason in the edit itself."""
    return course.failed.action == "shell"


DOUBTS: tuple[tuple[str, Callable[[Course, _Steps], bool]], ...] = (
    ("the end is far from the error", _is_far),
    ("much was changed in between", _is_crowded),
    ("something else was changed as well", _is_mixed),
    ("a subagent or a person may have changed something", _has_helper),
    ("the edit is too long to be shown whole", _is_cut),
    ("the two edits differ in their place and in their lines", _has_two_differences),
    ("a command that only reads found another thing", _only_read),
)
