"""What differs in Roo Code, a fork of Cline: where their tasks are, which tokens a prompt has, and
which task started which."""

import json
from pathlib import Path

import pytest

from runlore import config
from runlore.adapters import get
from runlore.store import Filter, open_store
from runlore.sync import pipeline

FIXTURES = Path(__file__).parent / "fixtures"
RELEASED = {"roo": 1761955200000}
EXTENSIONS = {"roo": "rooveterinaryinc.roo-cline"}


@pytest.mark.parametrize("agent", sorted(EXTENSIONS))
def test_tasks_are_found_in_the_folder_of_the_extension(agent: str, home: Path) -> None:
    folder = home / ".config/Code/User/globalStorage" / EXTENSIONS[agent]
    folder.mkdir(parents=True)
    (home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev").mkdir()
    assert get(agent).find_roots({"CLINE_DIR": str(home)}) == [folder]


@pytest.mark.parametrize("agent", sorted(RELEASED))
@pytest.mark.parametrize(
    ("after", "protocol", "tokens", "fresh"),
    [
        (-1, "anthropic", 1000, 1000),
        (-1, "openai", 1000, 400),
        (0, "anthropic", 1000, 400),
        (0, "openai", 1000, 400),
        (0, "anthropic", 500, 500),
    ],
)
def test_the_prompt_includes_the_cache_since_a_release_and_always_where_the_provider_says_so(
    tmp_path: Path, agent: str, after: int, protocol: str, tokens: int, fresh: int
) -> None:
    info = {
        "apiProtocol": protocol,
        "tokensIn": tokens,
        "tokensOut": 5,
        "cacheWrites": 100,
        "cacheReads": 500,
    }
    rows = [
        {
            "ts": RELEASED[agent] + after,
            "type": "say",
            "say": "api_req_started",
            "text": json.dumps(info),
        }
    ]
    (tmp_path / "t").mkdir()
    (tmp_path / "t/ui_messages.json").write_text(json.dumps(rows))
    adapter = get(agent)
    (source,) = adapter.discover(tmp_path)
    ((call, _),) = adapter.normalize(source, adapter.read(source, None), None).calls
    assert (call.input_tokens, call.cache_read_tokens, call.cache_write_5m_tokens) == (
        fresh,
        500,
        100,
    )


def test_the_sum_over_requests_is_what_the_task_says_of_itself() -> None:
    adapter = get("roo")
    for source in adapter.discover(FIXTURES / "roo/subtask/root"):
        item = json.loads(Path(source.path).with_name("history_item.json").read_text())
        calls = [
            call for call, _ in adapter.normalize(source, adapter.read(source, None), None).calls
        ]
        assert sum(call.prompt_tokens for call in calls) == item["tokensIn"]
        assert sum(call.output_tokens for call in calls) == item["tokensOut"]


def test_a_task_that_another_one_started_is_its_subagent(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store.db"))
    pipeline.sync(store, config.load(), agents=["roo"], roots=[str(FIXTURES / "roo/subtask/root")])
    parent, child = (f"roo:0198a000-0000-7000-8000-00000000000{n}" for n in (1, 2))
    assert store.sessions.uids(Filter()) == [parent]
    session = store.sessions.get(child)
    assert session is not None
    assert (session.parent_uid, session.relation) == (parent, "subagent")
    assert all(event.is_sidechain for event in store.sessions.events(child))
