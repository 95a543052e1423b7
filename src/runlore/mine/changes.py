"""Classes of changes: how a working call differs from the failing call before it.

A class names programs, flags and prefixes, and nothing else of a session: no path, no argument,
no code. So the same change can be recognised in another session, and shown in another repository.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from ..digest.shell_commands import installs, parse
from ..model import ErrorSummary, Fix

ChangeKind = Literal[
    "quoted",
    "left_out",
    "replaced_program",
    "added_prefix",
    "added_flag",
    "absolute_path",
    "setup_first",
    "prepared_first",
    "read_first",
]
"""An argument was quoted; a program was left out, replaced, or given a prefix (`uv run`,
`PYTHONPATH=.`); a flag was added; a path was given in full; the project was installed or built
first; something else was run before, such as a login; the file was read first."""

TRIVIAL_PROGRAMS = frozenset(
    "rm ls cat cd echo printf pwd true false head tail grep rg sed awk find wc sort which type test"
    " touch mkdir cp mv chmod sleep kill clear exit set source export : [ tee xargs cut tr uniq"
    " diff file stat du df ps date env git".split()
)
"""Programs that read, list, move or remove: a call of one of these in place of another is another
step of the work, and no replacement."""
RUNNERS = (
    "uv run", "poetry run", "pipenv run", "pdm run", "hatch run", "rye run", "conda run",
    "bundle exec", "npx", "bunx", "pnpm exec", "yarn", "npm exec", "mise exec --", "mise x --",
    "dotenv --", "direnv exec .", "nix develop -c", "docker compose exec",
)  # fmt: skip
"""Prefixes that run a program in an environment. Others may be anything."""
UNSAFE_FLAGS = frozenset(
    "--no-verify -n --force -f --force-with-lease --yes -y --no-check --skip-checks --insecure -k"
    " --allow-unrelated-histories --legacy-peer-deps --break-system-packages --no-sandbox".split()
)
"""Flags that silence a check instead of meeting it."""
MAX_NAME_CHARS = 40


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The class of a change, with the names that it is about."""

    kind: ChangeKind
    program: str = ""
    """The program of the call that changed."""
    removed: str = ""
    added: str = ""
    """The new program, prefix, flag or earlier command; for `quoted` the kind of character."""

    @property
    def key(self) -> str:
        """Return what makes two changes the same.

        For a setup it is the program, because one session installs and another one also builds. For
        a missing program it is that one, whatever was called instead, and for a prefix the prefix.
        """
        if self.kind in ("setup_first", "left_out"):
            return f"{self.kind} {self.program}"
        if self.kind == "replaced_program":
            return f"{self.kind} {self.removed}"
        if self.kind == "added_prefix":
            return f"{self.kind} {self.added}"
        return " ".join(filter(None, (self.kind, self.program, self.removed, self.added)))


def find_change(fix: Fix, error: ErrorSummary) -> Change | None:
    """Return the class of a fix; None if it has none, as an edit of a file."""
    if fix.how == "read" or (error.action == "edit" and _was_read_again(fix)):
        return Change(kind="read_first", program=error.action or "")
    if error.action != "shell" or fix.how not in ("changed", "command"):
        return None
    before = fix.before or error.command or ""
    after = fix.after or (fix.steps[0].summary if fix.steps else "")
    if not _is_whole(before) or not _is_whole(after):
        return None
    if fix.how == "command":
        return _find_setup(fix) or _find_first_command(after)
    return find_call_change(before, after, error.signature.sample, error.signature.name)


def _is_whole(call: str) -> bool:
    """Return True for a call that can be compared: one that is known and was not cut."""
    return bool(call) and not call.endswith("…")


def _was_read_again(fix: Fix) -> bool:
    """Return True if an edit succeeded in another form after the file was read again."""
    return fix.how == "changed" and any(step.how == "read" for step in fix.steps)


def find_call_change(
    before: str, after: str, message: str = "", missing: str = ""
) -> Change | None:
    """Return the class of the difference between two command lines.

    `message` is the error, and `missing` the name it is about, if it says that a program or a word
    could not be found.
    """
    old, new = split_calls(before), split_calls(after)
    if not old or not new:
        return None
    return (
        _find_quoted(old, new, message)
        or _find_left_out(old, new, missing)
        or _find_setup_first(old, new)
        or _find_within_call(old, new)
    )


