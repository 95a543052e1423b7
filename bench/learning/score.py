"""Verdicts of judges as figures, with intervals.

    python -m bench.learning.score errors --verdicts bench/learning/errors.tsv
    python -m bench.learning.score fixes --verdicts bench/learning/fixes.tsv --store judging.db
    python -m bench.learning.score prompts --verdicts bench/learning/prompts.tsv --store judging.db

Verdicts are lines of id, verdict and note. `errors`, `fixes` and `lessons` are right, wrong or
unclear, and unclear counts as wrong. `prompts` are yes (a correction) or no. `digests` have a field
in front of the verdict: id, field, right or wrong, note. With `--store` the claims that the present
rules make are looked up: the confidence of a fix, and which prompts are claimed to be corrections.
Several files of verdicts count as one. Recall of corrections is that of prompts drawn at random:
`prompts` of their file alone.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.learning.sheets import JudgedSession, add_sources, read_sources
from runlore.mine.intervals import wilson_interval
from runlore.model import is_injected


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        choices=(
            "errors",
            "fixes",
            "prompts",
            "corrections",
            "digests",
            "lessons",
            "files",
            "pairs",
            "injected",
        ),
    )
    parser.add_argument("--verdicts", type=Path, required=True, action="append")
    add_sources(parser)
    options = parser.parse_args()
    rows = [
        line.split("\t")
        for path in options.verdicts
        for line in path.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    if options.what == "fixes" and (options.store or options.labelled):
        score_fixes(rows, read_sources(options, all_runs=True))
    elif options.what in ("prompts", "corrections"):
        score_prompts(rows, read_sources(options, all_runs=True))
    elif options.what == "injected":
        score_injected(rows, read_sources(options, all_runs=True))
    elif options.what == "digests":
        score_fields(rows)
    else:
        print(share("right", [row[1] == "right" for row in rows]))


def score_fixes(rows: list[list[str]], sessions: Iterable[JudgedSession]) -> None:
    """Print how many fixes are right: all, and those of which runlore is confident."""
    confidence = {
        f"{session.uid}#{fix.failed_seq}/{fix.fingerprint[:6]}": (fix.confidence, fix.how)
        for session in sessions
        for fix in session.digest.fixes
        if fix.is_shown
    }
    claimed = [(*confidence[row[0]], row[1] == "right") for row in rows if row[0] in confidence]
    print(f"{len(rows) - len(claimed)} of {len(rows)} judged fixes are not claimed any more")
    print(share("all that are shown", [right for *_, right in claimed]))
    print(share("confidence 0.8 and more", [right for c, _, right in claimed if c >= 0.8]))
    print(share("confidence below 0.8", [right for c, _, right in claimed if c < 0.8]))
    for how in sorted({str(how) for _, how, _ in claimed}):
        print(share(f"  {how}", [right for _, other, right in claimed if other == how]))


def score_prompts(rows: list[list[str]], sessions: Iterable[JudgedSession]) -> None:
    """Print precision and recall of corrections, among the prompts that were judged."""
    claimed = {
        f"{session.uid}#{moment.seq}"
        for session in sessions
        for moment in session.digest.corrections
    }
    true = {row[0] for row in rows if row[1] == "yes"}
    judged = {row[0] for row in rows}
    print(f"{len(judged)} prompts judged, {len(true)} of them corrections")
    arguable = {row[0] for row in rows if row[1] == "arguable"}
    print(share("precision", [one in true for one in claimed & judged]))
    print(
        share(
            "precision, arguable ones right", [one in true | arguable for one in claimed & judged]
        )
    )
    print(share("recall", [one in claimed for one in true]))


def score_injected(rows: list[list[str]], sessions: Iterable[JudgedSession]) -> None:
    """Print precision and recall of the mark for injected text, among the texts judged."""
    marked = {
        f"{session.uid}#{event.seq}"
        for session in sessions
        for event in session.events
        if is_injected(event.kind, event.view)
    }
    true = {row[0] for row in rows if row[1] == "injected"}
    print(share("marked rightly", [row[0] in true for row in rows if row[0] in marked]))
    print(share("of injected texts marked", [one in marked for one in true]))


def score_fields(rows: list[list[str]]) -> None:
    """Print how many fields of digests are right: all, and by field."""
    print(share("all fields", [row[2] == "right" for row in rows]))
    for field in Counter(row[1] for row in rows):
        print(share(f"  {field}", [row[2] == "right" for row in rows if row[1] == field]))


def share(name: str, verdicts: Iterable[bool]) -> str:
    """Return a line with a share and its 95 % interval (Wilson)."""
    values = list(verdicts)
    right, of = sum(values), len(values)
    if not of:
        return f"{name}: none"
    low, high = wilson_interval(right, of)
    return f"{name}: {right} of {of} = {right / of:.0%} ({low:.0%} to {high:.0%})"


if __name__ == "__main__":
    main()
