"""The plain counts of `bench/plain` agree with what runlore shows, or say by which rule not."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from bench.plain.compare import Finding, agents, compare_home, compare_root
from bench.plain.mount import OLD_S, find_units, mount
from tests.adapters import corpus

FIXTURES = Path(__file__).parent / "adapters" / "fixtures"
DAMAGED = ("broken", "strange")
"""Written to break readers; the plain code expects values of the right type."""
NOT_COMPARED = {
    "aider/formatted": "a prompt that a formatter split is joined again",
    "aider/history": "commands and their output are told apart by phrases alone",
    "atif/trial": "documents that continue each other are one session",
    "claude/desktop-fork": "a fork copies records under other names",
    "claude/fork-session": "a fork copies records without a word about it",
    "cline/claude-messages": "usage is in the text of the old timeline",
    "cline/history-alone": "calls are XML in the text",
    "cline/history-native": "whether input includes the cache depends on the provider",
    "cline/history-xml": "calls are XML in the text",
    "cline/sdk-fork": "a fork copies messages under new names",
    "cline/timeline": "results are joined from two documents",
    "codex/archived-and-packed": "compressed with zstd",
    "copilot_cli/documents": "the documents of 2025 are not counted",
    "cursor/stores": "neither databases of the command line nor text files are counted",
    "cursor/workspace": "a prompt that is left in the editor is no session",
    "gemini_cli/prompt-log": "the log of prompts is not counted",
    "grok_cli/errors": "a session whose messages cannot be read has an error alone",
    "kimi/cli": "a fork copies records under the same time",
    "kimi/code": "forks and imports copy records",
    "kimi/contexts": "contexts of subagents are not counted",
    "kimi/taken-over": "an import copies records",
    "mini_swe_agent/interactive": "people and programs share a role",
    "mini_swe_agent/texts": "people and programs share a role",
    "mycode/format5": "a record follows a torn one on the same line",
    "opencode/old_tree": "the tree of before 0.6 is not counted",
    "qwen_code/branches": "a fork copies records",
    "roo/subtask": "results are joined from two documents",
    "swe_agent/attempts": "tokens of a run and of its attempts are added up",
    "vscode_copilot/document": "results are joined from two lists",
    "vscode_copilot/log": "requests that an edit removed are shown too",
}
"""Fixtures whose point the plain count leaves out."""


def cases() -> list[str]:
    found = [
        f"{agent}/{root.parent.name}"
        for agent in sorted(agents())
        for root in sorted((FIXTURES / agent).glob("*/root"))
    ]
    return [case for case in found if case.split("/")[1] not in DAMAGED]


@pytest.mark.parametrize("case", [case for case in cases() if case not in NOT_COMPARED])
def test_a_fixture_counts_the_same_both_ways(case: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(FIXTURES / case / "root", root)
    for path in root.rglob("*"):
        os.utime(path, (OLD_S, OLD_S))
    assert not unexplained(compare_root(case.split("/")[0], root, tmp_path))


def test_what_is_not_compared_is_there() -> None:
    assert NOT_COMPARED.keys() <= {*cases()}


@corpus.needs(corpus.CORPUS)
def test_real_transcripts_count_the_same_both_ways(tmp_path: Path) -> None:
    """A sixteenth of them; `python -m bench.plain` compares all."""
    units = [unit for unit in find_units(corpus.CORPUS) if is_chosen(unit.name)]
    assert units
    found: dict[str, list[Finding]] = {}
    for number, unit in enumerate(units):
        home = tmp_path / str(number) / "home"
        home.mkdir(parents=True)
        mount(unit, home)
        found[unit.name] = unexplained(compare_home(home, home.parent / "data"))
    assert not {name: findings for name, findings in found.items() if findings}


def unexplained(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.verdict == "unexplained"]


def is_chosen(name: str) -> bool:
    return hashlib.sha256(name.encode()).hexdigest().endswith("0")
