"""Let the user's own agent phrase lessons, and check every word of them against the evidence.

An agent is given an error that several tasks got over: failing and working calls, the agents' own
words and how the sessions ended, each as an exhibit with an id (`questions`). It answers with JSON:
when, do and avoid, each with citations. Nothing of the answer is believed (`answers`): a citation
must name an exhibit and quote words that stand in it, what to do must cite calls that worked, and
every command or address must stand in the evidence. Unproven words are dropped. A second call
judges the rest. `agent` runs the command, `run` does all of it for a store, within a budget of
tokens a day. Off unless the user names a command.
"""
