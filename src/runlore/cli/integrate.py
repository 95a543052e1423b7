"""Steps shared by `hooks` and `mcp`: show, confirm, write and remove our entries in an agent's
settings.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from click.shell_completion import CompletionItem

from .. import adapters, config
from ..errors import ConfigError
from ..files import settings as settings_files
from ..integrations.hooks import PYTHON
from ..integrations.hooks.end import last_sync
from ..redact.engine import Redactor
from .failures import Failure
from .options import AgentName
from .output import clean, echo, note, one_line, paint, write_json

RECEIPTS = "installed.json"
"""The file in runlore's home that lists our entries in each settings file."""

VERSION_TIMEOUT_S = 5.0
"""Seconds for an agent to tell its version."""

WIDEST = 600
"""Characters of a line that is shown: our own entries have fewer."""

What = Literal["hooks", "mcp"]


class Unasked(Failure):
    """Something that only a person can allow, and nobody is there."""

    exit_code = 2

    def __init__(self, what: str = "an agent's settings") -> None:
        super().__init__(
            f"this changes {what}, and there is nobody to ask",
            "needs_yes",
            "add --yes, or --dry-run to see it",
        )

    def line(self) -> str:
        return f"runlore: {self.message}; {self.hint}"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The file of an agent, and what we want in it."""

    agent: str
    what: What
    file: Path
    entries: list[adapters.Entry]
    unknown: list[adapters.Entry] = []
    """Entries that the agent on this machine is too old for, and would refuse."""
    version: tuple[int, ...] = ()
    """The version of the agent, if it matters and is known."""
    after: str = ""

    @property
    def every(self) -> list[adapters.Entry]:
        return [*self.entries, *self.unknown]

    @property
    def name(self) -> str:
        """The name of its receipt."""
        return f"{self.what} {self.file}"


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that were added to an agent's settings or removed from them, or would be."""

    agent: str
    what: What
    file: str
    state: str
    """Afterwards: installed, outdated, absent."""
    changed: bool
    dry_run: bool
    diff: list[str]
    """The lines of the diff."""


