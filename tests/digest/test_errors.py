"""What is an error, which line of it matters, and what its fingerprint forgets and keeps."""

import random
import re
import string
import time
import unicodedata
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.digest import ErrorSummary
from runlore.digest.error_lines import find_error_line, may_hold_proof
from runlore.digest.errors import errors, signature
from runlore.model import SessionEvent, Tests
from tests.digest.sessions import UID, session


def errors_of(called: str, came_back: str, **fields: Any) -> list[ErrorSummary]:
    return errors(*session((called, came_back, fields)))


def template(text: str) -> str:
    found = signature(text)
    assert found is not None
    return found.template


def same(*texts: str) -> bool:
    return len({found.fingerprint for text in texts if (found := signature(text))}) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            (
                'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n   '
                " x()\nKeyError: 'repo'"
            ),
            "KeyError: 'repo'",
        ),
        (
            (
                'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError:'
                " bad\n\nDuring handling of the above exception, another exception"
                ' occurred:\n\nTraceback (most recent call last):\n  File "b.py", line 2, in'
                " g\nRuntimeError: worse"
            ),
            "RuntimeError: worse",
        ),
        (
            '  File "a.py", line 277\n    match x:\n          ^\nSyntaxError: invalid syntax',
            "SyntaxError: invalid syntax",
        ),
        (
            (
                '  | Traceback (most recent call last):\n  |   File "a.py", line 1, in f\n  |'
                " OSError: gone"
            ),
            "OSError: gone",
        ),
        (
            (
                "/app/x.js:3\n    throw err;\n\nError: Cannot find module 'left-pad'\n    at"
                " Module._resolve (node:internal:1:2)"
            ),
            "Error: Cannot find module 'left-pad'",
        ),
        (
            (
                'Exception in thread "main" java.lang.RuntimeException: outer\n\tat A.b(A.java:1)\n'
                "Caused by: java.io.IOException: disk full\n\tat C.d(C.java:2)"
            ),
            "java.io.IOException: disk full",
        ),
        (
            (
                "# pkg/x\nx/y.go:12:3: undefined: foo\nx/y.go:13:3: undefined: bar\nFAIL\tpkg/x"
                " [build failed]"
            ),
            "undefined: foo",
        ),
        (
            (
                "src/a.tsx(114,9): error TS2322: Type 'a' is not assignable to type"
                " 'b'.\nsrc/b.tsx(1,1): error TS1005: ';' expected."
            ),
            "TS2322 Type 'a'",
        ),
        (
            "error[E0308]: mismatched types\n --> src/main.rs:4:5\nerror: could not compile `x`",
            "E0308 mismatched types",
        ),
        (
            "a.c:1:10: fatal error: zlib.h: No such file or directory\ncompilation terminated.",
            "<path>: No such file or directory",
        ),
        (
            (
                "ok  \tx/a\t0.1s\n--- FAIL: TestSync (0.02s)\n    a_test.go:9: got 3, want"
                " 4\nFAIL\nFAIL\tx/b\t0.3s"
            ),
            "failed test: TestSync",
        ),
        (
            (
                "E       assert 3 == 4\nE       AssertionError\nFAILED"
                " tests/test_a.py::TestX::test_y - AssertionError: 3"
            ),
            "failed test: <path>::TestX::test_y",
        ),
        (
            "E   ModuleNotFoundError: No module named 'yaml'\nERROR tests/test_a.py",
            "ModuleNotFoundError: No module named 'yaml'",
        ),
        (
            (
                "thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds: the len is 3 but"
                " the index is 7"
            ),
            "panic: index out of bounds",
        ),
        (
            (
                "hint: x\nTo https://a/b.git\n ! [rejected]        main -> main (fetch"
                " first)\nerror: failed to push some refs to 'x'"
            ),
            "push rejected (fetch first)",
        ),
        (
            "Auto-merging a.md\nCONFLICT (content): Merge conflict in a.md\nhint: resolve",
            "CONFLICT (content)",
        ),
        (
            (
                "$ biome check .\n/usr/bin/bash: line 1: biome: command not found\nerror: script"
                ' "lint" exited with code 127'
            ),
            "command not found: biome",
        ),
        (
            "> web@0.0.0 build\nsome words\nerror: unexpected argument '--base' found\n\nUsage: x",
            "error: unexpected argument '--base' found",
        ),
        (
            "<tool_use_error>File has not been read yet. Read it first.</tool_use_error>",
            "File has not been read yet. Read it first.",
        ),
        (
            (
                "Chunk ID: 12ab34\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nno"
                " such thing here"
            ),
            "no such thing here",
        ),
        ("\x1b[31merror:\x1b[0m bad\x07 thing", "error: bad thing"),
        (
            (
                "Command: npx tsc\nDirectory: (root)\nOutput: a.ts(1,2): error TS2307: Cannot find"
                " module 'x'\nError: (none)\nExit Code: 2"
            ),
            "TS2307",
        ),
        (
            (
                "Command: a &&\nb\nDirectory: (root)\nOutput: no luck today\nError: (none)\nExit"
                " Code: 1\nSignal: (none)"
            ),
            "no luck today",
        ),
        (
            'shell 3 has stopped\n  command: cat a.json 2>/dev/null || echo "not found"',
            "shell <n> has stopped",
        ),
    ],
)
def test_the_line_that_matters(text: str, line: str) -> None:
    assert template(text).startswith(line)


