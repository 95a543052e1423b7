"""The outcome of a session as it is shown: a person's mark, else what git says, else its digest.

The columns `outcome` … `outcome_evidence` of a session are what its digest says. They stay as they
are under a mark, so that a mark can be taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..model import Digest, Session

OUTCOME = (
    "coalesce(marked_outcome, case git_state when 'merged' then 'success' when 'reverted' then"
    " 'fail' end, outcome)"
)
LEVEL = (
    "case when marked_outcome is not null or git_state in ('merged', 'reverted') then 'verified'"
    " else outcome_level end"
)
BY = (
    "case when marked_outcome is not null then 'mark' when git_state in ('merged', 'reverted') then"
    " git_state else outcome_by end"
)

_BY_GIT = {"merged": "success", "reverted": "fail"}


def shown_outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome columns of a session as they are shown; the same as the SQL above."""
    if marked := row["marked_outcome"]:
        return _verified(marked, "mark", "a person marked it so")
    if (state := row["git_state"]) in _BY_GIT:
        return _verified(_BY_GIT[state], state, row["git_note"])
    return {}


def _verified(outcome: str, by: str, evidence: str | None) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "outcome_level": "verified",
        "outcome_by": by,
        "outcome_evidence": evidence,
    }


def overrule(digest: Digest, session: Session) -> Digest:
    """Return a digest with the outcome that its session has by a mark or by git."""
    shown = shown_outcome(msgspec.structs.asdict(session))
    if not shown:
        return digest
    reason = shown.pop("outcome_evidence") or ""
    return msgspec.structs.replace(digest, **shown, outcome_reason=reason, outcome_evidence=())
