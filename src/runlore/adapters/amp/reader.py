"""The meaning of Amp's threads: which messages of a document are finished, and a fold over them.
The traps of the format are in the package's docstring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from ... import model as api
from ...model import Usage
from .. import Normalized, Record, Source
from ..shared import calls
from ..shared.fold import load
from ..shared.jsonl import parse
from ..shared.pick import clean, identifier, moment, number, pick, time_of
from ..shared.stream import Call, Entries, EntryFold
from ..shared.tools import blob_reference, is_test_run, one_line, text_of

CARRY = 1
"""The layout of `Thread`; changed only together with the adapter's `version`."""
OPEN = frozenset({"in-progress", "queued", "blocked-on-user"})
"""States of a call that has not ended."""
REFUSED = frozenset({"cancelled", "rejected-by-user"})
"""States of a call that a person stopped."""
SEVERAL = frozenset({"subagent", "oracle", "codebase-search"})
"""What the ledger tells of as one, and was several requests."""
RELATIONS: dict[str, api.Relation] = {"fork": "fork", "handoff": "continuation"}
"""Types of links to the thread that a thread comes from."""
THREAD_FIELDS = (
    "id",
    "title",
    "created",
    "agentMode",
    "mainThreadID",
    "originThreadID",
    "forkPointIndex",
    "relationships",
)

ACTIONS = {
    **dict.fromkeys(("Bash", "run_terminal_command", "repl"), "shell"),
    **dict.fromkeys(("Read", "read_file", "read_mcp_resource", "read_thread", "look_at"), "read"),
    **dict.fromkeys(
        ("edit_file", "create_file", "write_file", "delete_file", "undo_edit", "format_file"),
        "edit",
    ),
    **dict.fromkeys(
        (
            "Grep",
            "glob",
            "Glob",
            "finder",
            "find_thread",
            "get_diagnostics",
            "codebase_search_agent",
        ),
        "search",
    ),
    **dict.fromkeys(
        ("web_search", "read_web_page", "librarian", "read_github", "search_github"), "web"
    ),
    **dict.fromkeys(("Task", "oracle", "handoff", "code_review"), "agent"),
    **dict.fromkeys(("todo_read", "todo_write", "task_list"), "plan"),
}


# The document.