# ── words ────────────────────────────────────────────────────────────────────────────────────────
_Call = tuple[str, ...]
"""The words of one simple command, with their quotes."""

_WORD = re.compile(
    r"""&&|\|\||\|&|[;|\n()]|&(?!>)|\d?(?:>>?|<<?<?)(?:&\d|&-)?"""
    r"""|(?:[^\s'"\\;|&<>()$`]|'[^']*'|"(?:[^"\\]|\\.)*"|\\."""
    r"""|\$\([^()]{0,200}\)|\$|`[^`]{0,200}`)+"""
    r"""|['"]"""
)
_SEPARATORS = frozenset({"&&", "||", "|", "|&", ";", "\n", "(", ")", "&"})
_REDIRECTION = re.compile(r"\d?(?:>>?|<<?<?)(?:&\d|&-)?\Z")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PLUMBING = frozenset({"head", "tail", "tee", "less", "cat", "wc"})
_PROGRAM = re.compile(r"[A-Za-z][\w.+-]*\Z")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*\Z")


def split_calls(command: str) -> list[_Call]:
    """Return the simple commands of a command line, without redirections, and without the ends of
    pipes that only cut the output."""
    calls: list[_Call] = []
    words: list[str] = []
    after_pipe = is_target = False

    def close() -> None:
        if words and not (after_pipe and program_of(tuple(words)) in _PLUMBING):
            calls.append(tuple(words))
        words.clear()

    for word in _WORD.findall(command):
        if word in _SEPARATORS:
            close()
            after_pipe, is_target = word in ("|", "|&"), False
        elif _REDIRECTION.match(word):
            is_target = not word.endswith(("&1", "&2", "&-"))
        elif is_target:
            is_target = False
        else:
            words.append(word)
    close()
    return calls


def unquote(word: str) -> str:
    """Return a word without its quotes and escapes."""
    return re.sub(r"\\(.)", r"\1", word).replace("'", "").replace('"', "")


def program_of(call: Sequence[str]) -> str:
    """Return the name of the program of a simple command, without its folder and assignments."""
    word = next((one for one in call if not _ASSIGNMENT.match(one)), "")
    return unquote(word).rpartition("/")[2][:MAX_NAME_CHARS]


def _is_bare(word: str) -> bool:
    return not any(char in word for char in "'\"\\")


# ── classes ──────────────────────────────────────────────────────────────────────────────────────
_GLOB_CHARS = frozenset("*?[]")
_OTHER_CHARS = "^!{#~`"
"""What some shell takes for itself as well. Only a word that was then quoted as it is counts."""
_NO_MATCH = "no matches found"
"""What zsh says of a glob without a file."""


def _find_quoted(old: Sequence[_Call], new: Sequence[_Call], message: str) -> Change | None:
    """Return the change if a word is quoted now, or a glob or `=` that the error names is gone."""
    quoted = {unquote(word) for call in new for word in call if not _is_bare(word)}
    bare = {word for call in new for word in call if _is_bare(word)}
    for call in old:
        for word in call:
            char = _special_char(word) if _is_bare(word) and word not in bare else ""
            is_named = _is_named(word, char, message)
            if char and (word in quoted or (is_named and _is_replaced(call, char, new))):
                return Change(kind="quoted", added=char)
    return None


def _is_named(word: str, char: str, message: str) -> bool:
    """Return True if an error is about a word with this kind of character."""
    if char in _OTHER_CHARS:
        return False
    return word.lstrip("=") in message or (char == "glob" and _NO_MATCH in message)


def _special_char(word: str) -> str:
    """Return the kind of character for which a shell does not take a word as it is."""
    if len(word) < 2:
        return ""
    if word[0] == "=":
        return "="
    if _GLOB_CHARS & set(word):
        return "glob"
    if re.search(r"\w\$\w|/\$\w", word):
        return "$"
    return next((char for char in _OTHER_CHARS if char in word), "")


def has_bare_special(command: str, char: str) -> bool:
    """Return True if a command has an unquoted word with such a character."""
    return any(
        _is_bare(word) and _special_char(word) == char
        for call in split_calls(command)
        for word in call
    )


def _is_replaced(call: _Call, char: str, new: Sequence[_Call]) -> bool:
    """Return True if the same program has no such bare word any more, and a quoted one instead."""
    same = [other for other in new if program_of(other) == program_of(call)]
    words = [word for other in same for word in other]
    if any(_is_bare(word) and _special_char(word) == char for word in words):
        return False
    if char == "=":
        return program_of(call) == "echo"
    return any(not _is_bare(word) and _special_char(unquote(word)) == char for word in words)


