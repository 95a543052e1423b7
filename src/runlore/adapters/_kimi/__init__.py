"""What understands the logs of Kimi CLI and Kimi Code."""
