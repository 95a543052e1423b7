"""An agent's settings file: add our entries to the user's own, show the change as a diff, and
remove them again to the byte.

`install` and `remove` compute a `Change`, `show` renders it as a diff, `apply` writes it. The text
that was inserted is stored as a `Receipt` in runlore's home: removing exactly that gives the file
as it was, whatever was changed elsewhere in it. If someone has rewritten the file, our entries are
recognized by their content and removed where they are. Nothing here knows an agent.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import Any

import msgspec

from ..adapters import MARK, Entry
from ..errors import ConfigError
from . import jsonc, toml

MAX_BYTES = 32 << 20
"""Maximum size of a settings file. Some agents keep their own notes on every project in it."""

BOM = "\ufeff"
CONTEXT = 2
"""Lines shown around a change."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The text that was inserted into a file."""

    pieces: list[str] = []
    """In the order of insertion: a later one may be inside an earlier one."""
    is_made: bool = False
    """There was no such file before."""
    folders: list[str] = []
    """Folders that were created for it, the innermost first."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file before and after. None is no file."""

    file: Path
    before: bytes | None
    after: bytes | None
    receipt: Receipt | None = None
    """For our entries that are in it afterwards."""

    @property
    def is_empty(self) -> bool:
        return self.before == self.after


def state(file: Path, entries: Sequence[Entry], unwanted: Sequence[Entry] = ()) -> str:
    """Return "installed", "outdated" (ours, but not as it would be written now) or "absent".

    `unwanted` are entries of ours that should not be there.
    """
    text = read_text(file)[1]
    data = _load(file, text) if text else {}
    found = [_ours(data, entry) for entry in entries]
    others = any(_ours(data, entry) for entry in unwanted)
    if found == [[entry.value] for entry in entries] and not others:
        return "installed"
    return "outdated" if any(found) or others else "absent"


def install(
    file: Path, entries: Sequence[Entry], receipt: Receipt | None, unwanted: Sequence[Entry] = ()
) -> Change:
    """Return the change that puts our entries in.

    Raises ConfigError if the file is broken, or if something else is in the way.
    """
    before, text = read_text(file)
    if before is not None and state(file, entries, unwanted) == "installed":
        return Change(file=file, before=before, after=before, receipt=receipt)
    clean = _without(file, text, [*entries, *unwanted], receipt) if text else text
    is_made = before is None or bool(receipt and receipt.is_made and not _load(file, clean))
    pieces: list[str] = []
    after = clean
    for entry in reversed(entries):  # Each becomes the first of its container.
        after, piece = _insert(file, after, entry)
        pieces.append(piece)
    wanted = [[entry.value] for entry in entries]
    if [_ours(_load(file, after), entry) for entry in entries] != wanted or _pruned(
        file, after, entries
    ) != _pruned(file, clean, entries):
        raise _refused(f"{file}: the entries cannot be put in without changing others")
    folders = missing_folders(file) if before is None else receipt.folders if receipt else []
    made = Receipt(pieces=pieces, is_made=is_made, folders=folders)
    return Change(file=file, before=before, after=after.encode(), receipt=made)


def remove(file: Path, entries: Sequence[Entry], receipt: Receipt | None) -> Change:
    """Return the change that removes our entries. Raises ConfigError if the file is broken."""
    before, text = read_text(file)
    if before is None or not text:
        return Change(file=file, before=before, after=before)
    after = _without(file, text, entries, receipt)
    if (
        receipt
        and receipt.is_made
        and not _load(file, after)
        and "#" not in after
        and "/" not in after
    ):
        return Change(file=file, before=before, after=None, receipt=receipt)
    return Change(file=file, before=before, after=before if after == text else after.encode())


def show(change: Change) -> list[str]:
    """Return the change as a unified diff."""
    before, after = (
        (data or b"").decode("utf-8", "replace").splitlines()
        for data in (change.before, change.after)
    )
    old, new = (
        "/dev/null" if data is None else str(change.file) for data in (change.before, change.after)
    )
    return list(unified_diff(before, after, old, new, n=CONTEXT, lineterm=""))


