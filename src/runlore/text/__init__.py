"""Text for people and models: made harmless, counted in tokens, numbers and times in words.

Nothing here knows a session or the store.
"""
