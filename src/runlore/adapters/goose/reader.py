"""The meaning of the messages of goose, in rows and in the lines of older files: a fold. The
package's docstring lists the traps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage
from .. import Normalized, Record, Source
from ..shared import calls
from ..shared.fold import load, with_rank
from ..shared.jsonl import parse, to_json
from ..shared.pick import clean, identifier, moment, number, pick, time_of
from ..shared.stream import Call, Entries, EntryFold
from ..shared.tools import blob_reference, key_values, one_line, text_of
from . import is_file

CARRY = 1
"""The layout of `Log`; changed only together with the adapter's `version`."""
PENDING = 64  # Requests and messages that wait for each other.
# Characters of an id that no other session has. Shorter ones are counters of a provider's.
UNIQUE = 24

ACTIONS = {
    **dict.fromkeys(("shell", "bash", "final_output"), "shell"),
    **dict.fromkeys(("read", "read_file", "load", "read_resource", "read_image"), "read"),
    **dict.fromkeys(
        ("edit", "write", "text_editor", "str_replace", "edit_file", "write_file"), "edit"
    ),
    **dict.fromkeys(
        (
            "tree",
            "analyze",
            "ripgrep",
            "glob",
            "search",
            "list_resources",
            "search_available_extensions",
        ),
        "search",
    ),
    **dict.fromkeys(("web_scrape", "web_search", "fetch"), "web"),
    **dict.fromkeys(
        ("delegate", "subagent", "execute_task", "create_task", "dynamic_task"), "agent"
    ),
    **dict.fromkeys(("todo_write", "todo_read", "todo"), "plan"),
}
OWN = frozenset(
    {
        "developer",
        "summon",
        "skills",
        "analyze",
        "todo",
        "platform",
        "subagent",
        "dynamic_task",
        "computercontroller",
        "apps",
    }
)
"""The extensions that come with it; those of others are servers of tools."""
COMPACTED = ("Your context was compacted", "The previous message contains a summary")
NOTES = frozenset({"Compaction complete"})
FAILED = ("Ran into this error:", "An error occurred while")
STOPPED = "Interrupted by the user"
REFUSED = "The user has declined"
UNNAMED = ("CLI Session", "New Chat", "Delegated task")
"""Names of sessions that have none yet, and of subagents, which get no other."""
_SUBAGENT = re.compile(r"\ASubagent ID: \S{1,200}\s+")
"""What the program puts before the prompt of a subagent."""
_COMMAND = re.compile(r"/[a-z][\w-]*(?:\s|\Z)")
_EXIT = re.compile(r"^Command exited with code (\d{1,9})\s*\Z", re.MULTILINE)


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return with_rank(Reader(source, carry).run(records), 1 if is_file(source) else 0)


class Log(Entries):
    version: int = CARRY
    provider: str | None = None
    ledger: int = 0
    """The last row of the ledger that was read."""
    requests: list[tuple[str, str, tuple[int, ...]]] = msgspec.field(default_factory=list)
    """Keys and models of requests whose message was not read yet, with their counts."""
    waiting: list[tuple[str, tuple[int, ...]]] = msgspec.field(default_factory=list)
    """Messages whose requests were not read yet."""


