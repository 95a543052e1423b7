"""Sessions taken out: what is in each format, that it is redacted, and that an HTML file does
nothing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from runlore import config as settings
from runlore.config import Config
from runlore.errors import NotFound
from runlore.export.html import html
from runlore.export.jsonl import jsonl
from runlore.export.markdown import fenced, markdown
from runlore.export.selection import select
from runlore.store import Store, open_store
from runlore.store.values import Marks
from runlore.sync import pipeline
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # A fixture.
from tests.test_redact import make
from tests.toy import Toy, line

UID = "toy:one"
SECRET = make("ghp_<a36>")


@pytest.fixture
def stored(home: Path, toy: Toy) -> Iterator[tuple[Store, Config]]:
    """A session with all kinds of blocks, stored without redaction."""
    root = home / ".toy"
    root.mkdir()
    (root / "one.jsonl").write_bytes(
        line(s="one", id="a1", text="please *fix* <script>alert(1)</script>", at=0)
        + line(s="one", id="a2", up="a1", kind="thinking", text="where is it?\nhere", at=1)
        + line(
            s="one",
            id="a3",
            up="a2",
            kind="tool_call",
            tool="Bash",
            text=f"export TOKEN={SECRET}",
            call="c1",
            at=2,
        )
        + line(
            s="one",
            id="a4",
            up="a3",
            kind="tool_result",
            text=f"```\nset {SECRET}\n```",
            call="c1",
            error=True,
            at=3,
        )
        + line(
            s="one",
            id="a5",
            up="a4",
            kind="edit",
            tool="Edit",
            text="src/a.c\n@@\n-int a;\n+long a;",
            call="c2",
            at=4,
        )
        + line(s="one", id="a6", up="a5", kind="tool_result", text="done", call="c2", at=5)
        + line(
            s="one",
            id="b1",
            up="a6",
            kind="tool_call",
            tool=f"fetch {SECRET}",
            files=[f"/tmp/{SECRET}/x"],
            call="c3",
            text="x",
            at=5,
        )
        + line(
            s="one",
            id="b2",
            up="b1",
            kind="tool_result",
            tool=f"fetch {SECRET}",
            call="c3",
            text="y",
            at=5,
        )
        + line(s="one", id="a7", up="b2", kind="assistant_msg", text="It builds.", at=6)
        + line(s="one", title=f"Fix it with {SECRET}")
    )
    config = msgspec.structs.replace(settings.load(), redact=settings.Redact(enabled=False))
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
        store.sessions.mark(UID, Marks(name=f"With {SECRET}", tags=(SECRET,), note=f"not {SECRET}"))
        yield store, config


def export(stored: tuple[Store, Config], form: str, first: int = 0, last: int | None = None) -> str:
    store, config = stored
    return "".join(
        {"markdown": markdown, "jsonl": jsonl, "html": html}[form](
            select(store, config, UID, first=first, last=last)
        )
    )


@pytest.mark.parametrize("form", ["markdown", "jsonl", "html"])
def test_whatever_was_stored_leaves_without_secrets(
    stored: tuple[Store, Config], form: str
) -> None:
    assert SECRET in stored[0].sessions.bodies(UID)[2]
    text = export(stored, form)
    assert SECRET not in text
    assert "[redacted:" in text


def test_markdown_reads_in_order(stored: tuple[Store, Config]) -> None:
    text = export(stored, "markdown")
    places = [
        text.index(part)
        for part in (
            "## 0. Prompt",
            "> where is it?\n> here",
            "**2. Bash** (failed",
            "```diff\nsrc/a.c",
            "It builds.",
        )
    ]
    assert places == sorted(places)


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("a ```` b") == "`````\na ```` b\n`````"
    assert fenced("a", "diff") == "```diff\na\n```"


def test_json_has_the_session_and_every_event_with_its_text(stored: tuple[Store, Config]) -> None:
    lines = [json.loads(one) for one in export(stored, "jsonl").splitlines()]
    assert [one["type"] for one in lines] == ["session"] + ["event"] * 9
    assert [one["seq"] for one in lines[1:]] == list(range(9))
    assert lines[9]["body"] == "It builds."


def test_an_html_file_has_all_in_it_and_runs_nothing(stored: tuple[Store, Config]) -> None:
    page = export(stored, "html")
    assert "<script" not in page
    assert "<em>fix</em>" in page
    assert not re.search(
        r"<(?:link|img|iframe|object|button)\b|\son\w+=|javascript:|\shref=\"(?!#)", page
    )
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert f"sha256-{base64.b64encode(sha256(style.encode()).digest()).decode()}" in page
    assert "default-src 'none'" in page


def test_a_part_is_the_blocks_of_its_events(stored: tuple[Store, Config]) -> None:
    text = export(stored, "markdown", first=3, last=3)
    assert "**2. Bash**" in text
    assert "It builds" not in text
    assert "a part of it: 1 of 6 entries" in text
    with pytest.raises(NotFound, match="its last is 8"):
        export(stored, "markdown", first=70)


def test_the_command_writes_what_is_asked_for(
    stored: tuple[Store, Config], run: Run, home: Path
) -> None:
    assert "## 0. Prompt" in run("export", "one").stdout
    assert (
        json.loads(run("export", "one#6", "--format", "jsonl").stdout.splitlines()[1])["seq"] == 6
    )
    file = home / "out.html"
    assert run("export", "one", "-o", str(file)).exit_code == 0
    assert file.read_text().startswith("<!doctype html>")
    assert file.stat().st_mode & 0o077 == 0
    again = run("export", "one", "-o", str(file))
    assert (again.exit_code, "--force" in again.stderr) == (1, True)
    assert run("export", "one", "-o", str(file), "--force", "--format", "jsonl").exit_code == 0
    assert run("export", "one", "--branch", "9").exit_code == 1
    assert run("export", "one", "--pictures").exit_code == 2
    assert run("export", "one#6", "--from", "1").exit_code == 2
