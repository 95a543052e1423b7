"""The signature of an error line: the template for people, the fingerprint for everything else."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from . import FINGERPRINT_VERSION, Signature
from .error_forms import ErrorLine
from .templates import build_key, build_template
from .text import truncate

MAX_TEMPLATE_CHARS = 240
"""Applied to the masked line, because the length of the printed line depends on the length of
paths."""
MAX_SAMPLE_CHARS = 200
MAX_NAME_CHARS = 80
_PREFIX = re.compile(
    r"(?i)(?:[^\w<'\"`]{0,3}(?:npm err!|error|err|fatal|failure|exception"
    r"|apply_patch verification failed)[:!\]]?[\s:]+){1,3}"
)
"""The words that say only that a message is an error."""


@lru_cache(maxsize=256)  # An error recurs until it is fixed.
def build_signature(line: ErrorLine) -> Signature:
    """Return the signature of an error line.

    The kind is not part of the fingerprint: the same line may be found in several ways. Neither are
    letter case, words like `error:` before the message, and the assertion of a failed test.
    """
    template = truncate(build_template(line.message), MAX_TEMPLATE_CHARS)
    name = "" if line.name == "Error" else line.name
    key = f"v{FINGERPRINT_VERSION}\0{name}\0{build_key(_PREFIX.sub('', template))}".lower()
    if line.detail:
        template = truncate(f"{template}: {build_template(line.detail)}", MAX_TEMPLATE_CHARS)
    return Signature(
        fingerprint=sha256(key.encode("utf-8", "replace")).hexdigest()[:16],
        kind=line.kind,
        name=truncate(line.name, MAX_NAME_CHARS),
        template=template,
        sample=truncate(" ".join(line.text.split()), MAX_SAMPLE_CHARS),
    )
