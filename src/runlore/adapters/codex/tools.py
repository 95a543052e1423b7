"""The tools of Codex: what a call does, which files a patch changes, what an output tells of how
the call ended.

Pure functions from text to values. Nothing here knows which thread a record belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...model import Tests
from ..shared.pick import clean
from ..shared.tools import file_content, is_test_run, key_values, one_line, text_of
from .words import exit_number, milliseconds

_ACTIONS = {
    **dict.fromkeys(
        (
            "exec_command",
            "shell",
            "shell_command",
            "local_shell",
            "write_stdin",
            "exec",
            "wait",
            "container.exec",
        ),
        "shell",
    ),
    **dict.fromkeys(("read_file", "view_image", "read_mcp_resource"), "read"),
    **dict.fromkeys(
        ("grep_files", "list_dir", "tool_search", "list_mcp_resources", "file_search"), "search"
    ),
    **dict.fromkeys(("web_search", "web.run"), "web"),
    **dict.fromkeys(
        (
            "spawn_agent",
            "wait_agent",
            "send_input",
            "close_agent",
            "resume_agent",
            "send_message",
            "followup_task",
            "list_agents",
        ),
        "agent",
    ),
    **dict.fromkeys(("update_plan", "request_user_input"), "plan"),
    "apply_patch": "edit",
}
PLANS = frozenset({"update_plan"})
ASKS = frozenset({"request_user_input"})
STARTS_AGENT = frozenset({"spawn_agent"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "fish", "pwsh", "powershell", "cmd"})
_TO_RUN = frozenset({"-lc", "-c", "-ic", "-command", "/c"})
_HEADLINES = (
    "path",
    "query",
    "url",
    "question",
    "title",
    "target",
    "task_name",
    "message",
    "session_id",
)
_NESTED = re.compile(r"""\bcmd["']?\s{0,9}:\s{0,9}(["'`])""")
_QUOTED = {quote: re.compile(rf"(?s:[^{quote}\\]|\\.)*+{quote}") for quote in "\"'`"}
_PROGRAM = 1 << 20  # Characters of a program in which commands are looked for.
_PATCH = "*** Begin Patch"
_SEPARATORS = re.compile(r"[/\\]")


class Described(msgspec.Struct, gc=False):
    kind: str
    tool: str
    action: str
    body: str
    summary: str
    files: tuple[str, ...] = ()
    cwd: str | None = None


def describe_call(
    name: str | None, namespace: str | None, args: str | dict[str, Any] | None
) -> Described:
    """Return the kind and action of a call, its text for reading and search, one line of it, and
    the files and the folder it names."""
    tool, action = _tool_and_action((name or "unknown")[:200], namespace or "")
    values = arguments(args)
    if action == "edit" or (action == "shell" and values is None):
        return _from_text(
            tool,
            action,
            args if isinstance(args, str) and values is None else _patch_in(values or {}),
        )
    if values is None:
        text = args if isinstance(args, str) else ""
        return Described("tool_call", tool, action, text, one_line(text) or tool)
    return _from_values(tool, action, values)


def _tool_and_action(tool: str, namespace: str) -> tuple[str, str]:
    """Return the full name of a tool, and its action. A tool of a server has the server's name in
    front."""
    if not namespace.startswith("mcp__") and not tool.startswith("mcp__"):
        return tool, _ACTIONS.get(tool, "other")
    return f"{namespace}__{tool}" if namespace else tool, "mcp"


def _from_values(tool: str, action: str, values: dict[str, Any]) -> Described:
    if action == "shell" and (command := command_in(values)) is not None:
        return _shell(tool, command, values)
    body = key_values(values)
    if tool in PLANS:
        return Described(
            "decision",
            tool,
            action,
            plan_text(values) or body,
            one_line(_current_step(values) or body),
        )
    files = (
        (path,) if action == "read" and isinstance(path := values.get("path"), str) and path else ()
    )
    return Described("tool_call", tool, action, body, one_line(_headline(values) or tool), files)


def arguments(args: str | dict[str, Any] | None) -> dict[str, Any] | None:
    """The arguments of a call, which are written as JSON in a text; None when they are no
    object."""
    if isinstance(args, dict):
        return args
    if not args or not args.lstrip().startswith("{"):
        return None
    try:
        values = msgspec.json.decode(args)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def command_in(values: Mapping[str, Any]) -> str | None:
    """The command line of a shell call."""
    command = values.get("cmd", values.get("command"))
    if isinstance(command, str):
        return command
    if isinstance(command, list) and command:
        return command_line(command)
    keys = values.get("chars")  # Keys that are sent to a command which is still running.
    return keys if isinstance(keys, str) and "session_id" in values else None


def command_line(words: list[Any]) -> str:
    """A list of words as it would be typed; of a shell's `-c`, what it is told to run."""
    parts = [text_of(word) for word in words]
    if (
        len(parts) > 2
        and parts[-2].lower() in _TO_RUN
        and _SEPARATORS.split(parts[0].lower())[-1].removesuffix(".exe") in _SHELLS
    ):
        return parts[-1]
    return " ".join(f"'{part}'" if " " in part or "\n" in part else part for part in parts)


def _shell(tool: str, command: str, values: Mapping[str, Any]) -> Described:
    folder = values.get("workdir", values.get("working_directory"))
    cwd = folder if isinstance(folder, str) and folder else None
    # Only a patch that is applied, and not one that is printed or searched for.
    if _PATCH in command and "apply_patch" in command[: command.index(_PATCH)]:
        found = _from_text(tool, "edit", command[command.index(_PATCH) :])
        found.cwd = cwd
        return found
    kind = "test_run" if is_test_run(command) else "tool_call"
    summary = one_line(command) or (
        f"session {text_of(values['session_id'])}" if "session_id" in values else tool
    )
    return Described(kind, tool, "shell", command, summary, (), cwd)


def _from_text(tool: str, action: str, text: str) -> Described:
    """A call whose only argument is a text: a patch, or a program that calls other tools."""
    if action == "edit" or text.lstrip().startswith(_PATCH):
        body, files = patch_body(text)
        return Described("edit", tool, "edit", body, one_line(", ".join(files) or text), files)
    commands = [_unquoted(command) for command in _nested(text[:_PROGRAM])]
    kind = "test_run" if any(is_test_run(command) for command in commands) else "tool_call"
    return Described(kind, tool, action, text, one_line(commands[0] if commands else text))


def _nested(program: str) -> Iterator[str]:
    """The commands that a program has run, as it quotes them. A quote that is never closed is
    looked for once: this is linear."""
    unclosed, at = set[str](), 0
    while begin := _NESTED.search(program, at):
        at, quote = begin.end(), begin[1]
        end = _QUOTED[quote].match(program, at) if quote not in unclosed else None
        if end is None:
            unclosed.add(quote)
        else:
            yield program[at - 1 : end.end()]
            at = end.end()


def _unquoted(literal: str) -> str:
    """A text as a program has it, without its quotes; what it escapes is mostly what JSON does."""
    try:
        return msgspec.json.decode(literal, type=str) if literal[0] == '"' else literal[1:-1]
    except (msgspec.DecodeError, UnicodeEncodeError):
        return literal[1:-1]


def _patch_in(values: Mapping[str, Any]) -> str:
    return next(
        (text for name in ("input", "patch") if isinstance(text := values.get(name), str)),
        key_values(values),
    )


def _headline(values: Mapping[str, Any]) -> str | None:
    named = (text for name in _HEADLINES if isinstance(text := values.get(name), str) and text)
    return next(named, None) or next(
        (value for value in values.values() if isinstance(value, str) and value), None
    )


def _steps(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    plan = values.get("plan")
    for step in plan if isinstance(plan, list) else ():
        if isinstance(step, dict):
            yield text_of(step.get("status")), text_of(step.get("step"))


def plan_text(values: Mapping[str, Any]) -> str:
    lines = [f"[{status}] {step}" for status, step in _steps(values)]
    return "\n".join([*filter(None, [text_of(values.get("explanation"))]), *lines])


def _current_step(values: Mapping[str, Any]) -> str | None:
    return next(
        (step for status, step in _steps(values) if status == "in_progress"), None
    ) or text_of(values.get("explanation"))


# Changes to files. A body is, for each file, its path and its changed lines.

_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = "*** Move to: "
MAX_FILES = 1000  # Of one patch. A path for each is kept with the event.


def patch_body(patch: str) -> tuple[str, tuple[str, ...]]:
    """The text and the paths of a patch in Codex's own notation."""
    files: list[str] = []
    lines: list[str] = []
    is_inside = False
    for line in patch.split("\n"):
        if line[:1] in "+- ":
            if is_inside:
                lines.append(line)
            continue
        found = _FILE.match(line) if line.startswith("*** ") else None
        if found:
            is_inside = True
            path = found[2].strip()
            files.append(path)
            lines.append(path)
            lines += ["[deleted]"] if found[1] == "Delete" else ["@@"] if found[1] == "Add" else []
        elif not is_inside or line.startswith("*** End Patch"):
            is_inside = False
        elif line.startswith(_MOVE):
            files.append(line[len(_MOVE) :].strip())
            lines.append(f"[moved to {files[-1]}]")
        elif line.startswith("@@"):
            lines += ["@@", f" {line[2:].strip()}"] if line[2:].strip() else ["@@"]
        elif not line.startswith("*** "):
            lines.append(line)
    if not files:
        return patch, ()
    return "\n".join(lines).rstrip("\n"), tuple(dict.fromkeys(files[:MAX_FILES]))


def changes_body(changes: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of the changes that the program reports as applied."""
    parts: list[str] = []
    files: list[str] = []
    for path, change in changes.items() if isinstance(changes, dict) else ():
        files.append(path)
        parts.append(_change(path, change if isinstance(change, dict) else {}, files))
    return "\n".join(parts), tuple(dict.fromkeys(files[:MAX_FILES]))


def _change(path: str, change: dict[str, Any], files: list[str]) -> str:
    kind, nested = (
        change.get("type"),
        [name for name in ("add", "delete", "update") if isinstance(change.get(name), dict)],
    )
    if not isinstance(kind, str) and nested:  # An older notation: {"update": {"unified_diff": …}}.
        kind, change = nested[0], change[nested[0]]
    if kind == "add":
        return file_content(path, text_of(change.get("content")))
    if kind == "delete":
        return f"{path}\n[deleted]"
    lines = [path]
    if isinstance(moved := change.get("move_path"), str):
        files.append(moved)
        lines.append(f"[moved to {moved}]")
    diff = text_of(change.get("unified_diff")).rstrip("\n").split("\n")
    return "\n".join([*lines, *["@@" if line.startswith("@@") else line for line in diff]])


# Outputs.


class Output(msgspec.Struct, gc=False):
    text: str
    exit_code: int | None = None
    duration_ms: int | None = None
    is_error: bool = False
    shell: str | None = None
    """The id of a command that goes on running."""
    start: int = 0
    """Where the output itself begins, after what is told about it."""


_HEAD = 8000  # What is told of an output stands at its beginning; a command line may come first.
_CHUNK, _BODY = "\nChunk ID: ", "\nOutput:\n"
_HOW = ("Process ", "Exit code: ")
_HEADERS = ("Chunk ID: ", "Exit code: ", "Wall time: ", "Command: ", "Script ", "Process ")
_FAILED = (
    "failed in sandbox", "exec_command failed", "write_stdin failed",
    "apply_patch verification failed", "collab spawn failed",
    "error:", "Error:", "unsupported call", "failed to parse function arguments", "execution error",
    "sandbox error",
)  # fmt: skip
_REJECTED = (
    "rejected by user",
    "rejected by the user",
    "denied by user",
    "user rejected MCP tool call",
    "user cancelled MCP tool call",
)
_NOT_STARTED = ("exec_command failed for ", "CreateProcess")
_ABORTED = re.compile(r"(?:Wall time: [\d.]{1,20} seconds\n)?aborted(?: by user[^\n]{0,100})?\s*\Z")
_SHORT = 300  # Characters. What the program says in place of an output is one sentence.
CANCELLED = "tool_result/aborted"


def output_of(text: str) -> Output:
    """Return how a call ended, from its output. There have been four ways to write it."""
    if not text.startswith(_HEADERS):
        if text.startswith('{"') and '"metadata"' in text and (found := _from_json(text)):
            return found
        return Output(text, is_error=text.startswith(_FAILED))
    out = Output(text, is_error=text.startswith("Script failed"))
    # The command line may be a whole script, with lines like those that follow it.
    begin = max(0, text.find(_CHUNK)) if text.startswith("Command: ") else 0
    body = text.find(_BODY, begin, begin + _HEAD)
    out.start = body + len(_BODY) if body >= 0 else 0
    for line in text[begin : body if body >= 0 else begin + 1000].split("\n"):
        if line.startswith("Wall time"):
            out.duration_ms = _wall_ms(line[9:].lstrip(": ").partition(" ")[0])
        elif not line.startswith(_HOW):
            continue
        elif line.startswith("Process exited with code "):
            out.exit_code = _number(line[25:])
        elif line.startswith("Exit code: "):
            out.exit_code = _number(line[11:])
        elif line.startswith("Process running with session ID "):
            out.shell = line[32:72].strip()
    if out.exit_code:
        out.is_error = True
    return out


def _number(digits: str) -> int | None:
    digits = digits.strip()
    if digits == "0":
        return 0
    return (
        exit_number(int(digits))
        if len(digits) < 11 and digits.lstrip("-").isdecimal() and digits.rfind("-") < 1
        else None
    )


def _wall_ms(digits: str) -> int | None:
    try:
        return milliseconds(float(digits) * 1000)
    except (ValueError, OverflowError):
        return None


def _from_json(text: str) -> Output | None:
    try:
        values = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    about = values.get("metadata") if isinstance(values, dict) else None
    if not isinstance(about, dict) or not isinstance(output := values.get("output"), str):
        return None
    code, took = exit_number(about.get("exit_code")), about.get("duration_seconds")
    ms = milliseconds(took * 1000) if isinstance(took, int | float) else None
    return Output(output, code, ms, is_error=bool(code) or output.startswith(_FAILED))


def is_rejection(text: str, out: Output) -> bool:
    """Return True if a person refused a call. The same words in the output of a call mean
    nothing."""
    if out.start or out.exit_code is not None:
        return False
    if text.startswith(_NOT_STARTED[0]):  # With the command line first, whatever its length.
        _, found, text = text.rpartition(_NOT_STARTED[1])
        if not found:
            return False
    return len(text) <= _SHORT and any(word in text for word in _REJECTED)


def is_abort(text: str, out: Output) -> bool:
    return out.exit_code is None and len(text) <= _SHORT and _ABORTED.match(text) is not None


def result_summary(out: Output, exit_code: int | None, tests: Tests | None) -> str:
    if tests is not None:
        counts = (("passed", tests.passed), ("failed", tests.failed), ("skipped", tests.skipped))
        return ", ".join(f"{count} {word}" for word, count in counts if count) or "no tests"
    said = one_line(out.text[out.start : out.start + 4000] if out.start else out.text)
    if exit_code:
        return one_line(f"exit {exit_code}: {said}") if said else f"exit {exit_code}"
    return said


def opens_pull(found: Described) -> bool:
    """Return True if a call opens a pull request."""
    return (
        "gh pr create" in found.body
        if found.action == "shell"
        else found.tool.endswith("create_pull_request")
    )


def pull_in(text: str) -> str | None:
    """The pull request that an output names last, as `owner/name#number`."""
    found = _PULL.findall(text[-4000:])
    return f"{found[-1][0]}#{found[-1][1]}" if found else None


_PULL = re.compile(r"https://[\w.-]{1,99}/([\w.-]{1,99}/[\w.-]{1,99})/pull/([1-9]\d{0,8})")


def agents_in(text: str) -> list[str]:
    """The threads that the output of a call names as started."""
    values = arguments(text)
    named = [values.get("agent_id"), values.get("thread_id")] if values else []
    return [clean(name) for name in named if isinstance(name, str) and clean(name)]
