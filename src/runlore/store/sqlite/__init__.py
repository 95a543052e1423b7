"""The store in one SQLite file, through apsw, which brings its own current SQLite on every machine.

What both databases can say is in the package `sql`; here is what only SQLite says. `store.py` puts the
parts together.
"""
