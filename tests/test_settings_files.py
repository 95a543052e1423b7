"""Agents' settings files: entries go in beside the user's own, and out again to the byte."""

import json
import os
import stat
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.adapters import MARK, Entry
from runlore.errors import ConfigError
from runlore.files import jsonc
from runlore.files import settings as settings
from runlore.files.settings import Change


def call(event: str, program: str = "/usr/bin/python") -> dict[str, Any]:
    return {
        "hooks": [{"type": "command", "command": f"{program}{MARK}{event} agent", "timeout": 5}]
    }


HOOKS = [
    Entry(
        path=("hooks", "SessionStart"), value={"matcher": "startup", **call("start")}, in_list=True
    ),
    Entry(path=("hooks", "SessionEnd"), value=call("end"), in_list=True),
]
SERVER = [
    Entry(
        path=("mcpServers", "runlore"),
        value={"command": "/usr/bin/python", "args": ["-m", "runlore", "mcp"], "env": {}},
    )
]
TABLE = [
    Entry(
        path=("mcp_servers", "runlore"),
        value={"command": "/usr/bin/python", "args": ["-m", "runlore"], "env": {"A": "b"}},
    )
]

JSONS = {
    "empty object": "{}",
    "empty object on two lines": "{\n}\n",
    "one line": '{"model": "opus"}',
    "one line with blanks": '{ "model": "opus" }\n',
    "usual": '{\n  "model": "opus",\n  "permissions": {\n    "allow": ["Bash(ls:*)"]\n  }\n}\n',
    "four spaces, no newline at the end": '{\n    "model": "opus"\n}',
    "tabs": '{\n\t"model": "opus"\n}\n',
    "CRLF": '{\r\n  "model": "opus",\r\n  "env": {\r\n    "A": "b"\r\n  }\r\n}\r\n',
    "BOM": '\ufeff{\n  "model": "opus"\n}\n',
    "comments": (
        '// mine\n{ // first\n  /* about it */\n  "model": "opus", // why\n  "b": [1, 2,], //'
        " trailing\n}\n// end\n"
    ),
    "comment behind the last": '{\n  "model": "opus" // not for long\n}\n',
    "slashes and braces in texts": '{\n  "a": "http://x/{y}//\\"z",\n  "b": "/* no */"\n}\n',
    "hooks is empty": '{\n  "hooks": {}\n}\n',
    "hooks of others": (
        '{\n  "hooks": {\n    "SessionStart": [\n      {\n        "hooks": [{"type": "command",'
        ' "command": "x"}]\n      }\n    ]\n  }\n}\n'
    ),
    "hooks of others on one line": '{"hooks":{"SessionEnd":[{"hooks":[]}],"Stop":[]},"z":[1,2]}',
    "an empty list": '{\n  "hooks": {\n    "SessionStart": []\n  }\n}',
    "servers of others": (
        '{\n  "numStartups": 4,\n  "mcpServers": {\n    "other": {\n      "command": "npx"\n    }\n'
        "  }\n}"
    ),
    "other scripts": '{\n  "名前": "héllo 😀"\n}\n',
    "nothing": "",
    "only blanks": "\n\n",
}
TOMLS = {
    "nothing": "",
    "usual": 'model = "o3"\n\n[mcp_servers.other]\ncommand = "npx" # mine\nargs = ["-y"]\n',
    "no newline at the end": 'model = "o3"',
    "CRLF": 'model = "o3"\r\n[tui]\r\nnotifications = true\r\n',
    "comments at the end": "[a]\nb = 1\n# about nothing\n",
    "servers in parts": (
        "[mcp_servers]\n[mcp_servers.other]\ncommand = 'npx'\n[mcp_servers.other.env]\nA = 'b'\n"
    ),
    "headers in a text": 'a = """\n[mcp_servers.runlore]\n[x]\n"""\n[b]\nc = 1\n',
    "BOM": '\ufeffmodel = "o3"\n',
}


@pytest.mark.parametrize("text", JSONS.values(), ids=JSONS)
@pytest.mark.parametrize("entries", [HOOKS, SERVER], ids=["hooks", "server"])
def test_installed_and_removed_leaves_json_as_it_was(
    tmp_path: Path, text: str, entries: list[Entry]
) -> None:
    round_trip(tmp_path / "settings.json", text, entries)


