"""Exceptions of Python, JavaScript, Java, C#, Ruby, Go, Rust and PHP."""

from __future__ import annotations

import re

from .line import ErrorLine

_RAISED = re.compile(r"([A-Za-z_][\w.]{0,120}?)(?:: ?(.*))?\Z")
_EXCEPTION_NAME = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}(?:[A-Z]\w{0,60}|\w{0,60}(?:error|exception|timeout))\Z"
)
_BORDER = re.compile(r"\s*[|+][\s|+-]*")
FRAME = '  File "'


def find_python_exception(lines: list[str]) -> ErrorLine | None:
    """Return the exception below the last frame that has one.

    In a chain that is the last exception. One that the interpreter ignored only counts if there is
    no other.
    """
    ignored: ErrorLine | None = None
    for n in range(len(lines) - 1, -1, -1):
        if FRAME not in lines[n][:40] or (line := _find_raised(lines, n)) is None:
            continue
        if not _is_ignored(lines, n):
            return line
        ignored = ignored or line
    return ignored


def _find_raised(lines: list[str], n: int) -> ErrorLine | None:
    """Return the exception in the first line below a frame that is not part of the traceback."""
    for m in range(n + 1, len(lines)):
        line = lines[m]
        if line.lstrip()[:1] in ("|", "+"):
            line = _BORDER.sub("", line, count=1)
        if not line or line[0].isspace() or line.startswith(_WITHIN_TRACEBACK):
            continue
        raised = _RAISED.match(line)
        if raised and _EXCEPTION_NAME.match(raised[1]) and not raised[1].endswith("Warning"):
            return _exception(raised[1], raised[2] or _next_line(lines, m), line)
        return None
    return None


_WITHIN_TRACEBACK = ("Traceback", "During handling", "The above exception")


def _is_ignored(lines: list[str], n: int) -> bool:
    """Return True if the traceback of a frame stands under "Exception ignored in"."""
    top = next((m for m in range(n - 1, -1, -1) if not lines[m][:1].isspace()), -1)
    if top > 0 and lines[top].startswith("Traceback"):
        top -= 1
    return top >= 0 and lines[top].startswith(_IGNORED)


_IGNORED = "Exception ignored "


def _next_line(lines: list[str], n: int) -> str:
    """Return the next line if it holds the message of an exception that has none on its line."""
    following = lines[n + 1] if n + 1 < len(lines) and lines[n].endswith(":") else ""
    return following.strip()


def _exception(name: str, message: str, text: str) -> ErrorLine:
    return ErrorLine(
        "exception", f"{name}: {message}" if message else name, text.strip(), name, is_strong=True
    )


# Exceptions outside of Python's tracebacks

_PYTEST_E = re.compile(r"E\s{2,10}([A-Za-z_][\w.]{0,120})(?:: ?(.*))?\Z")
_EXCEPTION_ENDS = (
    "Error",
    "Exception",
    "Failed",
    "NotFound",
    "DoesNotExist",
    "Warning",
    "Timeout",
    "Expired",
    "Exit",
    "Interrupt",
)
_THROWN = re.compile(
    r"(?:.{0,60}?(?:Uncaught|Unhandled|unhandled) ?(?:exception\.?|rejection)?:? ?(?:\(in"
    r" promise\) )?"
    r"|Exception in thread \"[^\"]{0,100}\" |Caused by: |\s*throw |.{0,40}?\d+:\d+:? |error: )?"
    r"((?:[A-Za-z_$][\w$]{0,60}[.:]{1,2}){0,8}[A-Z][\w$]{0,60}(?:Error|Exception|Fault|Failure"
    r"|Panic|Interrupt|Exit)"
    r"|Error)(?: \[(\w{1,60})\])?(?:: ?(.*))?\Z"
)
_THROWABLE = re.compile(r"(?:Error|Exception|Fault|Failure|Panic|Interrupt|Exit)(?::| \[|\Z)")
"""The end of an exception's name: a fast check, which saves the slow pattern."""
_AT = re.compile(r"\s+at\s+\S|\s+\.\.\. \d+ more|\s+from \S+:\d+:in ")
_RUBY = re.compile(
    r".{1,200}?:\d{1,6}:in [`'].{1,100}?': (.{1,300})"
    r" \(((?:[A-Z]\w{0,60}::){0,4}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit)?)\)\Z"
)
_PANIC = re.compile(
    r"\s*(?:panic: |fatal error: (?=all goroutines|stack overflow|concurrent map|runtime|unexpected"
    r" signal))(.*)"
)
_RUST_PANIC = re.compile(r"\s*thread '[^']{0,200}' (?:\(\d+\) )?panicked at (?:'(.{1,300})', |.*)")
_PHP = re.compile(
    r".{0,40}PHP? ?(?:Fatal|Parse|Recoverable fatal) error: {1,2}(?:Uncaught )?(?:([A-Z]\w{0,60}):"
    r" )?(.*)"
)


def find_pytest_error(lines: list[str], n: int) -> ErrorLine | None:
    if (match := _PYTEST_E.match(lines[n])) is None or not match[1].endswith(_EXCEPTION_ENDS):
        return None
    return _exception(match[1], match[2] or "", lines[n][1:])


def find_thrown_exception(lines: list[str], n: int) -> ErrorLine | None:
    """Return an exception of JavaScript, Java, C# and the like, which stands above its frames.

    In a chain the last cause counts.
    """
    line = lines[n]
    match = _THROWN.match(line) if _THROWABLE.search(line) else None
    if match is None or (match[3] is None and not _is_followed_by_frames(lines, n)):
        return None
    name, code, message = match.groups()
    if name == "Error" and not (
        _is_followed_by_frames(lines, n) or line.startswith("Uncaught") or code
    ):
        return None
    for later in lines[n + 1 :]:
        if later.startswith("Caused by: ") and (cause := _THROWN.match(later)) is not None:
            name, code, message, line = *cause.groups(), later
    message = f"[{code}] {message or ''}".strip() if code else message or ""
    return _exception(name, message, line)


def _is_followed_by_frames(lines: list[str], n: int) -> bool:
    return any(_AT.match(line) for line in lines[n + 1 : n + 5])


def find_ruby_exception(lines: list[str], n: int) -> ErrorLine | None:
    match = _RUBY.match(lines[n])
    return _exception(match[2], match[1], lines[n]) if match else None


def find_panic(lines: list[str], n: int) -> ErrorLine | None:
    if match := _PANIC.match(lines[n]):
        return _exception("panic", match[1], lines[n])
    if match := _RUST_PANIC.match(lines[n]):
        message = match[1] or (lines[n + 1].strip() if n + 1 < len(lines) else "")
        return _exception("panic", message, f"panicked: {message}")
    if "PHP" in lines[n] and (match := _PHP.match(lines[n])):
        return _exception(match[1] or "PHP error", match[2], lines[n])
    return None
