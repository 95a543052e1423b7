"""Titles of real sessions, to be compared before and after a change of the rules.

    python bench/titles.py --corpus DIR [--agent NAME] [--half rules|judging] > titles.tsv
    python bench/titles.py --corpus DIR --half judging --sample 60 [--seed 1] > sample.jsonl

Prints a line for each session: the session, its agent and its title, by tabs and in the order of
the sessions. A hash of the path of its source, below the corpus, divides the sessions: rules are
written with the first half in view and are judged on the second. With `--sample` so many sessions
are drawn, and each is printed as JSON with the prompts that it begins with: that is what a judge
reads. `titles.tsv` beside this file has the verdicts.
"""

from __future__ import annotations

import argparse
import json
import random
from hashlib import sha256
from pathlib import Path

from _corpus import store_of

from runlore.store import Filter, SessionLine, Store
from runlore.text.clean import one_line

HALVES = {"rules": "01234567", "judging": "89abcdef"}
"""The last digits of the hash of the sessions in each half."""

MAX_PROMPTS, MAX_PROMPT = 4, 700
"""Prompts that a judge reads of a session, and characters of each."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--agent")
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--sample", type=int, help="draw so many sessions, with their prompts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    digits = HALVES.get(options.half, "")
    with store_of(options.corpus, options.agent) as store:
        lines = [
            line
            for line in sorted(
                store.sessions.select(Filter(parents_only=False)), key=lambda line: line.uid
            )
            if not digits or last_digit(line.source_path or "", options.corpus) in digits
        ]
        if options.sample:
            for line in random.Random(options.seed).sample(lines, min(options.sample, len(lines))):
                print(json.dumps(for_judging(store, line), ensure_ascii=False))
            return
    for line in lines:
        print(line.uid, line.agent, one_line(line.title) or "(no title)", sep="\t")


def for_judging(store: Store, line: SessionLine) -> dict[str, object]:
    """Return what a judge needs: the title, and the beginnings of the first prompts."""
    prompts = [event.seq for event in store.sessions.events(line.uid) if event.kind == "user_msg"]
    bodies = store.sessions.bodies(line.uid)
    return {
        "session": line.uid,
        "agent": line.agent,
        "relation": line.relation,
        "title": line.title,
        "prompts": [bodies.get(seq, "")[:MAX_PROMPT] for seq in prompts[:MAX_PROMPTS]],
    }


def last_digit(path: str, corpus: Path) -> str:
    """Return the last digit of the hash of a path, without the folder of the corpus."""
    below = path.removeprefix(f"{corpus.absolute()}/")
    return sha256(below.encode()).hexdigest()[-1]


if __name__ == "__main__":
    main()
