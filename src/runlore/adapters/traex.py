"""TRAE CLI 2.0 (TraeX): a fork of Codex that writes the same rollouts to a folder of its own.

Learned from one of its transcripts (version 0.200.19) and from where others look for them. Last
checked 2026-08.
"""

from . import codex


class TraexAdapter(codex.CodexAdapter):
    name = "traex"
    label = "TRAE CLI"
    aliases = ("trae",)
    roots = ("$TRAEX_SESSIONS_DIR", "~/.trae/cli")
    command = None


adapter = TraexAdapter()
