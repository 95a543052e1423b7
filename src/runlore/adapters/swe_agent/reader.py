"""The meaning of a trajectory of SWE-agent: its records, and the fold over them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

import msgspec

from ... import model as api
from ...errors import ReadError
from .. import Normalized, Record, Source
from ..shared.calls import Described
from ..shared.fold import load, with_file_time
from ..shared.pick import clean, number, pick
from ..shared.stream import SessionFold, State
from ..shared.tools import file_change, file_content, is_test_run, one_line, test_counts, text_of

CARRY = 1
"""The layout of `Memory`; changed only together with the adapter's `version`."""
COPIES = frozenset({"query", "messages"})
"""Fields of a step that repeat the history up to it, as it was sent to the model."""
STEP = frozenset({"step", "action", "observation", "thought", "response"})
"""Fields of a step. A record with one of these is a step."""
OF_FILES = re.compile(r"edited_files\d+\Z")
"""Fields of `info` with excerpts of the changed files, which are in the repository."""


# The records of a document.


def parts(source: Source, document: Any) -> list[Any]:
    """Return the records of a document. Raises ReadError when it is no trajectory."""
    if not isinstance(document, dict) or not document.keys() & {
        "trajectory",
        "history",
        "attempts",
    }:
        raise ReadError(source.path, "not a trajectory: it has no steps and no history")
    head = {
        word: item
        for word, item in document.items()
        if word not in ("trajectory", "history", "info", "attempts")
    }
    attempts = [
        attempt
        for attempt in pick(document, "attempts", of=list) or []
        if isinstance(attempt, dict)
    ]
    items: list[Any] = [{"head": head}]
    if not attempts:
        return [*items, *_attempt(document), *_end(document)]
    for n, attempt in enumerate(attempts):
        items += [{"attempt": n}] if n else []
        items += _attempt(attempt)
        items += _end(attempt) if "info" not in document else []
    return items + _end(document)


def _attempt(document: dict[str, Any]) -> Iterator[Any]:
    history = pick(document, "history", of=list) or []
    steps = pick(document, "trajectory", of=list) or []
    first = next((n for n, item in enumerate(history) if _is_answer(item)), len(history))
    answers = [item for item in history[first:] if _is_answer(item)]
    yield from ({"message": item} for item in history[:first])
    if not steps:
        yield from _steps_of(history[first:])
    at = 0
    for n, step in enumerate(steps):
        if not isinstance(step, dict):
            yield {"step": n, "action": step}
            continue
        record = {"step": n} | {word: item for word, item in step.items() if word not in COPIES}
        # Answers that could not be understood are steps, and are not in the history.
        if at < len(answers) and _is_of(answers[at], step):
            record |= {
                word: answers[at][word]
                for word in ("tool_calls", "thinking_blocks")
                if answers[at].get(word)
            }
            at += 1
        yield record


def _is_answer(item: Any) -> bool:
    return pick(item, "role", of=str) == "assistant" and not item.get("is_demo")


def _is_of(answer: dict[str, Any], step: dict[str, Any]) -> bool:
    return answer.get("action") == step.get("action") and answer.get("thought") == step.get(
        "thought"
    )


def _steps_of(history: list[Any]) -> Iterator[Any]:
    """Yield the steps of a history without a trajectory: an answer, and the message after it."""
    step: dict[str, Any] | None = None
    count = 0
    for item in history:
        if _is_answer(item):
            if step is not None:
                yield step
            step = {"step": count} | {
                word: item[word]
                for word in ("thought", "action", "tool_calls", "thinking_blocks")
                if word in item
            }
            step.setdefault("thought", _text(item.get("content")))
            count += 1
        elif step is not None and "observation" not in step:
            step["observation"] = _text(
                pick(item, "content", of=str) if isinstance(item, dict) else item
            )
        else:
            yield {"message": item}
    if step is not None:
        yield step


