"""Find sessions that share a task, errors, files or words with a session.

The digest of a session tells its subject. A property that few sessions share counts more than one
that many share. Nothing here prints or writes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from ..errors import NotFound, StoreError
from ..mine.tasks import task_keys
from ..model import Digest
from ..store import Filter, SessionLine, Store
from .by_passage import PassageSearch
from .stems import STOP_WORDS
from .syntax import TOKEN, parse, path_phrases

MAX_WORDS = 12
"""Words of the title and the goal that are looked for."""

MAX_FILES, MAX_ERRORS = 20, 20
"""Files and errors of the session that are looked for; of many, the first ones."""

MAX_SHARING = 200
"""Sessions that have a file or an error, from which it says nothing."""

MAX_COMPARED = 60
"""Number of sessions whose digests are compared."""

TASK_WEIGHT, ERROR_WEIGHT, FILE_WEIGHT, WORDS_WEIGHT = 3.0, 1.5, 1.0, 2.0
"""What the same task, one error or file that only two sessions have, and all of the words add."""

MIN_SCORE = 0.5
"""Least score of a session that is shown."""

_SHOWN = 3
"""Files, errors and words that are named as a reason."""


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is about the same as another, and why."""

    session: SessionLine
    score: float
    why: list[str]
    """What both have: `same task #12`, `same error: …`, `same files: a.py`, `same words: …`."""


def related(store: Store, uid: str, *, limit: int = 10) -> list[Related]:
    """Return the sessions that are about the same as this one, best first.

    Its parent, its forks and its subagents are left out. Raises NotFound.
    """
    with store.snapshot():
        if store.sessions.get(uid) is None:
            raise NotFound(f"no session {uid}")
        return _Comparison(store, uid).run(limit)


class _Comparison:
    def __init__(self, store: Store, uid: str) -> None:
        self.store, self.uid = store, uid
        self.number, self.line = next(
            (number, line)
            for number, line in store.sessions.lines(
                list(store.sessions.numbers(Filter(name=uid, parents_only=False)))
            ).items()
            if line.uid == uid
        )
        self.digest = _digest(store, uid)
        self.scores: dict[int, float] = defaultdict(float)
        self.why: dict[int, list[str]] = defaultdict(list)

    def run(self, limit: int) -> list[Related]:
        self._add_words()
        if self.digest is not None:
            self._add_errors(self.digest)
            self._add_files(self.digest)
        best = sorted(self.scores, key=lambda number: (-self.scores[number], number))
        lines = self.store.sessions.lines(best[:MAX_COMPARED])
        for number, line in lines.items():
            if task := self._same_task(line):
                self.scores[number] += TASK_WEIGHT
                self.why[number].insert(0, task)
        order = sorted(lines, key=lambda number: (-self.scores[number], -number))
        return [
            Related(
                session=lines[number], score=round(self.scores[number], 3), why=self.why[number]
            )
            for number in order
            if self.scores[number] >= MIN_SCORE and not self._is_family(lines[number])
        ][:limit]

    # ── what is shared ────────────────────────────────────────────────────────────────────────────
    def _add_words(self) -> None:
        text = f"{self.line.title or ''} {self.digest.goal or '' if self.digest else ''}"
        words = [
            word
            for word in dict.fromkeys(TOKEN.findall(text.lower()))
            if word not in STOP_WORDS and len(word) > 2 and not word.isdigit()
        ]
        if not words:
            return
        query = parse(" ".join(words[:MAX_WORDS]))
        answer = PassageSearch(self.store, query, events=0).run(MAX_COMPARED + 1)
        own = max((hit.score for hit in answer.hits), default=0.0) or 1.0
        by_uid = {hit.session.uid: hit for hit in answer.hits}
        for number, line in self.store.sessions.lines(list(answer.numbers)).items():
            hit = by_uid.get(line.uid)
            if hit is None or number == self.number:
                continue
            self.scores[number] += WORDS_WEIGHT * hit.score / own
            lacking = set(hit.missing)
            both = [group[0].text for group in query.groups if group[0].text not in lacking]
            self.why[number].append("same words: " + _some(both))

    def _add_errors(self, digest: Digest) -> None:
        templates = {
            error.signature.fingerprint: error.signature.template for error in digest.errors
        }
        fingerprints = list(templates)[:MAX_ERRORS]
        if not fingerprints:
            return
        sharing: dict[str, set[str]] = defaultdict(set)
        for error in self.store.digests.errors(Filter(parents_only=False), fingerprints):
            sharing[error.fingerprint].add(error.uid)
        uids = {uid for some in sharing.values() for uid in some if len(some) <= MAX_SHARING}
        numbers = self._numbers_of(uids)
        shared: dict[int, list[str]] = defaultdict(list)
        for fingerprint, some in sharing.items():
            if len(some) > MAX_SHARING:
                continue
            for uid in some & numbers.keys():
                self.scores[numbers[uid]] += ERROR_WEIGHT / math.log2(max(2, len(some)))
                shared[numbers[uid]].append(templates[fingerprint])
        for number, names in shared.items():
            self.why[number].append("same error: " + _some(names, most=1))

    def _add_files(self, digest: Digest) -> None:
        files = dict.fromkeys((*digest.files_edited, *digest.files_created))
        shared: dict[int, list[str]] = defaultdict(list)
        for file in list(files)[:MAX_FILES]:
            numbers = self._naming(file)
            if len(numbers) > MAX_SHARING:
                continue
            for number in numbers - {self.number}:
                self.scores[number] += FILE_WEIGHT / math.log2(max(2, len(numbers)))
                shared[number].append(file)
        for number, names in shared.items():
            self.why[number].append("same files: " + _some(names))

    def _naming(self, file: str) -> set[int]:
        """Return the sessions that name a file by the last two names of its path."""
        end = "/".join(file.replace("\\", "/").split("/")[-2:])
        found = [set(self.store.index.postings(phrase)) for phrase in path_phrases(end)]
        return {segment >> 20 for segment in set.intersection(*found)} if found else set()

    def _same_task(self, line: SessionLine) -> str:
        both = _tasks(self.line) & _tasks(line)
        return f"same task {self.line.task_ref}" if both else ""

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────
    def _numbers_of(self, uids: Iterable[str]) -> dict[str, int]:
        wanted = set(uids) - {self.uid}
        numbers: set[int] = set()
        for uid in wanted:
            numbers |= self.store.sessions.numbers(Filter(name=uid, parents_only=False))
        lines = self.store.sessions.lines(list(numbers))
        return {line.uid: number for number, line in lines.items() if line.uid in wanted}

    def _is_family(self, line: SessionLine) -> bool:
        own = {self.uid, self.line.parent_uid} - {None}
        return line.uid in own or line.parent_uid in own


def _tasks(line: SessionLine) -> set[str]:
    keys = task_keys(line.uid, line.repo, line.task_ref, None)
    return {key for key in keys if key.startswith("ref ")}


def _digest(store: Store, uid: str) -> Digest | None:
    try:
        return store.digests.get(uid)
    except StoreError:
        return None


def _some(names: list[str], most: int = _SHOWN) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:most]) + (f" and {len(unique) - most} more" * (len(unique) > most))
