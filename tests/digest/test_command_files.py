"""The files that shell commands change."""

from __future__ import annotations

import time

import pytest

from runlore.digest.command_files import MAX_FILES, MAY_CHANGE, changed_files, shown_files

GIT_PATCH = """git apply <<'EOF'
--- a/src/old.py
+++ b/src/old.py
@@ -1 +1 @@
-x
+y > z
--- /dev/null
+++ b/new.py
EOF"""
AGENT_PATCH = """apply_patch <<'PATCH'
*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@
-x
*** Add File: c.py
+y
*** End Patch
PATCH"""


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("sed -i 's/a/b/' src/x.py", "src/x.py"),
        ("sed -i.bak -e 's/>/</' a.html b.html", "a.html b.html"),
        ("sed -i '' 's/a/b/' x.py", "x.py"),
        ("perl -pi -e 's/a/b/' z.py", "z.py"),
        ("perl -pie 's/a/b/' z.py", "z.py"),
        ("mv a.py b.py", "a.py b.py"),
        ("git -C . mv src/a.py src/sub/", "src/a.py src/sub/a.py"),
        ("git -C sub mv a b", "sub/a sub/b"),
        ("git -C web -c core.x=y -C ui rm a.css", "web/ui/a.css"),
        ("cd top && git -C /repo mv a b", "/repo/a /repo/b"),
        ("mv -t dir a x/b", "a x/b dir/a dir/b"),
        ("mv -ft dir a", "a dir/a"),
        ("mv -tdir a", "a dir/a"),
        ("cp a b -t dir", "dir/a dir/b"),
        ("cp --target-directory=dir a b", "dir/a dir/b"),
        ("cp --target-directory dir a", "dir/a"),
        ("install -m 644 a /etc/b", "/etc/b"),
        ("cp -r a.txt /tmp/b.txt", "/tmp/b.txt"),
        ("cp a.txt b.txt dir", "dir/a.txt dir/b.txt"),
        ("git rm --cached old.py", "old.py"),
        ("make 2>&1 | tee -a log.txt", "log.txt"),
        ("make > out.txt 2> err.txt", "out.txt err.txt"),
        ("echo x >> 'my notes.txt'", "my notes.txt"),
        ("cat > f.md <<'EOF'\nhello > no\nEOF\ntouch g", "f.md g"),
        ("cat <<EOF > out.py\nx > 1\nEOF", "out.py"),
        (GIT_PATCH, "src/old.py new.py"),
        (GIT_PATCH.replace("git apply", "cat > x.patch"), "x.patch"),
        (
            GIT_PATCH.replace("git apply", "cat > x.patch") + "\npatch -p1 < x.patch",
            "x.patch src/old.py new.py",
        ),
        (AGENT_PATCH, "src/a.py src/b.py c.py"),
        ("cd web && sed -i s/a/b/ app.js", "web/app.js"),
        ("(cd web && touch a) && touch b", "web/a b"),
        ('bash -lc "cd src && sed -i s/a/b/ q.py"', "src/q.py"),
        ("FORCE=1 sudo tee /etc/hosts < hosts", "/etc/hosts"),
    ],
)
def test_what_a_command_changes_is_read_from_its_text(command: str, files: str) -> None:
    expected = [files] if "notes" in files else files.split()
    assert list(changed_files(command)) == expected
    assert MAY_CHANGE.search(command.encode())


@pytest.mark.parametrize(
    "command",
    [
        "sed -n 1,5p x.py",
        "grep '>' x.py",
        "echo a \\> b",
        "ls 2>/dev/null >&2",
        "cat a.py > $OUT",
        "rm *.pyc",
        'python -c "print(1 > 2)"',
        "# sed -i s/a/b/ x.py",
        "cat a.py | diff - b.py < c.py",
        "git checkout main",
        "echo 'never closed > x.py",
        "const names = refs.map((one) => tools.run(one > two))",
        "if (( a >= b )); then ls; fi",
        "mv a.py",
        "git -C $there mv a b",
        "cp -t $there a b",
        "mv -t",
        "cp -t dir",
        "",
    ],
)
def test_what_only_reads_or_cannot_be_known_is_left_out(command: str) -> None:
    assert changed_files(command) == ()


@pytest.mark.parametrize(
    "command",
    [
        "'" * 40_000,
        '"a' * 40_000,
        "a\\" * 40_000,
        "> x" * 40_000,
        "<<E\n" * 40_000,
        "cat > x " + "<<E " * 40_000,
        "(" * 40_000,
    ],
)
def test_any_text_takes_little_time(command: str) -> None:
    began = time.perf_counter()
    assert len(changed_files(command)) <= MAX_FILES
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cat a.py b.py | head -5", ("a.py", "b.py")),
        ("sed -n '1,40p' src/a.py && tail -n 20 b.log", ("src/a.py", "b.log")),
        ("cd src; head -30 'my file.py'", ("src/my file.py",)),
        ("cat a.py > b.py", ("a.py",)),
        ("sed -i s/a/b/ a.py", ()),
        ("cat <<'EOF' > a.py\nx\nEOF", ()),
        ("cat $file *.py", ()),
        ("git show HEAD:a.py", ()),
    ],
)
def test_files_that_a_command_prints_are_read(command: str, files: tuple[str, ...]) -> None:
    assert shown_files(command) == files
