"""A cache of a few slow answers. An answer is valid until the store gets new events or digests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from ..store import Store

MAX_ANSWERS = 16
Value = TypeVar("Value")


class AnswerCache:
    def __init__(self) -> None:
        self._answers: OrderedDict[object, tuple[object, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, store: Store, question: object, make: Callable[[], Value]) -> Value:
        """Return the answer to a question. `make` computes it the first time, and again when the
        store has changed."""
        now = (store.url, store.overview.state())
        with self._lock:
            known, value = self._answers.get(question, (None, None))
            if known == now:
                self._answers.move_to_end(question)
                # Only the caller knows the type of the answer.
                return value  # type: ignore[no-any-return]
        made = make()
        with self._lock:
            self._answers[question] = now, made
            while len(self._answers) > MAX_ANSWERS:
                self._answers.popitem(last=False)
        return made
