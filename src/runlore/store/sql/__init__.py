"""The parts of a store in SQL that both databases understand.

`database.py` is what each part is given: statements, transactions, and where the dialects differ.
The packages `sqlite` and `postgres` derive from these classes what only one of them can say.
"""
