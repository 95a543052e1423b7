"""What every test gets: a home of its own, a bare environment, no network. And how long loops
run."""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.toy import toy

__all__ = ["toy"]  # a fixture for every test

ALL = os.environ.get("RUNLORE_TEST_ALL") == "1"

settings.register_profile(
    "runlore",
    max_examples=100 if ALL else 10,
    deadline=None,  # a busy machine is not a bug
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],  # the same
)
settings.load_profile("runlore")

# A shell that starts the tests in the background makes them, and every program they start, ignore
# Ctrl-C. With a handler here, programs start with the default.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# All else goes: any agent may be led elsewhere by a variable of its own, and terminals and locales
# change what is printed.
KEPT = (
    "PATH",
    "LD_",
    "DYLD_",
    "TMP",
    "TEMP",
    "SYSTEMROOT",
    "PYTEST",
    "PYTHON",
    "COV",
    "CI",
    "REGENERATE",
    "RUNLORE_TEST_",
)


@pytest.fixture(autouse=True, scope="session")
def _aged_fixtures() -> None:
    """What agents left on disk, they left long ago: in a new checkout some would still hold
    something back."""
    for file in (Path(__file__).parent / "adapters/fixtures").rglob("*"):
        if file.is_file():
            os.utime(file, (1_750_000_000, 1_750_000_000))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of this test, empty."""
    for name in os.environ:
        if not name.startswith(KEPT):
            monkeypatch.delenv(name)
    path = tmp_path / "home"
    path.mkdir()
    places = {
        "HOME": "",
        "USERPROFILE": "",  # HOME, as Windows calls it
        "RUNLORE_HOME": ".runlore",
        "XDG_CONFIG_HOME": ".config",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
        "XDG_CACHE_HOME": ".cache",
        "XDG_RUNTIME_DIR": ".run",
    }
    for name, place in places.items():
        monkeypatch.setenv(name, str(path / place))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    if hasattr(time, "tzset"):
        time.tzset()
    return path


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this machine can be reached."""

    def guarded(
        connect: Callable[[socket.socket, Any], Any],
    ) -> Callable[[socket.socket, Any], Any]:
        def connect_if_local(self: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
                raise AssertionError(
                    f"a test wants to reach {address[0]}; tests run without the network"
                )
            return connect(self, address)

        return connect_if_local

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(getattr(socket.socket, name)))


@pytest.fixture(scope="session")
def loops() -> Callable[[int], int]:
    """`loops(n)` is n with `scripts/test --all`, and a tenth of it, but at least one, without."""
    return lambda n: n if ALL else max(1, n // 10)