@pytest.mark.parametrize("text", TOMLS.values(), ids=TOMLS)
def test_installed_and_removed_leaves_toml_as_it_was(tmp_path: Path, text: str) -> None:
    round_trip(tmp_path / "config.toml", text, TABLE)


def round_trip(file: Path, text: str, entries: list[Entry]) -> None:
    before = text.encode()
    file.write_bytes(before)
    assert settings.state(file, entries) == "absent"
    made = install(file, entries)
    assert settings.state(file, entries) == "installed"
    assert settings.install(file, entries, made.receipt).is_empty
    assert said(file, settings.remove(file, entries, made.receipt).after) == said(file, before)
    settings.apply(settings.remove(file, entries, made.receipt))
    assert file.read_bytes() == before


def install(file: Path, entries: list[Entry]) -> Change:
    made = settings.install(file, entries, None)
    settings.apply(made)
    return made


def said(file: Path, data: bytes | None) -> Any:
    text = (data or b"").decode("utf-8-sig")
    if file.suffix == ".toml":
        return tomllib.loads(text)
    return jsonc.parse(text).data() if text.strip() else {}


@pytest.mark.parametrize("text", JSONS.values(), ids=JSONS)
def test_without_a_receipt_ours_goes_and_all_else_stays(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(text.encode())
    install(file, HOOKS)
    settings.apply(settings.remove(file, HOOKS, None))
    assert settings.state(file, HOOKS) == "absent"
    assert pruned(said(file, file.read_bytes())) == pruned(said(file, text.encode()))
    assert all(
        comment in file.read_text(encoding="utf-8")
        for comment in ("// mine", "// why", "// trailing")
        if comment in text
    )


def pruned(data: Any) -> Any:
    """Without containers that are empty: which of these were there before, only the receipt
    knows."""
    if isinstance(data, dict):
        return {key: value for key, item in data.items() if (value := pruned(item)) not in ({}, [])}
    return data


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
groups = st.lists(
    st.fixed_dictionaries(
        {"hooks": st.lists(st.just({"type": "command", "command": "x"}), max_size=2)}
    ),
    max_size=2,
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "a": values,
        "hooks": st.dictionaries(
            st.sampled_from(["SessionStart", "SessionEnd", "Stop"]), groups, max_size=3
        ),
        "mcpServers": st.dictionaries(
            st.text(max_size=5),
            st.dictionaries(st.text(max_size=5), values, max_size=2),
            max_size=2,
        ),
        "z": values,
    },
)


@given(
    documents,
    st.sampled_from([None, 1, 2, 4, "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([HOOKS, SERVER]),
)
def test_any_document_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: Any, indent: Any, eol: str, entries: list[Entry]
) -> None:
    file = tmp_path_factory.mktemp("any") / "settings.json"
    round_trip(
        file, json.dumps(data, indent=indent, ensure_ascii=False).replace("\n", eol), entries
    )


@given(documents)
def test_the_entries_survive_that_an_agent_writes_its_file_anew(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    file = tmp_path_factory.mktemp("anew") / "settings.json"
    file.write_text(json.dumps(data, indent=2), encoding="utf-8")
    receipt = install(file, SERVER).receipt
    again = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**again, "numStartups": 5}, indent=2), encoding="utf-8")
    settings.apply(settings.remove(file, SERVER, receipt))
    assert pruned(json.loads(file.read_text(encoding="utf-8"))) == pruned(
        {**data, "numStartups": 5}
    )


@given(st.text(max_size=60) | st.text(alphabet='{}[]":,/* \n1a\\', max_size=40))
def test_any_text_is_read_as_json_or_refused_in_one_line(text: str) -> None:
    found, problem = None, ""
    try:
        found = jsonc.parse(text).data()
    except ValueError as error:
        problem = str(error)
    assert "\n" not in problem
    if not problem and not set(text) & set("/,"):  # Else it may have a comment or a trailing comma.
        assert found == json.loads(text)


