"""Sheets for a judge: what runlore claims about sessions, with the context to check it.

    python -m bench.learning.sheets errors --store judging.db --sample 110 --seed 1 > errors.jsonl
    python -m bench.learning.sheets fixes --store judging.db --sample 80 --seed 1 > fixes.jsonl
    python -m bench.learning.sheets prompts --store judging.db --sample 300 --seed 1 > prompts.jsonl
    python -m bench.learning.sheets corrections --store judging.db --sample 120 > corrections.jsonl
    python -m bench.learning.sheets digests --store judging.db --sample 20 --seed 1 > digests.jsonl
    python -m bench.learning.sheets files --store judging.db --sample 80 --seed 1 > files.jsonl
    python -m bench.learning.sheets pairs --store judging.db --sample 60 --seed 1 > pairs.jsonl
    python -m bench.learning.sheets fixes --labelled DIR/labelled --sample 60 > labelled.jsonl
    python -m bench.learning.sheets injected --store judging.db --sample 120 > injected.jsonl
    python -m bench.learning.sheets fixes --store whole.db --labelled DIR/labelled --fresh \\
        --sample 100 --seed 71 > fixes.jsonl

With `--fresh` only sessions count that no committed verdict names, of both halves. Each line is a
JSON object with an `id` (uid#seq, and the beginning of an error's fingerprint) and the text that a
judge needs; `paper` makes a page of it. At most three claims are drawn from one family of sessions,
so that none outweighs the others. Whether a prompt is claimed to be a correction, and how confident
a fix is, is not on the sheet: `score` looks it up. Verdicts are written by hand as lines of `id`,
verdict and a note, divided by tabs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from bench._labelled import sweagent, vorflux
from runlore import open_store, timeline
from runlore.config import Config
from runlore.digest.command_files import changed_files
from runlore.digest.session import make
from runlore.model import Digest, Session, SessionEvent
from runlore.query.digests import build_digest
from runlore.query.subagents import find_pairs
from runlore.store import Filter, Store

MAX_PER_SESSION = 3
MAX_TEXT, MAX_STEP_TEXT, MAX_STEPS = 3_000, 400, 60
"""Characters of a text that matters, and of one beside it; events between an error and its fix."""

Claim = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=SHEETS)
    add_sources(parser)
    parser.add_argument("--sample", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--without",
        type=Path,
        action="append",
        default=[],
        help="verdicts or sheets whose claims are left out",
    )
    parser.add_argument(
        "--per-session", type=int, default=MAX_PER_SESSION, help="claims of one session at most"
    )
    options = parser.parse_args()
    sessions = read_sources(options)
    judged = {claim for path in options.without for claim in read_ids(path)}
    per_session = options.per_session
    for claim in draw(sessions, options.what, options.sample, options.seed, judged, per_session):
        print(json.dumps(claim, ensure_ascii=False))


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which sessions are judged."""
    parser.add_argument("--store", type=Path, help="a store, such as judging.db")
    parser.add_argument(
        "--labelled", type=Path, help="labelled runs, of which the half held out is judged"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="only sessions that no committed verdict names"
    )


def read_sources(options: argparse.Namespace, *, all_runs: bool = False) -> Iterator[JudgedSession]:
    """Yield the sessions that the options name, with `all_runs` also labelled runs that are not
    held out."""
    named = find_named_sessions() if options.fresh else set() if all_runs else None
    if options.store:
        yield from read_sessions(open_store(str(options.store), read_only=True), named or set())
    if options.labelled:
        yield from read_labelled(options.labelled, named)


def find_named_sessions() -> set[str]:
    """Return the sessions that a committed verdict names."""
    files = Path(__file__).parent.glob("*.tsv")
    return {claim.rpartition("#")[0] for path in files for claim in read_ids(path)} - {""}


