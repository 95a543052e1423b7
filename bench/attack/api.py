"""Requests that Schemathesis makes up from our own OpenAPI document, on this machine alone.

Schemathesis is in the extra `attack`: `pip install -e '.[attack]'`. Without it nothing is run.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.attack import Result, not_possible
from bench.attack.web import run, serving, write_transcripts

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance",
)  # fmt: skip
"""What an answer is held to. A parameter is any text to the document, and may be refused."""


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Run Schemathesis against a server with some sessions."""
    case = "requests made up from the OpenAPI document"
    if importlib.util.find_spec("schemathesis") is None:
        yield not_possible(case, "needs the extra `attack`")
        return
    home = scratch / "home"
    write_transcripts(home, 5)
    run(home, "sync")
    phases = "examples,coverage,fuzzing" if scale >= 0.1 else "examples,fuzzing"
    with serving(home) as url:
        words = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json",
            "--checks", ",".join(CHECKS), "--max-examples", str(max(1, int(50 * scale))),
            "--seed", "28", "--phases", phases, "--no-color",
        ]  # fmt: skip
        process = subprocess.run(words, capture_output=True, text=True, cwd=scratch)
    yield result(case, process.stdout, process.returncode)


def result(case: str, output: str, status: int) -> Result:
    """Return the figures of Schemathesis's summary."""
    summary = re.search(r"(\d+) generated(.*)", output)
    tried = int(summary[1]) if summary else 0
    failed = re.search(r"(\d+) found", summary[2]) if summary else None
    wrong = int(failed[1]) if failed else min(status, 1)
    first = re.search(r"^- (.+)$", output, re.MULTILINE) or re.search(r"Error: .+", output)
    note = first[0] if first and status else f"{summary[0] if summary else 'no summary'}"
    return Result(case, max(tried, wrong), max(tried, wrong) - wrong, note.replace("|", "/"))
