"""Known items by their exact words: a phrase, an error, an identifier, a command of one session.

    python bench/exact.py --corpus DIR | --url URL [--seed 1] [--misses]

The items are drawn from the sessions with a seed, because nothing of a transcript may be committed.
Each stands in at most three sessions, and any of them is right.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from questions import figures, open_corpus

from runlore.search import search
from runlore.search.stems import STOP_WORDS
from runlore.store import Filter, Store

PER_KIND = 25
"""Items of each kind."""

MAX_ANSWERS = 3
_IDENTIFIER = re.compile(r"\b(?:[a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z]+)+)\b")
_SYNTAX = re.compile(r"(?:^|\s)-\w|(?:^|\s)(?:file|is|kind|tool|session|repo|agent|model):")
_SAID = ("user_msg", "assistant_msg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--url", help="a store with the corpus")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    with open_corpus(options) as store:
        ranks: list[int | None] = []
        for kind, items in draw(store, options.seed).items():
            found = {text: rank_of(store, text, answers) for text, answers in items.items()}
            ranks += found.values()
            first, five, mean = figures(found.values())
            print(f"{kind}: {len(found)}, hit@1 {first:.3f}, hit@5 {five:.3f}, MRR {mean:.3f}")
            if options.misses:
                for text, rank in found.items():
                    if rank != 1:
                        print(f"  {rank or '—'}\t{text}")
        first, five, mean = figures(ranks)
        print(f"all: {len(ranks)}, hit@1 {first:.3f}, hit@5 {five:.3f}, MRR {mean:.3f}")


def draw(store: Store, seed: int) -> dict[str, dict[str, set[str]]]:
    """Return items by kind, each with the sessions that have it."""
    texts: dict[str, dict[str, str]] = {"said": {}, "all": {}}
    for line in store.sessions.select(Filter(parents_only=False)):
        bodies = store.sessions.bodies(line.uid)
        kinds = {event.seq: event.kind for event in store.sessions.events(line.uid)}
        said = [body for seq, body in bodies.items() if kinds.get(seq) in _SAID]
        texts["said"][line.uid] = "\n".join(said)
        texts["all"][line.uid] = "\n".join(bodies.values())
    makers: dict[str, Callable[[str, random.Random], Iterator[str]]] = {
        "phrases": lambda uid, rng: _phrases(texts["said"][uid], rng),
        "identifiers": lambda uid, rng: _identifiers(texts["all"][uid], rng),
        "errors": lambda uid, _: _errors(store, uid),
        "commands": lambda uid, _: _commands(store, uid),
    }
    rng = random.Random(seed)
    return {kind: _items(make, texts["all"], rng) for kind, make in makers.items()}


def _items(
    make: Callable[[str, random.Random], Iterator[str]],
    texts: Mapping[str, str],
    rng: random.Random,
) -> dict[str, set[str]]:
    items: dict[str, set[str]] = {}
    for uid in rng.sample(sorted(texts), len(texts)):
        for text in make(uid, rng):
            answers = {other for other, body in texts.items() if text in body}
            if uid in answers and len(answers) <= MAX_ANSWERS:
                items[text] = answers
                break
        if len(items) >= PER_KIND:
            break
    return items


def _phrases(text: str, rng: random.Random) -> Iterator[str]:
    lines = [line for line in text.splitlines() if 5 <= len(line.split()) <= 60]
    for line in rng.sample(lines, min(4, len(lines))):
        words = line.split()
        at = rng.randrange(len(words) - 4)
        phrase = " ".join(words[at : at + 5])
        telling = [word for word in words[at : at + 5] if word.lower() not in STOP_WORDS]
        # Nobody searches for words that are in every session.
        if phrase in line and '"' not in phrase and len(telling) >= 3:
            yield phrase


def _identifiers(text: str, rng: random.Random) -> Iterator[str]:
    names = sorted(set(_IDENTIFIER.findall(text)))
    yield from rng.sample(names, min(6, len(names)))


def _errors(store: Store, uid: str) -> Iterator[str]:
    digest = store.digests.get(uid)
    for error in digest.errors if digest else ():
        line = error.signature.sample[:150].rpartition(" ")[0]
        if len(line.split()) >= 3:
            yield line


def _commands(store: Store, uid: str) -> Iterator[str]:
    digest = store.digests.get(uid)
    for run in digest.commands if digest else ():
        if 12 <= len(run.command) <= 100:
            yield run.command


def rank_of(store: Store, text: str, answers: set[str]) -> int | None:
    if _SYNTAX.search(text):
        # As one must write what would be a field, or exclude a word: in quotes it is a text.
        text = '"{}"'.format(text.replace('"', " "))
    hits = search(store, text, limit=10).hits
    return next((at for at, hit in enumerate(hits, 1) if hit.session.uid in answers), None)


if __name__ == "__main__":
    main()
