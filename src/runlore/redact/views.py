r"""Other ways to read a text, in which a secret may show that its bytes hide.

A view is the text without terminal codes and characters that nobody sees, the text in such codes,
the text with `%3D`, `&quot;` and base64 decoded, or with wrapped lines joined. A secret in a
view is removed from the text itself: a view knows where each of its parts came from. Nothing here
knows what a secret looks like.
"""

import base64
import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import sub

import re2

_BYTES = re2.Options()
_BYTES.encoding = re2.Options.Encoding.LATIN1

# Patterns with many short matches are of `re`: it takes a tenth of what RE2 takes for each match.
# They repeat nothing that can be divided in two ways, so they are as linear.
#
# `\x1b[32m`, the title of a window, and both as source code and JSON spell them.
_BACKSLASHES = r"\\{1,16}+"
_ESCAPE = rf"(?:\x1b|{_BACKSLASHES}(?:u001[bB]|x1[bB]|033|e))"
_CSI = rf"(?:{_ESCAPE}\[|\xc2\x9b)[0-9;:?]{{0,40}}[ -/]?[@-~]"
# A title, a link, or another command with a text in it.
_COMMAND = rf"{_ESCAPE}[\]P^_X]([^\x07\x1b\\\r\n]*)(?:\x07|{_ESCAPE}?\\+)"
# Characters that nobody sees, and one that is printed over.
_UNSEEN = (
    r"\xe2\x80[\x8b-\x8f]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf|\xc2\xad|[\x00-\x07\x0e-\x1a\x7f]"
    r"|[^\n\x08]\x08|\\+u(?:200[b-fB-F]|206[0-4]|[fF][eE][fF][fF]|00[aA][dD])"
)
_CODE = rf"{_CSI}|{_ESCAPE}(?:[()*+#][A-Z0-9]|[=>78])|{_UNSEEN}".replace(
    r"\\+u", rf"{_BACKSLASHES}u"
)
_CODES = re.compile(rf"(?:{_CODE})++|{_COMMAND}|\x1b+".encode())
_HAS_CODES = re2.compile(
    rf"{_ESCAPE}[\[\]P^_X()*+#=>78]|\xc2\x9b|[\x1b\x08]|{_UNSEEN}".replace(
        _BACKSLASHES, r"\\+"
    ).encode(),
    _BYTES,
)
_HAS_COMMANDS = re.compile(_COMMAND.encode())
_ESCAPES = re.compile(
    rf"%([0-9A-Fa-f]{{2}})|{_BACKSLASHES}u([0-9A-Fa-f]{{4}})"
    r"|&(quot|apos|amp|lt|gt|#[0-9]{2,5}|#x[0-9a-fA-F]{2,4});".encode()
)


def _base64_group() -> str:
    """Return a pattern for four characters of base64 that stand for three of ASCII.

    The first bit of each of the three is 0. Hardly any other text goes on like that for long.
    """
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    first, second, third = (
        "".join(letter for n, letter in enumerate(alphabet) if not n & high) for high in (32, 8, 2)
    )
    return f"[{first}][{second}][{third}_][A-Za-z0-9+/_-]"


_MIN_GROUPS = 6
_BOUNDARY = r"(?:^|[^A-Za-z0-9+/_-]|\\[nrt])"
_BASE64 = f"(?:{_base64_group()}){{{_MIN_GROUPS}}}"
_BASE64_RUN = re2.compile(
    rf"{_BOUNDARY}({_BASE64}(?:{_base64_group()})*[A-Za-z0-9+/_-]{{0,3}})".encode()
)
_NOT_TEXT = re.compile(rb"[^\t\n\r\x1b -~]")

GATE = "|".join(
    [
        r"\\+(?:u001[bB]|x1[bB]|033|e)[\[\]P^_X]|\x1b|\\+(?:u001[bB]|b|u0008)|\xc2\x9b"
        rf"|\\+u009[bB]|{_UNSEEN}"
        r"|\\+u(?:200[b-fB-F]|206[0-4]|[fF][eE][fF][fF]|00[aA][dD]|000[0-7eEfF]|001[0-9aA]|007[fF])",
        r"%(?:2[0-9A-Fa-f]|3[AaDd]|0[AaDd])[^%\s\"]",
        rf"{_BOUNDARY}{_BASE64}",
    ]
)
"""Matches where a view differs from the text, except for lines that are joined."""


