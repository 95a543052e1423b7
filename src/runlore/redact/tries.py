"""Memory of the places in a text that have no secret, so that repeated text is searched once.

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


class Tries:
    """Remembers the places in a text that have no secret."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count = self._word_end = 0
        self._steps: dict[bytes, int] = {}

    def known_step(self, at: int) -> int:
        """Return how far to skip from a place with the same surroundings as one without a secret.

        Return 0 if no such place was learned.
        """
        return self._steps.get(self._context(at), 0) if self._steps else 0

    def learn(self, at: int, step: int) -> None:
        """Remember a place without a secret, and how far from it the next one is."""
        context = self._context(at)
        if len(context) == _CONTEXT_BYTES and step < _MAX_STEP and len(self._steps) < _MAX_PLACES:
            self._steps[context] = step

    def _context(self, at: int) -> bytes:
        return self._data[max(0, at - _MAX_NAME_BYTES) : at + MAX_LEAD_BYTES]

    def next_after(self, at: int) -> int:
        """Return where to continue after a place where no secret begins."""
        if at >= self._word_end:
            end = _WORD_END.search(self._data, at + 1)
            self._count, self._word_end = 0, end.start() if end else len(self._data)
        self._count += 1
        return at + 1 if self._count <= _MAX_TRIES else max(at + 1, self._word_end)
