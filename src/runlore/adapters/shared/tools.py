"""Helpers for the tools of all agents: test runs, changes to files, one-line summaries, text of
arguments and of binary data.

Pure functions from text to text. No agent's words: which tool is a shell and which field holds the
command is the adapter's.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import re2

from ...model import SUMMARY_LENGTH, Tests
from ...text.titles import title_of
from .jsonl import to_json

# No secret that is cut at its end, and found in part, is visible in the first quarter.
MAX_LINE = 4 * SUMMARY_LENGTH
MAX_BODY = 8 << 20
CONTEXT = 3  # Lines shown around a change, as in diff -u.
TAIL = 16 << 10  # Runners print their totals last; more is not searched.


def cap(text: str) -> str:
    """Return the text, or the part that fits with a note. Bodies beyond this are dumps, not
    conversation."""
    if len(text) <= MAX_BODY:
        return text
    return f"{text[:MAX_BODY]}\n[{len(text) - MAX_BODY} more characters]"


# Terminal sequences (CSI, OSC, two-character escapes) and the characters that are not for reading.
_ESCAPES = re.compile(
    r"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]|\x1b"
)
_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]+"
)
_WORD = re.compile(r"\w")
_FIELD = re.compile(r"\[\[ ## \w{1,40} ## \]\][ \t\r]{0,9}\n")
"""A line with which programs that fill in prompts (DSPy) name what comes next."""


def one_line(text: str) -> str:
    """The first line that says something, without control characters and terminal sequences, at
    most 640 characters.

    Not yet as short as it is shown: a secret that is cut in half is no longer known as one.
    `model.shorten` it when it is clean.
    """
    end = text.find("\n", 0, MAX_LINE + 1)
    start = 0
    if not text[:1].isalnum():
        field = _FIELD.match(text) if text.startswith("[[") else None
        if found := _WORD.search(text, field.end() if field else 0, 2000):
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.start(), start + MAX_LINE + 1)
    line = text[start : end if end >= 0 else start + MAX_LINE + 1].strip()
    if not line.isprintable():
        line = _CONTROLS.sub(" ", _ESCAPES.sub("", line)).strip()
    if len(line) <= MAX_LINE:
        return line
    end = line.rfind(" ", SUMMARY_LENGTH, MAX_LINE)  # Between two words, for the same reason.
    return line[: end if end > 0 else MAX_LINE]


def title_line(text: str | None, rank: int) -> str:
    """Return the title that a text gives a session, at most 640 characters; "" if it gives none.

    `rank` is that of `Facts.title_rank`: a name that a person gave is taken as it is.
    """
    wanted = text if rank > 2 or not text else title_of(text)
    return " ".join(one_line(wanted).split()) if wanted else ""


def split_reminders(text: str) -> tuple[str, list[str]]:
    """Return what a tool itself returned, and the reminders that the agent's program put before and
    behind it.

    A text of nothing but reminders is the tool's answer. Only the text decides, and not the call:
    if the call is damaged, its result stays as it is.
    """
    if _REMINDER not in text:
        return text, []
    before, behind = list[str](), list[str]()
    start, stop = 0, len(text.rstrip())
    while text.startswith(_REMINDER, start) and (end := text.find(_REMINDER_END, start)) >= 0:
        end += len(_REMINDER_END)
        before.append(text[start:end])
        start = end
        while text[start : start + 1] in ("\n", "\r"):
            start += 1
    while text.endswith(_REMINDER_END, start, stop):
        at = text.rfind(f"\n{_REMINDER}", start, stop)
        if at < 0:
            break
        behind.append(text[at + 1 : stop])
        stop = at
        while text[stop - 1 : stop] in ("\n", "\r"):
            stop -= 1
    own = text[start:stop]
    return (own, [*before, *reversed(behind)]) if own.strip() else (text, [])


def reminder_line(text: str) -> str:
    """Return one line of a reminder, without its tags."""
    return one_line(text.replace(_REMINDER, "").replace(_REMINDER_END, ""))


_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"


def text_of(value: Any) -> str:
    """Return a text as it is, None as an empty text, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value).decode()


def key_values(data: Mapping[str, Any]) -> str:
    """Return arguments for reading: `key: value` lines, texts verbatim, everything else as JSON."""
    return "\n".join(
        [
            f"{key}: {value if isinstance(value, str) else text_of(value)}"
            for key, value in data.items()
        ]
    )


def file_change(path: str, changes: Iterable[tuple[str, str]]) -> str:
    """Return the path, then for each change its removed and added lines with a few lines around
    them."""
    return "\n@@\n".join([path, *[_hunk(old, new) for old, new in changes]])


