"""The command line: one file for each command, which is imported when the command is used.

A command parses and prints; what it prints is known by `query` and `pipeline`. Data goes to stdout, all else to stderr.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from functools import partial

TYPE_CHECKING = False  # As in `typing`, which `--version` has no time for.

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from ._group import cli as cli


def main() -> None:
    """Runs the command that the arguments name, and exits: 0 done, 1 failed, 2 wrong usage, 3 over budget, 130 interrupted."""
    give_streams()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from .._version import __version__

        print(f"runlore {__version__}")
        return
    if sys.argv[1:3] == ["hooks", "run"]:  # An agent waits for it.
        from ..hooks import main as run

        run(sys.argv[3:])
    gc.set_threshold(100_000)  # We make few cycles and many values: a list of 10,000 sessions takes 30 ms less of 250, one of 50 takes 4.
    sys.meta_path.insert(0, Msgspec())
    try:
        status = run_words(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    leave(status)


def run_words(words: list[str]) -> int:
    """An ordinary call runs as it is; all others, and what goes wrong with one, are click's."""
    from . import _plain
    from ._out import settle_streams

    try:
        call = _plain.read(words)
    except Exception:  # A command that cannot be imported: click meets the same error, and tells it.
        call = None
    if call is not None:
        try:
            settle_streams()
            status = call.run()
            sys.stdout.flush()
            return status
        except BaseException as error:
            from ._group import tell

            tell(call, error)
    from ._group import cli

    cli.main(words, prog_name="runlore")
    return 0


class Msgspec:
    """Finds it for whoever imports it first, and keeps typing_extensions from it: that is 9 ms, for what Python has itself since 3.11."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "msgspec":
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name)
        if spec and spec.loader and "typing_extensions" not in sys.modules:
            spec.loader.exec_module = partial(_without_extensions, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


def _without_extensions(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment] # So Python says that there is no such module.
    try:
        execute(module)
    except ImportError:  # One that cannot do without gets it.
        del sys.modules["typing_extensions"]
        execute(module)
    finally:
        if sys.modules.get("typing_extensions", execute) is None:
            del sys.modules["typing_extensions"]


def leave(status: int) -> None:
    """Ends the program. Python takes itself apart in 6 ms, after a long sync in 100: left out, unless a thread waits for it."""
    threads = sys.modules.get("threading")
    if threads and threads.active_count() > 1:
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # Nobody reads it any more.
            status = status or 1
    os._exit(status)


def give_streams() -> None:
    """A program without a console (pythonw, which Windows starts in the background) has no streams: they lead nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 # It is open as long as we run.


def __getattr__(name: str) -> object:
    if name == "cli":
        from ._group import cli

        return cli
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
