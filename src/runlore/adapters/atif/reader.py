"""The meaning of a trajectory in ATIF: its records, and the fold over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from ... import model as api
from .. import Normalized, Record, Source
from ..shared.calls import action_of, build_result, describe
from ..shared.fold import load
from ..shared.pick import clean, identifier, number, pick, time_of
from ..shared.stream import SessionFold, State
from ..shared.tools import blob_reference, text_of

CARRY = 1
"""The layout of `Memory`; changed only together with the adapter's `version`."""
STEP_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
TOTAL_TOKENS = ("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens")
MAX_DEPTH = 4  # Subagents of subagents.

ACTIONS = {
    **dict.fromkeys(
        ("bash", "shell", "execute_bash", "execute_command", "exec_command", "run_command",
        "run_commands", "run_shell_command",
         "run_terminal_cmd", "terminal", "bash_command", "bash_execute", "command", "powershell"),
         "shell",
    ),
    **dict.fromkeys(("read", "read_file", "read_text_file", "view", "view_file", "open_file", "cat",
    "read_many_files", "ls"), "read"),
    **dict.fromkeys(
        ("edit", "multiedit", "write", "write_file", "create_file", "edit_file", "replace",
        "str_replace", "str_replace_editor",
         "apply_patch", "patch", "notebookedit", "delete_file", "insert"), "edit",
    ),
    **dict.fromkeys(("grep", "glob", "search", "search_files", "grep_search", "find_files",
    "codebase_search", "list_files"), "search"),
    **dict.fromkeys(("web_search", "websearch", "web_fetch", "webfetch", "fetch", "browser"),
    "web"),
    **dict.fromkeys(("task", "agent", "spawn_agent", "delegate"), "agent"),
    **dict.fromkeys(("todowrite", "todo_write", "update_plan", "mark_task_complete",
    "exit_plan_mode", "ask_user"), "plan"),
}  # fmt: skip


# The records of a document.


def parts(source: Source, document: dict[str, Any], result: Any) -> list[Any]:
    """A head, the steps, those of subagents after them, and what is said of the whole."""
    items: list[Any] = [
        {"head": _head(document), **_family(source.path, document)},
        *_steps(document),
    ]
    items += _below(document)
    metrics = pick(document, "final_metrics", of=dict)
    if metrics and not any("metrics" in item for item in items):
        items.append({"total": metrics})
    if following := pick(document, "continued_trajectory_ref", of=str):
        items.append({"continued": following})
    if isinstance(result, dict):
        items.append(
            {
                "result": {
                    word: result[word]
                    for word in ("exception_info", "verifier_result")
                    if word in result
                }
            }
        )
    return items


def _head(document: dict[str, Any]) -> dict[str, Any]:
    agent = pick(document, "agent", of=dict) or {}
    told = {
        word: document[word] for word in ("schema_version", "notes", "extra") if word in document
    }
    return told | {
        "agent": {word: item for word, item in agent.items() if word != "tool_definitions"}
    }


def _steps(document: dict[str, Any], subagent: str | None = None) -> Iterator[Any]:
    more = {"subagent": subagent} if subagent else {}
    for n, step in enumerate(pick(document, "steps", of=list) or [], 1):
        yield {"step": n, **(step if isinstance(step, dict) else {"message": step}), **more}


def _below(document: dict[str, Any], depth: int = 0) -> Iterator[Any]:
    for n, inner in enumerate(pick(document, "subagent_trajectories", of=list) or []):
        if not isinstance(inner, dict):
            yield {"subagent_trajectory": inner}
            continue
        name = identifier(inner.get("trajectory_id")) or f"{depth}-{n}"
        yield {"head": _head(inner), "subagent": name}
        yield from _steps(inner, name)
        if depth < MAX_DEPTH:
            yield from _below(inner, depth + 1)
        elif further := inner.get("subagent_trajectories"):
            yield {"subagent_trajectory": further}


