"""Sync: the journey from the agents' transcripts into the store.

    discover  find the sources of all agents
    plan      compare them with what is stored: what is new, grown, rewritten, moved, missing
    ingest    read what is new and put it, in `workers` when there is much to read
    digests   summarize the sessions that came to rest

`pipeline` has the journey in one function. `prepare` is the work of one worker: it reads,
normalizes and redacts a part of a source, and packs it into rows and segments. `places` finds the
repository and the task of a session. `billing` merges its API calls with the ledger and prices
them.

Nothing here knows an agent's format, a database, or how progress is shown.
"""
