"""What happens when an agent calls us: `runlore hooks run start|fail|end AGENT`.

At the start of a session a line on what is known of the repository, and the lessons that fit it; when a tool fails, what is known to help;
at the end a sync that goes on alone. The agent waits for us, so a call is over in 300 ms whatever happens: a watchdog ends it without a
word, every failure is silent, and little is imported. Nothing here knows an agent; how it wants to be answered stands in the command.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import start_new_thread  # `threading` takes time to import.

from ._home import has_config, home_folder, usual_store

TYPE_CHECKING = False  # As in `typing`, which hooks have no time for.

if TYPE_CHECKING:
    from pathlib import Path

    from ._glance import Last
    from .config import Config
    from .store import Store

LIMIT_S = 0.25
"""From the start of the process. What is left of 0.3 s is for the system to start and end it."""

LARGEST = 1 << 20
"""Of what the agent says, in bytes."""

LONGEST = 500
"""Of the line, in characters."""

TITLE, NAME = 100, 80

ERROR, FIX = 64 << 10, 300
"""Characters of an error that are looked at, of its end; and of what fixed it that are shown."""

COMMAND = 2_000
"""Characters of a command that are looked at."""

WEAK = frozenset({"exit", "text"})
"""Kinds of errors that say too little to be the same as another."""

DEBOUNCE_S = 2.0
"""So long a sync waits for an agent to finish writing, and for other ends of sessions."""

BUSY_S, TRIES = 1.0, 300
"""How often, and how many times, a sync looks whether another one is over."""

PYTHON = ("-E", "-P")
"""Options of the interpreter. A hook runs in the folder of the project, and with its variables: modules that lie there are not ours."""


def main(args: list[str]) -> None:
    """Does what the arguments say and ends the process, always with status 0."""
    if args[:1] != ["sync"]:
        start_new_thread(_end_in_time, ())
    try:
        run(args)
    finally:  # Whatever went wrong, the agent can do nothing about it and has to go on. Nor is there time to tidy up.
        os._exit(0)


def run(args: list[str]) -> None:
    event, agent, *options = args
    if "--home" in options:
        os.environ["RUNLORE_HOME"] = options[options.index("--home") + 1]
    if event == "sync":
        sync(agent)
    elif event == "end":
        start_sync(agent)
        read_call()  # An agent may take it for an error when nobody listens.
    elif event in ("start", "fail"):
        call = read_call()
        text = started(agent, call) if event == "start" else failed(agent, call)
        if text:
            name = str(call.get("hook_event_name") or "SessionStart") if event == "fail" else "SessionStart"
            os.write(1, answer(text, name, is_json="--json" in options))  # One write is whole or not at all.


def _end_in_time() -> None:
    time.sleep(max(0.02, LIMIT_S - time.process_time()))  # Starting the interpreter counts as well.
    os._exit(0)


def read_call() -> dict[str, object]:
    """What the agent says on stdin. It ends when it is whole, because not every agent closes it; too much of it is nothing."""
    import json

    data = b""
    while not os.isatty(0) and len(data) <= LARGEST:
        part = os.read(0, 1 << 16)
        data += part
        if not part or data.rstrip().endswith(b"}"):
            try:
                call = json.loads(data)
                return call if isinstance(call, dict) else {}
            except ValueError:
                if not part:
                    break
    return {}


def answer(line: str, event: str = "SessionStart", *, is_json: bool) -> bytes:
    """`event` is the agent's own name of what happened: it wants to read that again."""
    if not is_json:
        return f"{line}\n".encode()
    import json

    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": line}}).encode() + b"\n"


# ── lessons ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def started(agent: str, call: dict[str, object]) -> str:
    """What is said at a start: the line, and below it the lessons."""
    cwd = str(call.get("cwd") or "")
    try:
        line = known_of(cwd)
    except Exception:  # Whatever is wrong with the store, lessons are files beside it.
        line = None
    return "\n".join(part for part in (line, lessons_of(agent, call, cwd)) if part)


def lessons_of(agent: str, call: dict[str, object], cwd: str, fingerprint: str = "", command: str = "") -> str | None:
    """The lessons that fit the repository, or this error or command in it; and a note that they were told."""
    home = home_folder()
    folder = os.path.join(home, "lessons")
    if not os.path.isdir(folder) or not os.path.isabs(cwd):
        return None
    from datetime import UTC, datetime
    from pathlib import Path

    from ._git import git_remote
    from .config import Lessons, load
    from .lessons import deliver

    repo = git_remote(Path(cwd))
    wanted = Lessons()
    if has_config():
        config = load()
        wanted = config.lessons
        if config.exclude.matches(cwd, repo):
            return None
    now = datetime.now(UTC)
    tool, path = tool_of(call) if fingerprint or command else (None, None)
    place = deliver.Place(agent=agent, repo=repo, tool=tool, path=path)
    found = deliver.chosen(Path(folder), now, wanted, place, fingerprint=fingerprint, command=command)
    text, told = deliver.text_of(found, wanted.most, wanted.max_tokens)
    if not told:
        return None
    session = str(call.get("session_id") or "")[:NAME]
    ids = tuple(one.id for one in told)
    what = fingerprint if fingerprint in {one.fingerprint for one in told} - {""} else command
    deliver.note(Path(home), text, now, agent=agent, session=session, repo=repo or "", lessons=ids, fingerprint=what)
    return text