@pytest.mark.parametrize(
    "texts",
    [
        (
            "bash: line 1: jq: command not found",
            "zsh: command not found: jq",
            "/bin/sh: 1: jq: not found",
            "(eval):3: command not found: jq",
        ),
        (
            "bash: jq: command not found",
            (
                "'jq' is not recognized as an internal or external command,\noperable program or"
                " batch file."
            ),
        ),
        (
            "Traceback (most recent call last):\n  File \"a\", line 1, in b\nKeyError: 'x'",
            "E   KeyError: 'x'\nFAILED a.py::t - KeyError: 'x'",
        ),
        ("cat: /a/b.txt: No such file or directory", "cat: c: No such file or directory"),
        (
            "fatal: unable to access 'https://a.b/c.git/': timed out after 75056 ms",
            "fatal: unable to access 'https://d.e/f/': timed out after 1 ms",
        ),
        (
            "Error at 0x7ffd1234abcd in job 3f2a9c1 of 2024-01-02 10:11:12",
            "Error at 0x1 in job aa11bb22cc of 2031-12-30T01:02:03Z",
        ),
        (
            "error: no task 550e8400-e29b-41d4-a716-446655440000",
            "error: no task 123e4567-e89b-12d3-a456-426614174000",
        ),
        ("connect to 10.0.0.1:8080 failed", "connect to 192.168.17.3:443 failed"),
        (
            "Failed to find expected lines in /a/b.py:",
            "error: Failed to find expected lines in /c.py:",
            "apply_patch verification failed: Failed to find expected lines in /d/e/f.py:",
        ),
    ],
)
def test_the_same_error_has_one_fingerprint(texts: tuple[str, ...]) -> None:
    assert same(*texts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Request failed with status code 404", "Request failed with status code 500"),
        ("HTTP 401: Bad credentials", "HTTP 403: Bad credentials"),
        ("process exited with exit code 1", "process exited with exit code 137"),
        ("a.ts(1,2): error TS2345: wrong", "a.ts(1,2): error TS2322: wrong"),
        ("OSError: [Errno 2] failed", "OSError: [Errno 13] failed"),
        ("error: SQLSTATE[23505]: it failed", "error: SQLSTATE[42P01]: it failed"),
        ("bash: javac: command not found", "bash: mvn: command not found"),
        ("bash: python2: command not found", "bash: python3: command not found"),
        (
            "ModuleNotFoundError: No module named 'boto3'",
            "ModuleNotFoundError: No module named 'boto4'",
        ),
        ("error: unknown option '--foo'", "error: unknown option '--bar'"),
        ("TypeError: it failed", "ValueError: it failed"),
        ("x/a.go:1:2: undefined: foo", "x/a.go:1:2: undefined: bar"),
    ],
)
def test_different_errors_are_not_merged(one: str, other: str) -> None:
    assert not same(one, other)


def test_a_command_that_failed_without_a_word_is_known_by_its_code() -> None:
    said = (
        "Command: npx tsc\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 1\nSignal:"
        " (none)\nProcess Group PGID: 25204"
    )
    [error] = errors_of("npx tsc", said, exit_code=1, is_error=True)
    assert error.signature.template == "exit code 1 from tsc"


