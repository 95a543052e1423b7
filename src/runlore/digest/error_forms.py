"""The forms in which programs report errors, most specific first: `FORMS`, at the end.

A form looks at a line, and at its neighbours if necessary, and returns what identifies the error.
It knows programs, never an agent. Lines are short and every repeat is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from .text import build_finder

Form = Callable[[list[str], int], "ErrorLine | None"]


class ErrorLine(msgspec.Struct, frozen=True, gc=False):
    """A line that reports an error. `message` identifies it, `text` is shown."""

    kind: str
    """As in `Signature`."""
    message: str
    text: str
    name: str = ""
    """The exception or the code. Messages with different names are different errors."""
    is_strong: bool = False
    """True if the form alone proves an error, whatever the status is."""


_WORDY = re.compile(r"[^\W\d_]{2}")


# Python

_RAISED = re.compile(r"([A-Za-z_][\w.]{0,120}?)(?:: ?(.*))?\Z")
_EXCEPTION_NAME = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}(?:[A-Z]\w{0,60}|\w{0,60}(?:error|exception|timeout))\Z"
)
_BORDER = re.compile(r"\s*[|+][\s|+-]*")
FRAME = '  File "'


def find_python_exception(lines: list[str]) -> ErrorLine | None:
    """Return the exception below the last frame that has one.

    In a chain that is the last exception.
    """
    for n in range(len(lines) - 1, -1, -1):
        if FRAME not in lines[n][:40]:
            continue
        for m in range(n + 1, len(lines)):
            line = (
                _BORDER.sub("", lines[m], count=1)
                if lines[m].lstrip()[:1] in ("|", "+")
                else lines[m]
            )
            if (
                not line
                or line[0].isspace()
                or line.startswith(("Traceback", "During handling", "The above exception"))
            ):
                continue
            raised = _RAISED.match(line)
            if raised and _EXCEPTION_NAME.match(raised[1]):
                return _exception(raised[1], raised[2] or _next_line(lines, m), line)
            break
    return None


def _next_line(lines: list[str], n: int) -> str:
    """Return the next line if it holds the message of an exception that has none on its line."""
    following = lines[n + 1] if n + 1 < len(lines) and lines[n].endswith(":") else ""
    return following.strip()


def _exception(name: str, message: str, text: str) -> ErrorLine:
    return ErrorLine(
        "exception", f"{name}: {message}" if message else name, text.strip(), name, is_strong=True
    )


# Tests. An exception is the same with and without a test runner; failed assertions differ by their
# test.

_ASSERTIONS = frozenset(
    {
        "AssertionError",
        "Failed",
        "AssertionFailedError",
        "ComparisonFailure",
        "ExpectationNotMetError",
        "TestFailure",
    }
)
_TEST_NAMES = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (
            "::",
            (
                r"(?:FAILED|ERROR) (\S{1,300}?\.py(?:::[^\s\[]{1,200}){1,4})(?:\[.{0,200}?\])?(?: -"
                r" |\s*\Z)"
            ),
        ),
        ("::", r"(\S{1,300}?\.py(?:::[^\s\[]{1,200}){1,4})(?:\[.{0,200}?\])? (?:FAILED|ERROR)\b"),
        (
            "___",
            (
                r"_{3,40} ((?:ERROR \w+ \w+ (?:of )?)?[A-Za-z_][\w.]{2,200})(?:\[.{0,100}\])?"
                r" _{3,40}\Z"
            ),
        ),
        (": ", r"(?:FAIL|ERROR): (\w{1,200} \([\w.]{1,200}\))"),
        ("--- FAIL: ", r"\s*--- FAIL: (\S{1,200})"),
        ("FAILED", r"test (\S{1,300}) \.\.\. FAILED\Z"),
        ("(fail) ", r"\s*\(fail\) (.{1,300}?)(?: \[[\d.]+ ?m?s\])?\Z"),
        ("● ", r"\s{0,4}● (.{3,300}? › .{1,300}?|Test suite failed to run)\Z"),
        (" > ", r"\s*FAIL\s{1,4}(\S{1,200} > .{1,300}?)(?: \[|\Z)"),
        ("not ok ", r"not ok \d{1,6} - (.{1,300}?)\Z"),
        ("rspec ", r"rspec (\S{1,200}) # "),
        ("", r"\s*(?:✗|✕|✖) (.{3,300}?[^.])(?: \([\d.]+ ?m?s\)| \[[\d.]+ ?m?s\]| \d+ ?ms)?\Z"),
        ("ERROR", r"(?:\[ERROR\]\s{1,4}|\s{2,4})(\w{1,100}(?:Test|Tests|IT)\.\w{1,100}):\d{1,6} "),
        ("FAILED: ", r"\s*FAILED: (\w[\w.: ]{1,200}?)\Z"),
    )
)
_TEST_BEGINS = frozenset("FE_-t(●nr✗✕✖")
"""The first characters of those lines that contain neither `.py::` nor `ERROR`."""
_FOLDERS = re.compile(r"\S*/(?=[\w.-]+\.\w+)")


def _test(lines: list[str], n: int) -> ErrorLine | None:
    line = _PREFIX.sub("", lines[n], count=1) if lines[n].startswith("[") else lines[n]
    # This rules out most lines: a log may have `::` in every one of them.
    if line.lstrip()[:1] not in _TEST_BEGINS and ".py::" not in line and "ERROR" not in line:
        return None
    for word, pattern in _TEST_NAMES:
        if word in line and (found := pattern.match(line)):
            name = _FOLDERS.sub("", found[1]) if "/" in found[1] else found[1]
            return ErrorLine("test", f"failed test: {name}", line.strip(), is_strong=True)
    return None


def add_test_name(line: ErrorLine, lines: list[str]) -> ErrorLine:
    """Add the name of the test to a failed assertion, which says little without it.

    The name is near the end.
    """
    if line.name.rpartition(".")[2] not in _ASSERTIONS:
        return line
    for n in range(len(lines) - 1, -1, -1):
        if (test := _test(lines, n)) is not None:
            return ErrorLine(
                "test",
                test.message,
                f"{line.text} ({test.message.removeprefix('failed test: ')})",
                line.name,
                is_strong=True,
            )
    return line


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
    r"((?:[A-Za-z_$][\w$]{0,60}[.:]{1,2}){0,8}[A-Z][\w$]{0,60}(?:Error|Exception|Fault|Failure|Panic|Interrupt|Exit)"
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


def _pytest_error(lines: list[str], n: int) -> ErrorLine | None:
    if (found := _PYTEST_E.match(lines[n])) is None or not found[1].endswith(_EXCEPTION_ENDS):
        return None
    return _exception(found[1], found[2] or "", lines[n][1:])


def _thrown(lines: list[str], n: int) -> ErrorLine | None:
    """Return an exception of JavaScript, Java, C# and the like, which stands above its frames.

    In a chain the last cause counts.
    """
    line = lines[n]
    found = _THROWN.match(line) if _THROWABLE.search(line) else None
    if found is None or (found[3] is None and not _is_followed_by_frames(lines, n)):
        return None
    name, code, message = found.groups()
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


def _ruby(lines: list[str], n: int) -> ErrorLine | None:
    found = _RUBY.match(lines[n])
    return _exception(found[2], found[1], lines[n]) if found else None


def _panic(lines: list[str], n: int) -> ErrorLine | None:
    if found := _PANIC.match(lines[n]):
        return _exception("panic", found[1], lines[n])
    if found := _RUST_PANIC.match(lines[n]):
        message = found[1] or (lines[n + 1].strip() if n + 1 < len(lines) else "")
        return _exception("panic", message, f"panicked: {message}")
    if "PHP" in lines[n] and (found := _PHP.match(lines[n])):
        return _exception(found[1] or "PHP error", found[2], lines[n])
    return None


# Compilers and linters: the first error, without its place. A code is part of its name.

_PLACE = (
    r"(?:\S{0,200}?[\w)\]}.-]\.[A-Za-z]{1,10}|<stdin>|<string>)"
    r"(?::\d{1,7}(?:[:.]\d{1,7})?|\(\d{1,7}(?:,\d{1,7})?\)|:\[\d{1,7}(?:,\d{1,7})?\])"
)
_COMPILE = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (
            "rror",
            (
                rf"(?:.{{0,80}}? )??{_PLACE}\s?[:-]{{0,2}} ?(?:fatal )?[eE]rror"
                r" ?(?:(TS\d{3,6}|[A-Z]{1,6}\d{2,6}))?:? (.*)"
            ),
        ),
        ("error[", r"(?:.{0,60}?: )?error\[([A-Z]\d{2,5})\]: (.*)"),
        ("error ", r"(?:.{0,60}?[: ])?error (TS\d{3,6}|[A-Z]{1,6}\d{3,6}): (.*)"),
        ("/", rf"{_PLACE} ([a-z]+/[\w/-]{{3,80}})(.*)"),
        (
            " error",
            r"\s{0,6}\d{1,6}:\d{1,6}\s{1,4}error()\s{1,4}(.{5,300}?)(?:\s{2,}[\w@/-]{3,60})?\Z",
        ),
        (".", rf"(?:\.{{1,2}}/|#)?{_PLACE}: ()((?!warning|note|info)[\w`'\"].{{3,}})"),
    )
)
_WITH_PLACE = frozenset({0, 3, 5})
_MAY_BE_PLACE = re.compile(r":\d|\(\d|:\[")
_LINK = re.compile(
    r"(?:.{0,200}: )?(undefined reference to|duplicate symbol|Undefined symbols? for"
    r" architecture|ld: symbol\(s\) not found"
    r"|multiple definition of) ?(.*)"
)


def _compile(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    has_place = _MAY_BE_PLACE.search(line) is not None
    for number, (word, pattern) in enumerate(_COMPILE):
        if (
            word in line
            and (has_place or number not in _WITH_PLACE)
            and (found := pattern.match(line))
        ):
            code, message = found[1] or "", found[2].strip(" ━─═")
            if number == len(_COMPILE) - 1 and not _is_of_compiler(lines, n):
                return None
            return ErrorLine(
                "compile", f"{code} {message}".strip(), line.strip(), code, is_strong=number < 3
            )
    if ("ymbol" in line or "undefined ref" in line or "multiple def" in line) and (
        found := _LINK.match(line)
    ):
        return ErrorLine("compile", f"{found[1]} {found[2]}".strip(), line.strip(), is_strong=True)
    return None


_LINTED = re.compile(rf"(?:{_PLACE}: )?([A-Z]{{1,6}}\d{{2,5}}):? (?:\[\*\] )?(.{{5,}})")


def _linted(lines: list[str], n: int) -> ErrorLine | None:
    """Return a finding like `file.py:1:2: F401 …`, or a code with an arrow to its place below."""
    line = lines[n - 1] if n and lines[n].lstrip().startswith("--> ") else lines[n]
    found = _LINTED.match(line)
    return ErrorLine("compile", f"{found[1]} {found[2]}", line.strip(), found[1]) if found else None


def _is_of_compiler(lines: list[str], n: int) -> bool:
    """Return True for a compiler's line that does not call itself an error.

    It looks like `file.go:1:2: undefined: x`, and so do the matches of a search. It must follow a
    `# package` line, or be a sentence about code.
    """
    above = lines[n - 1] if n else ""
    return above.startswith(("# ", "vet: ")) or bool(_ABOUT_CODE.search(lines[n]))


_ABOUT_CODE = re.compile(
    r": (?:undefined: |undefined name |cannot use |cannot find |not enough arguments|too many"
    r" arguments|syntax error|missing return"
    r"|declared and not used|imported and not used"
    r"|.{0,80} (?:redeclared in this block|declared and not used|imported and not used|is not a"
    r" type|undefined \(type|is not in std)"
    r"|invalid (?:operation|argument|syntax)"
    r"|no required module provides package|expected .{1,60}, found |unknown field |assignment"
    r" mismatch|multiple-value |unreachable code"
    r"|undeclared name)"
)


# The shell

_SHELLS = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "csh", "tcsh", "fish", "-bash", "-zsh", "(eval)"}
)
_SHELL_PLACE = re.compile(r"\s?(?:(?:line )?\d{1,6}:\s?)?(?:-c: (?:line \d{1,6}: )?)?")
_NOT_FOUND = tuple(
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
_SHELL_NOT_FOUND = re.compile(r"(?:exec: )?([^\s:]{1,120}):? not found\.?\Z")
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


def _missing_command(lines: list[str], n: int) -> ErrorLine | None:
    """Return one error for each missing command, in whichever words the shell reports it."""
    line = lines[n]
    message = _strip_shell_prefix(line)
    found = _SHELL_NOT_FOUND.match(message) if message else None
    for word, pattern in _NOT_FOUND if found is None else ():
        if word in line and (found := pattern.search(line)):
            break
    if found is None:
        return None
    command = found[1].strip("'\"`").replace("\\", "/").rpartition("/")[2] or found[1]
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


def _shell(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    by_shell = _strip_shell_prefix(line)
    message = by_shell or line.strip()
    if operand := _OPERAND.match(message):
        message = f"{operand[1] or ''}{operand[2] or ''}<path>{operand[4]}"
    elif operand := _OPERAND_LAST.match(message):
        message = operand[1] + " <path>"
    if (by_shell and len(by_shell) > 3) or operand or _PROGRAM_SAYS.match(message):
        return ErrorLine("shell", message, line.strip(), is_strong=True)
    if any(name in line for name in _SIGNAL_NAMES) and (found := _SIGNALLED.match(line)):
        return ErrorLine("shell", found[1], line.strip())
    return None


# Git, web services, messages of tools, and the rest

_GIT = re.compile(
    r"\s?!? ?\[(?:remote )?rejected\]\s{1,20}(?:\S{1,200} -> \S{1,200} )?(\(.{3,200}\))|(CONFLICT"
    r" \([\w/ ]{3,40}\)): |(fatal: .{3,})"
    r"|(error: could not apply) |(?:remote: )?(error: (?:GH\d|pathspec|Your local|could not"
    r" (?!compile)|cannot|The following|You have"
    r"|Pulling|src refspec|Signing).{3,})"
)
_speaks_http = build_finder(
    [
        r"(?i)\bHTTP(?:/[\d.]{1,3})?[ :]{1,2}(?:error |status )?[45]\d\d\b|\bstatus(?: code)?["
        r" :=]{1,3}[45]\d\d\b"
        r"|\bapi error[ :(]{1,3}[45]\d\d\b",
        r"(?i)\b(?:returned error|error)[: ]{1,2}[45]\d\d\b|^[45]\d\d"
        r" [A-Z]|\brate.?limit|\boverloaded\b|\bcontext (?:length|window)"
        r"|\busage limit|hit your limit",
        (
            r"(?i)\bECONN[A-Z]+|\bETIMEDOUT|\bENOTFOUND|could not resolve host|connection"
            r" (?:refused|reset|timed out)"
        ),
    ]
)
_SAYS_ERROR = re.compile(
    r"(?i)(?:\s{0,4}(?:[✗✕✖×❌] )?(?:\[?[\w@./:-]{1,60}[\]:] ){0,2}(?:\w{1,30}"
    r" )?\[?(?:fatal|error|err!|exception)\b[\]:! ]"
    r"|\S{1,60}: \*\*\* |\s{0,4}[✗✕✖×❌] )(?P<message>.{2,})"
)
_WRAPPER_WORDS = (
    "exited with code", "exited with status", "exited with error", "command failed", "elifecycle",
    "some errors were emitted",
    "aborting due to", "could not compile",
    "task failed", "lint failed", "failed to push some refs", "test failed", "tests failed",
    "[build failed]", "for more information",
    "process completed with",
    "script failed", "build error occurred", "npm err! code", "npm err! errno", "npm err! path",
    "npm err! command",
    "npm err! a complete log",
)  # fmt: skip
_WRAPPER = re.compile(
    r"(?:\W*(?:error|fail(?:ed|ure)?)\W*\Z|fail\b|.{0,200}?(?:error \d{1,3}\Z|found \d{1,6}"
    r" errors?\b|\W*\d{1,6} (?:errors?|failures?"
    r"|failed|problems?)\b|build failed\b.{0,3}\Z))"
)
_ERROR_WORDS = (
    "error", "exception", "fail", "fatal", "panic", "not found", "no such", "denied", "cannot",
    "can't", "couldn't", "could not",
    "unable", "undefined", "unknown", "invalid",
    "unexpected", "unrecognized", "refus", "reject", "timed out", "timeout", "abort", "missing",
    "conflict", "not recognized",
    "no match", "not ", "doesn't", "don't", "didn't",
    "isn't", "wasn't", "haven't", "hasn't", "must", "no rule", "already exists", "already in use",
    "already used", "already claimed",
    "expired", "exceed", "require", "blocked",
    "interrupt", "violat", "limit", "out of memory", "ignored by", "has been", "nothing to",
)  # fmt: skip


def _is_wrapper(low: str) -> bool:
    """Return True for a line that only reports that something inside has failed."""
    for word in _WRAPPER_WORDS:
        if word in low:
            return True
    return ("error" in low or "fail" in low or "problem" in low) and _WRAPPER.match(low) is not None


def _has_error_word(low: str) -> bool:
    for word in _ERROR_WORDS:
        at = low.find(word)
        if at == 0 or (at > 0 and not low[at - 1].isalnum()):
            return True
    return False


def _git(lines: list[str], n: int) -> ErrorLine | None:
    found = _GIT.match(lines[n])
    if found is None:
        return None
    rejected, conflict, fatal, unapplied, error = found.groups()
    if rejected:
        return ErrorLine("git", f"push rejected {rejected}", lines[n].strip(), is_strong=True)
    if conflict:
        return ErrorLine("git", conflict, lines[n].strip(), is_strong=True)
    return ErrorLine("git", fatal or unapplied or error, lines[n].strip(), is_strong=True)


def _http(lines: list[str], n: int) -> ErrorLine | None:
    return (
        ErrorLine("http", strip_prefix(lines[n]), lines[n].strip())
        if len(lines) < 60 and _speaks_http(lines[n][:200])
        else None
    )


def _says_error(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    found = _SAYS_ERROR.match(line)
    if found is None or not _WORDY.search(found["message"]) or _is_wrapper(line.lower()):
        return None
    return ErrorLine("message", strip_prefix(line), line.strip())


def _error_word(lines: list[str], n: int) -> ErrorLine | None:
    line = lines[n]
    low = line.lower()
    return (
        None
        if len(line) > 300 or not _has_error_word(low) or _is_wrapper(low)
        else ErrorLine("message", strip_prefix(line), line.strip())
    )


def _wrapper(lines: list[str], n: int) -> ErrorLine | None:
    return (
        ErrorLine("message", strip_prefix(lines[n]), lines[n].strip())
        if _is_wrapper(lines[n].lower())
        else None
    )


_PREFIX = re.compile(
    r"(?:\[[\w:./ -]{1,40}\] |[✗✕✖×❌●] |\S{1,80}\.\w{1,5}:\d{1,7}(?::\d{1,7})?:?"
    r" |\d{4}-\d\d-\d\d[T ][\d:.,]{5,18}Z? ){1,3}"
)


def strip_prefix(line: str) -> str:
    """Return a line without the marks, times and places that may stand before its message."""
    line = line.strip()
    if '\\"' in line:  # JSON within a text
        line = line.replace("\\n", " ").replace("\\", "")
    found = _PREFIX.match(line)
    return line[found.end() :] or line if found else line


FORMS: tuple[tuple[tuple[str, ...], Form], ...] = (
    (("\ne  ",), _pytest_error),
    (("panic", "fatal error", "php "), _panic),
    (("error:", "error [", "error\n", "exception", "fault:", "failure:", "interrupt"), _thrown),
    ((":in ",), _ruby),
    (("not found", "not recognized", "unknown command", "env: ", "failed to run"),
    _missing_command),
    (
        ("error:", "error[", " error ", "error ts", "error cs", ": undefined", ": cannot ",
        "not used", "redeclared", "expected ",
         "syntax error", "lint/", " not in std", "not enough arguments", "too many arguments",
         "invalid operation", "invalid argument", "missing return", "no required module",
         "duplicate symbol", "undefined reference",
         "undefined symbol", "multiple definition"),
        _compile,
    ),
    ((" --> ", ".py:", ".rb:", ".php:", ".sh:"), _linted),
    (("failed ", "failed\n", "fail ", "fail: ", "fail\t", "(fail)", "::",
     "error: test", "[error]", "● ", "✗ ", "✕ ", "✖ ", "not ok ",
     "rspec ", "___ ", "test.", "tests."), _test),
    (("rejected]", "conflict (", "fatal: ", "error: "), _git),
    (
        ("sh:", "(eval)", "no such file", "denied", "is a directory", "not a directory", "exists",
        "not empty", "command expected",
         " option", "missing operand", "not permitted",
         "no space", "unexpected eof", "too many arg", "cannot open", "cannot access",
         "unrecognized", "no matches", "busy",
         "cross-device", "read-only", "substitution", "list too long",
         "broken pipe", "killed", "segmentation", "aborted", "bus error", "illegal inst",
         "terminated", "floating point",
         "breakpoint trap"),
        _shell,
    ),
    (("http", "status", "api error", "error: 4", "error: 5", "error 4", "error 5", "\n4", "\n5",
    "limit", "overloaded", "context ",
     "econn", "etimedout", "enotfound", "resolve host", "connection "), _http),
    (("error", "fatal", "err!", "exception", "*** ", "✗ ", "✕ ", "✖ ", "× ", "❌ "), _says_error),
    (_ERROR_WORDS, _error_word),
    (("error", "fail", "exited", "information"), _wrapper),
)  # fmt: skip
"""Most specific first, each with the words (in lower case) of which one must be there. Of the same
form the first line counts."""

PROVING = frozenset(
    {_pytest_error, _panic, _thrown, _ruby, _missing_command, _compile, _test, _git, _shell}
)
"""The forms of which a line may be strong."""

PROOF = "|".join(
    (
        (
            r"\nE  |(?i:panic|fatal error|php"
            r" )|Exception|Interrupt|(?:Error|Fault|Failure|Panic|Exit)(?::| \[|\s*\n)|:\d{1,6}:in "
        ),
        r"(?i:command not found|is not recognized as|unknown command|executable file not found)",
        (
            r"(?i:(?::\d+(?:[:.]\d+)?|\(\d+(?:,\d+)?\)|:\[\d+(?:,\d+)?\])\s?[:-]{0,2} ?(?:fatal"
            r" )?error|error(?:\[[A-Z]| [A-Z]{1,6})\d)"
        ),
        (
            r"(?i:undefined reference|duplicate symbol|undefined symbol|multiple"
            r" definition|symbol\(s\) not found)"
        ),
        (
            r"(?:FAILED|ERROR) \S+\.py::|\.py::[^\n]* (?:FAILED|ERROR)|ERROR: \S+ \(|FAIL(?:ED)?:"
            r" |\.\.\. FAILED|FAIL\s+\S+ > |\(fail\) "
        ),
        (
            r"___ [^\n]* ___|● [^\n]* › |● Test suite failed|not ok \d|rspec \S+ # |[✗✕✖]"
            r" |(?:Tests?|IT)\.\S+:\d"
        ),
        r"rejected\]|CONFLICT \(|fatal: ",
        (
            r"error: (?:GH\d|pathspec|Your local|could not |cannot|The following|You"
            r" have|Pulling|src refspec|Signing)"
        ),
        r"\W(?:ba|z|da|k|c|tc|fi)?sh:|\(eval\):",
        r"(?i:no such file or directory|permission denied|is a directory|not a directory|file"
        r" exists|directory not empty|command expected"
        r"|(?:invalid|unrecognized|illegal|unknown) option|unrecognized flag|missing operand|not"
        r" permitted|no space left|unexpected eof"
        r"|too many arguments|cannot open|cannot access|no matches found|resource busy|cross-device"
        r" link|read-only file system"
        r"|bad substitution|argument list too long|broken pipe)",
    )
)
"""An RE2 pattern that every text with a strong line matches. It is narrower than the words of the
forms, which nearly every log has, and wider than the forms themselves. A new strong form must be
added here."""

LAST_COUNTS = frozenset({_pytest_error, _test})
"""The forms of which the last line counts and not the first: a test runner sums up at its end."""
