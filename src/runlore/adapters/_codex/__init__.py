"""What the adapter for Codex needs to read a rollout, and not to find one: imported when there is something to read."""
