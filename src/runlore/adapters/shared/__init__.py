"""Parts that adapters are built of: readers for kinds of files, folds over records, and the
meaning of calls of tools. Knows no agent."""
