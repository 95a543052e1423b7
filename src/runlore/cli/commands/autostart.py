"""Sync by itself every few minutes: on, off or status.

Uses the system's scheduler: a systemd user timer, launchd, or the Task Scheduler. With --json
an object with the job's files: after `off` and for `status` those that are installed
(docs/json.md).
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from ... import adapters
from ...errors import RunloreError
from ..options import as_json
from ..output import echo, note, one_line, write_json

NAME = "runlore-sync"
LABEL = "io.github.runlore.sync"
PASSED_VARIABLES = ("RUNLORE_HOME", "RUNLORE_STORE", "RUNLORE_MACHINE", "RUNLORE_AUTHOR")
"""Variables that say which store is meant, and who writes to it."""

EVERY = (
    r"OnUnitActiveSec=(?P<min>\d+)min"
    r"|<key>StartInterval</key>\s*<integer>(?P<s>\d+)"
    r"|<Interval>PT(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?</Interval>"
)
"""The interval of a job in the files of systemd, launchd and the Task Scheduler."""

ENDS_S = 5.0
"""Maximum wait for a job to end before it is created again: launchd ends jobs asynchronously."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a service manager reads, and the commands that switch the job on and off."""

    manager: str
    files: dict[str, str]
    on: list[list[str]]
    off: list[list[str]]
    status: list[str]


class Autostart(msgspec.Struct, frozen=True, kw_only=True):
    """The job that syncs by itself."""

    manager: str
    """The service manager: systemd, launchd, the Task Scheduler."""
    on: bool
    every_minutes: int | None
    command: list[str]
    files: dict[str, str]
    """Path and text of each; after `off` and for `status` of those that are installed."""


@click.command(help=__doc__)
@click.argument("what", type=click.Choice(["on", "off", "status"]))
@click.option(
    "--every",
    type=click.IntRange(1, 1439),
    default=15,
    metavar="MINUTES",
    help="Interval in minutes (default 15).",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the files and commands without changing anything."
)
@as_json(Autostart)
def command(what: str, every: int, dry_run: bool, is_json: bool) -> None:
    words = [background_python(), "-m", "runlore", "sync"]
    job = make_job(sys.platform, words, every, environment_for_service() if what == "on" else {})
    if dry_run and not is_json:
        show(job, what)
        return
    if what != "status" and not dry_run:
        switch(job, what == "on", every)
    told = start(job.status) if not dry_run else None
    is_on = told is not None and told.returncode == 0
    if is_json:
        files = job.files if what == "on" else installed(job)
        minutes = (
            every
            if what == "on"
            else minutes_in("".join([*files.values(), told.stdout if told and is_on else ""]))
        )
        write_json(
            Autostart(
                manager=job.manager,
                on=is_on,
                every_minutes=minutes,
                command=words,
                files=files,
            )
        )
    elif what == "on":
        note(
            f"on: {job.manager} runs `runlore sync` every {every} minutes; `runlore autostart off`"
            " ends it"
        )
    else:
        echo("on" if is_on else "off")


def environment_for_service() -> dict[str, str]:
    """Return the variables that select the store and the agents' folders, with their current
    values. A service manager does not inherit them."""
    roots = [
        root
        for name in adapters.names()
        for root in adapters.get(name).roots
        if root.startswith("$")
    ]
    names = [*PASSED_VARIABLES, *(root[1:].partition("/")[0] for root in roots)]
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def make_job(platform: str, words: list[str], every: int, env: dict[str, str]) -> Job:
    """Raises RunloreError on a system of which we know no manager."""
    if platform.startswith("linux"):
        return systemd(words, every, env)
    if platform == "darwin":
        return launchd(words, every, env)
    if platform == "win32":
        return scheduler(words, every)
    raise RunloreError(
        f"autostart does not know this system ({platform}); let its scheduler run `runlore sync`"
    )


def systemd(words: list[str], every: int, env: dict[str, str]) -> Job:
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "systemd/user"
    settings = "".join(f"Environment={quoted(f'{name}={value}')}\n" for name, value in env.items())
    program = " ".join(quoted(word).replace("$", "$$") for word in words)
    service = (
        "[Unit]\nDescription=Store what coding agents have written\n\n"
        f"[Service]\nType=oneshot\nNice=10\n{settings}ExecStart={program}\n"
    )
    timer = (
        f"[Unit]\nDescription=runlore sync every {every} minutes\n\n"
        f"[Timer]\nOnStartupSec=2min\nOnUnitActiveSec={every}min\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    control = ["systemctl", "--user"]
    return Job(
        manager="systemd",
        files={str(folder / f"{NAME}.service"): service, str(folder / f"{NAME}.timer"): timer},
        on=[[*control, "daemon-reload"], [*control, "enable", "--now", f"{NAME}.timer"]],
        off=[[*control, "disable", "--now", f"{NAME}.timer"]],
        status=[*control, "is-active", "--quiet", f"{NAME}.timer"],
    )


def quoted(word: str) -> str:
    """A word as a unit file takes it: `%` begins a placeholder. (In a command `$` does as well.)"""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word}"'


