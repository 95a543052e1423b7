"""Pure views of a list of events: lines, what the model saw, calls with results, turns, totals.

Nothing here reads a file or knows an agent's name, nothing is written back, and no event is
dropped. Events may come in any order. An event whose parent is not in the list is a root, and roots
follow each other: a resumed session, a compaction that starts a new chain, an agent that links
nothing at all. All loops are flat, and linear except for sorting, so that long chains are no
problem.
"""

from .branch import Branch, OrderedEvents, abandoned, active, branches, in_order, prompts
from .context import CONTEXT_KINDS, ContextEvent, model_context
from .prompt import is_prompt
from .retry import repeats
from .subagents import AgentCall, Pair, Subagent, has_prompt, match_ids, match_prompts
from .tally import PAUSE, Tally, cost_of, merge, retries, wall_clock_s
from .tool_call import ToolCall, pairs
from .tree import Node, nest, walk
from .turn import Turn, turn_numbers, turns

__all__ = [
    "AgentCall",
    "Branch",
    "CONTEXT_KINDS",
    "ContextEvent",
    "Node",
    "OrderedEvents",
    "PAUSE",
    "Pair",
    "Subagent",
    "Tally",
    "ToolCall",
    "Turn",
    "abandoned",
    "active",
    "branches",
    "cost_of",
    "has_prompt",
    "in_order",
    "is_prompt",
    "match_ids",
    "match_prompts",
    "merge",
    "model_context",
    "nest",
    "pairs",
    "prompts",
    "repeats",
    "retries",
    "turn_numbers",
    "turns",
    "walk",
    "wall_clock_s",
]