def test_many_comments_on_a_line_take_no_time() -> None:
    """Each was tried with every other one: 22 of them took six seconds, and 23 twice that."""
    text = "{" + "/* */ " * 400 + '"a": 1}'
    begun = time.perf_counter()
    after, piece = jsonc.insert(text, ("b",), 1)
    assert after.replace(piece, "") == text
    assert time.perf_counter() - begun < 2


def test_what_the_user_wrote_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{\n  "model": "opus" // mine\n}\n')
    receipt = install(file, HOOKS).receipt
    file.write_text(
        file.read_text().replace(
            '"model": "opus" // mine', '"model": "haiku", // changed\n  "more": [1]'
        )
    )
    settings.apply(settings.remove(file, HOOKS, receipt))
    assert file.read_text() == '{\n  "model": "haiku", // changed\n  "more": [1]\n}\n'


def test_what_the_user_added_to_our_containers_stays(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("{}\n")
    receipt = install(file, HOOKS).receipt
    data = json.loads(file.read_text())
    data["hooks"]["SessionStart"].append(
        call("x", "mine").copy() | {"hooks": [{"type": "command", "command": "mine"}]}
    )
    data["hooks"]["Stop"] = []
    file.write_text(json.dumps(data, indent=2))
    settings.apply(settings.remove(file, HOOKS, receipt))
    left = json.loads(file.read_text())
    assert left == {
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "mine"}]}], "Stop": []}
    }