def _find_left_out(old: Sequence[_Call], new: Sequence[_Call], missing: str) -> Change | None:
    """Return the change if a missing program was left out of a call, or replaced by another."""
    if not missing or not _PROGRAM.match(missing):
        return None
    if any(program_of(call) == missing for call in new):
        return None
    for call in old:
        if program_of(call) != missing:
            continue
        rest = _after_program(call)
        inner = _skip_options(rest)
        if inner and _PROGRAM.match(unquote(inner[0])) and _has_program(new, inner[0]):
            return Change(kind="left_out", program=missing)
        for other in new:
            if added := _find_substitute(missing, rest, other):
                return Change(kind="replaced_program", removed=missing, added=added)
    return None


def _find_substitute(missing: str, rest: Sequence[str], other: _Call) -> str:
    """Return what was called in place of a missing program: another name of it, or a runner."""
    if not _shares_words(rest, other, missing):
        return ""
    runner, name = _with_runner(other), program_of(other)
    if runner:
        inner = program_of(other[len(runner.split()) :])
        return f"{runner} {inner}" if inner == missing or _is_sibling(missing, inner) else ""
    return name if _is_sibling(missing, name) and name not in TRIVIAL_PROGRAMS else ""


def _is_sibling(name: str, other: str) -> bool:
    """Return True for two names of one program: `python` and `python3`, `sed` and `gsed`."""
    if name == other or min(len(name), len(other)) < 2:
        return False
    return other.rstrip("0123456789.") == name.rstrip("0123456789.") or name in (
        other.removeprefix("g"),
        f"g{other}",
    )


def _find_setup_first(old: Sequence[_Call], new: Sequence[_Call]) -> Change | None:
    """Return the change if the same calls follow others that install or build something."""
    old_calls, new_calls = (
        [tuple(map(unquote, call)) for call in calls if program_of(call) != "cd"]
        for calls in (old, new)
    )
    extra = len(new_calls) - len(old_calls)
    if not old_calls or extra < 1 or new_calls[extra:] != old_calls:
        return None
    return _find_first_command(" && ".join(" ".join(call) for call in new_calls[:extra]))


def _find_first_command(command: str) -> Change | None:
    """Return the change for a command that was run before the same call succeeded.

    Only one that prepares something counts; anything else may have happened by chance.
    """
    heads, kind = [], "setup_first"
    for call in split_calls(command):
        if program_of(call) in TRIVIAL_PROGRAMS:
            continue
        parsed = parse(" ".join(call))
        head = parsed.heads[-1] if parsed.heads else ""
        if not head or not all(_is_plain_name(word) for word in head.split()):
            return None
        if not _SETS_UP.search(head):
            if not installs(parsed):
                return None
            kind = "prepared_first"
        if _names_package(call, head):
            return None
        heads.append(head)
    if not heads or len(heads) > 3:
        return None
    program = heads[0].split()[0]
    added = " && ".join(dict.fromkeys(heads))
    if kind == "prepared_first":
        return Change(kind="prepared_first", program=program, added=added)
    return Change(kind="setup_first", program=program, added=added)


def _find_setup(fix: Fix) -> Change | None:
    """Return the change if several commands set something up before the same call succeeded."""
    commands = [
        step.summary
        for step in sorted(fix.steps, key=lambda step: step.seq)
        if step.how == "command" and _is_whole(step.summary)
    ]
    setups = [
        change.added
        for change in map(_find_first_command, commands)
        if change is not None and change.kind == "setup_first"
    ]
    return _find_first_command(" && ".join(dict.fromkeys(setups))) if setups else None


def _names_package(call: _Call, head: str) -> bool:
    """Return True if a call installs a package by name: the error has named that one already."""
    if any(word in ("-r", "-e", "--requirement", "--editable") for word in call):
        return False
    names = (word for word in _after_program(call) if word not in (*head.split(), ".", ".."))
    return "install" in head and any(not word.startswith("-") for word in names)


_SETS_UP = re.compile(
    r"\b(?:install|ci|sync|restore|bootstrap|setup|build|generate|codegen|compile|prepare|vendor"
    r"|tidy)\b"
)


def _is_plain_name(word: str) -> bool:
    return re.fullmatch(r"[A-Za-z][\w:.+-]*", word) is not None and "." not in word[1:]


