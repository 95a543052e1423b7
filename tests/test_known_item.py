"""Whoever remembers what a session was about finds it: see bench/_known_item.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from runlore import config
from runlore.search import search
from runlore.store import open_store
from runlore.sync import pipeline

TRAJECTORIES = Path(__file__).parents[2] / "shared/corpus/labelled/vorflux/trajs"

_spec = importlib.util.spec_from_file_location(
    "bench_known_item", Path(__file__).parent.parent / "bench" / "_known_item.py"
)
assert _spec is not None
assert _spec.loader is not None
known_item = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(known_item)


@pytest.mark.skipif(not TRAJECTORIES.is_dir(), reason="the corpus is not here")
def test_the_title_of_an_issue_finds_the_session_that_worked_on_it(home: Path) -> None:
    titles = known_item.stage(TRAJECTORIES, home)
    setting = config.load()
    store = open_store(setting.store)
    pipeline.sync(store, setting)
    assert titles
    mean, ranks = known_item.mean_reciprocal_rank(
        titles, lambda text: [hit.session.uid for hit in search(store, text, limit=10).hits]
    )
    store.close()
    assert mean >= 0.9, sorted(title for title, rank in ranks.items() if rank != 1)
