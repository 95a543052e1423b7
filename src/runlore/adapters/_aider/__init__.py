"""What understands the history that aider keeps of a repository."""