def test_what_the_user_added_to_our_very_entry_stays(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    receipt = install(file, HOOKS).receipt
    data = json.loads(file.read_text())
    mine = {"type": "command", "command": "mine"}
    for event, place in (("SessionStart", 0), ("SessionEnd", 1)):
        data["hooks"][event][0]["hooks"].insert(place, mine)
    file.write_text(json.dumps(data, indent=2))
    assert settings.state(file, HOOKS) == "outdated"
    made = settings.install(file, HOOKS, receipt)
    settings.apply(made)
    assert settings.state(file, HOOKS) == "installed"
    settings.apply(settings.remove(file, HOOKS, made.receipt))
    left = {
        "SessionStart": [{"matcher": "startup", "hooks": [mine]}],
        "SessionEnd": [{"hooks": [mine]}],
    }
    assert json.loads(file.read_text()) == {"hooks": left}


def test_what_was_installed_by_another_runlore_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    before = '{\n  "model": "opus"\n}\n'
    file.write_text(before)
    old = [
        Entry(path=entry.path, value=call("start", "/old/python"), in_list=True) for entry in HOOKS
    ]
    receipt = install(file, old).receipt
    assert settings.state(file, HOOKS) == "outdated"
    made = settings.install(file, HOOKS, receipt)
    settings.apply(made)
    assert "/old/python" not in file.read_text()
    settings.apply(settings.remove(file, HOOKS, made.receipt))
    assert file.read_text() == before


def test_a_file_that_was_not_there_goes_again(tmp_path: Path) -> None:
    for name, entries in (("a/b/settings.json", HOOKS), ("a/b/config.toml", TABLE)):
        file = tmp_path / name
        receipt = install(file, entries).receipt
        assert file.exists()
        settings.apply(settings.remove(file, entries, receipt))
        assert not (tmp_path / "a").exists()


def test_a_file_that_was_not_there_stays_when_the_user_wrote_to_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    receipt = install(file, HOOKS).receipt
    file.write_text(json.dumps({**json.loads(file.read_text()), "model": "opus"}, indent=2))
    settings.apply(settings.remove(file, HOOKS, receipt))
    assert json.loads(file.read_text()) == {"model": "opus"}


def test_the_diff_shows_the_change_and_little_else(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({f"key {n}": n for n in range(50)}, indent=2))
    lines = settings.show(settings.install(file, SERVER, None))
    assert lines[:2] == [f"--- {file}", f"+++ {file}"]
    assert any(line.startswith("+") and '"runlore"' in line for line in lines)
    assert not any(line.startswith("-") for line in lines[2:])
    assert not any("key 9" in line for line in lines)


def test_a_table_within_braces_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    refused(file, b'mcp_servers = { other = { command = "npx" } }\n', TABLE)


def test_a_table_that_the_user_changed_goes_whole(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    text = (
        'a = 1\n\n[mcp_servers."runlore"] # mine\ncommand = "x"\n\n[mcp_servers.runlore.env]\nA ='
        ' "c"\n\n# about z\n[z]\nb = [\n  [1],\n]\n'
    )
    file.write_text(text)
    assert settings.state(file, TABLE) == "outdated"
    settings.apply(settings.remove(file, TABLE, None))
    assert tomllib.loads(file.read_text()) == {"a": 1, "z": {"b": [[1]]}}
    assert "# about z" in file.read_text()


BROKEN: dict[str, bytes] = {
    "cut off": b'{"a": 1',
    "no comma": b'{"a": 1 "b": 2}',
    "two values": b"{} {}",
    "a list": b"[]",
    "a text": b'"hooks"',
    "hooks is a list": b'{"hooks": []}',
    "hooks is null": b'{"hooks": null}',
    "an event is an object": b'{"hooks": {"SessionStart": {}}}',
    "single quotes": b"{'a': 1}",
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "too deep": b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a comment without end": b'{"a": 1} /* ',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_left_alone(tmp_path: Path, data: bytes) -> None:
    refused(tmp_path / "settings.json", data, HOOKS)


@pytest.mark.parametrize("data", [b"a = ", b"[x", b"a = 1\na = 2\n", b"\xff", b"mcp_servers = 1\n"])
def test_a_broken_toml_file_is_left_alone(tmp_path: Path, data: bytes) -> None:
    refused(tmp_path / "config.toml", data, TABLE)


def refused(file: Path, data: bytes, entries: list[Entry]) -> None:
    file.write_bytes(data)
    with pytest.raises(ConfigError) as told:
        settings.apply(settings.install(file, entries, None))
    assert str(file) in str(told.value)
    assert str(told.value).endswith("nothing was written")
    assert "\n" not in str(told.value)
    assert file.read_bytes() == data
    assert not list(file.parent.glob("*.runlore")) + list(file.parent.glob(".*.runlore"))


def test_a_huge_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MAX_BYTES", 100)
    refused(tmp_path / "settings.json", json.dumps({"a": "x" * 100}).encode(), HOOKS)


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(b"{}")
    file.chmod(0o444)
    with pytest.raises(ConfigError, match="read-only; nothing was written"):
        settings.apply(settings.install(file, HOOKS, None))
    assert file.read_bytes() == b"{}"
    assert not list(tmp_path.glob(".*.runlore"))


def test_a_folder_in_its_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        settings.install(tmp_path / "settings.json", HOOKS, None)


@pytest.mark.skipif(
    os.name == "nt", reason="links need a right of their own there, and modes are other ones"
)
def test_links_and_modes_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles/settings.json", tmp_path / "settings.json"
    real.parent.mkdir()
    real.write_bytes(b"{}\n")
    real.chmod(0o640)
    link.symlink_to(real)
    receipt = install(link, HOOKS).receipt
    assert link.is_symlink()
    assert settings.state(real, HOOKS) == "installed"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    settings.apply(settings.remove(link, HOOKS, receipt))
    assert link.is_symlink()
    assert real.read_bytes() == b"{}\n"


def test_a_link_to_nothing_leads_to_nothing_again(tmp_path: Path) -> None:
    link = tmp_path / "settings.json"
    link.symlink_to(tmp_path / "elsewhere.json")
    receipt = install(link, HOOKS).receipt
    assert (tmp_path / "elsewhere.json").is_file()
    settings.apply(settings.remove(link, HOOKS, receipt))
    assert link.is_symlink()
    assert not link.exists()


def test_a_file_that_changed_since_the_diff_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(b"{}")
    made = settings.install(file, HOOKS, None)
    file.write_bytes(b'{"new": 1}')
    with pytest.raises(ConfigError, match="changed meanwhile"):
        settings.apply(made)
    assert file.read_bytes() == b'{"new": 1}'


def test_receipts_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    file = tmp_path / "installed.json"
    assert settings.read_receipts(file) == {}
    file.write_bytes(b"{nonsense")
    assert settings.read_receipts(file) == {}
    receipt = settings.Receipt(pieces=["a"], is_made=True, folders=["b"])
    settings.write_receipts(file, {"x": receipt})
    assert settings.read_receipts(file) == {"x": receipt}
    settings.write_receipts(file, {})
    assert not file.exists()
