"""What the words of a shell command tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.digest.shell_commands import parse


@pytest.mark.parametrize(
    ("command", "heads"),
    [
        ("cd /x && go test ./... 2>&1 | tail -20", ("go test",)),
        ("FOO=1 timeout 60 uv run pytest -q tests/a.py", ("pytest",)),
        ("git -C /x push -u origin main", ("git push",)),
        ("python3 -m pytest -x", ("pytest",)),
        ("cat > a.txt <<'EOF'\nmake && go build\nEOF\nmake test", ("make test",)),
        ("bash -lc 'set -a; source x; agentv eval run a.yaml'", ("agentv eval",)),
        ("npm install && npm run build", ("npm install", "npm run build")),
        ("", ()),
    ],
)
def test_programs_with_their_subcommands(command: str, heads: tuple[str, ...]) -> None:
    assert parse(command).heads == heads


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ('make a$b\'c d\'"e \\" f"\\ g$(h i)', 'make a$b\'c d\'"e \\" f"\\ g$(h i)'),
        ("make $ $(a (b)) >c 2>&1 d", "make $ $ && a && b && d"),
        ("make 2x 3>a &>b 4", "make 2x 4"),
    ],
)
def test_what_is_quoted_stays_one_word_and_what_is_sent_to_a_file_is_none(
    command: str, key: str
) -> None:
    assert parse(command).key == key


@pytest.mark.parametrize(
    ("one", "other"),
    [("go test ./a | tail -5", "cd /x && go test ./a 2>&1"), ("A=1 pytest -q", "uv run pytest -q")],
)
def test_the_same_work_has_the_same_key(one: str, other: str) -> None:
    assert parse(one).key == parse(other).key


@pytest.mark.parametrize(
    ("command", "looks"),
    [
        ("rg x; sed -n 1,5p a | head", True),
        ("sed -i s/a/b/ a", False),
        ("git log | cat", True),
        ("git remote -v", True),
        ("git remote set-url origin x", False),
        ("command -v jq", True),
        ("ls && make", False),
        ("", False),
    ],
)
def test_looking_is_told_from_doing(command: str, looks: bool) -> None:
    assert parse(command).is_read_only is looks


def test_files_that_are_written() -> None:
    assert parse("cat > types/state.ts <<EOF\nx\nEOF").writes == {"state.ts"}
    assert parse("ls > /dev/null").writes == frozenset()


@given(st.text(alphabet="ab '\"$()|&;<>\\\n-=", max_size=400))
def test_any_text_can_be_parsed(command: str) -> None:
    parse(command)