class Reader(EntryFold[Log]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Log, CARRY))
        self.value: dict[str, Any] = {}

    def session(self, named: str | None = None) -> str:
        if not self.state.session:
            self.state.session = (
                clean(named or "") or clean(self.file.removesuffix(".jsonl")) or "unknown"
            )
        return self.state.session

    def stamp(self) -> bytes:
        """Return a hash of the fields of a message that stay the same when the session is
        rewritten."""
        fields = [
            self.value.get(name)
            for name in ("role", "created_timestamp", "created", "content", "content_json")
        ]
        return blake2b(
            to_json(fields) if self.value else to_json(self.raw_text()), digest_size=8
        ).digest()

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        self.value = {}

    # Sidecars.

    def sidecar(self, name: str, data: bytes) -> None:
        values = [value for value, _, _ in parse(data)]
        if name == "session":
            self.about(next((value for value in values if isinstance(value, dict)), {}))
        elif name == "calls":
            for row in next((value for value in values if isinstance(value, list)), []):
                if isinstance(row, dict):
                    self.request(row)

    def about(self, row: dict[str, Any]) -> None:
        state = self.state
        self.session(pick(row, "id", of=str))
        config = pick(row, "model_config_json", of=str) or ""
        model = next(
            (pick(value, "model_name", of=str) for value, _, _ in parse(config.encode())), None
        )
        state.model = model or pick(row, "model_config", "model_name", of=str) or state.model
        state.provider = pick(row, "provider_name", of=str) or state.provider
        state.cwd = pick(row, "working_dir", of=str) or state.cwd
        is_chosen = row.get("user_set_name") in (1, True)
        title = pick(row, "name", of=str) or pick(row, "description", of=str)
        if is_chosen or title not in UNNAMED:
            self.set_title(title, 3 if is_chosen else 2)
        if above := clean(pick(row, "parent_session_id", of=str) or ""):
            state.parent, state.relation = self.uid(above), "subagent"
            state.call = identifier(row.get("call")) or state.call
        self.totals_of(row)

    def totals_of(self, row: dict[str, Any]) -> None:
        """Add the usage of all requests together, where there is no other."""
        used = usage(
            *(
                row.get(f"accumulated_{word}_tokens")
                for word in ("input", "output", "cache_read", "cache_write")
            )
        )
        if used.total:
            self.bill(f"{self.session()}/sum", used, self.state.model, None, None, is_sum=True)

    def request(self, row: dict[str, Any]) -> None:
        state, own = self.state, number(row.get("id")) or 0
        if own <= state.ledger:
            return
        state.ledger = own
        words = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        used = usage(*(row.get(word) for word in words))
        if not used.total:
            return
        key, model, counts = (
            f"{self.session()}/{own}",
            pick(row, "model", of=str) or state.model,
            counted(used),
        )
        event = next((name for name, own_counts in state.waiting if own_counts == counts), None)
        if event is not None:
            state.waiting = [item for item in state.waiting if item[0] != event]
        elif row.get("is_compaction") in (0, None):
            state.requests = [*state.requests[1 - PENDING :], (key, model or "", counts)]
        self.bill(key, used, model, moment(number(row.get("created_timestamp"), 1 << 40)), event)

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
            key=key, session_uid=self.uid(self.session()), ts=ts, provider=self.state.provider,
            model=model or None, is_sum=is_sum,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
            is_sidechain=self.state.relation == "subagent",
        )  # fmt: skip
        self.out.calls.append((call, event))

    # Messages.

    def line(self, value: dict[str, Any]) -> None:
        self.value = value
        if (
            "role" not in value
            and "content" not in value
            and ("working_dir" in value or "message_count" in value)
        ):
            self.about(value)  # The first line of a file.
            self.merge("session")
            return
        session, follows = self.session(), self.parent
        own = (
            identifier(value.get("message_id"))
            or identifier(value.get("id"))
            or self.content_name()
        )
        name = own if len(own) >= UNIQUE else f"{session}/{own}"
        if self.admit(name):
            name = self.native_id
            seconds = number(value.get("created_timestamp"), 1 << 40) or number(
                value.get("created"), 1 << 40
            )
            self.ts = moment(seconds) or time_of(
                (pick(value, "timestamp", of=str) or "").replace(" ", "T")
            )
            self.message(value)
            self.remember(name, follows)

    def message(self, value: dict[str, Any]) -> None:
        role = pick(value, "role", of=str) or ""
        about = pick(value, "metadata", of=dict) or {}
        self.state.model = pick(about, "inference", "requestedModel", of=str) or self.state.model
        is_hidden = about.get("userVisible") is False
        blocks = value.get("content")
        if not isinstance(blocks, list):
            self.emit(
                "lifecycle",
                text_of(value.get("content_json", blocks)),
                role[:100] or "message",
                "a message without content",
                role[:100],
            )
            return
        for block in blocks:
            self.block(block, role, is_hidden)
        if not self.count:
            self.merge("empty")
        self.used(about)

    def block(self, block: Any, role: str, is_hidden: bool) -> None:
        word = pick(block, "type", of=str) or ""
        handler = BLOCKS.get(word) or BLOCKS.get(
            next(
                (kind for name, kind in GIVEN.items() if isinstance(block, dict) and name in block),
                "",
            )
        )
        if word == "text" or (handler is None and isinstance(pick(block, "text", of=str), str)):
            self.say(text_of(block.get("text")), role, is_hidden)
        elif handler is not None:
            handler(self, block)
        else:
            self.emit(
                "lifecycle",
                text_of(block),
                word[:100] or "unknown block",
                word[:100] or "unknown block",
                role[:100] or None,
            )

    def say(self, text: str, role: str, is_hidden: bool) -> None:
        if not text.strip():
            return
        if text.startswith(COMPACTED) and role == "assistant":
            # The message before it is the summary, and stays.
            refs = (self.parent,) if self.parent else ()
            self.emit("lifecycle", text, "compaction", "compacted", role, view="compact", refs=refs)
        elif is_hidden:
            self.emit("lifecycle", text, "context", None, role[:100] or None, view="context")
        elif text in NOTES:
            self.emit("lifecycle", text, "text/note", None, "system")
        elif role == "assistant":
            self.reply(text)
        elif role == "user":
            self.prompt(text)
        else:
            self.emit("lifecycle", text, "text", None, role[:100] or None)

    def reply(self, text: str) -> None:
        if text.startswith(FAILED):
            self.emit("error", text, "text/error", None, "system", is_error=True)
        else:
            self.emit("assistant_msg", text, "text", None, "assistant", model=self.state.model)

    def prompt(self, text: str) -> None:
        if _COMMAND.match(text):
            self.emit("human_intervention", text, "text/command", None, "user")
            return
        self.emit("user_msg", text, "text", None, "user")
        if not self.state.is_titled:
            self.set_title(_SUBAGENT.sub("", text), 1)

    def thought(self, block: dict[str, Any]) -> None:
        text = text_of(block.get("thinking"))
        if text.strip():
            self.emit("thinking", text, "thinking", None, "assistant", model=self.state.model)

    def redacted(self, block: dict[str, Any]) -> None:
        self.merge("redactedThinking")

    def picture(self, block: dict[str, Any]) -> None:
        self.emit(
            "lifecycle",
            blob_reference(text_of(block.get("data"))),
            "image",
            None,
            "user",
            view="context",
        )

    def call(self, block: dict[str, Any]) -> None:
        given = pick(block, "toolCall", of=dict) or {}
        value = pick(given, "value", of=dict) or given
        tool = pick(value, "name", of=str) or "unknown"
        args = value.get("arguments")
        call = calls.describe(
            tool, args, action_of(tool, args, pick(block, "_meta", "goose_extension", of=str))
        )
        call_id = identifier(block.get("id"))
        if "error" in given:
            call.body = text_of(given["error"])
        self.emit_call(call, "toolRequest", call_id, is_error="error" in given)
        self.remember_call(call_id, call)

    def result(self, block: dict[str, Any]) -> None:
        call_id = identifier(block.get("id"))
        call = self.state.calls.get(call_id or "") or Call("unknown", "other")
        given = pick(block, "toolResult", of=dict) or {}
        value = given.get("value")
        text = text_of(given["error"]) if "error" in given else shown(value)
        code = exit_code(value, text, call.action)
        came = calls.build_result(text, is_failed(given), code, call.is_test)
        by_person = refusal(text)
        below = clean(pick(value, "_meta", "subagent_session_id", of=str) or "")
        self.emit(
            "human_intervention" if by_person else "tool_result", came.text,
            f"toolResponse/{by_person}" if by_person else "toolResponse", came.summary, "tool",
            call.tool, call_id, call.action,
            is_error=not by_person and (came.is_error or bool(came.exit_code)),
            exit_code=came.exit_code,
            tests=came.tests, refs=(self.uid(below),) if below else (),
        )  # fmt: skip

    def question(self, block: dict[str, Any]) -> None:
        """Add a question to a person, or the answer."""
        data = pick(block, "data", of=dict) or block
        word = pick(data, "actionType", of=str) or pick(block, "type", of=str) or "question"
        tool = pick(data, "toolName", of=str)
        question = pick(data, "prompt", of=str) or pick(data, "message", of=str) or tool or word
        body = key_values(
            {name: item for name, item in data.items() if name not in ("type", "id", "actionType")}
        )
        self.emit(
            "decision",
            body,
            word[:100],
            one_line(question),
            "user",
            tool,
            identifier(data.get("id")) or identifier(block.get("id")),
        )

    def noted(self, block: dict[str, Any]) -> None:
        word = (pick(block, "notificationType", of=str) or "note")[:100]
        self.emit(
            "lifecycle", text_of(block.get("msg")), f"systemNotification/{word}", None, "system"
        )

    # Tokens.

    def used(self, about: dict[str, Any]) -> None:
        """Bill the request of a message, together with the row of the ledger that has the same
        counts."""
        given = pick(about, "usage", of=dict)
        if given is None:
            return
        used = usage(
            *(
                given.get(word)
                for word in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
            )
        )
        event = self.charge(used, self.state.model) if used.total else None
        if event is None:
            return
        state, counts = self.state, counted(used)
        match = next((request for request in state.requests if request[2] == counts), None)
        if match is None:
            state.waiting = [*state.waiting[1 - PENDING :], (event, counts)]
            return
        state.requests = [request for request in state.requests if request is not match]
        self.bill(match[0], used, match[1], self.ts, event)


