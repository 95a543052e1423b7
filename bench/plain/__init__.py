"""A second, plain count of what agents' files hold, to compare with what runlore shows.

One module for each agent reads its raw files with `json`, `sqlite3` and `re`, and yields for each
session how many prompts, replies, tool calls, tool results and tokens there are. Nothing is shared
with `runlore.adapters`: two counts that agree were reached in two ways. `python -m bench.plain`
compares them on a corpus (see `__main__.py`).
"""
