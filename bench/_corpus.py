"""A corpus with a folder for each agent, read into a store as it lies there.

Folders are named like the agents (`copilot-cli`, `gemini-cli`, …). One that no adapter reads is
passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from runlore import adapters, open_store
from runlore.config import Config
from runlore.store import Store
from runlore.sync.pipeline import sync

OTHER_NAMES = {"claude-code": "claude", "codex-traex": "traex", "grok-superagent": "grok_cli"}


@contextmanager
def store_of(corpus: Path, only: str | None = None) -> Iterator[Store]:
    """Give a store with the sessions of a corpus, or of one agent in it."""
    with TemporaryDirectory() as scratch:
        store = open_store(str(Path(scratch) / "runlore.db"))
        try:
            read_corpus(store, Path(scratch), corpus, only)
            yield store
        finally:
            store.close()


def read_corpus(store: Store, home: Path, corpus: Path, only: str | None = None) -> None:
    """Sync the sessions of a corpus, or of one agent in it, into a store."""
    setting = Config(home=home, store=store.url)
    for folder in sorted(path for path in corpus.iterdir() if path.is_dir()):
        agent = OTHER_NAMES.get(folder.name, folder.name.replace("-", "_"))
        if agent in adapters.names() and only in (None, agent):
            sync(store, setting, agents=[agent], roots=[str(folder)])
