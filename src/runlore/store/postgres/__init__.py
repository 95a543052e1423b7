"""The store in a PostgreSQL database, for the sessions of a team.

Many machines write to it, and each says whose sessions they are. What both databases can say is in
the package `sql`; here is what only PostgreSQL says. `store.py` puts the parts together.
"""