def usage(given: Any, out: Any, read: Any, wrote: Any) -> Usage:
    """Return the usage in buckets that do not overlap: the prompt includes the tokens that were
    read from and written to the cache."""
    prompt, answer, cached, stored = (number(count) or 0 for count in (given, out, read, wrote))
    return Usage(
        input_tokens=max(0, prompt - cached - stored), output_tokens=answer,
        cache_read_tokens=min(cached, prompt),
        cache_write_tokens=min(stored, max(0, prompt - cached)),
    )  # fmt: skip


def counted(used: Usage) -> tuple[int, ...]:
    return used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens


def is_failed(result: dict[str, Any]) -> bool:
    """Return True if a result is an error."""
    if result.get("status") == "error" or "error" in result:
        return True
    return pick(result.get("value"), "isError", of=bool) is True


def exit_code(value: Any, text: str, action: str) -> int | None:
    """Return the exit code of a command: its own field, else the one in its output."""
    code = pick(value, "structuredContent", "exit_code", of=int)
    match = _EXIT.search(text) if code is None and action == "shell" else None
    return int(match[1]) if match else code


def refusal(text: str) -> str | None:
    """Return the way in which a person ended a call, or None."""
    if STOPPED in text[:200]:
        return "interrupted"
    return "declined" if text.startswith(REFUSED) else None


