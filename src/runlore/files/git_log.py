"""The fate of commits: on the default branch of their repository, or reverted there.

This runs git, which only reads: no hook, no program that a configuration names, no network, and
within a time limit. Everything behind `read_branch` is pure.
"""

from __future__ import annotations

import os
import re
import subprocess
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path

import msgspec

TIMEOUT_S = 5.0
MAX_COMMITS = 20_000
MAX_COMPARED = 40
"""Commits whose changes are compared, for each repository."""

_SAFE = (
    "--no-pager", "--no-optional-locks", "--no-replace-objects",
    "-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never",
    "-c", "log.showSignature=false", "-c", "safe.bareRepository=explicit",
)  # fmt: skip
_CANDIDATES = (
    "refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master",
    "refs/heads/main", "refs/heads/master",
)  # fmt: skip
_REVERTS = re.compile(r"\bThis reverts commit ([0-9a-f]{7,40})\b")
_NUMBER = re.compile(r" \(#\d{1,9}\)\Z")
"""What a code host adds to the subject when it squashes a pull request."""


class BranchCommit(msgspec.Struct, frozen=True, gc=False):
    """A commit on the default branch."""

    sha: str
    parents: tuple[str, ...]
    subject: str
    body: str


class Branch(msgspec.Struct, frozen=True, dict=True):
    """The default branch of a repository: its name, and its commits since a time, newest first."""

    name: str
    tips: tuple[str, ...]
    commits: tuple[BranchCommit, ...]

    @cached_property
    def by_sha(self) -> dict[str, BranchCommit]:
        return {commit.sha: commit for commit in self.commits}

    @cached_property
    def first_parents(self) -> frozenset[str]:
        """The commits that were made on the branch itself, or that it was moved forward to."""
        line: set[str] = set()
        for tip in self.tips:
            sha: str | None = tip
            while sha in self.by_sha and sha not in line:
                line.add(sha)
                sha = next(iter(self.by_sha[sha].parents), None)
        return frozenset(line)

    @cached_property
    def reverted_by(self) -> dict[str, str]:
        """By commit, the one that reverted it. A revert that was reverted does not count."""
        targets: dict[str, str] = {}
        for commit in self.commits:  # Newest first, so that a revert of a revert comes before it.
            if commit.sha in targets:
                continue
            for name in _REVERTS.findall(commit.body):
                for sha in self.find(name):
                    targets[sha] = commit.sha
                    targets.update(dict.fromkeys(self._brought_by(sha), commit.sha))
        return targets

    def find(self, name: str) -> list[str]:
        """Return the commits whose full name begins like this; several if it is ambiguous."""
        first = bisect_left(self._names, name)
        last = bisect_left(self._names, f"{name}g")
        return self._names[first:last]

    def find_subject(self, subject: str) -> list[str]:
        """Return the commits with this subject, as a squash or a cherry-pick leaves it."""
        return self._by_subject.get(subject, [])

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self.by_sha)

    @cached_property
    def _by_subject(self) -> dict[str, list[str]]:
        shas: dict[str, list[str]] = {}
        for commit in self.commits:
            shas.setdefault(_NUMBER.sub("", commit.subject), []).append(commit.sha)
        return shas

    def _brought_by(self, merge: str) -> Iterator[str]:
        """Yield the commits that a merge brought to the branch."""
        waiting = list(self.by_sha[merge].parents[1:])
        visited: set[str] = set()
        while waiting:
            sha = waiting.pop()
            if sha in self.by_sha and sha not in self.first_parents and sha not in visited:
                visited.add(sha)
                waiting.extend(self.by_sha[sha].parents)
        yield from visited


class SessionCommit(msgspec.Struct, frozen=True):
    """A commit as a session reported it."""

    sha: str
    subject: str


class Fate(msgspec.Struct, frozen=True):
    """The state of a session's commits in git (open, merged or reverted), and its evidence."""

    state: str
    note: str | None = None


def judge_commits(
    made: Sequence[SessionCommit], on: str | None, branch: Branch, same: dict[str, str]
) -> Fate:
    """Return the fate of a session's commits, in the order in which it made them.

    `on` is the branch that the session worked on. `same` has the commits of the default branch that
    make the same change as one of the session's. A commit that the session made on the default
    branch itself was merged by nobody.
    """
    landed = _find_landed(made, branch, same)
    reverts = _find_reverts(made, landed, branch)
    if landed and len(reverts) == len(set(landed.values())):
        sha, by = next(iter(reverts.items()))
        return Fate("reverted", f"commit {sha[:10]} was reverted by {by[:10]}")
    last = landed.get(made[-1].sha) if made else None
    if last is None or reverts:
        return Fate("open")
    is_merged = (
        made[-1].sha in same
        or last not in branch.first_parents
        or (on is not None and on != branch.name)
    )
    return Fate("merged", f"commit {last[:10]} is on {branch.name}") if is_merged else Fate("open")


