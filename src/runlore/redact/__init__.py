"""Secrets leave before anything is stored: rules, the engine that applies them, and its key.

`engine` searches and replaces. `rules` holds tokens recognized by their form, `assigned` values
recognized by their name, `sentences` passwords that a sentence names, `blocks` secrets of many
lines. `views` are other ways to read a text: without terminal codes, decoded, with lines joined.
Nothing here knows an agent or the store.
"""
