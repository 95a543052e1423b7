"""Secrets leave before anything is stored: rules, the engine that applies them, and its key.

`engine` searches and replaces, `rules` holds tokens recognized by their form, `assigned` values
recognized by their name. Nothing here knows an agent or the store.
"""
