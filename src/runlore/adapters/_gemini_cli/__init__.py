"""What understands the records of Gemini CLI, and what Qwen Code, which began as a fork of it,
still shares with it."""
