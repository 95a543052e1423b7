"""Sessions on a PostgreSQL server: rows instead of lines, the server's clock instead of locks.

Knows tables and leases, not the meaning of records.
"""
