"""Retention: `policy` decides which sessions may leave Tier 1, `evict` lets them go.

Nothing leaves by itself, and nothing leaves that a digest does not cover.
"""
