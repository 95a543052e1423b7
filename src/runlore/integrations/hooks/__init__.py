"""Hooks that agents call: `runlore hooks run start|fail|end AGENT`.

At the start of a session, print a line on earlier sessions in the repository and the lessons that
apply (`start.py`). When a tool fails, print what is known to help (`fail.py`). At the end of a
session, start a sync in the background (`end.py`, `sync.py`). The agent waits for the hook, so a
call takes at most a second: a watchdog ends it, every failure is silent, and each event imports
only its own module. Nothing here knows an agent; options of the command select the format of the
reply.
"""

from __future__ import annotations

import json
import os
import threading
import time

LIMIT_S = 0.9
"""Maximum time of a call. Most of it is a reserve for a busy machine."""

MAX_CALL_BYTES = 1 << 20
"""Maximum size of the JSON that an agent sends."""

PYTHON = ("-E", "-P")
"""Options of the interpreter. A hook runs in the project's folder with the project's environment,
and must not import modules from there."""


def main(args: list[str]) -> None:
    """Do what the arguments say and end the process, always with status 0."""
    if args[:1] != ["sync"]:
        threading.Thread(target=_end_in_time, daemon=True).start()
    try:
        run(args)
    finally:  # The agent cannot handle our errors, and there is no time to clean up.
        os._exit(0)


def run(args: list[str]) -> None:
    """Handle one event. Its module is imported here, while the watchdog is running."""
    event, agent, *options = args
    if "--home" in options:
        os.environ["RUNLORE_HOME"] = options[options.index("--home") + 1]
    if event == "sync":
        from . import sync

        sync.sync(agent)
    elif event == "end":
        from . import end

        end.start_sync(agent)
        read_call()  # An agent may report an error if its message is not read.
    elif event == "start":
        from . import start

        write_reply(start.reply_to_start(agent, read_call()), "SessionStart", options)
    elif event == "fail":
        from . import fail

        call = read_call()
        write_reply(
            fail.reply_to_failure(agent, call),
            str(call.get("hook_event_name") or "SessionStart"),
            options,
        )


def _end_in_time() -> None:
    time.sleep(max(0.02, LIMIT_S - time.process_time()))  # Starting the interpreter counts as well.
    os._exit(0)


def read_call() -> dict[str, object]:
    """Return the JSON object that the agent writes to stdin; empty if it is invalid or too long.

    Reading ends with the object, because not every agent closes stdin.
    """
    data = b""
    while not os.isatty(0) and len(data) <= MAX_CALL_BYTES:
        part = os.read(0, 1 << 16)
        data += part
        if not part or data.rstrip().endswith(b"}"):
            try:
                call = json.loads(data)
                return call if isinstance(call, dict) else {}
            except ValueError:
                if not part:
                    break
    return {}


def write_reply(text: str | None, event: str, options: list[str]) -> None:
    if text:
        # A single write: the watchdog cannot end the process in the middle of a reply.
        os.write(1, format_reply(text, event, is_json="--json" in options))


def format_reply(line: str, event: str = "SessionStart", *, is_json: bool) -> bytes:
    """Return the reply to the agent. In JSON it repeats `event`, the agent's name for the event."""
    if not is_json:
        return f"{line}\n".encode()
    return (
        json.dumps(
            {"hookSpecificOutput": {"hookEventName": event, "additionalContext": line}}
        ).encode()
        + b"\n"
    )
