"""What the adapter for Claude Code needs to read a transcript, and not to find one."""
