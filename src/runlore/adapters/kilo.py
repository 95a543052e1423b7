"""Kilo (CLI and extension since 2026-03): a fork of opencode that keeps the same database in a
folder of its own.

Learned from a session that its CLI 7.7.9 wrote: `session`, `message`, `part` and `event` are those
of opencode 1.18. Last checked 2026-11. The extension of before 2026-03, a fork of Cline, is not
read here.
"""

from . import opencode


class KiloAdapter(opencode.OpenCodeAdapter):
    name = "kilo"
    label = "Kilo"
    aliases = ("kilo-code",)
    roots = ("$XDG_DATA_HOME/kilo", "~/.local/share/kilo")
    stem = "kilo"
    command = "kilo"
    variable = "KILO_DB"


adapter = KiloAdapter()