def _end(document: dict[str, Any]) -> list[Any]:
    info = document.get("info")
    if not isinstance(info, dict) or not info:
        return []
    return [{"info": {word: item for word, item in info.items() if not OF_FILES.match(word)}}]


def _text(content: Any) -> str:
    """Return a message's text, which may be in blocks."""
    if isinstance(content, list):
        return "\n".join(filter(None, (pick(block, "text", of=str) or "" for block in content)))
    return text_of(content)


# The fold.


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return with_file_time(Reader(source, carry).run(records), source)


class Memory(State):
    version: int = CARRY
    steps: int = 0
    messages: int = 0
    attempts: int = 0
    has_task: bool = False
    """True after the message with the task."""


class Reader(SessionFold[Memory]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Memory, CARRY))
        self.path = source.path

    def session(self, named: str | None = None) -> str:
        return self.state.session or super().session(named or _name_of(self.path))

    def line(self, value: dict[str, Any]) -> None:
        if value.keys() & STEP:
            self.step(value)
        elif "message" in value:
            self.message(value["message"])
        elif "info" in value:
            self.end_of_run(value["info"])
        elif "head" in value:
            self.head(value["head"])
        elif "attempt" in value:
            self.state.attempts += 1
            self.identify(f"{self.session()}/attempt-{self.state.attempts}")
            self.emit("retry", "", "attempt", f"attempt {self.state.attempts + 1}", "system")
        else:
            self.unknown(None)

    def head(self, value: Any) -> None:
        config = pick(value, "replay_config", of=dict) or _loads(
            pick(value, "replay_config", of=str)
        )
        name = pick(config, "agent", "model", "name", of=str)
        self.state.model = name[:200] if name else None
        self.identify(f"{self.session()}/start")
        self.emit(
            "lifecycle",
            text_of(pick(value, "environment", of=str)),
            "start",
            "session started",
            "system",
        )

    def message(self, value: Any) -> None:
        """Add a message before the model's first answer: the rules, demonstrations, the task."""
        state = self.state
        state.messages += 1
        self.identify(f"{self.session()}/message-{state.messages}")
        role = pick(value, "role", of=str)
        text = _text(value.get("content") if isinstance(value, dict) else value)
        if pick(value, "is_demo", of=bool):
            self.merge("demo")
        elif role == "user" and not state.has_task:
            state.has_task = True
            self.emit("user_msg", text, "task", None, "user")
            self.set_title(_title(text), 1)
        else:
            self.emit(
                "lifecycle",
                text,
                "system_prompt" if role == "system" else "message",
                None,
                role,
                view="context",
            )

    # Steps.

    def step(self, value: dict[str, Any]) -> None:
        state = self.state
        state.steps += 1
        self.identify(f"{self.session()}/{state.attempts}.{state.steps}")
        place = value.get("state")
        place = _loads(place) if isinstance(place, str) else place
        cwd = pick(place, "working_dir", of=str)
        state.cwd = state.cwd or (cwd[:4096] if cwd else None)
        action, thought = value.get("action"), value.get("thought")
        if isinstance(action, str) and _is_exit(action, thought):
            word, body = action.strip()[:100] or "exit", text_of(value.get("observation"))
            self.emit("lifecycle", body, word, text_of(thought), "system", part=1)
            return
        self.thoughts(_thoughts(value))
        if action == "":
            self.misunderstood(value)
        else:
            self.call(value, action, pick(place, "open_file", of=str))
        if not self.count:
            self.unknown("step")

    def thoughts(self, texts: list[str | None]) -> None:
        for n, text in enumerate(texts):
            if text and text.strip():
                self.emit(
                    "thinking",
                    text.strip("\n"),
                    "thought",
                    None,
                    "assistant",
                    part=10 + n,
                    model=self.state.model,
                )

    def misunderstood(self, value: dict[str, Any]) -> None:
        """Add an answer that could not be understood, or was not allowed: the model was asked
        again."""
        text = text_of(value.get("observation")) or "the answer could not be understood"
        self.emit("error", text, "format", None, "system", part=1, is_error=True)
        self.emit("retry", "", "requery", "asked again", "system", part=2)

    def call(self, value: dict[str, Any], action: Any, opened: str | None) -> None:
        state = self.state
        text = text_of(action)
        call = describe(text, arguments(value.get("tool_calls")), opened)
        call_id = f"{self.native_id}#call"
        if action is not None:
            self.emit_call(call, "action", call_id, part=1, model=state.model)
        if value.get("observation") is None:
            return
        output = text_of(value["observation"])
        tests = test_counts(output) if call.kind == "test_run" else None
        has_seconds = number(value.get("execution_time"), 1 << 30) is not None
        self.emit(
            "tool_result", output, "observation", None, "tool", call.tool, call_id, call.action,
            part=2,
            is_error=has_failed(output, call.action), tests=tests,
            duration_ms=int(value["execution_time"] * 1000) if has_seconds else None,
        )  # fmt: skip

    # The end.

    def end_of_run(self, info: Any) -> None:
        """Add the end of the run: its usage, its status and the submission. There is no status
        while the run goes on."""
        status, patch = pick(info, "exit_status", of=str), pick(info, "submission", of=str) or ""
        self.identify(
            f"{self.session()}/end-{self.state.attempts}"
            if self.state.attempts
            else f"{self.session()}/end"
        )
        stats = pick(info, "model_stats", of=dict) or {}
        used = api.Usage(
            input_tokens=number(stats.get("tokens_sent")) or 0,
            output_tokens=number(stats.get("tokens_received")) or 0,
        )
        cost = stats.get("instance_cost")
        recorded = api.to_units(cost) or None
        event = None
        if status is not None:
            extra = {"cost_usd": cost} if recorded else {}
            event = self._add_submission(status, patch, used, extra)
        else:
            self.merge("info")
        if used.total or recorded:  # A sum that grows with every step: the ledger counts the last.
            call = api.Call(
                key=self.native_id, session_uid=self.uid(self.session()), model=self.state.model,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens, is_sum=number(stats.get("api_calls")) != 1,
                recorded=recorded,
            )  # fmt: skip
            self.out.calls.append((call, event))

    def _add_submission(
        self, status: str, patch: str, used: api.Usage, extra: dict[str, Any]
    ) -> str:
        """Add the status of a run that has ended, with its patch if it submitted one."""
        is_fine = status == "submitted"
        summary = "submitted nothing" if is_fine and not patch.strip() else status
        return self.emit(
            "completion" if is_fine else "error", patch or status, status[:100], summary,
            "system",
            is_error=not is_fine or not patch.strip(), usage=used if used.total else None,
            tokens=used.total,
            extra=extra,
        )  # fmt: skip

    def finish(self) -> Normalized:
        return with_task(super().finish())


