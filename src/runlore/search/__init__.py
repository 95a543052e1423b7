"""Search: one ranked index over everything that was said and done. The same for every store.

A database only answers which segments have a word (`Store.postings`). Here a query is read
(`syntax.py`), the answers are intersected by session and scored (`ranked.py`), and the segments of
the sessions that are shown are unpacked, where the events, the snippets and the proof of phrases
and filters are found (`text.py`). `scan.py` is for regular expressions, which no index helps, and
`advice.py` for those who found nothing.

    word  "a phrase"  begin*        every one of them, in any chosen event of a session
    a OR b                          one of the two neighbours
    -word                           not in an event that has it
    agent: repo: cwd: branch: model: after: before: session:      which sessions
    tool: kind: is:error file:                                    which events; file: is the end of a path, * and ? in it
"""

from .advice import blame, remarks
from .ranked import search
from .scan import regex
from .syntax import Query, QueryError, parse
from .text import SNIPPET, Answer, EventHit, Hit

__all__ = [
    "SNIPPET",
    "Answer",
    "EventHit",
    "Hit",
    "Query",
    "QueryError",
    "blame",
    "parse",
    "regex",
    "remarks",
    "search",
]
