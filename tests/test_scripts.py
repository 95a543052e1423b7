"""The scripts are sound as far as can be told without installing anything."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = [".ci/run", "scripts/_venv", "scripts/check", "scripts/run", "scripts/test"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the scripts are for Linux and macOS")


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_is_valid_bash(script: str) -> None:
    subprocess.run(["bash", "-n", ROOT / script], check=True)


@pytest.mark.parametrize("script", [s for s in SCRIPTS if not s.endswith("_venv")])
def test_script_can_be_run_and_stops_at_the_first_failure(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    assert (ROOT / script).read_text().startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in (ROOT / script).read_text()


def test_ci_runs_check_and_test() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert [line.split()[0] for line in lines if line.startswith("scripts/")] == [
        "scripts/check",
        "scripts/test",
    ]


def test_no_script_is_left_out_here() -> None:
    assert sorted(SCRIPTS) == sorted(
        str(p.relative_to(ROOT)) for d in (".ci", "scripts") for p in (ROOT / d).iterdir()
    )


def test_the_wheel_is_pure_and_takes_all_files_along() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert config["build-system"]["requires"] == ["hatchling>=1.26"]
    # No hook that compiles, and nothing that is left out but what git ignores.
    assert config["tool"]["hatch"]["build"] == {"targets": {"wheel": {"packages": ["src/runlore"]}}}
    sources = [
        path
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {path.suffix for path in sources} >= {
        ".py",
        ".sql",
        ".html",
        ".css",
        ".js",
        ".svg",
        ".md",
        ".jsonl",
    }
    assert not [path for path in sources if path.suffix in (".c", ".pyx", ".so", ".pyd")]