@pytest.mark.parametrize(
    ("called", "came_back", "fields"),
    [
        ("rg -n nothing src", "", {"exit_code": 1, "is_error": True}),
        ("cd /x && grep -rn foo . | head -5; echo ---", "---", {"exit_code": 1, "is_error": True}),
        ("git grep -n foo", "Exit code 1", {"exit_code": 1, "is_error": True}),
        ("command -v beads; which x", "", {"exit_code": 1, "is_error": True}),
        ("ls a b 2>/dev/null", "a", {"exit_code": 2, "is_error": True}),
        (
            "cat log.txt",
            'Traceback (most recent call last):\n  File "a", line 1, in b\nKeyError: 1',
            {},
        ),
        ("a.py", "raise ValueError('error: failed')", {"action": "read"}),
        ("ruff check .", "All checks passed: 0 errors, 0 failed", {"exit_code": 0}),
        ("make", "Compiling error.c\nfailed: 0\nno errors", {"exit_code": 0}),
        ("npm run lint | tail -3", "✔ 0 problems (0 errors, 0 warnings)", {"exit_code": 0}),
        (
            "tool",
            '{"success": true, "message": "error budget ok", "errors": []}',
            {"action": "mcp", "is_error": True},
        ),
        (
            "pytest -q | tail -3",
            "12 passed in 0.3s",
            {"exit_code": 0, "kind": "test_run", "tests": Tests(passed=12, failed=0)},
        ),
        (
            "pytest -v | tail",
            "tests/a.py::test_invalid_error PASSED [ 50%]\ntests/a.py::test_failure PASSED [100%]",
            {"exit_code": 0},
        ),
        ("python build.py", "wrote lookup.json with the token error_count", {"exit_code": 0}),
    ],
)
def test_what_merely_looks_like_an_error_is_none(
    called: str, came_back: str, fields: dict[str, Any]
) -> None:
    assert errors_of(called, came_back, **fields) == []


@pytest.mark.parametrize(
    ("called", "came_back", "fields", "line"),
    [
        (
            "go test ./... 2>&1 | tail -9",
            "--- FAIL: TestA (0.1s)\nFAIL\nFAIL\tx\t0.2s",
            {"exit_code": 0},
            "failed test: TestA",
        ),
        (
            "python a.py",
            'Traceback (most recent call last):\n  File "a", line 1, in b\nKeyError: 1',
            {},
            "KeyError: <n>",
        ),
        ("make deploy", "", {"exit_code": 3, "is_error": True}, "exit code 3 from make deploy"),
        (
            "rg x src lib",
            "rg: lib: No such file or directory (os error 2)\nsrc/a.py:3:error",
            {"exit_code": 2},
            "rg: <path>: No such file or directory",
        ),
        (
            "git status",
            "fatal: not a git repository (or any of the parent directories): .git",
            {"exit_code": 128},
            "fatal: not a git repository",
        ),
        (
            "tool",
            '{"error": {"type": "overloaded_error", "message": "Overloaded"}, "status": 529}',
            {"action": "mcp", "is_error": True},
            "overloaded_error: ",
        ),
    ],
)
def test_an_error_is_found_wherever_it_was_reported(
    called: str, came_back: str, fields: dict[str, Any], line: str
) -> None:
    (found,) = errors_of(called, came_back, **fields)
    assert found.signature.template.startswith(line)


@pytest.mark.parametrize(
    ("called", "came_back", "fields"),
    [
        ("x", "Claude requested permissions, but you haven't granted it yet.", {"is_error": True}),
        ("x", "This command requires approval", {"is_error": True}),
        ("git push", "[Request interrupted by user for tool use]", {"is_error": True}),
        ("sleep 9", "(no output)\nUser aborted the command", {"is_error": True}),
        ("git push", "So would this work there, or should we move it?", {"is_error": True}),
        ("git push", "Wait a sec, we must copy the picture too", {"is_error": True}),
        ("bun pm ls | rg codex", "", {"exit_code": 1, "is_error": True}),
        ("test -w /m && mkdir -p /m/a", "", {"exit_code": 1, "is_error": True}),
        ("make", "^C", {"exit_code": 130, "is_error": True}),
        ("go run . | head -5", "{}\nsignal: broken pipe", {"exit_code": 0}),
        ("git checkout -b a && echo made a && ls x", "made a", {"exit_code": 2, "is_error": True}),
        ("which a || echo 'a: not found'; false", "a: not found", {"exit_code": 1}),
        ("gh pr checks 1", "lint pass 3s\ntest pass 9s\ndocs pass 5s", {"exit_code": 8}),
        ("grep -r x", "Error", {"is_error": True}),
        ("cat a.log", "KeyError: 1", {"exit_code": 0}),
        ("pytest -rA | head", "== PASSES ==\n_____ TestA.test_b _____\nfine", {"exit_code": 0}),
    ],
)
def test_what_is_no_error(called: str, came_back: str, fields: dict[str, Any]) -> None:
    assert errors_of(called, came_back, **fields) == []


