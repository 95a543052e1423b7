"""The meaning of a shell command, judged by its words: its programs, its targets, its effect.

This is no shell: quotes and separators are respected, everything else is words. Commands are cut at
`MAX_CHARS`, and here-documents are removed.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from itertools import dropwhile
from json import loads

import re2

MAX_CHARS = 2000
_MAX_WRAPPERS = 8


class Command:
    """A parsed shell command.

    `heads` are the programs with their subcommands (`git push`), in their order, without those that
    only read or prepare. `key` is the same for the same work, wherever its output was cut or sent.
    Most properties are computed on demand, because few commands need them.
    """

    def __init__(
        self,
        working: list[list[str]],
        reading: list[list[str]],
        programs: set[str],
        separators: list[str],
        *,
        proven: frozenset[str],
        directory: str,
    ) -> None:
        self._main, self._working = working or reading, working
        self.programs = frozenset(programs)
        self.is_read_only = not working and bool(programs)
        """Nothing is changed or checked, so that a failure without a message means that nothing was
        found."""
        self.proven = proven
        """The heads of the parts of which an exit code 0 proves that they succeeded: not what is
        before a pipe, a `;` or an `||`."""
        self.directory = directory
        """The folder that it changes to before anything else; empty if it does not."""
        self.hides_status = not _HIDING.isdisjoint(separators)
        """The reported status may be that of another part: there is a pipe, a `;` or an `||
        true`."""

    @cached_property
    def heads(self) -> tuple[str, ...]:
        return tuple(_head(words) for words in self._main)

    @cached_property
    def key(self) -> str:
        return " && ".join(" ".join(words) for words in self._main)

    @cached_property
    def operands(self) -> frozenset[str]:
        """The words that are not flags. Of a path only the last part counts."""
        return frozenset(
            _last_part(word)
            for words in self._main
            for word in words[1:]
            if word[:1] not in ("-", "")
        )

    @cached_property
    def files(self) -> frozenset[str]:
        """The operands that may be files or folders."""
        return frozenset(word for word in self.operands if _NAME_OF_FILE.match(word))

    @cached_property
    def selects(self) -> tuple[str, ...]:
        """The tests that were selected (`-run TestA`, `-k name`)."""
        return tuple(
            words[n + 1]
            for words in self._main
            for n, word in enumerate(words[:-1])
            if word in _SELECTORS
        )

    @cached_property
    def changes(self) -> bool:
        """True if it may have changed something: it does not only read, test, list or ask for
        help."""
        if any(not _CHECKS.search(_head(words)) for words in self._working):
            return True
        return any(flag in words for words in self._working for flag in _CHANGING_FLAGS)


@lru_cache(maxsize=1024)
def parse(command: str) -> Command:
    """Parse a command. Never raises: what is not understood is words."""
    parts, separators = _simple_commands(command)
    working: list[list[str]] = []
    reading: list[list[str]] = []
    programs: set[str] = set()
    proven: set[str] = set()
    directory = ""
    is_proven = _find_proven(parts, separators)
    for n, words in enumerate(parts):
        program = _program(words[0])
        if program in _MAY_WRAP or "=" in words[0] or program.startswith("python"):
            words = _unwrap(words)
            if not words:
                continue
            program = _program(words[0])
        programs.add(program)
        if program in ("cd", "pushd") and not working and not reading:
            directory = words[1] if len(words) > 1 else "~"
        if program not in _PREPARING:
            part = [program, *words[1:]]
            (reading if _only_reads(program, words) else working).append(part)
            if is_proven[n]:
                proven.add(_head(part))
    return Command(
        working,
        reading,
        programs,
        separators,
        proven=frozenset(proven),
        directory=directory,
    )


def _find_proven(parts: list[list[str]], separators: list[str]) -> list[bool]:
    """Return for each part whether status 0 of the whole command proves that it succeeded.

    The status is that of the last part. If that part ran at all, the parts before it that are
    joined by `&&` have succeeded.
    """
    proven = [False] * len(parts)
    if not parts or (len(separators) == len(parts) and separators[-1] == "&"):
        return proven
    proven[-1] = True
    sets = " ".join(" ".join(part) for part in parts if part[0] == "set")
    is_strict, sees_pipes = _STRICT.search(sets) is not None, "pipefail" in sets
    for n in range(len(parts) - 2, -1, -1):
        separator = separators[n]
        if separator in ("|", "|&"):
            proven[n] = sees_pipes
        elif separator == "&&" or (is_strict and separator in (";", "\n")):
            proven[n] = True
        else:
            break
    return proven


_STRICT = re.compile(r"-\w*e")


def unwrap_script(text: str) -> str:
    """Return the command that a script in a language of an agent only passes to a shell."""
    match = _SCRIPT.match(text)
    if match is None:
        return text
    try:
        command = loads(f'"{match[1]}"')
    except ValueError:
        return text
    return str(command)


_SCRIPT = re.compile(
    r"\s*(?:const|let|var) \w+ ?= ?await tools\.\w+\(\{\s*\"?cmd\"?\s*:\s*\"((?:[^\"\\]|\\.)*)\""
    r"(?!.*\btools\.)",
    re.DOTALL,
)


def _only_reads(program: str, words: list[str]) -> bool:
    if program == "git":
        return _git_only_reads(words)
    is_in_place = program in ("sed", "awk", "gawk") and any(word.startswith("-i") for word in words)
    return program in _READING and not is_in_place


def seems_read_only(command: str) -> bool:
    """Return True if a command on one line seems to only read, by its first program.

    Much faster than `parse`.
    """
    if command.startswith("cd "):
        command = command.rpartition("&& ")[2]
    program, _, rest = command.partition(" ")
    return rest.partition(" ")[0] in _GIT_READING if program == "git" else program in _READING


def only_commits(command: Command) -> bool:
    """Return True if it only records what was changed before (`git add`, `git commit`)."""
    return all(head in ("git add", "git commit", "git stash") for head in command.heads)


def strip_plumbing(command: str) -> str:
    """Return a command without what is done with its output."""
    return _PLUMBING.sub("", command).strip()


_PLUMBING = re.compile(
    r"\s*(?:2>&1|2>\s*/dev/null"
    r"|\|&?\s*(?:tail|head|grep|egrep|rg|sed|awk|wc|sort|uniq|cut|less|cat)\b"
    r"(?:[^|;&\n'\"]|'[^']{0,200}'|\"[^\"]{0,200}\"){0,80})"
)
_NAME_OF_FILE = re.compile(r"[\w@.+-]*[A-Za-z][\w@.+-]*\Z")
_CHECKS = re.compile(
    r"\b(?:test|tests|check|lint|status|list|ls|view|show|diff|log|help|version|pytest|jest|vitest"
    r"|mypy|pyright|ruff|eslint|tsc|vet"
    r"|typecheck|capture|logs|describe|search|doctor)\b|^(?:go|cargo|swift) build"
)
_SELECTORS = frozenset(
    {
        "-run",
        "--run",
        "-k",
        "-t",
        "--grep",
        "-g",
        "--testNamePattern",
        "--test-name-pattern",
        "--filter",
    }
)
_CHANGING_FLAGS = frozenset({"--fix", "--write", "-w", "--update", "-u", "--apply", "format"})
_KEYWORDS = frozenset(
    "const let var import from await async function return def class for while if case"
    " select".split()
)


def installs(command: Command) -> bool:
    """Return True if it adds something to the environment."""
    return any(_INSTALL.search(head) for head in command.heads) or bool(
        _INSTALL.search(command.key)
    )


_INSTALL = re.compile(
    r"\b(?:install|add|sync|restore|get|ci|login|trust|setup|init|bootstrap|link|use|mkdir|chmod"
    r"|pull|fetch|clone|export|source|venv"
    r"|activate)\b"
)


def fetches_and_runs(command: str) -> bool:
    """Return True if a command runs code that it gets from elsewhere.

    It pipes a download or decoded text into an interpreter, evaluates one, runs a file that it has
    just downloaded, or installs a package from an address.
    """
    # A line that went on, or did so before it was put on one line.
    text = command[: 10 * MAX_CHARS].replace("\\\n", " ").replace("\\ ", " ")
    return _FETCHES_AND_RUNS.search(text) is not None or _runs_download(text)


def reaches_out(command: str) -> bool:
    """Return True if a command names an address on another machine, starts a program that fetches
    from one, or hides what it runs."""
    text = command[: 10 * MAX_CHARS]
    hosts = {host.lower() for host in _HOST.findall(text)}
    if hosts - _LOCAL_HOSTS or _REMOTE_NAME.search(text) is not None:
        return True
    plain = _QUOTES.sub("", text)
    if _HIDES_OR_FETCHES.search(plain) is not None:
        return True
    parsed = parse(plain)
    programs = parsed.programs - ({"curl", "wget"} if hosts else set())
    return bool(programs & _REMOTE_PROGRAMS) or not _REMOTE_HEADS.isdisjoint(parsed.heads)


_HOST = re.compile(r"[A-Za-z][\w+.-]{0,20}://(?:[^\s/@'\"]{0,200}@)?(\[[^\]\s]*\]|[^\s/:'\"?#]*)")
_LOCAL_HOSTS = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0", "[::1]"})  # noqa: S104
_REMOTE_NAME = re.compile(
    # `git@example.org:ada/shop`, `go run example.org/tool@latest`.
    r"(?<![\w.-])[\w-]{1,60}@[\w-]{1,60}\.[\w.-]{2,60}:"
    r"|(?<![\w./-])[\w-]{1,60}(?:\.[\w-]{1,60})+/[\w./-]{1,200}@"
)
_QUOTES = re.compile(r"['\"\\]")
_REMOTE_PROGRAMS = frozenset(
    "curl wget aria2c fetch http https xh lynx nc ncat netcat socat telnet ssh scp sftp ftp rsync"
    " iwr irm invoke-webrequest invoke-restmethod tftp axel httpie lwp-request lwp-download get dig"
    " host nslookup finger whois busybox apt-add-repository add-apt-repository certutil bitsadmin"
    " mshta regsvr32 start-bitstransfer".split()
)
_HIDES_OR_FETCHES = re2.compile(
    # A shell that runs what it is sent, whatever that is made of; code with code in it.
    r"(?i)\|&?\s*(?:sudo\s+(?:-\S+\s+)*)?(?:\S*/)?(?:ba|z|da|k|fi|a)?sh\s*(?:-\S*\s*)*(?:$|[;&|\n)])"
    r"|\b(?:ba|z|da|k|fi|a)?sh\b[^\n;|]*<<<"
    r"|\s-\w*[ceEr]\s[^\n]*\b(?:system|popen|exec|eval|subprocess|child_process)\b"
    # The network as a file, other repositories, and settings of git that are commands.
    r"|/dev/(?:tcp|udp)/|\bgh\s+(?:repo|gist|release|run|extension)\s"
    r"|\bbrew\s+(?:tap\b|install\s[^\n;&|]*\w+/\w+/)|\bcomposer\s+(?:create-project|global)\b"
    r"|\bgit\s+(?:pull|fetch)\s+(?:-\S+\s+)*(?:[^-\s]\S*)\s+\S"
    r"|\bGIT_(?:SSH|SSH_COMMAND|EXEC_PATH|PROXY_COMMAND|EXTERNAL_DIFF)="
    r"|\bcore\.(?:fsmonitor|sshCommand|hooksPath|pager|editor|gitProxy)\b"
)
"""In a command without its quotes."""
_REMOTE_HEADS = frozenset({"docker run", "docker pull", "podman run", "podman pull"})


def _runs_download(text: str) -> bool:
    """Return True if a file that a part of the command downloads is run by a later part."""
    for match in (*_DOWNLOAD_TO.finditer(text), *_DOWNLOAD.finditer(text)):
        name = match["file"].strip("'\"").rpartition("/")[2]
        for part in _AFTER_SEPARATOR.split(text[match.end() :])[1:]:
            if name and name in part and _STARTS_FILE.match(part) is not None:
                return True
    return False


_FETCHES = (
    r"(?:curl|wget|fetch|aria2c|http|https|lynx|nc|ncat|socat|iwr|irm|invoke-webrequest"
    r"|invoke-restmethod"
    r"|new-object\s+(?:system\.)?net\.webclient|\(new-object)"
)
_INTERPRETERS = (
    r"(?:sudo\s+(?:-\S+\s+)*)?(?:env\s+(?:\S+=\S*\s+)*)?(?:\S*/)?"
    r"(?:ba|z|da|k|fi|a)?sh\b"
    r"|(?:sudo\s+(?:-\S+\s+)*)?(?:\S*/)?(?:python[\d.]*|node|deno|bun|ruby|perl|php|pwsh|powershell"
    r"|iex|invoke-expression|source|eval|xargs)\b"
)
_ADDRESS = r"(?:git\+)?(?:https?|git|ssh|ftp)(?:\+\w+)?://|git\+|git@|github:|gitlab:|bitbucket:"
_FETCHES_AND_RUNS = re2.compile(
    rf"(?i)\b{_FETCHES}\b[^\n;]*\|&?\s*(?:tee\s[^|\n]*\|\s*)?(?:{_INTERPRETERS})"
    # Decoded text is code from elsewhere too.
    rf"|\b(?:base64|openssl|xxd|gunzip|zcat|gzip)\b[^\n;|]*\s(?:-\w*[dDr]\w*|--decode|enc)\b"
    rf"[^\n]*\|\s*(?:{_INTERPRETERS})"
    # `bash <(curl …)`, `sh -c "$(curl …)"`, `eval "$(wget …)"`, `iex (iwr …)`.
    rf"|(?:{_INTERPRETERS}|(?:^|[;&|]\s*)\.\s)[^\n;|]*(?:<\(|\$\(|`|\()\s*{_FETCHES}\b"
    rf"|(?:{_INTERPRETERS})[^\n;|]*(?:<\(|\$\(|`)[^\n)`]*\bbase64\b"
    rf"|\b(?:iex|invoke-expression)\b[^\n]*\b(?:{_FETCHES}|downloadstring|frombase64string)"
    rf"|\b(?:{_FETCHES}|downloadstring)\b[^\n]*\|\s*(?:iex|invoke-expression)\b"
    # `python -c "exec(… 'https://…')"`, `X=$(curl …); eval "$X"`, `git clone … && make`.
    r"|\b(?:python[\d.]*|node|ruby|perl|php|deno|bun)\s[^\n]*-\w*[ceErp]\b[^\n]*"
    r"(?:\beval\b|\bexec\b|\bsystem\b)[^\n]*://|\b(?:node|deno|bun)\s[^\n]*-\w*[ep]\b[^\n]*://"
    r"[^\n]*\beval\b"
    rf"|=\s*[\"']?(?:\$\(|`)\s*{_FETCHES}\b[^\n]*[;&\n]\s*(?:{_INTERPRETERS})"
    rf"|\bgit\s+clone\s[^\n;&|]*(?:{_ADDRESS})[^\n]*[;&\n]\s*"
    rf"(?:(?:sudo\s+)?(?:make|npm|cargo|go|docker|pip[\d.]*)\b|\.?/|{_INTERPRETERS})"
    # A package from an address, or a program that is fetched by one.
    r"|\b(?:pip[\d.]*|pipx|uv|poetry|pdm|npm|pnpm|yarn|bun|deno|gem|cargo|go|brew|luarocks)\s"
    r"[^\n;&|]*\b(?:install|add|i|tap|tool)\b"
    rf"[^\n;&|]*(?:^|[\s'\"=@])(?:--git[\s=]|{_ADDRESS})"
    r"|\b(?:npx|bunx|pnpx|uvx|dlx|pipx\s+run|deno\s+run|go\s+run)\b"
    rf"[^\n;&|]*(?:[\s'\"=@])(?:{_ADDRESS})"
    r"|\brpm\s+-\w*[iU]\w*\s+\S*://|\bdpkg\s+-i\s+\S*://|\bpowershell\b[^\n]*\s-enc"
)
"""RE2, because commands come from anywhere and its time is linear."""
_DOWNLOAD_TO = re2.compile(
    r"(?i)\b(?:curl|wget|iwr|invoke-webrequest)\b[^\n;&|]*?"
    r"(?:\s-[a-zA-Z]*[oO]\s*|\s--output(?:-document)?[\s=]|\s-outfile\s|\s>\s*)(?P<file>[^\s;&|]+)"
)
_DOWNLOAD = re2.compile(
    r"(?i)\b(?:wget|aria2c|curl\s[^\n;&|]*--remote-name)\b[^\n;&|]*?://(?P<file>[^\s;&|]+)"
)
"""Under its own name."""
_AFTER_SEPARATOR = re.compile(r"[;&|\n]+\s*")
_STARTS_FILE = re.compile(rf"(?:chmod|exec|\.|{_INTERPRETERS})\s|\.?/|&\s", re.I)

_READING = frozenset(
    "cat head tail sed awk gawk nl less more bat rg grep egrep fgrep zgrep ag ack find fd ls lsd"
    " exa eza tree wc sort uniq cut jq yq diff cmp comm file stat which whereis type command test ["
    " [[ pgrep ps lsof du df env printenv xxd strings column tr tac realpath readlink basename"
    " dirname date whoami hostname uname Get-Content Select-String Get-ChildItem Test-Path dir"
    " findstr where".split()
)
_PREPARING = frozenset(
    "cd echo printf pwd true false : set export unset sleep pushd popd shopt ulimit umask source . "
    "local wait exit return done fi then do read".split()
)
_GIT_READING = frozenset(
    "log show diff grep status blame ls-files ls-tree ls-remote rev-parse cat-file describe reflog"
    " shortlog rev-list merge-base".split()
)
_RUNNERS = {
    "uv": {"run"}, "poetry": {"run"}, "pipenv": {"run"}, "pdm": {"run"}, "hatch": {"run"},
    "rye": {"run"}, "bundle": {"exec"},
    "pnpm": {"exec", "dlx"},
    "npm": {"exec"}, "yarn": {"dlx", "exec"}, "bun": {"x"}, "mise": {"exec", "x"},
    "docker-compose": set(), "conda": {"run"}, "mamba": {"run"}, "micromamba": {"run"},
}  # fmt: skip
_PREFIXES = frozenset(
    "sudo time env exec nohup npx bunx pnpx uvx xargs command builtin nice stdbuf then do else if"
    " while ! {".split()
)

_PART = r"""(?:[^\s'"\\;|&<>()$]++|'[^']*'|"(?:[^"\\]++|\\.)*"|\\.|\$\([^()]{0,200}\)|\$)"""
_WORD = re.compile(
    # Most words begin with a letter, so this alternative comes first.
    rf"""[^\s'"\\;|&<>()$\d]{_PART}*|\n|&&|\|\||\|&|[;|()]|&(?!>)"""
    rf"""|\d?(?:>>?|<<?<?|&>>?)(?:&\d|&-)?|{_PART}+|['"]"""
)
_MAY_WRAP = _PREFIXES | _RUNNERS.keys() | {"timeout", "bash", "sh", "zsh"}
_HIDING = frozenset({"|", ";", "||", "\n"})
_SEPARATORS = frozenset({"\n", "&&", "||", "|", "|&", ";", "&", "(", ")"})
_BEGINS_MARK = frozenset("\n&|;()<>0123456789")
"""The first characters of separators and redirections."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_HEREDOC = re.compile(r"(?s)<<-?\s*(['\"]?)(\w+)\1.*?(?:\n\2\b|\Z)")


def _simple_commands(command: str) -> tuple[list[list[str]], list[str]]:
    """Return the words of each simple command without redirections, and the separators."""
    command = command[: 10 * MAX_CHARS]
    if "<<" in command:
        command = _HEREDOC.sub(" ", command)
    command = command[:MAX_CHARS]
    words: list[str] = []
    parts = [words]
    separators: list[str] = []
    is_target = False
    for word in _WORD.findall(command):
        first = word[0]
        if first in _BEGINS_MARK:  # True for few words; the others skip the comparisons.
            if word in _SEPARATORS:
                if words:
                    separators.append(word)
                    words = []
                    parts.append(words)
                is_target = False
                continue
            if word.lstrip("0123456789&")[:1] in ("<", ">"):
                is_target = not word.endswith(("&1", "&2", "&-"))
                continue
        if is_target:
            is_target = False
        else:
            words.append(word.strip("'\"") if first in "'\"" else word)
    return [part for part in parts if part], separators


def _git_only_reads(words: list[str]) -> bool:
    sub = _subcommand(words)
    if sub in ("remote", "branch", "config"):
        return not _GIT_CHANGES.intersection(words) and not (
            sub == "config"
            and not any(word.startswith(("--get", "--list", "-l")) for word in words)
        )
    return sub in _GIT_READING


_GIT_CHANGES = frozenset(
    "set-url add remove rm rename prune -d -D -m -M -f -u --delete --move --set-upstream-to"
    " --unset set".split()
)


def is_wrapper(word: str) -> bool:
    """Return True for a word that only starts another program, or sets its environment."""
    return _program(word) in _MAY_WRAP or _ASSIGNMENT.match(word) is not None


def _unwrap(words: list[str]) -> list[str]:
    """Remove what only starts another program: assignments, `sudo`, `npx`, `uv run`, and so on."""
    for _ in range(_MAX_WRAPPERS):
        if not words:
            return words
        inner = _unwrap_once(words)
        if inner is None:
            return words
        words = inner
    return words


def _unwrap_once(words: list[str]) -> list[str] | None:
    """Return the command inside one wrapper, or None if there is no wrapper."""
    first = _program(words[0])
    if first == "command" and words[1:2] in (["-v"], ["-V"]):
        return None
    if first in _PREFIXES or ("=" in words[0] and _ASSIGNMENT.match(words[0])):
        return _skip_flags(words[1:])
    if first == "timeout":
        return _skip_flags(words[1:], and_numbers=True)
    if words[1:2] and words[1] in _RUNNERS.get(first, ()):
        return _unwrap_runner(words)
    if first.startswith("python") and "-m" in words[1:3]:
        return words[words.index("-m") + 1 :]
    if first in ("bash", "sh", "zsh"):
        return _unwrap_shell(words)
    return None


def _unwrap_runner(words: list[str]) -> list[str] | None:
    """Return the command of `uv run …`; None if there is none. Only an environment of conda has a
    name."""
    if len(words) < 3:
        return None
    has_name = _program(words[0]) in _WITH_NAME and words[2] in ("-n", "-p")
    return _skip_flags(words[4:] if has_name else words[2:])


_WITH_NAME = frozenset({"conda", "mamba", "micromamba"})


def _unwrap_shell(words: list[str]) -> list[str] | None:
    """Return the last command of `bash -c "…"`, or None for another call of a shell."""
    if len(words) < 3 or words[1] not in ("-c", "-lc"):
        return None
    inner = _simple_commands(words[2])[0]
    return inner[-1] if inner else []


def _skip_flags(words: list[str], *, and_numbers: bool = False) -> list[str]:
    is_skipped = (
        (lambda word: word.startswith("-") or word[:1].isdigit())
        if and_numbers
        else (lambda word: word.startswith("-"))
    )
    return list(dropwhile(is_skipped, words))


def _program(word: str) -> str:
    return (
        word.replace("\\", "/").rpartition("/")[2] or word if "/" in word or "\\" in word else word
    )


def _subcommand(words: list[str]) -> str:
    """Return the first word that is neither a flag nor its value, if it is a plain one."""
    skip = False
    for word in words[1:]:
        if skip or word.startswith("-"):
            skip = word in ("-C", "-c", "--filter", "--repo", "-R") and not skip
            continue
        return word if _PLAIN.match(word) else ""
    return ""


_PLAIN = re.compile(r"[a-z][\w:-]{0,40}\Z")
_TAKES_TWO = frozenset("gh npm pnpm yarn bun docker kubectl aws gcloud az cargo go bd".split())


def _head(words: list[str]) -> str:
    # The text of a program, not a command: sharing a keyword means nothing.
    if words[0] in _KEYWORDS:
        return " ".join(words)[:200]
    sub = _subcommand(words)
    if sub and words[0] in _TAKES_TWO and sub in words:
        after = words[words.index(sub) + 1 :]
        if (
            after
            and _PLAIN.match(after[0])
            and (sub in ("run", "pr", "issue", "api", "repo", "mod", "compose") or words[0] == "gh")
        ):
            return f"{words[0]} {sub} {after[0]}"
    if (
        not sub
        and len(words) > 1
        and words[0]
        in ("python", "python3", "node", "bash", "sh", "ruby", "tsx", "bun", "deno", "perl")
    ):
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        return (
            f"{words[0].rstrip('3')} {_last_part(script)}"
            if script and len(script) < 200
            else words[0].rstrip("3")
        )
    return f"{words[0]} {sub}".strip()


def _last_part(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2][:120] or word[:120]
