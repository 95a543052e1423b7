"""The words of tasks and of messages, and what can be told from them alone: tools, changes,
results, tokens. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from ...model import Tests, Usage
from ..shared.calls import Described
from ..shared.pick import number, pick
from ..shared.tools import (
    blob_reference,
    file_change,
    file_content,
    is_test_run,
    key_values,
    one_line,
    test_counts,
    text_of,
    without_base64,
)

# Tools as the timeline calls them, and as the model does.
ACTIONS = {
    **dict.fromkeys(("command", "execute_command", "run_commands", "bash", "read_command_output"),
    "shell"),
    **dict.fromkeys(("readFile", "read_file", "read_files", "access_mcp_resource",
    "fetch_instructions", "fetchInstructions"), "read"),
    **dict.fromkeys(
        ("editedExistingFile", "appliedDiff", "newFileCreated", "fileDeleted", "insertContent",
        "searchAndReplace", "generateImage",
         "write_to_file", "replace_in_file", "apply_diff", "apply_patch", "insert_content",
         "search_and_replace", "edit_file", "editor",
         "delete_file", "search_replace", "edit", "new_rule"), "edit",
    ),
    **dict.fromkeys(
        ("listFiles", "listFilesTopLevel", "listFilesRecursive", "listCodeDefinitionNames",
        "searchFiles", "codebaseSearch", "list_files",
         "list_code_definition_names", "search_files", "codebase_search", "search_codebase"),
         "search",
    ),
    **dict.fromkeys(
        ("webFetch", "webSearch", "web_fetch", "web_search", "fetch_web_content", "browser_action",
        "browser_action_launch"), "web",
    ),
    **dict.fromkeys(("newTask", "finishTask", "new_task", "use_subagents", "subagent", "subagents",
    "spawn_agent"), "agent"),
    **dict.fromkeys(
        ("switchMode", "updateTodoList", "switch_mode", "update_todo_list", "followup",
        "ask_followup_question", "ask_question",
         "plan_mode_respond", "act_mode_respond", "attempt_completion", "focus_chain"), "plan",
    ),
    **dict.fromkeys(("use_mcp_server", "use_mcp_tool"), "mcp"),
}  # fmt: skip
ASKS = frozenset(
    {
        "ask_followup_question",
        "plan_mode_respond",
        "act_mode_respond",
        "attempt_completion",
        "followup",
        "condense",
    }
)
"""Calls whose result is what a person said next, or what the timeline tells by itself."""
SPOKEN = frozenset(
    {
        *ACTIONS,
        "load_mcp_documentation",
        "condense",
        "summarize_task",
        "report_bug",
        "use_skill",
        "run_slash_command",
    }
)
"""What may be a call where it stands as XML in a text."""
ON_FILES = frozenset({"read", "edit", "search"})
_PATHS = ("path", "file_path", "absolutePath", "relativePath")
_HEADLINES = (
    "command",
    "regex",
    "query",
    *_PATHS,
    "url",
    "question",
    "task",
    "message",
    "content",
    "prompt_1",
    "action",
)
WITH_CACHE = frozenset(
    {"openai", "litellm", "doubao", "fireworks", "hicap", "lmstudio", "qwen", "xai", "zai"}
)
"""Providers of which the prompt is told as the provider counts it, what the cache had included."""
BILLERS = frozenset({"cline", "openrouter"})
"""Providers that say what they charge."""

_MARK = re.compile(r"^\[(\w{1,60})(?=[ \]])", re.MULTILINE)
_BARE = re.compile(r"\[(\w{1,60})( \(Error\))?\]\n")
_RESULT = "] Result:"
BLOCK = "Tool"
LOADING = "\n\nLoading..."
"""What a request ends with until all of it is known."""
MAX_MARK = 16 << 10  # Characters: the command of a call is told in front of its result, whole.
_AROUND = re.compile(r"<environment_details>.*?(?:</environment_details>|\Z)", re.DOTALL)
_FOLDER = re.compile(r"^# Current (?:Workspace|Working) Directory \(([^\n]+)\)", re.MULTILINE)
_MODEL = re.compile(r"<model>([^<\n]{1,200})</model>")
_EXIT = re.compile(r"(?:[Ee]xit code:?|exited with code|failed with (?:exit )?code) (-?\d{1,9})\b")
_FAILED = (
    "[Tool (Error)]",
    "The tool execution failed with the following error",
    "Error executing ",
    "Error: ",
    '{"status":"error"',
    '{"status": "error"',
)
_DENIED = ("The user denied this operation", '{"status":"denied"', '{"status": "denied"')
_TYPED = re.compile(
    r"\A<(user_input|user_message|task|feedback|answer)(?: [^>\n]*)?>\n?(.*?)\n?</\1>\s*\Z",
    re.DOTALL,
)
_SEARCH = re.compile(r"(?:<{5,}|-{5,}) ?SEARCH")
_DIVIDER = re.compile(r"={5,}\s*\Z")
_REPLACE = re.compile(r"(?:>{5,}|\+{5,}) ?REPLACE")
_POSITION = re.compile(r":start_line:|:end_line:|-{5,}\s*\Z")
_DATA_URL = re.compile(rb"(?<=data:image/)(\w+;base64,)([A-Za-z0-9+/]{256,}={0,2})")
_DATA = re.compile(r"data:[\w/+.-]+;base64,([A-Za-z0-9+/=]{64,})")


# What was said.


def typed(text: str) -> str:
    """Return what a person wrote, without what the program put around it."""
    found = _TYPED.match(text)
    return found[2] if found else text


def without_surroundings(text: str) -> str:
    return _AROUND.sub("", text).strip()


def around_in(text: str) -> list[str]:
    """Return what the program says about its environment."""
    return [found[0] for found in _AROUND.finditer(text)]


def folder_in(text: str) -> str | None:
    found = _FOLDER.search(text)
    return found[1][:4096] if found else None


def model_in(text: str) -> str | None:
    found = _MODEL.search(text)
    return found[1] if found else None


def pictures(value: Any) -> list[str]:
    """Return references that replace the images of a message."""
    images = value if isinstance(value, list) else []
    return [
        blob_reference(image.rpartition(",")[2])
        for image in images
        if isinstance(image, str) and image
    ]


def without_data(line: bytes) -> bytes:
    """A record whose images are replaced by what stands for them."""
    line = _DATA_URL.sub(lambda found: found[1] + blob_reference(found[2]).encode(), line)
    return without_base64(line)


def without_images(text: str) -> str:
    return _DATA.sub(lambda found: blob_reference(found[1]), text)


def stamp(text: str) -> str:
    """Return a hash that tells texts apart, for a name."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()


