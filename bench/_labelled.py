"""Sessions whose true outcome is known: runs of two agents on issues, with the verdicts of tests
that the agents did not have.

`sweagent` is a weak agent, whose trajectories an adapter reads. `vorflux` is a strong one; no
adapter reads its spans, so they become events here. A hash of the issue divides the sessions into
halves: the rules were written with the first in view and are evaluated on the second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from runlore.adapters import get
from runlore.adapters.shared.tools import is_test_run, key_values, one_line, test_counts
from runlore.model import SessionEvent

ACTIONS = {
    "bash_execute": "shell",
    "read_text_file": "read",
    "grep_search": "search",
    "search_files": "search",
}
EDITS = ("edit_file", "write_file")


class Labelled(NamedTuple):
    name: str
    is_resolved: bool
    events: list[SessionEvent]
    bodies: dict[int, str]

    @property
    def is_held_out(self) -> bool:
        return sha256(self.name.encode()).digest()[0] % 2 == 1


def sweagent(folder: Path) -> Iterator[Labelled]:
    resolved = set(json.loads((folder / "final_report.json").read_bytes())["resolved"])
    adapter = get("swe_agent")
    for source in adapter.discover(folder):
        found = adapter.normalize(source, adapter.read(source, None), None)
        name = Path(source.path).stem
        yield Labelled(
            name,
            name in resolved,
            found.events,
            {event.seq: body for event, body in zip(found.events, found.bodies, strict=True)},
        )


def vorflux(folder: Path) -> Iterator[Labelled]:
    resolved = {
        run["instance_id"]: bool(run["resolved"])
        for run in json.loads((folder / "runs.json").read_bytes())["runs"]
    }
    for path in sorted((folder / "trajs").glob("*.json")):
        document = json.loads(path.read_bytes())
        events: list[SessionEvent] = []
        bodies: dict[int, str] = {}
        for fields, body in _blocks(document["trajectory"]):
            bodies[len(events)] = body
            events.append(
                SessionEvent(
                    session_uid=f"vorflux:{path.stem}",
                    seq=len(events),
                    summary=one_line(body),
                    **fields,
                )
            )
        yield Labelled(path.stem, resolved[path.stem], events, bodies)


def _blocks(entries: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    is_first = True
    for n, entry in enumerate(entries):
        if entry["type"] == "llm_call":
            for message in entry.get("task_prompt") or () if is_first else ():
                is_first = False
                yield {"kind": "user_msg", "role": "user"}, message["content"]
            text = (entry.get("output") or {}).get("content")
            if isinstance(text, str) and text.strip():
                yield {"kind": "assistant_msg", "role": "assistant"}, text
        elif entry["type"] == "tool_call":
            yield from _call(entry, f"call-{n}")


def _call(entry: dict[str, Any], call_id: str) -> Iterator[tuple[dict[str, Any], str]]:
    tool, given, result = entry["tool"], entry.get("arguments"), entry.get("result")
    given = given if isinstance(given, dict) else {}
    action = "edit" if tool in EDITS else ACTIONS.get(tool, "other")
    command = str(given.get("command", ""))
    is_test = action == "shell" and is_test_run(command)
    kind = "edit" if action == "edit" else "test_run" if is_test else "tool_call"
    path = given.get("path")
    shared = {"tool": tool, "call_id": call_id, "action": action}
    yield (
        {
            "kind": kind,
            "role": "assistant",
            "files": (path,) if isinstance(path, str) else (),
            **shared,
        },
        command or key_values(given),
    )
    code, text = None, result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    if isinstance(result, dict) and "exitCode" in result:
        code = result["exitCode"] if isinstance(result["exitCode"], int) else None
        text = f"{result.get('stdout', '')}\n{result.get('stderr', '')}".strip()
    tests = test_counts(text) if is_test else None
    is_error = bool(code) or (isinstance(result, dict) and "error" in result)
    yield (
        {
            "kind": "tool_result",
            "role": "tool",
            "exit_code": code,
            "tests": tests,
            "is_error": is_error,
            **shared,
        },
        text,
    )