def apply(change: Change) -> None:
    """Write a change, whole or not at all.

    Raises ConfigError, also when someone else has written to the file meanwhile.
    """
    if change.is_empty:
        return
    file = change.file
    try:
        if read_text(file)[0] != change.before:
            raise _refused(f"{file} was changed meanwhile, so run it again")
        if change.after is None:
            os.unlink(os.path.realpath(file))
            for folder in change.receipt.folders if change.receipt else ():
                with suppress(OSError):  # Someone else may have put something there.
                    os.rmdir(folder)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(Path(os.path.realpath(file)), change.after)
    except OSError as error:
        raise _refused(f"{file}: {error.strerror}") from None


# ── receipts ──────────────────────────────────────────────────────────────────────────────────────
def read_receipts(file: Path) -> dict[str, Receipt]:
    """Return the receipts by subject; empty if they cannot be read.

    Entries are recognized without them.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Receipt])
    except (OSError, msgspec.MsgspecError):
        return {}


def write_receipts(file: Path, receipts: dict[str, Receipt]) -> None:
    try:
        if receipts:
            replace_file(file, msgspec.json.format(msgspec.json.encode(receipts)) + b"\n")
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(f"{file}: {error.strerror}") from None


# ── text ──────────────────────────────────────────────────────────────────────────────────────────
def _is_toml(file: Path) -> bool:
    return file.suffix == ".toml"


def _load(file: Path, text: str) -> Any:
    """Return the data of a text; of an empty one, no data."""
    body = text.removeprefix(BOM)
    try:
        if _is_toml(file):
            return toml.parse(body)
        data = jsonc.parse(body).data() if body.strip() else {}
    except ValueError as error:
        raise _refused(f"{file} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise _refused(f"{file} does not hold an object")
    return data


def _insert(file: Path, text: str, entry: Entry) -> tuple[str, str]:
    bom, body = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    try:
        if _is_toml(file):
            after, piece = toml.insert(body, entry.path, entry.value)
        elif body.strip():
            after, piece = jsonc.insert(body, entry.path, entry.value, in_list=entry.in_list)
        else:
            piece = jsonc.insert("{}\n", entry.path, entry.value, in_list=entry.in_list)[0]
            after = body + piece
    except ValueError as error:
        raise _refused(f"{file}: {error}") from None
    return bom + after, piece


def _without(file: Path, text: str, entries: Sequence[Entry], receipt: Receipt | None) -> str:
    """Return the text without our entries: what was inserted, or else what is recognized."""
    wanted = _pruned(file, text, entries)
    exact = _without_parts(text, receipt.pieces if receipt else [])
    if exact is not None:
        with suppress(ConfigError):  # Someone wrote around it, so that what is left is no JSON.
            left = _load(file, exact)
            if (
                not any(_ours(left, entry) for entry in entries)
                and _pruned(file, exact, entries) == wanted
            ):
                return exact
    for entry in entries:
        text = _cut(file, text, entry)
    if _pruned(file, text, entries) != wanted:
        raise _refused(f"{file}: the entries cannot be taken out without changing others")
    return text


def _without_parts(text: str, parts: list[str]) -> str | None:
    """Return the text without these parts; None if there are none, or if one is not there once."""
    for part in reversed(parts):
        if text.count(part) != 1:
            return None
        text = text.replace(part, "")
    return text if parts else None


def _cut(file: Path, text: str, entry: Entry) -> str:
    """Return the text without this entry, and without containers that it leaves empty."""
    bom, body = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    try:
        if _is_toml(file):
            return bom + (toml.cut(body, entry.path) if _ours(_load(file, text), entry) else body)
        while body.strip() and (shorter := _cut_once(body, entry)) != body:
            body = shorter
        return bom + body
    except ValueError as error:
        raise _refused(f"{file}: {error}") from None


def _cut_once(text: str, entry: Entry) -> str:
    """Return the text without one element of ours, or without the value at the path."""
    chain = _nodes_at(text, entry.path)
    if chain is None:
        return text
    last = chain[-1]
    if entry.in_list:
        members = last.members or [] if last.is_list else []
        ours = next((member for member in members if _is_ours(member.node.data())), None)
        if ours is None:
            return text
        if shared := _shared(ours.node):
            return jsonc.cut(text, *shared)
        if len(members) > 1:
            return jsonc.cut(text, last, ours)
    for above in reversed(chain[:-1]):
        member = next(member for member in reversed(above.members or []) if member.node is last)
        if len(above.members or ()) > 1 or above is chain[0]:
            return jsonc.cut(text, above, member)
        last = above
    return text


def _nodes_at(text: str, path: Sequence[str]) -> list[jsonc.Node] | None:
    """Return the nodes on the way to a path, the outermost first; None if there is no such path."""
    chain = [jsonc.parse(text)]
    for key in path:
        node = chain[-1].get(key) if not chain[-1].is_list else None
        if node is None:
            return None
        chain.append(node)
    return chain


def _shared(element: jsonc.Node) -> tuple[jsonc.Node, jsonc.Member] | None:
    """Return the list in an element of ours to which someone else added, and our first member."""
    for inner in (member.node for member in element.members or () if member.node.is_list):
        ours = [member for member in inner.members or () if _is_ours(member.node.data())]
        if ours and len(ours) < len(inner.members or ()):
            return inner, ours[0]
    return None


def _left_of(element: Any) -> Any:
    """Return an element without our parts of it; None if nothing is left."""
    if not _is_ours(element):
        return element
    for key, inner in element.items() if isinstance(element, dict) else ():
        if (
            isinstance(inner, list)
            and any(map(_is_ours, inner))
            and (left := [one for one in inner if not _is_ours(one)])
        ):
            return {**element, key: left}
    return None


def _ours(data: Any, entry: Entry) -> list[Any]:
    """Return the values of this entry in the data that are ours."""
    for key in entry.path:
        data = data.get(key) if isinstance(data, dict) else None
    if not entry.in_list:
        return [] if data is None else [data]
    return [item for item in data if _is_ours(item)] if isinstance(data, list) else []


def _is_ours(item: Any) -> bool:
    return MARK in json.dumps(item, ensure_ascii=False)


def _pruned(file: Path, text: str, entries: Sequence[Entry]) -> Any:
    """Return the data without our entries, and without empty containers on the way to them."""
    data = _load(file, text)
    for entry in entries:
        data = _prune(data, entry.path, entry.in_list)
    return data


def _prune(data: Any, path: Sequence[str], in_list: bool) -> Any:
    if not path:
        if not in_list:
            return None
        return (
            [left for item in data if (left := _left_of(item)) is not None]
            if isinstance(data, list)
            else data
        )
    if not isinstance(data, dict) or path[0] not in data:
        return data
    inner = _prune(data[path[0]], path[1:], in_list)
    rest = {key: value for key, value in data.items() if key != path[0]}
    return rest if inner in (None, {}, []) else {**data, path[0]: inner}


def _refused(message: str) -> ConfigError:
    error = ConfigError(f"{message}; nothing was written")
    error.hint = "correct the file and run it again"
    return error


# ── files ─────────────────────────────────────────────────────────────────────────────────────────
def read_text(file: Path) -> tuple[bytes | None, str]:
    """Return the bytes of a file, None if there is none, and their text. A link is followed."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        raise _refused(f"{file}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise _refused(f"{file} is not a file")
    if status.st_size > MAX_BYTES:
        raise _refused(f"{file} has {status.st_size:,} bytes, which is too much for settings")
    try:
        data = file.read_bytes()
        return data, data.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused(f"{file} is not UTF-8") from None
    except OSError as error:
        raise _refused(f"{file}: {error.strerror}") from None


def missing_folders(file: Path) -> list[str]:
    return [str(folder) for folder in file.parents if not folder.exists()]


def replace_file(file: Path, data: bytes) -> None:
    """Replace the whole file at once, and keep its mode and owner.

    Raises OSError, and PermissionError for a read-only file: a new one could take its place, but
    that is not what its owner wants.
    """
    try:
        status = os.stat(file)
    except FileNotFoundError:
        status = None
    if status and (not status.st_mode & 0o222 or not os.access(file, os.W_OK)):
        raise PermissionError(13, "it is read-only")
    new_file = file.with_name(f".{file.name}.{os.getpid()}.runlore")
    try:
        handle = os.open(
            new_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600
        )
        with open(handle, "wb") as new:
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        if status:
            if os.name == "posix" and (status.st_uid, status.st_gid) != (
                os.geteuid(),
                os.getegid(),
            ):
                os.chown(new_file, status.st_uid, status.st_gid)
            os.chmod(new_file, stat.S_IMODE(status.st_mode))
        os.replace(new_file, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(new_file)
        raise
