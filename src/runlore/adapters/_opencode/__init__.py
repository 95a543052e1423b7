"""Understands opencode's sessions: where they are kept (`database`, `tree`), and what they say
(`reader`, `words`)."""
