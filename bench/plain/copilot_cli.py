"""GitHub Copilot CLI: a log of events; tokens are told when a run ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, number, read_lines

AGENT = "copilot_cli"
FOLDERS = (".copilot",)
BUCKETS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob("*.jsonl")):
        records = list(read_lines(path))
        ids = filter(None, (get(record, "data", "sessionId") for record in records))
        id = str(next(ids, path.parent.name if path.name == "events.jsonl" else path.stem))
        for agent, counts in _count(records).items():
            if not agent:
                _add_tokens(counts, records)
                counts.output -= sum(_outputs(records).values())
            else:
                counts.output = _outputs(records).get(agent, 0)
            yield Session(path, f"{id}/agent-{agent}" if agent else id, counts)


def _owners(records: list[JSON]) -> list[str]:
    """Return for each record the call that started its subagent; "" for the main agent."""
    names: dict[JSON, str] = {}
    owners = []
    for record in records:
        if record.get("type") == "subagent.started" and record.get("agentId"):
            names[record["agentId"]] = str(get(record, "data", "toolCallId"))
        call = get(record, "data", "parentToolCallId")
        owners.append(str(call or names.get(record.get("agentId"), "")))
    return owners


def _count(records: list[JSON]) -> dict[str, Counts]:
    """Return the counts of each agent in a log, "" for the main one, subagents by their call."""
    agents: dict[str, Counts] = {"": Counts()}
    calls: set[str] = set()
    for record, owner in zip(records, _owners(records), strict=True):
        kind, data = record.get("type"), record.get("data") or {}
        counts = agents.setdefault(owner, Counts())
        if kind == "user.message":
            injected = data.get("source") or data.get("isAutopilotContinuation")
            counts.prompts += bool(data.get("content")) and (bool(owner) or not injected)
        elif kind == "assistant.message":
            counts.replies += bool((data.get("content") or "").strip())
        named = [get(call, "toolCallId") for call in data.get("toolRequests") or ()]
        if kind in ("tool.execution_start", "tool.user_requested"):
            named = [data.get("toolCallId")]
        new = {str(call) for call in named if call} - calls
        calls |= new
        counts.calls += len(new)
        counts.results += kind == "tool.execution_complete"
    return agents


def _add_tokens(counts: Counts, records: list[JSON]) -> None:
    """Add the totals of each run, or what its messages tell if it was killed."""
    runs: list[list[int]] = []
    sums = [0, 0, 0, 0]
    output = 0
    for record in records:
        kind, data = record.get("type"), record.get("data") or {}
        if kind == "assistant.message":
            output += number(data.get("outputTokens"))
        elif kind == "assistant.usage":
            sums = [n + number(data.get(name)) for n, name in zip(sums, BUCKETS, strict=True)]
        elif kind == "session.shutdown":
            models = [
                get(metrics, "usage") or {} for metrics in (data.get("modelMetrics") or {}).values()
            ]
            run = [sum(number(usage.get(name)) for usage in models) for name in BUCKETS]
            if runs and all(now >= before for now, before in zip(run, runs[-1], strict=True)):
                runs.pop()  # The totals went on instead of starting again.
            runs.append(run if any(run) else sums if any(sums) else [0, output, 0, 0])
            sums, output = [0, 0, 0, 0], 0
    runs.append(sums if any(sums) else [0, output, 0, 0])
    for into, out, read, write in runs:
        counts.add_tokens(into - read - write, out, read, write)


def _outputs(records: list[JSON]) -> dict[str, int]:
    """Return the output that the messages of each subagent tell of."""
    outputs: dict[str, int] = {}
    for record, agent in zip(records, _owners(records), strict=True):
        data = record.get("data") or {}
        if record.get("type") == "assistant.message" and agent:
            outputs[agent] = outputs.get(agent, 0) + number(data.get("outputTokens"))
    return outputs
