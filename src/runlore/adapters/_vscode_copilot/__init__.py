"""What the chat sessions of VS Code mean. See `vscode_copilot.py` for the traps."""
