"""What adapters are built of: readers for kinds of files, folds over records, and what calls of
tools mean. Knows no agent."""