def loads(text: Any) -> Any:
    """Return the value of a text that holds JSON; the text itself when it does not."""
    if not isinstance(text, str) or text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


# Calls.


def describe(name: Any, given: Any) -> Described:
    """Return the tool, kind and action of a call, its text for reading and search, one line of it,
    and the files it names."""
    tool = name[:200] if isinstance(name, str) and name else "unknown"
    args = given if isinstance(given, dict) else {}
    action = ACTIONS.get(tool) or ("mcp" if "__" in tool else "other")
    if action == "mcp":
        return _describe_mcp(tool, args, given)
    if action == "edit":
        return _describe_edit(tool, args)
    if action == "shell" and (command := _command(args)) is not None:
        kind = "test_run" if is_test_run(command) else "tool_call"
        return Described(tool, kind, action, command, one_line(command))
    return _describe_other(tool, action, args, given)


def _describe_other(tool: str, action: str, args: dict[str, Any], given: Any) -> Described:
    files = tuple(dict.fromkeys(_files(args))) if action in ON_FILES else ()
    body = without_images(key_values(args) or text_of(given)) or tool
    summary = files[0] if files and action == "read" else one_line(_headline(args) or tool)
    return Described(tool, "tool_call", action, body, summary, files)


def _describe_edit(tool: str, args: dict[str, Any]) -> Described:
    files = tuple(dict.fromkeys(_files(args)))
    body = change(tool, args) or key_values(args) or tool
    summary = files[0] if files else one_line(_headline(args) or tool)
    return Described(tool, "edit", "edit", body, summary, files)


def _describe_mcp(tool: str, args: dict[str, Any], given: Any) -> Described:
    if server := pick(args, "serverName", of=str) or pick(args, "server_name", of=str):
        named = (pick(args, word, of=str) for word in ("toolName", "tool_name", "uri"))
        tool = f"{server}__{next(filter(None, named), tool)}"[:200]
    given = next((args[word] for word in ("arguments", "uri") if word in args), given)
    body = key_values(opened) if isinstance(opened := loads(given), dict) else text_of(given)
    return Described(tool, "tool_call", "mcp", body, tool)


