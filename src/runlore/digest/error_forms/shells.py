"""Errors of the shell and of small programs: missing commands, files and permissions, signals."""

from __future__ import annotations

import re

from .line import ErrorLine

_SHELLS = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "csh", "tcsh", "fish", "-bash", "-zsh", "(eval)"}
)
_SHELL_PLACE = re.compile(r"\s?(?:(?:line )?\d{1,6}:\s?)?(?:-c: (?:line \d{1,6}: )?)?")
_MISSING_PROGRAM = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        ("command not found", r"(?<![^\s:])([^\s:]{1,120}): command not found(?:\s|\.|$)"),
        ("command not found: ", r"command not found: (\S{1,120})"),
        (
            " is not recognized as ",
            r"['\"]?([\w.+-]{1,120})['\"]? is not recognized as an internal or external command",
        ),
        (
            " is not recognized as ",
            r"The term '([^']{1,120})' is not recognized as (?:a|the) name of a cmdlet",
        ),
        ("Unknown command", r"\A(?:fish|.{0,40}): Unknown command:? '?([^'\s]{1,120})"),
        ("executable file not found", r"exec: \"([^\"]{1,120})\": executable file not found in "),
        (
            "No such file",
            r"\A(?:/usr/bin/)?(?:env|sudo|xargs|nohup"
            r"|timeout)(?:: failed to run command)?: ?[‘'“\"]?([\w.+-]{1,120})[’'”\"]?: No such"
            r" file or directory",
        ),
    )
)
_SHELL_MISSING_PROGRAM = re.compile(r"(?:exec: )?([^\s:]{1,120}):? not found\.?\Z")
_PROGRAM_SAYS = re.compile(
    r"(?i)([\w.+-]{1,40}): (.{0,240}?(?:no such file or directory|permission denied|is a"
    r" directory|not a directory|file exists"
    r"|directory not empty|command expected"
    r"|invalid option|unrecognized option|illegal option|missing operand|operation not permitted|no"
    r" space left on device|unexpected eof"
    r"|too many arguments"
    r"|cannot open|cannot access|unrecognized flag|unknown option|no matches found|device or"
    r" resource busy|cross-device link"
    r"|read-only file system|not permitted|bad substitution"
    r"|argument list too long|broken pipe).{0,60})\Z"
)
_OPERAND = re.compile(
    r"(?!E[A-Z]{3,20}: )([\w.+-]{1,40}: (?:\d{1,6}: )?)?((?:cannot \w+(?: \w+)?|can't \w+|unable"
    r" to \w+"
    r"|could not \w+) )?(?:['‘\"]?)([^'’\":]{1,200}?)['’\"]?"
    r"(: (?:No such file or directory|Is a directory|Not a directory|Permission denied|File"
    r" exists|Operation not permitted"
    r"|Directory not empty)(?: \(os error \d{1,5}\))?\.?)\Z",
    re.IGNORECASE,
)
"""The operand of such a message is a path, even if it does not look like one."""
_OPERAND_LAST = re.compile(
    r"((?:[\w.+-]{1,40}: ?(?:\d{1,6}: ?)?)?(?:no such file or directory|permission denied|no"
    r" matches found|not a directory"
    r"|is a directory):) .{1,250}\Z",
    re.I,
)
_SIGNALLED = re.compile(
    r"(?i)(?:.{0,120}?\s)?(Killed|Segmentation fault|Aborted|Bus error|Illegal"
    r" instruction|Terminated|Floating point exception"
    r"|Trace/breakpoint trap)(?: \(core dumped\)|: \d+)?(?:\s.{0,200})?\Z"
)
_SIGNAL_NAMES = (
    "Killed",
    "egmentation",
    "Abort",
    "Bus error",
    "Illegal",
    "Terminated",
    "Floating",
    "breakpoint",
)


def find_missing_command(lines: list[str], n: int) -> ErrorLine | None:
    """Return one error for each missing command, in whichever words the shell reports it."""
    line = lines[n]
    message = _strip_shell_prefix(line)
    match = _SHELL_MISSING_PROGRAM.match(message) if message else None
    for word, pattern in _MISSING_PROGRAM if match is None else ():
        if word in line and (match := pattern.search(line)):
            break
    if match is None:
        return None
    command = match[1].strip("'\"`").replace("\\", "/").rpartition("/")[2] or match[1]
    return ErrorLine(
        "shell", f"command not found: {command}", line.strip(), command, is_strong=True
    )


def _strip_shell_prefix(line: str) -> str | None:
    """Return what follows `bash: line 1: ` or the like; None for a line that no shell printed."""
    at = line.find("(eval):")
    end = at + 6 if at >= 0 else line.find("sh:") + 2
    if end < 2 or end > 80:
        return None
    name = line[:end].rpartition(" ")[2].rpartition("/")[2]
    place = _SHELL_PLACE.match(line, end + 1)
    return (
        line[place.end() :]
        if place and (name in _SHELLS or name.endswith((".sh", ".bash", ".zsh")))
        else None
    )


def find_shell_error(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    by_shell = _strip_shell_prefix(line)
    message = by_shell or line.strip()
    if operand := _OPERAND.match(message):
        message = f"{operand[1] or ''}{operand[2] or ''}<path>{operand[4]}"
    elif operand := _OPERAND_LAST.match(message):
        message = operand[1] + " <path>"
    if (by_shell and len(by_shell) > 3) or operand or _PROGRAM_SAYS.match(message):
        return ErrorLine("shell", message, line.strip(), is_strong=True)
    if any(name in line for name in _SIGNAL_NAMES) and (match := _SIGNALLED.match(line)):
        return ErrorLine("shell", match[1], line.strip())
    return None
