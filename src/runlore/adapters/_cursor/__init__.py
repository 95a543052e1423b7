"""What the stores of Cursor hold. See `cursor.py` for the traps."""
