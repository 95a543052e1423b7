"""A sheet for a judge of proposed lessons: the lesson, and the events that it cites.

    python -m bench.learning.lessons --home DIR > lessons.jsonl

The home has a store and the proposals of `runlore lessons propose`. For each cited event the call
and its result are given, with the three events before and after them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.learning.sheets import MAX_STEP_TEXT
from runlore import open_store, timeline
from runlore.lessons.shelf import Shelf
from runlore.store import Store

AROUND = 5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", type=Path, required=True)
    options = parser.parse_args()
    store = open_store(str(options.home / "runlore.db"), read_only=True)
    for lesson in Shelf(options.home / "lessons").read()[0]:
        claim = {
            "id": lesson.id,
            "when": lesson.when,
            "do": lesson.do,
            "avoid": lesson.avoid,
            "applies to": {"agent": lesson.agent, "repo": lesson.repo, "tool": lesson.tool},
            "helped": f"{lesson.helped} of {lesson.sessions} independent tasks",
            "evidence": [describe(store, ref) for ref in lesson.evidence],
        }
        print(json.dumps(claim, ensure_ascii=False))


def describe(store: Store, ref: str) -> dict[str, object]:
    """Return a cited event with its neighbours, each with the beginning of its text."""
    uid, _, seq = ref.rpartition("#")
    events = list(timeline.in_order(store.sessions.events(uid)))
    bodies = store.sessions.bodies(uid)
    at = next((n for n, event in enumerate(events) if event.seq == int(seq)), 0)
    return {
        "event": ref,
        "around": [
            f"#{event.seq} {event.kind} {event.tool or ''}: {bodies.get(event.seq, '')}"[
                : 2 * MAX_STEP_TEXT
            ]
            for event in events[max(0, at - AROUND) : at + AROUND + 2]
        ],
    }


if __name__ == "__main__":
    main()