@pytest.mark.parametrize(
    ("kind", "native", "body"),
    [
        ("error", "submitted (exit_cost)", "diff --git a/x.py b/x.py\n+raise KeyError(1)"),
        ("error", "exit_context", "diff --git a/x.py b/x.py\n+raise KeyError(1)"),
        ("error", "early_exit", "early_exit"),
        ("completion", "Submitted", "Submitted"),
        ("tool_result", "tool_result", "please add the other file first"),
    ],
)
def test_the_end_of_a_run_and_the_words_of_a_person_are_no_errors(
    kind: str, native: str, body: str
) -> None:
    event = SessionEvent(session_uid="toy:1", seq=0, kind=kind, native=native, is_error=True)
    assert errors([event], {0: body}) == []


def test_a_warning_that_an_agent_records_is_no_error() -> None:
    event = SessionEvent(session_uid="toy:1", seq=0, kind="error", native="warning")
    assert errors([event], {0: "the disk is nearly full"}) == []


def test_the_message_of_a_tool_comes_before_what_it_quotes() -> None:
    said = "Found 2 matches of the string to replace.\nString: const e = new Error('not found');"
    [error] = errors_of("a.ts", said, action="edit", kind="edit", is_error=True)
    assert error.signature.sample == "Found 2 matches of the string to replace."


def test_each_failed_test_is_an_error_of_its_own_with_its_assertion() -> None:
    said = (
        "_____ test_a _____\nE   AssertionError: assert 1 == 2\n_____ TestB.test_c _____\n"
        "FAILED tests/test_x.py::test_a - AssertionError: assert 1 == 2\n"
        "FAILED tests/test_x.py::TestB::test_c - AssertionError: no items\n2 failed in 0.1s"
    )
    found = errors_of("pytest", said, exit_code=1, is_error=True)
    assert sorted(error.signature.template for error in found) == [
        "failed test: <path>::TestB::test_c: AssertionError: no items",
        "failed test: <path>::test_a: AssertionError: assert <n> == <n>",
    ]
    said = (
        "--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/one (0.1s)\n        a_test.go:9: got 3, want 4"
        "\n--- FAIL: TestB (0.1s)\n    b_test.go:3: no server\nFAIL\nFAIL\tx/a\t0.2s"
    )
    found = errors_of("go test ./... | tail", said, exit_code=0)
    assert sorted(error.signature.template for error in found) == [
        "failed test: TestA/one: got <n>, want <n>",
        "failed test: TestB: no server",
    ]


def test_a_failed_test_is_the_same_error_whatever_it_asserted() -> None:
    assert same(
        "FAILED tests/test_x.py::test_a - AssertionError: assert 1 == 2",
        "FAILED tests/test_x.py::test_a - AssertionError: no items",
        "FAILED tests/test_x.py::test_a",
    )


def test_each_error_of_a_compiler_is_one() -> None:
    said = "a.ts(3,1): error TS2304: Cannot find name 'x'.\nb.ts(4,1): error TS7005: No type."
    assert len(errors_of("tsc", said, exit_code=2, is_error=True)) == 2


def test_words_before_a_message_and_letter_case_make_no_other_error() -> None:
    assert same(
        "error: unknown flag: --short",
        "ERROR unknown flag: --short",
        "Error: Unknown flag: --short",
        "fatal: unknown flag: --short",
    )


