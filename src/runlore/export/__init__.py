"""Export of a session, one file for each format, and the parts that every view of a session shares.

`selection.py` chooses the part to export and redacts it by the current rules, whatever those of the
sync were. `outline.py` lists what there is to show of a session, in order and without texts.
`markup.py` turns text into safe HTML. `markdown.py`, `jsonl.py` and `html.py` write the formats;
`retro.py` writes the retrospective.
"""
