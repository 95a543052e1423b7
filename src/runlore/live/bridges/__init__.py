"""Bridges to agent frameworks: their own session protocols over the live log, one module each.

A module imports its framework, so each needs the extra of its name. Nothing outside imports them.
"""
