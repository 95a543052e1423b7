"""Prices and the ledger: what a token of a model cost at a time, and which copy of a call counts.

Nothing here knows the store; `sync.billing` brings both together.
"""
