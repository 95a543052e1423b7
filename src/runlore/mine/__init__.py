"""Recurring problems in the sessions of a store, and what helped.

Mining has three steps. A miner reports what it notices in one session as a `Signal`. `patterns`
groups signals of several sessions into a `Pattern`. A miner that knows a solution turns patterns
about the same subject into a `Draft` of a lesson. Each miner is one file in `signals/`; its
functions are pure and see digests only. `cases` and `known_errors` read a store.

Nothing here writes, knows an agent's name or looks at a clock. Patterns are not stored: digests
are, and patterns follow from them.
"""
