"""One module for each command, which has its name. Its first line is the first line of its help."""