def _headline(args: dict[str, Any]) -> str | None:
    """Return the argument that says most: a known one, else the first that is a text."""
    known = [args[word] for word in _HEADLINES if word in args]
    return next((text for text in (*known, *args.values()) if isinstance(text, str) and text), None)


def _command(args: dict[str, Any]) -> str | None:
    if (command := pick(args, "command", of=str)) is not None:
        return command.removesuffix("REQ_APP").rstrip()
    commands = pick(args, "commands", of=list)
    return (
        None
        if not commands
        else "\n".join(pick(each, "command", of=str) or text_of(each) for each in commands)
    )


def _files(args: dict[str, Any]) -> Iterator[str]:
    yield from (path for word in _PATHS if (path := pick(args, word, of=str)))
    for word in ("files", "batchFiles", "batchDiffs"):
        for item in (pick(args, word, of=list) or [])[:100]:
            if path := item if isinstance(item, str) else pick(item, "path", of=str):
                yield path


def change(tool: str, args: dict[str, Any]) -> str | None:
    """The path and the lines that change."""
    path = next(_files(args), "")
    batch = pick(args, "batchDiffs", of=list)
    if batch:
        return (
            "\n".join(change(tool, item) or "" for item in batch[:100] if isinstance(item, dict))
            or None
        )
    if "old_text" in args or "new_text" in args:
        return file_change(path, [(text_of(args.get("old_text")), text_of(args.get("new_text")))])
    diff = pick(args, "diff", of=str)
    content = pick(args, "content", of=str)
    text = diff or content
    if not text:
        return pick(args, "patch", of=str) or pick(args, "input", of=str) or (path or None)
    if blocks := list(replacements(text)):
        return file_change(path, blocks)
    return f"{path}\n{text.rstrip()}" if diff or tool == "appliedDiff" else file_content(path, text)


