"""A corpus as homes: each transcript in a home of its own, where its agent would have put it.

The corpus has a folder for each agent, with files from public repositories below. One transcript in
one home keeps copies apart: successive states of a session, forks, and files under the same id.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from .values import JSON

HOMES = (".cline", ".grok", ".hive", ".kimi", ".kimi-code", ".local", ".mycode", ".opencode")
"""Folders of a home that the corpus has whole."""
CODE = ".config/Code/User"
ROO = f"{CODE}/globalStorage/rooveterinaryinc.roo-cline"
KIMI_CODE = ".kimi-code/sessions/wd_{slug}/session_{stem}/agents/main/wire.jsonl"
FILES: tuple[tuple[str, str, str], ...] = (
    ("aider", ".aider.chat.history.md", "{name}"),
    ("atif", "*_atif.json", ".local/share/devin/cli/transcripts/{name}"),
    ("cline", "success.messages.json", ".cline/data/sessions/success/{name}"),
    ("codex-traex", "rollout*.jsonl", ".trae/cli/sessions/2026/01/01/{name}"),
    ("copilot-cli", "*.jsonl", ".copilot/session-state/{folder}-{stem}/events.jsonl"),
    ("cursor", "*.jsonl", ".cursor/projects/{slug}/agent-transcripts/{stem}/{name}"),
    ("cursor", "state.vscdb", ".config/Cursor/User/workspaceStorage/{slug}/state.vscdb"),
    ("cursor", "*-global-state.vscdb", ".config/Cursor/User/globalStorage/state.vscdb"),
    ("gemini-cli", "*.json", ".gemini/tmp/{slug}/chats/session-{name}"),
    ("gemini-cli", "*.jsonl", ".gemini/tmp/{slug}/chats/session-{name}"),
    ("grok-superagent", "grok.db", ".grok/grok.db"),
    ("iflow", "*.jsonl", ".iflow/projects/{slug}/{name}"),
    ("kimi", "small.jsonl", KIMI_CODE),
    ("kimi", "assistant_tools.jsonl", KIMI_CODE),
    ("kimi", "subagent_agent-0.jsonl", KIMI_CODE.replace("main", "agent-0")),
    ("kilo", "kilo.db", ".local/share/kilo/kilo.db"),
    ("kilo", "kilo.sql", ".local/share/kilo/kilo.db"),
    ("mini-swe-agent", "*.traj.json", ".config/mini-swe-agent/{folder}/{name}"),
    ("opencode", "*.sql", ".local/share/opencode/opencode.db"),
    ("pi", "*.jsonl", ".pi/agent/sessions/{slug}/{name}"),
    ("qwen-code", "*.jsonl", ".qwen/projects/{slug}/chats/{id}.jsonl"),
    ("swe-agent", "*.traj", "SWE-agent/trajectories/{slug}/{folder}/{name}"),
    ("labelled/sweagent", "*.traj", "SWE-agent/trajectories/lite/{stem}/{name}"),
    ("visualstudio-copilot", "*_traces.jsonl", ".cache/VSGitHubCopilotLogs/traces/{name}"),
    ("vscode-copilot", "*.json*", f"{CODE}/workspaceStorage/{{slug}}/chatSessions/{{name}}"),
)
"""The agent's folder in the corpus, the names of its files, and where one goes."""
FOLDERS: tuple[tuple[str, str, str], ...] = (
    ("cline", "session.messages.json", ".cline/data/sessions/session"),
    ("grok", "updates.jsonl", ".grok/sessions/{slug}/{folder}"),
    ("grok", "chat_history.jsonl", ".grok/sessions/{slug}/{folder}"),
    ("kimi", "context.jsonl", ".kimi/sessions/{slug}/{folder}"),
    ("roo", "history_item.json", f"{ROO}/tasks/{{folder}}"),
)  # fmt: skip
"""The same, of transcripts that are a folder; the file is one that such a folder has."""


OLD_S = 1_700_000_000
"""When the files of a home were last written: nothing in them is still going on."""


class Unit(NamedTuple):
    """A transcript, and what belongs to it: the files, and their places in a home."""

    name: str
    files: tuple[tuple[Path, str], ...]


def find_units(corpus: Path) -> list[Unit]:
    units = [*_claude(corpus / "claude-code"), *_codex(corpus / "codex")]
    used: set[Path] = set()
    for agent in sorted({rule[0] for rule in (*FILES, *FOLDERS)} | _homes(corpus)):
        units += _whole_homes(corpus / agent, used)
    for agent, name, place in FOLDERS:
        for path in sorted((corpus / agent).rglob(name)):
            if path not in used:
                target = _place(place.replace("{folder}", "{name}"), path.parent, corpus / agent)
                files = tuple(
                    (file, f"{target}/{file.relative_to(path.parent)}")
                    for file in _files(path.parent)
                    if file not in used
                )
                used.update(file for file, _ in files)
                units.append(Unit(_name(path, corpus), files))
    for agent, name, place in FILES:
        for path in sorted((corpus / agent).rglob(name)):
            if path.is_file() and path not in used:
                used.add(path)
                units.append(
                    Unit(_name(path, corpus), ((path, _place(place, path, corpus / agent)),))
                )
    return [unit for unit in units if not _is_trimmed(unit)]


