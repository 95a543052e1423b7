"""The meaning of Claude Code's records: one method for each type of record and block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ...text.clean import own_tool
from .. import Normalized, Record, Source
from ..shared.fold import Fields, keep
from ..shared.jsonl import parse
from ..shared.tools import one_line, split_reminders, text_of
from . import words
from .attempts import split_attempts
from .fold import CALLS, LINKS, ClaudeFold
from .lines import Block, Call, Line, Outcome, RareLine
from .teams import FROM_LEAD

SYNTHETIC = "<synthetic>"


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Reader(ClaudeFold):
    """The meaning of records, one method for each type."""

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, carry)
        self.is_inner = False
        self.parsed: tuple[str | bytes, list[tuple[Any, str, str | None]]] = (b"", [])
        """The last record that had a block which is not understood, and its values."""

    def user(self, line: Line) -> None:
        content = line.message.content if line.message else None
        if isinstance(content, str):
            self.prompt(line, content)
        elif content is None:
            self.emit("lifecycle", self.raw_text(), "user", "user record without content", "user")
        elif not content:
            self.merge("empty")
        else:
            numbered = enumerate(content)
            for n, block in numbered if len(content) == 1 else words.prompt_first(numbered):
                kind = block.type or words.guess(block)
                if kind == "tool_result":
                    self.tool_result(line, block)
                elif kind == "text" and block.text is not None:
                    self.prompt(line, block.text)
                elif kind == "image" or kind == "document":
                    self.picture(line, content, n)
                else:
                    self.unknown_block(n, block)

    def picture(self, line: Line, content: list[Block], n: int) -> None:
        """A picture belongs to the prompt that it comes with; without one, it is the prompt."""
        block = content[n]
        native = block.type or "image"
        if (
            n == 0
            and not line.isMeta
            and all(other.type in ("image", "document") for other in content)
        ):
            self.emit("user_msg", words.shown(block), native, None, "user")
        else:
            self.context(words.shown(block), native)

    def prompt(self, line: Line, text: str) -> None:
        """Text in a user's record, which is what a person typed only when nothing below says
        otherwise."""
        if line.isCompactSummary:
            self.emit("lifecycle", text, "compact_summary", None, "user", view="summary")
        elif line.isMeta:
            self.context(text, "meta")
        elif text.startswith(words.INTERRUPT):
            self.emit("human_intervention", text, "interrupt", None, "user", view="context")
        elif line.origin is not None and line.origin.kind == "task-notification":
            self.notification(text)
        elif (tag := words.TAG.match(text)) and self.tagged(tag[1], text):
            return
        elif text.startswith(words.CAVEAT):
            self.context(text, "local-command-caveat")
        elif text.isspace() or not text:
            self.merge("empty")
        else:
            self.say(text, "user")

    def say(self, text: str, native: str) -> None:
        """Add a prompt that a person typed."""
        summary = one_line(text)
        self.emit("user_msg", text, native, summary, "user")
        # A command of the shell says little about what follows.
        if not self.session.is_titled and native != "bash-input":
            self.session.is_titled = self.set_title(text, 1)

    def context(self, text: str, native: str, summary: str | None = None) -> None:
        """Add text that the program told the model in the person's place."""
        self.emit("lifecycle", text, native, summary, "user", view="context")

    def tagged(self, tag: str, text: str) -> bool:
        """Text that begins with a tag of the program. False when the tag is none of its own, and
        the text a prompt like others."""
        if tag in ("command-name", "command-message", "command-args"):
            name, args = words.inside("command-name", text), words.inside("command-args", text)
            command = (
                f"/{(name or words.inside('command-message', text)).lstrip('/')} {args}".strip()
            )
            if args:  # "/review the parser" is a prompt like others.
                self.say(command, "slash_command")
            else:
                self.emit(
                    "human_intervention", command, "slash_command", None, "user", view="context"
                )
        elif tag == "bash-input":
            self.say(f"!{words.inside(tag, text)}", tag)
        elif tag == "task-notification":
            self.notification(text)
        elif tag in words.WRAPPERS:
            self.wrapped(tag, text)
        elif tag in words.ECHOES:
            self.context(text, tag, one_line(words.without_tag(text)))
            if tag == "teammate-message" and FROM_LEAD.match(text):
                self.title_by_lead(words.without_tag(text))
        else:
            return False
        return True

    def wrapped(self, tag: str, text: str) -> None:
        """Add a prompt, if there is one, and what the program put before it."""
        before, prompt = words.split_wrappers(text)
        if prompt:
            self.prompt(self.current, prompt)
        self.context(before, tag, one_line(words.without_tag(before)))

    def title_by_lead(self, text: str) -> None:
        """Take the first words of a lead to a member of its team as what the member is for."""
        is_note = text.lstrip().startswith("{")  # The program's own, as of a shutdown.
        if not self.session.is_titled and not is_note:
            self.session.is_titled = self.set_title(text, 1)

    def notification(self, text: str) -> None:
        """Something that ran in the background has ended."""
        summary = one_line(words.inside("summary", text) or text)
        call_id = words.inside("tool-use-id", text) or None
        self.emit(
            "lifecycle", text, "task-notification", summary, "user", call_id=call_id, view="context"
        )

    def assistant(self, line: Line) -> None:
        message = line.message
        content = message.content if message else None
        if message is None or content is None:
            self.count_usage(line)
            self.emit(
                "lifecycle",
                self.raw_text(),
                "assistant",
                "assistant record without content",
                "assistant",
            )
            return
        is_local = message.model == SYNTHETIC
        if is_local and message.usage:
            self.bill(line, message, *split_attempts(message.usage, message.model))
        if not is_local:
            self.count_usage(line)
            self.session.model = message.model or self.session.model
        if isinstance(content, str):
            self.reply(line, content, is_local)
            return
        if not content:
            self.merge("empty")
        for n, block in enumerate(content):
            self.assistant_block(line, n, block, is_local)

    def assistant_block(self, line: Line, n: int, block: Block, is_local: bool) -> None:
        kind = block.type or words.guess(block)
        if (kind == "tool_use" or kind == "server_tool_use") and block.input is not None:
            self.tool_use(block, kind)
        elif kind == "text" and block.text is not None:
            self.reply(line, block.text, is_local)
        elif kind == "thinking" and block.thinking is not None:
            if block.thinking:
                self.emit("thinking", block.thinking, kind, None, "assistant")
            else:
                self.merge("empty thinking")
        elif kind == "redacted_thinking":
            self.merge(kind)
        elif kind is not None and kind.endswith("tool_result"):
            self.tool_result(line, block)
        elif kind == "fallback":
            self.fallback(n)
        else:
            self.unknown_block(n, block)

    def fallback(self, n: int) -> None:
        """Another model answers in place of the one that refused."""
        value = self.raw_block(n)
        before, after = (words.model_of(value, name) for name in ("from", "to"))
        text = f"{after} answers in place of {before}" if before and after else text_of(value)
        self.emit("lifecycle", text, "fallback", None, "assistant")

    def reply(self, line: Line, text: str, is_local: bool) -> None:
        if line.isApiErrorMessage or (is_local and "API Error" in text[:200]):
            word = words.plain(line.error)
            native = f"assistant/{word}" if isinstance(word, str) and word else "assistant/error"
            self.emit("error", text, native, None, "assistant", is_error=True)
        elif is_local:
            self.emit("lifecycle", text, "assistant/synthetic", None, "assistant")
        elif text.isspace() or not text:
            self.merge("empty")
        else:
            is_last = line.message is not None and line.message.stop_reason == "end_turn"
            self.emit(
                "assistant_msg",
                text,
                "assistant/end_turn" if is_last else "assistant",
                None,
                "assistant",
            )

    def tool_use(self, block: Block, native: str) -> None:
        tool, args, call_id = block.name or "unknown", block.input or {}, block.id
        call = words.describe_call(tool, args)
        fields: Fields = {"files": call.files} if call.files else {}
        self.emit(
            call.kind, call.body, native, call.summary, "assistant", tool, call_id, call.action,
            **fields,
        )  # fmt: skip
        if call_id:
            keep(self.state.calls, call_id, Call(tool, call.action, call.kind == "test_run"), CALLS)

    def tool_result(self, line: Line, block: Block) -> None:
        call_id = block.tool_use_id
        call = self.state.calls.pop(call_id, words.NO_CALL) if call_id else words.NO_CALL
        text, reminders = split_reminders(self.result_text(block))
        kind = native = "tool_result"
        is_error = block.is_error is True
        fields: Fields = {}
        # The outcome of a call on files is large, and tells nothing that is needed.
        is_on_files = call.action in words.ON_FILES
        outcome = words.NO_OUTCOME if is_on_files else words.outcome_of(line.toolUseResult)
        if is_error and self.is_rejection(line, text):
            kind, native, is_error = "human_intervention", "rejected", False
            text = words.reason_of(text)
        elif text.startswith(words.CANCELLED):
            native, is_error = "tool_result/cancelled", False
        elif not is_error and words.is_decision(call, outcome):
            kind = "decision"
        elif call.action == "edit":
            if words.is_user_modified(line.toolUseResult):
                native = "tool_result/user_modified"
        else:
            fields = words.ending_of(call, text, is_error, outcome)
        if is_error:
            fields["is_error"] = True
        if outcome is not words.NO_OUTCOME:
            self.add_outcome(fields, outcome)
        summary = words.result_summary(text, fields.get("exit_code"), fields.get("tests"))
        self.emit(
            kind, text, native, summary, "user", call.tool or None, call_id,
            call.action if call.tool else None, **fields,
        )  # fmt: skip
        self.remind(reminders, call_id)

    def result_text(self, block: Block) -> str:
        """Return the text of a result, from a file of its own when it was too long for the line."""
        text = words.result_text(block)
        if self.overflow and text.startswith(words.PERSISTED):
            return self.overflow.get(next(words.overflows(text), ""), text)
        return text

    def add_outcome(self, fields: Fields, outcome: Outcome) -> None:
        """Add how long a call took, and the subagents that it started."""
        if (ms := words.duration_of(outcome)) is not None:
            fields["duration_ms"] = ms
        if outcome.agentId is not None or outcome.runId is not None:
            fields["refs"] = self.started(outcome)

    def is_rejection(self, line: Line, text: str) -> bool:
        return (
            text.startswith(words.REJECTED)
            or line.toolDenialKind == "user-rejected"
            or bytes(line.toolUseResult) == words.REJECTED_RAW
        )

    def started(self, outcome: Outcome) -> tuple[str, ...]:
        """The sessions that a call has started."""
        named = (("agent", outcome.agentId), ("journal", outcome.runId))
        return tuple(
            [
                f"{self.uid(self.state.root)}/{word}-{words.clean(name)}"
                for word, name in named
                if isinstance(name, str)
            ]
        )

    def unknown_block(self, n: int, block: Block) -> None:
        """A block that is not understood is kept as it was written."""
        self.emit(
            "lifecycle",
            text_of(self.raw_block(n)),
            block.type or "unknown",
            block.type or "unknown block",
            self.current.type,
        )

    def raw_block(self, n: int) -> Any:
        """Return a block as it was written, for which the line is read once more."""
        value = self.raw_value()
        for step in (
            ("data", "message", "message", "content", n)
            if self.is_inner
            else ("message", "content", n)
        ):
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                value = None
        return value

    def raw_value(self) -> Any:
        """Return the record with the fields that are not read of every line."""
        if self.parsed[0] is not self.raw:
            self.parsed = (
                self.raw,
                parse(self.raw if isinstance(self.raw, bytes) else self.raw.encode()),
            )
        return next((value for value, _, _ in self.parsed[1]), None)

    def system(self, line: RareLine) -> None:
        subtype = line.subtype or ""
        native = f"system/{subtype}" if subtype else "system"
        text = text_of(words.plain(line.content))
        if (handler := self.system_handlers.get(subtype)) is not None:
            handler(self, line, text, native)
            return
        tag = words.TAG.match(text) if subtype == "local_command" else None
        if tag is None or not self.tagged(tag[1], text):
            self.emit("lifecycle", text or self.raw_text(), native)

    def turn_duration(self, line: RareLine, text: str, native: str) -> None:
        ms = words.milliseconds(line.durationMs)
        summary = "turn finished" if ms is None else f"turn finished after {ms / 1000:.1f} s"
        self.emit("completion", text, native, summary, duration_ms=ms)

    def api_error(self, line: RareLine, text: str, native: str) -> None:
        reason = words.error_text(words.plain(line.error)) or text
        attempt = f"attempt {line.retryAttempt} of {line.maxRetries}: "
        summary = one_line((attempt if line.retryAttempt is not None else "") + one_line(reason))
        ms = words.milliseconds(line.retryInMs)
        self.emit("retry", reason, native, summary, is_error=True, duration_ms=ms)

    def stop_hooks(self, line: RareLine, text: str, native: str) -> None:
        errors = words.texts(words.plain(line.hookErrors))
        added = words.texts(words.plain(line.hookAdditionalContext))
        body = "\n".join([*errors, *added])
        kind, view = "error" if errors else "lifecycle", "context" if added else None
        summary = one_line(body or "stop hooks")
        self.emit(kind, body, native, summary, is_error=bool(errors), view=view)

    def microcompaction(self, line: RareLine, text: str, native: str) -> None:
        about = line.microcompactMetadata
        cleared = about.compactedToolIds if about else None
        self.emit("lifecycle", text, native, view="clear", refs=tuple(cleared or ()))

    def refusal(self, line: RareLine, text: str, native: str) -> None:
        refs = self.references(line.retractedMessageUuids)
        self.emit("error", text, native, is_error=True, view="retract", refs=refs)

    def system_error(self, line: RareLine, text: str, native: str) -> None:
        body = words.error_text(words.plain(line.error)) or text or self.raw_text()
        self.emit("error", body, native, is_error=True)

    def compaction(self, line: RareLine, text: str, native: str) -> None:
        """All that was said leaves the model's context but for what is preserved. The chain begins
        anew, and is linked here."""
        if self.parent is None and line.logicalParentUuid:
            self.parent = self.reference(line.logicalParentUuid)
        about = line.compactMetadata
        segment = about.preservedSegment if about else None
        kept: tuple[str, ...] = ()
        if about and about.preservedMessages:
            kept = self.references(
                about.preservedMessages.allUuids or about.preservedMessages.uuids
            )
        elif segment and segment.headUuid and segment.tailUuid:
            head, tail = self.references((segment.headUuid, segment.tailUuid))
            kept = (head, "..", tail)
        if segment and segment.tailUuid and segment.anchorUuid:
            # What follows is written as if it followed the last message that was kept. It follows
            # the summary.
            tail, anchor = self.references((segment.tailUuid, segment.anchorUuid))
            keep(self.state.moved, tail, anchor, 16)
        self.emit("lifecycle", text, native, view="compact", refs=kept)

    def attachment(self, line: Line) -> None:
        about = line.attachment
        if about is None:
            self.emit("lifecycle", self.raw_text(), "attachment", "attachment without content")
            return
        kind = about.get("type")
        native = kind if isinstance(kind, str) and kind else "attachment"
        if native.startswith("hook_"):
            self.hook(about, native)
        elif native == "queued_command":
            text = words.prompt_text(about.get("prompt"))
            if about.get("commandMode") == "task-notification" or text.startswith(
                "<task-notification>"
            ):
                self.notification(text)
            else:
                self.say(text, native)
        else:
            path = about.get("filename") or about.get("path")
            view = None if native in words.UNSEEN else "context"
            self.emit(
                "lifecycle",
                words.attachment_text(about),
                native,
                view=view,
                files=(path,) if isinstance(path, str) else (),
            )

    def hook(self, about: dict[str, Any], native: str) -> None:
        is_error = native.endswith("_error")
        content = words.prompt_text(about.get("content"))
        body = words.hook_reason(about) if is_error else content or text_of(about.get("stdout"))
        code = about.get("exitCode")
        name = text_of(about.get("hookName"))
        self.emit(
            "error" if is_error else "lifecycle", body, native,
            one_line(f"{name}: {one_line(body)}" if body else name),
            tool=own_tool(body), is_error=is_error,
            duration_ms=words.milliseconds(about.get("durationMs")),
            exit_code=code if type(code) is int and abs(code) < 1 << 31 else None,
            view="context" if content and native not in words.UNSEEN else None,
        )  # fmt: skip

    def progress(self, line: Line) -> None:
        """Something is going on. For a time a subagent's whole conversation was told in this
        way."""
        about = line.data
        kind = about.type if about and about.type else "unknown"
        inner = about.message if about else None
        agent = words.clean(about.agentId) if about and about.agentId else ""
        is_mirror = kind == "agent_progress" and agent and f"agent:{agent}" not in self.hints
        if inner is None or not is_mirror:
            self.merge(f"progress/{kind}")
        else:
            self.mirror(line, inner, agent)

    def mirror(self, line: Line, inner: Line, agent: str) -> None:
        """Add a line of a subagent whose own file is missing. The line that holds it is only a link
        in the chain."""
        if line.uuid:
            self.out.aliases[self.native_id] = self.parent
        key = f"agent-{agent}"
        session = self.sub(key)
        session.call = session.call or line.parentToolUseID
        inner.isSidechain = True
        inner.cwd = inner.cwd or line.cwd
        inner.gitBranch = inner.gitBranch or line.gitBranch
        self.begin_line(inner, session, key)
        self.parent = session.last
        self.is_inner = True
        if inner.type == "assistant":
            self.assistant(inner)
        elif inner.type == "user":
            self.user(inner)
        else:
            self.merge("progress/agent_progress")
        self.is_inner = False

    def permission_mode(self, line: RareLine) -> None:
        """The mode is written at every start. The first is where the session begins; another is a
        person's doing."""
        mode, before = line.permissionMode, self.state.mode
        self.state.mode = mode or "?"
        if mode is None:
            self.emit("lifecycle", self.raw_text(), "permission-mode", "permission mode unknown")
        elif before is None or before == mode:
            self.merge("permission-mode")
        else:
            self.emit(
                "human_intervention",
                mode,
                "permission-mode",
                one_line(f"permission mode {before} → {mode}"),
                "user",
            )

    def pr_link(self, line: RareLine) -> None:
        """The session's pull request, which is written again at every start."""
        url, repo = line.prUrl, line.prRepository
        task = f"{repo}#{line.prNumber}" if repo and line.prNumber is not None else url
        if task and task == self.state.link:
            self.merge("pr-link")
            return
        self.state.link = task
        self.session.task, self.session.repo = task or self.session.task, repo or self.session.repo
        self.emit("lifecycle", url or self.raw_text(), "pr-link", one_line(task or "pull request"))

    def frame_link(self, line: RareLine) -> None:
        """Something was published. Like a pull request, it is written again and again."""
        title, url, path = words.fields_of(self.raw_value(), "title", "frameUrl", "path")
        key = words.hash_words(f"{url} {path} {title}")
        if not (url or path) or key in self.state.links:
            self.merge("frame-link")
            return
        keep(self.state.links, key, True, LINKS)
        body = "\n".join(part for part in (title, url, path) if part)
        summary = one_line(f"published {title or url or path}")
        self.emit("lifecycle", body, "frame-link", summary, files=(path,) if path else ())

    def teleported(self, line: RareLine) -> None:
        """The conversation was begun elsewhere, and copied to this machine."""
        remote, count = words.fields_of(self.raw_value(), "remoteSessionId", "messageCount")
        text = f"continues the remote session {remote}" if remote else "continues a remote session"
        if count:
            text += f" ({count} {'message' if count == '1' else 'messages'})"
        self.emit("lifecycle", text, "teleported-from", one_line(text))

    system_handlers: ClassVar[Mapping[str, Callable[[Any, RareLine, str, str], None]]] = {
        "turn_duration": turn_duration,
        "api_error": api_error,
        "stop_hook_summary": stop_hooks,
        "compact_boundary": compaction,
        "microcompact_boundary": microcompaction,
        "model_refusal_fallback": refusal,
        "api_refusal": refusal,
        "error": system_error,
    }
    handlers: ClassVar[Mapping[str | None, Callable[[Any, Line], None]]] = {
        "user": user, "assistant": assistant, "attachment": attachment, "progress": progress,
    }  # fmt: skip
    rare_handlers: ClassVar[Mapping[str | None, Callable[[Any, RareLine], None]]] = {
        "system": system, "permission-mode": permission_mode, "pr-link": pr_link,
        "frame-link": frame_link, "teleported-from": teleported,
    }  # fmt: skip