def with_task(normalized: Normalized) -> Normalized:
    """Return the result with the repository and the issue of sessions that are named for one; of
    others with the repository that the folder is named for."""
    for uid, facts in normalized.facts.items():
        if issue := INSTANCE.match(uid.rpartition("/")[2]):
            repo = f"{issue[1]}/{issue[2]}"
            normalized.facts[uid] = msgspec.structs.replace(
                facts, repo=repo, task_ref=f"{repo}#{issue[3]}"
            )
        elif folder := FOLDER.match(facts.cwd or ""):
            repo = f"{folder[1]}/{folder[2]}" if folder[1] else folder[2].rpartition("__")[2]
            normalized.facts[uid] = msgspec.structs.replace(facts, repo=repo)
    return normalized


def _is_exit(action: str, thought: Any) -> bool:
    """Return True if a step is the end of a run: its action says so, or its thought where it has no
    action."""
    if EXIT.match(action):
        return True
    return not action.strip() and isinstance(thought, str) and thought.startswith("Exit")


def _thoughts(value: dict[str, Any]) -> list[str | None]:
    """Return the thoughts of a step; the whole answer where it has no thought and no action."""
    thought = value.get("thought")
    blocks = pick(value, "thinking_blocks", of=list) or []
    thoughts = [
        *(pick(block, "thinking", of=str) for block in blocks),
        pick(value, "reasoning_content", of=str),
        thought if isinstance(thought, str) else None,
    ]
    if not any(thoughts) and value.get("action") == "":
        return [pick(value, "response", of=str)]
    return thoughts