def file_content(path: str, content: str) -> str:
    """Return the path, then every line as added."""
    return (
        f"{path}\n@@\n+{content.removesuffix(chr(10)).replace(chr(10), chr(10) + '+')}"
        if content
        else path
    )


def _hunk(old: str, new: str) -> str:
    before = old.split("\n") if old else []
    after = new.split("\n") if new else []
    start = 0
    for mine, other in zip(before, after, strict=False):
        if mine != other:
            break
        start += 1
    stop = 0
    for mine, other in zip(reversed(before[start:]), reversed(after[start:]), strict=False):
        if mine != other:
            break
        stop += 1
    end = len(before) - stop
    lines = [" " + line for line in before[max(0, start - CONTEXT) : start]]
    lines += ["-" + line for line in before[start:end]]
    lines += ["+" + line for line in after[start : len(after) - stop]]
    lines += [" " + line for line in before[end : end + CONTEXT]]
    return "\n".join(lines)


_MAGIC = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
    b"%PDF": "application/pdf",
}
_BASE64 = re.compile(rb'("(?:data|base64)"\s*:\s*")([A-Za-z0-9+/\\]{256,}={0,2})(?=")')


def blob_reference(data: str | bytes) -> str:
    """Return a reference that replaces base64 data in a text: its type, its size, and a hash."""
    if isinstance(data, str) and data.startswith("["):  # It has been replaced already.
        return data
    try:
        content = b64decode(data)
    except ValueError:
        content = data.encode("utf-8", "replace") if isinstance(data, str) else data
    kind = next(
        (kind for magic, kind in _MAGIC.items() if content.startswith(magic)),
        "application/octet-stream",
    )
    word = "image" if kind.startswith("image/") else "document"
    size = f"{(len(content) + 512) >> 10} KB" if len(content) >= 1024 else f"{len(content)} B"
    return f"[{word} {kind} {size} sha256:{sha256(content).hexdigest()[:16]}]"


def without_base64(line: bytes) -> bytes:
    """Return a JSON line with its long base64 values replaced by their references."""
    return _BASE64.sub(
        lambda found: found[1] + blob_reference(found[2].replace(b"\\", b"")).encode(), line
    )


# Test runs. A runner counts where a command stands: at its start, or behind words that start other
# commands. RE2, for what may stand in between ends anywhere, and a backtracking engine would try
# all ways (two seconds for a command of 4,000 characters).
_RUNNER = r"""
      (?:[\w.~$/{}-]*/)? (?: pytest | py\.test | tox | nox | vitest | jest | mocha | rspec
      | phpunit | pest | ctest | nosetests
        | ginkgo | gotestsum | bats | prove | unittest | manage\.py \s+ test )
    | (?:npm | pnpm | yarn | bun | deno) \s+ (?:run \s+ | run-script \s+)?
      (?:-\S+ \s+)* test (?::\S+)?
    | (?:node | tsx) \s+ (?:-\S+ \s+)*? --test
    | go \s+ (?:-C \s+ \S+ \s+)? (?:test | tool \s+ gotestsum)
    | cargo \s+ (?:\+\S+ \s+)? (?:-\S+ \s+)* (?:test | nextest)
    | (?:\./)? mvnw? \b .* \b(?:test | verify)
    | (?:\./)? gradlew? \b .* \b\w*[tT]est\w* | xcodebuild \b .* \btest
    | (?:dotnet | swift | mix | bazel | rails | zig \s+ build
      | php \s+ artisan | composer (?:\s+ run)?) \s+ test | rake \s+ (?:test | spec)
    | (?:make | just | mise \s+ run | task) \s+ (?:-\S+ \s+)* (?:test | check)
"""
_PYTHON = r"(?:[\w.~$/{}-]*/)? python[\d.]* \s+ (?: .* \s )?"
_TEST = re2.compile(  # Of bytes: a match of a text takes twice as long, for it counts characters.
    "".join(
        rf"""\s* (?: [A-Za-z_]\w*=\S* \s+
            | (?:sudo | time | env | exec | npx | bunx | pnpx | uvx
              | xargs | then | do | command) \s+ (?:-\S+ \s+)*
            | timeout \s+ (?:-\S+ \s+)* [\d.]+\w? \s+ )*
         (?: (?:uv | poetry | pipenv | pdm | hatch | rye | conda | npm | pnpm | yarn | bun | bundle
            | docker | docker-compose | podman) \s
             (?: .* \s )? (?:run | exec) \s+ (?: .* \s )? )?
         (?: (?: {_PYTHON} -m \s+ )? (?: {_RUNNER} )
         | {_PYTHON} \S*manage\.py \s+ test ) (?: [\s)'":] | $ )""".split()
    ).encode()
)
_TEST_WORDS = (
    "est",
    "ox",
    "rspec",
    "rake",
    "mocha",
    "phpunit",
    "verify",
    "bats",
    "prove ",
    "ginkgo",
    "check",
)
"""One of these is in each runner. Most commands have none, and to ask for one is a pass over the
command: of words that end alike only the end is looked for."""
_TEST_LETTERS = {"est": "tjp", "ox": "tn"}
"""What stands before it: `test`, `jest`, `pest`, `tox`, `nox`."""
_BEFORE_COMMAND = ("&", ";", "|", "(", "`")
"""What a command may follow, as it may a new line."""