def replacements(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text that is searched and its replacement, for each block of a change."""
    old: list[str] | None = None
    new: list[str] | None = None
    for line in text.split("\n"):
        if _SEARCH.match(line):
            old, new = [], None
        elif old is not None and new is not None and _REPLACE.match(line):
            yield "\n".join(old), "\n".join(new)
            old = new = None
        elif old is not None and new is None and _DIVIDER.match(line):
            new = []
        elif new is not None:
            new.append(line)
        elif old is not None and (old or not _POSITION.match(line)):
            old.append(line)


def spoken(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The parts of a text: what is said, as ("", text, {}), and calls that stand in it as XML, as
    (tool, their text, arguments)."""
    at = said = 0
    unclosed: set[str] = set()
    while (found := _OPENING.search(text, at)) is not None:
        tool, at = found[1], found.end()
        end = -1 if tool in unclosed else text.find(f"</{tool}>", at)
        if end < 0:
            unclosed.add(tool)
            continue
        if before := text[said : found.start()].strip():
            yield "", before, {}
        yield tool, text[at:end], dict(_arguments(text[at:end]))
        at = said = end + len(tool) + 3
    if rest := text[said:].strip():
        yield "", rest, {}


_OPENING = re.compile(rf"^[ \t]*<({'|'.join(sorted(SPOKEN))})>", re.MULTILINE)
_ARGUMENT = re.compile(r"<(\w{1,60})>")
MAX_ARGUMENTS = 100  # And names that look like one.


def _arguments(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    for _ in range(MAX_ARGUMENTS):
        found = _ARGUMENT.search(text, at)
        if found is None:
            return
        at = found.end()
        end = text.find(f"</{found[1]}>", at)
        if end >= 0:
            yield found[1], text[at:end].strip("\n")
            at = end + len(found[1]) + 3


# Results.


class Result(msgspec.Struct, gc=False):
    text: str
    is_error: bool
    is_denied: bool
    exit_code: int | None
    tests: Tests | None
    summary: str


def results_in(text: str) -> list[tuple[str, str]]:
    """The results that a text begins with, and those that follow, by tool: `[tool for 'x']
    Result:`, or `[Tool]` where a block was made a text. Of one that failed the mark stays."""
    text = text.lstrip().removesuffix(LOADING)
    marks = _marks_in(text)
    ends = [start for _, start, _ in marks[1:]] + [len(text)]
    return [
        (tool, without_surroundings(text[begin:end]))
        for (tool, _, begin), end in zip(marks, ends, strict=False)
    ]


_MARKED_TOOLS = frozenset({*ACTIONS, BLOCK})


def _marks_in(text: str) -> list[tuple[str, int, int]]:
    """Return the tool of each result in a text, where its mark begins, and where its output
    does."""
    marks: list[tuple[str, int, int]] = []
    after = -1  # Where what the last mark is about begins.
    for found in _MARK.finditer(text):
        tool, start = found[1], found.start()
        is_known = tool in _MARKED_TOOLS
        # What a tool printed may look like a result: only where a tool that we know follows a blank
        # line does another one begin.
        is_next = bool(marks) and is_known and text[start - 2 : start] == "\n\n"
        if start not in (0, after) and not is_next:
            continue
        if is_known and (bare := _BARE.match(text, start)):
            marks.append(("" if tool == BLOCK else tool, start, start if bare[2] else bare.end()))
            after = bare.end()
        elif is_known or text.startswith(" for '", found.end()):
            end = _end_of_mark(text, start, 0 if start else MAX_MARK)
            if end >= 0:
                del marks[-1 if start == after else len(marks) :]
                marks.append((tool, start, end))
    return marks


def _end_of_mark(text: str, start: int, max_length: int) -> int:
    """Return where a result begins whose mark begins here; -1 when there is none on this line, or
    within the limit."""
    line = text.find("\n", start)
    end = text.find(_RESULT, start, max(line if line >= 0 else len(text), start + max_length))
    return end + len(_RESULT) if end >= 0 else -1


def result(content: Any, action: str, is_test: bool, is_error: bool = False) -> Result:
    """Return the result of a call. The exit code of a command stands in its output."""
    items = [loads(item) for item in (content if isinstance(content, list) else [content])]
    text = without_images("\n".join(filter(None, map(shown, items))))
    head = text.lstrip()[:400]
    found = _EXIT.search(head) if action == "shell" else None
    exit_code = int(found[1]) if found else None
    is_denied = head.startswith(_DENIED)
    failed = (
        is_error
        or bool(exit_code)
        or head.startswith(_FAILED)
        or any(pick(item, "success", of=bool) is False for item in items)
    )
    tests = test_counts(text) if is_test else None
    return Result(
        text,
        failed and not is_denied,
        is_denied,
        exit_code,
        tests,
        _summary(text, exit_code, tests),
    )


def shown(item: Any) -> str:
    """A part of a message or a result for reading."""
    if not isinstance(item, dict):
        return text_of(item)
    if (data := pick(item, "source", "data", of=str) or pick(item, "data", of=str)) is not None:
        return blob_reference(data)
    texts = [text for word in ("text", "result", "error") if (text := pick(item, word, of=str))]
    is_known = item.keys() & {"text", "result", "query"}
    return "\n".join(dict.fromkeys(texts)) if texts and is_known else text_of(item)


def _summary(text: str, exit_code: int | None, tests: Tests | None) -> str:
    if tests is not None:
        counts = (("passed", tests.passed), ("failed", tests.failed), ("skipped", tests.skipped))
        return ", ".join(f"{count} {word}" for word, count in counts if count) or "no tests"
    line = one_line(text)
    return (
        f"exit {exit_code}: {line}"
        if exit_code and line
        else f"exit {exit_code}"
        if exit_code
        else line
    )


# Tokens.


def usage(counts: Sequence[Any], is_whole: bool) -> Usage:
    """Return buckets that do not overlap, from the tokens of the prompt and of the answer, and
    those that were read from the cache and written to it. A prompt that includes the cached tokens
    is never less than these."""
    prompt, answer, cached, kept = (number(count) or 0 for count in counts)
    if is_whole and prompt >= cached + kept:
        prompt -= cached + kept
    return Usage(
        input_tokens=prompt, output_tokens=answer, cache_read_tokens=cached, cache_write_tokens=kept
    )


def provider_of(provider: Any) -> str | None:
    return provider[:200] if isinstance(provider, str) and provider else None