EXIT = re.compile(r"exit_\w+\s*\Z")
INSTANCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)__([A-Za-z0-9._-]+)-i?(\d+)\Z")
"""`owner__repository-number`, as benchmarks and the agent itself name an issue."""
FOLDER = re.compile(r"/([A-Za-z0-9][A-Za-z0-9-]*)?__([A-Za-z0-9._-]+)(?:/|\Z)")
"""Where the agent puts a repository in its container: `/owner__repository`, or all of a local path,
`/__home__ada__repository`."""


def _name_of(path: str) -> str:
    """Return the name of a run and its instance. Below a folder of trajectories, the name of the
    user comes first."""
    *folders, file = PurePath(path).parts
    stem = file.removesuffix(".traj")
    if folders and folders[-1] == stem:
        folders.pop()
    above = folders[-1:]
    if "trajectories" in folders:
        above = folders[len(folders) - folders[::-1].index("trajectories") :]
    return clean("/".join([*above, stem])[-200:])


_TITLE = re.compile(r"(?:^ISSUE:|<pr_description>|<issue>)\s*\n([^\n]+)", re.MULTILINE)


def _title(text: str) -> str:
    """Return the title of a task: the first line of its issue."""
    match = _TITLE.search(text[:20_000])
    return match[1] if match else text


def _loads(text: str | None) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


# Actions.

ACTIONS = {
    **dict.fromkeys(("open", "goto", "scroll_down", "scroll_up", "filemap", "view_image"), "read"),
    **dict.fromkeys(("search_dir", "search_file", "find_file"), "search"),
    **dict.fromkeys(("submit", "review_on_submit", "exit_forfeit"), "other"),
    **dict.fromkeys(("edit", "insert", "create", "str_replace_editor", "undo_edit"), "edit"),
}
"""The actions of the agent's own commands. All others are commands of the shell."""
MAX_WORDS = 64 << 10  # Characters that are split like a shell would: it looks at each.

_LINES = re.compile(
    r"\A(edit|insert) +(\d{1,9}(?::\d{1,9})?)[^\n]*\n(.*?)\n?(?:end_of_\w+\s*)?\Z", re.DOTALL
)


