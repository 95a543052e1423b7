"""The store in one SQLite file, through apsw, which brings a current SQLite to every machine.

SQL that both databases understand is in the package `sql`; here is what only SQLite understands.
`store.py` puts the parts together.
"""
