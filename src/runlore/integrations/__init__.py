"""Ways for agents to call runlore: hooks for what happens in a session, and an MCP server.

What is written into an agent's settings is decided by its adapter (`Integration`) and done by
`files`.
"""
