"""What the system knows of a process and of itself: is it there, when did it begin, which boot and
which machine is this.

Three ways, chosen once: /proc (Linux), the Windows API, `ps` and `sysctl` (macOS, the BSDs). Where
a system does not say, the answer is an empty text, which claims nothing. Nothing here knows
sessions.
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

MOST_PID = 2**31
"""A pid is below this on every system; a larger number from a log is no process, and `os.kill`
would not take it."""


def start_of(pid: int) -> str | None:
    """When the process began, in the system's own words: the same words mean the same process.
    None: there is no such process.

    Empty when it is there and cannot be asked. A zombie is not there: it does nothing any more.
    """
    if not 0 < pid < MOST_PID:  # 0 and negative numbers would name groups of processes.
        return None
    if sys.platform == "win32":
        return from_windows(pid)
    if not is_known(pid):
        return None
    if sys.platform.startswith("linux"):
        return from_proc(pid)
    started = from_ps(pid)
    # The BSDs reckon it from the boot: it moves when the clock is set, and a live process would
    # look like another one.
    return started if started is None or sys.platform == "darwin" else ""


def is_known(pid: int) -> bool:
    """Whether the kernel has this pid. Not for Windows, where `os.kill(pid, 0)` ends the
    process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # EPERM: it is there, and belongs to someone else.
        return True
    return True


def from_proc(pid: int) -> str | None:
    """Ticks since boot. Where /proc hides the processes of others (hidepid), the process is there
    and says nothing."""
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
    """The time of its start to the second, and its state, from `ps`."""
    words = ask("ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)).split()
    if not words:
        return ""  # `kill` found it a moment ago, so it is there; `ps` is missing, or may not tell.
    return None if words[0].startswith("Z") else " ".join(words[1:])


def from_windows(pid: int) -> str | None:
    """The time of creation, in units of 100 ns since 1601."""
    if sys.platform != "win32":  # For the type checker as well: `windll` is nowhere else.
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
        # Else: it is there, and may not be asked.
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
    """Which boot this is. Empty where the system has no id for it: Windows, the BSDs. (The time of
    the boot moves with the clock.)"""
    if sys.platform.startswith("linux"):
        return read("/proc/sys/kernel/random/boot_id")
    return ask("sysctl", "-n", "kern.bootsessionuuid") if sys.platform == "darwin" else ""


def boot_time() -> float | None:
    """When the machine began to run, in seconds since 1970; None where only an id is known."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # Linux. It runs on while the machine sleeps.
    return time.time() - time.clock_gettime(clock) if clock is not None else None


@cache
def host_name() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    return platform.node()


@cache
def machine_id() -> str:
    """Tells machines of the same name apart. A hash: the system's own id is not for the eyes of
    others."""
    own = ""
    if sys.platform.startswith("linux"):
        own = read("/etc/machine-id") or read("/var/lib/dbus/machine-id")
    elif sys.platform == "win32":
        own = machine_guid()
    else:
        own = ask("sysctl", "-n", "kern.uuid") or ask("sysctl", "-n", "kern.hostuuid")
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
    """Which namespace pids are of: in two containers of one machine the same number means two
    processes."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def read(path: str) -> str:
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="ascii") as file:
        return file.read(4096).strip()
    return ""


def ask(*words: str) -> str:
    """What the program prints, in English and UTC so that two answers can be compared. Empty when
    it cannot be asked."""
    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            words, capture_output=True, text=True, errors="replace", env=env, timeout=10, check=True
        ).stdout.strip()
    return ""
