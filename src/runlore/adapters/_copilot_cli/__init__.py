"""What the files of GitHub Copilot CLI mean. See `copilot_cli.py` for the traps."""
