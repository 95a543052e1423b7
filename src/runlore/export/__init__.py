"""A session taken out of the store, one file for each format, and what all who show one share.

`outline.py` says what there is to show of a session and in which order, without its texts;
`markup.py` makes harmless HTML of a text; `markdown.py`, `jsonl.py` and `html.py` write. What they
write is redacted by the rules of today, whatever those of the sync were.
"""
