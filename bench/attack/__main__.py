"""Run the attacks and print a table of cases and results."""

import argparse
import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

import bench.attack


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
    failed = 0
    print("| attack | case | tried | held | note |\n|---|---|---|---|---|")
    for name in arguments.names or names:
        module = importlib.import_module(f"bench.attack.{name}")
        with tempfile.TemporaryDirectory(prefix=f"runlore-{name}-") as scratch:
            for result in module.attack(arguments.scale, Path(scratch)):
                failed += result.tried - result.held
                cells = (name, result.case, result.tried, result.held, result.note)
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
