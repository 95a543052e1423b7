"""Calls of subagents belong to the session that started them, in every report."""

from __future__ import annotations

from typing import Any

from runlore.store import CallFilter, Filter, Store
from tests.ledgers import call, keep, price


def test_calls_of_a_subagent_count_where_the_session_that_started_it_was_run(store: Store) -> None:
    """A subagent may work in another folder, repository or branch: a report of a repository has
    what the list of its sessions has with their subagents."""

    def place(name: str, parent: str | None = None) -> dict[str, Any]:
        facts = {"repo": f"acme/{name}", "cwd": f"/work/{name}", "git_branch": name}
        return facts | (
            {"parent_uid": f"toy:{parent}", "relation": "subagent"} if parent is not None else {}
        )

    facts = {
        "s1": place("api"),
        "s2": place("web", "s1"),
        "s3": place("docs", "s2"),
        "s4": place("web"),
        "s5": place("api", "s4"),
        "s6": place("web", "not_there"),
    }
    keep(store, [call(f"c{n}", name, input_tokens=10**n) for n, name in enumerate(facts)], facts)
    price(store)

    def tokens(**chosen: Any) -> int:
        return sum(one.input_tokens for one in store.ledger.sum([], CallFilter(**chosen)))

    # The last one, of whose parent nothing is known, is a session of its own.
    for name, wanted in (("api", 111), ("docs", 0), ("web", 111_000)):
        filters: list[dict[str, Any]] = [
            {"repo": f"acme/{name}"},
            {"cwd": f"/work/{name}"},
            {"branch": name},
        ]
        for chosen in filters:
            assert tokens(**chosen) == wanted, chosen
            lines = store.sessions.select(Filter(**chosen))
            assert sum(line.tokens_with_subagents for line in lines) == wanted, chosen
    for by, names in ("repo", ("acme/api", "acme/web")), ("branch", ("api", "web")):
        rows = store.ledger.sum([by], CallFilter())
        assert {one.keys[0]: one.input_tokens for one in rows} == dict(
            zip(names, (111, 111_000), strict=True)
        )