def is_test_run(command: str) -> bool:
    """Return True if a shell command runs tests, and does not merely mention them (`pip install
    pytest`, `cat jest.config.js`)."""
    # Most commands have none of the words. Where there is one, only the command in which it stands
    # is looked at.
    if not _speaks_of_tests(command):
        return False
    spoken = _without_talk(command)
    return spoken is command or _speaks_of_tests(spoken)


def _without_talk(command: str) -> str:
    """Return a command without the text that it writes, which may mention other commands:
    here-documents, and words in quotes that no shell reads."""
    text = command[:_MAX_COMMAND_CHARS]
    at = text.find("<<")
    for _ in range(_MAX_DOCUMENTS):
        mark = _DOCUMENT.match(text[at : at + 100]) if at >= 0 else None
        if mark is None:
            break
        if _READ_BY_SHELL.search(text[max(0, at - 200) : at]):
            at = text.find("<<", at + 2)
            continue
        line = text.find("\n", at)
        end = text.find(f"\n{mark[2]}", at)
        text = text[:at] + (
            text[at + mark.end() : line] + text[end + 1 + len(mark[2]) :]
            if 0 <= line <= end
            else ""
        )
        at = text.find("<<", at)
    if '"' in text or "'" in text:
        text = _QUOTED.sub(
            lambda found: found[0] if _is_read(text, found.start(), found[0]) else " ", text
        )
    return command if text == command else text


def _is_read(text: str, at: int, quoted: str) -> bool:
    """Return True if the text in quotes may be run: a path, or the argument of a shell."""
    if " " not in quoted and "|" not in quoted and "\n" not in quoted:
        return True
    before = text[max(0, at - 200) : at]
    if not before.rstrip().endswith(_GIVES_ENDS) and "ssh" not in before and "exec" not in before:
        return False
    return _GIVES.search(before) is not None


_MAX_COMMAND_CHARS, _MAX_DOCUMENTS = 20_000, 50
_DOCUMENT = re.compile(r"<<-?\s{0,3}(['\"]?)(\w{1,60})\1")
_READ_BY_SHELL = re.compile(r"(?:\b(?:ba|z|da|k)?sh(?: -\w+)*|\bssh\b[^\n;&|]*)\s*\Z")
_QUOTED = re2.compile(r"""(?s)"(?:[^"\\]|\\.)*"|\$'(?:[^'\\]|\\.)*'|'[^']*'""")
_GIVES = re.compile(
    r"(?:\s-[a-zA-Z]{0,3}c|-Command|--command|--exec|--run|\beval|\bconcurrently"
    r"|\b(?:ba|z|da|k)?sh|\bssh\b[^\n;&|]*|\bexec\b[^\n;&|]*)[\s=]*\Z"
)
_GIVES_ENDS = ("c", "mmand", "run", "eval", "concurrently", "sh", "=")
"""Without one of these, or the two that may stand further in front, the pattern cannot match, which
takes ten times as long to see."""


def _speaks_of_tests(command: str) -> bool:
    head = command[:4000]
    words = [word for word in _TEST_WORDS if word in head]
    if not words:
        return False
    for mark in _BEFORE_COMMAND:
        head = head.replace(mark, "\n")
    tried = set[int]()
    for word in words:
        letters = _TEST_LETTERS.get(word)
        at = head.find(word)
        while at >= 0:
            begin = head.rfind("\n", 0, at) + 1
            if begin not in tried and (letters is None or (at > begin and head[at - 1] in letters)):
                if _TEST.match(command[begin : begin + 300].encode()):
                    return True
                tried.add(begin)
            at = head.find(word, at + 1)
    return False


