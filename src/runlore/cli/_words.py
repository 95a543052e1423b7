"""Numbers, sizes and times in the words of people, as the other faces say them."""

from ..text.words import ago as ago
from ..text.words import brief as brief
from ..text.words import count as count
from ..text.words import duration as duration
from ..text.words import local as local
from ..text.words import short as short
from ..text.words import size as size
