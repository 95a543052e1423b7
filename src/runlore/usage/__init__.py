"""What was used and what it cost: questions about the ledger. Every answer is a sum over the same
calls, so they always agree.

Prices stand in the rows; nothing here looks one up, and nothing is written. `report` adds up,
`explain` shows the calls of a session and why they count, `check` says what is not known, `wasted`
what was paid for and thrown away, `budgets` what was spent of a budget.
"""

from .report import (
    BY,
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