def test_counts(output: str) -> Tests | None:
    """Return the numbers of passed, failed and skipped tests in a test runner's output; None when
    it has none."""
    tail = output[-TAIL:]
    if "\x1b" in tail:
        tail = _ESCAPES.sub("", tail)
    tail = f"\n{tail}"
    for reader, words in _READERS:
        for word in words:
            if word in tail:
                if (found := reader(tail)) is not None:
                    return found
                break
    return None


def _tests(
    passed: int | None = None, failed: int | None = None, skipped: int | None = None
) -> Tests:
    # A count of more digits than a database takes is no count.
    limit = 1 << 40
    return Tests(
        **{
            k: v
            for k, v in (("passed", passed), ("failed", failed), ("skipped", skipped))
            if v is not None and v < limit
        }
    )


_PYTEST = re.compile(r"\n(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in [\d.:]+ ?s")
_PYTEST_END = re.compile(r" in [\d.:]+ ?s")
_NUMBER_WORD = re.compile(r"\b(\d+) ([a-z]+)")
_WORDS = {
    "passed": 0, "passing": 0, "pass": 0, "succeeded": 0,
    "failed": 1, "failing": 1, "failures": 1, "failure": 1, "fail": 1, "errors": 1, "error": 1,
    "skipped": 2, "pending": 2, "ignored": 2, "skip": 2, "todo": 2, "inconclusive": 2,
}  # fmt: skip


def _sum_words(pairs: Iterable[tuple[str, str]], *, all_known: bool = False) -> Tests | None:
    """Return the sum of `(number, word)` pairs by meaning; with `all_known`, a word that is missing
    counts 0."""
    sums: list[int | None] = [0, 0, 0] if all_known else [None, None, None]
    named = False
    for number, word in pairs:
        slot = _WORDS.get(word.lower())
        if slot is not None and len(number) < 12:
            sums[slot] = (sums[slot] or 0) + int(number)
            named = True
    return _tests(*sums) if named else None


def _pytest(text: str) -> Tests | None:
    # A twentieth of the time, for it begins with what is not everywhere.
    if _PYTEST_END.search(text) is None:
        return None
    found = _PYTEST.findall(text)
    return _sum_words(_NUMBER_WORD.findall(found[-1]), all_known=True) if found else None


_UNITTEST = re.compile(r"\nRan (\d+) tests? in [\d.]+s\s+(OK|FAILED|NO TESTS RAN)(?: \(([^)]*)\))?")


