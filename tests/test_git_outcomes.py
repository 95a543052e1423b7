"""What git says of the commits that a session made: merged, reverted, or neither."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runlore import config
from runlore.files.git import git_root
from runlore.files.git_log import (
    Branch,
    Fate,
    SessionCommit,
    find_same_changes,
    judge_commits,
    read_branch,
)
from runlore.live import SessionStore
from runlore.model import Session
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
LATER = -1e9
"""Seconds of rest: what ended just now is at rest."""


class Repository:
    """A repository in a folder, changed by git itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.commit("start")

    def git(self, *words: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))
        }
        command = ("git", "-C", str(self.folder), *words)
        done = subprocess.run(command, env=env | who, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, name: str, text: str = "text\n") -> str:
        (self.folder / f"{name.replace(' ', '-')}.txt").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", name)
        return self.git("rev-parse", "HEAD")

    def branch(self) -> Branch:
        found = read_branch(self.folder, SINCE)
        assert found is not None
        return found


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "shop")


def fate(repository: Repository, *shas: str, on: str | None = None) -> Fate:
    """What git says of a session that made these commits."""
    made = [SessionCommit(sha[:9], repository.git("log", "-1", "--format=%s", sha)) for sha in shas]
    branch = repository.branch()
    return judge_commits(made, on, branch, find_same_changes(repository.folder, made, branch))


def feature(repository: Repository, *names: str) -> list[str]:
    repository.git("checkout", "-q", "-b", "feature")
    shas = [repository.commit(name) for name in names]
    repository.git("checkout", "-q", "main")
    return shas


def test_a_commit_that_was_merged_is_on_the_default_branch(repository: Repository) -> None:
    one, two = feature(repository, "one", "two")
    assert fate(repository, one, two).state == "open"
    repository.git("merge", "-q", "--no-ff", "feature", "-m", "Merge it")
    assert fate(repository, one, two) == Fate("merged", f"commit {two[:10]} is on main")


def test_a_branch_that_main_was_moved_forward_to_is_merged(repository: Repository) -> None:
    [sha] = feature(repository, "one")
    repository.git("merge", "-q", "--ff-only", "feature")
    assert fate(repository, sha, on="feature").state == "merged"


def test_a_commit_made_on_the_default_branch_was_merged_by_nobody(repository: Repository) -> None:
    sha = repository.commit("one")
    assert fate(repository, sha, on="main").state == "open"
    assert fate(repository, sha).state == "open"


def test_a_squashed_commit_is_known_by_its_subject_and_its_change(repository: Repository) -> None:
    [sha] = feature(repository, "one")
    repository.commit("meanwhile")
    repository.git("merge", "-q", "--squash", "feature")
    repository.git("commit", "-q", "-m", "one (#12)")
    assert fate(repository, sha).state == "merged"


def test_another_change_with_the_same_subject_is_another_commit(repository: Repository) -> None:
    [sha] = feature(repository, "one")
    repository.commit("one", "something else\n")
    assert fate(repository, sha).state == "open"


def test_a_reverted_commit_is_reverted_wherever_it_was_made(repository: Repository) -> None:
    sha = repository.commit("one")
    repository.git("revert", "--no-edit", sha)
    by = repository.git("rev-parse", "HEAD")
    found = fate(repository, sha, on="main")
    assert found == Fate("reverted", f"commit {sha[:10]} was reverted by {by[:10]}")


def test_what_a_reverted_merge_brought_is_reverted(repository: Repository) -> None:
    shas = feature(repository, "one", "two")
    repository.git("merge", "-q", "--no-ff", "feature", "-m", "Merge it")
    repository.git("revert", "--no-edit", "-m", "1", "HEAD")
    assert fate(repository, *shas).state == "reverted"


def test_a_revert_that_was_reverted_does_not_count(repository: Repository) -> None:
    [sha] = feature(repository, "one")
    repository.git("merge", "-q", "--no-ff", "feature", "-m", "Merge it")
    repository.git("revert", "--no-edit", "-m", "1", "HEAD")
    repository.git("revert", "--no-edit", "HEAD")
    assert fate(repository, sha).state == "merged"


def test_a_session_that_takes_its_own_commit_back_is_not_reverted(repository: Repository) -> None:
    sha = repository.commit("one")
    repository.git("revert", "--no-edit", sha)
    by = repository.git("rev-parse", "HEAD")
    assert fate(repository, sha, by, on="main").state == "open"


def test_one_commit_of_two_that_was_reverted_leaves_it_open(repository: Repository) -> None:
    shas = feature(repository, "one", "two")
    repository.git("merge", "-q", "--no-ff", "feature", "-m", "Merge it")
    repository.git("revert", "--no-edit", shas[0])
    assert fate(repository, *shas).state == "open"


