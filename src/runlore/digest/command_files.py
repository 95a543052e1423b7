"""The files that a shell command changes or shows, as far as its text says so.

Understood are redirections, `tee`, `sed -i`, `perl -i`, `mv`, `cp`, `rm`, `touch`, `git mv`,
`git rm`, and patches in a here-document. A name that only the shell knows (`$out`, `*.py`) is left
out. Nothing here knows whether the command succeeded.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Generator, Iterator

import re2

MAX_CHARS = 20_000
"""Characters of a command that are looked at, without its here-documents."""
MAX_FILES = 100
"""Files of one command."""
_MAX_SHELLS = 2
"""Shells inside each other, as in `bash -c "sh -c …"`."""

MAY_CHANGE = re.compile(
    rb">|\b(?:tee|sed|perl|mv|cp|rm|touch|install|git|patch|apply_patch|applypatch)\b"
)
"""What a command that changes a file has in it; most commands have none of it."""

MAY_WRITE = re2.compile(
    rb"(?:^|[^0-9=<>-])>{1,2}(?:[^&=>]|$)|[0-9]>{1,2}\s*(?:[^&/\s>]|/[^d])"
    rb"|\b(?:tee|mv|cp|rm|touch|install|patch|apply_?patch)\b"
    rb"|\b(?:sed|perl)\b[^|;&\n]*\s-\w*i|\bgit\b[^|;&\n]*\b(?:mv|rm|apply|am)\b"
)
"""As `MAY_CHANGE`, and much rarer in commands that change nothing. RE2 reads them once."""

_TOKEN = re.compile(
    r"""(?P<turn>(?<![=-])\d?(?:&>>?|>>|>\||>&|>|<<<|<<|<&|<))|(?P<sign>&&|\|\||\|&|[;|&()\n])"""
    r"""|(?<!\S)\#[^\n]*|(?P<word>(?:[^\s'"\\;|&<>()]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)"""
    r"""|(?P<bad>['"\\])""",
    re.S,
)
"""Redirections, signs between commands, comments and words with their quotes."""
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.S)
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)(\w{1,100})\1")
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:(?:Update|Add|Delete) File|Move to): |(?:\+\+\+|---) )([^\t\r\n]+)", re.M
)
_PATCHERS = frozenset({"apply_patch", "applypatch", "patch"})
_CODE = re.compile(
    r"\s*(?://|(?:const|let|var|import|from|await|async|function|return|def|class)\s)"
)
"""The beginning of a program in another language, which some tools run like a command."""
_UNKNOWN = re.compile(r"[$`*?\[\]{}\n]|\A(?:[-=&]|/dev/)|\A\Z|\A(?:\d+|\.|\.\.|/)\Z")
"""A word that is no name of a file, or one that only the shell can tell."""
_WRAPPERS = frozenset("sudo time env exec nohup command builtin nice then do else ! {".split())
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OF_ALL = frozenset({"rm", "touch", "tee"})
_WITH_VALUE = {
    "sed": ("-e", "-f", "-l"),
    "perl": ("-e", "-E", "-I", "-M"),
    "touch": ("-d", "-r"),
    "install": ("-g", "-m", "-o"),
}
"""Options of a program whose value is the next word."""
_MOVERS = frozenset({"mv", "cp", "install"})
_TARGET = re.compile(r"(?:-[A-Za-su-z]*t|--target-directory(?:=|\Z))(.*)", re.S)
"""The option of `mv`, `cp` and `install` that names the folder before the files."""


def changed_files(command: str) -> tuple[str, ...]:
    """Return the files that a command writes, moves or removes, in the order of its words.

    They are seen from the folder that the command is started in. Never raises.
    """
    if _CODE.match(command):
        return ()
    found = dict.fromkeys(_changed(command, "", _MAX_SHELLS))
    return tuple(found)[:MAX_FILES]


def shown_files(command: str) -> tuple[str, ...]:
    """Return the files that a command prints: the operands of `cat`, `head`, `sed -n` and the like.

    They are seen from the folder that the command is started in. Never raises.
    """
    if _CODE.match(command) or "<<" in command or not _MAY_SHOW.search(command):
        return ()
    found: dict[str, None] = {}
    words: list[str] = []
    folder = ""
    for token in _TOKEN.finditer(f"{command[:MAX_CHARS]}\n"):
        if token["bad"]:
            break
        if token["turn"] or token["word"]:
            words.append(token["turn"] or _unquoted(token["word"]))
            continue
        words = _unwrapped(words)
        if words[:1] == ["cd"] and len(words) == 2 and not _UNKNOWN.search(words[1]):
            folder = posixpath.join(folder, words[1])
        found |= dict.fromkeys(_known(_operands_shown(words), folder))
        words = []
    return tuple(found)[:MAX_FILES]