# ── a tool that failed ───────────────────────────────────────────────────────────────────────────────────────────────
def failed(agent: str, call: dict[str, object]) -> str | None:
    """What is known to help against an error: a lesson, or else what fixed it in an earlier session. Once in a session."""
    text, cwd = call.get("error"), str(call.get("cwd") or "")
    if not isinstance(text, str) or not text.strip() or call.get("is_interrupt") or not os.path.isabs(cwd):
        return None
    from pathlib import Path

    home = Path(home_folder())
    if not home.is_dir():
        return None
    from .digest.errors import signature
    from .lessons import deliver

    found = signature(text[-ERROR:])
    session = str(call.get("session_id") or "")[:NAME]
    known = "" if found is None or found.kind in WEAK else found.fingerprint
    fingerprint, command = (one if one and not deliver.is_told(home, agent, session, one) else "" for one in (known, command_of(call)))
    if not (fingerprint or command):
        return None
    told = lessons_of(agent, call, cwd, fingerprint, command)
    return told or (fix_of(agent, session, cwd, fingerprint) if fingerprint else None)


def tool_of(call: dict[str, object]) -> tuple[str | None, str | None]:
    """Which tool failed, and at which file, as far as the agent says so."""
    name, given = call.get("tool_name"), call.get("tool_input")
    path = given.get("file_path") if isinstance(given, dict) else None
    return (name if isinstance(name, str) else None), (path if isinstance(path, str) else None)


def command_of(call: dict[str, object]) -> str:
    """How the command begins that failed, if one did: lessons on commands are kept under that."""
    given = call.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if not isinstance(command, str) or not command.strip():
        return ""
    from .mine._words import head

    return head(command[:COMMAND])


def fix_of(agent: str, session: str, cwd: str, fingerprint: str) -> str | None:
    """What fixed this very error, as the store has it; and a note that it was told."""
    from datetime import UTC, datetime
    from pathlib import Path

    from ._git import git_remote
    from ._text import OWN
    from .lessons import deliver
    from .model import describe_how

    repo = git_remote(Path(cwd))
    path = store_path(cwd, repo)
    if path is None:
        return None
    from . import recurring
    from .store import open_store

    now = datetime.now(UTC)
    known = recurring.one(open_store(path, read_only=True), fingerprint, now)  # Nobody closes it: the process ends.
    fixes = [fix for fix in known[0].fixes if fix.how != "retry"] if known else []
    if known is None or not fixes:
        return None
    best = next((fix for fix in fixes if fix.repo == repo), fixes[0])
    step = deliver.quoted(best.steps[0].summary, FIX)
    change = f"; its change: {deliver.quoted(best.diff, FIX)}" if best.diff else ""
    met = "1 earlier session" if known[0].sessions == 1 else f"{known[0].sessions} earlier sessions"
    where = f"in {plain(best.uid, NAME)}#{best.seq} it was gone after this {describe_how(best.how)}"
    line = f"{OWN} this error was met in {met}; {where}: {step}{change}. `runlore fix` knows more."
    deliver.note(Path(home_folder()), line, now, agent=agent, session=session, repo=repo or "", fingerprint=fingerprint)
    return line


# ── the start of a session ───────────────────────────────────────────────────────────────────────────────────────────
def known_of(cwd: str) -> str | None:
    """A line on the sessions in the repository of this folder, or None when there are none. Only reads."""
    from pathlib import Path

    from ._git import git_remote

    folder = Path(cwd)
    if not cwd or not folder.is_absolute():
        return None
    repo = git_remote(folder)
    path = store_path(cwd, repo)
    if path is None:
        return None
    from ._glance import glance

    number, last = glance(path, repo=repo, cwd=cwd)
    return sentence(repo or folder.name, number, last) if last else None


def store_path(cwd: str, repo: str | None) -> str | None:
    """The file of the store, or None when there is none, or when the user wants nothing kept of this folder. A store on a server has
    no file: reaching one takes longer than a hook may."""
    path = usual_store()
    if has_config():
        from . import config as settings

        config = settings.load()
        if config.exclude.matches(cwd, repo):
            return None
        path = config.store
    path = os.path.expanduser(path)
    return path if os.path.isfile(path) else None


