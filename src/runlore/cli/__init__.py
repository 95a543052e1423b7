"""The command line: one file for each command, which is imported when the command is used.

A command parses and prints; what it prints is known by `query` and `pipeline`. Data goes to stdout, all else to stderr.
"""

import sys

TYPE_CHECKING = False  # As in `typing`, which `--version` has no time for.

if TYPE_CHECKING:
    from ._group import cli as cli


def main() -> None:
    """Runs the command that the arguments name, and exits: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from .._version import __version__

        print(f"runlore {__version__}")
        return
    try:
        from ._group import cli

        cli.main(prog_name="runlore")
    except KeyboardInterrupt:
        sys.exit(130)


def __getattr__(name: str) -> object:
    if name == "cli":
        from ._group import cli

        return cli
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
