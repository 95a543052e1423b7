"""The vocabulary of Grok Build's transcripts: tools, blocks of content, results, usage. Pure."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import msgspec

from ...model import Tests, Usage
from ..shared.jsonl import parse
from ..shared.pick import number, pick
from ..shared.tools import (
    blob_reference,
    file_change,
    file_content,
    is_test_run,
    key_values,
    one_line,
    text_of,
    without_base64,
)

ACTIONS = {
    **dict.fromkeys(
        ("run_terminal_command", "run_terminal_cmd", "bash", "shell", "kill_task", "monitor"),
        "shell",
    ),
    **dict.fromkeys(("read_file", "read_image", "view_image"), "read"),
    **dict.fromkeys(
        (
            "search_replace",
            "write",
            "write_file",
            "apply_patch",
            "hashline_edit",
            "delete_file",
            "edit_file",
        ),
        "edit",
    ),
    **dict.fromkeys(
        ("grep", "glob", "list_dir", "codebase_search", "file_search", "search_tool"), "search"
    ),
    **dict.fromkeys(("web_search", "web_fetch", "x_search", "open_page"), "web"),
    **dict.fromkeys(
        ("task", "task_output", "spawn_subagent", "workflow", "get_command_or_subagent_output"),
        "agent",
    ),
    **dict.fromkeys(
        ("todo_write", "enter_plan_mode", "exit_plan_mode", "ask_user_question", "update_goal"),
        "plan",
    ),
    **dict.fromkeys(("use_tool", "mcp_tool"), "mcp"),
}
KINDS = {
    "execute": "shell", "read": "read", "edit": "edit", "delete": "edit", "move": "edit",
    "search": "search", "fetch": "web",
    "web_search": "web", "task": "agent", "plan": "plan", "switch_mode": "plan", "mcp": "mcp",
}  # fmt: skip
"""The kinds of calls in the Agent Client Protocol, and the agent's own."""
VARIANTS = {
    "Bash": "run_terminal_command", "ReadFile": "read_file", "SearchReplace": "search_replace",
    "Write": "write",
    "ApplyPatch": "apply_patch", "HashlineEdit": "hashline_edit", "Grep": "grep",
    "ListDir": "list_dir", "TodoWrite": "todo_write",
    "Task": "task", "TaskOutput": "task_output", "WebSearch": "web_search", "WebFetch": "web_fetch",
    "Workflow": "workflow",
    "AskUserQuestion": "ask_user_question", "EnterPlanMode": "enter_plan_mode",
    "ExitPlanMode": "exit_plan_mode",
    "MCPTool": "use_tool", "UseTool": "use_tool", "Monitor": "monitor",
}  # fmt: skip
ASKS = frozenset({"ask_user_question", "exit_plan_mode"})
REFUSALS = ("User cancelled the execution for tool", "User rejected")
ON_FILES = frozenset({"read", "edit", "search"})
_PATHS = ("file_path", "target_file", "path", "target_directory")
_HEADLINES = (
    "command",
    "pattern",
    "query",
    *_PATHS,
    "url",
    "description",
    "prompt",
    "objective",
    "skill",
    "name",
)
_IDENTIFIER = re.compile(r"[A-Za-z][\w.:/-]{0,99}\Z")


class Described(msgspec.Struct, gc=False):
    tool: str
    kind: str
    action: str
    body: str
    summary: str
    files: tuple[str, ...]
    has_input: bool


def describe_call(update: dict[str, Any]) -> Described:
    """Return what a call does: tool, kind and action, its text for reading and search, one line of
    it, and the files it names."""
    given = update.get("rawInput")
    args = given if isinstance(given, dict) else {}
    tool, word = tool_of(update, args)
    if (inner := pick(args, "tool_name", of=str)) and "tool_input" in args:
        tool, word = inner, "mcp"
        args = {"tool_name": inner, **_arguments(args["tool_input"])}
    action = action_of(tool, word, update)
    files = _files(update, args, action)
    kind, body = _kind_and_body(update, args, action)
    headline = _headline(args) or (given if isinstance(given, str) else None)
    if action == "edit" and files:
        headline = files[0]
    title = pick(update, "title", of=str) or tool
    return Described(
        tool, kind, action, body or title, one_line(headline or title), files, bool(given)
    )


def _kind_and_body(update: dict[str, Any], args: dict[str, Any], action: str) -> tuple[str, str]:
    """Return the kind of a call, and its text: a command, a change, or its arguments."""
    command = pick(args, "command", of=str)
    if action == "shell" and command is not None:
        return "test_run" if is_test_run(command) else "tool_call", command
    plain = {name: value for name, value in args.items() if name != "variant"}
    if action == "edit":
        return "edit", _change(update, args) or key_values(plain)
    return "tool_call", key_values(plain) or text_of(update.get("rawInput"))


