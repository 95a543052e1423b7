"""The words of Grok Build's transcripts, and what can be told from them alone: pure functions,
mostly from text to text."""

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
    """Return the tool, kind and action of a call, its text for reading and search, one line of it,
    and the files it names."""
    given = update.get("rawInput")
    args = given if isinstance(given, dict) else {}
    tool, word = tool_of(update, args)
    if (inner := pick(args, "tool_name", of=str)) and "tool_input" in args:
        tool, word = inner, "mcp"
        args = {"tool_name": inner, **_arguments(args["tool_input"])}
    action = action_of(tool, word, update)
    files = _files(update, args) if action in ON_FILES else ()
    if action == "edit" and not files:
        files = tuple(dict.fromkeys(_PATCHED.findall(_patch(args) or "")))[:100]
    plain = {name: value for name, value in args.items() if name != "variant"}
    command = pick(args, "command", of=str)
    headline = _headline(args) or (given if isinstance(given, str) else None)
    if action == "shell" and command is not None:
        kind, body = "test_run" if is_test_run(command) else "tool_call", command
    elif action == "edit":
        kind, body, headline = (
            "edit",
            _change(update, args) or key_values(plain),
            files[0] if files else headline,
        )
    else:
        kind, body = "tool_call", key_values(plain) or text_of(given)
    title = pick(update, "title", of=str) or tool
    return Described(
        tool, kind, action, body or title, one_line(headline or title), files, bool(given)
    )


def tool_of(update: dict[str, Any], args: dict[str, Any]) -> tuple[str, str]:
    """The name of the tool and its kind. Older lines have the name only as the title, or not at
    all."""
    about = pick(update, "_meta", "x.ai/tool", of=dict) or {}
    word = pick(update, "kind", of=str) or pick(about, "kind", of=str) or ""
    title = pick(update, "title", of=str) or ""
    name = pick(about, "name", of=str) or VARIANTS.get(pick(args, "variant", of=str) or "")
    return (
        name or (title if _IDENTIFIER.match(title) else word) or "unknown",
        pick(about, "kind", of=str) or word,
    )


def action_of(tool: str, word: str, update: dict[str, Any]) -> str:
    namespace = pick(update, "_meta", "x.ai/tool", "namespace", of=str) or ""
    is_mcp = namespace.startswith("mcp") or tool.startswith("mcp__")
    return ACTIONS.get(tool.lower()) or ("mcp" if is_mcp else KINDS.get(word, "other"))


def describe_named(tool: str, arguments: Any) -> Described:
    """Return the description of a call that is written as a name and its arguments."""
    return describe_call(
        {
            "title": tool,
            "rawInput": _arguments(arguments) or arguments,
            "_meta": {"x.ai/tool": {"name": tool}},
        }
    )


