"""Ways for agents to call runlore: hooks for what happens in a session, and an MCP server.

An agent's adapter decides what is written into the agent's settings (`Integration`), and `files`
writes it.
"""