class SettingsState(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of runlore in an agent's settings."""

    agent: str
    what: What
    file: str
    state: str
    """installed, outdated, absent; unknown if the file cannot be read."""
    problem: str | None
    """Why it cannot be read."""
    last_sync: dict[str, Any] | None
    """The last one that a hook started: at, sessions, events, problems, or error."""


class IntegratedAgent(AgentName):
    """An agent that can be told of us, or one of which `find_target` says that it cannot."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in adapters.names():
            self.fail(
                f"there is no agent {value!r}; runlore can add itself to"
                f" {', '.join(known_agents())}",
                param,
                ctx,
            )
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in known_agents() if name.startswith(incomplete)]


def changing(function: Any) -> Any:
    """The arguments of a command that installs or removes."""
    function = click.option("--dry-run", is_flag=True, help="Show the change without writing it.")(
        function
    )
    function = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(function)
    return click.argument("agent", type=IntegratedAgent())(function)


def find_target(agent: str, what: What) -> Target:
    """Raises ConfigError when this agent cannot be told."""
    try:
        made = adapters.integration(agent)
    except ConfigError as error:
        refused = ConfigError(f"{error}, only to {', '.join(known_agents())}")
        refused.hint = "name one of these"
        raise refused from None
    files, after = (
        (made.hooks_files, made.after_hooks) if what == "hooks" else (made.server_files, "")
    )
    file = adapters.usual_roots(files, os.environ)[0]
    home = os.environ.get("RUNLORE_HOME")
    home = os.path.abspath(os.path.expanduser(home)) if home else None
    if what == "hooks":
        entries = made.hooks(
            lambda event: hook_command(event, agent, made.answer == "json", home, os.name)
        )
    else:
        entries = made.server([*python(), "mcp"], {"RUNLORE_HOME": home} if home else {})
    version = version_of(made.program) if any(entry.since for entry in entries) else ()
    unknown = [entry for entry in entries if version and version < entry.since]
    known = [entry for entry in entries if entry not in unknown]
    return Target(
        agent=agent,
        what=what,
        file=file,
        entries=known,
        unknown=unknown,
        version=version,
        after=after,
    )


def version_of(program: str) -> tuple[int, ...]:
    """Return the version of a program on the PATH, or () if it is missing or does not tell."""
    path = shutil.which(program)
    if path is None:
        return ()
    try:
        said = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(rb"\d+(?:\.\d+){1,3}", said[:1000])
    return tuple(int(part) for part in found.group().split(b".")) if found else ()


def hook_command(event: str, agent: str, is_json: bool, home: str | None, system: str) -> str:
    """Return the command that the agent's shell runs. On Windows that may be bash or cmd: both
    accept slashes, and quotes around a path."""
    words = [*python(), "hooks", "run", event, agent]
    words += ["--json"] * (is_json and event != "end") + (["--home", home] if home else [])
    if system != "nt":
        return shlex.join(words)
    return " ".join(
        f'"{word.replace(os.sep, "/")}"' if n == 0 or word == home else word
        for n, word in enumerate(words)
    )


def python() -> list[str]:
    """This runlore, wherever the agent runs it from."""
    if not sys.executable:
        raise ConfigError("this Python does not say where it is, so an agent could not start it")
    return [_one_name(sys.executable), *PYTHON, "-m", "runlore"]


def _one_name(program: str) -> str:
    """A venv has its Python under several names; what `python3 -m runlore` wrote is not outdated
    for `python -m runlore`."""
    usual = os.path.join(os.path.dirname(program), "python3")
    with suppress(OSError):
        if os.path.samefile(usual, program):
            return usual
    return program


def change(target: Target, *, is_install: bool, yes: bool, dry_run: bool, is_json: bool) -> None:
    """Shows what would be written, asks, and writes it."""
    place = config.load().home / RECEIPTS
    receipts = settings_files.read_receipts(place)
    receipt = receipts.get(target.name)
    if is_install:
        made = settings_files.install(target.file, target.entries, receipt, target.unknown)
    else:
        made = settings_files.remove(target.file, target.every, receipt)
    lines = clean_diff(made)
    if not is_json and lines:
        echo("\n".join(colored(line) for line in lines))
    if not made.is_empty and not dry_run:
        if not yes:
            ask(target, is_json)
        write(made, target, place, receipts, is_install)
    state = settings_files.state(target.file, target.entries, target.unknown)
    if is_json:
        write_json(
            SettingsChange(
                agent=target.agent,
                what=target.what,
                file=str(target.file),
                state=state,
                changed=not made.is_empty,
                dry_run=dry_run,
                diff=lines,
            )
        )
        return
    tell(target, made.is_empty, is_install, dry_run)


def write(
    made: settings_files.Change,
    target: Target,
    place: Path,
    receipts: dict[str, settings_files.Receipt],
    is_install: bool,
) -> None:
    """The receipt first: without it the file could not be restored to the byte. One that is not
    used does no harm."""
    config.make_home(place.parent)
    others = {name: receipt for name, receipt in receipts.items() if name != target.name}
    if is_install and made.receipt:
        settings_files.write_receipts(place, {**others, target.name: made.receipt})
    settings_files.apply(made)
    if not is_install:
        left = [
            folder
            for folder in (made.receipt.folders if made.receipt else ())
            if os.path.isdir(folder)
        ]
        settings_files.write_receipts(
            place, {name: handed_on(name, receipt, left) for name, receipt in others.items()}
        )


def handed_on(
    name: str, receipt: settings_files.Receipt, folders: list[str]
) -> settings_files.Receipt:
    """A folder that we made for a file which is gone goes with the last of our files in it."""
    own = [
        folder
        for folder in folders
        if receipt.is_made and name.partition(" ")[2].startswith(folder + os.sep)
    ]
    return msgspec.structs.replace(receipt, folders=[*receipt.folders, *own]) if own else receipt


def ask(target: Target, is_json: bool) -> None:
    if is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Unasked
    click.confirm(f"Change {one_line(str(target.file))} in this way?", abort=True, err=True)


def tell(target: Target, is_empty: bool, is_install: bool, dry_run: bool) -> None:
    label = adapters.get(target.agent).label
    if is_empty:
        why = "it is there already" if is_install else "there is nothing of runlore in it"
        note(f"nothing to change in {one_line(str(target.file))}: {why}")
    elif dry_run:
        note("nothing was written; without --dry-run it is")
    elif is_install:
        note(
            f"done; new sessions of {label} use it. `runlore {target.what} remove {target.agent}`"
            " takes it out again"
        )
    else:
        note(f"done; {one_line(str(target.file))} has nothing of runlore any more")
    if is_install:
        for line in about_version(target, label):
            note(line)
    if is_install and not dry_run and target.after:
        note(target.after)
    if is_install and not dry_run and os.environ.get("RUNLORE_STORE"):
        note(
            f"RUNLORE_STORE is set here: {label} must have it in its environment as well, or it"
            " uses another store"
        )


def about_version(target: Target, label: str) -> list[str]:
    """Return a note on hooks that this version of the agent does not know, or that an unknown
    version may not know."""
    newest = max((entry.since for entry in target.every), default=())
    if target.unknown:
        left = f"left out: {', '.join(entry.path[-1] for entry in target.unknown)}"
        return [
            f"{left}, which {label} {dotted(target.version)} does not know; install again when it"
            f" is {dotted(newest)} or newer"
        ]
    if newest and not target.version:
        return [
            f"the version of {label} is not known: one before {dotted(newest)} refuses settings"
            " with a hook that is newer than itself"
        ]
    return []


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def clean_diff(made: settings_files.Change) -> list[str]:
    """The diff without the secrets that stand beside our entries: what an agent prints is kept in
    its transcript. A file that is all on one line is not shown whole either."""
    redactor = Redactor(os.urandom(32))
    lines = [clean(redactor.text(line)) for line in settings_files.show(made)]
    return [
        (
            line
            if len(line) <= WIDEST
            else f"{line[:WIDEST]}… [{len(line) - WIDEST:,} more characters]"
        )
        for line in lines
    ]


def colored(line: str) -> str:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return paint(line, style) if style else line


def known_agents() -> list[str]:
    """The agents that can be told of us."""
    return [name for name in adapters.names() if can_integrate(name)]


def can_integrate(name: str) -> bool:
    try:
        adapters.integration(name)
    except ConfigError:
        return False
    return True


def show_states(agent: str | None, what: What, is_json: bool) -> None:
    rows = [describe(name, what) for name in ([agent] if agent else known_agents())]
    if is_json:
        write_json(rows)
        return
    for row in rows:
        echo(f"{row.agent}: {row.state} ({one_line(row.file)}){last_words(row.last_sync)}")
        if row.problem:
            note(f"  {one_line(row.problem)}")


def describe(name: str, what: What) -> SettingsState:
    target = find_target(name, what)
    try:
        state, problem = settings_files.state(target.file, target.entries, target.unknown), None
    except ConfigError as error:
        state, problem = "unknown", str(error)
    last = last_sync(name) if what == "hooks" else None
    return SettingsState(
        agent=name,
        what=what,
        file=str(target.file),
        state=state,
        problem=problem,
        last_sync=last,
    )


def last_words(last: dict[str, Any] | None) -> str:
    if last is None:
        return ""
    how = (
        one_line(f"failed: {last['error']}")
        if last.get("error")
        else f"{last.get('sessions', 0)} sessions had news"
    )
    return f"; last sync {one_line(str(last.get('at')))}, {how}"
