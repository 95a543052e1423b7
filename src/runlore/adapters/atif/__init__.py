"""ATIF: the Agent Trajectory Interchange Format, as Harbor and others write it: a document for each
run of an agent.

Learned from Harbor's description of the format (RFC 0001, versions 1.0 to 1.8; harbor 0.25), and
documents of NVIDIA's NeMo Agent Toolkit. Last checked 2026-11. The traps:

- Only Devin has a fixed folder for them. Harbor writes its jobs to the folder in which it was
  started, which the user has to name in config.toml.
- No file name is reserved for the format. Files called `trajectory….json` or `…atif….json` are
  opened and checked, and so are all files in Devin's folder of transcripts.
- `session_id` is the id of a run. Several documents may share it; `trajectory_id`, or else the file
  name, distinguishes them.
- A run whose context became too long continues in another file (`trajectory.cont-1.json`). Its
  first steps are copies of the last steps of the file before: `is_copied_context`. The calls that
  wrote the summary have files of their own.
- Trajectories of subagents are part of their parent's document, and become side chains of its
  session.
- Prompt tokens include those from the cache. The totals count only if no step has tokens; elsewhere
  they repeat the steps'. The cost is the agent's own figure, and is stored as recorded.
- `result.json` beside a trial of Harbor's has the verdict of its verifier, which becomes the
  outcome of the session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ...errors import ReadError
from .. import Record, Source
from ..shared.document import GrowingAdapter, load_document
from ..shared.jsonl import to_json

RESULT = "result.json"
TRANSCRIPTS = "transcripts"


class AtifAdapter(GrowingAdapter):
    name = "atif"
    label = "ATIF (Harbor, Devin CLI and others)"
    aliases = ("devin", "harbor")
    version = 4
    reader = "runlore.adapters.atif.reader"
    roots: tuple[str, ...] = (
        "~/.local/share/devin/cli/transcripts",
        "~/Library/Application Support/devin/cli/transcripts",
    )
    suffix = ".json"
    lacks = ("git branch of most agents", "errors of tools, where the agent does not tell")

    def discover(self, root: Path) -> Iterator[Source]:
        yield from (
            _with_result(source) for source in super().discover(root) if _may_be_one(source.path)
        )

    def refresh(self, source: Source) -> Source | None:
        found = super().refresh(source)
        return found and _with_result(found)

    def whole(self, source: Source) -> tuple[list[Record], list[bytes]]:
        from .reader import parts

        document = load_document(source.path)
        if not isinstance(document, dict) or not str(document.get("schema_version", "")).startswith(
            "ATIF-"
        ):
            raise ReadError(source.path, "not a trajectory in ATIF: it does not say so")
        return [], [to_json(item) for item in parts(source, document, _result(source.path))]


adapter = AtifAdapter()


def _may_be_one(path: str) -> bool:
    folder, name = os.path.split(path)
    return (
        name.startswith("trajectory")
        or "atif" in name.lower()
        or os.path.basename(folder) == TRANSCRIPTS
    )


def _result_of(path: str) -> str | None:
    """Return the path at which Harbor says how a trial ended: beside the folder of its agent."""
    folder, name = os.path.split(path)
    return (
        os.path.join(os.path.dirname(folder), RESULT)
        if name == "trajectory.json" and os.path.basename(folder) == "agent"
        else None
    )


def _with_result(source: Source) -> Source:
    """A source is as new as what is said of it beside it."""
    try:
        changed = os.stat(_result_of(source.path) or source.path).st_mtime_ns
    except OSError:
        return source
    return msgspec.structs.replace(source, mtime_ns=max(source.mtime_ns, changed))


def _result(path: str) -> object:
    beside = _result_of(path)
    try:
        return load_document(beside) if beside and os.path.isfile(beside) else None
    except ReadError:
        return None