def test_the_branch_of_the_remote_counts(repository: Repository, tmp_path: Path) -> None:
    repository.git("branch", "-m", "main", "trunk")
    clone = tmp_path / "clone"
    repository.git("clone", "-q", str(repository.folder), str(clone))
    assert (repository.folder / ".git").is_dir()
    found = read_branch(clone, SINCE)
    assert found is not None
    assert (found.name, len(found.commits)) == ("trunk", 1)


def test_git_runs_no_program_that_a_repository_names(repository: Repository) -> None:
    trap = repository.folder / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {repository.folder}/sprung\n")
    trap.chmod(0o755)
    (repository.folder / ".gitattributes").write_text("*.txt diff=trap\n")
    [sha] = feature(repository, "one")
    repository.git("cherry-pick", sha)
    for name in ("core.fsmonitor", "diff.external", "diff.trap.textconv", "diff.trap.command",
                 "core.pager", "gpg.program", "core.sshCommand"):  # fmt: skip
        repository.git("config", name, str(trap))
    repository.git("config", "log.showSignature", "true")
    made = [SessionCommit("0123456789", "one")]
    find_same_changes(repository.folder, [SessionCommit(sha, "one"), *made], repository.branch())
    assert not (repository.folder / "sprung").exists()


def test_a_folder_that_git_cannot_read_has_no_branch(tmp_path: Path) -> None:
    assert read_branch(tmp_path, SINCE) is None
    (tmp_path / ".git").mkdir()
    assert read_branch(tmp_path, SINCE) is None
    assert git_root(tmp_path / "gone") is None


def test_the_root_of_a_worktree_is_that_of_its_repository(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    below = tmp_path / "tree" / "src"
    below.mkdir()
    assert git_root(below) == repository.folder
    assert git_root(tmp_path) is None


# ── in a sync ─────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with closing(open_store(config.load().store)) as made:
        yield made


def record_commit(home: Path, repository: Repository, sha: str) -> str:
    """Log a session that makes this commit; return its uid."""
    subject = repository.git("log", "-1", "--format=%s", sha)
    call = {
        "type": "tool_use",
        "id": "c1",
        "name": "bash",
        "input": {"command": "git commit -am x"},
    }
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": f"[feature {sha[:7]}] {subject}\n 1 file changed",
    }
    session = SessionStore(home / ".runlore" / "live").create(cwd=str(repository.folder))
    session.append({"role": "user", "content": "add one"})
    session.append({"role": "assistant", "content": [call]})
    session.append({"role": "user", "content": [result]})
    session.close()
    return f"runlore:{session.id}"


def sync(store: Store) -> None:
    pipeline.sync(store, config.load(), agents=["runlore"], quiet_s=LATER)


def stored(store: Store, uid: str) -> Session:
    found = store.sessions.get(uid)
    assert found is not None
    return found


def test_a_sync_asks_git_and_a_later_one_hears_of_the_merge(
    home: Path, store: Store, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    [sha] = feature(repository, "one")
    uid = record_commit(home, repository, sha)
    sync(store)
    assert (stored(store, uid).git_state, stored(store, uid).outcome) == ("open", "unknown")
    repository.git("merge", "-q", "--no-ff", "feature", "-m", "Merge it")
    sync(store)
    assert stored(store, uid).git_state == "open", "it was asked today"
    monkeypatch.setattr(pipeline, "GIT_PAUSE", timedelta(0))
    sync(store)
    merged = stored(store, uid)
    assert (merged.outcome, merged.outcome_level, merged.outcome_by) == (
        "success",
        "verified",
        "merged",
    )
    assert merged.outcome_evidence == f"commit {sha[:10]} is on main"
    [line] = store.sessions.select(Filter(outcome="success"))
    assert (line.uid, line.outcome_by) == (uid, "merged")
    repository.git("revert", "--no-edit", "-m", "1", "HEAD")
    sync(store)
    assert (stored(store, uid).outcome, stored(store, uid).outcome_by) == ("fail", "reverted")


def test_a_repository_that_is_gone_is_not_asked_every_time(
    home: Path, store: Store, repository: Repository
) -> None:
    uid = record_commit(home, repository, repository.commit("one"))
    repository.folder.rename(repository.folder.with_name("moved"))
    sync(store)
    assert stored(store, uid).git_state == "open"
    now = datetime.now(UTC)
    assert store.digests.committed(now - timedelta(days=1), now - timedelta(days=30)) == []


def test_a_session_without_commits_asks_nothing(home: Path, store: Store) -> None:
    session = SessionStore(home / ".runlore" / "live").create(cwd=str(home))
    session.append({"role": "user", "content": "hello"})
    session.close()
    sync(store)
    assert stored(store, f"runlore:{session.id}").git_state is None