def _arguments(value: Any) -> dict[str, Any]:
    """Arguments may be JSON within JSON."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _files(update: dict[str, Any], args: dict[str, Any]) -> tuple[str, ...]:
    named = [args[name] for name in _PATHS if isinstance(args.get(name), str)]
    named += [
        pick(place, "path", of=str) for place in (pick(update, "locations", of=list) or [])[:100]
    ]
    return tuple(dict.fromkeys(path for path in named if path))


def _headline(args: dict[str, Any]) -> str | None:
    """The argument that says most: a known one, else the first that is a text."""
    known = (args[name] for name in _HEADLINES if name in args)
    texts = (value for name, value in args.items() if name != "variant")
    return next(
        (value for found in (known, texts) for value in found if isinstance(value, str) and value),
        None,
    )


def _change(update: dict[str, Any], args: dict[str, Any]) -> str | None:
    """The path and the lines that change; a patch as it is."""
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
    """A block of content for reading: its text, or what stands for what is no text."""
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
    """Return True if a person refused. The same words in the output of a command mean nothing."""
    return exit_code is None and text.startswith(REFUSALS)


def _is_refused(about: dict[str, Any]) -> bool:
    """An edit names what became of it by a field: `EditsApplied`, or why it could not be made."""
    if about.get("type") not in ("SearchReplace", "HashlineEdit", "ApplyPatch"):
        return False
    words = [name for name in about if name[:1].isupper()]
    return bool(words) and not any(
        "Applied" in word or "Created" in word or "Written" in word for word in words
    )


def _loose_text(raw: Any) -> str:
    """The output when no field is made for reading. Bytes that are written as numbers are counted,
    never read: what finds secrets in a record does not see them."""
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
    """A line in which outputs that are written a second time, byte by byte, are replaced by how
    long they were."""
    parts: list[bytes] = []
    done = 0
    for found in _BYTES.finditer(line):
        end = line.find(b"]", found.end())
        numbers = line[found.end() : end]
        # Looking at each number by a pattern takes ten times as long, and these lists are half of a
        # file.
        if end > 0 and numbers.strip() and not numbers.translate(None, b"0123456789, \t"):
            parts += [line[done : found.end() - 1], b'"[%d bytes]"' % (numbers.count(b",") + 1)]
            done = end + 1
    return b"".join([*parts, line[done:]]) if parts else line


def slim(line: bytes) -> bytes:
    """A line in which what is not text is replaced by a short reference."""
    line = without_bytes(line) if b'"output"' in line else line
    line = without_data_urls(line) if b";base64," in line else line
    return without_base64(line) if b'"data"' in line else line


def without_data_urls(line: bytes) -> bytes:
    return _DATA_URL.sub(
        lambda found: b'"%s"' % blob_reference(found[1].replace(b"\\", b"")).encode(), line
    )


def result_summary(text: str, exit_code: int | None, tests: Tests | None) -> str:
    if tests is not None:
        counts = (("passed", tests.passed), ("failed", tests.failed), ("skipped", tests.skipped))
        return ", ".join(f"{count} {word}" for word, count in counts if count) or "no tests"
    said = one_line(text.removeprefix(f"exit: {exit_code}\n"))
    return (
        f"exit {exit_code}: {said}"
        if exit_code and said
        else f"exit {exit_code}"
        if exit_code
        else said
    )


def usage_of(counts: dict[str, Any]) -> Usage:
    """Input includes what was read from the cache and written to it; buckets here do not
    overlap."""
    given, read, written = (
        number(counts.get(name)) or 0
        for name in ("inputTokens", "cachedReadTokens", "cacheCreationTokens")
    )
    said, thought = (
        number(counts.get("outputTokens")) or 0,
        number(counts.get("reasoningTokens")) or 0,
    )
    return Usage(
        input_tokens=max(0, given - read - written),
        output_tokens=said,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(thought, said),
    )


TICK = 100
"""Of 1e-12 USD: ten thousand million ticks are a dollar."""


def ticks_of(counts: dict[str, Any]) -> int | None:
    """Return the invoiced amount; None when it is not told, which is not the same as nothing."""
    return number(counts.get("costUsdTicks"), 1 << 62)


def bill_of(counts: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the exact invoiced amount, as fields that an event carries beside its own. An
    incomplete bill says so."""
    bill: dict[str, Any] = {}
    ticks = ticks_of(counts)
    if ticks is not None:
        bill["cost_usd_ticks"] = ticks
    if whole.get("usageIsIncomplete") is True or counts.get("costIsPartial") is True:
        bill["cost_is_partial"] = True
    return bill


def by_model(usage: dict[str, Any]) -> list[tuple[str | None, dict[str, Any]]]:
    """The counts of a turn, model by model where the parts make up the whole, else as they are."""
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
    """Return what a person typed, and what the program put before it."""
    start = 0
    while found := _WRAPPER.match(text, start):
        end = text.find(f"</{found[1]}>", found.end())
        if end < 0:
            break
        start = end + len(found[1]) + 3
    rest = text[start:].strip() if start else text
    if rest.lstrip().startswith(_QUERY[0]) and rest.rstrip().endswith(_QUERY[1]):
        rest = rest.strip()[len(_QUERY[0]) : -len(_QUERY[1])].strip()
    return rest, text[:start].strip()


def is_tagged(text: str) -> bool:
    """Return True if a text begins with a tag, as all text does that the program writes in a
    person's place."""
    return _TAG.match(text) is not None


def update_in(line: bytes) -> dict[str, Any]:
    """The update of a line, or nothing when it cannot be read at once."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return pick(value, "params", "update", of=dict) or pick(value, "update", of=dict) or {}


def file_name(path: str | None) -> str | None:
    """The last part of a path, of whatever system, when it can be nothing but the name of a
    file."""
    name = (path or "").replace("\\", "/").rpartition("/")[2]
    return name if name.strip(".") and len(name) < 250 and name.isprintable() else None


def identifier(value: Any) -> str | None:
    """The id of a call. A longer one than any agent makes stands for itself by its hash."""
    if not isinstance(value, str) or not value:
        return None
    return (
        value
        if len(value) <= 200
        else blake2b(value.encode("utf-8", "replace"), digest_size=16).hexdigest()
    )


def summary_in(checkpoint: str | None) -> str | None:
    """Return the summary that replaces what was compacted: the messages of the file that say they
    are it."""
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
    """The exit code that the model is told before a command's output."""
    found = _EXIT.match(text)
    return int(found[1]) if found else None