def read_ids(path: Path) -> set[str]:
    """Return the ids of claims in a file of verdicts, or in a sheet."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    if path.suffix == ".jsonl":
        return {json.loads(line)["id"] for line in lines}
    return {line.partition("\t")[0] for line in lines}


def draw(
    sessions: Iterable[JudgedSession],
    what: str,
    number: int,
    seed: int,
    judged: Set[str] = frozenset(),
    max_per_session: int = MAX_PER_SESSION,
) -> list[Claim]:
    """Return so many claims, chosen by the seed and at most a few from each session."""
    chosen = random.Random(seed)
    claims = [
        claim
        for session in sessions
        for claim in SHEETS[what](session)
        if claim["id"] not in judged
    ]
    chosen.shuffle(claims)
    per_session: Counter[str] = Counter()
    drawn: list[Claim] = []
    for claim in claims:
        uid = claim["id"].rpartition("#")[0]
        limit = max_per_session * (4 if what == "corrections" else 1)
        if per_session[uid] < limit and len(drawn) < number:
            per_session[uid] += 1
            drawn.append(claim)
    return drawn


class JudgedSession(msgspec.Struct):
    """A session with its events, their texts and the digest that the present rules make."""

    store: Store | None
    uid: str
    events: list[SessionEvent]
    bodies: dict[int, str]
    digest: Digest

    def text(self, seq: int, limit: int = MAX_TEXT) -> str:
        """Return the text of an event, its middle left out if it is too long."""
        body = self.bodies.get(seq, "")
        if len(body) <= limit:
            return body
        return f"{body[: limit // 2]}\n[… {len(body) - limit} characters …]\n{body[-limit // 2 :]}"

    def line(self, event: SessionEvent) -> str:
        """Return an event on a few lines: its number, kind and tool, exit code and text."""
        code = "" if event.exit_code is None else f" exit={event.exit_code}"
        error = " reported as error" if event.is_error else ""
        tool = f" {event.tool}" if event.tool else ""
        text = self.text(event.seq, MAX_STEP_TEXT) or event.summary or ""
        return f"#{event.seq} {event.kind}{tool}{code}{error}: {text}"


def read_sessions(store: Store, without: Set[str] = frozenset()) -> Iterator[JudgedSession]:
    """Yield all sessions that have something to judge, with digests made now."""
    config = Config(home=Path("."), store=store.url)
    for uid in sorted(set(store.sessions.uids(Filter(parents_only=False))) - without):
        digest = build_digest(store, uid, config.quality)
        if digest is None:
            continue
        events, bodies = store.digests.timeline(uid)
        yield JudgedSession(store, uid, list(timeline.in_order(events)), dict(bodies), digest)


def read_labelled(folder: Path, named: Set[str] | None = None) -> Iterator[JudgedSession]:
    """Yield the labelled runs that are held out, or those that are not named. They are in no
    store."""
    for run in chain(sweagent(folder / "sweagent"), vorflux(folder / "vorflux")):
        uid = run.events[0].session_uid if run.events else ""
        if uid and (run.is_held_out if named is None else uid not in named):
            agent, _, native_id = uid.partition(":")
            session = Session(session_uid=uid, flavor=agent, native_session_id=native_id)
            digest = make(session, run.events, run.bodies)
            yield JudgedSession(None, uid, run.events, run.bodies, digest)


def errors(session: JudgedSession) -> Iterator[Claim]:
    """Yield each error with the call and the result that it was read from."""
    by_seq = {event.seq: event for event in session.events}
    for error in session.digest.errors:
        result = by_seq.get(error.first_seq)
        if result is None:
            continue
        call = next(
            (
                event
                for event in session.events
                if event.is_call and event.call_id and event.call_id == result.call_id
            ),
            None,
        )
        yield {
            "id": f"{session.uid}#{error.first_seq}/{error.signature.fingerprint[:6]}",
            "claimed error": error.signature.sample,
            "shown as": error.signature.template,
            "call": session.line(call) if call else None,
            "result": session.line(result),
            "result text": session.text(error.first_seq),
        }


def fixes(session: JudgedSession) -> Iterator[Claim]:
    """Yield each fix that would be shown, with everything between the error and its end."""
    samples = {
        error.signature.fingerprint: error.signature.sample for error in session.digest.errors
    }
    for fix in session.digest.fixes:
        if not fix.is_shown or fix.fixed_seq is None:
            continue
        claim = msgspec.to_builtins(fix)
        claim.pop("confidence", None)
        between = [
            session.line(event)
            for event in session.events
            if _before(session, fix.failed_seq) <= event.seq <= fix.fixed_seq
        ]
        yield {
            "id": f"{session.uid}#{fix.failed_seq}/{fix.fingerprint[:6]}",
            "error": samples.get(fix.fingerprint, ""),
            "claimed fix": claim,
            "failing result": session.text(fix.failed_seq),
            "what happened": [*between[: MAX_STEPS // 2], *between[MAX_STEPS // 2 :][-MAX_STEPS:]],
            "later result": session.text(fix.fixed_seq),
        }


def _before(session: JudgedSession, seq: int) -> int:
    """Return the number of the call whose result has this number."""
    call_id = next((event.call_id for event in session.events if event.seq == seq), None)
    calls = [
        event.seq
        for event in session.events
        if event.is_call and call_id and event.call_id == call_id
    ]
    return min([*calls, seq])


def prompts(session: JudgedSession) -> Iterator[Claim]:
    """Yield each prompt after the first, with what the agent did and wrote before it."""
    previous: list[SessionEvent] = []
    is_first = True
    for event in session.events:
        if event.kind != "user_msg" and not timeline.is_prompt(event):
            previous.append(event)
            continue
        if not is_first and any(one.role == "assistant" for one in previous):
            yield {
                "id": f"{session.uid}#{event.seq}",
                "goal": session.digest.goal,
                "before": [session.line(one) for one in previous[-6:]],
                "prompt": session.text(event.seq, 1_500),
            }
        is_first, previous = False, []


def corrections(session: JudgedSession) -> Iterator[Claim]:
    """Yield the prompts that are claimed to be corrections, and as many others of the session."""
    claimed = {f"{session.uid}#{moment.seq}" for moment in session.digest.corrections}
    every = list(prompts(session))
    mine = [claim for claim in every if claim["id"] in claimed]
    others = [claim for claim in every if claim["id"] not in claimed]
    yield from mine
    yield from random.Random(session.uid).sample(others, min(len(others), len(mine)))


def digests(session: JudgedSession) -> Iterator[Claim]:
    """Yield the digest of a session in which something was done."""
    if MIN_EVENTS <= len(session.events) <= MAX_EVENTS and session.digest.quality == "real":
        digest = msgspec.to_builtins(session.digest)
        for name in ("excerpts", "version", "covers", "content_hash"):
            digest.pop(name, None)
        yield {
            "id": f"{session.uid}#{session.digest.covers.last_seq}",
            "digest": digest,
            "what happened": [session.line(event) for event in session.events],
        }


def files(session: JudgedSession) -> Iterator[Claim]:
    """Yield shell commands that may change a file, with the files that they are claimed to
    change."""
    for event in session.events:
        command = session.bodies.get(event.seq, "")
        if event.is_call and event.action == "shell" and WRITES.search(command):
            yield {
                "id": f"{session.uid}#{event.seq}",
                "command": session.text(event.seq),
                "claimed to change": changed_files(command),
            }


WRITES = re.compile(r"\b(?:sed|perl) -\w*i|\b(?:tee|mv|cp|rm|touch|patch|apply)\b|[^2&-]>(?![&=])")
"""What most commands have that change a file, and some that do not."""


def pairs(session: JudgedSession) -> Iterator[Claim]:
    """Yield subagents with the call that is claimed to have started them, and all other calls."""
    if session.store is None:
        return
    children = session.store.sessions.select(Filter(parent_uid=session.uid, parents_only=False))
    by_seq = {event.seq: event for event in session.events}
    calls = [event for event in session.events if event.is_call and event.action == "agent"]
    for pair in find_pairs(session.store, session.uid, timeline.pairs(session.events), children):
        yield {
            "id": f"{session.uid}#{pair.call}",
            "subagent": pair.uid,
            "its first prompt": (session.store.sessions.first_prompt(pair.uid) or "")[:MAX_TEXT],
            "claimed call": session.text(pair.call) if pair.call in by_seq else None,
            "other calls": [session.line(call) for call in calls if call.seq != pair.call],
        }


def injected(session: JudgedSession) -> Iterator[Claim]:
    """Yield texts that the model saw apart from replies and results. Who wrote them is not
    said."""
    for event in session.events:
        is_text = event.kind in ("user_msg", "lifecycle", "human_intervention")
        text = session.bodies.get(event.seq, "")
        if is_text and event.view in (None, "context") and len(text) >= MIN_TEXT:
            yield {
                "id": f"{session.uid}#{event.seq}",
                "text": session.text(event.seq, 1_000),
            }


MIN_EVENTS, MAX_EVENTS, MIN_TEXT = 20, 250, 40
SHEETS = {
    "errors": errors,
    "fixes": fixes,
    "prompts": prompts,
    "corrections": corrections,
    "digests": digests,
    "files": files,
    "pairs": pairs,
    "injected": injected,
}


if __name__ == "__main__":
    main()
