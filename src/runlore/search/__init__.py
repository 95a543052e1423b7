"""Search: one ranked index over all texts of all sessions, the same for every store.

A database only returns the segments that have a word (`Store.postings`). `syntax.py` parses a
query. `ranked.py` intersects the postings (`postings.py`) by session and scores the sessions.
`text.py` unpacks the segments of the best ones to find events and snippets, and to prove phrases
and filters. A question or a sentence (`questions.py`) is answered by `by_passage.py`: words in all
their forms (`stems.py`) choose segments, and `passages.py` scores what stands in them. `scan.py`
searches with regular expressions, without an index. `related.py` finds sessions that are about the
same. `advice.py` helps when nothing matched.

    word  "a phrase"  begin*        every one of them, in any chosen event of a session
    a OR b                          one of the two neighbours
    -word                           not in an event that has it
    agent: repo: cwd: branch: model: after: before: session:      which sessions
    machine: author:                whose sessions
    tool: kind: is:error file:      which events; file: is the end of a path, * and ? in it
"""

from .advice import blame, remarks
from .ranked import search
from .related import Related, related
from .scan import regex
from .syntax import Query, QueryError, parse
from .text import SNIPPET_BYTES, Answer, EventHit, Hit, words_in

__all__ = [
    "SNIPPET_BYTES",
    "Answer",
    "EventHit",
    "Hit",
    "Query",
    "QueryError",
    "Related",
    "blame",
    "parse",
    "regex",
    "related",
    "remarks",
    "search",
    "words_in",
]
