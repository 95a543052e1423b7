"""Checkouts for tests, as far as runlore looks at one."""

from __future__ import annotations

from pathlib import Path


def checkout(folder: Path) -> Path:
    """The folder, as a checkout of acme/shop."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text(
        '[remote "origin"]\n\turl = git@example.com:acme/shop.git\n'
    )
    return folder
