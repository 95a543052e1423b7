"""mini-SWE-agent: a document for each run, `<instance>.traj.json`, written again after every step.

Learned from the source of SWE-agent/mini-swe-agent (2026-08: `default.py`, `interactive.py`,
`actions_toolcall.py`), and trajectories of versions from 2025-07 to 2.3. Last checked 2026-11. The
traps:

- Three layouts: a bare list of messages; `mini-swe-agent-1`, where an action is the one block of
  bash in an answer and its result is the next message of the user; `mini-swe-agent-1.1`, with calls
  of tools, and a message `exit` at the end.
- Messages are only added, so reading continues in a document that has grown. Its `info` is read
  when the run has ended.
- `extra.response` is the answer of the service: all but its id, model and tokens is in the message
  as well.
- The file of interactive runs, `last_mini_run.traj.json`, is another session with every run: it is
  named by its task and its first time.
- The prompt's tokens include those of the cache. `cost` is the program's own estimate:
  it is stored as recorded.
- Before 1.1 no message has a time, and a refused answer, an interruption or a timeout can only be
  recognised by its text.
"""

from __future__ import annotations

from .. import Record, Source
from ..shared.document import GrowingAdapter, load_document
from ..shared.jsonl import to_json


class MiniSweAgentAdapter(GrowingAdapter):
    name = "mini_swe_agent"
    label = "mini-SWE-agent"
    aliases = ("mini-swe",)
    version = 5
    reader = "runlore.adapters.mini_swe_agent.reader"
    roots: tuple[str, ...] = (
        "$MSWEA_GLOBAL_CONFIG_DIR", "~/.config/mini-swe-agent",
        "~/Library/Application Support/mini-swe-agent",
        "~/AppData/Local/mini-swe-agent",
    )  # fmt: skip
    suffix = ".traj.json"
    lacks = ("times before 2.0 but for that of the file",)

    def whole(self, source: Source) -> tuple[list[Record], list[bytes]]:
        from .reader import parts

        return [], [to_json(item) for item in parts(source, load_document(source.path))]


adapter = MiniSweAgentAdapter()
