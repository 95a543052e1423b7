"""The runs that a person should look at: a function from a state and the user's thresholds.

[attention]                            # of config.toml
retries = 3                            # more than this many
latency_s = 60
tokens = 100000
steps = 20
"""

from __future__ import annotations

from typing import Literal

from ..config import Attention
from .run import SessionState

Flag = Literal["failed", "retries", "slow", "tokens", "steps"]


def attention(state: SessionState, thresholds: Attention | None = None) -> tuple[Flag, ...]:
    """Return the reasons to look at this run; empty if there are none."""
    most, progress = thresholds or Attention(), state.progress
    tokens = max(
        progress.total_tokens, state.metrics.total_input_tokens + state.metrics.total_output_tokens
    )
    is_failed = state.status == "failed" or progress.execution_quality == "failed"
    flags: dict[Flag, bool] = {
        "failed": is_failed,
        "retries": 0 < most.retries < progress.total_retries,
        "slow": 0 < most.latency_s < progress.total_latency_ms / 1000,
        "tokens": 0 < most.tokens < tokens,
        "steps": 0 < most.steps < progress.steps_executed,
    }
    return tuple(flag for flag, is_set in flags.items() if is_set)
