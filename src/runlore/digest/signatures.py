"""From a line to what it is called: the template for people, the fingerprint for everything else."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from . import FINGERPRINT_VERSION, Signature
from .error_forms import Line
from .templates import key_of, template_of
from .text import cut

LONGEST_TEMPLATE = 240
"""Of the masked line, and so of what identifies it: where the line itself was cut depends on the length of paths."""
LONGEST_SAMPLE = 200


@lru_cache(maxsize=256)  # An error comes again until it is fixed: two of five lines were met shortly before.
def sign(line: Line) -> Signature:
    """The kind is no part of the fingerprint: where the same line was found does not make it another error."""
    template = cut(template_of(line.message), LONGEST_TEMPLATE)
    key = f"v{FINGERPRINT_VERSION}\0{line.name}\0{key_of(template)}"
    return Signature(
        fingerprint=sha256(key.encode("utf-8", "replace")).hexdigest()[:16],
        kind=line.kind,
        name=cut(line.name, 80),
        template=template,
        sample=cut(" ".join(line.text.split()), LONGEST_SAMPLE),
    )
