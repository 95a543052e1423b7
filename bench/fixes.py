"""The fixes that are shown for errors, compared with the true ones: recurring errors of real
sessions that were read by hand.

    python bench/fixes.py --store runlore.db

`--store` is a store with the sessions of the notes; sessions that it does not have are counted and
left out. The notes are in fixes.tsv (the rules were written with these at hand) and in
fixes_aside.tsv (they were not). A fix is right if its first step is one of the events that the
notes give.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from runlore import open_store
from runlore.digest import Fix
from runlore.digest.attempts import find_attempts
from runlore.digest.fixes import find_fixes
from runlore.errors import NotFound
from runlore.query import get
from runlore.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--each", action="store_true", help="a line for each error")
    options = parser.parse_args()
    store = open_store(str(options.store), read_only=True)
    for name in ("fixes.tsv", "fixes_aside.tsv"):
        report(store, Path(__file__).with_name(name), each=options.each)


def report(store: Store, notes: Path, *, each: bool) -> None:
    shown = right = with_fix = answered = missing = 0
    lines = [line for line in notes.read_text().splitlines() if not line.startswith("#")]
    for line in lines:
        where, true, note = line.split("\t")
        fix = answer(store, where)
        if fix is None:
            missing += 1
            continue
        seqs = set() if true == "none" else set(map(int, true.split(",")))
        is_right = fix.is_shown and fix.steps[0].seq in seqs
        with_fix += bool(seqs)
        shown += fix.is_shown
        right += is_right
        answered += fix.is_shown and bool(seqs)
        if each:
            verdict = (
                "right"
                if is_right
                else "WRONG"
                if fix.is_shown
                else "not shown"
                if seqs
                else "right: none"
            )
            print(f"{verdict:12} {where[-40:]:40} {fix.how or '-':8} {fix.confidence:.2f}  {note}")
    print(
        f"{notes.name}: {len(lines) - missing} errors, {with_fix} of them with a fix ({missing} not"
        " in this store)"
    )
    print(f"  shown {shown}, right {right}: {right / max(1, shown):.0%}")
    print(f"  shown for {answered} of {with_fix}: {answered / max(1, with_fix):.0%}")


def answer(store: Store, where: str) -> Fix | None:
    uid, _, seq = where.rpartition("#")
    try:
        get(store, uid)
    except NotFound:
        return None
    bodies = store.sessions.bodies(uid)
    attempts = find_attempts(store.sessions.events(uid), bodies)
    found = {attempt.end_seq: attempt.signature for attempt in attempts}
    signature = found.get(int(seq))
    if signature is None:
        raise SystemExit(f"{where} is no error")
    return next(
        fix for fix in find_fixes(attempts, bodies) if fix.fingerprint == signature.fingerprint
    )


if __name__ == "__main__":
    main()
