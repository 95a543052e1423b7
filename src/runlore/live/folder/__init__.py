"""Sessions in a folder: one log of JSON lines for each, with a lock for writers.

Knows lines, files and locks, not the meaning of records.
"""