def sentence(place: str, number: int, last: Last) -> str:
    """The line itself. What comes from a transcript is in quotes that it cannot end, and all is marked as data."""
    from ._text import OWN

    uid, name, ended_at, outcome = last
    sessions = "1 earlier session" if number == 1 else f"{number:,} earlier sessions"
    when = f" on {ended_at[:10]}" if ended_at else ""
    failed = ", which failed" if outcome == "fail" else ""
    title = f": {quoted(name, TITLE)}" if name else ""
    line = (
        f"{OWN} {sessions} in {quoted(place, NAME)}; the last one{when}{failed}{title} ({plain(uid, NAME)})."
        " The tools of the MCP server runlore, or `runlore search WORDS`, find what was tried before."
    )
    return line[:LONGEST]


def quoted(text: str, most: int) -> str:
    """In quotes, and with none of them inside."""
    return f'"{plain(text, most)}"'


def plain(text: str, most: int) -> str:
    """On one line, cut, and without what a reader might take for the end of a quotation or for a tag."""
    from ._text import one_line

    line = "".join(char if char.isprintable() else " " for char in one_line(text)).translate(str.maketrans('"`<>', "''‹›"))
    return line if len(line) <= most else f"{line[: most - 1]}…"


# ── the end of a session ─────────────────────────────────────────────────────────────────────────────────────────────
def start_sync(agent: str) -> None:
    """A sync of this agent that goes on alone. One that was started just now is still waiting, and will see this session as well."""
    import subprocess

    home = home_folder()
    mark = os.path.join(home, f"hooks-{safe(agent)}.mark")
    try:
        if 0 <= time.time() - os.stat(mark).st_mtime < DEBOUNCE_S:
            return
        os.utime(mark)
    except OSError:
        if os.path.isdir(home):
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o600))
    # Its own session, and no handle of ours: it outlives the agent, which would otherwise wait for it. It stays in no folder of the user's.
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
    subprocess.Popen(
        [background_python(), *PYTHON, "-m", "runlore", "hooks", "run", "sync", agent],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=os.path.expanduser("~"),
        env={**os.environ, "RUNLORE_HOME": home},
        start_new_session=True,
        creationflags=flags,
    )


def safe(agent: str) -> str:
    """The name as a part of a file's. Raises ValueError for one that leads elsewhere."""
    if not agent.replace("_", "").replace("-", "").isalnum():
        raise ValueError(agent)
    return agent


def background_python() -> str:
    """This interpreter; on Windows the one that opens no window."""
    quiet = os.path.join(os.path.dirname(sys.executable), "pythonw.exe")
    return quiet if os.name == "nt" and os.path.exists(quiet) else sys.executable


def sync(agent: str) -> None:
    """Waits a moment, and for a sync that runs, then stores what is new. Of several only one waits: the others leave it to that one."""
    from contextlib import closing

    from . import config as settings
    from .errors import StoreBusy
    from .store import open_store

    config = settings.load()
    settings.make_home(config.home)
    if hasattr(os, "nice"):
        os.nice(10)
    with closing(open_store(config.store)) as store:
        for _ in range(TRIES):
            if not _wait(store, config.home / f"hooks-{safe(agent)}.lock"):
                return
            try:
                _sync(store, config, agent)
                return
            except StoreBusy:  # Another one was quicker.
                continue


def _wait(store: Store, path: Path) -> bool:
    """True when it is our turn, and False when another one waits for it."""
    import apsw

    from .errors import StoreBusy

    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    lock = apsw.Connection(str(path))
    try:
        try:
            lock.execute("begin exclusive")
        except apsw.BusyError:
            return False
        time.sleep(DEBOUNCE_S)
        for _ in range(TRIES):
            try:
                with store.sync_lock():
                    return True
            except StoreBusy:
                time.sleep(BUSY_S)
        return False
    finally:
        lock.close()


def _sync(store: Store, config: Config, agent: str) -> None:
    """A sync, and a note of how it went: nobody sees it, and what fails without a word would fail for months."""
    from datetime import UTC, datetime

    import msgspec

    from . import pipeline
    from .errors import StoreBusy
    from .model import format_time

    said: dict[str, object] = {}
    try:
        report = pipeline.sync(store, config, agents=[agent], quiet_s=0)  # A session has just ended.
        said = {"sessions": report.sessions, "events": report.events, "problems": len(report.problems)}
    except StoreBusy:
        raise
    except Exception as error:  # Whatever it is, `runlore hooks status` tells it.
        said = {"error": f"{type(error).__name__}: {error}"[:LONGEST]}
        raise
    finally:
        if said:
            place = os.open(config.home / f"hooks-{safe(agent)}.json", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with open(place, "wb") as note:
                note.write(msgspec.json.encode({"at": format_time(datetime.now(UTC)), **said}))


def last_sync(agent: str) -> dict[str, object] | None:
    """The note of the last sync that a hook started."""
    import json

    try:
        with open(os.path.join(home_folder(), f"hooks-{safe(agent)}.json"), "rb") as file:
            said = json.loads(file.read(LARGEST))
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None