_MAY_SHOW = re.compile(r"(?:^|[;&(\n])\s*(?:cat|head|tail|nl|less|more|bat|sed)\s")
"""What a command that prints a file has in it. After a pipe these print what they are given."""
_SHOWING = frozenset("cat head tail nl less more bat".split())


def _operands_shown(words: list[str]) -> list[str]:
    """Return the files that a simple command prints."""
    redirected = next((n for n, word in enumerate(words) if ">" in word or "<" in word), len(words))
    program, *rest = words[:redirected] or [""]
    operands = [word for word in rest if not word.startswith("-")]
    if program == "sed":
        is_printing = any(re.fullmatch(r"-[nErsz]*n[Ersz]*", word) for word in rest)
        return operands[1:] if is_printing else []
    if program not in _SHOWING:
        return []
    is_counted = program in ("head", "tail") and any(word in ("-n", "-c") for word in rest)
    return operands[1:] if is_counted else operands


def _split_here_documents(command: str) -> tuple[str, list[str]]:
    """Return a command without its here-documents, and their texts. Each line is read once."""
    rest, texts = list[str](), list[str]()
    lines = iter(command.split("\n"))
    for line in lines:
        start = _HERE_DOCUMENT.search(line)
        if start is None:
            rest.append(line)
            continue
        rest.append(f"{line[: start.start()]} {line[start.end() :]}")
        text = list[str]()
        for inside in lines:
            behind = inside.lstrip(" \t").removeprefix(start[2])
            if len(behind) < len(inside.lstrip(" \t")) and behind[:1] in ("", ")", " ", "\t", "\r"):
                rest.append(behind)
                break
            text.append(inside)
        texts.append("\n".join(text))
    return "\n".join(rest), texts


def _changed(command: str, folder: str, shells: int) -> Iterator[str]:
    patches: list[str] = []
    if "<<" in command:
        command, patches = _split_here_documents(command)
    words: list[str] = []
    outside: list[str] = []
    is_applied = False
    for token in _TOKEN.finditer(command[:MAX_CHARS]):
        if token["bad"]:  # A quote that is never closed: what came before it counts.
            break
        if turn := token["turn"]:
            words.append(">" if ">" in turn else "<")
            continue
        if token["word"]:
            words.append(token["word"])
            continue
        is_applied = is_applied or _applies(words)
        folder = yield from _finish(words, folder, shells)
        words = []
        if token["sign"] == "(":
            outside.append(folder)
        elif token["sign"] == ")" and outside:
            folder = outside.pop()
    is_applied = is_applied or _applies(words)
    folder = yield from _finish(words, folder, shells)
    for patch in patches if is_applied else ():
        yield from (posixpath.join(folder, path) for path in _patched(patch))


def _finish(words: list[str], folder: str, shells: int) -> Generator[str, None, str]:
    """Yield the files that one simple command changes, and return the folder after it."""
    plain: list[str] = []
    at = 0
    while at < len(words):
        if words[at] not in (">", "<"):
            plain.append(_unquoted(words[at]))
            at += 1
            continue
        if words[at] == ">":
            yield from _known(list(map(_unquoted, words[at + 1 : at + 2])), folder)
        at += 2
    plain = _unwrapped(plain)
    if plain[:1] == ["cd"] and len(plain) == 2 and not _UNKNOWN.search(plain[1]):
        return posixpath.join(folder, plain[1])
    if shells and plain[:1] and plain[0].rpartition("/")[2] in _SHELLS:
        script = _script(plain)
        if script is not None:
            yield from _changed(script, folder, shells - 1)
    elif plain:
        yield from _known(_operands_changed(plain), folder)
    return folder


def _applies(words: list[str]) -> bool:
    """Return True if a simple command applies a patch."""
    words = _unwrapped(words)
    if words[:1] == ["git"]:
        return words[1:2] in (["apply"], ["am"])
    return bool(words) and words[0].rpartition("/")[2] in _PATCHERS


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda part: part[1] or part[2] or part[3] or "", word)


def _script(words: list[str]) -> str | None:
    """Return the text that a shell is given to run."""
    if len(words) > 2 and re.fullmatch(r"-[a-z]*c", words[1]):
        return words[2]
    return None


