"""The command line: one file for each command, which is imported when the command is used.

A command parses and prints; what it prints is known by `query` and `pipeline`. Data goes to stdout,
all else to stderr.
"""

from ._group import cli as cli
