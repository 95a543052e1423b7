"""blake2b, as `hashlib` has it, but without OpenSSL, which that loads for other hashes: 2 ms that every start would take."""

try:
    from _blake2 import blake2b
except ImportError:  # A Python of another make.
    from hashlib import blake2b

__all__ = ["blake2b"]
