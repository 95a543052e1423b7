"""Pure views of a list of events."""

from .branch import (
    PAUSE,
    SEEN_KINDS,
    Branch,
    Node,
    Ordered,
    Seen,
    Tally,
    ToolCall,
    Turn,
    abandoned,
    active,
    branches,
    cost_of,
    in_order,
    is_prompt,
    merge,
    nest,
    pairs,
    prompts,
    repeats,
    retries,
    seen_by_model,
    turns,
    walk,
    wall_clock_s,
)

__all__ = [
    "PAUSE", "SEEN_KINDS", "Branch", "Node", "Ordered", "Seen", "Tally", "ToolCall", "Turn", "abandoned", "active", "branches",
    "cost_of", "in_order", "is_prompt", "merge", "nest", "pairs", "prompts", "repeats", "retries", "seen_by_model", "turns", "walk",
    "wall_clock_s",
]  # fmt: skip
