"""The forms in which programs report errors, most specific first: `FORMS`.

A form looks at a line, and at its neighbours if necessary, and returns what identifies the error.
It knows programs, never an agent. Lines are short and every repeat is bounded.
"""

from __future__ import annotations

from .compilers import find_compiler_error, find_lint_error
from .exceptions import (
    FRAME,
    find_panic,
    find_pytest_error,
    find_python_exception,
    find_ruby_exception,
    find_thrown_exception,
)
from .failed_tests import add_test_name, drop_repeated_tests, find_test_failure
from .line import ErrorLine, Form
from .messages import (
    ERROR_WORDS,
    find_error_message,
    find_error_word,
    find_git_error,
    find_http_error,
    find_wrapper,
    strip_prefix,
)
from .shells import find_missing_command, find_shell_error

__all__ = [
    "FORMS",
    "FRAME",
    "LAST_COUNTS",
    "PROOF",
    "PROVING",
    "ErrorLine",
    "Form",
    "add_test_name",
    "drop_repeated_tests",
    "find_compiler_error",
    "find_python_exception",
    "find_test_failure",
    "strip_prefix",
]

FORMS: tuple[tuple[tuple[str, ...], Form], ...] = (
    (("\ne  ",), find_pytest_error),
    (("panic", "fatal error", "php "), find_panic),
    (("error:", "error [", "error\n", "exception", "fault:", "failure:", "interrupt"),
     find_thrown_exception),
    ((":in ",), find_ruby_exception),
    (("not found", "not recognized", "unknown command", "env: ", "failed to run"),
    find_missing_command),
    (
        ("error:", "error[", " error ", "error ts", "error cs", ": undefined", ": cannot ",
        "not used", "redeclared", "expected ",
         "syntax error", "lint/", " not in std", "not enough arguments", "too many arguments",
         "invalid operation", "invalid argument", "missing return", "no required module",
         "duplicate symbol", "undefined reference",
         "undefined symbol", "multiple definition"),
        find_compiler_error,
    ),
    ((" --> ", ".py:", ".rb:", ".php:", ".sh:"), find_lint_error),
    (("failed ", "failed\n", "fail ", "fail: ", "fail\t", "(fail)", "::",
     "error: test", "[error]", "● ", "✗ ", "✕ ", "✖ ", "not ok ",
     "rspec ", "___ ", "test.", "tests."), find_test_failure),
    (("rejected]", "conflict (", "fatal: ", "error: "), find_git_error),
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
        find_shell_error,
    ),
    (("http", "status", "api error", "error: 4", "error: 5", "error 4", "error 5", "\n4", "\n5",
    "limit", "overloaded", "context ",
     "econn", "etimedout", "enotfound", "resolve host", "connection "), find_http_error),
    (("error", "fatal", "err!", "exception", "*** ", "✗ ", "✕ ", "✖ ", "× ", "❌ "),
     find_error_message),
    (ERROR_WORDS, find_error_word),
    (("error", "fail", "exited", "information"), find_wrapper),
)  # fmt: skip
"""Most specific first, each with the words (in lower case) of which one must be there. Of the same
form the first line counts."""

PROVING = frozenset(
    {
        find_pytest_error,
        find_panic,
        find_thrown_exception,
        find_ruby_exception,
        find_missing_command,
        find_compiler_error,
        find_test_failure,
        find_git_error,
        find_shell_error,
    }
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
            r" |\.\.\. FAILED|FAIL\s+\S+ (?:> |\[build|[\d.]+s)|\(fail\) "
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

LAST_COUNTS = frozenset({find_pytest_error, find_test_failure})
"""The forms of which the last line counts and not the first: a test runner sums up at its end."""
