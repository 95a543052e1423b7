"""Titles of real sessions, to be compared before and after a change of the rules.

    python bench/titles.py --corpus DIR [--agent NAME] [--half rules|judging] > titles.tsv

Prints a line for each session: the session, its agent and its title, by tabs and in the order of
the sessions. A hash of the path of its source, below the corpus, divides the sessions: rules are
written with the first half in view and are judged on the second.
"""

from __future__ import annotations

import argparse
from hashlib import sha256
from pathlib import Path

from _corpus import store_of

from runlore.store import Filter
from runlore.text.clean import one_line

HALVES = {"rules": "01234567", "judging": "89abcdef"}
"""The last digits of the hash of the sessions in each half."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--agent")
    parser.add_argument("--half", choices=HALVES)
    options = parser.parse_args()
    with store_of(options.corpus, options.agent) as store:
        lines = store.sessions.select(Filter(parents_only=False))
    digits = HALVES.get(options.half, "")
    for line in sorted(lines, key=lambda line: line.uid):
        if not digits or last_digit(line.source_path or "", options.corpus) in digits:
            print(line.uid, line.agent, one_line(line.title) or "(no title)", sep="\t")


def last_digit(path: str, corpus: Path) -> str:
    """Return the last digit of the hash of a path, without the folder of the corpus."""
    below = path.removeprefix(f"{corpus.absolute()}/")
    return sha256(below.encode()).hexdigest()[-1]


if __name__ == "__main__":
    main()