class View:
    """A text that was put together from parts of another."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._starts: list[int] = []
        self._origins: list[tuple[int, int, bool]] = []
        self._length = 0

    @cached_property
    def data(self) -> bytes:
        """The text, once all parts are added."""
        return b"".join(self._parts)

    def add(self, part: bytes, start: int, end: int) -> None:
        """Add a part that stands for the bytes from `start` to `end` of the other text."""
        if part:
            self._parts.append(part)
            self._starts.append(self._length)
            self._origins.append((start, end, len(part) == end - start))
            self._length += len(part)

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where the bytes of a span of the view are in the other text."""
        return self._origin(start)[0], self._origin(end - 1)[1]

    def parts_of(self, start: int, end: int) -> list[bytes]:
        """Return the parts of a span of the view that come from different places."""
        first, last = (bisect_right(self._starts, at) - 1 for at in (start, end - 1))
        cuts = [start, *self._starts[first + 1 : last + 1], end]
        data = self.data
        return [data[one:other] for one, other in pairwise(cuts)]

    def _origin(self, at: int) -> tuple[int, int]:
        number = bisect_right(self._starts, at) - 1
        start, end, is_copy = self._origins[number]
        at += start - self._starts[number]
        return (at, at + 1) if is_copy else (start, end)


Span = tuple[int, int, bytes]
"""Where a part of the text begins and ends, and what stands for it in a view."""


class Shortened:
    """A text without what a pattern matches."""

    def __init__(self, text: bytes, pattern: re.Pattern[bytes]) -> None:
        self.data = pattern.sub(b"", text)
        self._text, self._pattern = text, pattern

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where the bytes of a span of this text are in the other one."""
        return self._origin(start), self._origin(end - 1) + 1

    @cached_property
    def _gaps(self) -> tuple[list[int], list[int]]:
        """Return the positions of the gaps in this text, and the bytes left out up to each."""
        starts = [match.start() for match in self._pattern.finditer(self._text)]
        ends = [match.end() for match in self._pattern.finditer(self._text)]
        left_out = list(accumulate(map(sub, ends, starts), initial=0))
        return list(map(sub, starts, left_out)), left_out

    def _origin(self, at: int) -> int:
        places, left_out = self._gaps
        return at + left_out[bisect_right(places, at)]


class Excerpts:
    """Parts of a text, each by itself."""

    def __init__(self, texts: list[bytes], starts: list[int]) -> None:
        self.data = b"\n\n".join([*texts, b""])
        self._origins = starts
        self._starts = [0, *accumulate(len(text) + 2 for text in texts)]

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where the bytes of a span of this text are in the other one."""
        return self._origin(start), self._origin(end - 1) + 1

    def _origin(self, at: int) -> int:
        number = bisect_right(self._starts, at) - 1
        return at - self._starts[number] + self._origins[number]


def split_codes(data: bytes) -> tuple[Shortened | None, Excerpts | None]:
    """Return a text without terminal codes, and the texts in the codes, such as addresses of links.

    None stands for a text that would be the same, or empty.
    """
    if not _HAS_CODES.search(data):
        return None, None
    around = Shortened(data, _CODES)
    if not _HAS_COMMANDS.search(data):
        return around, None
    texts, starts = [], []
    for code in _CODES.finditer(data):
        if code.lastindex and code[1]:
            texts.append(code[1])
            starts.append(code.start(1))
    return around, Excerpts(texts, starts) if texts else None


def decoded(data: bytes) -> Iterator[View]:
    """Yield a text with `%3D` and `\\u003d` decoded, and all base64 in it, if there is any."""
    has_escapes = b"%" in data or b"\\u" in data or (b"&" in data and b";" in data)
    if has_escapes and (spans := list(_escape_spans(data))):
        yield _replaced(data, spans)
    if runs := list(_base64_runs(data)):
        yield _decoded(runs)


def _escape_spans(data: bytes) -> Iterator[Span]:
    for match in _ESCAPES.finditer(data):
        start, end = match.span()
        yield start, end, _unescaped(match[match.lastindex or 0])


