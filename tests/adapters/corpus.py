"""Helpers of tests over samples of real transcripts, which lie in a folder beside the repository.

Samples come and go, so a test states what holds for every file, not how many files there are. A
test whose folder is missing is skipped. A folder without a session is a mistake, and the test
fails.
"""

import os
import shutil
from pathlib import Path

import pytest

from runlore.adapters import Adapter, Normalized, Record, Source

SHARED = Path(__file__).parents[3] / "shared"
CORPUS = SHARED / "corpus"
NEWER = SHARED / "corpus-2"
"""Samples that came later, in the same arrangement."""

Everything = list[tuple[Source, list[Record], Normalized]]


def needs(*folders: Path) -> pytest.MarkDecorator:
    """Return a mark that skips a test unless all folders are there, and names those that are
    not."""
    missing = [str(folder.relative_to(SHARED.parent)) for folder in folders if not folder.is_dir()]
    return pytest.mark.skipif(bool(missing), reason=f"no samples here: {', '.join(missing)}")


def skip_unless_there(folder: Path) -> Path:
    """Return the folder, or skip the test that asks for it."""
    if not folder.is_dir():
        pytest.skip(f"no samples here: {folder.relative_to(SHARED.parent)}")
    return folder


def read_all(adapter: Adapter, root: Path) -> Everything:
    """Read and normalize every source below a folder. There must be one."""
    sources = [(source, list(adapter.read(source, None))) for source in adapter.discover(root)]
    assert sources, f"no source of {adapter.name} below {root}"
    return [
        (source, records, adapter.normalize(source, records, None)) for source, records in sources
    ]


def unread(root: Path, everything: Everything) -> list[Path]:
    """Return the files below a folder that are no source."""
    sources = {Path(source.path) for source, _, _ in everything}
    return sorted(path for path in root.rglob("*") if path.is_file() and path not in sources)


def aged_copy(root: Path, to: Path) -> Path:
    """Copy a folder with old modification times.

    Adapters may hold back the end of a file that was just written, and files of a checkout are new.
    """
    shutil.copytree(root, to, copy_function=shutil.copyfile)
    for path in to.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return to
