"""Usage and cost: questions about the ledger. Every answer is a sum over the same calls, so they
always agree.

Prices stand in the rows; nothing here looks one up, and nothing is written. `report` adds up,
`explain` shows the calls of a session and why they count, `check` lists what is not known, `wasted`
what was paid for and thrown away, `budgets` the amounts spent of each budget.
"""

from .report import (
    BY,
    BY_ALIASES,
    ORDERS,
    Block,
    By,
    Report,
    Row,
    Status,
    blocks,
    daily,
    report,
    status,
    total,
)
from .zone import Zone

__all__ = [
    "BY",
    "BY_ALIASES",
    "ORDERS",
    "Block",
    "By",
    "Report",
    "Row",
    "Status",
    "Zone",
    "blocks",
    "daily",
    "report",
    "status",
    "total",
]
