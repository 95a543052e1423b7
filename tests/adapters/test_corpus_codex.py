"""Real rollouts of Codex, where they are at hand: nothing raises, every line is accounted for, and
a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter. It looks at a file as a whole, where the adapter folds over it: a message
that is told twice is counted by how often each side tells it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.adapters import Normalized, Record, Source, get
from runlore.adapters.codex import fold
from runlore.model import SessionEvent, make_uid
from runlore.testing import check_law
from runlore.timeline import model_context
from tests.adapters import corpus
from tests.adapters.corpus import Everything

ROOTS = {corpus.CORPUS / "codex": "codex", corpus.CORPUS / "codex-traex": "traex"}
NEWER = {corpus.NEWER / "codex": "codex"}

pytestmark = corpus.needs(*ROOTS)


@pytest.fixture(scope="module")
def roots() -> dict[Path, str]:
    return ROOTS | {root: agent for root, agent in NEWER.items() if root.is_dir()}


@pytest.fixture(scope="module")
def everything(roots: dict[Path, str]) -> Everything:
    return [entry for root, agent in roots.items() for entry in corpus.read_all(get(agent), root)]


def test_every_rollout_is_read(everything: Everything, roots: dict[Path, str]) -> None:
    assert [
        path
        for root in roots
        for path in corpus.unread(root, everything)
        if path.suffix == ".jsonl"
    ] == []


def test_every_line_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        with_events = {event.record for event in found.events}
        assert with_events <= set(range(len(records)))
        assert len(records) <= len(with_events) + sum(found.merged.values()), source.path
        assert len(found.events) == len(found.bodies) == len(found.parents) == len(found.originals)


def test_sessions_are_named_and_numbered(everything: Everything) -> None:
    for source, _, found in everything:
        for uid, facts in found.facts.items():
            assert uid == make_uid(source.agent, facts.native_session_id)
        assert {event.session_uid for event in found.events} <= found.facts.keys()
        assert [event.seq for event in found.events] == list(range(len(found.events)))


def test_native_ids_are_unique_and_parents_are_known(everything: Everything) -> None:
    for source, _, found in everything:
        seen: set[str | None] = {None}
        for event, parent in zip(found.events, found.parents, strict=True):
            assert event.native_id not in seen, source.path
            assert parent in seen, source.path
            seen.add(event.native_id)


def test_growing_snapshots_of_a_thread_give_the_same_events(everything: Everything) -> None:
    """A shorter state of a file gives the first events of a longer one: that is what makes an
    archived copy a copy."""
    by_thread: dict[str, list[Normalized]] = {}
    for source, _, found in everything:
        if "EntityProcess" in source.path:
            by_thread.setdefault(next(iter(found.facts)), []).append(found)
    series = [
        sorted(group, key=lambda found: len(found.events))
        for group in by_thread.values()
        if len(group) > 1
    ]
    assert series
    for group in series:
        for shorter, longer in pairwise(group):
            assert [event.native_id for event in shorter.events] == [
                event.native_id for event in longer.events[: len(shorter.events)]
            ]


def test_both_ways_of_decoding_agree(
    everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: bytes) -> Any:
        raise msgspec.DecodeError

    monkeypatch.setattr(fold, "_decode", refuse)
    for source, records, fast in everything:
        slow = get(source.agent).normalize(source, records, None)
        assert fast.events == slow.events, source.path
        assert (fast.bodies, fast.parents, fast.facts, fast.merged) == (
            slow.bodies,
            slow.parents,
            slow.facts,
            slow.merged,
        ), source.path


def test_any_cut_gives_the_same(everything: Everything, tmp_path: Path) -> None:
    small = [source for source, _, _ in everything if source.size < 300_000]
    assert small
    for n, source in enumerate(small[::2]):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / Path(source.path).name).write_bytes(Path(source.path).read_bytes())
    check_law(get("codex"), tmp_path, cuts=3)


def test_tokens_add_up_to_the_last_total(everything: Everything) -> None:
    """Where a thread is whole and its own, what was counted is what it says at its end."""
    checked = 0
    for source, records, found in everything:
        totals = [total for record in records if (total := total_in(record)) is not None]
        is_whole = all(earlier <= later for earlier, later in pairwise(totals))
        if not totals or not is_whole or next(iter(found.facts.values())).relation is not None:
            continue
        counted = sum(event.usage.total for event in found.events if event.usage is not None)
        jumps = sum(1 for gap in gaps(records) if gap)
        if jumps == 0:
            assert counted == totals[-1], source.path
            checked += 1
    assert checked


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, records, found in everything:
        if (
            source.path.endswith("stage0/agents/codex/small.jsonl")
            or "harness-smoke" in source.path
        ):
            # In the first all texts and ids are the same; in the second nothing tells copies from
            # what is new.
            continue
        mine: Counter[str] = Counter()
        for event in found.events:
            if event.native == "replacement" or event.view == "summary":
                continue  # A history after a compaction is looked at below.
            mine["tool_call" if event.kind == "test_run" else event.kind] += 1
        assert mine == Second(source).count(records), source.path


def test_usage_of_forks_is_only_their_own(everything: Everything) -> None:
    """Children of which a part is copied, one second after the other, and the rest happened on the
    next day."""
    checked = 0
    for source, records, found in everything:
        if (
            "Issue2037" not in source.path
            or "smoke" in source.path
            or source.path.endswith("parent.jsonl")
        ):
            continue
        own = [json.loads(record.data) for record in records if b"2030-01-02" in record.data]
        last: Any = None
        expected = 0
        for row in [json.loads(record.data) for record in records if b"token_count" in record.data]:
            info = row["payload"]["info"]
            if row in own and info["total_token_usage"] != last:
                expected += info["last_token_usage"]["total_tokens"]
            last = info["total_token_usage"]
        assert (
            sum(event.usage.total for event in found.events if event.usage is not None)
            == expected
            > 0
        ), source.path
        checked += 1
    assert checked


def info_in(record: Record) -> dict[str, Any] | None:
    if b'"token_count"' not in record.data:
        return None
    try:
        info = json.loads(record.data)["payload"].get("info")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    usable = (
        isinstance(info, dict)
        and isinstance(info.get("total_token_usage"), dict)
        and isinstance(info.get("last_token_usage"), dict)
    )
    return info if usable else None


def total_in(record: Record) -> int | None:
    info = info_in(record)
    return spent(info["total_token_usage"]) if info else None


def spent(counts: dict[str, int]) -> int:
    return counts["input_tokens"] + counts["output_tokens"]


def gaps(records: list[Record]) -> Iterator[int]:
    """By how much each total is more than the one before and what the request took."""
    before = 0
    for info in filter(None, map(info_in, records)):
        total = spent(info["total_token_usage"])
        if total != before:
            yield total - before - spent(info["last_token_usage"])
        before = total


def test_after_a_compaction_the_model_has_the_history_that_it_was_given(
    everything: Everything,
) -> None:
    checked = 0
    for source, records, found in everything:
        if source.path.endswith("stage0/agents/codex/small.jsonl"):
            continue  # All texts are the same, pictures too.
        for n, record in enumerate(records):
            history = history_in(record)
            if (
                history is None
                or (events := [one for one in found.events if one.record == n]) == []
            ):
                continue
            seen = [
                (one.event.role, found.bodies[one.event.seq])
                for one in model_context(linked(found), events[-1].seq)
            ]
            given = [text for item in history for text in texts_of(item)]
            assert by_role(seen) == by_role(given), source.path
            checked += 1
    assert checked >= 15


def linked(found: Normalized) -> list[SessionEvent]:
    """The events with their parents, as a store links them."""
    seqs = {event.native_id: event.seq for event in found.events}
    return [
        msgspec.structs.replace(event, parent_seq=seqs.get(parent))
        for event, parent in zip(found.events, found.parents, strict=True)
    ]


def history_in(record: Record) -> list[dict[str, Any]] | None:
    if b"replacement_history" not in record.data:
        return None
    value = json.loads(record.data)
    payload = value.get("payload") or {}
    return payload.get("replacement_history") if value.get("type") == "compacted" else None


def texts_of(item: dict[str, Any]) -> list[tuple[str | None, str]]:
    if item["type"] == "message":
        return [(item["role"], part.get("text") or "") for part in item["content"]]
    return [(None, "[encrypted]")] if item["type"] == "compaction" else []


ASIDE = re.compile(r"</?image[^>]*>|\[(?:input_)?image[^\]]*\]| \d+ B(?=\])")


def by_role(messages: list[tuple[str | None, str]]) -> list[tuple[str | None, str]]:
    """Neighbours with the same role as one, without white space, pictures and sizes."""
    joined: list[tuple[str | None, str]] = []
    for role, text in messages:
        bare = "".join(ASIDE.sub("", text).split())
        if joined and joined[-1][0] == role:
            joined[-1] = role, joined[-1][1] + bare
        elif bare:
            joined.append((role, bare))
    return joined


# The second count.

CONTEXT = re.compile(
    r"<environment_context>|<user_instructions>|# AGENTS\.md"
    r" instructions|<external_|<skill>|<turn_aborted>|<subagent_notification>"
    r"|<codex_internal_context|<goal_context>|<recommended_plugins>|<hook_prompt|<user_action>"
)
PATCH = re.compile(r"apply_patch.*\*\*\* Begin Patch", re.DOTALL)
ENVELOPES = (
    "session_meta",
    "turn_context",
    "compacted",
    "world_state",
    "inter_agent_communication_metadata",
)
BARE = ("message", "reasoning", "function_call", "local_shell_call_output", "error")
SILENT = {"world_state", "inter_agent_communication_metadata", "thread_name_updated"}
LIFECYCLE = {
    "task_started",
    "sub_agent_activity",
    "thread_goal_updated",
    "entered_review_mode",
    "exited_review_mode",
    "guardian_assessment",
}
ENDS = {
    "exec_command_end": "tool_call",
    "patch_apply_end": "edit",
    "mcp_tool_call_end": "tool_call",
}
ITEM_ENDS = {"CommandExecution": "tool_call", "FileChange": "edit", "McpToolCall": "tool_call"}
OTHER_ENDS = {
    "view_image_tool_call",
    "dynamic_tool_call_request",
    "collab_agent_spawn_end",
    "collab_waiting_end",
    "collab_close_end",
}
OTHER_ENDS |= {"collab_agent_interaction_end"}


class Second:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.kinds: Counter[str] = Counter()
        self.told: dict[tuple[str, str], Counter[str]] = {}
        self.calls: dict[str | None, str] = {}
        self.thread: str | None = None
        self.is_fork = False
        self.totals: list[Any] = []
        self.settings: dict[str, Any] = {}
        self.before: Any = None

    def count(self, records: list[Record]) -> Counter[str]:
        for record in records:
            data = record.data
            try:
                value = json.loads(data.decode("utf-8", "replace"))
            except ValueError:
                self.kinds["lifecycle"] += bool(data.strip())
                continue
            self.line(value)
            self.before = value
        for (kind, _), sides in self.told.items():
            self.kinds[kind] += max(sides.values())
            if kind == "web":
                self.kinds["tool_call"] += max(sides.values())
                self.kinds["tool_result"] += self.kinds.pop("web")
        return +self.kinds

    def line(self, value: dict[str, Any]) -> None:
        payload = value.get("payload")
        if isinstance(payload, dict):
            kind = value.get("type") if value.get("type") in ENVELOPES else payload.get("type")
            self.record(kind, payload, value)
        elif "record_type" not in value:
            is_known = value.get("type") in BARE or "role" in value
            self.record(value.get("type") if is_known else "?", value, value)

    def record(self, kind: str | None, payload: dict[str, Any], value: dict[str, Any]) -> None:
        if kind == "session_meta":
            is_again = payload["id"] == self.thread
            self.thread = self.thread or payload["id"]
            self.is_fork = self.is_fork or bool(payload.get("forked_from_id"))
            self.kinds["lifecycle"] += not is_again
        elif kind in SILENT:
            return
        elif kind in LIFECYCLE:
            self.kinds["lifecycle"] += 1
        elif kind == "turn_context":
            self.setting(payload)
        elif kind == "thread_settings_applied":
            self.setting(payload.get("thread_settings", {}))  # Some samples leave it out.
        elif kind == "message" or (kind is None and "role" in payload):
            self.message(payload)
        elif kind == "user_message":
            if self.before != {**value, "timestamp": (self.before or {}).get("timestamp")}:
                self.typed(payload["message"], "event")
        elif kind == "agent_message" and "message" in payload:
            self.tell("assistant_msg", payload["message"], "event")
        elif kind == "reasoning":
            for part in payload["summary"]:
                self.tell("thinking", part["text"], "response")
        elif kind in ("agent_reasoning", "agent_reasoning_raw_content"):
            self.tell("thinking", payload["text"], "event")
        elif kind in ("web_search_call", "web_search_end"):
            self.tell("web", json.dumps(payload["action"]), kind)
        elif kind in ("image_generation_call", "image_generation_end"):
            self.kinds.update(tool_call=1, tool_result=1)
        elif kind == "token_count":
            self.tokens(payload, value.get("timestamp", ""))
        elif kind in ("compacted", "context_compacted"):
            self.tell("lifecycle", f"compaction {sum(1 for _ in self.compactions(kind))}", kind)
        elif kind == "task_complete":
            self.kinds["error" if payload.get("error") else "completion"] += 1
        elif kind == "turn.completed":
            self.kinds["completion"] += 1
        elif kind == "turn_aborted":
            self.kinds["human_intervention"] += 1
        elif kind in ("error", "stream_error"):
            self.kinds["error"] += 1
        elif kind == "item_completed":
            self.item(payload["item"])
        else:
            self.tool(kind, payload)

    def compactions(self, kind: str) -> Iterator[None]:
        self.settings[kind] = self.settings.get(kind, 0) + 1
        yield from [None] * self.settings[kind]

    def tool(self, kind: str | None, payload: dict[str, Any]) -> None:
        call = payload.get("call_id", payload.get("callId"))
        if kind in ("function_call", "custom_tool_call", "tool_search_call", "local_shell_call"):
            found = self.called(payload)
            self.kinds[found] += 1
            self.calls[call] = payload.get("name") or kind
        elif kind in (
            "function_call_output",
            "custom_tool_call_output",
            "tool_search_output",
            "local_shell_call_output",
        ):
            name, output = self.calls.get(call), payload.get("output")
            if not (name == "update_plan" and output == "Plan updated"):
                is_refused = isinstance(output, str) and re.match(
                    r".{0,60}rejected by user", output
                )
                self.kinds["human_intervention" if is_refused else "tool_result"] += 1
        elif kind in ENDS:
            self.end(ENDS[kind], call)
        elif kind in OTHER_ENDS:
            self.kinds["lifecycle"] += call not in self.calls
        elif kind == "dynamic_tool_call_response":
            self.kinds["tool_result"] += 1
        else:
            self.kinds["lifecycle"] += 1

    def end(self, kind: str, call: str | None) -> None:
        if call not in self.calls:
            self.kinds[kind] += 1
            self.kinds["tool_result"] += 1

    def called(self, payload: dict[str, Any]) -> str:
        name = payload.get("name")
        if name == "update_plan":
            return "decision"
        text = payload.get("input", payload.get("arguments"))
        text = text if isinstance(text, str) else json.dumps(text)
        is_shell = name in ("exec_command", "shell", "shell_command")
        return "edit" if name == "apply_patch" or (is_shell and PATCH.search(text)) else "tool_call"

    def item(self, item: dict[str, Any]) -> None:
        kind, text = item["type"], "".join(part.get("text", "") for part in item.get("content", []))
        if kind == "UserMessage":
            self.typed(text, "item")
        elif kind == "AgentMessage":
            self.tell("assistant_msg", text, "item")
        elif kind == "Plan":
            self.kinds["decision"] += 1
        elif kind in ITEM_ENDS:
            self.end(ITEM_ENDS[kind], item["id"])
        elif kind == "Extension":
            self.tell("web", json.dumps(item["action"]), "item")

    def message(self, payload: dict[str, Any]) -> None:
        role, content = payload.get("role"), payload.get("content", payload.get("message"))
        texts = (
            [content] if isinstance(content, str) else [part.get("text") for part in content or []]
        )
        if content is None:
            self.kinds["lifecycle"] += 1
        elif role == "assistant":
            self.tell("assistant_msg", "".join(text or "" for text in texts), "response")
        elif role == "user":
            asked = [text for text in texts if text is not None and not CONTEXT.match(text.strip())]
            for text in texts:
                if text is not None and CONTEXT.match(text.strip()):
                    self.typed(text, "response")
            if asked:
                self.typed("".join(asked), "response")
        else:
            for text in texts:
                self.kinds[
                    (
                        "human_intervention"
                        if (text or "").startswith("Approved command prefix")
                        else "lifecycle"
                    )
                ] += 1

    def typed(self, text: str, side: str) -> None:
        self.tell("lifecycle" if CONTEXT.match(text.strip()) else "user_msg", text, side)

    def tell(self, kind: str, text: str, side: str) -> None:
        words = "".join(text.split())
        if words:
            self.told.setdefault((kind, words), Counter())[side] += 1

    def setting(self, now: dict[str, Any]) -> None:
        changed = {
            name
            for name in ("model", "approval_policy")
            if now.get(name) and self.settings.get(name) not in (None, now[name])
        }
        if changed:
            self.kinds["human_intervention" if "approval_policy" in changed else "decision"] += 1
        self.settings.update(
            {name: now[name] for name in ("model", "approval_policy") if now.get(name)}
        )

    def tokens(self, payload: dict[str, Any], at: str) -> None:
        info = payload.get("info")
        if not isinstance(info, dict):
            return
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        is_new = total is None or total not in self.totals
        self.totals = [*self.totals[-63:], total]
        if self.is_fork and at.startswith("2030-01-01"):
            return  # Copied on the day of the fork, in the few forks that the corpus has.
        if is_new and last is not None and (last["input_tokens"] or last["output_tokens"]):
            self.kinds["lifecycle"] += 1