def launchd(words: list[str], every: int, env: dict[str, str]) -> Job:
    path = Path("~/Library/LaunchAgents").expanduser() / f"{LABEL}.plist"
    settings = {
        "Label": LABEL,
        "ProgramArguments": words,
        "StartInterval": every * 60,
        "RunAtLoad": True,
        "ProcessType": "Background",
    }
    text = plistlib.dumps({**settings, **({"EnvironmentVariables": env} if env else {})}).decode()
    domain = f"gui/{os.getuid() if hasattr(os, 'getuid') else 0}"
    return Job(
        manager="launchd",
        files={str(path): text},
        on=[["launchctl", "bootstrap", domain, str(path)]],
        off=[["launchctl", "bootout", f"{domain}/{LABEL}"]],
        status=["launchctl", "print", f"{domain}/{LABEL}"],
    )


def scheduler(words: list[str], every: int) -> Job:
    """The Task Scheduler gives a task the user's own environment, so variables must be set
    there."""
    task = ["/TN", NAME]
    run = subprocess.list2cmdline(words)
    return Job(
        manager="Task Scheduler",
        files={},
        on=[["schtasks", "/Create", *task, "/SC", "MINUTE", "/MO", str(every), "/TR", run, "/F"]],
        off=[["schtasks", "/Delete", *task, "/F"]],
        # The other formats are in the language of the machine.
        status=["schtasks", "/Query", *task, "/XML"],
    )


def background_python() -> str:
    """This interpreter; on Windows the one that opens no window."""
    quiet = Path(sys.executable).with_name("pythonw.exe")
    return str(quiet) if os.name == "nt" and quiet.exists() else sys.executable


def switch(job: Job, is_on: bool, every: int) -> None:
    """Writes the files before it is switched on, and removes them after it was switched off."""
    # Raises when the manager is not there, before anything is written.
    was_on = start(job.status).returncode == 0
    # A job that runs keeps its old interval, and launchd refuses to load it twice.
    if not is_on or was_on:
        for step in job.off:
            start(step)
        wait_for_end(job)
    if not is_on:
        remove(job)
        return
    made = [
        folder
        for path in job.files
        for folder in (Path(path).parent, *Path(path).parent.parents)
        if not folder.exists()
    ]
    for path, text in job.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    try:
        for step in job.on:
            done = start(step)
            if done.returncode:
                why = one_line(done.stderr or done.stdout) or f"exit {done.returncode}"
                raise RunloreError(f"{job.manager} refused: {why}; {instead(every)}")
    except RunloreError:
        remove(job)
        with suppress(OSError):  # Someone else may have put something there meanwhile.
            for folder in dict.fromkeys(made):  # The innermost first.
                folder.rmdir()
        raise


def instead(every: int = 15) -> str:
    """Return advice for a system without a service manager."""
    if os.name == "nt":
        return "leave `runlore sync --watch` running instead"
    often = f"*/{every} *" if every < 60 else f"0 */{every // 60}"
    line = f"{often} * * * {shlex.join([sys.executable, '-m', 'runlore', 'sync'])}"
    return (
        f"`crontab -e` with the line `{line}` does the same, or leave `runlore sync --watch`"
        " running"
    )


def wait_for_end(job: Job) -> None:
    until = time.monotonic() + ENDS_S
    while start(job.status).returncode == 0 and time.monotonic() < until:
        time.sleep(0.1)


def installed(job: Job) -> dict[str, str]:
    """The files of the job that are there, as they are."""
    return {
        path: Path(path).read_text(encoding="utf-8", errors="replace")
        for path in job.files
        if os.path.isfile(path)
    }


def minutes_in(text: str) -> int | None:
    """Return the interval of the job that these files define, or None if they do not state it."""
    found = re.search(EVERY, text)
    if found is None:
        return None
    part = {name: int(value or 0) for name, value in found.groupdict().items()}
    return part["min"] + part["s"] // 60 + part["h"] * 60 + part["m"]


def remove(job: Job) -> None:
    for path in job.files:
        Path(path).unlink(missing_ok=True)


def start(words: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=60
        )
    except FileNotFoundError:
        raise RunloreError(f"{words[0]} is not on this machine; {instead()}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunloreError(f"{words[0]}: {error}") from None


def show(job: Job, what: str) -> None:
    for path, text in (job.files if what == "on" else installed(job)).items():
        echo(f"# {path}\n{text}")
    for step in {"on": job.on, "off": job.off, "status": [job.status]}[what]:
        echo(subprocess.list2cmdline(step))
