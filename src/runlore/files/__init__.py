"""Files of others, changed with care: settings in JSON with comments and TOML, locks, git remotes.

Nothing here knows an agent, a session or the store.
"""
