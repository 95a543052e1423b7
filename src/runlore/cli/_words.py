"""Numbers, sizes and times in the words of people, as the other faces say them."""

from .._words import ago as ago
from .._words import brief as brief
from .._words import count as count
from .._words import duration as duration
from .._words import local as local
from .._words import short as short
from .._words import size as size