def _unwrapped(words: list[str]) -> list[str]:
    """Return a simple command without assignments and programs that only start another."""
    at = 0
    while at < len(words) and (words[at] in _WRAPPERS or _ASSIGNMENT.match(words[at])):
        at += 1
    return words[at:]


def _known(paths: list[str], folder: str) -> Iterator[str]:
    """Yield the paths whose names the text tells."""
    for path in paths:
        if not _UNKNOWN.search(path):
            yield path if path.startswith("~") else posixpath.join(folder, path)


def _operands_changed(words: list[str]) -> list[str]:
    """Return the operands of a program that it changes."""
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "git":
        return _git_operands(rest)
    if program in _MOVERS:
        return _moved(program, rest)
    operands = _operands(program, rest)
    if program in _OF_ALL:
        return operands
    if program in ("sed", "perl"):
        return _in_place(program, rest, operands)
    return []


def _git_operands(words: list[str]) -> list[str]:
    """Return the files that `git mv` or `git rm` changes, below the folder of `git -C`."""
    folder = ""
    while words[:1] and words[0].startswith("-"):
        if words[0] == "-C" and words[1:2] not in ([], ["."]):
            folder = posixpath.join(folder, words[1])
        words = words[2:] if words[0] in ("-C", "-c") else words[1:]
    if words[:1] not in (["mv"], ["rm"]):
        return []
    return [posixpath.join(folder, path) for path in _operands_changed(words)]


def _operands(program: str, words: list[str]) -> list[str]:
    """Return the words that are no options, and no values of options."""
    with_value = _WITH_VALUE.get(program, ())
    operands = []
    for n, word in enumerate(words):
        is_value = n > 0 and words[n - 1] in with_value
        if not is_value and (not word.startswith("-") or word == "-"):
            operands.append(word)
    return operands


def _moved(program: str, words: list[str]) -> list[str]:
    """Return the targets of a move or a copy, and of a move its sources."""
    words, folder = _without_target(words)
    operands = _operands(program, words)
    sources = operands[:-1] if folder is None else operands
    if not sources:
        return []
    target = operands[-1] if folder is None else folder
    targets = [target]
    is_folder = folder is not None or target.endswith("/") or target in (".", "..")
    if len(sources) > 1 or is_folder:
        names = [source.rstrip("/").rpartition("/")[2] for source in sources]
        targets = [posixpath.join(target, name) for name in names]
    return [*sources, *targets] if program == "mv" else targets


def _without_target(words: list[str]) -> tuple[list[str], str | None]:
    """Return the words without the option that names a target folder, and that folder."""
    for n, word in enumerate(words):
        if word == "--":
            break
        if match := _TARGET.fullmatch(word):
            value = [match[1]] if match[1] else words[n + 1 : n + 2]
            return words[:n] + words[n + 1 + (not match[1]) :], "".join(value)
    return words, None


def _in_place(program: str, words: list[str], operands: list[str]) -> list[str]:
    """Return the files that sed or perl change in place."""
    options = [word for word in words if word.startswith("-") and word != "-"]
    return (_changed_by_perl if program == "perl" else _changed_by_sed)(options, operands)


def _changed_by_perl(options: list[str], operands: list[str]) -> list[str]:
    is_in_place = any(re.match(r"-[a-zA-Z0]*i", word) for word in options)
    has_script = any(re.fullmatch(r"-[a-zA-Z0]*[eE]", word) for word in options)
    if not (is_in_place and has_script):
        return []
    # The text of `-pie '…'` is an operand here, as that of `-pi -e '…'` is not.
    is_separate = any(word in ("-e", "-E") for word in options)
    return operands if is_separate else operands[1:]


def _changed_by_sed(options: list[str], operands: list[str]) -> list[str]:
    if not any(re.match(r"-[nErsz]*i|--in-place", word) for word in options):
        return []
    # Without -e the first operand is the script; on macOS an empty suffix stands before it.
    files = operands[1:] if operands[:1] == [""] else operands
    has_script = any(word in ("-e", "-f") or word.startswith("--expression") for word in options)
    return files if has_script else files[1:]


def _patched(patch: str) -> list[str]:
    """Return the files that a patch names."""
    paths = [path.strip() for path in _PATCHED.findall(patch)]
    return [
        path[2:] if path.startswith(("a/", "b/")) else path for path in paths if path != "/dev/null"
    ]
