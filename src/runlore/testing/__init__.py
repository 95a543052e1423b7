"""For people who write adapters or session stores: fixtures, and the promises that each keeps.

A fixture is a folder `<agent>/<case>/` with `root/`, the files that the agent left on disk, and
`expected.json`, the adapter's reading of them. The checks raise AssertionError with what is wrong;
none needs a store or a test runner.

    for fixture in iter_fixtures(Path("tests/adapters/fixtures")):
        check_law(fixture.adapter, fixture.root)

`run_store_conformance(factory)` kills, tears and damages any session store: see `docs/live.md`.
"""

from .adapter_checks import check_breakage, check_law, check_noise
from .fixtures import Fixture, derive, iter_fixtures
from .store_conformance import Check, StoreReport, run_store_conformance

__all__ = [
    "Check",
    "Fixture",
    "StoreReport",
    "check_breakage",
    "check_law",
    "check_noise",
    "derive",
    "iter_fixtures",
    "run_store_conformance",
]