def sidecar_values(thread: dict[str, Any], messages: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the sidecars of a thread: facts about it, and requests that no message tells of."""
    about = {name: thread[name] for name in THREAD_FIELDS if name in thread}
    yield "thread", {**about, "env": pick(thread, "env", "initial", of=dict) or {}}
    has_usage = {
        pick(message, "messageId", of=int)
        for message in messages
        if pick(message, "usage", of=dict) is not None
    }
    events = [
        event
        for event in pick(thread, "usageLedger", "events", of=list) or []
        if isinstance(event, dict)
    ]
    rest = [
        event
        for event in events
        if event.get("operationType") != "inference"
        or pick(event, "toMessageId", of=int) not in has_usage
    ]
    if rest:
        yield "calls", rest


def finished(thread: dict[str, Any], messages: list[Any], is_stale: bool) -> list[Any]:
    """The messages that will not change any more, those without a time with that of their
    request."""
    times = {pick(event, "toMessageId", of=int): event.get("timestamp") for event in pick(thread,
    "usageLedger", "events", of=list) or []
             if isinstance(event, dict)}  # fmt: skip
    found: list[Any] = []
    for message in messages:
        if not is_stale and _is_open(message):
            break
        number = pick(message, "messageId", of=int)
        if (
            isinstance(message, dict)
            and message.get("role") == "assistant"
            and number is not None
            and times.get(number)
        ):
            message = {**message, "requestedAt": times[number]}
        found.append(message)
    return found


def _is_open(message: Any) -> bool:
    if pick(message, "state", "type", of=str) == "streaming":
        return True
    return any(
        pick(block, "run", "status", of=str) in OPEN
        for block in pick(message, "content", of=list) or []
    )


# The fold.


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Thread(Entries):
    version: int = CARRY
    origin: str = ""
    """The thread whose messages this one begins with."""
    copied: int = 0
    """How many these are."""


class Reader(EntryFold[Thread]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Thread, CARRY))

    # What stands beside the messages.

    def sidecar(self, name: str, data: bytes) -> None:
        value = next((value for value, _, _ in parse(data)), None)
        if name == "thread" and isinstance(value, dict):
            self.about(value)
        elif name == "calls" and isinstance(value, list):
            self.requests([event for event in value if isinstance(event, dict)])

    def about(self, thread: dict[str, Any]) -> None:
        self.session(pick(thread, "id", of=str))
        self.set_title(pick(thread, "title", of=str), 2)
        self.set_folder(thread)
        self.set_origin(thread)

    def set_folder(self, thread: dict[str, Any]) -> None:
        """Note the folder and the branch of the thread's first working tree."""
        state = self.state
        trees = pick(thread, "env", "trees", of=list) or []
        tree = next((tree for tree in trees if isinstance(tree, dict)), {})
        state.cwd = (
            path_of(pick(tree, "uri", of=str)) or pick(thread, "env", "cwd", of=str) or state.cwd
        )
        branch = (pick(tree, "repository", "ref", of=str) or "").removeprefix("refs/heads/")
        state.branch = branch or state.branch

    def set_origin(self, thread: dict[str, Any]) -> None:
        """Note the thread that this one comes from. A subagent's main thread counts before a
        fork."""
        state = self.state
        if above := clean(pick(thread, "mainThreadID", of=str) or ""):
            state.parent, state.relation = self.uid(above), "subagent"
            return
        for link in pick(thread, "relationships", of=list) or []:
            self.follow_link(link)
        origin = clean(pick(thread, "originThreadID", of=str) or "")
        if origin and origin != state.session:
            state.parent, state.relation = self.uid(origin), "fork"
            state.origin, state.copied = origin, number(thread.get("forkPointIndex"), 1 << 30) or 0

    def follow_link(self, link: Any) -> None:
        other, kind = clean(pick(link, "threadID", of=str) or ""), pick(link, "type", of=str)
        relation = RELATIONS.get(kind or "")
        if other and relation and pick(link, "role", of=str) == "child":
            self.state.parent, self.state.relation = self.uid(other), relation

    def requests(self, events: list[dict[str, Any]]) -> None:
        """Add requests that only the ledger has. Those of a subagent with a thread of its own are
        counted there."""
        seen: dict[str, int] = {}
        for event in events:
            operation = pick(event, "operationType", of=str) or ""
            if operation == "subagent" and event.get("subagentThreadID"):
                continue
            given, out = (
                number((pick(event, "tokens", of=dict) or {}).get(word)) or 0
                for word in ("input", "output")
            )
            used = Usage(input_tokens=given, output_tokens=out)
            message = number(event.get("toMessageId"), 1 << 40)
            own = identifier(event.get("id")) or text_of(event)[:200]
            name = (
                f"{self.session()}/{message}"
                if operation == "inference" and message is not None
                else f"{self.session()}/{own}"
            )
            again = seen[name] = seen.get(name, -1) + 1
            key = f"{name}~{again}" if again else name
            if used.total:
                self.bill(
                    key,
                    used,
                    pick(event, "model", of=str),
                    time_of(event.get("timestamp")),
                    None,
                    is_sum=operation in SEVERAL,
                )

    def bill(
        self,
        key: str,
        used: Usage,
        model: str | None,
        ts: datetime | None,
        event: str | None,
        is_sum: bool = False,
    ) -> None:
        call = api.Call(
            key=key, session_uid=self.uid(self.session()), ts=ts, provider=provider_of(model),
            model=model, is_sum=is_sum,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
            is_sidechain=is_sum or self.state.relation == "subagent",
        )  # fmt: skip
        self.out.calls.append((call, event))

    # Messages.

    def line(self, value: dict[str, Any]) -> None:
        state = self.state
        place = state.records - 1
        own = number(value.get("messageId"), 1 << 40)
        number_of = f"at-{place}" if own is None else str(own)
        follows = self.parent
        if not self.admit(f"{self.session()}/{number_of}"):
            return
        if place < state.copied:
            self.original = f"{state.origin}/{number_of}"
        self.ts = self.when(value)
        role = role_of(value)
        blocks = value.get("content")
        if not isinstance(blocks, list):
            text = blocks if isinstance(blocks, str) else pick(value, "text", of=str)
            blocks = [] if text is None else [{"type": "text", "text": text}]
        for block in blocks:
            self.block(block, role, value)
        self.ending(value, role)
        if not self.count and "content" not in value:
            self.unknown(role)
        elif not self.count:
            self.merge("empty")
        if role == "assistant":
            self.used(value)
        self.remember(self.state.anchor, follows)

    def when(self, message: dict[str, Any]) -> datetime | None:
        sent = number((pick(message, "meta", of=dict) or {}).get("sentAt"), 1 << 50) or number(
            message.get("createdAt"), 1 << 50
        )
        if sent:
            return moment(sent / 1000)
        return time_of(pick(message, "usage", "timestamp", of=str)) or time_of(
            message.get("requestedAt")
        )

    def block(self, block: Any, role: str, message: dict[str, Any]) -> None:
        if not isinstance(block, dict):
            self.other_block(block, "", role)
            return
        word = pick(block, "type", of=str) or ""
        match block_type(block, word):
            case "tool_use":
                self.call(block)
            case "tool_result":
                self.result(block)
            case "thinking":
                self.say("thinking", text_of(block.get("thinking")), "thinking", "assistant")
            case "text":
                self.spoken(text_of(block.get("text")), role, message)
            case "manual_bash_invocation":
                self.shell(block)
            case "redacted_thinking":
                self.merge(word)
            case "image":
                self.image(block)
            case _:
                self.other_block(block, word, role)

    def image(self, block: dict[str, Any]) -> None:
        data = pick(block, "source", "data", of=str) or pick(block, "data", of=str)
        body = blob_reference(data) if data else text_of(block)
        self.emit("lifecycle", body, "image", None, "user", view="context")

    def other_block(self, block: Any, word: str, role: str) -> None:
        """Add a block that is not understood as it is."""
        name = word[:100] or "unknown block"
        self.emit("lifecycle", text_of(block), name, name, role[:100] or None)

    def say(self, kind: str, text: str, native: str, role: str) -> None:
        if text.strip():
            self.emit(kind, text, native, None, role, model=self.state.model)

    def spoken(self, text: str, role: str, message: dict[str, Any]) -> None:
        if not text.strip():
            return
        if role == "assistant":
            reason = pick(message, "state", "stopReason", of=str)
            self.state.model = pick(message, "usage", "model", of=str) or self.state.model
            self.say(
                "assistant_msg",
                text,
                "assistant/end_turn" if reason == "end_turn" else "assistant",
                role,
            )
        elif role == "user" and not pick(message, "source", of=dict):
            self.emit("user_msg", text, "user", None, role)
            if not self.state.is_titled:
                self.set_title(text, 1)
        else:
            native = f"{role[:100]}/{(pick(message, 'source', 'type', of=str) or 'text')[:100]}"
            self.emit("lifecycle", text, native, None, role[:100] or None, view="context")

    def call(self, block: dict[str, Any]) -> None:
        name = pick(block, "name", of=str) or "unknown"
        found = calls.describe(name, block.get("input"), calls.action_of(name, ACTIONS))
        call_id = identifier(block.get("id"))
        self.emit_call(found, "tool_use", call_id)
        self.remember_call(call_id, found)

    def result(self, block: dict[str, Any]) -> None:
        call_id = identifier(block.get("toolUseID")) or identifier(block.get("tool_use_id"))
        call = self.state.calls.get(call_id or "") or Call("unknown", "other")
        run = pick(block, "run", of=dict)
        status = (pick(run, "status", of=str) or "done")[:100]
        text, code = answer(run if run is not None else {"result": block.get("content")})
        is_error = status == "error" or block.get("is_error") is True
        came = calls.build_result(text, is_error, code, call.is_test)
        below = clean(pick(run, "progress", "threadID", of=str) or "")
        kind, native, summary = "tool_result", "tool_result", came.summary
        is_failed = is_error or bool(came.exit_code)
        if status in REFUSED:
            kind, summary, is_failed = "human_intervention", came.summary or status, False
        if status in REFUSED or status in OPEN:
            native = f"tool_result/{status}"
        self.emit(
            kind, came.text, native, summary, "tool", call.tool, call_id, call.action,
            is_error=is_failed, exit_code=came.exit_code, tests=came.tests,
            refs=(self.uid(below),) if below else (),
        )  # fmt: skip

    def shell(self, block: dict[str, Any]) -> None:
        """A command that the person ran; the model may not see it."""
        command = pick(block, "args", "cmd", of=str) or pick(block, "args", "command", of=str) or ""
        view = None if block.get("hidden") is True else "context"
        call_id = f"{self.native_id}/{self.count}"
        kind = "test_run" if is_test_run(command) else "tool_call"
        self.emit(
            kind,
            command,
            "manual_bash_invocation",
            None,
            "user",
            "Bash",
            call_id,
            "shell",
            view=view,
        )
        text, code = answer(pick(block, "toolRun", of=dict) or {})
        came = calls.build_result(text, False, code, kind == "test_run")
        self.emit(
            "tool_result", came.text, "manual_bash_invocation/output", came.summary, "tool", "Bash",
            call_id, "shell",
            is_error=bool(came.exit_code), exit_code=came.exit_code, tests=came.tests, view=view,
        )  # fmt: skip

    def ending(self, message: dict[str, Any], role: str) -> None:
        """Add the end of a message, when that is worth an event."""
        state, reason = (
            pick(message, "state", "type", of=str),
            pick(message, "state", "stopReason", of=str),
        )
        if state == "error":
            why = pick(message, "state", "error", "message", of=str) or text_of(
                pick(message, "state", "error", of=dict)
            )
            self.emit("error", why, "state/error", None, "system", is_error=True)
        elif state == "cancelled" or message.get("interrupted") is True:
            self.emit(
                "human_intervention",
                "",
                "state/cancelled" if state else "interrupted",
                "interrupted",
                "user",
            )
        elif role == "assistant" and reason not in (None, "end_turn", "tool_use"):
            self.emit(
                "lifecycle",
                "",
                f"state/{reason[:100]}",
                f"stopped: {one_line(reason)[:100]}",
                "system",
            )

    def used(self, message: dict[str, Any]) -> None:
        counts = pick(message, "usage", of=dict)
        if counts is None:
            return
        given, out, read, wrote = (
            number(counts.get(word)) or 0
            for word in (
                "inputTokens",
                "outputTokens",
                "cacheReadInputTokens",
                "cacheCreationInputTokens",
            )
        )
        used = Usage(
            input_tokens=given, output_tokens=out, cache_read_tokens=read, cache_write_tokens=wrote
        )
        model = pick(counts, "model", of=str) or self.state.model
        self.state.model = model
        if used.total:
            self.bill(
                self.original or self.native_id, used, model, self.ts, self.charge(used, model)
            )


def role_of(message: dict[str, Any]) -> str:
    """Return the role of a message: as it says, or by what it holds."""
    role = pick(message, "role", of=str) or ""
    if role in ("user", "assistant", "info"):
        return role
    if message.keys() & {"state", "usage"}:
        return "assistant"
    return "user" if message.keys() & {"meta", "userState"} else role


def block_type(block: dict[str, Any], word: str) -> str:
    """Return the type of a block: its own word, or by the fields that it has."""
    if word == "tool_use" or ("name" in block and "input" in block):
        return "tool_use"
    if word == "tool_result" or block.keys() & {"toolUseID", "tool_use_id"}:
        return "tool_result"
    if word == "thinking" or isinstance(block.get("thinking"), str):
        return "thinking"
    if word == "text" or isinstance(block.get("text"), str):
        return "text"
    return "manual_bash_invocation" if "toolRun" in block else word


def answer(run: dict[str, Any]) -> tuple[str, int | None]:
    """Return the output of a call for reading, and the exit code of a command."""
    failure = run.get("error")
    if failure is not None:
        return pick(failure, "message", of=str) or text_of(failure), None
    result = run.get("result", run.get("progress"))
    if isinstance(result, list):
        return (
            "\n".join(
                (
                    text_of(item.get("text"))
                    if isinstance(item, dict) and "text" in item
                    else text_of(item)
                )
                for item in result
            ),
            None,
        )
    if not isinstance(result, dict):
        return text_of(result), None
    code = pick(result, "exitCode", of=int)
    for word in ("output", "content", "diff"):
        if isinstance(result.get(word), str):
            return result[word], code
    return text_of(result), code


def path_of(uri: str | None) -> str | None:
    """The path that a file's address means."""
    if not uri or not uri.startswith("file://"):
        return None
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        return None
    return (path[1:] if path[2:3] == ":" else path)[:4096] or None


def provider_of(model: str | None) -> str | None:
    names = {"claude": "anthropic", "gpt": "openai", "gemini": "google"}
    return next(
        (provider for start, provider in names.items() if model and model.startswith(start)), None
    )
