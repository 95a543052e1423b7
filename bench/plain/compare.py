"""Two counts of one home, session by session."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

from . import __path__ as here
from .shown import Shown, read_shown
from .values import NAMES, TOKENS, Counts, Rule, Session

NOT_AGENTS = ("__main__", "compare", "mount", "shown", "values")


Verdict = Literal["equal", "explained", "fault", "unexplained"]


class Finding(NamedTuple):
    """What came of comparing a session."""

    agent: str
    id: str
    verdict: Verdict
    lines: tuple[str, ...]
    """The figures that differ, and why."""


class Pair(NamedTuple):
    """A session as it was counted plainly and as runlore shows it; None if one has it alone."""

    agent: str
    id: str
    plain: Session | None
    shown: Shown | None

    def differences(self) -> dict[str, tuple[int, int]]:
        """Return the figures that differ, plain and shown; those of `usage` under its name."""
        plain, shown, billed = self._counts()
        names = [(name, name, shown) for name in NAMES]
        names += [(f"usage {name}", name, billed) for name in TOKENS]
        both = {word: (getattr(plain, name), getattr(at, name)) for word, name, at in names}
        return {word: pair for word, pair in both.items() if pair[0] != pair[1]}

    def verdict(self) -> Verdict:
        """Return how the two compare, after the rules of the agent's module."""
        if not self.differences():
            return "equal"
        plain, shown, billed = self._counts()
        rules = self.rules()
        expected = sum((shift for _, shift, _ in rules), plain)
        expected_bill = sum((shift for _, _, shift in rules), _tokens(plain))
        if (expected, expected_bill) != (shown, billed):
            return "unexplained"
        return "fault" if any(rule.is_fault for rule, *_ in rules) else "explained"

    def rules(self) -> list[tuple[Rule, Counts, Counts]]:
        """Return the rules that apply, and what each adds to the count and in `usage`."""
        if not self.plain:
            return []
        natives = self.shown.natives if self.shown else Counter[str]()
        rules = getattr(agents()[self.agent], "RULES", ())
        shifts = [
            (rule, rule.shift(self.plain, natives), rule.in_usage and rule.in_usage(self.plain))
            for rule in rules
        ]
        found = [(rule, shift, bill or Counts()) for rule, shift, bill in shifts]
        found.append(self._unplaced(sum((bill for *_, bill in found), Counts())))
        return [rule for rule in found if rule[1:] != (Counts(), Counts())]

    def lines(self) -> Iterator[str]:
        for name, (plain, shown) in self.differences().items():
            yield f"{name}: plain {plain}, runlore {shown}"
        if self.verdict() in ("explained", "fault"):
            yield from (f"because {rule.why}" for rule, *_ in self.rules())

    def _counts(self) -> tuple[Counts, Counts, Counts]:
        return (
            self.plain.counts if self.plain else Counts(),
            self.shown.counts if self.shown else Counts(),
            self.shown.billed if self.shown else Counts(),
        )

    def _unplaced(self, misplaced: Counts) -> tuple[Rule, Counts, Counts]:
        """Return the rule for calls that are in the ledger and in no event."""
        why = "`ls` and `show` add up events, and no event tells of a call that `usage` has"
        _, shown, billed = self._counts()
        missing = _tokens(shown) + misplaced - billed if self.shown else Counts()
        return Rule(why, lambda *_: missing, is_fault=True), missing, Counts()


def _tokens(counts: Counts) -> Counts:
    return replace(counts, prompts=0, replies=0, calls=0, results=0)


@cache
def agents() -> dict[str, ModuleType]:
    """Return the modules that count, by the name of the agent."""
    names = [found.name for found in pkgutil.iter_modules(here) if found.name not in NOT_AGENTS]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    return {module.AGENT: module for module in modules}


def count_home(home: Path) -> dict[str, list[Session]]:
    """Return the sessions of a home by agent, without those that hold nothing."""
    sessions: dict[str, list[Session]] = {}
    for agent, module in agents().items():
        for folder in module.FOLDERS:
            if (home / folder).exists():
                found = [one for one in module.count(home / folder) if not one.counts.is_empty()]
                sessions.setdefault(agent, []).extend(found)
    return sessions


def compare_home(home: Path, data: Path) -> list[Finding]:
    return _compare(count_home(home), read_shown(home, data))


def compare_root(agent: str, root: Path, scratch: Path) -> list[Finding]:
    """Compare the two counts of one folder of an agent."""
    home, data = scratch / "empty-home", scratch / "runlore-data"
    home.mkdir()
    data.mkdir()
    config = f"[sources.{agent}]\nroots = [{json.dumps(str(root))}]\n"
    (data / "config.toml").write_text(config, "utf-8")
    found = [one for one in agents()[agent].count(root) if not one.counts.is_empty()]
    return _compare({agent: found}, read_shown(home, data))


def _compare(plain: dict[str, list[Session]], shown: list[Shown]) -> list[Finding]:
    shown = [one for one in shown if not one.counts.is_empty()]
    pairs: list[Pair] = []
    for agent in sorted({*plain, *(one.agent for one in shown)}):
        own = plain.get(agent, [])
        pairs += _match(agent, own, _join([one for one in shown if one.agent == agent], own))
    return [Finding(pair.agent, pair.id, pair.verdict(), tuple(pair.lines())) for pair in pairs]


def _match(agent: str, plain: list[Session], shown: list[Shown]) -> Iterator[Pair]:
    """Pair sessions by file and id, then by id, then those that are alone in a file."""
    left = list(shown)

    def take(matches: list[Shown]) -> Shown | None:
        if len(matches) != 1:
            return None
        left.remove(matches[0])
        return matches[0]

    rest = []
    for session in plain:
        found = take([one for one in left if (one.path, one.id) == (session.path, session.id)])
        found = found or take([one for one in left if one.id == session.id])
        found = found or take([one for one in left if one.id.startswith(f"{session.id}-")])
        if found:
            yield Pair(agent, session.id, session, found)
        else:
            rest.append(session)
    for session in rest:
        found = take([one for one in left if one.path == session.path])
        yield Pair(agent, session.id, session, found)
    yield from (Pair(agent, one.id, None, one) for one in left)


def _join(sessions: list[Shown], plain: list[Session]) -> list[Shown]:
    """Add subagents that are in the file of their session to it, unless counted by themselves."""
    alone = {session.id for session in plain}
    mains = {(one.path, one.id): one for one in sessions}
    for one in sessions:
        main = mains.get((one.path, one.id.split("/agent-")[0]))
        if main and main.id != one.id and one.id not in alone:
            del mains[one.path, one.id]
            joined = main._replace(
                counts=main.counts + one.counts,
                billed=main.billed + one.billed,
                natives=main.natives + one.natives,
            )
            mains[main.path, main.id] = joined
    return list(mains.values())
