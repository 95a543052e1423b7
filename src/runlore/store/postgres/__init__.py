"""The store in a PostgreSQL database, for the sessions of a team.

Many machines write to it, and each says whose sessions they are. SQL that both databases understand
is in the package `sql`; here is what only PostgreSQL understands. `store.py` puts the parts
together.
"""
