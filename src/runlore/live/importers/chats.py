"""Conversations of the older format: a folder with `meta.json` and `messages.jsonl`.

Nothing here writes.

Markers of role `compact` and `rewind` change what came before them. A rewind names an index into
the list of messages as it was then, so the list is replayed here line by line. Up to format 5 a
compaction replaced the whole list by a summary and an acknowledgement; since format 6 its marker
stays in the list as one item.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from ...errors import ReadError
from ..skill_fold import moment_of
from .lines import Problem, read_lines

BEGINS = b'{"role":'
META, MESSAGES = "meta.json", "messages.jsonl"
UNTITLED = "New chat"
NEWEST_FORMAT = 6
LAST_WITH_SUMMARY_PAIR = 5


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one line.

    A rewind goes `to` the step of that number, which is then the last one; -1 is before all.
    """

    kind: Literal["message", "compact", "rewind"]
    offset: int
    message: dict[str, Any]
    to: int = -1


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a folder. `meta` is {} if it cannot be read: a crash may leave it empty."""

    id: str
    meta: dict[str, Any]
    steps: list[Step]
    problems: list[Problem]

    def text(self, name: str) -> str | None:
        """Return a field of the meta that is a non-empty text, or None."""
        value = self.meta.get(name)
        return value if isinstance(value, str) and value else None

    @property
    def title(self) -> str | None:
        return None if self.text("title") == UNTITLED else self.text("title")


def read_chat(folder: Path) -> Chat:
    """Read a conversation. Raises ReadError when the folder has no readable messages file."""
    problems: list[Problem] = []
    meta = _read_meta(folder / META, problems)
    version = meta.get("message_format_version")
    if isinstance(version, int) and version > NEWEST_FORMAT:
        problems.append(
            Problem(
                0,
                f"format {version} is newer than {NEWEST_FORMAT}, the last one that is known; it is"
                " read as that",
            )
        )
    lines = [(line.offset, line.data) for line in read_lines(folder / MESSAGES, BEGINS, problems)]
    has_pair = (
        version <= LAST_WITH_SUMMARY_PAIR if isinstance(version, int) else not _is_stamped(lines)
    )
    return Chat(
        id=folder.name, meta=meta, steps=_steps(lines, has_pair, problems), problems=problems
    )


def _read_meta(file: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        data = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "damaged"
        problems.append(Problem(0, f"{META}: {(reason or 'unreadable').lower()}"))
        return {}
    if not isinstance(data, dict):
        problems.append(Problem(0, f"{META}: not an object"))
        return {}
    return data


def _is_stamped(lines: list[tuple[int, dict[str, Any]]]) -> bool:
    """Return True if the messages have times, as in formats where compactions stay in the list."""
    first = next((data for _, data in lines if data.get("role") in ("user", "assistant")), {})
    meta = first.get("meta")
    return isinstance(meta, dict) and moment_of(meta.get("created_at")) is not None


def _steps(
    lines: list[tuple[int, dict[str, Any]]], has_pair: bool, problems: list[Problem]
) -> list[Step]:
    steps: list[Step] = []
    shown: list[int] = []  # Numbers of the steps in the list at this point.
    for offset, data in lines:
        role = data.get("role")
        number = len(steps)
        if role == "rewind":
            index = _rewind_index(data, len(shown))
            if index is None:
                problems.append(
                    Problem(
                        offset, "a rewind to no place; it is left out, and nothing is taken back"
                    )
                )
                continue
            steps.append(
                Step(
                    kind="rewind", offset=offset, message=data, to=shown[index - 1] if index else -1
                )
            )
            del shown[index:]
        elif role == "compact":
            steps.append(Step(kind="compact", offset=offset, message=data))
            shown = [number, number] if has_pair else [*shown, number]
        elif isinstance(role, str) and role:
            steps.append(Step(kind="message", offset=offset, message=data))
            shown.append(number)
        else:
            problems.append(Problem(offset, "a message without a role"))
    return steps


def _rewind_index(data: dict[str, Any], length: int) -> int | None:
    """Return the index of a rewind: 0 by default, at most the end; None if it is invalid."""
    meta = data.get("meta", {})
    if not isinstance(meta, dict):
        return None
    index = meta.get("rewind_to", 0)
    if type(index) is not int or index < 0:
        return None
    return min(index, length)


def is_chat(folder: Path) -> bool:
    return (folder / MESSAGES).is_file()


def find_chats(folder: Path) -> list[Path]:
    """Return the conversations in a folder, sorted by name.

    Raises ReadError if it cannot be listed.
    """
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and is_chat(path))
    except OSError as error:
        raise ReadError(str(folder), (error.strerror or str(error)).lower()) from error
