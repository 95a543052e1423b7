"""Run the user's own agent on a prompt, bounded in time and in output.

The command gets the prompt on its standard input and answers on its standard output, as `claude -p`
and `codex exec -` do. It is started without a shell, in an empty folder, so that it does not read
or change a repository. Whatever it starts is ended with it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress

from ...errors import RunloreError

MAX_OUTPUT_BYTES = 1 << 20
TIMEOUT_S = 300.0
EXIT_S = 10.0
"""Seconds that a command may take to end after its answer."""


class AgentFailed(RunloreError):
    """The user's agent gave no answer."""


def split_command(command: str) -> list[str]:
    """Return the words of a command line. Raises AgentFailed if there is none."""
    try:
        words = shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise AgentFailed(f"{command!r} is no command: {error}") from None
    if not words:
        raise AgentFailed("no command is named; docs/lessons.md has examples")
    return words


def ask_agent(command: str, prompt: str, timeout_s: float = TIMEOUT_S) -> str:
    """Return what the command answers to a prompt. Raises AgentFailed."""
    words = split_command(command)
    with tempfile.TemporaryDirectory(prefix="runlore-", ignore_cleanup_errors=True) as folder:
        try:
            process = subprocess.Popen(
                words,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=os.name == "posix",
            )
        except OSError as error:
            raise AgentFailed(f"{words[0]}: {error.strerror}; is it installed?") from None
        return _exchange(process, words[0], prompt.encode("utf-8", "replace"), timeout_s)


def _exchange(process: subprocess.Popen[bytes], name: str, prompt: bytes, timeout_s: float) -> str:
    """Write the prompt and read the answer, each in a thread: neither may block the other."""
    output: list[bytes] = []
    reader = threading.Thread(target=_read, args=(process, output), daemon=True)
    writer = threading.Thread(target=_write, args=(process, prompt), daemon=True)
    try:
        reader.start()
        writer.start()
        reader.join(timeout_s)
        if reader.is_alive():
            raise AgentFailed(f"{name} gave no answer within {timeout_s:.0f} seconds")
        data = b"".join(output)
        if len(data) > MAX_OUTPUT_BYTES:
            raise AgentFailed(f"{name} answered with more than {MAX_OUTPUT_BYTES >> 20} MB")
        with suppress(subprocess.TimeoutExpired):
            process.wait(EXIT_S)
        if process.returncode:
            raise AgentFailed(f"{name} ended with status {process.returncode}")
    finally:
        _end(process)
        writer.join(1.0)
    return data.decode("utf-8", "replace")


def _read(process: subprocess.Popen[bytes], output: list[bytes]) -> None:
    assert process.stdout is not None
    with process.stdout as pipe, suppress(OSError, ValueError):
        output.append(pipe.read(MAX_OUTPUT_BYTES + 1))


def _write(process: subprocess.Popen[bytes], prompt: bytes) -> None:
    assert process.stdin is not None
    # A command that does not read all of its input may still answer.
    with suppress(OSError, ValueError):
        process.stdin.write(prompt)
    with suppress(OSError, ValueError):
        process.stdin.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(EXIT_S)
