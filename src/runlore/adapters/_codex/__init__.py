"""What the adapter for Codex needs to read a rollout, and not to find one."""