def _family(path: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the session, and the one that it is a part of."""
    *folders, file = PurePath(path).parts
    stem = file.removesuffix(".json")
    run, own = identifier(document.get("session_id")), identifier(document.get("trajectory_id"))
    if run and own and own != run:
        return {"session": f"{run}/{own}"}
    if folders and folders[-1] == "agent" and stem.startswith("trajectory"):
        folders.pop()
    base = (
        run
        or own
        or clean(
            "/".join(folders[-2:] if stem.startswith("trajectory") else [*folders[-1:], stem])[
                -200:
            ]
        )
    )
    piece = stem.removeprefix("trajectory").lstrip(".") if stem.startswith("trajectory.") else ""
    if not piece:
        return {"session": base}
    went_on = _CONTINUED.fullmatch(piece)
    before = f"{base}/cont-{int(went_on[1]) - 1}" if went_on and int(went_on[1]) > 1 else base
    return {
        "session": f"{base}/{piece}",
        "above": before,
        "relation": "continuation" if went_on else "subagent",
    }


_CONTINUED = re.compile(r"cont-(\d{1,6})")


# The fold.


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Memory(State):
    version: int = CARRY
    steps: int = 0


class Reader(SessionFold[Memory]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Memory, CARRY))
        self.is_side = False
        """Whether the record is a subagent's."""

    def line(self, value: dict[str, Any]) -> None:
        self.is_side = "subagent" in value
        if value.keys() & {"step", "step_id", "source", "message", "tool_calls", "observation"}:
            self.step(value)
        elif "head" in value:
            self.head(value)
        elif "total" in value:
            self.total(value["total"])
        elif "result" in value:
            self.result(value["result"])
        elif "continued" in value:
            self.identify(f"{self.session()}/continued")
            text = text_of(value["continued"])
            self.emit("lifecycle", text, "continued", f"goes on in {text}", "system")
        else:
            self.unknown("subagent_trajectory" if "subagent_trajectory" in value else None)

    def head(self, value: dict[str, Any]) -> None:
        state = self.state
        about = value.get("head")
        agent = pick(about, "agent", "name", of=str) or "an agent"
        if not self.is_side:
            session = self.session(pick(value, "session", of=str))
            above, relation = pick(value, "above", of=str), pick(value, "relation", of=str)
            if above and above != session and relation in ("continuation", "subagent"):
                state.parent, state.relation = (
                    self.uid(above),
                    "continuation" if relation == "continuation" else "subagent",
                )
            name = pick(about, "agent", "model_name", of=str)
            state.model = name[:200] if name else None
            state.cwd = _first(about, "cwds") or pick(about, "agent", "extra", "cwd", of=str)
            state.branch = _first(about, "git_branches")
        self.identify(f"{self.session()}/{self.within(value)}start")
        what = "a subagent started" if self.is_side else "session started"
        self.emit(
            "lifecycle",
            text_of(about),
            "start",
            f"{what}: {agent}",
            "system",
            is_sidechain=self.is_side,
        )

    def within(self, value: dict[str, Any]) -> str:
        """The place of a subagent's records among the names of all: it stays the same when the
        agent above goes on."""
        return f"{text_of(value.get('subagent'))[:200]}/" if self.is_side else ""

    # Steps.

    def step(self, value: dict[str, Any]) -> None:
        state = self.state
        state.steps += 1
        self.identify(
            f"{self.session()}/{self.within(value)}"
            f"{pick(value, 'step', of=int) or f'~{state.steps}'}"
        )
        self.ts = time_of(value.get("timestamp"))
        if pick(value, "is_copied_context", of=bool):
            self.merge("copied")
            return
        source, text = pick(value, "source", of=str), _text(value.get("message"))
        if source == "user":
            self.emit("user_msg", text, "user", None, "user", part=0, is_sidechain=self.is_side)
            if not state.is_titled and not self.is_side:
                self.set_title(text, 1)
        elif source == "system" and not value.keys() & {"tool_calls", "metrics"}:
            self.emit(
                "lifecycle",
                text,
                "system",
                None,
                "system",
                part=0,
                view="context",
                is_sidechain=self.is_side,
            )
        else:
            self.agent(value, text)
        self.results(value)
        if not self.count:
            self.merge("empty")

    def agent(self, value: dict[str, Any], text: str) -> None:
        state = self.state
        model = (pick(value, "model_name", of=str) or state.model or "")[:200] or None
        if thought := pick(value, "reasoning_content", of=str):
            self.emit(
                "thinking",
                thought,
                "reasoning",
                None,
                "assistant",
                part=1,
                model=model,
                is_sidechain=self.is_side,
            )
        if text.strip():
            self.emit(
                "assistant_msg",
                text,
                "agent",
                None,
                "assistant",
                part=0,
                model=model,
                is_sidechain=self.is_side,
            )
        for n, call in enumerate(pick(value, "tool_calls", of=list) or []):
            self.call(call, n, model)
        self.tokens(pick(value, "metrics", of=dict) or {}, model)

    def call(self, call: Any, n: int, model: str | None) -> None:
        name = pick(call, "function_name", of=str) or "unknown"
        action = action_of(name.lower(), ACTIONS)
        found = describe(name, call.get("arguments") if isinstance(call, dict) else call, action)
        own = identifier(pick(call, "tool_call_id", of=str)) or str(n)
        self.emit_call(
            found, "tool_call", f"{self.native_id}/{own}",
            part=2 + n, model=model, is_sidechain=self.is_side,
        )  # fmt: skip

    def results(self, value: dict[str, Any]) -> None:
        """Add the results of a step: of its calls, or of the step itself, such as the screen of a
        terminal."""
        calls = [
            call for call in pick(value, "tool_calls", of=list) or [] if isinstance(call, dict)
        ]
        for n, result in enumerate(pick(value, "observation", "results", of=list) or []):
            self.call_result(result, n, calls)

    def call_result(self, result: Any, n: int, calls: list[dict[str, Any]]) -> None:
        use = identifier(pick(result, "source_call_id", of=str))
        call = _call_of(use, calls)
        tool = pick(call, "function_name", of=str)
        action = action_of((tool or "").lower(), ACTIONS)
        kind = describe(tool, call.get("arguments"), action).kind if tool else "tool_call"
        code = _code(pick(result, "extra", of=dict) or {})
        failed = pick(result, "extra", "is_error", of=bool) or bool(code)
        found = build_result(_result_text(result), failed, code, kind == "test_run")
        own = use or identifier(call.get("tool_call_id"))
        self.emit(
            "tool_result", found.text, "result", found.summary, "tool", tool,
            f"{self.native_id}/{own}" if own else None, action,
            part=1000 + n, is_error=found.is_error, exit_code=found.exit_code,
            tests=found.tests, is_sidechain=self.is_side,
        )  # fmt: skip

    # Tokens, and the end.

    def tokens(
        self,
        metrics: dict[str, Any],
        model: str | None,
        words: tuple[str, str, str] = STEP_TOKENS,
        is_sum: bool = False,
    ) -> None:
        prompt, answer, cached = (number(metrics.get(word)) or 0 for word in words)
        cached = min(cached, prompt)
        used = api.Usage(
            input_tokens=prompt - cached, cache_read_tokens=cached, output_tokens=answer
        )
        cost = metrics.get("total_cost_usd" if is_sum else "cost_usd")
        recorded = api.to_units(cost) or None
        if not used.total and recorded is None:
            return
        event = self.emit(
            "lifecycle", "", "metrics", f"{prompt} tokens in, {answer} out", "assistant",
            part=100_000, usage=used, tokens=used.total,
            model=model, extra={"cost_usd": cost} if recorded else {},
            is_sidechain=self.is_side,
        )  # fmt: skip
        call = api.Call(
            key=self.native_id, session_uid=self.uid(self.session()), ts=self.ts, model=model,
            input_tokens=used.input_tokens,
            output_tokens=answer, cache_read_tokens=cached, is_sum=is_sum,
            is_sidechain=self.is_side, recorded=recorded,
        )  # fmt: skip
        self.out.calls.append((call, event))

    def total(self, metrics: Any) -> None:
        self.identify(f"{self.session()}/total")
        self.tokens(
            metrics if isinstance(metrics, dict) else {},
            self.state.model,
            TOTAL_TOKENS,
            is_sum=True,
        )
        if not self.count:
            self.merge("total")

    def result(self, value: Any) -> None:
        """Add the end of a trial: an exception, or the verifier's result."""
        self.identify(f"{self.session()}/result")
        if failure := pick(value, "exception_info", of=dict) or pick(
            value, "exception_info", of=str
        ):
            self.emit(
                "completion",
                text_of(failure),
                "exception_info",
                None,
                "system",
                part=1,
                is_error=True,
            )
        rewards = pick(value, "verifier_result", "rewards", of=dict) or {}
        given = [
            reward
            for reward in rewards.values()
            if isinstance(reward, int | float) and not isinstance(reward, bool)
        ]
        if given:
            told = ", ".join(f"{name} {reward}" for name, reward in rewards.items())
            self.emit(
                "completion",
                text_of(rewards),
                "verifier",
                f"rewarded: {told}",
                "system",
                part=0,
                is_error=max(given) <= 0,
            )
        if not self.count:
            self.merge("result")


def _first(about: Any, word: str) -> str | None:
    found = pick(about, "agent", "extra", word, of=list)
    return found[0][:4096] if found and isinstance(found[0], str) and found[0] else None


def _call_of(use: str | None, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the call that a result names, or the only call of the step when it names none."""
    named = {identifier(call.get("tool_call_id")): call for call in calls}
    return named.get(use) or (calls[0] if len(calls) == 1 and use is None else {})


def _result_text(result: Any) -> str:
    """Return the text of a result, and the trajectories of subagents that it refers to."""
    text = _text(result.get("content") if isinstance(result, dict) else result)
    refs = [text_of(ref) for ref in pick(result, "subagent_trajectory_ref", of=list) or []]
    return "\n".join(filter(None, (text, *refs)))


def _code(extra: dict[str, Any]) -> int | None:
    return next(
        (
            code
            for word in ("exit_code", "returncode", "exitCode")
            if (code := pick(extra, word, of=int)) is not None
        ),
        None,
    )


def _text(content: Any) -> str:
    """A message's text; of its other parts what they are."""
    if not isinstance(content, list):
        return text_of(content)
    return "\n".join(filter(None, map(_part, content)))


def _part(part: Any) -> str:
    if (text := pick(part, "text", of=str)) is not None:
        return text
    if (path := pick(part, "source", "path", of=str)) is not None:
        return f"[{pick(part, 'type', of=str) or 'file'} {path}]"
    if (data := pick(part, "source", "data", of=str)) is not None:
        return blob_reference(data)
    return text_of(part)
