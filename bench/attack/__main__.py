"""Run the attacks and print a table of cases and results."""

import argparse
import importlib
import pkgutil
import sys
import tempfile
import time
from pathlib import Path

import bench.attack
from bench.attack._trials import own_home


def main() -> int:
    """Run the named attacks, all by default, and return 1 when something did not hold."""
    names = sorted(
        module.name
        for module in pkgutil.iter_modules(bench.attack.__path__)
        if not module.name.startswith("_")
    )
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*names, []], help="which attacks (all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of each attack (1.0)")
    arguments = parser.parse_args()
    print("| attack | case | tried | held | note |\n|---|---|---|---|---|", flush=True)
    failed = sum([run(name, arguments.scale) for name in arguments.names or names])
    return 1 if failed else 0


def run(name: str, scale: float) -> int:
    """Print a row for each case of one attack, and return how often something did not hold."""
    module = importlib.import_module(f"bench.attack.{name}")
    failed, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"runlore-{name}-") as scratch:
        (home := Path(scratch) / "home").mkdir()
        (work := Path(scratch) / "work").mkdir()
        with own_home(home):
            for result in module.attack(scale, work):
                failed += result.tried - result.held
                note = result.note.replace("|", "\\|").replace("\n", " ")
                cells = (name, result.case, result.tried, result.held, note)
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
