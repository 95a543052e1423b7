"""What happens when an agent calls us: `runlore hooks run start|fail|end AGENT`.

At the start of a session a line on what is known of the repository, and the lessons that fit it
(`start.py`); when a tool fails, what is known to help (`fail.py`); at the end a sync that goes on
alone (`end.py`, `sync.py`). The agent waits for us, so a call is over in 300 ms whatever happens: a
watchdog ends it without a word, every failure is silent, and each event imports only its own module.
Nothing here knows an agent; how it wants to be answered stands in the command.
"""

from __future__ import annotations

import json
import os
import threading
import time

LIMIT_S = 0.25
"""From the start of the process. What is left of 0.3 s is for the system to start and end it."""

MAX_CALL_BYTES = 1 << 20
"""Of what the agent says."""

PYTHON = ("-E", "-P")
"""Options of the interpreter. A hook runs in the folder of the project, and with its variables: modules that lie there are not ours."""


def main(args: list[str]) -> None:
    """Do what the arguments say and end the process, always with status 0."""
    if args[:1] != ["sync"]:
        threading.Thread(target=_end_in_time, daemon=True).start()
    try:
        run(args)
    finally:  # Whatever went wrong, the agent can do nothing about it and has to go on. Nor is there time to tidy up.
        os._exit(0)


def run(args: list[str]) -> None:
    """Handle one event. The module of the event is imported here, under the eyes of the watchdog."""
    event, agent, *options = args
    if "--home" in options:
        os.environ["RUNLORE_HOME"] = options[options.index("--home") + 1]
    if event == "sync":
        from . import sync

        sync.sync(agent)
    elif event == "end":
        from . import end

        end.start_sync(agent)
        read_call()  # An agent may take it for an error when nobody listens.
    elif event == "start":
        from . import start

        reply(start.started(agent, read_call()), "SessionStart", options)
    elif event == "fail":
        from . import fail

        call = read_call()
        reply(fail.failed(agent, call), str(call.get("hook_event_name") or "SessionStart"), options)


def _end_in_time() -> None:
    time.sleep(max(0.02, LIMIT_S - time.process_time()))  # Starting the interpreter counts as well.
    os._exit(0)


def read_call() -> dict[str, object]:
    """Return what the agent says on stdin. It ends when it is whole, because not every agent closes it; too much of it is nothing."""
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


def reply(text: str | None, event: str, options: list[str]) -> None:
    if text:
        os.write(1, answer(text, event, is_json="--json" in options))  # One write is whole or not at all.


def answer(line: str, event: str = "SessionStart", *, is_json: bool) -> bytes:
    """`event` is the agent's own name of what happened: it wants to read that again."""
    if not is_json:
        return f"{line}\n".encode()
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": line}}).encode() + b"\n"
