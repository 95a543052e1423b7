"""The program: `runlore`, which is `python -m runlore`."""

from __future__ import annotations

import os
import sys

from . import __version__


def main() -> None:
    """Run the command that the arguments name, and exit.

    The exit status is 0 done, 1 failed, 2 wrong usage, 3 over budget, 130 interrupted.
    """
    open_missing_streams()
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"runlore {__version__}")
        return
    try:
        if sys.argv[1:3] == ["hooks", "run"]:  # An agent waits for it, so click is not imported.
            from .integrations.hooks import main as run_hook

            run_hook(sys.argv[3:])
        from .cli import cli

        cli.main(prog_name="runlore")
    except KeyboardInterrupt:
        sys.exit(130)


def open_missing_streams() -> None:
    """Discard stdout and stderr in a program without a console (pythonw on Windows)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # It stays open while we run.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()