def _is_trimmed(unit: Unit) -> bool:
    """Return whether somebody replaced the ids of a transcript by one text: it names nothing."""
    return any(
        b'id":"[trimmedforfixture]"' in source.read_bytes().replace(b" ", b"")
        for source, _ in unit.files
        if source.stat().st_size < 1_000_000
    )


def mount(unit: Unit, home: Path) -> None:
    for source, place in unit.files:
        target = home / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".sql":
            with closing(sqlite3.connect(target)) as database:
                database.executescript(source.read_text("utf-8"))
        else:
            shutil.copyfile(source, target)
            if (log := source.with_name(source.name + "-wal")).exists():
                shutil.copyfile(log, target.with_name(target.name + "-wal"))
        os.utime(target, (OLD_S, OLD_S))
    _list_crush_projects(home)


def _list_crush_projects(home: Path) -> None:
    folders = [path.parent for path in home.rglob("crush.db")]
    if folders:
        index = home / ".local/share/crush/projects.json"
        index.parent.mkdir(parents=True, exist_ok=True)
        projects = [{"path": str(path.parent), "data_dir": str(path)} for path in folders]
        index.write_text(json.dumps({"projects": projects}), "utf-8")


def _claude(root: Path) -> Iterator[Unit]:
    """Each main transcript with the folder beside it."""
    groups: dict[Path, list[Path]] = {}
    for path in _files(root):
        parts = path.relative_to(root).parts
        inside = [at for at, part in enumerate(parts) if part in ("subagents", "tool-results")]
        if inside:
            groups.setdefault(root.joinpath(*parts[: inside[0]]), []).append(path)
        elif path.suffix == ".jsonl":
            groups.setdefault(path.with_suffix(""), []).append(path)
    for session, files in groups.items():
        folder = ".claude/projects/-" + re.sub(r"\W", "-", str(session.parent.relative_to(root)))
        places = [f"{folder[:200]}/{path.relative_to(session.parent)}" for path in files]
        yield Unit(
            f"claude-code/{session.relative_to(root)}", tuple(zip(files, places, strict=True))
        )


def _codex(root: Path) -> Iterator[Unit]:
    """Each rollout under the name that Codex gives it, from its first record."""
    homes = [folder for folder in root.rglob("codex-home") if folder.is_dir()]
    for folder in sorted(homes):
        files = tuple((file, f".codex/{file.relative_to(folder)}") for file in _files(folder))
        yield Unit(f"codex/{folder.relative_to(root)}", files)
    for path in _files(root):
        if path.suffix not in (".jsonl", ".json") or "expected" in path.name:
            continue
        if "codex-home" in path.parts:
            continue
        meta: JSON = _first(path)
        meta = meta["payload"] if isinstance(meta.get("payload"), dict) else meta
        meta = meta.get("session", meta)
        id = str(meta.get("id") or path.stem)
        time = re.sub(r"\.\d+|Z", "", str(meta.get("timestamp") or "2026-01-01T00:00:00"))[:19]
        name = f"rollout-{time.replace(':', '-')}-{id}{path.suffix}"
        day = "" if path.suffix == ".json" else f"{time[:4]}/{time[5:7]}/{time[8:10]}/"
        yield Unit(f"codex/{path.relative_to(root)}", ((path, f".codex/sessions/{day}{name}"),))


def _homes(corpus: Path) -> set[str]:
    skipped = ("claude-code", "codex", "labelled")
    return {path.name for path in corpus.iterdir() if path.is_dir()} - {*skipped}


def _whole_homes(root: Path, used: set[Path]) -> Iterator[Unit]:
    names = (*HOMES, ".crush", ".qwen", ".pi", "storage_v2", "storage_legacy")
    for folder in sorted(path for name in names for path in root.rglob(name)):
        files = tuple((file, str(file.relative_to(folder.parent))) for file in _files(folder))
        used.update(file for file, _ in files)
        if folder.name.startswith("storage_"):
            storage = ".local/share/opencode/storage"
            files = tuple((file, f"{storage}/{file.relative_to(folder)}") for file, _ in files)
        if folder.name in (".qwen", ".pi"):  # Files that share nothing: one at a time.
            for file, place in files:
                yield Unit(f"{root.name}/{file.relative_to(root)}", ((file, place),))
        else:
            yield Unit(f"{root.name}/{folder.relative_to(root)}", files)


def _files(root: Path) -> list[Path]:
    """All files, without what SQLite keeps beside a database (`mount` takes its log along)."""
    return sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    )


def _first(path: Path) -> dict[str, JSON]:
    text = path.read_text("utf-8", errors="replace")
    try:
        value = json.loads(text if path.suffix == ".json" else text.split("\n", 1)[0])
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _place(template: str, path: Path, root: Path) -> str:
    slug = path.relative_to(root).parts[0]
    id = str(_first(path).get("sessionId") or path.stem) if "{id}" in template else ""
    return template.format(
        name=path.name, stem=path.stem, slug=slug, folder=path.parent.name, id=id
    )


def _name(path: Path, corpus: Path) -> str:
    return str(path.relative_to(corpus))
