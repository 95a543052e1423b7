"""ATIF: the Agent Trajectory Interchange Format, as Harbor and others write it: a document for each
run of an agent.

Learned from Harbor's description of the format (RFC 0001, versions 1.0 to 1.8; harbor 0.25), and
documents of NVIDIA's NeMo Agent Toolkit. Last checked 2026-11. The traps:

- Only Devin keeps them in a place of its own; the folder of Harbor's jobs is where it was run, and
  has to be named in config.toml.
- Nothing in a file's name says that it is one: what is called `trajectory….json` or `…atif….json`
  is looked into, and all that lies in a folder of transcripts of Devin's.
- `session_id` is that of a run: several documents may have it, and are told apart by
  `trajectory_id`, or by the names of their files.
- When the context became too long, a run goes on in another file (`trajectory.cont-1.json`), whose
  first steps are copies of the last one's: `is_copied_context`. What summed it up has files of its
  own.
- Trajectories of subagents stand in the document of the agent above, and are told as side chains of
  its session.
- The prompt's tokens include those of the cache. Where no step tells of tokens the totals are
  counted; elsewhere they repeat the steps'. The cost is the agent's own account: it is stored as
  recorded.
- Beside a trial of Harbor's, `result.json` says what the verifier found: it is told as how the
  session ended.
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
