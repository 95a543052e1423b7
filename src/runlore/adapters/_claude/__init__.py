"""What the adapter for Claude Code needs to read a transcript, and not to find one: imported when there is something to read."""
