"""Facts from the system about processes and about itself: existence, start time, boot, machine.

There are three implementations: /proc (Linux), the Windows API, `ps` and `sysctl` (macOS, the
BSDs). If a system does not say, the answer is an empty text, which claims nothing. Nothing here
knows sessions.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from hashlib import sha256

MAX_PID = 2**31
"""Pids are below this on every system.

A larger number in a log is no process, and `os.kill` would refuse it.
"""


def start_of(pid: int) -> str | None:
    """Return the start of a process in the system's own words; the same words mean the same
    process.

    None if there is no such process; a zombie counts as none. Empty if it exists but does not say.
    """
    if not 0 < pid < MAX_PID:  # 0 and negative numbers name groups of processes.
        return None
    if sys.platform == "win32":
        return from_windows(pid)
    if not is_known(pid):
        return None
    if sys.platform.startswith("linux"):
        return from_proc(pid)
    started = from_ps(pid)
    # The BSDs derive it from the boot time, which moves when the clock is set. A live process would
    # then look like another one.
    return started if started is None or sys.platform == "darwin" else ""


def is_known(pid: int) -> bool:
    """Return True if the kernel has this pid. Not for Windows, where `os.kill(pid, 0)` ends it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # EPERM: it exists and belongs to someone else.
        return True
    return True


def from_proc(pid: int) -> str | None:
    """Return the start in ticks since boot; empty where /proc hides other users' processes
    (hidepid)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read(4096)
    except (FileNotFoundError, ProcessLookupError):
        return "" if is_known(pid) else None
    except OSError:
        return ""
    fields = text.rpartition(b")")[2].split()  # The name before it may hold spaces and parentheses.
    if len(fields) < 20:
        return ""
    return None if fields[0] in (b"Z", b"X") else fields[19].decode("ascii", "replace")


def from_ps(pid: int) -> str | None:
    """Return the start to the second, from `ps`."""
    words = run_program("ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)).split()
    if not words:
        return ""  # `kill` saw it a moment ago, so it exists; `ps` is missing or not permitted.
    return None if words[0].startswith("Z") else " ".join(words[1:])


def from_windows(pid: int) -> str | None:
    """Return the creation time, in units of 100 ns since 1601."""
    if sys.platform != "win32":  # Also for the type checker: `windll` exists nowhere else.
        return ""
    import ctypes
    from ctypes import wintypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.OpenProcess.restype = wintypes.HANDLE
    query_limited_information, synchronize, invalid_parameter, timed_out = (
        0x1000,
        0x100000,
        87,
        0x102,
    )
    handle = kernel.OpenProcess(query_limited_information | synchronize, False, wintypes.DWORD(pid))
    if not handle:
        # Otherwise it exists and access is denied.
        return None if ctypes.get_last_error() == invalid_parameter else ""
    handle = wintypes.HANDLE(handle)
    try:
        if kernel.WaitForSingleObject(handle, 0) != timed_out:
            return None  # It has ended, and someone still holds a handle.
        created, ended, in_kernel, in_user = (wintypes.FILETIME() for _ in range(4))
        known = kernel.GetProcessTimes(
            handle, *(ctypes.byref(part) for part in (created, ended, in_kernel, in_user))
        )
        return str(created.dwHighDateTime << 32 | created.dwLowDateTime) if known else ""
    finally:
        kernel.CloseHandle(handle)


@cache
def boot_id() -> str:
    """Return an id of the current boot; empty where there is none: Windows, the BSDs.

    The time of the boot would move with the clock.
    """
    if sys.platform.startswith("linux"):
        return read_text("/proc/sys/kernel/random/boot_id")
    return run_program("sysctl", "-n", "kern.bootsessionuuid") if sys.platform == "darwin" else ""


def boot_time() -> float | None:
    """Return the time of the boot in seconds since 1970; None where only an id is known."""
    # Linux. It includes the time the machine was asleep.
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.time() - time.clock_gettime(clock) if clock is not None else None


@cache
def host_name() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    return platform.node()


@cache
def machine_id() -> str:
    """Return an id that tells machines of the same name apart: a hash of the system's private
    id."""
    own = ""
    if sys.platform.startswith("linux"):
        own = read_text("/etc/machine-id") or read_text("/var/lib/dbus/machine-id")
    elif sys.platform == "win32":
        own = machine_guid()
    else:
        own = run_program("sysctl", "-n", "kern.uuid") or run_program(
            "sysctl", "-n", "kern.hostuuid"
        )
    if not own:
        return ""
    return sha256(f"runlore:{own}".encode()).hexdigest()[:12]


def machine_guid() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    with (
        suppress(OSError),
        winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as key,
    ):
        return str(winreg.QueryValueEx(key, "MachineGuid")[0])
    return ""


def pid_space() -> str:
    """Return the namespace of pids.

    In two containers of a machine one number means two processes.
    """
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def read_text(path: str) -> str:
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="ascii") as file:
        return file.read(4096).strip()
    return ""


def run_program(*words: str) -> str:
    """Return the output of a program, in English and UTC so that two outputs compare; empty on
    failure."""
    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            words, capture_output=True, text=True, errors="replace", env=env, timeout=10, check=True
        ).stdout.strip()
    return ""
