"""mycode (legibet): a folder for each session with `messages.jsonl`, to which is only appended, and
`meta.json`, which is written again.

Learned from what 0.3.2 (format 5) and 0.21.0 wrote, and from a description of the source of both.
Last checked 2026-11. The traps:

- No message has an id, and in format 5 none has a time either. A message is named by a hash of its
  content and of all messages before it: a session that was cleared and begun again has other names.
  The time of its beginning is in `meta.json`.
- A rewind names its place by an index into the list of messages as it was then. In format 5 a
  compaction left two messages in place of the whole list, later it is one item of the list like any
  other. The retracted messages are still in the file.
- A tool's result is `model_text` and `display_text` in format 5, and `output` later. Of an output
  of more than 5 MB the file beside the messages has all, and the result its end: up to 8 MB are
  read from the file.
- Format 5 closes calls whose results never came when it loads a session, at the end of the file.
  Later versions write nothing.
- Format 5 has the tokens with the provider's names. Later `input_tokens` includes the tokens that
  were read from and written to the cache.
- A request that failed before its first token leaves a prompt without an answer; attempts are not
  recorded.
- After a crash the next message is glued to the one that was cut off.
- Sessions of the SDK have no `meta.json`, and lie in a folder that its user chose; `lock` is empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...model import Session
from .. import Position, Record, Source
from ..shared.jsonl import JsonlAdapter, read_small

NAME = "messages.jsonl"
ABOUT = "meta.json"
ABOUT_BYTES = 1 << 20
OUTPUT_BYTES = 8 << 20
OUTPUTS = 16  # Of one line.
_ANSWERED = re.compile(rb'"tool_use_id"\s*:\s*"([A-Za-z0-9_-]{1,200})"')


class MycodeAdapter(JsonlAdapter):
    name = "mycode"
    label = "mycode"
    version = 2
    blob_mark = b'"data"'
    reader = "runlore.adapters.mycode.reader"
    roots = ("$MYCODE_HOME/sessions", "~/.mycode/sessions")
    lacks = ("git branch", "times of messages in format 5", "retries")
    suffix = NAME
    markers = (b'"tool_use_id"',)

    def discover(self, root: Path) -> Iterator[Source]:
        return (
            source for source in super().discover(root) if os.path.basename(source.path) == NAME
        )

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        if since is not None:  # Every time: a title may have come since.
            yield from self.sidecars(source)
        yield from super().read(source, since)

    def sidecars(self, source: Source) -> Iterable[Record]:
        data = read_small(os.path.join(os.path.dirname(source.path), ABOUT), ABOUT_BYTES)
        return [] if data is None else [Record(data, -1, ABOUT)]

    def sidecars_of_line(self, source: Source, line: bytes) -> Iterable[Record]:
        """Yield the whole outputs of which the line has the end. Only ids that cannot be a path are
        read from the line."""
        folder = os.path.join(os.path.dirname(source.path), "tool-output")
        names = dict.fromkeys(name.decode() for name in _ANSWERED.findall(line))
        for name in list(names)[:OUTPUTS]:
            data = read_small(os.path.join(folder, f"bash-{name}.log"), OUTPUT_BYTES)
            if data is not None:
                yield Record(data, -1, f"output:{name}")

    def resume(self, session: Session) -> list[str] | None:
        return ["mycode", "--session", session.native_session_id]


adapter = MycodeAdapter()
