"""Conversations of the older kind: a folder with `meta.json` and `messages.jsonl`, whose markers of
role `compact` and `rewind` change what came before them. Nothing here writes.

A rewind names its place by an index into the list of messages as it was then, so the list is
followed here line by line. Up to format 5 a compaction left a summary and an acknowledgement in
place of the whole list; since format 6 its marker stays in the list as one item.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from ..errors import ReadError
from ._old_lines import Problem, read_lines
from ._skill_fold import moment_of

BEGINS = b'{"role":'
META, MESSAGES = "meta.json", "messages.jsonl"
UNTITLED = "New chat"
NEWEST_FORMAT = 6
LAST_WITH_SUMMARY_PAIR = 5


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What one line did. A rewind goes `to` the step of that number, which is then the last one
    there is; -1 is before all."""

    kind: Literal["message", "compact", "rewind"]
    offset: int
    message: dict[str, Any]
    to: int = -1


class OldChat(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder holds. `meta` is {} when it cannot be read: a crash in the middle of its
    rewriting leaves it empty."""

    id: str
    meta: dict[str, Any]
    steps: list[Step]
    problems: list[Problem]

    def text(self, name: str) -> str | None:
        """A field of the meta that is a text and not empty."""
        value = self.meta.get(name)
        return value if isinstance(value, str) and value else None

    @property
    def title(self) -> str | None:
        return None if self.text("title") == UNTITLED else self.text("title")


def read_chat(folder: Path) -> OldChat:
    """What the folder of an old conversation holds. Raises ReadError when it holds no messages file
    that can be read."""
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
    return OldChat(
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
    """Whether the messages carry times, which they do since the format in which compactions stay in
    the list."""
    first = next((data for _, data in lines if data.get("role") in ("user", "assistant")), {})
    meta = first.get("meta")
    return isinstance(meta, dict) and moment_of(meta.get("created_at")) is not None


def _steps(
    lines: list[tuple[int, dict[str, Any]]], has_pair: bool, problems: list[Problem]
) -> list[Step]:
    steps: list[Step] = []
    shown: list[int] = []  # The numbers of the steps that the list of then consists of.
    for offset, data in lines:
        role = data.get("role")
        number = len(steps)
        if role == "rewind":
            index = _index(data, len(shown))
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


def _index(data: dict[str, Any], length: int) -> int | None:
    """Where a rewind goes: 0 when it does not say, the end when it lies behind it; None when what
    it says is no index."""
    meta = data.get("meta", {})
    if not isinstance(meta, dict):
        return None
    index = meta.get("rewind_to", 0)
    if type(index) is not int or index < 0:
        return None
    return min(index, length)


def is_chat(folder: Path) -> bool:
    return (folder / MESSAGES).is_file()


def chats_in(folder: Path) -> list[Path]:
    """The conversations in a folder of them, sorted by name. Raises ReadError when it cannot be
    listed."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and is_chat(path))
    except OSError as error:
        raise ReadError(str(folder), (error.strerror or str(error)).lower()) from error
