import random
import pytest
from runlore import doctor, pipeline
from tests.test_doctor import *  # noqa
from tests.test_doctor import store, root, config, content, failing

@pytest.mark.parametrize("seed", range(250))
def test_fuzz(store, config, seed):
    rnd = random.Random(seed)
    before = content(store)
    done = []
    for _ in range(rnd.choice([1, 1, 1, 3])):
        table = rnd.choice(["sessions", "sources", "streams", "events", "segments", "natives", "aliases", "records", "search_docsize", "search_data", "search_idx"])
        cols = [c for (c,) in store.rows(f"select name from pragma_table_info('{table}')")]
        what = rnd.choice(["delete", "set"])
        where = f"rowid" if table in ("sessions", "sources", "segments", "search_docsize", "search_data") else None
        keys = {"streams": "session, block", "events": "session, seq", "natives": "hash, session", "aliases": "source, hash", "records": "source, first", "search_idx": "segid, term"}
        key = where or f"({keys[table]})"
        k = where or keys[table]
        cond = f"where {key} = (select {k} from {table} order by {k} limit 1 offset abs({rnd.randrange(1000)}) % (select max(1, count(*)) from {table}))"
        if what == "delete":
            sql = f"delete from {table} {cond}"
        else:
            col = rnd.choice(cols)
            val = rnd.choice(["null", "-1", "0", "7", "99999999999", "x'c1'", "x''", "'text'", "1.5"])
            sql = f'update {table} set "{col}" = {val} {cond}'
        done.append(sql)
        try:
            store.db.execute(sql)
        except Exception as e:
            done.append(repr(e))
    print(done)
    report = doctor.examine(store, config, full=True)
    print(failing(report), report.repairs, report.hopeless, [c.problems for c in report.checks if not c.ok])
    report2 = doctor.examine(store, config, full=True, repair=True)
    print(report2.repaired, failing(report2), [c.problems for c in report2.checks if not c.ok])
    pipeline.sync(store, config)
    report3 = doctor.examine(store, config, full=True)
    print(failing(report3), [c.problems for c in report3.checks if not c.ok])
    for _ in range(2):
        if not report3.ok:
            doctor.examine(store, config, full=True, repair=True); pipeline.sync(store, config)
            report3 = doctor.examine(store, config, full=True)
    assert report3.ok or report3.hopeless
    if report3.ok:
        after = content(store)
        if after != before:
            diff = {k: (before.get(k), after.get(k)) for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
            raise AssertionError(f"content {str(diff)[:1500]}")