LINES = (
    "E   KeyError: 'x'", "panic: no more", "thread 'main' panicked at 'no', a.rs:1",
    "TypeError: no function", "    at f (a.js:1:2)", "x",
    "Caused by: a.IOException: full", "a.rb:3:in `f': no (NameError)",
    "bash: foo: command not found", "a.c:1:2: error: no type",
    "error[E0425]: no value", "a.py:1:1: F401 unused import", "--- FAIL: TestA",
    "FAILED a.py::test_b - no", "fatal: not a repository",
    "cat: a: No such file or directory", "Killed", "HTTP 503", "Error: it is not there",
    "could not do it", "2 errors", "all is well",
    "FAIL  a.test.ts > does b", "(fail) a > b [1.2ms]", "● a › b", "not ok 3 - c",
    "rspec ./a_spec.rb:3 # d", "✗ it works not",
    "[ERROR]   ATest.b:12 no", "test a::b ... FAILED", "____ test_c ____", "a.py::test_d FAILED",
    "ERROR: test_d (a.B)", "FAILED: a b",
    "CONFLICT (content): a", " ! [rejected] a -> a (fetch first)", "error TS2304: no name",
    "a.o: undefined reference to `x'",
    "a.sh: line 3: oops there", "ls: unknown option -- z", "PHP Fatal error:  no",
    "a.ts(1,2): error TS1: no", "java.lang.Exception",
    "zsh: no matches found: *.x", "'x' is not recognized as an internal or external command",
    "\x1b[31merror\x1b[0m: could not apply it",
    'Traceback (most recent call last):\n  File "a.py", line 1\nOSError: full',
)  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=6))
def test_what_proves_an_error_is_found_without_the_forms_that_prove_none(lines: list[str]) -> None:
    body = "\n".join(lines)
    line, proof = find_error_line(body), find_error_line(body, proof=True)
    assert (
        proof == line
        if line is not None and line.is_strong
        else proof is None or not proof.is_strong
    )
    assert may_hold_proof(body) or line is None or not line.is_strong or "Traceback" in body


def test_an_error_is_counted_once_with_all_its_places() -> None:
    bad = ("make x", "error: it broke at line 3", {"exit_code": 2, "is_error": True})
    (found,) = errors(*session(bad, ("ls", "a", {"exit_code": 0}), bad, bad))
    assert (found.count, found.seqs, found.command, found.tool) == (3, (1, 5, 7), "make x", "Shell")


def test_what_was_copied_from_another_session_is_counted_there() -> None:
    events, bodies = session(("make", "error: it broke", {"exit_code": 2, "is_error": True}))
    events = [msgspec.structs.replace(event, origin="toy:0#1") for event in events]
    assert errors(events, bodies) == []


def test_an_error_without_a_call_counts() -> None:
    event = SessionEvent(session_uid=UID, seq=0, kind="error", is_error=True)
    (found,) = errors([event], {0: '{"status":529,"message":"Overloaded"}'})
    assert found.signature.template == "HTTP 529 Overloaded"


def test_values_survive_saving() -> None:
    (found,) = errors_of("make", "error: it broke", exit_code=2)
    assert msgspec.json.decode(msgspec.json.encode(found), type=ErrorSummary) == found


MESSAGES = [
    "FileNotFoundError: [Errno 2] No such file or directory: '{path}'",
    "error: cannot lock ref {path} at {hash}: expected {number} entries",
    "panic: runtime error: index out of range [{number}] with length {number}",
    "Failed to find expected lines in {path}:",
    "request {uuid} to {ip}:{number} timed out after {number} ms",
    "undefined symbol at {address} in {path}:{number}:{number}",
    "error: worker {number} of {number} died, see {path}",
]


def filled(message: str, chance: random.Random) -> str:
    makers = {
        "path": lambda: (
            "/"
            + "/".join(
                "".join(chance.choices(string.ascii_lowercase, k=5))
                for _ in range(chance.randint(1, 6))
            )
            + ".py"
        ),
        "hash": lambda: "a1" + "".join(chance.choices("0123456789abcdef", k=chance.randint(6, 38))),
        "number": lambda: str(chance.randint(0, 10**6)),
        "uuid": lambda: str(uuid.UUID(int=chance.getrandbits(128))),
        "ip": lambda: ".".join(str(chance.randint(0, 255)) for _ in range(4)),
        "address": lambda: hex(chance.getrandbits(48)),
    }
    return re.sub(r"{(\w+)}", lambda found: makers[found[1]](), message)


@given(st.sampled_from(MESSAGES), st.randoms(use_true_random=False))
def test_paths_numbers_ids_and_addresses_make_no_difference(
    message: str, chance: random.Random
) -> None:
    assert same(filled(message, chance), filled(message, chance), filled(message, chance) + "\n")


@pytest.mark.parametrize("said", [r'{"error": "\ud800 a1"}', r'{"error": "x", "code": "\udc00"}'])
def test_halves_of_characters_in_json_are_replaced(said: str) -> None:
    found = signature(said)
    assert found is not None
    assert "".join((found.sample, found.template, found.name)).encode()


@given(st.text(max_size=2000))
def test_any_text_has_a_fingerprint_that_can_be_printed(text: str) -> None:
    found = signature(text)
    assert found == signature(text)
    if found is not None:
        assert not any(
            unicodedata.category(letter) in ("Cc", "Cs")
            for letter in found.sample + found.template + found.name
        )
        assert len(found.fingerprint) == 16
        assert len(found.sample) <= 200
        assert len(found.template) <= 240


