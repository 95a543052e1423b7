"""The files of a task or a session, and whether they are still the same."""

from __future__ import annotations

import os
from hashlib import blake2b

from .. import Source
from ..shared.jsonl import MAX_RECORD_BYTES, read_up_to

MESSAGES, COMPACTION = ".messages.json", ".compaction.json"
HISTORY = "api_conversation_history.json"
MAX_COMPACTIONS = 16  # Files beside a session.


def identity(source: Source) -> tuple[bytes, bytes]:
    """Return two hashes that change with the documents. Raises OSError."""
    hashes = []
    for path in paths_of(source):
        with open(path, "rb") as file:
            hashes.append(blake2b(read_up_to(MAX_RECORD_BYTES, file), digest_size=16).digest())
    return hashes[0], blake2b(b"".join(hashes), digest_size=16).digest()


def paths_of(source: Source) -> list[str]:
    """The files that records are made of."""
    folder, name = os.path.split(source.path)
    if name.endswith(MESSAGES):
        more = sorted(file for file in os.listdir(folder) if file.endswith(COMPACTION))[
            :MAX_COMPACTIONS
        ]
    else:
        more = (
            [HISTORY] if name != HISTORY and os.path.isfile(os.path.join(folder, HISTORY)) else []
        )
    return [source.path, *(os.path.join(folder, file) for file in more)]
