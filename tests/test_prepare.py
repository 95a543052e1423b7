"""What a worker makes of a part of a source, beyond what the fixtures of adapters show."""

from runlore.prepare import _followed


def test_records_without_events_lead_to_the_event_at_the_end_of_their_chain() -> None:
    assert _followed({"c": "b", "b": "a", "z": None, "y": "z", "d": "c"}) == {"c": "a", "b": "a", "z": None, "y": None, "d": "a"}


def test_what_leads_back_to_itself_leads_nowhere() -> None:
    assert _followed({"a": "b", "b": "c", "c": "a", "d": "a", "e": "e", "f": "g"}) == {**dict.fromkeys("abcde"), "f": "g"}


def test_a_long_chain_is_gone_along_once() -> None:
    class Counting(dict[str, str | None]):
        asked = 0

        def __getitem__(self, key: str) -> str | None:
            self.asked += 1
            return super().__getitem__(key)

    chain = Counting({f"{n + 1}": f"{n}" for n in range(50_000)})
    assert set(_followed(chain).values()) == {"0"}
    assert chain.asked == 50_000
