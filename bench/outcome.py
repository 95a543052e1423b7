"""Outcomes of sessions compared with hidden tests: the reliability and coverage of each level of
evidence.

    python bench/outcome.py --labelled DIR/labelled
    python bench/outcome.py --labelled DIR/labelled --half tuning    # while writing the rules

The baseline is "who spoke last": a session that ends with the agent's words has succeeded, one that
ends with the user's was abandoned. MCC is that of naming failures: a verdict of `fail` against all
others, over all sessions.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from _labelled import Labelled, sweagent, vorflux

from runlore.digest import Outcome
from runlore.digest.outcome import outcome

Judged = list[tuple[Labelled, Outcome]]
HALVES = ("tuning", "held-out")
VERDICTS = ("success", "fail", "abandoned", "unknown")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--labelled", type=Path, required=True, help="the folder with sweagent and vorflux"
    )
    parser.add_argument(
        "--half", choices=HALVES, help="one of them; without it both, and the whole"
    )
    parser.add_argument("--each", action="store_true", help="a line for each session")
    options = parser.parse_args()
    for name, load in (("sweagent", sweagent), ("vorflux", vorflux)):
        sessions = list(load(options.labelled / name))
        for half in (options.half,) if options.half else (*HALVES, None):
            chosen = [
                session
                for session in sessions
                if half is None or session.is_held_out == (half == "held-out")
            ]
            judged = [(session, outcome(session.events, session.bodies)) for session in chosen]
            report(f"{name}, {half} half" if half else f"{name}, both halves", judged)
            for session, found in judged if options.each else ():
                truth = "resolved" if session.is_resolved else "failed"
                print(
                    f"  {truth:9} {found.verdict:9} {found.level:12} {session.name}  {found.reason}"
                )


def report(title: str, judged: Judged) -> None:
    failed = sum(not session.is_resolved for session, _ in judged)
    print(f"\n{title}: {len(judged)} sessions, {failed} failed")
    print(f"  {'':22}{'success':>9}{'fail':>9}{'abandoned':>11}{'unknown':>9}{'MCC':>8}")
    rows: tuple[tuple[str, Callable[[Labelled, Outcome], str]], ...] = (
        ("verdict", lambda _, found: found.verdict),
        ("who spoke last", lambda session, _: who_spoke_last(session)),
    )
    for name, verdict_of in rows:
        pairs = [(session.is_resolved, verdict_of(session, found)) for session, found in judged]
        for is_resolved in (True, False):
            counts = Counter(verdict for truth, verdict in pairs if truth == is_resolved)
            cells = "".join(
                f"{counts[verdict]:>{11 if verdict == 'abandoned' else 9}}" for verdict in VERDICTS
            )
            score = (
                f"{mcc((not truth, verdict == 'fail') for truth, verdict in pairs):8.3f}"
                if is_resolved
                else ""
            )
            print(f"  {name + (', resolved' if is_resolved else ', failed'):22}{cells}{score}")
    named = [session for session, found in judged if found.verdict == "fail"]
    right = sum(not session.is_resolved for session in named)
    print(
        f"  failures named: {right} of {failed} ({right / max(1, failed):.0%}), precision"
        f" {right / max(1, len(named)):.3f}"
    )
    reliability(judged)


def reliability(judged: Judged) -> None:
    """Return the claimed confidence and the observed accuracy of each level and verdict."""
    print(f"  {'level':12} {'verdict':10}{'claimed':>8}{'n':>5}{'coverage':>10}{'observed':>10}")
    groups: dict[tuple[str, str, float], list[bool]] = {}
    for session, found in judged:
        if found.verdict != "unknown":
            is_right = session.is_resolved == (found.verdict == "success")
            groups.setdefault((found.level, found.verdict, found.confidence), []).append(is_right)
    for (level, verdict, claimed), rights in sorted(groups.items()):
        observed = sum(rights) / len(rights)
        mark = "" if observed >= claimed else "  below what is claimed"
        print(
            f"  {level:12}"
            f" {verdict:10}{claimed:8.2f}{len(rights):5}"
            f"{len(rights) / len(judged):10.1%}{observed:10.2f}{mark}"
        )


def who_spoke_last(session: Labelled) -> str:
    spoken = [event for event in session.events if event.role in ("user", "assistant", "tool")]
    return "abandoned" if spoken and spoken[-1].role == "user" else "success"


def mcc(pairs: Iterable[tuple[bool, bool]]) -> float:
    """Return Matthews' correlation of two truth values; 0 if one of them is constant."""
    counts = Counter(pairs)
    tp, fp, fn, tn = (
        counts[key] for key in ((True, True), (False, True), (True, False), (False, False))
    )
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0


if __name__ == "__main__":
    main()
