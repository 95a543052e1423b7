"""A session that an agent keeps in several stores is one session, whichever of them is found first.

Some stores have the same names for what happened, and the store sees copies; the others tell it
better or worse (`Facts.rank`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runlore import config, doctor
from runlore.store import CallFilter, CallSum, Filter, Store, open_store
from runlore.sync import pipeline
from runlore.testing import Fixture, iter_fixtures

FIXTURES = list(iter_fixtures(Path(__file__).parent / "fixtures"))
PAID = frozenset({("claude", "progress-mirror"), ("opencode", "old_tree")})
"""Where what was found first tells of requests that the better store does not know: the ledger
forgets none."""
BY_ORDER = ("seq", "parent_seq", "payload_ref", "record", "origin")
"""What of an event follows from when it was read."""


def told(store: Store, *, has_tokens: bool = True) -> dict[str, Any]:
    """What a store tells of each session, whatever numbers its events have. Tokens are those of the
    ledger."""
    found = {}
    for line in store.sessions.select(Filter(parents_only=False)):
        bodies = store.sessions.bodies(line.uid)
        events = []
        for event in store.sessions.events(line.uid):
            plain = {name: value for name, value in event.to_dict().items() if name not in BY_ORDER}
            events.append(repr((plain, bodies.get(event.seq))))
        usage = sum(
            (line.input_tokens, line.output_tokens, line.cache_read_tokens, line.cache_write_tokens)
        )
        found[line.uid] = (
            sorted(events),
            (line.events, line.errors, line.turns, usage if has_tokens else None),
            (line.started_at, line.ended_at, line.title),
        )
    return found


def paid(store: Store) -> list[CallSum]:
    return sorted(store.ledger.sum(["session"], CallFilter()), key=lambda sum_: str(sum_.keys))


class Home:
    """The root of a fixture, from which files may be absent for a while."""

    def __init__(self, fixture: Fixture, folder: Path) -> None:
        self.adapter, self.root, self.aside = fixture.adapter, folder / "root", folder / "aside"
        self.settings = config.load()
        shutil.copytree(fixture.root, self.root)

    @contextmanager
    def without(self, files: Sequence[Path]) -> Iterator[None]:
        self._move(files, self.root, self.aside)
        yield
        self._move(files, self.aside, self.root)

    def _move(self, files: Sequence[Path], here: Path, there: Path) -> None:
        for file in files:
            (there / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(here / file, there / file)

    def sync(self, store: Store) -> None:
        pipeline.sync(store, self.settings, agents=[self.adapter.name], roots=[str(self.root)])

    def spared(self) -> list[Path]:
        """The files that tell of a session which others tell of, too, when they are not there."""
        own = self._tellings()
        found = []
        for file, uids in own.items():
            with self.without([file]):
                others = set[str]().union(*self._tellings().values())
            if not others.isdisjoint(uids):
                found.append(file)
        return found

    def _tellings(self) -> dict[Path, set[str]]:
        """By file, of what it tells. What a source is in, when it is no file itself, is one of
        them."""
        found: dict[Path, set[str]] = {}
        for source in self.adapter.discover(self.root):
            path = Path(source.path)
            while not path.exists():
                path = path.parent
            told = self.adapter.normalize(source, self.adapter.read(source, None), None)
            found.setdefault(path.relative_to(self.root), set()).update(
                event.session_uid for event in told.events
            )
        return found


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: f"{fixture.agent}-{fixture.case}")
def test_the_order_in_which_stores_appear_does_not_matter(fixture: Fixture, tmp_path: Path) -> None:
    home = Home(fixture, tmp_path)
    spared = home.spared()
    if not spared:
        return  # All that it has is told once.
    is_paid_alike = (fixture.agent, fixture.case) not in PAID
    with closing(open_store(str(tmp_path / "at once.db"))) as store:
        home.sync(store)
        at_once, paid_at_once = told(store, has_tokens=is_paid_alike), paid(store)
    for n, absent in enumerate(
        [
            *([other for other in spared if other != file] for file in spared),
            *([file] for file in spared),
        ]
    ):
        with closing(open_store(str(tmp_path / f"{n}.db"))) as store:
            with home.without(absent):
                home.sync(store)
            cited = {
                (uid, seq): body
                for uid in told(store)
                for seq, body in store.sessions.bodies(uid).items()
            }
            home.sync(store)
            assert told(store, has_tokens=is_paid_alike) == at_once
            assert paid(store) == paid_at_once or not is_paid_alike
            for (uid, seq), body in cited.items():
                assert store.sessions.bodies(uid, seq, seq) == {seq: body}, (
                    "what was cited can still be read"
                )
            assert doctor.examine(store, home.settings, full=True).ok


def test_every_agent_with_several_stores_has_a_fixture_with_them(tmp_path: Path) -> None:
    several = {
        fixture.agent
        for n, fixture in enumerate(FIXTURES)
        if Home(fixture, tmp_path / str(n)).spared()
    }
    assert several >= {
        "claude",
        "cline",
        "copilot_cli",
        "cursor",
        "gemini_cli",
        "goose",
        "kimi",
        "opencode",
        "roo",
    }
