"""Agents that write what another one writes, to a place of their own: what they share, and what is
their own."""

from pathlib import Path

import pytest

from runlore import config
from runlore.adapters import get, integration
from runlore.errors import ConfigError
from runlore.store import open_store
from runlore.sync import pipeline
from runlore.testing import iter_fixtures

FIXTURES = Path(__file__).parent / "fixtures"
FORKS = {
    "openclaude": "claude",
    "kilo": "opencode",
    "mimocode": "opencode",
    "omp": "pi",
    "traex": "codex",
    "roo": "cline",
    "opencode_go": "crush",
}
COMMANDS = {"mimocode": "mimo"}
"""Where the program is not called as we call the agent."""


@pytest.mark.parametrize(("fork", "origin"), FORKS.items())
def test_a_fork_looks_elsewhere_and_has_sessions_of_its_own(
    fork: str, origin: str, tmp_path: Path
) -> None:
    assert not set(get(fork).roots) & set(get(origin).roots)
    root = next(fixture.root for fixture in iter_fixtures(FIXTURES) if fixture.agent == fork)
    store = open_store(str(tmp_path / "store.db"))
    assert not pipeline.sync(store, config.load(), agents=[fork], roots=[str(root)]).problems
    found = [uid for (uid,) in store.maintenance.rows("select uid from sessions")]
    assert found
    for uid in found:
        assert uid.startswith(f"{fork}:")
        session = store.sessions.get(uid)
        assert session is not None
        command = get(fork).resume(session)
        assert command is None or command[0] == COMMANDS.get(fork, fork)
    store.close()


@pytest.mark.parametrize("fork", FORKS)
def test_a_fork_is_not_told_to_call_us_in_the_way_of_its_origin(fork: str) -> None:
    with pytest.raises(ConfigError, match="does not know how"):
        integration(fork)


def test_what_was_taken_over_from_another_agent_is_read_there_alone() -> None:
    """One session was only taken over, one was gone on with."""
    adapter, root = get("mimocode"), FIXTURES / "mimocode/session/root"
    found = [
        adapter.normalize(source, adapter.read(source, None), None)
        for source in adapter.discover(root)
    ]
    said = [
        [
            body
            for event, body in zip(each.events, each.bodies, strict=True)
            if event.kind == "user_msg"
        ]
        for each in found
    ]
    assert said == [["Count the tests", "List the tests"], ["Gone on with here"]]


def test_messages_of_a_subagent_lie_beside_those_of_its_session() -> None:
    adapter, root = get("mimocode"), FIXTURES / "mimocode/session/root"
    source = next(iter(adapter.discover(root)))
    found = adapter.normalize(source, adapter.read(source, None), None)
    names = {event.native_id: event for event in found.events}
    below = [event for event in found.events if event.is_sidechain]
    assert [event.kind for event in below].count("assistant_msg") == 1
    for event, parent in zip(found.events, found.parents, strict=True):
        if not event.is_sidechain and parent is not None:
            assert not names[parent].is_sidechain
    assert sum(call.is_sidechain for call, _ in found.calls) == 2


def test_databases_are_told_apart_by_their_names() -> None:
    assert not list(get("opencode").discover(FIXTURES / "kilo/session/root"))
    assert not list(get("kilo").discover(FIXTURES / "opencode/database/root"))