def _find_landed(
    made: Sequence[SessionCommit], branch: Branch, same: dict[str, str]
) -> dict[str, str]:
    """Return the commits that are on the branch, by those of the session."""
    landed: dict[str, str] = {}
    for commit in made:
        matches = branch.find(commit.sha)
        if len(matches) == 1:
            landed[commit.sha] = matches[0]
        elif commit.sha in same:
            landed[commit.sha] = same[commit.sha]
    return landed


def _find_reverts(
    made: Sequence[SessionCommit], landed: dict[str, str], branch: Branch
) -> dict[str, str]:
    """Return what reverts the commits on the branch. The session's own reverts do not count."""
    own = {sha for commit in made for sha in branch.find(commit.sha)}
    return {
        sha: by for sha in landed.values() if (by := branch.reverted_by.get(sha)) and by not in own
    }


def read_branch(root: Path, since: datetime) -> Branch | None:
    """Return the default branch of a repository with its commits since then; None without one."""
    listed = _git(
        root, "for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)", *_CANDIDATES
    )
    refs = {}
    for line in (listed or "").splitlines():
        name, sha, target = line.split("\0")
        refs[name] = (sha, target)
    head = refs.get("refs/remotes/origin/HEAD", ("", ""))[1]
    first = head or next((name for name in _CANDIDATES[1:] if name in refs), "")
    name = first.removeprefix("refs/remotes/origin/").removeprefix("refs/heads/")
    tips = {sha for ref, (sha, _) in refs.items() if ref.endswith(f"/{name}") or ref == first}
    if head:
        tips.add(refs["refs/remotes/origin/HEAD"][0])
    if not name or not tips:
        return None
    log = _git(
        root,
        "log",
        "--format=%H%x00%P%x00%s%x00%b%x00%x01",
        f"--since={since.isoformat()}",
        f"--max-count={MAX_COMMITS}",
        *sorted(tips),
        "--",
    )
    return None if log is None else Branch(name, tuple(sorted(tips)), tuple(_parse_log(log)))


def _parse_log(log: str) -> Iterator[BranchCommit]:
    for entry in log.split("\0\x01"):
        parts = entry.lstrip("\n").split("\0")
        if len(parts) == 4:
            sha, parents, subject, body = parts
            yield BranchCommit(sha, tuple(parents.split()), subject, body)


def find_same_changes(root: Path, made: Iterable[SessionCommit], branch: Branch) -> dict[str, str]:
    """Return the commits of the branch that make the same change as one of these, by its name.

    Those with the same subject are compared by patch id, which git computes from the change alone.
    """
    pairs = [
        (commit.sha, sha)
        for commit in made
        if commit.subject and not branch.find(commit.sha)
        for sha in branch.find_subject(commit.subject)
    ][:MAX_COMPARED]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    known = _git(root, "cat-file", "--batch-check=%(objectname) %(objecttype)", given=names)
    full = {
        name: line.split()[0]
        for name, line in zip(names, (known or "").splitlines(), strict=False)
        if line.endswith(" commit")
    }
    patches = _git(
        root,
        "diff-tree",
        "--stdin",
        "--root",
        "-p",
        "--no-ext-diff",
        "--no-textconv",
        given=full.values(),
    )
    ids = _git(root, "patch-id", "--stable", given=(patches or "").split("\n"))
    patch_of = {sha: patch for patch, sha in map(str.split, (ids or "").splitlines())}
    return {
        own: sha
        for own, sha in pairs
        if own in full and patch_of.get(full[own], "-") == patch_of.get(full.get(sha, ""))
    }


def _git(root: Path, *words: str, given: Iterable[str] | None = None) -> str | None:
    """Return what git prints; None if it fails, takes too long, or is not there."""
    lines = None if given is None else "\n".join(given)
    if lines is not None and not lines.strip():
        return None
    try:
        done = subprocess.run(
            ("git", *_SAFE, "-C", str(root), *words),
            input=None if lines is None else f"{lines}\n".encode(),
            stdin=subprocess.DEVNULL if lines is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            env=_environment(),
            check=False,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _environment() -> dict[str, str]:
    """Return the environment without what would send git elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
