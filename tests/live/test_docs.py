"""The page about the live log is true: its examples run, and it names every file and type there
is."""

import os
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/live.md"


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 6
    for block in blocks:
        line = PAGE.read_text()[: block.start()].count("\n") + 2
        exec(compile("\n" * (line - 1) + block[1], str(PAGE), "exec"), names)
    assert "What is in this folder?" in capsys.readouterr().out


def test_the_page_names_what_lies_in_a_session(tmp_path: Path) -> None:
    from runlore.live import SessionStore

    store = SessionStore(tmp_path / "store")
    with store.create(id="one") as session:
        for _ in range(200):
            session.append({"role": "user", "content": "x"})
        session.put_output(b"x")
        with (session.path / "log.jsonl").open("ab") as file:
            file.write(b"{torn")
    with store.open("one", exclusive=True) as session:
        session.append({"role": "user", "content": "x"})
    page = PAGE.read_text()
    for name in (*os.listdir(store.path / "one"), *os.listdir(store.path)):
        known = re.sub(r"-\d+$", "-<epoch>", name)
        assert known == "one" or f"`{known}" in page, name
