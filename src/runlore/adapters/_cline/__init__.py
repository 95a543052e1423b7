"""What understands the documents of Cline and of its forks."""