def _unittest(text: str) -> Tests | None:
    ran = failed = skipped = 0
    for found in (all_found := _UNITTEST.findall(text)):
        pairs = [pair.split("=") for pair in found[2].split(", ")]
        counts = {
            pair[0]: int(pair[1][:11]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()
        }
        ran += int(found[0][:11])
        failed += (
            counts.get("failures", 0)
            + counts.get("errors", 0)
            + counts.get("unexpected successes", 0)
        )
        skipped += counts.get("skipped", 0)
    return _tests(max(0, ran - failed - skipped), failed, skipped) if all_found else None


_JEST = re.compile(r"\n[ \t]*Tests:?[ \t]+((?:\d+ (?:failed|passed|skipped|todo|pending)[ ,|]*)+)")
_CARGO = re.compile(r"\n[ \t]*test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
_NEXTEST = re.compile(r"\n[ \t]*Summary \[[^\]\n]*\][ \t]+\d+ tests? run: (.*)$", re.MULTILINE)
_MOCHA = re.compile(r"\n[ \t]+(\d+) (passing|failing|pending)\b")
_RSPEC = re.compile(r"\n(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?")
_PHPUNIT = re.compile(r"\n(?:OK \((\d+) tests?|Tests: (\d+), Assertions: \d+(.*))")
_DOTNET = re.compile(r"Failed:\s+(\d+), Passed:\s+(\d+), Skipped:\s+(\d+), Total:")
_DOTNET_NEW = re.compile(
    r"Test summary: total: \d+, failed: (\d+), succeeded: (\d+), skipped: (\d+)"
)
_MAVEN = re.compile(
    r"Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)(?!.*Time elapsed)"
)
_GRADLE = re.compile(r"\n(\d+) tests? completed, (\d+) failed(?:, (\d+) skipped)?")
_CTEST = re.compile(r"\n\d+% tests passed, (\d+) tests? failed out of (\d+)")
_TAP = re.compile(r"\n[#ℹ] (pass|fail|skipped|skip|todo)[ \t]+(\d+)[ \t]*$", re.MULTILINE)
_BUN = re.compile(r"\n (\d+) (pass|fail|skip|todo)$", re.MULTILINE)
_GO = re.compile(r"\n[ \t]*--- (PASS|FAIL|SKIP): ")
_GO_PACKAGE = re.compile(r"\n(ok|FAIL)[ \t]+\S+[ \t]+(?:\(cached\)|[\d.]+s|\[build failed\])")


def _numbers(found: Iterable[str | None]) -> list[int]:
    return [int(number[:11]) if number else 0 for number in found]


def _last(pattern: re.Pattern[str], text: str) -> list[int] | None:
    found = pattern.findall(text)
    if not found:
        return None
    return _numbers(found[-1])


def _jest(text: str) -> Tests | None:
    found = _JEST.findall(text)
    return _sum_words(_NUMBER_WORD.findall(found[-1]), all_known=True) if found else None


def _cargo(text: str) -> Tests | None:
    rows = [_numbers(row) for row in _CARGO.findall(text)]
    return _tests(*(sum(column) for column in zip(*rows, strict=True))) if rows else None


def _nextest(text: str) -> Tests | None:
    found = _NEXTEST.findall(text)
    return _sum_words(_NUMBER_WORD.findall(found[-1]), all_known=True) if found else None


def _mocha(text: str) -> Tests | None:
    return _sum_words(_MOCHA.findall(text), all_known=True)


def _rspec(text: str) -> Tests | None:
    found = _last(_RSPEC, text)
    return _tests(max(0, found[0] - found[1] - found[2]), found[1], found[2]) if found else None


def _phpunit(text: str) -> Tests | None:
    found = _PHPUNIT.findall(text)
    if not found:
        return None
    fine, total, rest = found[-1]
    if fine:
        return _tests(int(fine[:11]), 0, 0)
    counts = {key: int(value) for key, value in re.findall(r"\b(\w+): (\d{1,11})", rest)}
    failed = counts.get("Failures", 0) + counts.get("Errors", 0)
    skipped = counts.get("Skipped", 0) + counts.get("Incomplete", 0)
    return _tests(max(0, int(total[:11]) - failed - skipped), failed, skipped)


def _dotnet(text: str) -> Tests | None:
    rows = [_numbers(row) for row in _DOTNET.findall(text) or _DOTNET_NEW.findall(text)]
    if not rows:
        return None
    failed, passed, skipped = (sum(column) for column in zip(*rows, strict=True))
    return _tests(passed, failed, skipped)


def _maven(text: str) -> Tests | None:
    found = _last(_MAVEN, text)
    if not found:
        return None
    total, failures, errors, skipped = found
    return _tests(max(0, total - failures - errors - skipped), failures + errors, skipped)


def _gradle(text: str) -> Tests | None:
    found = _last(_GRADLE, text)
    return _tests(max(0, found[0] - found[1] - found[2]), found[1], found[2]) if found else None


def _ctest(text: str) -> Tests | None:
    found = _last(_CTEST, text)
    return _tests(max(0, found[1] - found[0]), found[0]) if found else None


def _tap(text: str) -> Tests | None:
    return _sum_words(((number, word) for word, number in _TAP.findall(text)), all_known=True)


def _bun(text: str) -> Tests | None:
    return _sum_words(_BUN.findall(text), all_known=True)


def _go(text: str) -> Tests | None:
    """Tests with -v, packages without: go prints no count of tests that passed."""
    found = _GO.findall(text)
    if "PASS" not in found and (packages := _GO_PACKAGE.findall(text)):
        return _tests(packages.count("ok"), max(packages.count("FAIL"), found.count("FAIL")))
    return _tests(found.count("PASS"), found.count("FAIL"), found.count("SKIP")) if found else None


def counts_packages(output: str) -> bool:
    """Return True if the counts of an output are those of packages, as go prints them."""
    tail = f"\n{output[-TAIL:]}"
    return "ok " in tail and "--- PASS" not in tail and _GO_PACKAGE.search(tail) is not None


# In this order, each asked only when one of its words is there: what one prints may look like
# another's.
_READERS: tuple[tuple[Callable[[str], Tests | None], tuple[str, ...]], ...] = (
    (_pytest, (" in ",)),
    (_unittest, ("Ran ",)),
    (_jest, ("Tests",)),
    (_cargo, ("test result:",)),
    (_nextest, ("Summary [",)),
    (_rspec, ("example",)),
    (_phpunit, ("OK (", "Tests: ")),
    (_dotnet, ("ailed: ",)),
    (_maven, ("Tests run:",)),
    (_gradle, ("completed, ",)),
    (_ctest, ("tests passed, ",)),
    (_tap, ("pass ",)),
    (_go, ("--- ", "ok ", "FAIL")),
    (_bun, (" pass",)),
    (_mocha, (" passing", " failing")),
)
