"""Agents that write what another one writes, to a place of their own: what they share, and what is their own."""

from pathlib import Path

import pytest

from runlore import config, pipeline
from runlore.adapters import get, integration
from runlore.errors import ConfigError
from runlore.store import open_store
from runlore.testing import iter_fixtures

FIXTURES = Path(__file__).parent / "fixtures"
FORKS = {"openclaude": "claude", "kilo": "opencode", "omp": "pi", "traex": "codex", "roo": "cline"}


@pytest.mark.parametrize(("fork", "origin"), FORKS.items())
def test_a_fork_looks_elsewhere_and_has_sessions_of_its_own(fork: str, origin: str, tmp_path: Path) -> None:
    assert not set(get(fork).roots) & set(get(origin).roots)
    root = next(fixture.root for fixture in iter_fixtures(FIXTURES) if fixture.agent == fork)
    store = open_store(str(tmp_path / "store.db"))
    assert not pipeline.sync(store, config.load(), agents=[fork], roots=[str(root)]).problems
    found = [uid for (uid,) in store.rows("select uid from sessions")]
    assert found
    for uid in found:
        assert uid.startswith(f"{fork}:")
        session = store.session(uid)
        assert session is not None
        command = get(fork).resume(session)
        assert command is None or command[0] == fork
    store.close()


@pytest.mark.parametrize("fork", FORKS)
def test_a_fork_is_not_told_to_call_us_in_the_way_of_its_origin(fork: str) -> None:
    with pytest.raises(ConfigError, match="does not know how"):
        integration(fork)


def test_databases_are_told_apart_by_their_names(tmp_path: Path) -> None:
    assert not list(get("opencode").discover(FIXTURES / "kilo/session/root"))
    assert not list(get("kilo").discover(FIXTURES / "opencode/database/root"))
