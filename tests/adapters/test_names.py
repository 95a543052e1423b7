"""The names by which people call agents."""

from __future__ import annotations

import pytest

from runlore import adapters


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("claude", "claude"),
        ("Claude", "claude"),
        ("claude-code", "claude"),
        ("Claude Code", "claude"),
        ("gemini", "gemini_cli"),
        ("Gemini-CLI", "gemini_cli"),
        ("copilot", "copilot_cli"),
        ("GitHub Copilot CLI", "copilot_cli"),
        ("codex cli", "codex"),
        ("qwen", "qwen_code"),
        ("SWE-agent", "swe_agent"),
        ("nobody", None),
        ("", None),
        ("-", None),
    ],
)
def test_an_agent_is_known_by_any_usual_name(text: str, name: str | None) -> None:
    assert adapters.find_name(text) == name


def test_no_two_agents_share_a_name() -> None:
    for name in adapters.names():
        adapter = adapters.get(name)
        for text in (name, name.replace("_", "-").upper(), adapter.label, *adapter.aliases):
            assert adapters.find_name(text) == name
