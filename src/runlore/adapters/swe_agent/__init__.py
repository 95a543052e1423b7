"""SWE-agent: a document for each run on an instance, `<instance>.traj`, written again with every
step.

Learned from the source of SWE-agent/SWE-agent (2026-08: `agents.py`), its documentation, and
trajectories of versions from 2024-04 to 1.1. Last checked 2026-11. The traps:

- `trajectory` has the steps, `history` what the model saw, demonstrations included. Of the history
  only the messages before the first step are used, and what a step lacks: the arguments of a call,
  thinking. Without a trajectory (a demonstration), the steps are built from the history.
- No step has a time or an id: they are known by their number, and a session by the names of its run
  and its instance. The end of a run and its usage have the time of the file.
- `state` is an object, once a text that holds one; `replay_config` can be either.
- There is no exit code. The observation says that an edit was refused or a file not found.
- A step without an action is an answer that could not be understood; the model was asked again.
- `exit_status` other than `submitted` means that the run was ended by a limit or an error, whatever
  was submitted then. An empty submission means that there is no result.
- `model_stats` is a sum for the whole run; `instance_cost` is stored as recorded. `total_cost` is
  that of all runs so far, and is not counted.
- Several attempts are in `attempts`, and the best one is repeated at the top.
"""

from __future__ import annotations

from typing import Any

from .. import Source
from ..shared.document import DocumentAdapter


class SweAgentAdapter(DocumentAdapter):
    name = "swe_agent"
    label = "SWE-agent"
    version = 6
    reader = "runlore.adapters.swe_agent.reader"
    roots: tuple[str, ...] = ("$SWE_AGENT_TRAJECTORY_DIR", "~/SWE-agent/trajectories")
    suffix = ".traj"
    lacks = ("times but for that of the file", "exit codes", "tokens of a request")

    def parts(self, source: Source, document: Any) -> list[Any]:
        from .reader import parts

        return parts(source, document)


adapter = SweAgentAdapter()
