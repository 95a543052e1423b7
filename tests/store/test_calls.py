"""API calls as rows, and back."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from runlore.model import Call
from runlore.store import LedgerCall
from runlore.store.calls import COLUMNS, from_row, to_row
from tests.test_ledger import calls

COPIES = COLUMNS.index("superseded")
same_key = calls.map(lambda call: msgspec.structs.replace(call, key="k1"))


@given(same_key, st.lists(same_key, max_size=4).map(tuple), st.booleans())
def test_a_call_comes_back_with_every_copy_as_it_was(
    call: Call, copies: tuple[Call, ...], is_composed: bool
) -> None:
    kept = LedgerCall(call=call, superseded=copies, is_composed=is_composed)
    assert from_row(call.session_uid, to_row(kept)) == kept


def test_of_a_copy_only_what_differs_is_kept() -> None:
    call = Call(key="msg_1", session_uid="a:1", model="m", request_id="r1", output_tokens=90)
    copies = (
        msgspec.structs.replace(call, output_tokens=8),
        msgspec.structs.replace(call, session_uid="a:2", model=None),
    )
    assert msgspec.msgpack.decode(to_row(LedgerCall(call=call, superseded=copies))[COPIES]) == [
        {8: 8},
        {0: "a:2", 4: None},
    ]
