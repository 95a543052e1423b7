"""Questions that every face asks: the command line, the web page and the MCP server.

Nothing here prints or writes, and nothing knows which face asks. `names` gives short ids, `leaks`
the places where secrets were redacted, `resuming` the command that resumes a session, and
`open_stores` keeps stores open for faces that stay. Searching is in `search`, which finds its
sessions by name here.
"""

from .exclusion import explain_exclusion
from .freshness import Risk, failed_hook_syncs, last_sync, sources_at_risk, synced_mark
from .overview import FACETS, AgentFacts, Day, Root, activity, agents, facets
from .sessions import (
    DEMO_SOURCES,
    EMPTY,
    get,
    is_demo,
    is_empty,
    resolve,
    split_name,
    with_subagents,
)
from .subagents import by_call, find_pairs
from .transcripts import (
    Transcript,
    context_at,
    event_at,
    has_left,
    has_text,
    raw_records,
    transcript,
)

__all__ = [
    "DEMO_SOURCES",
    "EMPTY",
    "FACETS",
    "AgentFacts",
    "Day",
    "Risk",
    "Root",
    "Transcript",
    "activity",
    "agents",
    "by_call",
    "context_at",
    "event_at",
    "explain_exclusion",
    "facets",
    "failed_hook_syncs",
    "find_pairs",
    "get",
    "has_left",
    "has_text",
    "is_demo",
    "is_empty",
    "last_sync",
    "raw_records",
    "resolve",
    "sources_at_risk",
    "split_name",
    "synced_mark",
    "transcript",
    "with_subagents",
]
