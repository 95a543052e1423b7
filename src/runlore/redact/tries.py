"""Memory of what was found at places of a text, so that repeated text is searched once.

This bounds the work for text that repeats the beginnings of secrets. Nothing here knows what a
secret looks like.
"""

import re

# Bytes that decide which rule a token belongs to. The limit matters where tokens begin inside each
# other: otherwise each would be read to its end.
MAX_LEAD_BYTES = 256
# Bytes before a name that belong to it: see `assigned`.
_MAX_NAME_BYTES = 48
_CONTEXT_BYTES = _MAX_NAME_BYTES + MAX_LEAD_BYTES
# Bytes from one place to the next that are sure to lie in the text around it.
_MAX_STEP = MAX_LEAD_BYTES // 2
# Tokens that may begin in one word. More of them are nonsense, and would be read again and again.
_MAX_TRIES = 16
_WORD_END = re.compile(rb"[\s\"'\\,;&=?|()]|$")
# Places that are remembered in one text.
_MAX_PLACES = 10_000


_Span = tuple[int, int, str]


class Tries:
    """Remembers what was found at places, so that it is not looked for again and again."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count = self._word_end = 0
        self._known: dict[bytes, tuple[int, list[_Span]]] = {}

    def find_known(self, at: int) -> tuple[int, list[_Span]] | None:
        """Return how far to go on from a place that was looked at before, and its secrets.

        Secrets depend only on the text at a place and on what surrounds it.
        """
        known = self._known.get(self._context(at)) if self._known else None
        if known is None or not known[1]:
            return known
        return known[0], [(at + start, at + end, kind) for start, end, kind in known[1]]

    def learn(self, at: int, step: int, spans: list[_Span]) -> None:
        """Remember the secrets at a place, and how far from it the next place is."""
        reach = max([step, *(end - at for _, end, _ in spans)])
        context = self._context(at)
        if len(context) == _CONTEXT_BYTES and reach < _MAX_STEP and len(self._known) < _MAX_PLACES:
            self._known[context] = (
                step,
                [(start - at, end - at, kind) for start, end, kind in spans],
            )

    def _context(self, at: int) -> bytes:
        return self._data[max(0, at - _MAX_NAME_BYTES) : at + MAX_LEAD_BYTES]

    def next_after(self, at: int) -> int:
        """Return where to continue after a place where no secret begins."""
        if at >= self._word_end:
            end = _WORD_END.search(self._data, at + 1)
            self._count, self._word_end = 0, end.start() if end else len(self._data)
        self._count += 1
        return at + 1 if self._count <= _MAX_TRIES else max(at + 1, self._word_end)
