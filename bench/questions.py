"""Questions in plain words about the sessions of the corpus: is the session that answers one found?

    python bench/questions.py --corpus DIR [--half tuning|judging] [--misses] [--url URL]

`questions.tsv` beside this file has a question and the session that answers it in each line (or
several, by commas, if more than one does). They were written from the sessions alone, before the
ranking was. A hash of the question divides them: the ranking was tuned with the first half in view,
and the second was looked at once, at the end. To measure another version of runlore, put its `src`
first on PYTHONPATH. `--url` searches a store that is there instead of reading the corpus.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from _corpus import store_of

from runlore import open_store
from runlore.search import search
from runlore.store import Store

HALVES = {"tuning": "01234567", "judging": "89abcdef"}
"""The last digits of the hash of the questions in each half."""

QUESTIONS = Path(__file__).parent / "questions.tsv"
DEPTH = 10
"""Number of sessions among which the right one counts."""


class Asked(NamedTuple):
    question: str
    answers: frozenset[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--url", help="a store with the corpus")
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--misses", action="store_true", help="print what is not found first")
    options = parser.parse_args()
    if (options.corpus is None) == (options.url is None):
        parser.error("give --corpus or --url")
    with open_corpus(options) as store:
        for half in [options.half] if options.half else HALVES:
            report(store, half, list(read_questions(half)), options.misses)


def report(store: Store, half: str, asked: list[Asked], with_misses: bool) -> None:
    began = time.process_time()
    ranks = {one.question: rank_of(store, one) for one in asked}
    took = (time.process_time() - began) / len(asked)
    first, five, mean = figures(ranks.values())
    print(
        f"{half}: {len(asked)} questions, hit@1 {first:.3f}, hit@5 {five:.3f}, MRR {mean:.3f},"
        f" {sum(rank is None for rank in ranks.values())} not among {DEPTH},"
        f" {took * 1e3:.0f} ms CPU each"
    )
    if with_misses:
        for question, rank in ranks.items():
            if rank != 1:
                print(f"  {rank or '—'}\t{question}")


def rank_of(store: Store, asked: Asked) -> int | None:
    hits = search(store, asked.question, limit=DEPTH).hits
    return next(
        (at for at, hit in enumerate(hits, 1) if hit.session.uid in asked.answers),
        None,
    )


def figures(ranks: Iterable[int | None]) -> tuple[float, float, float]:
    """Return hit@1, hit@5 and the mean reciprocal rank."""
    known = list(ranks)
    number = max(1, len(known))
    return (
        sum(rank == 1 for rank in known) / number,
        sum(rank is not None and rank <= 5 for rank in known) / number,
        sum(1 / rank for rank in known if rank) / number,
    )


def read_questions(half: str | None = None) -> Iterator[Asked]:
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        question, answers = line.split("\t")
        if half is None or sha256(question.encode()).hexdigest()[-1] in HALVES[half]:
            yield Asked(question, frozenset(answers.split(",")))


@contextmanager
def open_corpus(options: argparse.Namespace) -> Iterator[Store]:
    if options.corpus is not None:
        with store_of(options.corpus) as store:
            yield store
    else:
        store = open_store(options.url, read_only=True)
        try:
            yield store
        finally:
            store.close()


if __name__ == "__main__":
    main()
