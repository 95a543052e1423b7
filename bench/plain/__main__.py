"""Compare the plain counts with what runlore shows, on every transcript of a corpus.

    python -m bench.plain --corpus DIR [--corpus DIR] [--only claude,codex] [--jobs 2]

Each transcript is laid out in a home of its own and synced into a store of its own. For each agent
there is a line: sessions, equal in all figures, explained by a rule of the agent's module, known
faults of runlore, unexplained. Differences follow, with both figures. The exit status is 1 if one
of them is not explained.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import get_args

from .compare import Finding, Verdict, compare_home
from .mount import Unit, find_units, mount


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare plain counts with what runlore shows.")
    parser.add_argument("--corpus", type=Path, action="append", required=True)
    parser.add_argument("--only", default="", help="folders of the corpus: claude-code,codex")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    args = parser.parse_args()
    only = tuple(filter(None, args.only.split(",")))
    units = [
        unit
        for corpus in args.corpus
        for unit in find_units(corpus)
        if not only or unit.name.startswith(only)
    ]
    findings: dict[str, list[tuple[Unit, Finding]]] = defaultdict(list)
    with ProcessPoolExecutor(args.jobs) as pool:
        for unit, compared in zip(units, pool.map(_compare, units, chunksize=4), strict=True):
            for finding in compared:
                findings[finding.agent].append((unit, finding))
    sys.exit(_report(findings))


def _compare(unit: Unit) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        mount(unit, home)
        return compare_home(home, Path(folder) / "data")


def _report(findings: dict[str, list[tuple[Unit, Finding]]]) -> int:
    verdicts = get_args(Verdict)
    print(f"| agent | sessions | {' | '.join(verdicts)} |")
    print("|---" * (len(verdicts) + 2) + "|")
    total = Counter[str]()
    for agent, found in sorted(findings.items()):
        counts = Counter(finding.verdict for _, finding in found)
        total.update(counts)
        print(f"| {agent} | {len(found)} | {' | '.join(str(counts[name]) for name in verdicts)} |")
    print(f"| all | {total.total()} | {' | '.join(str(total[name]) for name in verdicts)} |")
    for line in _differences(findings):
        print(line)
    return int(bool(total["unexplained"]))


def _differences(findings: dict[str, list[tuple[Unit, Finding]]]) -> Iterator[str]:
    for agent, found in sorted(findings.items()):
        for unit, finding in found:
            if finding.verdict != "equal":
                yield f"\n{finding.verdict}: {agent} {unit.name} ({finding.id})"
                yield from (f"  {line}" for line in finding.lines)


if __name__ == "__main__":
    main()
