"""Where in a text the gate of the redaction could open at all: the table for a compiled loop that passes over all else.

The gate (`redact`) is one large automaton, which RE2 makes while it reads: two nanoseconds a byte, and a tenth of a second until it has its
states, in each worker. The loop (`sieve` in _speed.c) looks at four bytes and goes on by one, unless these could begin a match; then it
follows the match as far as that takes no decision. What it names, the gate is asked about. Where it names no place, the gate would find
nothing: it only ever errs to the other side, and tests hold it to that.

The table is made of the rules' own gates, by Python's parser of patterns, so that a rule is written once. Only what may stand
between a name and its value (`_anchored.GATE`) is no such path, and is said again in C. It takes 20 ms to make, so it is kept:
`python -m runlore._sieve` writes _sieve_table.py, and a test says when that is to be done again.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache, reduce
from math import prod
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]  # What `re` itself compiles from; the only parser of patterns at hand.
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import msgspec

from ._rules import ESCAPED_ASCII, LED, MARKED, PLACED

_WINDOW = 4
_BUCKETS, _ANYWHERE = 64, 28
"""Paths with about the same first bytes are in one bucket. Those that begin only where no word is under way come last."""

_ENOUGH = 40
"""Bytes that are followed. No gate counts further before it repeats itself."""

_ANY = (1 << 256) - 1
_PLAIN, _LED, _NAME, _TOKEN, _AUTH = range(5)
_NAMES = ((b"pass", _NAME), (b"pwd", _NAME), (b"secret", _NAME), (b"cred", _NAME), (b"key", _NAME), (b"token", _TOKEN), (b"auth", _AUTH))


class Step(NamedTuple):
    """`least` bytes of a set, which is a number with a bit for each; and, if it `loops`, all further ones."""

    bytes: int
    least: int = 1
    loops: bool = False


Steps = tuple[Step, ...]
Window = tuple[int, ...]


def write() -> None:
    """Writes the table down."""
    text = b64encode(zlib.compress(msgspec.msgpack.encode(table()), 9)).decode()
    lines = "".join(f"{text[at : at + 128]}\n" for at in range(0, len(text), 128))
    Path(__file__).with_name("_sieve_table.py").write_text(_FILE.format(lines), encoding="ascii", newline="\n")


_FILE = '''"""The table of `_sieve`, which wrote this file: `python -m runlore._sieve`."""

import zlib
from binascii import a2b_base64

import msgspec


def table() -> tuple[bytes, ...]:
    return msgspec.msgpack.decode(zlib.decompress(a2b_base64(TABLE)), type=tuple[bytes, ...])


TABLE = """
{}"""
'''


def table() -> tuple[bytes, ...]:
    """What `sieve` is given: for each of four bytes, in which buckets it may be; what is in the buckets; paths, steps, sets of bytes."""
    kinds = [(_folded(name), kind) for name, kind in _NAMES]
    kinds += [(path, _PLAIN) for gate in sorted({ESCAPED_ASCII, *(rule.gate for rule in PLACED + MARKED)}) for path in paths(gate)]
    kinds += [(path, _LED) for gate in sorted({rule.gate for rule in LED}) for path in paths(gate)]
    anywhere, at_starts = dict[Window, list[int]](), dict[Window, list[int]]()
    for n, (path, kind) in enumerate(kinds):
        for window in set(_windows(path, _WINDOW)):
            (at_starts if kind == _LED else anywhere).setdefault(window, []).append(n)
    masks = [[0] * 256 for _ in range(_WINDOW)]
    firsts, listed = [0], list[int]()
    for by_window, count in ((anywhere, _ANYWHERE), (at_starts, _BUCKETS - _ANYWHERE)):
        for windows in _shared_out(sorted(by_window), count):
            passing: Window = reduce(_union, windows)
            for mask, members in zip(masks, passing, strict=True):
                for byte in _members(members):
                    mask[byte] |= 1 << len(firsts) - 1
            listed += dict.fromkeys(n for window in windows for n in by_window[window])
            firsts.append(len(listed))
    sets: dict[int, int] = {}
    steps, heads = bytearray(), bytearray()
    for path, kind in kinds:
        heads += struct.pack("<4B4BHBB", *_told_by(path), len(steps) // 4, len(path), kind)
        for step in path:
            steps += struct.pack("<HBB", sets.setdefault(step.bytes, len(sets)), step.least, step.loops)
    return (
        b"".join(struct.pack("<256Q", *mask) for mask in masks),
        struct.pack(f"<{len(firsts)}H", *firsts),
        struct.pack(f"<{len(listed)}H", *listed),
        bytes(heads),
        bytes(steps),
        b"".join(members.to_bytes(32, "little") for members in sets),
    )


def paths(pattern: str) -> list[Steps]:
    """The ways in which a match of the pattern can begin. A path ends where it would have to be decided how to go on."""
    parsed = parser.parse(pattern.encode())
    if parsed.getwidth()[0] < _WINDOW or parsed.state.flags & parser.SRE_FLAG_IGNORECASE:
        raise ValueError(f"the sieve would pass over what {pattern!r} matches: it is too short, or ignores case as a whole")
    return sorted({tuple(_cut(path)) for path, _ in _paths(list(parsed), False)})


def _cut(path: Steps) -> Iterator[Step]:
    left = _ENOUGH
    for step in path:
        if left <= 0:
            return
        yield step if step.least <= left else Step(step.bytes, left)
        left -= max(step.least, 1)


def _paths(nodes: list[Any], fold: bool) -> Iterator[tuple[Steps, bool]]:
    """Paths through these parts of a pattern, and whether each leads to their end."""
    if not nodes:
        yield (), True
        return
    (op, argument), rest = nodes[0], nodes[1:]
    for path, goes_on in _ways(op, argument, rest, fold):
        if not goes_on:
            yield path, False
            continue
        for further, is_whole in _paths(rest, fold):
            yield path + further, is_whole


def _ways(op: Any, argument: Any, rest: list[Any], fold: bool) -> Iterator[tuple[Steps, bool]]:
    members = _set(op, argument, fold)
    if members is not None:
        yield (Step(members),), True
    elif op is ops.BRANCH:
        for branch in argument[1]:
            yield from _paths(list(branch), fold)
    elif op is ops.SUBPATTERN:
        _, flags, _, inner = argument
        yield from _paths(list(inner), fold or bool(flags & parser.SRE_FLAG_IGNORECASE))
    elif op is ops.MAX_REPEAT:
        least, most, inner = argument
        yield from _repeats(least, most, inner, rest, fold)
    elif op is ops.AT:
        yield (), True
    else:
        raise ValueError(f"the sieve cannot follow a gate with {op}")


def _repeats(least: int, most: Any, inner: Any, rest: list[Any], fold: bool) -> Iterator[tuple[Steps, bool]]:
    members = _set(inner[0][0], inner[0][1], fold) if len(inner) == 1 else None
    if members is not None and most == least:
        yield (Step(members, least),), True
        return
    after = _set(rest[0][0], rest[0][1], fold) if rest else None
    if members is not None and after is not None and not members & after:
        # It can end in one place only. That it may be repeated too often is of no harm.
        yield (Step(members, least, True),), True
        return
    if not least:
        yield (), True
    # As often as it must be, or once; then it would have to be decided whether to go on.
    ways: list[tuple[Steps, bool]] = [((), True)]
    for _ in range(least or 1):
        ways = [(path + more, on) for path, goes_on in ways for more, on in (_paths(list(inner), fold) if goes_on else [((), False)])]
    is_exact = most == max(least, 1)
    yield from ((path, goes_on and is_exact) for path, goes_on in ways)


def _set(op: Any, argument: Any, fold: bool) -> int | None:
    """The bytes that a part of a pattern stands for, if it stands for one."""
    if op is ops.LITERAL:
        members = 1 << argument
    elif op is ops.NOT_LITERAL:
        members = _ANY & ~(1 << argument)
    elif op is ops.IN:
        members = 0
        for kind, what in argument:
            if kind is ops.LITERAL:
                members |= 1 << what
            elif kind is ops.RANGE:
                members |= (1 << what[1] + 1) - (1 << what[0])
            elif kind is ops.CATEGORY:
                members |= _categories()[what]
            elif kind is not ops.NEGATE:
                raise ValueError(f"the sieve cannot follow a gate with {kind}")
        if argument[0][0] is ops.NEGATE:
            members = _ANY & ~members
    else:
        return None
    return _both_cases(members) if fold else members


@cache
def _categories() -> dict[Any, int]:
    digits, spaces = b"0123456789", b" \t\n\r\f"  # As RE2 has it: for Python there is one more, and `[^\s]` has to let that pass.
    word = bytes(byte for byte in range(128) if chr(byte).isalnum()) + b"_"
    named = {ops.CATEGORY_DIGIT: digits, ops.CATEGORY_SPACE: spaces, ops.CATEGORY_WORD: word}
    return {category: sum(1 << byte for byte in members) for category, members in named.items()}


@cache
def _both_cases(members: int) -> int:
    upper, lower = (((1 << 26) - 1) << first for first in b"Aa")
    return members | (members & upper) << 32 | (members & lower) >> 32


def _folded(word: bytes) -> Steps:
    return tuple(Step(_both_cases(1 << byte)) for byte in word)


def _windows(path: Sequence[Step], size: int) -> Iterator[Window]:
    """What the first bytes along a path may be."""
    if not size or not path:
        yield (_ANY,) * size
        return
    step, rest = path[0], path[1:]
    for count in range(min(step.least, size), size + 1 if step.loops else min(step.least, size) + 1):
        yield from ((step.bytes,) * count + window for window in _windows(rest, size - count))


def _told_by(path: Steps) -> list[int]:
    """The first bytes of a path, as far as they are known, and a bit for each that is: of a letter in both cases, all but one."""
    first, known = [0] * _WINDOW, [0] * _WINDOW
    for n, step in enumerate(path[:_WINDOW]):
        if step.least != 1 or step.loops or ((same := _members(step.bytes)) != [same[0]] and same != [same[0], same[0] | 32]):
            break
        known[n] = 0xFF if len(same) == 1 else 0xDF
        first[n] = same[0] & known[n]
    return first + known


def _shared_out(windows: list[Window], count: int) -> list[list[Window]]:
    """The windows in so many groups. Of neighbours, in their order, the two are put together that let the least pass."""
    groups, passing = [[window] for window in windows], list(windows)
    losses = [_loss(groups, passing, n) for n in range(len(groups) - 1)]
    while len(groups) > count:
        n = losses.index(min(losses))
        passing[n : n + 2] = [_union(passing[n], passing[n + 1])]
        groups[n : n + 2] = [groups[n] + groups[n + 1]]
        del losses[n]
        for near in (n - 1, n):
            if 0 <= near < len(losses):
                losses[near] = _loss(groups, passing, near)
    return groups


def _loss(groups: list[list[Window]], passing: list[Window], n: int) -> int:
    """How many more are looked at, when this group and the next are one."""
    one, other = len(groups[n]), len(groups[n + 1])
    both = _frequency(_union(passing[n], passing[n + 1]))
    return (one + other) * both - one * _frequency(passing[n]) - other * _frequency(passing[n + 1])


def _union(one: Window, other: Window) -> Window:
    return tuple(a | b for a, b in zip(one, other, strict=True))


@cache
def _frequency(window: Window) -> int:
    return prod(map(_commonness, window))


@cache
def _commonness(members: int) -> int:
    """How often one of these is met in transcripts, roughly."""
    return members.bit_count() + 6 * (members & _COMMON).bit_count() + 14 * (members & _COMMONEST).bit_count()


_COMMON = sum(1 << byte for byte in b'abcdefghijklmnopqrstuvwxyz0123456789 "\\_-./:,')
_COMMONEST = sum(1 << byte for byte in b' etaoinsrlc"\\')


@cache
def _members(members: int) -> list[int]:
    return [byte for byte in range(256) if members >> byte & 1]


if __name__ == "__main__":
    write()