def action_of(tool: str, args: Any, extension: str | None) -> str:
    """Return the action of a tool. A tool of another program's extension is `mcp`."""
    server, _, bare = tool.rpartition("__")
    owner = server or extension or "developer"
    if owner not in OWN and bare not in ACTIONS:
        return "mcp"
    action = ACTIONS.get(bare, "other")
    return (
        "read"
        if action == "edit" and pick(args, "command", of=str) == "view"
        else action
        if owner in OWN
        else "mcp"
    )


def shown(value: Any) -> str:
    """Return the output of a tool for reading. Older versions have the list itself."""
    content = value.get("content") if isinstance(value, dict) and "content" in value else value
    if not isinstance(content, list):
        return text_of(content)
    parts = []
    for part in content:
        text, data = pick(part, "text", of=str), pick(part, "data", of=str)
        inner = pick(part, "resource", "text", of=str)
        parts.append(
            text
            if text is not None
            else inner
            if inner is not None
            else blob_reference(data)
            if data
            else text_of(part)
        )
    return "\n".join(parts)


Handler = Callable[[Reader, dict[str, Any]], None]

BLOCKS: dict[str, Handler] = {
    "thinking": Reader.thought,
    "redactedThinking": Reader.redacted,
    "image": Reader.picture,
    "toolRequest": Reader.call,
    "frontendToolRequest": Reader.call,
    "toolResponse": Reader.result,
    "toolConfirmationRequest": Reader.question,
    "actionRequired": Reader.question,
    "systemNotification": Reader.noted,
}
GIVEN = {"toolCall": "toolRequest", "toolResult": "toolResponse", "thinking": "thinking",
"notificationType": "systemNotification",
         "mimeType": "image"}  # fmt: skip
