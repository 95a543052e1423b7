"""Subagents of real sessions, and the calls that they are shown with.

    python bench/pairs.py --corpus DIR [--agent NAME] [--list]

Prints for each agent how many subagents are paired with a call by an id, how many by the prompt,
and how many with none; how many of these cannot be paired, because their session is not in the
corpus or has no call of an agent; and how many pairs contradict: the subagent's first prompt is not
in the text of the call. What is shown is counted, not what the rules say of themselves. `--list`
also prints the subagents that are not paired, and the pairs that contradict.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from _corpus import store_of

from runlore import query
from runlore.export.outline import outline
from runlore.store import Filter, Store
from runlore.timeline import has_prompt, pairs

COLUMNS = (
    "subagents", "by id", "by prompt", "not paired", "no calls", "shown twice", "contradict",
)  # fmt: skip
PROMPT = re.compile(r"^(?:prompt|tasks?|message|instructions?|query|description): ", re.MULTILINE)
"""An argument of a call that says what the subagent is to do. A script that starts several has
none, and cannot be compared."""


class Shown(NamedTuple):
    agent: str
    uid: str
    by: str
    calls: int
    has_choice: bool
    contradicts: bool


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--agent")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Counter[str]] = defaultdict(Counter)
    with store_of(options.corpus, options.agent) as store:
        for one in subagents(store):
            for name in (one.agent, "all"):
                count = figures[name]
                count["subagents"] += 1
                count[f"by {one.by}" if one.calls else "not paired"] += 1
                count["no calls"] += not one.has_choice
                count["shown twice"] += one.calls > 1
                count["contradict"] += one.contradicts
            if options.list and (one.contradicts or not one.calls):
                print("contradicts" if one.contradicts else "not paired", one.uid)
    print(f"{'':16}" + "".join(f"{name:>13}" for name in COLUMNS))
    for name, count in figures.items():
        if name != "all":
            print(f"{name:16}" + "".join(f"{count[column]:13}" for column in COLUMNS))
    print(f"{'all':16}" + "".join(f"{figures['all'][column]:13}" for column in COLUMNS))


def subagents(store: Store) -> Iterator[Shown]:
    """Yield the subagents of all stored sessions."""
    lines = store.sessions.select(Filter(parents_only=False))
    stored = {line.uid for line in lines}
    for uid in sorted({line.parent_uid for line in lines if line.parent_uid in stored}):
        below = [line for line in lines if line.parent_uid == uid and line.relation == "subagent"]
        if not below:
            continue
        calls = pairs(store.sessions.events(uid))
        by = {pair.uid: pair.by for pair in query.find_pairs(store, uid, calls, below)}
        has_choice = any(pair.call is not None and pair.call.action == "agent" for pair in calls)
        shown: dict[str, list[int]] = defaultdict(list)
        for block in outline(store, uid, None).blocks:
            for child in block.below:
                shown[child].append(block.event.seq)
        bodies = store.sessions.bodies(uid)
        for line in below:
            prompt = first_prompt(store, line.uid)
            texts = [bodies.get(seq, "") for seq in shown[line.uid]]
            contradicts = bool(prompt) and any(
                PROMPT.search(text) and not has_prompt(text, prompt) for text in texts
            )
            by_what = by.get(line.uid, "order")
            yield Shown(line.agent, line.uid, by_what, len(texts), has_choice, contradicts)
    for line in lines:  # A subagent whose session is not in the corpus.
        if line.relation == "subagent" and line.parent_uid not in stored:
            yield Shown(line.agent, line.uid, "", 0, False, False)


def first_prompt(store: Store, uid: str) -> str:
    for event in store.sessions.outline(uid):
        if event.kind == "user_msg" and event.origin is None:
            return store.sessions.bodies(uid, event.seq, event.seq).get(event.seq, "")
    return ""


if __name__ == "__main__":
    main()
