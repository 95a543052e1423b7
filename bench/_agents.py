"""Transcripts of many agents, laid out in one home directory as each agent would have left them.

The corpus has a folder for each agent, with files from public repositories below: whole homes
(`.qwen/projects/…`), or single files in folders of any name. Homes are merged into the home
unchanged, the others go where the table says.
"""

from __future__ import annotations

import shutil
from pathlib import Path

HOMES = (
    ".cline", ".copilot", ".cursor", ".gemini", ".grok", ".hive", ".iflow", ".kimi", ".kimi-code",
    ".local", ".mycode", ".opencode",
    ".pi", ".qwen",
)  # fmt: skip
"""Folders of a home in which agents keep sessions."""
CODE = ".config/Code/User"
PLACES: tuple[tuple[str, str, str], ...] = (
    ("aider", "**/.aider.chat.history.md", ".aider.chat.history.md"),
    ("amp", "**/T-*.json", ".local/share/amp/threads/{name}"),
    ("atif", "**/*_atif.json", ".local/share/devin/cli/transcripts/{name}"),
    ("codex-traex", "**/rollout*.jsonl", ".trae/cli/sessions/2026/01/01/{name}"),
    ("copilot-cli", "**/*.jsonl", ".copilot/session-state/{slug}-{stem}/events.jsonl"),
    ("cursor", "**/*.jsonl", ".cursor/projects/{slug}/agent-transcripts/{stem}/{name}"),
    ("cursor", "**/state.vscdb", ".config/Cursor/User/globalStorage/state.vscdb"),
    ("gemini-cli", "**/*.json", ".gemini/tmp/{slug}/chats/session-{name}"),
    ("grok", "**/updates.jsonl", ".grok/sessions/{slug}/{folder}/{name}"),
    ("grok-superagent", "**/grok.db", ".grok/grok.db"),
    ("iflow", "**/*.jsonl", ".iflow/projects/{slug}/{name}"),
    ("kimi", "**/*.jsonl", ".kimi/sessions/{slug}/{stem}/wire.jsonl"),
    ("mini-swe-agent", "**/*.traj.json", ".config/mini-swe-agent/{slug}/{folder}/{name}"),
    ("opencode", "**/storage/**/*.json", ".local/share/opencode/storage/{after}"),
    ("pi", "**/*.jsonl", ".pi/agent/sessions/{slug}/{name}"),
    ("qwen-code", "**/*.jsonl", ".qwen/projects/{slug}/chats/{name}"),
    (
        "roo",
        "**/tasks/**/*.json",
        f"{CODE}/globalStorage/rooveterinaryinc.roo-cline/tasks/{{after}}",
    ),
    ("swe-agent", "**/*.traj", "SWE-agent/trajectories/{slug}/{folder}/{name}"),
    ("visualstudio-copilot", "**/*_traces.jsonl", ".cache/VSGitHubCopilotLogs/traces/{name}"),
    ("vscode-copilot", "**/*.jsonl", f"{CODE}/workspaceStorage/{{slug}}/chatSessions/{{name}}"),
)
"""The agent's folder in the corpus, its files, and where they go. `after` is what follows the
folder that the pattern names, `slug` the repository that a file was found in."""


def lay_out(corpus: Path, home: Path) -> None:
    for folder in sorted(path for name in HOMES for path in corpus.rglob(name) if path.is_dir()):
        shutil.copytree(folder, home / folder.name, dirs_exist_ok=True)
    for agent, pattern, target in PLACES:
        root = corpus / agent
        for path in sorted(root.glob(pattern)):
            if not path.is_file() or set(path.relative_to(root).parts) & set(HOMES):
                continue
            place = home / _name(path, root, pattern, target)
            if not place.exists():  # One of two states of a session.
                place.parent.mkdir(parents=True, exist_ok=True)
                for end in ("", "-wal"):
                    if (beside := path.with_name(path.name + end)).exists():
                        shutil.copyfile(beside, place.with_name(place.name + end))


def _name(path: Path, root: Path, pattern: str, target: str) -> str:
    parts = path.relative_to(root).parts
    named = pattern.split("/")[1]
    after = "/".join(parts[parts.index(named) + 1 :]) if named in parts else path.name
    return target.format(
        name=path.name, stem=path.stem, slug=parts[0], folder=path.parent.name, after=after
    )