@lru_cache(4096)
def _unescaped(digits: bytes) -> bytes:
    """Return what two or four digits, or the name of an entity, stand for."""
    if len(digits) == 2 and digits not in (b"lt", b"gt"):
        return bytes([int(digits, 16)])
    text = digits.decode()
    if len(digits) == 4 and digits not in (b"quot", b"apos") and digits[:1] != b"#":
        return chr(int(text, 16)).encode("utf-8", "surrogatepass")
    return html.unescape(f"&{text};").encode("utf-8", "surrogatepass")


def _base64_runs(data: bytes) -> Iterator[Span]:
    """Yield all texts in base64. If one goes on in the next line, so does the next span."""
    at = 0
    for match in _BASE64_RUN.finditer(data):
        start, end = match.span(1)
        while start >= at and (text := _unpacked(data[start:end])):
            yield start, end, text
            at = end
            following = _NEXT_BASE64.match(data, end)
            if (end - start) % 4 or end - start < _MIN_BASE64_LINE or not following:
                break
            start, end = following.span(1)


def _unpacked(packed: bytes) -> bytes:
    """Return the text in base64; nothing if it is no text."""
    packed = packed.translate(_URL_SAFE)
    text = base64.b64decode(packed[: len(packed) // 4 * 4] + _rest(packed))
    return b"" if _NOT_TEXT.search(text) else text


_MIN_BASE64_LINE = 56
_NEXT_BASE64 = re2.compile(rb"(?:\r?\n|\\+r?\\*n)[ \t]*([A-Za-z0-9+/_-]{2,})")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def _rest(packed: bytes) -> bytes:
    """Return the last group of base64, padded; nothing if it is cut off."""
    rest = packed[len(packed) // 4 * 4 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _replaced(data: bytes, spans: Iterable[Span]) -> View:
    view, at = View(), 0
    for start, end, replacement in spans:
        if start > at:
            view.add(data[at:start], at, start)
        if replacement:
            view.add(replacement, start, end)
        at = end
    view.add(data[at:], at, len(data))
    return view


def _decoded(runs: Iterable[Span]) -> View:
    """Return the decoded texts alone, each by itself."""
    view, reached = View(), 0
    for start, end, text in runs:
        if start - reached > _MAX_LINE_END:
            view.add(b"\n\n", start, start)
        view.add(text, start, end)
        reached = end
    return view


_MAX_LINE_END = 12


_LINE_START = re.compile(
    rb"(?:\\+t|[ \t])*(?:[0-9]{1,6}(?:\xe2\x86\x92|\\+u2192|\\+t|[\t:|])|[+>|] ?)?[ \t]*"
)
_MIN_WRAPPED = 40
# Bytes of a line before and after the place where it was wrapped.
_REACH = 512


def joined_lines(data: bytes, opened: Iterable[tuple[int, int]]) -> View | None:
    """Return the ends and beginnings of wrapped lines, joined; None if no line is wrapped.

    A line is taken for wrapped if it is as long as the longest. `opened` are
    further line ends (start and end), before which a token has begun.
    """
    line_end = b"\n" if b"\n" in data else b"\\n"
    view, reached = View(), -1
    for start, end in sorted(_find_full_lines(data, line_end).union(opened)):
        indented = _LINE_START.match(data, end)
        next_word = indented.end() if indented else end
        if not start or next_word >= len(data):
            continue
        if start != reached:
            first = max(0, reached, start - _REACH)
            view.add(b"\n\n", start, start)
            view.add(data[first:start], first, start)
        stop = data.find(line_end, next_word, next_word + _REACH)
        reached = stop if stop >= 0 else min(len(data), next_word + _REACH)
        view.add(data[next_word:reached], next_word, reached)
    return view if reached >= 0 else None


def _find_full_lines(data: bytes, line_end: bytes) -> set[tuple[int, int]]:
    """Return where the longest lines end, if they are long enough to be wrapped."""
    lengths = [len(line) for line in data.split(line_end)]
    longest = max([*lengths, _MIN_WRAPPED])
    step = len(line_end)
    stops = accumulate(length + step for length in lengths[:-1])
    return {
        (stop - step, stop)
        for stop, length in zip(stops, lengths, strict=False)
        if length == longest
    }