def tool_of(update: dict[str, Any], args: dict[str, Any]) -> tuple[str, str]:
    """Return the name of the tool and its kind. Older lines have the name only as the title, or not
    at all."""
    about = pick(update, "_meta", "x.ai/tool", of=dict) or {}
    word = pick(update, "kind", of=str) or pick(about, "kind", of=str) or ""
    title = pick(update, "title", of=str) or ""
    name = pick(about, "name", of=str) or VARIANTS.get(pick(args, "variant", of=str) or "")
    return (
        name or (title if _IDENTIFIER.match(title) else word) or "unknown",
        pick(about, "kind", of=str) or word,
    )


def action_of(tool: str, word: str, update: dict[str, Any]) -> str:
    """Return the action of a tool, by its name or by the kind of the call."""
    namespace = pick(update, "_meta", "x.ai/tool", "namespace", of=str) or ""
    is_mcp = namespace.startswith("mcp") or tool.startswith("mcp__")
    return ACTIONS.get(tool.lower()) or ("mcp" if is_mcp else KINDS.get(word, "other"))


def describe_named(tool: str, arguments: Any) -> Described:
    """Return the same for a call that is written as a name and its arguments."""
    return describe_call(
        {
            "title": tool,
            "rawInput": _arguments(arguments) or arguments,
            "_meta": {"x.ai/tool": {"name": tool}},
        }
    )