@given(st.text(alphabet=string.ascii_letters + " .:'/-0123456789\n", max_size=200))
def test_a_template_has_the_fingerprint_of_its_error(text: str) -> None:
    """Masking what is masked changes nothing, so that a template can be asked for like the error
    itself."""
    from runlore.digest.templates import build_key, build_template

    once = build_key(build_template(text))
    assert build_key(build_template(once)) == once


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "/a",
        "error: =",
        "'\"`",
        "1.2:3-",
        "a.b ",
        "[(",
        '{"error":',
        "\x1b[31",
        "error\r",
        "x: error: y\n",
        '  File "x", line 1\n',
    ],
)
def test_a_large_body_takes_no_longer(piece: str) -> None:
    body = "error " + piece * (1_000_000 // len(piece))
    signature(body)
    start = time.process_time()
    signature(body)
    assert time.process_time() - start < 0.25  # 50 ms on a machine that has nothing else to do


@pytest.mark.parametrize(
    "text",
    [
        "patching file lib/parser.c\npatch: **** malformed patch at line 7: @@ -1,3 +1,4 @@",
        "patching file failed.c\nHunk #1 succeeded at 3.\npatch: **** malformed patch at line 7:",
    ],
)
def test_a_patch_that_failed_says_so_in_its_own_line(text: str) -> None:
    error = signature(text)
    assert error is not None
    assert error.sample.startswith("patch: **** malformed patch")


def test_an_exception_that_was_ignored_is_none_beside_another() -> None:
    raised = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    load()\n'
        "KeyError: 'name'\n"
    )
    ignored = (
        "Exception ignored in: <function Pool.__del__ at 0x10>\nTraceback (most recent call last):"
        '\n  File "pool.py", line 9, in __del__\n    self.close()\nOSError: handle is closed\n'
    )
    for text in (raised + ignored, ignored + raised):
        error = signature(text)
        assert error is not None
        assert error.sample == "KeyError: 'name'"
    error = signature(ignored)
    assert error is not None
    assert error.sample == "OSError: handle is closed"


def test_with_go_test_v_the_reason_stands_before_the_failure() -> None:
    text = (
        "=== RUN   TestLoad\n    load_test.go:9: starting\n    load_test.go:12: got 1, want 2\n"
        "--- FAIL: TestLoad (0.00s)\n=== RUN   TestSave\n    save_test.go:5: only a note\n"
        "--- PASS: TestSave (0.00s)\nFAIL\nexit status 1"
    )
    line = find_error_line(text)
    assert line is not None
    assert (line.message, line.detail) == ("failed test: TestLoad", "got 1, want 2")
    nested = (
        "=== RUN   TestAll\n=== RUN   TestAll/empty\n    all_test.go:4: no rows\n"
        "--- FAIL: TestAll (0.00s)\n    --- FAIL: TestAll/empty (0.00s)\n"
        "=== RUN   TestMore\n    more_test.go:8: only a note\n--- PASS: TestMore (0.00s)\nFAIL"
    )
    line = find_error_line(nested)
    assert line is not None
    assert (line.message, line.detail) == ("failed test: TestAll/empty", "no rows")
    plain = "--- FAIL: TestLoad (0.00s)\n    load_test.go:12: got 1, want 2\nFAIL\n"
    line = find_error_line(plain)
    assert line is not None
    assert line.detail == "got 1, want 2"


def test_the_cause_of_a_failed_signature_stands_below_the_name_of_the_file() -> None:
    error = signature(
        "error: Signing file /tmp/.buffer_x1\nCouldn't sign message: agent refused operation\n\n"
        "fatal: failed to write commit object"
    )
    assert error is not None
    assert error.sample == "Couldn't sign message: agent refused operation"
    alone = signature("error: Signing file /tmp/.buffer_x1\nfatal: failed to write commit object")
    assert alone is not None
    assert alone.sample == "error: Signing file /tmp/.buffer_x1"


def test_a_message_that_a_terminal_cut_within_a_word_is_joined() -> None:
    message = "error: the archive that was uploaded yesterday has no manifest, so nothing was publ"
    message += "ished at all"
    assert signature(f"{message[:80]}\n{message[80:]}\n") == signature(message)
    both = "main.c:3:1: error: " + "x" * 70 + "\nmain.c:9:1: error: " + "y" * 70
    found = find_error_line(both)
    assert found is not None
    assert "\n" not in found.text
    assert found.text.endswith("x")
