r"""Secrets of many lines: private keys, and the values of a Kubernetes Secret.

Their lines may have anything before and after them: the sign of a change, the number of a listing,
the name of a file, quotes. So only what the lines hold is looked at, between the two lines that
open and close the block. This works on bytes and judges only whether the content is random.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from runlore.redact.randomness import entropy, wordlike

Span = tuple[int, int]

_KEY = r"(?:[A-Z0-9 ]{0,40}PRIVATE KEY|OpenVPN Static key)"
KEY_GATE = rf"-----? ?(?:BEGIN|END) {_KEY}|Private-Lines: [0-9]"
"""Matches near every private key."""

_MARK = re.compile(
    rf"-----? ?(BEGIN|END) {_KEY}(?: BLOCK| V1)? ?-----?|(Private)-Lines: [0-9]+".encode()
)
_MAX_KEY_BYTES = 65_536
_RUN = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")
_LONG_RUN = re.compile(rb"[A-Za-z0-9+/]{30,}={0,2}")
_LAST_LINE = re.compile(rb"[A-Za-z0-9+/]{2,29}={1,2}|[A-Za-z0-9+/]{16,29}")
# Between two lines of a key that has no end: what a line ends and the next begins with.
_MAX_BETWEEN = 160
# Before the first line: headers such as `DEK-Info`.
_MAX_BEFORE = 480
_LINE_END = re.compile(rb"\n|\\+n")


def key_spans(data: bytes) -> Iterator[Span]:
    """Yield where the content of private keys is, also of those that were cut off."""
    marks = list(_MARK.finditer(data))
    bounds = [0, *(at for mark in marks for at in mark.span()), len(data)]
    for number, mark in enumerate(marks):
        is_end = mark[1] == b"END"
        before, after = bounds[2 * number], bounds[2 * number + 3]
        if not is_end:
            is_closed = number + 1 < len(marks) and marks[number + 1][1] == b"END"
            span = _closed(data, mark.end(), after) if is_closed else None
            span = span or _following(data, mark.end(), after)
        elif number and marks[number - 1][1] != b"END":
            continue  # It closes the block before it.
        else:
            span = _preceding(data, before, mark.start())
        if span and entropy(data[span[0] : span[1]].decode("latin-1")) >= 3:
            yield span


def _closed(data: bytes, start: int, end: int) -> Span | None:
    """Return the content between the two ends of a key, if most of it is base64."""
    if end - start > _MAX_KEY_BYTES:
        return None
    runs = [run.span() for run in _RUN.finditer(data, start, end) if _is_random(run.group())]
    if not runs or sum(last - first for first, last in runs) < 0.3 * (end - start):
        return None
    return runs[0][0], _end_of_lines(data, runs[-1][1], end)


def _end_of_lines(data: bytes, at: int, end: int) -> int:
    """Return where the last line of a key ends, which may be short, before the closing line."""
    breaks = [found.start() for found in _LINE_END.finditer(data, at, end)]
    return breaks[-1] if len(breaks) > 1 else at


def _following(data: bytes, start: int, end: int) -> Span | None:
    """Return the lines of a key behind its opening line."""
    at, first, reach = start, None, _MAX_BEFORE
    for run in _LONG_RUN.finditer(data, start, min(end, start + _MAX_KEY_BYTES)):
        if run.start() - at > reach or not _is_random(run.group()):
            break
        first = run.start() if first is None else first
        at, reach = run.end(), _MAX_BETWEEN
    if first is None:
        return None
    last = _LAST_LINE.search(data, at, min(end, at + _MAX_BETWEEN))
    return first, last.end() if last and not wordlike(last.group().decode("ascii")) else at


def _preceding(data: bytes, start: int, end: int) -> Span | None:
    """Return the lines of a key before its closing line."""
    runs = list(_LONG_RUN.finditer(data, max(start, end - _MAX_KEY_BYTES), end))
    at, last = end, None
    for run in reversed(runs):
        if at - run.end() > _MAX_BETWEEN or not _is_random(run.group()):
            break
        last = _end_of_lines(data, runs[-1].end(), end)
        at = run.start()
    return None if last is None else (at, last)


def _is_random(run: bytes) -> bool:
    text = run[:200].decode("ascii")
    return entropy(text) >= 3 and not wordlike(text)


# ── Kubernetes ────────────────────────────────────────────────────────────────────────────────────
# Gates have no `\b`: with it an automaton has twice as many states.
KUBERNETES_GATE = r"kind\\*[\"']?: ?\\*[\"']?Secret"
_DATA = re.compile(rb"(?:\b|\\[nrt])data\\*[\"']?: ?\{?")
_PAIR = re.compile(
    rb"[^\r\n:]{0,80}?[\"']?([\w.-]{1,80})\\*[\"']?: ?\\*[\"']?([A-Za-z0-9+/]{7,}={0,2})\\*[\"']?,?"
    rb"(?=\s|\\+[nr]|[}\"']|$)"
)
_SKIPPED = re.compile(rb"(?:\r?\n|\\+r?\\*n|[ \t{,])*")
_IS_SECRET = re.compile(rb"kind\\*[\"']?: ?\\*[\"']?Secret\b")
_MAX_AWAY = 4096


def kubernetes_spans(data: bytes) -> Iterator[Span]:
    """Yield the encoded values below `data:` near `kind: Secret`."""
    kinds = [kind.start() for kind in _IS_SECRET.finditer(data)]
    if not kinds:
        return
    for at, end in _merged_windows(kinds, len(data)):
        while block := _DATA.search(data, at, end):
            at = block.end()
            for pair in _pairs(data, at, end):
                yield pair
                at = pair[1]


def _merged_windows(points: list[int], length: int) -> list[Span]:
    """Return the surroundings of points, joined where they overlap."""
    windows = [[max(0, points[0] - _MAX_AWAY), points[0] + _MAX_AWAY]]
    for one, other in pairwise(points):
        if other - one > 2 * _MAX_AWAY:
            windows.append([other - _MAX_AWAY, 0])
        windows[-1][1] = other + _MAX_AWAY
    return [(start, min(end, length)) for start, end in windows]


def _pairs(data: bytes, at: int, end: int) -> Iterator[Span]:
    while True:
        skipped = _SKIPPED.match(data, at, end)
        pair = _PAIR.match(data, skipped.end() if skipped else at, end)
        if not pair:
            return
        yield pair.span(2)
        at = pair.end()