def _arguments(value: Any) -> dict[str, Any]:
    """Return arguments, which may be JSON within JSON."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _files(update: dict[str, Any], args: dict[str, Any], action: str) -> tuple[str, ...]:
    """Return the files that a call names; those of its patch where it names no other."""
    if action not in ON_FILES:
        return ()
    named = [args[name] for name in _PATHS if isinstance(args.get(name), str)]
    named += [
        pick(place, "path", of=str) for place in (pick(update, "locations", of=list) or [])[:100]
    ]
    files = tuple(dict.fromkeys(path for path in named if path))
    if files or action != "edit":
        return files
    return tuple(dict.fromkeys(_PATCHED.findall(_patch(args) or "")))[:100]


def _headline(args: dict[str, Any]) -> str | None:
    """Return the argument that says most: a known one, else the first that is a text."""
    known = [args[name] for name in _HEADLINES if name in args]
    others = [value for name, value in args.items() if name != "variant"]
    texts = (value for value in (*known, *others) if isinstance(value, str) and value)
    return next(texts, None)


def _change(update: dict[str, Any], args: dict[str, Any]) -> str | None:
    """Return the path and the lines that change; a patch as it is."""
    path = text_of(next((args[name] for name in _PATHS if name in args), ""))
    if patch := _patch(args):
        return patch
    if "old_string" in args or "new_string" in args:
        return file_change(
            path, [(text_of(args.get("old_string")), text_of(args.get("new_string")))]
        )
    for name in ("content", "contents"):
        if (content := pick(args, name, of=str)) is not None:
            return file_content(path, content)
    return "\n".join(shown for item in contents(update) if (shown := _diff(item))) or None


_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,1000})$", re.MULTILINE)


def _patch(args: dict[str, Any]) -> str | None:
    return pick(args, "patch", of=str) or pick(args, "input", of=str)


def contents(update: dict[str, Any]) -> list[Any]:
    return listed(update.get("content"))


def _diff(item: Any) -> str | None:
    if pick(item, "type", of=str) != "diff":
        return None
    return file_change(
        text_of(item.get("path")), [(text_of(item.get("oldText")), text_of(item.get("newText")))]
    )


def block_text(block: Any) -> str:
    """Return a block of content for reading: its text, or a short reference."""
    if not isinstance(block, dict):
        return text_of(block)
    if (text := pick(block, "text", of=str)) is not None:
        return text
    if isinstance(block.get("content"), dict):
        return block_text_once(block["content"])
    return _diff(block) or block_text_once(block)


def is_text(block: Any) -> bool:
    return isinstance(block, str) or pick(block, "text", of=str) is not None


def block_text_once(block: dict[str, Any]) -> str:
    for path in (("text",), ("resource", "text")):
        if (text := pick(block, *path, of=str)) is not None:
            return text
    data = (
        pick(block, "data", of=str)
        or pick(block, "resource", "blob", of=str)
        or pick(block, "url", of=str)
    )
    if data is not None:
        return (
            blob_reference(data.partition(";base64,")[2])
            if data.startswith("data:")
            else _blob(data)
        )
    kind = pick(block, "type", of=str) or "unknown"
    where = (
        pick(block, "uri", of=str)
        or pick(block, "resource", "uri", of=str)
        or pick(block, "terminalId", of=str)
        or ""
    )
    return f"[{kind}{' ' + where if where else ''}]"


def _blob(data: str) -> str:
    return (
        f"[{data}]" if data.startswith(("http://", "https://", "file:")) else blob_reference(data)
    )


class Outcome(msgspec.Struct, gc=False):
    text: str
    is_error: bool
    exit_code: int | None
    cwd: str | None


def outcome_of(update: dict[str, Any], log: str | None) -> Outcome:
    """Return the result of a call. `log` is the whole output of a command, where the record has
    only a part of it."""
    raw = update.get("rawOutput")
    about = raw if isinstance(raw, dict) else {}
    exit_code = exit_number(about.get("exit_code", about.get("exitCode")))
    is_killed = about.get("timed_out") is True or bool(about.get("signal"))
    is_error = (
        pick(update, "status", of=str) == "failed"
        or bool(exit_code)
        or is_killed
        or _is_refused(about)
    )
    text = (
        log
        or pick(about, "output_for_prompt", of=str)
        or "\n".join(block_text(item) for item in contents(update))
    )
    return Outcome(
        text or _loose_text(raw), is_error, exit_code, pick(about, "current_dir", of=str)
    )


def exit_number(code: Any) -> int | None:
    return code if type(code) is int and abs(code) < 1 << 31 else None


def is_refusal(text: str, exit_code: int | None) -> bool:
    """Return True if a person refused the call. The same words in a command's output do not
    count."""
    return exit_code is None and text.startswith(REFUSALS)


def _is_refused(about: dict[str, Any]) -> bool:
    """Return True if an edit was refused. A field of its result names its outcome: `EditsApplied`,
    or the reason why it was not possible."""
    if about.get("type") not in ("SearchReplace", "HashlineEdit", "ApplyPatch"):
        return False
    words = [name for name in about if name[:1].isupper()]
    return bool(words) and not any(
        "Applied" in word or "Created" in word or "Written" in word for word in words
    )


def _loose_text(raw: Any) -> str:
    """Return the output when no field is meant for reading. Bytes that are written as numbers are
    counted, never read: redaction cannot see secrets in them."""
    if not isinstance(raw, dict):
        return text_of(raw)
    plain = {
        name: f"[{len(value)} bytes]" if is_bytes(value) else value
        for name, value in raw.items()
        if name != "type"
    }
    texts = [
        plain[name]
        for name in ("output", "error", "message", "content")
        if isinstance(plain.get(name), str)
    ]
    return "\n".join(texts) if texts else key_values(plain)


def is_bytes(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(type(item) is int for item in value)


_BYTES = re.compile(rb'"output"\s*:\s*\[')
_DATA_URL = re.compile(rb'"data:[^",;]{0,100};base64,([A-Za-z0-9+/\\]{256,}={0,2})"')


def without_bytes(line: bytes) -> bytes:
    """Return a line in which outputs that are repeated as a list of bytes are replaced by their
    length."""
    parts: list[bytes] = []
    done = 0
    for match in _BYTES.finditer(line):
        end = line.find(b"]", match.end())
        numbers = line[match.end() : end]
        # Not by a pattern, which is much slower: these lists are half of a file.
        if end > 0 and numbers.strip() and not numbers.translate(None, b"0123456789, \t"):
            parts += [line[done : match.end() - 1], b'"[%d bytes]"' % (numbers.count(b",") + 1)]
            done = end + 1
    return b"".join([*parts, line[done:]]) if parts else line


def slim(line: bytes) -> bytes:
    """Return a line in which data that is no text is replaced by short references."""
    line = without_bytes(line) if b'"output"' in line else line
    line = without_data_urls(line) if b";base64," in line else line
    return without_base64(line) if b'"data"' in line else line


def without_data_urls(line: bytes) -> bytes:
    return _DATA_URL.sub(
        lambda match: b'"%s"' % blob_reference(match[1].replace(b"\\", b"")).encode(), line
    )


def result_summary(text: str, exit_code: int | None, tests: Tests | None) -> str:
    if tests is not None:
        counts = (("passed", tests.passed), ("failed", tests.failed), ("skipped", tests.skipped))
        return ", ".join(f"{count} {word}" for word, count in counts if count) or "no tests"
    line = one_line(text.removeprefix(f"exit: {exit_code}\n"))
    if not exit_code:
        return line
    return f"exit {exit_code}: {line}" if line else f"exit {exit_code}"


def usage_of(counts: dict[str, Any]) -> Usage:
    """Return the usage in buckets that do not overlap: the input includes the tokens that were read
    from and written to the cache."""
    names = (
        "inputTokens",
        "cachedReadTokens",
        "cacheCreationTokens",
        "outputTokens",
        "reasoningTokens",
    )
    sent, read, written, received, reasoned = (number(counts.get(name)) or 0 for name in names)
    return Usage(
        input_tokens=max(0, sent - read - written),
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(reasoned, received),
    )


TICK = 100
"""One tick in units of 1e-12 USD: ten thousand million ticks are a dollar."""


def ticks_of(counts: dict[str, Any]) -> int | None:
    """Return the invoiced amount; None when it is not written, which is not the same as 0."""
    return number(counts.get("costUsdTicks"), 1 << 62)


def bill_of(counts: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the exact invoiced amount as extra fields of an event, with a mark when it is
    incomplete."""
    bill: dict[str, Any] = {}
    ticks = ticks_of(counts)
    if ticks is not None:
        bill["cost_usd_ticks"] = ticks
    if whole.get("usageIsIncomplete") is True or counts.get("costIsPartial") is True:
        bill["cost_is_partial"] = True
    return bill


