"""Values: what a session is, what happened in it, what it cost, and what stays of it.

Nothing here reads a file, opens a database or knows an agent's name.
"""

from .digest import DIGEST_VERSION as DIGEST_VERSION
from .digest import FINGERPRINT_VERSION as FINGERPRINT_VERSION
from .digest import SHOWN_FROM as SHOWN_FROM
from .digest import Commit as Commit
from .digest import Covers as Covers
from .digest import ErrorSeen as ErrorSeen
from .digest import Fix as Fix
from .digest import How as How
from .digest import Moment as Moment
from .digest import Ran as Ran
from .digest import Signature as Signature
from .digest import Step as Step
from .digest import Tested as Tested
from .digest import Told as Told
from .digest import Took as Took
from .digest import Touched as Touched
from .digest import Trend as Trend
from .digest import how_said as how_said
from .session import BLOCK as BLOCK
from .session import CALL_KINDS as CALL_KINDS
from .session import KINDS as KINDS
from .session import MAX_TOKENS as MAX_TOKENS
from .session import MAX_UNITS as MAX_UNITS
from .session import OUTCOMES as OUTCOMES
from .session import RELATIONS as RELATIONS
from .session import SCHEMA_VERSION as SCHEMA_VERSION
from .session import SUMMARY_LENGTH as SUMMARY_LENGTH
from .session import USD as USD
from .session import Call as Call
from .session import Cost as Cost
from .session import Digest as Digest
from .session import Kind as Kind
from .session import LogRecord as LogRecord
from .session import Outcome as Outcome
from .session import Relation as Relation
from .session import Session as Session
from .session import SessionEvent as SessionEvent
from .session import Tests as Tests
from .session import Tier as Tier
from .session import Usage as Usage
from .session import View as View
from .session import _Value as _Value
from .session import format_time as format_time
from .session import is_evictable as is_evictable
from .session import is_own as is_own
from .session import make_uid as make_uid
from .session import parse_time as parse_time
from .session import shorten as shorten
from .session import split_cache_writes as split_cache_writes
from .session import to_units as to_units
