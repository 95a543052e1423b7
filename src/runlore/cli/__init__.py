"""The command line: one file for each command, which is imported when the command is used.

A command parses and prints; what it prints is known by `query` and `pipeline`. Data goes to stdout, all else to stderr.
"""

import gc
import os
import sys

TYPE_CHECKING = False  # As in `typing`, which `--version` has no time for.

if TYPE_CHECKING:
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
    try:
        from ._group import cli

        cli.main(prog_name="runlore")
    except KeyboardInterrupt:
        sys.exit(130)


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