def by_model(usage: dict[str, Any]) -> list[tuple[str | None, dict[str, Any]]]:
    """Return the counts of a turn, by model where these add up to the whole, else as they are."""
    parts = pick(usage, "modelUsage", of=dict) or {}
    rows = [
        (model[:200], counts)
        for model, counts in list(parts.items())[:100]
        if isinstance(counts, dict)
    ]
    if len(rows) == 1:
        return [(rows[0][0], usage)]
    names = (
        "inputTokens",
        "outputTokens",
        "cachedReadTokens",
        "cacheCreationTokens",
        "costUsdTicks",
    )
    adds_up = all(
        sum(number(row.get(name), 1 << 62) or 0 for _, row in rows)
        == (number(usage.get(name), 1 << 62) or 0)
        for name in names
    )
    return list(rows) if rows and adds_up else [(None, usage)]


_WRAPPER = re.compile(
    r"\s*<(fork-context|resume-context|background_context|user_info|system-reminder)\b"
)
_QUERY = ("<user_query>", "</user_query>")
_TAG = re.compile(r"\s*<[a-z][a-z_-]*[ >]")


def unwrap(text: str) -> tuple[str, str]:
    """Return the text that a person typed, and the text that the program put before it."""
    start = 0
    while match := _WRAPPER.match(text, start):
        end = text.find(f"</{match[1]}>", match.end())
        if end < 0:
            break
        start = end + len(match[1]) + 3
    rest = text[start:].strip() if start else text
    if rest.lstrip().startswith(_QUERY[0]) and rest.rstrip().endswith(_QUERY[1]):
        rest = rest.strip()[len(_QUERY[0]) : -len(_QUERY[1])].strip()
    return rest, text[:start].strip()


def is_tagged(text: str) -> bool:
    """Return True if a text begins with a tag, like all texts of the program with the role of the
    user."""
    return _TAG.match(text) is not None


def update_in(line: bytes) -> dict[str, Any]:
    """Return the update of a line; empty when the line is damaged."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return pick(value, "params", "update", of=dict) or pick(value, "update", of=dict) or {}


def file_name(path: str | None) -> str | None:
    """Return the last part of a path of any system, if it can only be the name of a file."""
    name = (path or "").replace("\\", "/").rpartition("/")[2]
    return name if name.strip(".") and len(name) < 250 and name.isprintable() else None


def identifier(value: Any) -> str | None:
    """Return the id of a call; one that is longer than any agent makes is replaced by its hash."""
    if not isinstance(value, str) or not value:
        return None
    return (
        value
        if len(value) <= 200
        else blake2b(value.encode("utf-8", "replace"), digest_size=16).hexdigest()
    )


def summary_in(checkpoint: str | None) -> str | None:
    """Return the summary of a compaction: the messages of its checkpoint that are marked as
    that."""
    value = update_of(checkpoint)
    texts = [
        "\n".join(block_text(block) for block in contents(item))
        for item in pick(value, "compacted_history", of=list) or []
        if pick(item, "synthetic_reason", of=str) == "compaction_meta"
    ]
    return "\n\n".join(texts) or None


def update_of(text: str | None) -> dict[str, Any]:
    return (
        next(
            (
                value
                for value, _, _ in parse(text.encode("utf-8", "replace"))
                if isinstance(value, dict)
            ),
            {},
        )
        if text
        else {}
    )


def hook_line(run: dict[str, Any]) -> str:
    status = pick(run, "status", of=dict) or {}
    parts = [
        text_of(run.get("name")),
        pick(status, "status", of=str) or "unknown",
        text_of(status.get("error")),
    ]
    return ": ".join(part for part in parts if part)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


_EXIT = re.compile(r"(?:exit|exit code|Exit code):? (-?\d{1,9})\s*(?:\n|\Z)")


def exit_in(text: str) -> int | None:
    """Return the exit code that comes before a command's output in the model's context."""
    match = _EXIT.match(text)
    return int(match[1]) if match else None