def describe(text: str, given: dict[str, Any], opened: str | None) -> Described:
    """Return what an action does: one of the agent's own commands, or a command of the shell."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    body = text.strip("\n")
    action = ACTIONS.get(word, "shell")
    if action == "shell":
        kind = "test_run" if is_test_run(text) else "tool_call"
        return Described("bash", kind, action, body, one_line(body))
    if action != "edit":
        files = _file_in(text, given) if word == "open" else ()
        return Described(word, "tool_call", action, body, one_line(body), files)
    words = _words(text) if len(text) <= MAX_WORDS else []
    if word == "str_replace_editor":
        # The command and its path come first, also where the rest cannot be split.
        return _describe_editor(words or text.split(maxsplit=3)[:3], given, body)
    named = _file_in(text, given) if word == "create" else ()
    files = named or _opened_file(opened)
    name = files[0] if files else ""
    shown, change = name or one_line(body), _change(text, word, words, given, name)
    return Described(word, "edit", "edit", body if change is None else change, shown, files)


def _opened_file(opened: str | None) -> tuple[str, ...]:
    return (opened,) if opened and opened != "n/a" else ()


def _change(text: str, word: str, words: list[str], given: dict[str, Any], name: str) -> str | None:
    """Return the lines that `edit` or `insert` changes, in any of the forms of their arguments;
    None for other commands."""
    if lines := _LINES.match(text):
        return f"{name}\n@@ {lines[2]} @@\n+{lines[3].replace(chr(10), chr(10) + '+')}"
    if word == "edit" and ("search" in given or len(words) >= 3):
        old, new = (given.get("search"), given.get("replace")) if "search" in given else words[1:3]
        return file_change(name, [(text_of(old), text_of(new))])
    if word == "insert" and ("text" in given or len(words) >= 2):
        return _insertion(name, text_of(given["text"] if "text" in given else words[1]))
    return file_content(name, "") if word == "create" and name else None


def _insertion(name: str, text: str) -> str:
    """Return lines that are added to a file that exists."""
    return f"{name}\n@@ inserted @@\n+{text.replace(chr(10), chr(10) + '+')}"


def _describe_editor(words: list[str], given: dict[str, Any], body: str) -> Described:
    """Return what a command of `str_replace_editor` does."""
    command = text_of(given.get("command")) or (words[1] if len(words) > 1 else "")
    path = text_of(given.get("path")) or (words[2] if len(words) > 2 else "")
    options = {word: words[n + 1] for n, word in enumerate(words[:-1]) if word.startswith("--")}

    def argument(name: str) -> str:
        return text_of(given[name]) if name in given else options.get(f"--{name}", "")

    files = (path,) if path else ()
    if command == "view":
        return Described(
            "str_replace_editor", "tool_call", "read", body, path or one_line(body), files
        )
    if command == "str_replace":
        body = file_change(path, [(argument("old_str"), argument("new_str"))])
    elif command == "create":
        body = file_content(path, argument("file_text"))
    elif command == "insert":
        body = _insertion(path, argument("new_str"))
    return Described("str_replace_editor", "edit", "edit", body, path or one_line(body), files)


def _file_in(text: str, given: dict[str, Any]) -> tuple[str, ...]:
    named = pick(given, "path", of=str) or pick(given, "filename", of=str)
    if named is None:
        named = text.strip().partition(" ")[2].partition("\n")[0]
        named = (_words(named) or [""])[0]
    return (named[:4096],) if named else ()


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text[:MAX_WORDS])
    except ValueError:  # A quote that is not closed.
        return []


def arguments(calls: Any) -> dict[str, Any]:
    """Return the arguments of the call of an answer; none when there are several calls."""
    call = calls[0] if isinstance(calls, list) and len(calls) == 1 else None
    given = pick(call, "function", "arguments", of=dict) or _loads(
        pick(call, "function", "arguments", of=str)
    )
    return given if isinstance(given, dict) else {}


# Results.

_FAILED = (
    "Your proposed edit has introduced new syntax error", "Your edit was not applied",
    "Your changes have NOT been applied", "Usage: ",
    "EXECUTION TIMED OUT", "COMMAND FAILED TO EXECUTE", "COMMAND TIMED OUT", "Wrong flag!",
    "No file open", "No replacement was performed",
    "Invalid `path` parameter", "Text not found", "Error: ", "ERROR: ", "[ERROR]", "[error",
    "No edit was performed",
)  # fmt: skip
_NOT_THERE = re.compile(r"(?:File|Directory) .{0,400} not found\b")
_CANCELLED = re.compile(
    r"The command .{0,4000}? was cancelled because it took more than ", re.DOTALL
)


def has_failed(output: str, action: str) -> bool:
    """Return True if one of the agent's own commands reports a failure. The failure of a program is
    not known: there is no exit code."""
    text = output.lstrip()
    if action == "shell":
        return text.startswith(
            ("EXECUTION TIMED OUT", "COMMAND FAILED TO EXECUTE", "COMMAND TIMED OUT")
        ) or (_CANCELLED.match(text) is not None)
    return text.startswith(_FAILED) or _NOT_THERE.match(text) is not None
