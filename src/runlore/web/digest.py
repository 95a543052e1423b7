"""The digest of a session as sections of its page: requests, results, work. Pure. The template
escapes the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..model import Digest, Moment

SHOWN = 12
"""Items of a section; `show --digest --json` has all."""


class Item(msgspec.Struct, frozen=True):
    """A line of a section, and the event that it is about."""

    text: str
    seq: int | None = None


class Section(msgspec.Struct, frozen=True):
    """A part of a digest under one name."""

    name: str
    items: list[Item]
    more: int = 0
    """Items that are not shown."""


def build_sections(digest: Digest) -> list[Section]:
    """Return the sections that have something in them, in the order of reading."""
    return [section for section in _iter_sections(digest) if section.items]


def _iter_sections(digest: Digest) -> Iterator[Section]:
    cut = digest.cut.get
    yield _section("asked", _moments(digest.requests), cut("requests", 0))
    result = [digest.result] if digest.result else []
    yield _section("the agent’s last words", _moments(result))
    yield _section("ended", [_ending(digest)])
    changed = [Item(path) for path in digest.files_edited]
    yield _section("files changed", changed, cut("files_edited", 0))
    commits = [Item(f"{one.sha} {one.subject}".strip(), one.seq) for one in digest.commits]
    yield _section("commits", commits, cut("commits", 0))
    yield _section("pull requests", _moments(digest.pull_requests), cut("pull_requests", 0))
    tests = [Item(_counts(run.command, run.passed, run.failed), run.seq) for run in digest.tests]
    yield _section("tests", tests[-SHOWN:], cut("tests", 0) + max(0, len(tests) - SHOWN))
    errors = [Item(error.signature.sample, error.first_seq) for error in digest.errors]
    yield _section("errors", errors, cut("errors", 0))
    yield _section("corrections", _moments(digest.corrections), cut("corrections", 0))
    yield _section("decisions", _moments(digest.decisions), cut("decisions", 0))


def _section(name: str, items: list[Item], cut: int = 0) -> Section:
    return Section(name, items[:SHOWN], cut + max(0, len(items) - SHOWN))


def _moments(moments: Iterable[Moment]) -> list[Item]:
    return [Item(moment.text, moment.seq) for moment in moments]


def _ending(digest: Digest) -> Item:
    reason = f": {digest.outcome_reason}" if digest.outcome_reason else ""
    return Item(f"{digest.outcome}{reason}", next(iter(digest.outcome_evidence), None))


def _counts(command: str, passed: int | None, failed: int | None) -> str:
    counts = [f"{passed} passed"] * (passed is not None) + [f"{failed} failed"] * bool(failed)
    return f"{command}: {', '.join(counts)}" if counts else command
