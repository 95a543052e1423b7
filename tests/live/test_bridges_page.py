"""The page about bridges is true: the files of each example run, one process after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.frameworks import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/bridges.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES = {
    "openai-agents": "openai_agents",
    "langgraph": "langgraph",
    "google-adk": "adk",
    "claude-agent-sdk": "claude_sdk",
    "pydantic-ai": "pydantic_ai",
    "strands-agents": "strands",
    "agent-framework": "agent_framework",
}
QUIET = {
    "DO_NOT_TRACK": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


def sections() -> dict[str, str]:
    """Return the sections of the page that install an extra of a bridge."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    named = ((re.search(r"^    pip install 'runlore\[(.+)\]'$", one, re.M), one) for one in parts)
    return {match[1]: one for match, one in named if match}


def test_the_page_has_an_example_for_each_bridge() -> None:
    names = {one.stem for one in (ROOT / "src/runlore/live/bridges").glob("*.py")}
    assert set(MODULES.values()) == names - {"__init__", "sessions"}
    assert set(sections()) == set(MODULES)
    for extra, text in sections().items():
        assert [name for name, _ in BLOCK.findall(text)] == ["app.py", "later.py"], extra


@pytest.mark.parametrize("extra", MODULES)
def test_the_page_names_every_type_of_record_that_a_bridge_writes(extra: str) -> None:
    (bridge,) = load(f"runlore.live.bridges.{MODULES[extra]}", extra=extra)
    texts = (one for one in vars(bridge).values() if isinstance(one, str))
    types = {one for one in texts if re.fullmatch(r"[a-z_]+\.[a-z_]+", one)}
    (row,) = re.findall(rf"^\| `{MODULES[extra]}` \|.*$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`([a-z_]+\.[a-z_]+)`", row)) == types


@pytest.mark.parametrize("extra", MODULES)
def test_an_example_goes_on_in_a_new_process(extra: str, tmp_path: Path) -> None:
    load(f"runlore.live.bridges.{MODULES[extra]}", extra=extra)
    environment = os.environ | QUIET | {
        "HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "RUNLORE_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8",
    }  # fmt: skip
    output = ""
    for name, code in BLOCK.findall(sections()[extra]):
        (tmp_path / name).write_text(code, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", name],
            cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name} of {extra}:\n{done.stderr}"
        output = done.stdout
    # The last line that is printed is in a comment beside its `print`.
    (expected,) = re.findall(r"print\(.*\)  # (.+)$", code, re.MULTILINE)
    assert output.strip().splitlines()[-1] == expected
