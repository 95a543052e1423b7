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
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from _agents import lay_out
from _corpus import store_of
from peers import default_scratch

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
    parser.add_argument("--agentsview", type=Path, help="its binary; needs --corpus")
    parser.add_argument("--scratch", type=Path, default=default_scratch())
    parser.add_argument("--misses", action="store_true", help="print what is not found first")
    options = parser.parse_args()
    if (options.corpus is None) == (options.url is None):
        parser.error("give --corpus or --url")
    with open_corpus(options) as store:
        for half in [options.half] if options.half else HALVES:
            report(store, half, list(read_questions(half)), options.misses)
    if options.agentsview and options.corpus:
        report_peer(options)


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


def report_peer(options: argparse.Namespace) -> None:
    """Ask agentsview the same questions, over HTTP, as its own page does."""
    # Both put this checkout's `src` first on the path.
    from search import agentsview
    from sync import stage

    home = options.scratch / "questions-home"
    if not home.exists():
        stage(options.corpus, home)
        lay_out(options.corpus, home)
    with agentsview(options.agentsview, home, options.scratch / "questions-data") as answered:
        for half in [options.half] if options.half else HALVES:
            asked = list(read_questions(half))
            ranks = []
            for one in asked:
                text = urllib.parse.quote(one.question)
                data = answered(f"/api/v1/search?q={text}&limit={DEPTH}").data
                found = [result["session_id"] for result in data.get("results") or ()]
                natives = {
                    answer.rpartition("/")[2].partition(":")[2] or answer.rpartition("/")[2]
                    for answer in one.answers
                }
                ranks.append(
                    next(
                        (
                            at
                            for at, name in enumerate(dict.fromkeys(found), 1)
                            if any(native in name for native in natives)
                        ),
                        None,
                    )
                )
            first, five, mean = figures(ranks)
            print(
                f"agentsview, {half}: hit@1 {first:.3f}, hit@5 {five:.3f}, MRR {mean:.3f},"
                f" {sum(rank is None for rank in ranks)} not among {DEPTH}"
            )


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
