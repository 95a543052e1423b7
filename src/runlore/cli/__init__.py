"""The command line. Commands are in `commands/`; the other modules are what they share.

A command parses and prints; what it prints is computed elsewhere. It names the struct that it
prints as JSON in `@as_json`. Data goes to stdout, all else to stderr.
"""

from .group import cli as cli
