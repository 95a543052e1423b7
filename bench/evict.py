"""Eviction to a tenth: the size that is reached, what stays, and a comparison of all reports.

    python bench/evict.py --home DIR [--part 0.1]

DIR is a home directory with transcripts in it, as `bench/sync.py` makes one. It is synced into a
store of its own. Reports are run as users run them, as JSON, before and after. Only these may
differ: that a session was evicted, the time of the report, and the parts of `commit` that
tests/cli/test_same_answers.py names.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
from sync import Runlore

from runlore import open_store
from runlore.store import Filter

EVERY = Filter(parents_only=False)
REPORTS = (
    "ls --all --all-subagents", "usage --by day", "usage --by session", "usage --by model",
    "usage --by project", "usage --by subagent",
    "usage --by block", "usage --wasted", "usage --check", "errors --least 1 --limit 1000",
    "patterns --least 1 --limit 1000", "measure",
    "retro --days 3650", "secrets --all-subagents",
)  # fmt: skip
MAY_DIFFER = {"evicted_at", "since", "until", "snippet", "marks"}
SOME = 25
"""Number of sessions, errors, files and commits that are queried one by one, chosen at random."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument(
        "--part", type=float, default=0.1, help="of its size that the store may keep (default: 0.1)"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        lore = Runlore(sys.executable, options.home, Path(folder))
        lore.first_sync()
        lore.run("sync")  # A session that was just written is analyzed when it is quiet.
        compare(lore, options.part, options.seed)


def compare(lore: Runlore, part: float, seed: int) -> None:
    store = lore.data / "runlore.db"
    asked = [tuple(words.split()) for words in REPORTS] + singled_out(store, random.Random(seed))
    before = {words: answer(lore, words) for words in asked}
    with closing(open_store(str(store))) as opened:
        opened.retention.shrink()  # Free space must not count as freed by the eviction.
        size = opened.retention.used_bytes()
    said = json.loads(
        lore.run("evict", "--soft", f"{int(size * part)} B", "--yes", "--json").output
    )
    now = store.stat().st_size
    print(
        f"store {size / 1e6:.1f} MB, evicted to {part:.0%}: {now / 1e6:.2f} MB = {now / size:.1%};"
        f" the text of {len(said['sessions'])}",
        end="",
    )
    print(
        f" sessions and the native records of {said['records']} transcripts have left"
        + "".join(f"; stays: {n} {why}" for why, n in said["stays"].items())
    )
    after = {words: answer(lore, words) for words in asked}
    wrong = [" ".join(words) for words in asked if after[words] != before[words]]
    print(
        f"{len(asked)} questions, {len(asked) - len(wrong)} with the same answer"
        + "".join(f"\n  other: {words}" for words in wrong)
    )
    print(
        "what stays: " + ", ".join(f"{name} {taken / now:.0%}" for name, taken in tables(store)[:8])
    )


def singled_out(path: Path, rng: random.Random) -> list[tuple[str, ...]]:
    """Return queries for single sessions, errors, files and commits."""
    with closing(open_store(str(path), read_only=True)) as store:
        digests = list(store.digests.iter(EVERY))
        texts = sorted({template for _, _, _, template, _ in store.digests.templates()})
    files = sorted(
        {Path(name).name for one in digests for name in (*one.files_edited, *one.files_read)}
    )
    commits = sorted({commit.sha for one in digests for commit in one.commits})
    uids = sorted(one.session_uid for one in digests)

    def some(items: list[str]) -> list[str]:
        return rng.sample(items, min(SOME, len(items)))

    return [
        *(("usage", "--explain", uid) for uid in some(uids)),
        *(("fix", "--", text) for text in some(texts)),
        *(("file", "--limit", "1000", "--", f"*/{name}") for name in some(files)),
        *(("commit", "--", sha) for sha in some(commits)),
    ]


def answer(lore: Runlore, words: tuple[str, ...]) -> Any:
    output = lore.run(words[0], "--json", *words[1:], check=False).output
    found = json.loads(output[output.index("{" if output.lstrip()[:1] == "{" else "[") :])
    if words[0] == "commit":
        found = [session for session in found["sessions"] if session["made"]]
    return without(found)


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without(one) for name, one in value.items() if name not in MAY_DIFFER}
    return [without(one) for one in value] if isinstance(value, list) else value


def tables(path: Path) -> list[tuple[str, int]]:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return list(db.execute("select name, sum(pgsize) from dbstat group by 1 order by 2 desc"))


if __name__ == "__main__":
    main()