def _find_within_call(old: Sequence[_Call], new: Sequence[_Call]) -> Change | None:
    """Return the change if one call got a prefix, another program, or a flag, and no other
    changed."""
    pairs = _pair_calls(old, new)
    if pairs is None:
        return None
    [(mine, other)] = pairs
    if prefix := _find_prefix(mine, other):
        return Change(kind="added_prefix", program=program_of(mine), added=prefix)
    name, replacement = program_of(mine), program_of(other)
    if tuple(_after_program(mine)) == tuple(_after_program(other)) and _is_sibling(
        name, replacement
    ):
        return Change(kind="replaced_program", removed=name, added=replacement)
    return _find_absolute_path(mine, other) or _find_flag(mine, other)


def _find_absolute_path(mine: _Call, other: _Call) -> Change | None:
    """Return the change if a relative path was given in full, and nothing else is different."""
    if len(mine) != len(other):
        return None
    pairs = [(a, b) for a, b in zip(mine, other, strict=True) if a != b]
    if pairs and all(
        b.startswith("/") and b.endswith(f"/{a.removeprefix('./')}") for a, b in pairs
    ):
        return Change(kind="absolute_path")
    return None


def _pair_calls(old: Sequence[_Call], new: Sequence[_Call]) -> list[tuple[_Call, _Call]] | None:
    """Return the one pair of calls that differs; None if there are several or none."""
    mine, other = ([call for call in calls if program_of(call) != "cd"] for calls in (old, new))
    if len(mine) != len(other):
        return None
    pairs = [pair for pair in zip(mine, other, strict=True) if pair[0] != pair[1]]
    return pairs if len(pairs) == 1 else None


def _find_prefix(mine: _Call, other: _Call) -> str:
    """Return the runner or the assignments that were put before a call."""
    if parse(" ".join(mine)).heads[-1:] != parse(" ".join(other)).heads[-1:]:
        return ""
    runner = _with_runner(other)
    if runner and not _with_runner(mine):
        return runner if _shares_words(_after_program(mine), other, "") else ""
    added = [word for word in other[: _count_assignments(other)] if word not in mine]
    is_like = _shares_words(mine[_count_assignments(mine) :], other, "")
    return _describe_assignments(added) if is_like else ""


def _count_assignments(call: _Call) -> int:
    return next((n for n, word in enumerate(call) if not _ASSIGNMENT.match(word)), len(call))


def _describe_assignments(words: Sequence[str]) -> str:
    """Return assignments for reading, without values that belong to a machine."""
    parts = []
    for word in words:
        match = _ASSIGNMENT.match(word)
        assert match is not None
        value = match[2] if re.fullmatch(r"[\w.,:-]{1,20}", match[2]) else "…"
        parts.append(f"{match[1]}={value}")
    return " ".join(parts)


def _with_runner(call: _Call) -> str:
    text = " ".join(call)
    return next((one for one in RUNNERS if text.startswith(f"{one} ")), "")


def _find_flag(mine: _Call, other: _Call) -> Change | None:
    """Return the change if one flag was added, and nothing else is different."""
    program = program_of(mine)
    if program != program_of(other) or program in TRIVIAL_PROGRAMS - {"git"}:
        return None
    added = [word for word in other if word not in mine]
    removed = [word for word in mine if word not in other]
    is_flag = len(added) == 1 and not removed and _FLAG.match(added[0]) is not None
    if is_flag and added[0] not in UNSAFE_FLAGS:
        head = parse(" ".join(mine)).heads
        return Change(kind="added_flag", program=head[-1] if head else program, added=added[0])
    return None


def _after_program(call: _Call) -> list[str]:
    words = list(call)
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    return words[1:]


def _skip_options(words: Sequence[str]) -> list[str]:
    """Return words without the flags and numbers that precede the first name."""
    rest = list(words)
    while rest and (rest[0].startswith("-") or rest[0][:1].isdigit()):
        rest.pop(0)
    return rest


def _has_program(calls: Sequence[_Call], word: str) -> bool:
    name = unquote(word).rpartition("/")[2]
    return any(program_of(call) == name for call in calls)


def _shares_words(mine: Sequence[str], other: Sequence[str], missing: str) -> bool:
    """Return True if two calls have most of their words in common."""
    one, two = set(mine) - {missing}, set(other) - {missing}
    return not one or len(one & two) >= 0.5 * len(one)
